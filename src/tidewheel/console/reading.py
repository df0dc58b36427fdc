"""Reads that may fail one by one, so that the rest of the page comes. Counts the requests of a page."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import boto3
from botocore import exceptions as boto
from botocore.model import OperationModel

from tidewheel.errors import InvalidValue, PeekIncomplete, TidewheelError, UnknownTopic
from tidewheel.model.prices import dollars

T = TypeVar("T")

PAGE_S = 10.0
"""The time for all reads of a page. Reads without an answer by then are shown as missing."""
_LAST_S = 1.0
"""What reads after a slow one have in any case."""
AT_ONCE = 8
"""Threads of a page. Each page has its own, so that a slow page holds up no other."""

_log = logging.getLogger(__name__)

FORESEEN = (TidewheelError, boto.BotoCoreError, boto.ClientError, TimeoutError)
"""Errors that a page tells."""
_EXPIRED = [
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
]
_DENIED = ("AccessDenied", "AuthorizationError")
"""Codes of AWS, without the end `Exception` that some have."""
_UNITS = {"sqs": "sqs.request", "s3": "s3.get", "dynamodb": "dynamodb.read"}
"""Service -> the unit by which a read is billed. A page writes nothing."""


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """The value of a read, or the reason for its absence. Both, if a part could be read."""

    value: T | None = None
    missing: str = ""


_PAGE: ContextVar[tuple[float, ThreadPoolExecutor]] = ContextVar("tidewheel.console.reading")
"""When the page's time ends, and its threads."""

_COUNTED: ContextVar[Counter[str] | None] = ContextVar("tidewheel.console.page", default=None)
"""The requests of the page that this thread reads for."""


class RequestMeter(Counter[str]):
    """Counts calls by "service.Operation". Make it before the client: a boto3 client copies its session's handlers."""

    def __init__(self, session: boto3.Session) -> None:
        super().__init__()
        self._lock = threading.Lock()
        session.events.register_first("before-call", self._count)

    def _count(self, model: OperationModel, **_: Any) -> None:
        name, page = f"{model.service_model.service_name}.{model.name}", _COUNTED.get()
        with self._lock:
            self[name] += 1
            if page is not None:
                page[name] += 1


def reason(error: BaseException) -> str:
    """Returns an error as a sentence for the page. Credentials and request ids are left out."""
    cause = error.__cause__ if isinstance(error, TidewheelError) else error
    if isinstance(cause, boto.ClientError):
        code, operation = cause.response.get("Error", {}).get("Code", "?"), cause.operation_name
        if code.removesuffix("Exception") in _EXPIRED:
            return f"the credentials are not valid or have expired ({code}): renew them, and the page goes on"
        if code.removesuffix("Exception") in _DENIED:
            return f"your credentials do not allow {operation} ({code})"
        if cause is error:
            return f"AWS refused {operation} ({code})"
    if isinstance(error, boto.NoCredentialsError):
        return "there are no AWS credentials: set a profile, or run `aws sso login`"
    if isinstance(error, (boto.SSOError, boto.UnauthorizedSSOTokenError, boto.TokenRetrievalError)):
        return "the AWS session has expired: run `aws sso login`, and the page goes on"
    if isinstance(error, FORESEEN):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: see the console's log"


class Reader:
    """Reads for pages, side by side.

    Args:
        requests: counts the client's requests; None if nobody counts.
    """

    def __init__(self, requests: RequestMeter | None) -> None:
        self._requests = requests

    @contextmanager
    def page(self) -> Iterator[None]:
        """Gives the reads inside the time, the threads and the count of a page."""
        pool = ThreadPoolExecutor(AT_ONCE, "tidewheel-console")
        before, counted = _PAGE.set((time.monotonic() + PAGE_S, pool)), _COUNTED.set(Counter())
        try:
            yield
        finally:
            _PAGE.reset(before)
            _COUNTED.reset(counted)
            pool.shutdown(wait=False, cancel_futures=True)

    def cost(self) -> dict[str, float] | None:
        """Returns the AWS requests since the page began, their dollars, and the requests of all pages so far."""
        if self._requests is None:
            return None
        new = dict(_COUNTED.get() or {})
        paid = sum(
            dollars(_UNITS[name.split(".")[0]], count) for name, count in new.items() if name.split(".")[0] in _UNITS
        )
        return {"page": sum(new.values()), "page_dollars": paid, "so_far": sum(dict(self._requests).values())}

    def read(self, call: Callable[..., T], *given: Any, **named: Any) -> Read[T]:
        """Reads one thing. See `read_all`."""
        return self.read_all([lambda: call(*given, **named)])[0]

    def read_all(self, calls: Iterable[Callable[[], Any]]) -> list[Read[Any]]:
        """Reads things side by side. A read that fails, or has not ended when the page's time has, tells the reason.

        Raises:
            UnknownTopic, InvalidValue: the address names an unknown thing.
        """
        ends_s, pool = _PAGE.get()
        futures = [pool.submit(copy_context().run, call) for call in calls]
        wait(futures, max(_LAST_S, ends_s - time.monotonic()))
        return [_outcome(each) for each in futures]


def _outcome(future: Future[T]) -> Read[T]:
    if not future.done():
        future.cancel()
        return Read(missing=f"no answer within {PAGE_S:.0f} s")
    error = future.exception()
    if error is None:
        return Read(future.result())
    if isinstance(error, (UnknownTopic, InvalidValue)):
        raise error
    if isinstance(error, PeekIncomplete):
        return Read(error.messages, reason(error))  # type: ignore[arg-type]  # of `peek`, which returns a list
    if not isinstance(error, FORESEEN):
        _log.error("a read failed", exc_info=error)
    return Read(missing=reason(error))
