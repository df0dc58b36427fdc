"""Tries random damage in a separate process, which may die. `tests.fuzz.damages` starts another process after a death.

    python -m tests.fuzz.trying PROGRESS SEED JOBS       JOBS is a JSON list of [way, kind, first, count]
    python -m tests.fuzz.trying SEED WAY KIND NUMBER     one again, alone

Every try has a number; with the seed, the way and the kind it gives the same damage anywhere. The file PROGRESS always
holds the place of the job and the number of its try that is under way, 8 bytes each: what to blame if the process dies.
Results are printed as JSON, a line a job.
"""

from __future__ import annotations

import json
import mmap
import resource
import struct
import sys
import traceback
from pathlib import Path
from random import Random

from tests.fuzz.damage import damaged
from tests.fuzz.kinds import Kind, kind_of
from tidewheel.errors import TidewheelError

PROGRESS = struct.Struct("<QQ")
_ROOM_BYTES = 1024**3
_MOST_FAILURES = 5


def attempt(kind: Kind, way: str, chance: Random) -> str:
    """Damages an example and reads the result. Returns "error", "equal" or "read".

    Raises:
        AssertionError: damage was taken for good bytes.
    """
    good = chance.choice(kind.good)
    if way == "lie":
        assert kind.lie is not None
        bad = kind.lie(chance, good)
    else:
        bad = damaged(chance, good)
    try:
        found = kind.read(bad)
    except TidewheelError:
        return "error"
    if bad == good:
        return "equal"
    if way == "lie":
        return "read"
    if found == kind.read(good):
        return "equal"
    assert not kind.checked, f"damage was not noticed: {found!r}"[:500]
    return "read"


def chance_of(seed: int, way: str, kind: str, number: int) -> Random:
    """Returns the random generator of a try."""
    return Random(f"{seed}/{way}/{kind}/{number}")


def run(progress: mmap.mmap, place: int, seed: int, way: str, name: str, first: int, count: int) -> dict[str, object]:
    """Runs a job and returns its counts."""
    kind = kind_of(name)
    counts = {"error": 0, "equal": 0, "read": 0, "failed": 0}
    failures: list[tuple[int, str]] = []
    for number in range(first, first + count):
        PROGRESS.pack_into(progress, 0, place, number)
        try:
            counts[attempt(kind, way, chance_of(seed, way, name, number))] += 1
        except Exception:
            counts["failed"] += 1
            if len(failures) < _MOST_FAILURES:
                failures.append((number, traceback.format_exc()[-1500:]))
    return {"place": place, "counts": counts, "failures": failures}


def _bound() -> None:
    """Limits the memory of the process to a gibibyte more than now."""
    size = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
    most = int(size.split()[1]) * 1024 + _ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(arguments: list[str]) -> None:
    """Runs the jobs, or repeats a single try."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if len(arguments) == 4:
        seed, way, name, number = arguments
        print(attempt(kind_of(name), way, chance_of(int(seed), way, name, int(number))))
        return
    path, seed, text = arguments
    jobs = json.loads(text)
    for _, name, _, _ in jobs:
        kind_of(name).read(kind_of(name).good[0])
    _bound()
    with Path(path).open("r+b") as file, mmap.mmap(file.fileno(), PROGRESS.size) as progress:
        for place, (way, name, first, count) in enumerate(jobs):
            print(json.dumps(run(progress, place, int(seed), way, name, first, count)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
