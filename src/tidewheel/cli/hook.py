"""Posts to a URL: one request, with one time-out for all of it, no redirect and no proxy."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BufferedIOBase
from threading import Timer
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tidewheel.errors import InvalidValue

_MOST_TIMEOUT_S = 12 * 3600
"""SQS's longest visibility time-out."""
_ANSWER_BYTES = 65_536
"""How much of an answer's body is read, so that a usual answer is not cut off."""


class NoAnswer(Exception):
    """There was no connection, or no status in time. The text says which, without bytes of the other side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A URL that gets messages.

    Attributes:
        url: where to post.
        timeout_s: the longest that a POST takes.
    """

    url: SplitResult
    timeout_s: float

    @classmethod
    def of(cls, text: str, timeout_s: float) -> Hook:
        """Reads the options. Raises InvalidValue if one is not usable."""
        try:
            url = urlsplit(text)
            good = url.scheme in ("http", "https") and url.hostname and url.port != 0 and "@" not in url.netloc
            (url.hostname or "").encode("idna")
        except ValueError:  # of the host, or of the port
            good = False
        if not good or not text.isascii() or not text.isprintable() or " " in text:
            how = "give a URL that starts with http:// or https://, without a user, such as http://localhost:3000/hook"
            raise InvalidValue("--forward-to", text, how)
        if not 0.1 <= timeout_s <= _MOST_TIMEOUT_S:
            raise InvalidValue("--timeout", timeout_s, f"give seconds from 0.1 to {_MOST_TIMEOUT_S}")
        return cls(url=url, timeout_s=timeout_s)

    def post(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Posts a body. Returns the status.

        Raises:
            NoAnswer: there is no status.
        """
        end_s = time.monotonic() + self.timeout_s
        try:
            return self._post(body, headers, end_s)
        except (OSError, HTTPException) as error:
            if isinstance(error, TimeoutError) or time.monotonic() >= end_s:
                raise NoAnswer(f"no answer in {self.timeout_s:g} s") from None
            if isinstance(error, OSError) and not isinstance(error, HTTPException):
                raise NoAnswer(error.strerror or type(error).__name__) from None
            raise NoAnswer(f"no answer in HTTP ({type(error).__name__})") from None

    def _post(self, body: bytes, headers: Mapping[str, str], end_s: float) -> int:
        connects = HTTPSConnection if self.url.scheme == "https" else HTTPConnection
        path = (self.url.path or "/") + (f"?{self.url.query}" if self.url.query else "")
        with closing(connects(self.url.hostname or "", self.url.port, timeout=self.timeout_s)) as connection:
            connection.response_class = _WholeHead
            connection.connect()
            # The connection's own time-out begins anew with each byte.
            late = Timer(max(0.0, end_s - time.monotonic()), _hang_up, [connection.sock])
            late.daemon = True
            late.start()
            try:
                connection.request("POST", path, body, {**headers, "Connection": "close"})
                with connection.getresponse() as answer:
                    if time.monotonic() >= end_s:
                        raise TimeoutError
                    with suppress(OSError, HTTPException):
                        answer.read(_ANSWER_BYTES)
                    return answer.status
            finally:
                late.cancel()


class _WholeHead(HTTPResponse):
    """Refuses an answer that ends within its headers, which http.client takes for their end."""

    def begin(self) -> None:
        """Reads status and headers."""
        lines = self.fp = _Lines(self.fp)  # type: ignore[assignment]
        super().begin()
        if lines.last not in (b"\r\n", b"\n"):
            raise IncompleteRead(lines.last)


class _Lines:
    """A file that remembers its last line."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file, self.last = file, b""

    def readline(self, limit: int = -1) -> bytes:
        """Reads a line."""
        self.last = self._file.readline(limit)
        return self.last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _hang_up(connection: socket.socket) -> None:
    """Ends what another thread waits for."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # below TLS, which is not for two threads
