"""The server of the console, as a program sees it."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress

import pytest

from tests.console.site import Site
from tidewheel.console import ConsoleServer, serving
from tidewheel.local import MemoryTidewheel


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    with MemoryTidewheel() as stack:
        server = ConsoleServer(stack.client())
        try:
            # asyncio sets TCP_NODELAY on connections whose protocol is named, and the accepted have the listener's.
            assert server._socket.proto == socket.IPPROTO_TCP
        finally:
            server.stop()


def half_open(site: Site, begin: bytes = b"GET / HTTP/1.1\r\nHost: localh") -> socket.socket:
    """Begins a request, and leaves it so."""
    found = socket.create_connection(("127.0.0.1", site.server.port), timeout=30)
    found.sendall(begin)
    return found


def test_half_open_connections_stop_nobody_and_write_one_line(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    serving.tell_closed.cache_clear()
    with ExitStack() as opened:
        first, *_, last = [opened.enter_context(half_open(site)) for _ in range(2 * serving.WAITING)]
        assert site.ask("/")[0] == 200
        with suppress(ConnectionResetError):
            assert first.recv(1) == b"", "the oldest is closed"
        last.setblocking(False)
        with pytest.raises(BlockingIOError):
            last.recv(1)
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "begin", [b"", b"GET / HTTP/1.1\r\n", b"POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"]
)
def test_a_request_that_does_not_come_whole_is_closed(
    site: Site, monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    monkeypatch.setattr(serving, "REQUEST_S", 0.1)
    with half_open(site, begin) as connection:
        while connection.recv(65_536):
            pass
