"""Opens local stacks in which functions and jobs have the rights of their own roles only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Any

import botocore.session

from tests.iam.access import Access, Denial
from tidewheel.local import LocalTidewheel
from tidewheel.local.emulator.wire import Answer, Wire
from tidewheel.local.emulator.wire_calls import WireRequest, of_wsgi
from tidewheel.local.event_source import EventSource
from tidewheel.local.handlers import Handler, MappingSpec

_POLLING = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
"""The rights that Lambda requires of a function's role when it makes an event source mapping (developer guide)."""


class EnforcedTidewheel(LocalTidewheel):
    """A local stack that enforces IAM, by the policies of its template and by queues' own policies."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._access = Access(self.clock)
        self._wires: dict[str, Wire] = {}
        self._emulator.require = self._require

    @property
    def denials(self) -> list[Denial]:
        """All calls of functions and jobs that their roles do not allow, oldest first."""
        return self._access.denials

    def close(self) -> None:
        while self._wires:
            self._wires.popitem()[1].close()
        super().close()

    def _function_session(self, role_arn: str | None) -> botocore.session.Session:
        return self._wire(role_arn).core_session(self.requests.observe)

    def _job_endpoint(self, role_arn: str | None) -> str:
        """An access key could not carry the role: Spark's workers, and pyarrow in them, make their own clients."""
        return self._wire(role_arn).endpoint_url

    def _source(self, spec: MappingSpec, handler: Handler) -> EventSource:
        self._require(handler.spec.role_arn, spec.queue_arn, *_POLLING)
        return super()._source(spec, handler)

    def _wire(self, role_arn: str | None) -> Wire:
        """Returns what answers the requests of a role."""
        if role_arn is None:
            return self._emulator.wire
        if role_arn not in self._wires:
            self._wires[role_arn] = guarded(self._emulator.wire, partial(self._access.answer, role_arn))
        return self._wires[role_arn]

    def _require(self, role_arn: str | None, resource: str, *actions: str) -> None:
        if role_arn is not None:
            with self._emulator.lock:
                self._access.require(role_arn, resource, *actions)


def guarded(wire: Wire, guard: Callable[[WireRequest, Callable[[], Answer]], Answer]) -> Wire:
    """Returns another wire to the same backends, whose requests a guard answers or refuses."""
    made: Any = copy(wire)
    made._server, made._port, ask, serve = None, 0, made._ask, made._serve

    def guarded_ask(operation: tuple[str, str], params: dict[str, Any]) -> Answer:
        return guard(of_botocore(*operation, params), partial(ask, operation, params))

    def guarded_serve(environ: dict[str, Any]) -> Answer:
        body = environ["wsgi.input"].getvalue() if int(environ.get("CONTENT_LENGTH") or 0) else b""
        return guard(of_wsgi(environ, body), partial(serve, environ))

    made._ask, made._serve = guarded_ask, guarded_serve
    return made  # type: ignore[no-any-return]


def of_botocore(service: str, operation: str, params: Mapping[str, Any]) -> WireRequest:
    """Reads a request prepared by botocore."""
    body = params["body"]
    if isinstance(body, str):
        body = body.encode()
    return WireRequest(
        service=service,
        operation=operation,
        method=params["method"],
        url=params["url"],
        headers={name.lower(): _text(value) for name, value in params["headers"].items()},
        body=bytes(body) if isinstance(body, bytes | bytearray) else b"",  # a stream is an object's content
    )


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
