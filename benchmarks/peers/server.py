"""Defines the interface of measured servers.

Each server runs on the loopback interface, in a folder that is deleted at the end, and flushes a message to the disk
before it acknowledges it. Its client is in this process: one publisher, one consumer.
"""

from __future__ import annotations

import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

from benchmarks.peers.program import Program, disk_bytes
from benchmarks.peers.stream import Delivery, Timed

START_S = 120.0


class DelayServer(ABC):
    """A server, and its client.

    Attributes:
        name: heads its column.
        settings: how it was set.
        folder: holds all its files; its data is in `data`.
        program: its processes.
    """

    name: ClassVar[str]
    settings: ClassVar[str]
    not_data: ClassVar[tuple[str, ...]] = ()
    """Folders that `disk_bytes` leaves out."""

    @classmethod
    @abstractmethod
    def missing(cls) -> str | None:
        """Returns the missing programs, or None."""

    @abstractmethod
    def _start(self, *, durable: bool) -> Program:
        """Starts the server on the stored data.

        Args:
            durable: False: it need not flush, because nobody will cut its power.
        """

    @abstractmethod
    def _connect(self) -> None:
        """Connects the client, and makes missing queues. Raises an error if the server is not ready."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Drops the client's connection, in any state."""

    @abstractmethod
    def send(self, messages: Sequence[Timed]) -> None:
        """Sends messages together. On return all are acknowledged."""

    @abstractmethod
    def take(self, wait_s: float) -> list[Delivery]:
        """Receives and acknowledges due messages, and waits if nothing is due."""

    @abstractmethod
    def waiting(self) -> int:
        """Returns the number of messages that wait in the server."""

    def __enter__(self) -> Self:
        self._temporary = tempfile.TemporaryDirectory(prefix="tidewheel-peers-")
        self.folder = Path(self._temporary.name)
        (self.folder / "data").mkdir()
        self._program: Program | None = None
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._program is not None:
                self._program.kill()
                with suppress(Exception):  # it may never have been connected
                    self._disconnect()
        finally:
            self._temporary.cleanup()

    @property
    def program(self) -> Program:
        """The running server."""
        assert self._program is not None
        return self._program

    def start(self, *, durable: bool = True) -> None:
        """Starts the server, and waits until its client is connected.

        Raises:
            RuntimeError: the server ended, or was not ready within two minutes.
        """
        self._program = self._start(durable=durable)
        deadline = time.monotonic() + START_S
        while True:
            try:
                return self._connect()
            except Exception as error:  # each client has errors of its own for a server that is not ready
                self._program.check()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} did not start: {error}") from error
                time.sleep(0.02)

    def kill(self) -> None:
        """Kills the server with `kill -9`."""
        self.program.kill()
        self._disconnect()
        self._program = None

    def stop(self) -> None:
        """Ends the server in order."""
        self._disconnect()
        self.program.stop()
        self._program = None

    def disk_bytes(self) -> int:
        """Returns the bytes of the server's data on disk."""
        return disk_bytes(self.folder / "data", without=self.not_data)
