"""Makes all AWS ports of the deployed service, once at cold start, and tells a clock the times in AWS's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from functools import partial
from threading import Lock, local
from typing import TYPE_CHECKING, Any, TypeVar, cast

import boto3
from botocore.config import Config

from tidewheel import deadline
from tidewheel.aws.runs import AwsRuns
from tidewheel.aws.s3_objects import S3Objects
from tidewheel.aws.scheduler_wheel import SchedulerWheel
from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.aws.tries import FUNCTION, HINT, Tries
from tidewheel.clock import Clock
from tidewheel.flows.ports import Parallel, Ports, in_order
from tidewheel.model.checked_clock import CheckedClock
from tidewheel.model.settings import ServiceSettings
from tidewheel.storage.table import Table

if TYPE_CHECKING:
    from botocore.hooks import BaseEventHooks


_T = TypeVar("_T")
_BEFORE = "tidewheel_before_ms"


class Service(Ports):
    """All ports on AWS.

    Attributes:
        settings: the deployment's settings.
    """

    settings: ServiceSettings

    @classmethod
    def of(
        cls,
        settings: ServiceSettings,
        session: boto3.session.Session,
        clock: Clock,
        *,
        endpoint_url: str | None = None,
        tries: Tries = FUNCTION,
    ) -> Service:
        """Makes the service from settings. The session selects the AWS endpoints, unless an endpoint is given."""
        client = partial(_client, session, endpoint_url, settings.send_threads, tries=tries)
        service = cls(
            Table(client("dynamodb"), settings.table),
            S3Objects(client("s3", tries=tries.for_objects), s3_bucket=settings.s3_bucket),
            queues=SqsQueues.of(client("sqs"), settings),
            wheel=SchedulerWheel(
                client("scheduler", tries=HINT),
                clock,
                group=settings.schedule_group,
                dispatch_arn=settings.dispatch_arn,
                role_arn=settings.schedule_role_arn,
                dead_letter_arn=settings.schedule_dead_letter_arn,
            ),
            runs=AwsRuns(
                # Made on first use: few calls start a run, and Glue's API description is among botocore's largest.
                once(lambda: client("lambda")),
                once(lambda: client("glue")),
                dispatch_function=settings.dispatch_arn,
                compact_function=settings.compact_function,
                merge_job=settings.merge_job,
            ),
            parallel=parallel_of(settings.send_threads),
            clock=clock,
            max_skew_ms=settings.max_skew_ms,
            read_threads=settings.send_threads,
        )
        service.settings = settings
        return service


def once(make: Callable[[], _T]) -> Callable[[], _T]:
    """Returns a function that calls `make` at most once and shares the result between threads."""
    lock = Lock()
    made: list[_T] = []

    def get() -> _T:
        with lock:
            if not made:
                made.append(make())
        return made[0]

    return get


def _client(
    session: boto3.session.Session, endpoint_url: str | None, threads: int, service: str, *, tries: Tries
) -> Any:
    config = client_config(threads, tries, endpoint_url)
    client = session.client(cast(Any, service), config=config, endpoint_url=endpoint_url)
    tries.watch(client)
    return client


def client_config(send_threads: int, tries: Tries = FUNCTION, endpoint_url: str | None = None) -> Config:
    """Returns botocore's settings for a client shared by so many threads."""
    return tries.config(max(10, send_threads), endpoint_url)


def parallel_of(threads: int) -> Parallel:
    """Returns a mapper that runs calls on several threads, or in order for a single thread.

    Calls that one of these threads makes by the mapper run in order: waiting for other threads, all could wait forever.
    """
    if threads <= 1:
        return in_order
    own = local()
    pool = ThreadPoolExecutor(threads, "tidewheel", initializer=lambda: setattr(own, "thread", True))

    def run(call: Callable[[_T], object], arguments: Iterable[_T], /) -> None:
        if hasattr(own, "thread"):
            in_order(call, arguments)
            return
        for _ in pool.map(deadline.carried(call), arguments):
            pass

    return run


def watch_dates(events: BaseEventHooks, clock: CheckedClock) -> None:
    """Tells a clock the `Date` of each answer, refusals included.

    Watches the clients that are made later with these events. A request that botocore repeats counts as one long call.
    """

    def before(context: dict[str, Any], **_: Any) -> None:
        context[_BEFORE] = clock.local.now_ms()

    def after(context: dict[str, Any], http_response: Any, **_: Any) -> None:
        after_ms = clock.local.now_ms()
        date, before_ms = http_response.headers.get("Date"), context.get(_BEFORE)
        if date is None or before_ms is None:
            return
        try:
            aws_ms = int(parsedate_to_datetime(date).timestamp()) * 1000
        except ValueError:
            return
        clock.observe(before_ms, after_ms, aws_ms)

    events.register("before-call", before)
    events.register("after-call", after)
