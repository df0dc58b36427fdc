"""Runs a server as a child process during a measurement."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.process_memory import Peak, is_running, proportional_bytes, tree

_STOP_S = 60.0
_SAMPLE_S = 0.25


class Program:
    """A process with all its descendants.

    Args:
        command: starts it, in the foreground.
        log: gets its output.
        environment: variables beside this process's own.
        user: runs it; None: this process's user.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=log.parent,
                env={**os.environ, **(environment or {})},
                user=user,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The number of the process that was started."""
        return self._process.pid

    def check(self) -> None:
        """Raises RuntimeError if the program has ended."""
        if self._process.poll() is not None:
            said = self.log.read_text(errors="replace")[-500:]
            raise RuntimeError(f"{self._process.args!s:.60} ended with {self._process.returncode}: {said}")

    def kill(self) -> None:
        """Kills all its processes at once, as `kill -9` does, and waits until they are gone."""
        processes = list(tree(self.pid)) if self._process.poll() is None else []
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        while any(is_running(process) for process in processes):
            time.sleep(0.001)

    def stop(self) -> None:
        """Asks the process to end, and kills the process after a minute."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        self.kill()

    def memory_bytes(self) -> int:
        """Returns the memory of all its processes, with shared pages counted once."""
        return proportional_bytes(tree(self.pid))

    @contextmanager
    def peak(self) -> Iterator[Peak]:
        """Samples the memory four times a second."""
        peak, ended = Peak(), threading.Event()

        def sample() -> None:
            while True:
                peak.megabytes = max(peak.megabytes, self.memory_bytes() / 1e6)
                if ended.wait(_SAMPLE_S):
                    return

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            yield peak
        finally:
            ended.set()
            thread.join()


def free_port() -> int:
    """Returns a port of the loopback interface that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def disk_bytes(folder: Path, *, without: Sequence[str] = ()) -> int:
    """Returns the bytes of a folder's files on disk.

    Args:
        folder: whose files are counted.
        without: names of folders that are left out.
    """
    total = 0
    for root, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if each not in without]
        for name in files:
            with suppress(FileNotFoundError):  # the server has deleted it meanwhile
                total += (Path(root) / name).stat().st_blocks * 512
    return total


def unprivileged(folder: Path, user: str) -> str | None:
    """Gives a folder to a user if this process is root's, for servers that root may not run. Returns the user."""
    if os.geteuid() != 0:
        return None
    account = pwd.getpwnam(user)
    folder.chmod(0o755)
    for each in (folder, *folder.rglob("*")):
        os.chown(each, account.pw_uid, account.pw_gid)
    return user
