"""Peak memory and CPU time of a process and of all processes below it.

Java and Python's workers are part of a Spark job.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Peak:
    """The largest sum of resident sets."""

    megabytes: float = 0.0


@contextmanager
def watched(root: int) -> Iterator[Peak]:
    """Samples the memory of a process's tree every 50 ms."""
    peak, ended = Peak(), threading.Event()

    def sample() -> None:
        while not ended.wait(0.05):
            peak.megabytes = max(peak.megabytes, _tree_mb(root))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def is_running(process: int) -> bool:
    """Returns whether a process runs. A process that ended does not run, even before the parent has waited."""
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def proportional_bytes(processes: Iterable[int]) -> int:
    """Returns the memory of some processes, with shared pages counted once."""
    total = 0
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:  # the process has ended
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def tree_cpu_s(root: int) -> float:
    """Returns the CPU time of a process's tree so far, in seconds."""
    # utime, stime, and those of the processes that have ended and were waited for
    return sum(sum(map(int, stat[11:15])) for stat, _ in _tree(root).values()) / os.sysconf("SC_CLK_TCK")


def tree(root: int) -> dict[int, int]:
    """Returns a process with all descendants, each with the bytes of the resident set."""
    return {process: resident for process, (_, resident) in _tree(root).items()}


def _tree_mb(root: int) -> float:
    return sum(tree(root).values()) / 1e6


def _tree(root: int) -> dict[int, tuple[list[str], int]]:
    """Returns of each process the fields of `stat` from the third on, and its resident bytes."""
    parents: dict[int, list[int]] = {}
    processes: dict[int, tuple[list[str], int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                resident = int((entry / "statm").read_text().split()[1]) * _PAGE
            except OSError:  # the process has ended
                continue
            processes[int(entry.name)] = stat, resident
            parents.setdefault(int(stat[1]), []).append(int(entry.name))
    members: dict[int, tuple[list[str], int]] = {}
    found = [root]
    while found:
        process = found.pop()
        if process in processes:
            members[process] = processes[process]
        found += parents.get(process, [])
    return members
