"""Repeats requests of the SDK and of jobs that AWS refused for now, or did not answer.

botocore's own retries are off in these clients. They do not know how much time a call has left, and repeat what hangs
as often as what is refused at once. The SDK's calls are bounded here too, and their temporary failures get one class.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from botocore import exceptions as boto
from botocore.config import Config
from botocore.parsers import ResponseParserError

from tidewheel import deadline
from tidewheel.errors import TemporaryFailure, TidewheelError

_BUSY = re.compile(r"^(429|500|502|503|504) |Throttl|ThroughputExceeded|RequestTimeout|PriorRequestNotComplete")
"""A status and a code that refuse a request for now."""
_HERE = re.compile(r"https?://(?:[^/@]*\.)?(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?(?:/|\Z)", re.IGNORECASE)
_LOST = (boto.ConnectionError, boto.HTTPClientError, boto.IncompleteReadError)
_NOT_REACHED = (*_LOST, ResponseParserError, TemporaryFailure)
AWS_ERRORS = (boto.ClientError, boto.BotoCoreError, *_NOT_REACHED)
"""What a request raises that AWS refused, or that did not reach it."""
CALL_S = 30
"""How long a call of the SDK waits for AWS: so long after it began, and after AWS's last useful answer."""
Class = TypeVar("Class", bound=type)
_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """How often and how long a client tries a request.

    Attributes:
        connect_s, read_s: the longest that a try waits for the connection, and for the answer.
        silent: tries of a request without an answer.
        refused: tries of a request that is refused at once, and of a connection.
    """

    connect_s: float
    read_s: float
    silent: int
    refused: int

    @property
    def for_objects(self) -> Tries:
        """The same with more time for S3, which answers the PUT of a large object later."""
        return replace(self, read_s=self.read_s + 2)

    @property
    def try_s(self) -> float:
        """The longest duration of a try."""
        return self.connect_s + self.read_s

    def config(self, connections: int, endpoint_url: str | None) -> Config:
        """Returns botocore's settings, with so many connections side by side.

        An endpoint on this machine is reached without the environment's proxy.
        """
        from tidewheel import __version__  # not above: mypy would meet a circle

        here = _HERE.match(endpoint_url or os.environ.get("AWS_ENDPOINT_URL", ""))
        return Config(
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=self.connect_s,
            read_timeout=self.read_s,
            tcp_keepalive=True,
            max_pool_connections=connections,
            # Our own code builds all requests. Validation took a fifth of the client's CPU for ten (0.16 of 0.85 ms).
            parameter_validation=False,
            # Botocore would make a longer one anew for each request.
            user_agent=f"tidewheel/{__version__}",
            proxies={} if here else None,
        )

    def watch(self, client: Any, *, again: bool = True) -> None:
        """Bounds the requests of a client by the present work's `deadline`, and tries them again if `again`."""
        events = client.meta.events
        for event in ("before-call", "before-send"):  # before-send comes for each try; emulators never send it
            events.register_first(event, self._check_time)
        events.register("after-call", _answered)
        if again:
            events.register("needs-retry", self._pause_s)

    def _check_time(self, *, event_name: str, **_: Any) -> None:
        deadline.check(self.try_s, event_name.partition(".")[2])

    def _pause_s(self, *, caught_exception: Any, response: Any, attempts: int, **asked: Any) -> float | None:
        """Returns how long to wait before another try. None: there is none, and an error says what was tried."""
        silent = isinstance(caught_exception, (boto.ConnectTimeoutError, boto.ReadTimeoutError))
        refusal = None if response is None else _refusal(response[1])
        if refusal is None and not isinstance(caught_exception, (boto.ConnectionError, boto.HTTPClientError)):
            return None
        pause_s: float = random.uniform(0.5, 1) * min(_MAX_BACKOFF_S, _BACKOFF_S * 2**attempts)
        if attempts < (self.silent if silent else self.refused) and pause_s + self.try_s <= deadline.left_s():
            return pause_s
        called = f"{asked['operation'].service_model.service_name} {asked['operation'].name}"
        told = f"({called} at {asked['endpoint'].host}, tried {attempts} times; check the network, or try later)"
        if refusal is None:
            caught_exception.args = (f"{caught_exception} {told}",)
        else:
            refusal["Message"] = f"{refusal.get('Message', '')} {told}"
        return None


def passes(error: BaseException) -> bool:
    """Returns whether, by an error, AWS was not reached or refuses for now."""
    if isinstance(error, boto.ClientError):
        return _refusal(error.response) is not None
    return isinstance(error, _NOT_REACHED)


def _answered(*, parsed: Any, **_: Any) -> None:
    if "Error" not in parsed:
        deadline.answered()


def _refusal(answer: Any) -> dict[str, str] | None:
    """Returns the error of a temporary refusal."""
    error: dict[str, str] = answer.get("Error", {})
    told = f"{answer.get('ResponseMetadata', {}).get('HTTPStatusCode')} {error.get('Code')}"
    return error if _BUSY.search(told) else None


SDK = Tries(connect_s=2, read_s=3, silent=2, refused=6)
FUNCTION = replace(SDK, refused=2)
"""What fails comes again or is parked, and `Table` repeats what lost a race or was throttled."""
HINT = replace(FUNCTION, silent=1, refused=1)
"""For the scheduler: the sweep does without schedules."""
JOB = Tries(connect_s=3, read_s=10, silent=6, refused=12)
"""A run of hours must not fail for a hiccup. A request ends within two minutes if refusals come at once."""


@contextmanager
def classified() -> Iterator[None]:
    """Raises TemporaryFailure for each error of AWS's client that may pass."""
    try:
        yield
    except AWS_ERRORS as error:
        if isinstance(error, TidewheelError) or not passes(error):
            raise
        raise TemporaryFailure(f"{error}; try again later") from error


@contextmanager
def patient(seconds: float = CALL_S) -> Iterator[None]:
    """Bounds a call as `deadline.patience` does, and classifies its failures."""
    with classified(), deadline.patience(seconds):
        yield


def bounded_but(*names: str) -> Callable[[Class], Class]:
    """Bounds all public methods of a class but the named ones, which also wait for something else than AWS."""

    def bound(kind: Class) -> Class:
        for name, method in list(vars(kind).items()):
            if callable(method) and not name.startswith("_"):
                setattr(kind, name, (classified() if name in names else patient())(method))
        return kind

    return bound
