"""Connects the SDK to AWS, with clients and settings created at first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate, parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.aws.tries import SDK, Tries
from tidewheel.clock import Clock, SystemClock
from tidewheel.errors import InvalidValue, NotConfigured
from tidewheel.model.settings import NewTopicSettings, ServiceSettings, parameter_name, topic_defaults_in

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

    from tidewheel.storage.objects import Objects
    from tidewheel.storage.storage import Storage

T = TypeVar("T")

_CONNECTIONS = 50
_MOST_SKEW_S = 900
"""AWS refuses the requests of a machine whose clock is off by more."""


def is_http_url(text: str) -> bool:
    """Returns whether a text is a URL of HTTP or HTTPS with a host."""
    try:
        parts = urlsplit(text)
        return bool(
            parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and " " not in parts.netloc
        )
    except ValueError:  # of the host, or of the port
        return False


def check_endpoint(name: str, url: str | None) -> None:
    """Raises InvalidValue if an endpoint is given and is not a URL."""
    if url and not is_http_url(url):
        raise InvalidValue(name, url, "give a URL that starts with http:// or https://, such as http://localhost:4566")


class Connection:
    """The AWS clients of a stack. Several threads may use the same connection.

    Attributes:
        topic_defaults: settings of new topics in place of the defaults of TopicSettings. The SSM parameter may have
            some.
    """

    def __init__(
        self,
        stack: str,
        *,
        session: boto3.Session | None,
        settings: ServiceSettings | None,
        endpoint_url: str | None,
        storage: Storage | None = None,
        sqs: SQSClient | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_endpoint("endpoint_url", endpoint_url)
        self._stack, self._session, self._endpoint_url, self._clock = stack, session, endpoint_url, clock
        self._given_sqs = sqs
        self._lock = threading.RLock()
        given = {"settings": settings, "storage": storage, "objects": storage and storage.objects, "sqs": sqs}
        self.topic_defaults = NewTopicSettings()
        self._made: dict[str, Any] = {name: each for name, each in given.items() if each is not None}

    @classmethod
    def of(cls, settings: ServiceSettings, session: boto3.Session) -> Connection:
        """Creates the connection from known settings, for a function of the service."""
        return cls(settings.stack, session=session, settings=settings, endpoint_url=None)

    @property
    def stack(self) -> str:
        """The stack's name, taken from the settings if they were given."""
        given = self._made.get("settings")
        return given.stack if isinstance(given, ServiceSettings) else self._stack

    @property
    def settings(self) -> ServiceSettings:
        """The service's settings, read from the SSM parameter unless they were given.

        Raises:
            NotConfigured: the parameter does not exist.
            InvalidValue: the connection has the machine's clock, and the stack has virtual time.
        """
        return self._once("settings", self._read_settings)

    @property
    def storage(self) -> Storage:
        """The ports of stored state."""
        return self._once("storage", self._make_storage)

    @property
    def objects(self) -> Objects:
        """The objects in the stack's S3 bucket."""
        return self._once("objects", self._make_objects)

    @property
    def sqs(self) -> SQSClient:
        """The SQS client."""
        return cast("SQSClient", self.client("sqs"))

    @property
    def queues(self) -> SqsQueues:
        """The service's queues."""
        return SqsQueues.of(self.sqs, self.settings)

    def polling(self, wait_s: int) -> SQSClient:
        """Returns the SQS client for receives that wait so long for a message."""
        if wait_s == 0 or self._given_sqs is not None:
            return self.sqs
        tries = replace(SDK, read_s=SDK.read_s + wait_s)
        return cast("SQSClient", self._once(f"sqs {wait_s}", partial(self._make_client, "sqs", tries)))

    def _once(self, name: str, make: Callable[[], T]) -> T:
        found = self._made.get(name)
        if found is None:
            with self._lock:
                found = self._made.get(name)
                if found is None:
                    found = self._made[name] = make()
        return cast(T, found)

    def client(self, service: str) -> Any:
        """Returns the client of an AWS service."""
        return self._once(service, partial(self._make_client, service, SDK.for_objects if service == "s3" else SDK))

    def _make_client(self, service: str, tries: Tries) -> Any:
        if self._session is None:
            self._session = boto3.Session()
        config = tries.config(_CONNECTIONS, self._endpoint_url)
        # Settings that the caller gave to the session come first.
        core = getattr(self._session, "_session", None)  # not public: a session of the caller's own may have none
        given = getattr(core, "get_default_client_config", lambda: None)()
        if given is not None:
            config = config.merge(given)
        if service == "s3" and self._endpoint_url is not None:
            # An emulator's host has no subdomains.
            config = config.merge(Config(s3={"addressing_style": "path"}))
        # boto3's stubs have an overload for each service, with its name as a Literal.
        try:
            client = cast(Any, self._session).client(service, endpoint_url=self._endpoint_url, config=config)
        except ValueError as error:  # such as of AWS_ENDPOINT_URL_SSM
            raise NotConfigured(f"the AWS settings for {service} cannot be used: {error}") from error
        tries.watch(client, again=given is None or given.retries is None)
        return client

    def _make_storage(self) -> Storage:
        from tidewheel.storage.storage import Storage
        from tidewheel.storage.table import Table

        dynamodb = cast("DynamoDBClient", self.client("dynamodb"))
        return Storage(Table(dynamodb, self.settings.table), self.objects)

    def _make_objects(self) -> Objects:
        from tidewheel.aws.s3_objects import S3Objects

        return S3Objects(cast("S3Client", self.client("s3")), s3_bucket=self.settings.s3_bucket)

    def parameter(self, name: str) -> str:
        """Reads one of the stack's SSM parameters.

        Raises:
            NotConfigured: the parameter does not exist.
        """
        ssm = cast("SSMClient", self.client("ssm"))
        try:
            answer = ssm.get_parameter(Name=name)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ParameterNotFound":
                raise
            raise NotConfigured(
                f"no stack {self._stack!r} in region {ssm.meta.region_name} (no SSM parameter {name}): deploy it "
                "there, or correct the stack's name, the Region or the account; a program may also give "
                "settings=ServiceSettings(...)"
            ) from None
        if isinstance(self._clock, SystemClock):
            date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
            _check_time(date, self._clock.now_ms() / 1000)
        return answer["Parameter"]["Value"]

    def _read_settings(self) -> ServiceSettings:
        name = parameter_name(self._stack)
        found = self.parameter(name)
        settings = ServiceSettings.from_json(found, f"SSM parameter {name}")
        self.topic_defaults = topic_defaults_in(found)
        return settings


def _check_time(date: str | None, now_s: float) -> None:
    """Raises InvalidValue if an answer's time is not ours. All messages would come at wrong times."""
    if date is not None and abs(parsedate_to_datetime(date).timestamp() - now_s) > _MOST_SKEW_S:
        raise InvalidValue(
            "clock",
            formatdate(now_s, usegmt=True),
            f"the stack's time is {date}; with virtual time, take the client from stack.client(), or give "
            "session=stack.session or clock=stack.clock; for another process, open the stack with clock='real'; for "
            "`tidewheel dev`, set TIDEWHEEL_DEV=1",
        )
