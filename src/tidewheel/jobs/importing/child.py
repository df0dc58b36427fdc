"""Runs tasks on foreign files in a child process, which a damaged file may end or fill.

    driver or Spark's worker                         child: python -m tidewheel.jobs.importing.child
        call(task, item) --- pickled (task, item) --->  limits its memory, runs the task
                         <--- pickled answers --------  what the task yields, at last its end or its error

A child serves many calls, one at a time. If the child dies, the file that it read has a problem, and the next call
starts another child. The child ends when its parent does.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Generic, TypeVar

from tidewheel.jobs.importing.work import FileProblem

Item = TypeVar("Item")
Result = TypeVar("Result")

MEMORY_BYTES = 1_100_000_000
"""Most memory of a child, beside what it maps of files."""
_END = "end"

_children: list[Child] = []
_idle: list[Child] = []


@dataclass(frozen=True, slots=True)
class Apart(Generic[Item, Result]):
    """Runs a task in an idle child process, or in a new one."""

    task: Callable[[Item], Iterator[Result]]

    def __call__(self, item: Item) -> Iterator[Result]:
        """Yields what the task yields.

        Raises:
            FileProblem: the child died, or has too little memory.
            RuntimeError: another error, such as a refused write.
        """
        child = _idle_child()
        at_rest = False
        try:
            for kind, answer in child.call(self.task, item):
                at_rest = kind != "result"
                if kind == "result":
                    yield answer
                elif kind != _END:
                    raise (FileProblem if kind == "problem" else RuntimeError)(answer)
        finally:
            if at_rest and not child.ended:
                _idle.append(child)
            else:
                child.end()


class Child:
    """A child process."""

    def __init__(self) -> None:
        path = os.pathsep.join(each for each in sys.path if each)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tidewheel.jobs.importing.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # The archive of a Glue job is on this process's path only.
            env={**os.environ, "PYTHONPATH": path},
        )
        _children.append(self)

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def call(self, task: Callable[[Any], Iterator[Any]], item: Any) -> Iterator[tuple[str, Any]]:
        """Runs a task in the process. Yields its answers, of which the last is no result."""
        assert self._process.stdin is not None and self._process.stdout is not None
        kind = "result"
        try:
            pickle.dump((task, item), self._process.stdin)
            self._process.stdin.flush()
            while kind == "result":
                kind, answer = pickle.load(self._process.stdout)
                yield kind, answer
        except (EOFError, OSError, pickle.UnpicklingError):
            self._process.kill()
            yield "problem", f"the process that read it {_how_ended(self._process.wait())}; make the file again"

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()
        for each in (_children, _idle):
            with suppress(ValueError):
                each.remove(self)


def _idle_child() -> Child:
    with suppress(IndexError):
        while True:
            child = _idle.pop()
            if not child.ended:
                return child
            child.end()
    return Child()


def end_children() -> None:
    """Ends all children of this process."""
    for child in list(_children):
        child.end()


def _how_ended(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
    return f"died by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


def _limit_memory() -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_with_parent() -> None:
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            threading.Event().wait(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def answers(task: Callable[[Any], Iterator[Any]], item: Any) -> Iterator[tuple[str, Any]]:
    """Runs a task. Yields its answers, of which the last is no result."""
    try:
        for result in task(item):
            yield "result", result
        yield _END, None
    except FileProblem as problem:
        yield "problem", str(problem)
    except MemoryError:
        yield "problem", "it needs too much memory; make smaller row groups, pages and values, or split the file"
    except Exception as error:
        yield "error", f"{type(error).__name__}: {error}"


def _serve(requests: IO[bytes], to: IO[bytes]) -> None:
    while True:
        try:
            task, item = pickle.load(requests)
        except EOFError:
            return
        for answer in answers(task, item):
            pickle.dump(answer, to)
            to.flush()


def main() -> None:
    """Serves calls until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    to = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    _limit_memory()
    _end_with_parent()
    _serve(sys.stdin.buffer, to)


if __name__ == "__main__":
    main()
