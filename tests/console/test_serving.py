"""The server of the console, as a program sees it."""

from __future__ import annotations

import socket

from tidewheel.console import ConsoleServer
from tidewheel.local import MemoryTidewheel


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    with MemoryTidewheel() as stack:
        server = ConsoleServer(stack.client())
        try:
            # asyncio sets TCP_NODELAY on connections whose protocol is named, and the accepted have the listener's.
            assert server._socket.proto == socket.IPPROTO_TCP
        finally:
            server.stop()
