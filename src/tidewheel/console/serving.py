"""Serves the console on 127.0.0.1, in a thread."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import uvicorn

from tidewheel.client.dev_service import check_free
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.console.app import app

_END_S = 2
"""How long a page that is being made may hold up the end."""
_BACKLOG = 256
"""Connections that may wait to be taken."""


class ConsoleServer:
    """A console on 127.0.0.1.

    Args:
        client: as of `app`.
        port: where to listen; 0 for any free port.
        opened: called when a browser has opened the console, with the address for another.
        options: of `app`, without those about its address.

    Raises:
        InvalidValue: another program listens on the port.
    """

    def __init__(
        self, client: Tidewheel, *, port: int = 0, opened: Callable[[str], object] = lambda _: None, **options: Any
    ) -> None:
        check_free("port", port)
        # With the protocol named, asyncio sends each answer at once. Otherwise its last part waits 40 ms.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self.port: int = self._socket.getsockname()[1]
        self._application = app(client, token=secrets.token_urlsafe(24), port=self.port, **options)
        self._application.opened = lambda: opened(self.url)
        config = uvicorn.Config(
            self._application,
            http="h11",
            backlog=_BACKLOG,
            log_config=None,
            log_level="error",  # no line for each bad request
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_END_S,
        )
        self._server = uvicorn.Server(config)
        run = partial(self._server.run, sockets=[self._socket])
        self._thread = threading.Thread(target=run, name="tidewheel-console", daemon=True)

    @property
    def url(self) -> str:
        """The address that opens the console once. Then there is another."""
        return f"http://127.0.0.1:{self.port}/?token={self._application.token}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listens, and answers in a thread."""
        self._socket.listen(_BACKLOG)
        self._thread.start()

    def stop(self) -> None:
        """Stops."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_END_S + 3)
        self._socket.close()
