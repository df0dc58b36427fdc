"""Reads that may fail one by one, so that the rest of the page comes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    SSOError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from tidewheel.errors import InvalidValue, PeekIncomplete, TidewheelError, UnknownTopic
from tidewheel.model.prices import dollars

T = TypeVar("T")

PAGE_S = 10.0
"""The time for all reads of a page. Reads without an answer by then are shown as missing."""
_LAST_S = 1.0
"""What reads after a slow one have in any case."""
AT_ONCE = 8

_log = logging.getLogger(__name__)

_FORESEEN = (TidewheelError, BotoCoreError, ClientError, TimeoutError)
_EXPIRED = (
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
)
_DENIED = ("AccessDenied", "AccessDeniedException", "AuthorizationError")
_UNITS = {"sqs": "sqs.request", "s3": "s3.get", "dynamodb": "dynamodb.read"}
"""Service -> the unit by which a read is billed. A page writes nothing."""


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """The value of a read, or the reason for its absence. Both, if a part could be read."""

    value: T | None = None
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """The AWS requests of a page, and of all pages so far."""

    page: int
    page_dollars: float
    so_far: int


def reason(error: BaseException) -> str:
    """Returns an error as a sentence for the page. Credentials and request ids are left out."""
    cause = error.__cause__ if isinstance(error, TidewheelError) else error
    if isinstance(cause, ClientError):
        code, operation = cause.response.get("Error", {}).get("Code", "?"), cause.operation_name
        if code in _EXPIRED:
            return f"the credentials are not valid or have expired ({code}): renew them, and the page goes on"
        if code in _DENIED:
            return f"your credentials do not allow {operation} ({code})"
        if cause is error:
            return f"AWS refused {operation} ({code})"
    if isinstance(error, NoCredentialsError):
        return "there are no AWS credentials: set a profile, or run `aws sso login`"
    if isinstance(error, (SSOError, UnauthorizedSSOTokenError, TokenRetrievalError)):
        return "the AWS session has expired: run `aws sso login`, and the page goes on"
    if isinstance(error, _FORESEEN):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: see the console's log"


class Reader:
    """Reads for one page at a time, so that the requests of a page can be told.

    Args:
        requests: counts so far by operation; None if nobody counts.
    """

    def __init__(self, requests: Mapping[str, int] | None) -> None:
        self._requests = requests
        self._page = threading.RLock()
        self._before: Mapping[str, int] = {}
        self._ends_s = 0.0
        self._pool = ThreadPoolExecutor(AT_ONCE, "tidewheel-console")

    def __enter__(self) -> Reader:
        self._page.acquire()
        self._ends_s = time.monotonic() + PAGE_S
        self._before = dict(self._requests or {})
        return self

    def __exit__(self, *_: object) -> None:
        self._page.release()

    def cost(self) -> Cost | None:
        """Returns the requests since the page began."""
        if self._requests is None:
            return None
        now = dict(self._requests)
        new = {name: count - self._before.get(name, 0) for name, count in now.items()}
        paid = sum(
            dollars(_UNITS[name.split(".")[0]], count) for name, count in new.items() if name.split(".")[0] in _UNITS
        )
        return Cost(sum(new.values()), paid, sum(now.values()))

    def read(self, call: Callable[..., T], *given: Any, **named: Any) -> Read[T]:
        """Reads one thing. See `read_all`."""
        return self.read_all([lambda: call(*given, **named)])[0]

    def read_all(self, calls: Iterable[Callable[[], Any]]) -> list[Read[Any]]:
        """Reads things side by side. A read that fails, or has not ended when the page's time has, tells the reason.

        Raises:
            UnknownTopic, InvalidValue: the address names an unknown thing.
        """
        futures = [self._pool.submit(call) for call in calls]
        wait(futures, max(_LAST_S, self._ends_s - time.monotonic()))
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
    if not isinstance(error, _FORESEEN):
        _log.error("a read failed", exc_info=error)
    return Read(missing=reason(error))
