"""Serves the console on 127.0.0.1, in a thread."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Mapping

import uvicorn

from tidewheel.client.tidewheel import Tidewheel
from tidewheel.console.app import LocalService, app
from tidewheel.errors import InvalidValue

_END_S = 2
"""How long open streams may hold up the end."""


class ConsoleServer:
    """A console on 127.0.0.1.

    Args:
        client, changes, requests, local, hide_bodies, who: as of `app`.
        port: where to listen; 0 for any free port.

    Raises:
        InvalidValue: another program listens on the port.
    """

    def __init__(
        self,
        client: Tidewheel,
        *,
        port: int = 0,
        changes: bool = False,
        requests: Mapping[str, int] | None = None,
        local: LocalService | None = None,
        hide_bodies: bool = False,
        who: str = "local",
    ) -> None:
        # With the protocol named, asyncio sends each answer at once. Otherwise its last part waits 40 ms.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError as error:
            self._socket.close()
            advice = f"stop what listens there, or give another port ({error.strerror})"
            raise InvalidValue("port", port, advice) from None
        self.port: int = self._socket.getsockname()[1]
        token = secrets.token_urlsafe(24)
        self.url = f"http://127.0.0.1:{self.port}/?token={token}"
        self._application = app(
            client,
            changes=changes,
            requests=requests,
            local=local,
            hide_bodies=hide_bodies,
            who=who,
            token=token,
            port=self.port,
        )
        config = uvicorn.Config(
            self._application,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_END_S,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="tidewheel-console", daemon=True)

    def start(self) -> None:
        """Listens, and answers in a thread."""
        self._socket.listen(128)
        self._thread.start()

    def stop(self) -> None:
        """Ends the open streams, and stops."""
        self._application.ended.set()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_END_S + 3)
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])
