"""Random damage of all stored data, in processes that may die. Every death is seen and counted."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.fuzz.trying import PROGRESS

DAMAGE, LIE = "damage", "lie"
"""The two ways: stored bytes are damaged; or what is inside is, and the checksums are right again."""
STARTS_WITHIN_S = 300
HANGS_AFTER_S = 60
_NOTHING = (1 << 64) - 1


@dataclass(slots=True, kw_only=True)
class Tally:
    """The results of damages of one kind.

    Attributes:
        errors: refused with an error of the project's own.
        equal: read, and the same as undamaged.
        read: read as something else: of lies, and of what carries no checksum.
        deaths: numbers of those that ended or stopped the process, and how.
        failures: numbers of those that ended in another error, or were not noticed, with the traceback.
    """

    tried: int = 0
    errors: int = 0
    equal: int = 0
    read: int = 0
    deaths: list[tuple[int, str]] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)


What = tuple[str, str]
"""A way and a kind."""
Job = tuple[str, str, int, int]
"""A way, a kind, the number of the first try, how many."""


def try_all(
    what: Iterable[What], count: int, seed: int, *, workers: int = 1, hangs_after_s: float = HANGS_AFTER_S
) -> dict[What, Tally]:
    """Tries `count` damages of each kind, each in its way."""
    tallies = {each: Tally() for each in what}
    shares: list[list[Job]] = [[] for _ in range(workers)]
    for way, name in tallies:
        bounds = [count * i // workers for i in range(workers + 1)]
        for share, first, end in zip(shares, bounds, bounds[1:], strict=False):
            share.append((way, name, first, end - first))
    with ThreadPoolExecutor(workers) as threads:
        for _ in threads.map(lambda share: _try_share(share, seed, hangs_after_s, tallies), shares):
            pass
    return tallies


def _try_share(jobs: list[Job], seed: int, hangs_after_s: float, tallies: dict[What, Tally]) -> None:
    """Runs some jobs in successive processes. Each process goes on behind the death of the process before."""
    jobs = [each for each in jobs if each[3]]
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"
        while jobs:
            progress.write_bytes(PROGRESS.pack(_NOTHING, 0))
            lines, ended = _one_process(jobs, seed, progress, Path(folder), hangs_after_s)
            for line in lines:
                _count(tallies, jobs, line)
            place, number = PROGRESS.unpack(progress.read_bytes())
            if ended is None:
                return
            if place == _NOTHING:
                raise RuntimeError(f"the process did not start: {ended}")
            way, name, first, count = jobs[place]
            done = number - first
            if done:  # those ahead of it are tried again, in order to count them
                jobs = [(way, name, first, done), (way, name, number + 1, count - done - 1), *jobs[place + 1 :]]
            else:
                jobs = [(way, name, number + 1, count - 1), *jobs[place + 1 :]]
            jobs = [each for each in jobs if each[3]]
            tallies[way, name].tried += 1
            tallies[way, name].deaths.append((number, ended))


def _count(tallies: dict[What, Tally], jobs: Sequence[Job], line: str) -> None:
    found = json.loads(line)
    way, name, _, count = jobs[found["place"]]
    tally, counts = tallies[way, name], found["counts"]
    tally.tried += count
    tally.errors += counts["error"]
    tally.equal += counts["equal"]
    tally.read += counts["read"]
    tally.failures += [(number, text) for number, text in found["failures"]]


def _one_process(
    jobs: Sequence[Job], seed: int, progress: Path, folder: Path, hangs_after_s: float
) -> tuple[list[str], str | None]:
    """Runs jobs in a process. Returns its output, and the reason of its end or None if all jobs were done."""
    out, err = folder / "out", folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        command = [sys.executable, "-m", "tests.fuzz.trying", str(progress), str(seed), json.dumps(jobs)]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=stdout, stderr=stderr)
        hung = _watch(process, progress, hangs_after_s)
    said = [line for line in err.read_text(errors="replace").splitlines() if line.strip()]
    lines = [line for line in out.read_text().splitlines() if line.endswith("}")]
    if hung:
        return lines, f"hung for {hangs_after_s} s"
    if process.returncode == 0:
        return lines, None
    return lines, f"ended with {process.returncode}: {' '.join(said[-2:])[-300:]}"


def _watch(process: subprocess.Popen[bytes], progress: Path, hangs_after_s: float) -> bool:
    """Waits for the process. Ends the process and returns True if a try takes too long."""
    before, since = b"", time.monotonic()
    try:
        while True:
            try:
                process.wait(0.5)
                return False
            except subprocess.TimeoutExpired:
                now = progress.read_bytes()
            if now != before:
                before, since = now, time.monotonic()
            limit = STARTS_WITHIN_S if PROGRESS.unpack(now)[0] == _NOTHING else hangs_after_s
            if time.monotonic() - since > limit:
                return True
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def table(tallies: dict[What, Tally]) -> str:
    """Returns the counts as a table, with their sums."""
    rows = [
        (name, each.tried, each.errors, each.equal, each.read, len(each.failures), len(each.deaths))
        for (_, name), each in tallies.items()
    ]
    sums = [sum(numbers) for numbers in zip(*(row[1:] for row in rows), strict=True)]
    heads = ("kind", "damages", "errors", "equal", "read", "failures", "deaths")
    lines = [f"{heads[0]:28}" + "".join(f"{head:>10}" for head in heads[1:])]
    lines += [
        f"{name:28}" + "".join(f"{number:>10,}" for number in numbers) for name, *numbers in (*rows, ("all", *sums))
    ]
    return "\n".join(lines)


def troubles(tallies: dict[What, Tally], seed: int) -> list[str]:
    """Returns how to see each death and failure again."""
    return [
        f"python -m tests.fuzz.trying {seed} {way} {name!r} {number}   # {said.strip().splitlines()[-1]}"
        for (way, name), each in tallies.items()
        for number, said in (*each.deaths, *each.failures)
    ]
