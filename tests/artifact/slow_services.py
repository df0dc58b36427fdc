"""A proxy between functions and AWS that hangs, throttles, fails or answers late, in real time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from threading import Event
from types import TracebackType
from typing import Self

from tests.artifact.backend import Backend
from tests.artifact.http_service import JSON, HttpService, Request, Response
from tests.artifact.moved_clock import MovedClock

_LONGEST_S = 300


class Fault(Enum):
    """An injected fault of a request."""

    HANGS = auto()
    """Nothing is answered, and nothing is done."""
    THROTTLED = auto()
    FAILS = auto()
    LATE = auto()
    """It is done, and answered after LATE_S."""


LATE_S = 2.5
"""Below every read time-out, so that an answer counts."""


def of(text: str) -> Callable[[Request], bool]:
    """Returns whether a request names something, such as a topic's partition or a queue."""
    return lambda request: text in request.path or text.encode() in request.body


@dataclass(slots=True)
class _Present:
    service: str
    fault: Fault
    applies: Callable[[Request], bool]
    over: Event = field(default_factory=Event)
    requests: int = 0


class SlowServices:
    """Proxies for the servers of AWS. Use as a context manager."""

    def __init__(self) -> None:
        self._servers: list[HttpService] = []
        self._present: list[_Present] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._servers:
            each.close()

    def before(self, urls: Mapping[str, str], clock: MovedClock) -> dict[str, str]:
        """Returns the URLs of proxies for other servers, by the names of AWS's services."""
        found = {}
        for name, url in urls.items():
            server = HttpService(partial(self._answer, name, Backend(url)), clock)
            self._servers.append(server)
            found[name] = server.url
        return found

    @contextmanager
    def fault(self, service: str, fault: Fault, applies: Callable[[Request], bool]) -> Iterator[_Present]:
        """Gives requests to a service a fault."""
        present = _Present(service, fault, applies)
        self._present.append(present)
        try:
            yield present
        finally:
            self._present.remove(present)
            present.over.set()

    def _answer(self, service: str, backend: Backend, request: Request) -> Response:
        for present in list(self._present):
            if present.service == service and present.applies(request):
                present.requests += 1
                if present.fault is Fault.HANGS:
                    present.over.wait(_LONGEST_S)
                    raise ConnectionError("nobody waits for this any longer")
                if present.fault is Fault.LATE:
                    answer = backend.answer(request)
                    time.sleep(LATE_S)
                    return answer
                return _refusal(service, present.fault)
        return backend.answer(request)


def _refusal(service: str, fault: Fault) -> Response:
    status, code = {
        ("DYNAMODB", Fault.THROTTLED): (400, "ProvisionedThroughputExceededException"),
        ("SQS", Fault.THROTTLED): (403, "OverLimit"),
        ("S3", Fault.THROTTLED): (503, "SlowDown"),
    }.get((service, fault), (500, "InternalServerError"))
    if service == "S3":
        body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"
        return Response(status=status, headers={"Content-Type": "application/xml"}, body=body.encode())
    kind = f"com.amazonaws#{code}"
    return Response(status=status, headers=JSON, body=json.dumps({"__type": kind, "message": code}).encode())
