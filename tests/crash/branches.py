"""Branches of a process. A branch is a copy of this process, goes another way, and reports its result.

A fork copies everything, the emulated AWS as well as the flow that is under way, for some milliseconds. What forks must
be the process's only thread that matters: the functions of the local stack send on one.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import traceback
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tidewheel.errors import InvalidValue

Result = TypeVar("Result")

LONGEST_S = 300
"""A branch that takes longer hangs; most take a second."""


class BranchFailed(Exception):
    """The error of a branch without a result. The text has the reason."""


class Branches(Generic[Result]):
    """Forks off branches, a few at a time.

    Args:
        jobs: how many are open at one time.
        longest_s: when none of those that are open has ended after so many seconds, they hang; None: they may take as
            long as they do, since they have branches of their own.

    Attributes:
        is_branch: whether this process is one itself.

    Raises:
        InvalidValue: there is room for none.
    """

    def __init__(self, jobs: int = 1, longest_s: float | None = LONGEST_S) -> None:
        if jobs < 1:
            raise InvalidValue("jobs", jobs, "Give how many branches may be open at one time: 1 or more.")
        self.is_branch = False
        self.results: list[Result | BranchFailed] = []
        self._jobs = jobs
        self._longest_s = longest_s
        self._open: dict[int, tuple[int, str]] = {}
        self._pipe = -1

    def fork(self, name: str) -> bool:
        """Makes a branch. Returns True in the branch, and False in this process."""
        while len(self._open) >= self._jobs:
            self._wait()
        gc.freeze()  # what a collection does not touch, the processes go on sharing
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            gc.disable()  # it ends soon, and memory that is not touched stays shared
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches all of them, and is no finding of theirs
            self.is_branch, self._pipe = True, writing
            return True
        os.close(writing)
        self._open[reading] = pid, name
        return False

    def end(self, conclude: Callable[[], Result]) -> None:
        """Ends a branch, and reports the result or the error of `conclude`. Does nothing outside a branch."""
        if not self.is_branch:
            return
        try:
            report: Any = conclude()
        except BaseException:
            report = BranchFailed(traceback.format_exc(limit=-6))
        try:
            with os.fdopen(self._pipe, "wb") as pipe:
                pickle.dump(report, pipe)
        finally:
            os._exit(0)  # no cleaning up: all of it is the original's

    def gather(self) -> list[Result | BranchFailed]:
        """Waits for all branches. Returns their results in the order of their ends."""
        while self._open:
            self._wait()
        gc.unfreeze()
        return self.results

    def abandon(self) -> None:
        """Ends all open branches. Their results are lost."""
        for reading, (pid, _) in self._open.items():
            os.kill(pid, signal.SIGKILL)
            os.close(reading)
            os.waitpid(pid, 0)
        self._open.clear()
        gc.unfreeze()

    def _wait(self) -> None:
        ready, _, _ = select.select(list(self._open), [], [], self._longest_s)
        for reading in ready or list(self._open):
            pid, name = self._open.pop(reading)
            if not ready:
                os.kill(pid, signal.SIGKILL)
            with os.fdopen(reading, "rb") as pipe:
                data = pipe.read()
            os.waitpid(pid, 0)
            if data:
                self.results.append(pickle.loads(data))
            else:
                reason = "ended without a report" if ready else f"was at it for more than {self._longest_s} s"
                self.results.append(BranchFailed(f"{name}: the branch {reason}"))
