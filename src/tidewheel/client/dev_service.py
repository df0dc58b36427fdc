"""Finds the `tidewheel dev` of this user, which has moved time and an endpoint of its own.

Each running service has a file in the user's runtime folder, named by the endpoint's port:

    <folder>/dev-4566.json = {"endpoint": "http://127.0.0.1:4566", "process": 17, "stack": "tidewheel",
                              "region": "us-east-1", "offset_ms": 259200000}

The folder is `tidewheel` in XDG_RUNTIME_DIR, or `tidewheel-<user id>` in the folder for temporary files, and of this
user alone. A file is replaced whole when time is moved, and deleted when the service ends. The file of a process that
was killed stays: readers ignore it, and the next service deletes it.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from dataclasses import asdict, dataclass
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidewheel.clock import MovedClock, tell
from tidewheel.errors import NotConfigured, TidewheelError

if TYPE_CHECKING:
    import boto3

VARIABLE = "TIDEWHEEL_DEV"
ACCESS_KEY = "local"
"""The access key and the secret for the endpoint, which takes any."""
ADVANCE = "/_tidewheel/advance"
"""The endpoint's path that moves time by the body's duration. No S3 bucket's name has an underscore."""
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_ADVICE = "start it with `tidewheel dev`, or unset TIDEWHEEL_DEV"


@dataclass(frozen=True, slots=True, kw_only=True)
class DevService:
    """A running `tidewheel dev`.

    Attributes:
        endpoint: its AWS endpoint.
        process: the id of its process.
        stack: the stack's name.
        region: the region of the endpoint.
        offset_ms: how far the service's time is ahead of the machine's.
    """

    endpoint: str
    process: int
    stack: str
    region: str
    offset_ms: int = 0

    def session(self) -> boto3.Session:
        """Returns a boto3 session for the endpoint. A Tidewheel client with this session has the service's time."""
        import boto3
        import botocore.session

        core = botocore.session.Session({"profile": (None, None, None, None)})  # not the shell's
        core.set_credentials(ACCESS_KEY, ACCESS_KEY)
        core.set_config_variable("region", self.region)
        tell(core, DevClock(self._path))
        return boto3.Session(botocore_session=core)

    def advance(self, duration: str) -> datetime:
        """Moves the service's time forward. Returns its new time.

        Args:
            duration: such as "3d 4h".

        Raises:
            TidewheelError: the service refused. The text is the service's.
        """
        connection = HTTPConnection("127.0.0.1", self.port)
        try:
            connection.request("POST", ADVANCE, duration.encode())
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != HTTPStatus.OK:
            raise TidewheelError(text)
        return datetime.fromisoformat(text)

    def publish(self) -> None:
        """Lets clients of this user find the service, or its moved time.

        Raises:
            NotConfigured: the folder is not of this user alone.
        """
        _folder().mkdir(mode=0o700, exist_ok=True)
        path = self._path  # looks at the folder again, which another user may have made just now
        for service, other in _read_all(path.parent):
            if not service.is_alive():
                other.unlink(missing_ok=True)
        handle, written = tempfile.mkstemp(dir=path.parent, prefix=".")  # for this user alone
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
        Path(written).replace(path)

    def withdraw(self) -> None:
        """Lets no client find the service any more."""
        self._path.unlink(missing_ok=True)

    def is_alive(self) -> bool:
        """Returns whether the process is there, and something listens at the endpoint."""
        try:
            os.kill(self.process, 0)
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    @property
    def port(self) -> int:
        """The endpoint's port."""
        return urlsplit(self.endpoint).port or 0

    @property
    def _path(self) -> Path:
        return _folder() / f"dev-{self.port}.json"


class DevClock(MovedClock):
    """The time of a `tidewheel dev`, from its file. After the service has ended, its last time goes on."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._read: tuple[int, int] | None = None

    def now_ms(self) -> int:
        """Returns milliseconds since the Unix epoch, UTC, of the service's time."""
        try:
            found = self._path.stat()
            if self._read != (found.st_ino, found.st_mtime_ns):
                self.offset_ms = int(json.loads(self._path.read_bytes())["offset_ms"])
                self._read = found.st_ino, found.st_mtime_ns
        except FileNotFoundError:
            pass
        return super().now_ms()


def is_wanted() -> bool:
    """Returns whether the environment says that clients use the running `tidewheel dev`."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


def chosen(endpoint_url: str | None) -> DevService | None:
    """Returns the service that a client uses, or None.

    Args:
        endpoint_url: the client's endpoint. The service is chosen if this is the service's endpoint.

    Raises:
        NotConfigured: no endpoint is given, and the environment wants the service, as `found` says.
    """
    if endpoint_url is not None:
        return _at(endpoint_url)
    return found() if is_wanted() else None


def found() -> DevService:
    """Returns the running service. Of several, AWS_ENDPOINT_URL chooses.

    Raises:
        NotConfigured: no service is running, or several are, or none where AWS_ENDPOINT_URL says.
    """
    running = [service for service, _ in _read_all(_folder()) if service.is_alive()]
    named = os.environ.get("AWS_ENDPOINT_URL")
    matching = [each for each in running if named is None or _is_of(each, named)]
    if not matching:
        if running:
            raise NotConfigured(f"no `tidewheel dev` is at AWS_ENDPOINT_URL={named}: correct or unset AWS_ENDPOINT_URL")
        raise NotConfigured(f"no `tidewheel dev` of this user is running: {_ADVICE}")
    if len(matching) > 1:
        endpoints = " or ".join(sorted(each.endpoint for each in matching))
        raise NotConfigured(f"several `tidewheel dev` of this user are running: set AWS_ENDPOINT_URL to {endpoints}")
    return matching[0]


def _at(endpoint_url: str) -> DevService | None:
    try:
        services = [service for service, _ in _read_all(_folder())]
    except NotConfigured:  # nobody asked for the service
        return None
    return next((each for each in services if _is_of(each, endpoint_url) and each.is_alive()), None)


def _is_of(service: DevService, endpoint_url: str) -> bool:
    try:
        parts = urlsplit(endpoint_url)
        return parts.hostname in THIS_MACHINE and parts.port == service.port
    except ValueError:  # this is no URL
        return False


def _folder() -> Path:
    """Returns the folder of the files, which may not exist yet.

    Raises:
        NotConfigured: the folder is not of this user alone.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = (
        Path(runtime) / "tidewheel"
        if runtime and Path(runtime).is_dir()
        else Path(tempfile.gettempdir()) / f"tidewheel-{os.getuid()}"
    )
    if not os.path.lexists(folder):
        return folder
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NotConfigured(f"{folder} must be a folder of this user alone: delete it, or set XDG_RUNTIME_DIR")
    return folder


def _read_all(folder: Path) -> list[tuple[DevService, Path]]:
    services = []
    for path in folder.glob("dev-*.json"):
        try:
            services.append((DevService(**json.loads(path.read_bytes())), path))
        except (OSError, ValueError, TypeError):  # deleted meanwhile, or of another release
            continue
    return services
