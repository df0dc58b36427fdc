"""Finds the `tidewheel dev` of this machine, which has moved time and an endpoint of its own.

The endpoint itself tells what a client must know: the stack, the Region, and how far the service's time is ahead of
the machine's.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidewheel.clock import MovedClock, tell
from tidewheel.errors import InvalidValue, NotConfigured, TidewheelError
from tidewheel.model.duration import delay_ms

if TYPE_CHECKING:
    import boto3

VARIABLE = "TIDEWHEEL_DEV"
PORT = 4566
ACCESS_KEY = "local"
"""The access key and the secret for the endpoint, which takes any."""
ABOUT = "/_tidewheel/about"
"""The endpoint's path that answers with the fields of `DevService`. No S3 bucket's name has an underscore."""
ADVANCE = "/_tidewheel/advance"
"""The endpoint's path that moves time by the body's duration.

The answer is a line with the service's time each second, and a last line that also has the word ADVANCED.
"""
ADVANCED = "advanced"
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_ANSWER_S, _CLOCK_ANSWER_S = 5, 0.5
_ANSWER_BYTES = 4096
_FRESH_S = 0.05
"""How long a client relies on the time that the service told."""
_AGAIN_S = 5
"""How long a client relies on the last time if the service does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevService:
    """A running `tidewheel dev`.

    Attributes:
        process: its id.
        offset_ms: how far its time is ahead.
        units: what AWS would bill so far, in the units of `tidewheel.model.prices`.
    """

    endpoint: str
    process: int
    stack: str
    region: str
    offset_ms: int = 0
    units: Mapping[str, float] = field(default_factory=dict, compare=False)

    def session(self) -> boto3.Session:
        """Returns a boto3 session for the endpoint. A Tidewheel client with this session has the service's time."""
        import boto3
        import botocore.session

        core = botocore.session.Session({"profile": (None, None, None, None)})  # not the shell's
        core.set_credentials(ACCESS_KEY, ACCESS_KEY)
        core.set_config_variable("region", self.region)
        tell(core, DevClock(self))
        return boto3.Session(botocore_session=core)

    def advance(self, duration: str, progress: Callable[[float, float], None] = lambda *_: None) -> datetime:
        """Moves the service's time forward. Returns its new time.

        Args:
            duration: such as "3d 4h".
            progress: called with the seconds by which time has moved so far, and with those of the duration.

        Raises:
            InvalidValue: the duration is not usable.
            TidewheelError: the service refused, or ended meanwhile.
        """
        length_s, first = delay_ms(duration, "duration") / 1000, None
        connection = HTTPConnection(urlsplit(self.endpoint).netloc)
        with closing(connection), suppress(OSError, HTTPException):
            connection.request("POST", ADVANCE, duration.encode())
            answer = connection.getresponse()
            if answer.status != HTTPStatus.OK:
                raise TidewheelError(answer.read().decode())
            for line in answer:
                text, *advanced = line.decode().split()
                now = datetime.fromisoformat(text)
                if advanced:
                    return now
                first = first or now
                progress((now - first).total_seconds(), length_s)
        raise TidewheelError(
            f"the service at {self.endpoint} ended before time had moved by {duration}: start it again"
        )


class DevClock(MovedClock):
    """The time of a `tidewheel dev`. After the service has ended, its last time goes on."""

    def __init__(self, service: DevService) -> None:
        super().__init__(service.offset_ms)
        self._endpoint = service.endpoint
        self._ask_at_s = time.monotonic() + _FRESH_S

    def now_ms(self) -> int:
        """Returns milliseconds since the Unix epoch, UTC, of the service's time."""
        if time.monotonic() >= self._ask_at_s:
            self._ask_at_s = time.monotonic() + _AGAIN_S  # other threads do not ask meanwhile
            found = _at(self._endpoint, _CLOCK_ANSWER_S)
            if found is not None:
                self.offset_ms = found.offset_ms
                self._ask_at_s = time.monotonic() + _FRESH_S
        return super().now_ms()


def is_wanted() -> bool:
    """Returns whether the environment says that clients use the running `tidewheel dev`."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


def service_for(endpoint_url: str | None) -> DevService | None:
    """Returns the service that a client uses, or None.

    Raises:
        NotConfigured: the environment says that clients use a `tidewheel dev`, and none is running.
    """
    if endpoint_url is not None:
        return _at(endpoint_url)
    return running() if is_wanted() else None


def running() -> DevService:
    """Returns the running service, at AWS_ENDPOINT_URL or the usual port.

    Raises:
        NotConfigured: there is none.
    """
    endpoint_url = os.environ.get("AWS_ENDPOINT_URL") or f"http://127.0.0.1:{PORT}"
    found = _at(endpoint_url)
    if found is None:
        advice = f"start it with `tidewheel dev`, set AWS_ENDPOINT_URL to its endpoint, or unset {VARIABLE}"
        raise NotConfigured(f"no `tidewheel dev` answers at {endpoint_url}: {advice}")
    return found


def check_free(name: str, port: int) -> None:
    """Raises InvalidValue if a port of 127.0.0.1 cannot be listened on. 0 is any free port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            advice = f"stop what listens there, or give another port ({error.strerror})"
            raise InvalidValue(name, port, advice) from None


def _at(endpoint_url: str, answer_s: float = _ANSWER_S) -> DevService | None:
    """Asks an endpoint of this machine what it is. None if it is no `tidewheel dev`."""
    try:
        parts = urlsplit(endpoint_url)
        if parts.hostname not in THIS_MACHINE:
            return None
        with closing(HTTPConnection("127.0.0.1", parts.port, timeout=answer_s)) as connection:
            connection.request("POST", ABOUT)
            answer = connection.getresponse()
            told = json.loads(answer.read1(_ANSWER_BYTES)) if answer.status == HTTPStatus.OK else {}
        return DevService(
            endpoint=f"http://127.0.0.1:{connection.port}",  # as asked: a port may be forwarded
            process=int(told["process"]),
            stack=str(told["stack"]),
            region=str(told["region"]),
            offset_ms=int(told["offset_ms"]),
            units=dict(told["units"]),
        )
    except (OSError, HTTPException, ValueError, TypeError, KeyError):  # no URL, no server, or another
        return None
