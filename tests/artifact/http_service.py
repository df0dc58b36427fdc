"""A small HTTP server in threads, fast enough for thousands of short requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.artifact.moved_clock import MovedClock

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request with lower-case names of headers."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An HTTP response."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class HttpService:
    """Answers requests on a free local port, with a thread for each connection.

    Args:
        answer: answers a request.
        clock: the time of the answers. The functions doubt a clock that differs from it.
    """

    def __init__(self, answer: Callable[[Request], Response], clock: MovedClock | None = None) -> None:
        self._server = _Server(("127.0.0.1", 0), _handler(answer, clock))
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores clients that were killed during a request."""


def _handler(answer: Callable[[Request], Response], clock: MovedClock | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body leave in one packet, at once: else each answer waits 40 ms for an acknowledgement.
        wbufsize = -1
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else b""
            headers = {name.lower(): value for name, value in self.headers.items()}
            given = answer(Request(method=self.command, path=self.path, headers=headers, body=body))
            self.send_response(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(given.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(given.body)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any

        def date_time_string(self, timestamp: float | None = None) -> str:
            now_s = None if clock is None else clock.now_ms() // 1000
            return super().date_time_string(now_s if timestamp is None else timestamp)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    return Handler
