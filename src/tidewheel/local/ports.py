"""Checks ports before a server is made, which would end the process or tell less."""

from __future__ import annotations

import socket

from tidewheel.errors import InvalidValue


def check_free(name: str, port: int) -> None:
    """Raises InvalidValue if a port of 127.0.0.1 cannot be listened on. 0 is any free port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            advice = f"stop what listens there, or give another port ({error.strerror})"
            raise InvalidValue(name, port, advice) from None
