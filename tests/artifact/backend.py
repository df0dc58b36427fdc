"""Passes requests on to another server, as they are."""

from __future__ import annotations

import http.client
from threading import local
from urllib.parse import urlsplit

from tests.artifact.http_service import Request, Response

_OWN_HEADERS = ("host", "connection", "content-length", "accept-encoding", "expect")
_HOP_HEADERS = ("connection", "content-length", "transfer-encoding", "server", "date", "keep-alive")


class Backend:
    """A server behind another, with a connection for each thread."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc
        self._connections = local()

    def answer(self, request: Request) -> Response:
        """Returns the server's answer."""
        headers = {name: value for name, value in request.headers.items() if name not in _OWN_HEADERS}
        for last in (False, True):
            connection = self._connection(fresh=last)
            try:
                connection.request(request.method, request.path, request.body, headers)
                found = connection.getresponse()
                body = found.read()
            except (http.client.HTTPException, OSError):
                # The server may hang up on a connection that was idle; a second failure is an error.
                if last:
                    raise
                continue
            kept = {name: value for name, value in found.getheaders() if name.lower() not in _HOP_HEADERS}
            return Response(status=found.status, headers=kept, body=body)
        raise AssertionError("unreachable")

    def _connection(self, *, fresh: bool) -> http.client.HTTPConnection:
        known: http.client.HTTPConnection | None = getattr(self._connections, "made", None)
        if known is None or fresh:
            known = self._connections.made = http.client.HTTPConnection(self._address, timeout=60)
        return known
