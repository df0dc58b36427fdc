"""Dates the answers of a server in the machine's time by the moved time, which the functions compare with their own."""

from __future__ import annotations

import contextlib
import http.client
from urllib.parse import urlsplit

from tests.artifact.http_service import HttpService, Request, Response
from tests.artifact.moved_clock import MovedClock

_HOP = ("connection", "content-length", "transfer-encoding", "keep-alive", "date", "server")


class DatedFront:
    """Passes requests on, and dates the answers.

    Args:
        url: the server's.
        clock: the service's.
    """

    def __init__(self, url: str, clock: MovedClock) -> None:
        self._backend = urlsplit(url).netloc
        self._service = HttpService(self._answer, clock)
        self.url = self._service.url

    def close(self) -> None:
        """Stops answering."""
        self._service.close()

    def _answer(self, request: Request) -> Response:
        with contextlib.closing(http.client.HTTPConnection(self._backend, timeout=60)) as connection:
            connection.request(request.method, request.path, request.body, dict(request.headers))
            answer = connection.getresponse()
            headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
            return Response(status=answer.status, headers=headers, body=answer.read())
