"""A faulty HTTP endpoint of AWS, which hangs, refuses, throttles, or answers late.

    client --> SlowEndpoint --OK, LATE, LOST--> another endpoint, such as moto's server

The mode can change at any time, for all requests or for some of them: `endpoint.be(Mode.HANG, lambda asked:
asked.service == "sqs")`. Requests that hang then get no answer: their connections are closed.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_SCOPE = re.compile(r"Credential=([^/]*)/\d*/[^/]*/([^/]+)/")
_ONE_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "expect", "date", "server"}


class Mode(Enum):
    """The treatment of a request."""

    OK = "the other endpoint answers it"
    HANG = "it is read, and nothing happens"
    LOST = "the other endpoint does it, and nobody answers"
    REFUSE = "no connection is accepted; for all requests only"
    THROTTLE = "it is throttled at once, in the words of its service"
    RESET = "its connection is reset"
    ERROR = "it is answered with status 503 at once"
    LATE = "the other endpoint answers it after `late_s` seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request.

    Attributes:
        service: such as "dynamodb", "sqs", "s3", "ssm", "lambda".
        operation: such as "GetItem"; for services without the header X-Amz-Target, the HTTP method.
        path: with the query.
        body: all of it.
        at_s: when it came, on the monotonic clock.
        access_key: who asks.
    """

    service: str
    operation: str
    path: str
    body: bytes
    at_s: float
    access_key: str


class SlowEndpoint:
    """Listens on a free port of this machine. Use as a context manager.

    Args:
        behind: the URL of the endpoint that answers; None if no request is to be answered.
        mode: of all requests, until `be` is called.
        late_s: the wait in the mode LATE.

    Attributes:
        url: its own URL, which stays the same in all modes.
        asked: all requests so far, in order. Refused connections are no requests.
    """

    def __init__(self, behind: str | None = None, mode: Mode = Mode.OK, *, late_s: float = 2.5) -> None:
        self.asked: list[Asked] = []
        self.late_s = late_s
        self._behind = None if behind is None else urlsplit(behind)
        self._rules: list[tuple[Callable[[Asked], bool], Mode]] = []
        self._changed = Event()
        self._lock = Lock()
        self._server: _Server | None = _Server(0, self)
        self._port = self._server.server_port
        self.url = f"http://127.0.0.1:{self._port}"
        self._serve()
        self.be(mode)

    def be(self, mode: Mode, which: Callable[[Asked], bool] | None = None) -> None:
        """Changes the mode of all or some requests. The last matching call decides."""
        with self._lock:
            if which is None:
                self._rules.clear()
                self._accept(mode is not Mode.REFUSE)
            elif mode is Mode.REFUSE:
                raise ValueError("a port refuses all requests or none")
            self._rules.append((which or (lambda _: True), mode))
            self._changed.set()
            self._changed = Event()

    def count(self, service: str, operation: str | None = None) -> int:
        """Returns how many requests there were."""
        return sum(each.service == service and operation in (None, each.operation) for each in self.asked)

    def close(self) -> None:
        """Stops listening, and closes the connections of hanging requests."""
        self.be(Mode.REFUSE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def mode_of(self, asked: Asked) -> tuple[Mode, Event]:
        """Records a request. Returns the mode, and an event set when modes change."""
        with self._lock:
            self.asked.append(asked)
            return next(mode for which, mode in reversed(self._rules) if which(asked)), self._changed

    def pass_on(
        self, method: str, asked: Asked, headers: Mapping[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Asks the endpoint behind. Returns status, headers and body."""
        assert self._behind is not None, "this endpoint has none behind it that could answer"
        connection = HTTPConnection(self._behind.hostname or "", self._behind.port, timeout=60)
        try:
            sent = {name: value for name, value in headers.items() if name.lower() not in _ONE_HOP}
            connection.request(method, asked.path, body=asked.body, headers=sent)
            answer = connection.getresponse()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _ONE_HOP]
            kept += [("Date", answer.headers["Date"])] * ("Date" in answer.headers)  # the time of a moved clock
            body = answer.read()
            length = answer.headers.get("Content-Length") if method == "HEAD" else str(len(body))
            return answer.status, [*kept, ("Content-Length", length or "0")], body
        finally:
            connection.close()

    def _accept(self, accepts: bool) -> None:
        if not accepts and self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        elif accepts and self._server is None:
            self._server = _Server(self._port, self)
            self._serve()

    def _serve(self) -> None:
        assert self._server is not None
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int, endpoint: SlowEndpoint) -> None:
        self.endpoint = endpoint
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores clients that were ended during a request."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def handle_any(self) -> None:
        endpoint = self.server.endpoint
        asked = self._asked()
        mode, changed = endpoint.mode_of(asked)
        if mode is Mode.LATE:
            changed.wait(endpoint.late_s)
        try:
            if mode in (Mode.OK, Mode.LATE, Mode.LOST):
                answer = endpoint.pass_on(self.command, asked, self.headers)
            else:
                answer = _refusal(asked, mode)
        except (OSError, HTTPException):
            self.close_connection = True
            return
        if mode in (Mode.HANG, Mode.LOST):
            changed.wait()
        if mode is Mode.RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if mode in (Mode.HANG, Mode.LOST, Mode.REFUSE, Mode.RESET):
            self.close_connection = True
            return
        self._answer(*answer)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any

    def _asked(self) -> Asked:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        target = self.headers.get("X-Amz-Target", "")
        scope = _SCOPE.search(self.headers.get("Authorization", ""))
        return Asked(
            service="" if scope is None else scope[2],
            operation=target.rpartition(".")[2] or self.command,
            path=self.path,
            body=body,
            at_s=time.monotonic(),
            access_key="" if scope is None else scope[1],
        )

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


_THROTTLED = {
    "dynamodb": "ProvisionedThroughputExceededException",
    "lambda": "TooManyRequestsException",
    "s3": "SlowDown",
    "sqs": "RequestThrottled",
}


def _refusal(asked: Asked, mode: Mode) -> tuple[int, list[tuple[str, str]], bytes]:
    """Returns a refusal of a request in the service's format."""
    throttled = mode is Mode.THROTTLE
    code = _THROTTLED.get(asked.service, "ThrottlingException") if throttled else "ServiceUnavailable"
    if asked.service == "s3":
        status, kind, body = 503, "application/xml", f"<Error><Code>{code}</Code><Message>Slow down</Message></Error>"
    else:
        status, kind = 400 if throttled else 503, "application/x-amz-json-1.0"
        body = f'{{"__type":"{code}","message":"Rate exceeded"}}'
    headers = [("Content-Type", kind), ("x-amzn-ErrorType", code), ("Content-Length", str(len(body)))]
    return status, headers, body.encode()
