"""Reads foreign files in a child process, which a damaged file may end or fill.

    driver or Spark's worker                     child: python -m tidewheel.jobs.importing.child
        apart(task, work, parts) --- pickled ---> limits its memory, runs the task
                                 <--- pickled --- a part's place before it is read, results, at last None or an error

If the child dies, the file that it read has a problem, and another child does the next parts. If the parent dies, the
child ends when it tells something.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from tidewheel.jobs.importing.checks import Checked
from tidewheel.jobs.importing.work import Part, Work

MEMORY_BYTES = 1_100_000_000
"""Most memory of a child, beside what it maps of files."""

Task = Callable[[Work, Sequence[Part]], Iterator[Any]]
_running: set[subprocess.Popen[bytes]] = set()


def apart(task: Task, work: Work, parts: Sequence[Part]) -> Iterator[Any]:
    """Yields the results of a task in a child process, and the problem of each file at which a child died.

    Args:
        task: a function of a module. It yields the place of each part before it reads the part.
        work, parts: of the task.

    Raises:
        RuntimeError: the task failed, as by a refused write, or `end_children` was called.
    """
    while parts:
        child, place = _start(), 0
        assert child.stdin is not None and child.stdout is not None
        try:
            pickle.dump((task, work, parts), child.stdin)
            child.stdin.flush()
            while (told := pickle.load(child.stdout)) is not None:
                if isinstance(told, Exception):
                    raise told
                if isinstance(told, int):
                    place = told
                else:
                    yield told
            return
        except (EOFError, OSError, pickle.UnpicklingError):
            if child not in _running:
                raise RuntimeError("the import was stopped") from None
            child.kill()
            why = f"the process that read it {_how_ended(child.wait())}; make the file again"
            yield Checked(failed={parts[place].file.name: why})
            parts = parts[place + 1 :]
        finally:
            _running.discard(child)
            child.kill()
            with suppress(BrokenPipeError), child:  # closes the pipes
                pass


def _start() -> subprocess.Popen[bytes]:
    path = os.pathsep.join(each for each in sys.path if each)
    child = subprocess.Popen(
        [sys.executable, "-m", "tidewheel.jobs.importing.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # The archive of a Glue job is on this process's path only.
        env={**os.environ, "PYTHONPATH": path},
    )
    _running.add(child)
    return child


def end_children() -> None:
    """Ends all children of this process. Their tasks fail."""
    while _running:
        _running.pop().kill()


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


def main() -> None:
    """Runs one task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    _limit_memory()
    task, work, parts = pickle.load(sys.stdin.buffer)
    try:
        for told in task(work, parts):
            _tell(told)
        _tell(None)
    except Exception as error:
        _tell(RuntimeError(f"{type(error).__name__}: {error}"))
    os._exit(0)


def _tell(told: Any) -> None:
    pickle.dump(told, sys.stdout.buffer)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
