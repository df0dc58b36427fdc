"""Tries a seeded sample of mutants with the quick tests of their lines. Prints the surviving mutants.

    pip install mutmut==3.8.1 coverage
    python -m tests.mutation [--seed 1] [--number 1000] [--seconds 10] [tests ...]

No file is changed: each mutant is imported by a process of its own. The simulation and the tests on moto are left out,
so they may still notice a mutant that survives here.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.machinery
import os
import pickle
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coverage
import hypothesis
import moto
import pyarrow.parquet
import pytest

from tests.mutation.mutants import ROOMS, ROOT, Mutant, sample

IMPORTED_ONCE = (hypothesis, moto, pyarrow.parquet)
"""Imported here, so that the process of a mutant imports Tidewheel alone."""
TESTS = ("unit", "flows", "behaviour", "contract", "fuzz", "local/test_memory_stack.py")
OPTIONS = [
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-o",
    "timeout=0",
    "-m",
    "not long",
    "-k",
    "not moto and not aws",
]
SPARE_S = 30
"""CPU time beyond that of the tests. What takes more is an endless loop, and is noticed."""


class Reach:
    """Which tests reach which lines, and how long each test takes."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[int, set[str]]] = {}
        self.seconds: dict[str, float] = {}

    def measure(self, tests: list[str], file: Path) -> int:
        """Runs all tests once, and writes the file."""
        rooms = [str(ROOT / "src" / "tidewheel" / room) for room in ROOMS]
        self._measured = coverage.Coverage(data_file=None, config_file=False, source=rooms)
        self._measured.start()
        code = pytest.main([*OPTIONS, *tests], plugins=[self])
        self._measured.stop()
        data = self._measured.get_data()
        for name in data.measured_files():
            contexts = data.contexts_by_lineno(name).items()
            self.lines[str(Path(name).relative_to(ROOT))] = {
                line: self.seconds.keys() & each for line, each in contexts
            }
        file.write_bytes(pickle.dumps((self.lines, self.seconds)))
        return int(code)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begins a test."""
        self._measured.switch_context(nodeid)
        self._began_s = time.process_time()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps a test after a success without any mutant."""
        if report.passed and report.when == "call":
            self.seconds[report.nodeid] = time.process_time() - self._began_s

    def tests(self, mutant: Mutant, limit_s: float) -> tuple[list[str], float]:
        """Returns the quickest tests of a mutant's lines, and their time. At import, all lines of the file count."""
        lines = self.lines.get(mutant.path, {})
        wanted = range(mutant.first_line, mutant.last_line + 1) if mutant.in_function else lines
        found = {test for line in wanted for test in lines.get(line, ())}
        chosen, spent_s = [], 0.0
        for test in sorted(found, key=lambda each: self.seconds[each]):
            if chosen and spent_s + self.seconds[test] > limit_s:
                break
            chosen.append(test)
            spent_s += self.seconds[test]
        return chosen, spent_s


def in_fork(work: Callable[[], int], cpu_s: float | None = None) -> int:
    """Does work in a silent process of its own. Returns its exit code, or another number after a forced end."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        if cpu_s is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (round(cpu_s), round(cpu_s)))
        os._exit(work())
    finally:
        os._exit(70)


def passes(mutant: Mutant, tests: list[str]) -> int:
    """Imports a mutant and runs tests up to the first failure. Returns the exit code of pytest."""
    file, source = str(ROOT / mutant.path), mutant.source()
    loader: Any = importlib.machinery.SourceFileLoader
    original = loader.get_code
    loader.get_code = lambda self, name: (
        compile(source, file, "exec", dont_inherit=True) if self.path == file else original(self, name)
    )
    return int(pytest.main([*OPTIONS, "-x", *tests]))


def difference(mutant: Mutant) -> str:
    """Returns a mutant as a patch."""
    before = (ROOT / mutant.path).read_text(encoding="utf-8").splitlines()
    lines = difflib.unified_diff(before, mutant.source().splitlines(), mutant.path, mutant.operator, n=1, lineterm="")
    return "\n".join(lines)


def main() -> None:
    """Tries the sample in its order."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=1000, help="how many mutants")
    parser.add_argument("--seconds", type=float, default=10, help="CPU time of the tests of a mutant")
    parser.add_argument("tests", nargs="*", default=[f"tests/{each}" for each in TESTS])
    asked = parser.parse_args()
    os.chdir(ROOT)
    reach = Reach()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reach"
        in_fork(lambda: reach.measure(asked.tests, file))
        reach.lines, reach.seconds = pickle.loads(file.read_bytes())
    total, mutants = sample(asked.seed, asked.number)
    survivors = unreached = 0
    for number, mutant in enumerate(mutants, start=1):
        tests, spent_s = reach.tests(mutant, asked.seconds)
        unreached += not tests
        if not tests or in_fork(lambda m=mutant, t=tests: passes(m, t), spent_s * 3 + SPARE_S) == 0:
            survivors += 1
            print(f"{number}: {len(tests)} tests\n{difference(mutant)}\n", flush=True)
    print(f"{len(mutants)} of {total} mutants, {survivors} not noticed, {unreached} of these reached by no test")


if __name__ == "__main__":
    main()
