"""Many runs over several processes, and their counts."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.simulation.faults import MODES
from tests.simulation.service import Simulation, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The outcome of a seed in a mode.

    Attributes:
        calls: steps of the run: calls of ports, and events.
        exercised: what happened, and how often.
        violation: what was broken; None: nothing.
        story: how to see it again, and the steps that matter.
    """

    seed: int
    mode: str
    calls: int
    exercised: Counter[str]
    violation: str | None
    story: str


def one_run(seed: int, mode: str, steps: int) -> Run:
    """Runs a seed in a mode."""
    simulation = Simulation(seed=seed, mode=MODES[mode], steps=steps)
    violation, story = None, ""
    try:
        simulation.run()
    except Violation as error:
        violation, story = str(error), "\n".join(getattr(error, "__notes__", ()))
    return Run(
        seed=seed,
        mode=mode,
        calls=simulation.calls,
        exercised=simulation.exercised,
        violation=violation,
        story=story,
    )


def sound_runs(seeds: Iterable[int], mode: str, steps: int) -> Counter[str]:
    """Runs seeds in a mode, and returns their counted events.

    Raises:
        AssertionError: a seed broke a promise.
    """
    found: Counter[str] = Counter()
    for seed in seeds:
        run = one_run(seed, mode, steps)
        assert run.violation is None, f"{run.violation}\n{run.story}"
        found += run.exercised
    return found


def all_runs(seeds: Sequence[int], modes: Sequence[str], steps: int, jobs: int) -> Iterator[Run]:
    """Yields each run as it ends. One job runs in this process, in order.

    Raises:
        KeyboardInterrupt: somebody does not want to wait; the processes are ended.
    """
    wanted = [(seed, mode, steps) for seed in seeds for mode in modes]
    if jobs <= 1 or len(wanted) == 1:
        yield from (one_run(*each) for each in wanted)
        return
    context = get_context("spawn")
    with _interrupts_left_to_this_process():
        pool = context.Pool(min(jobs, len(wanted)))
    with pool:
        yield from pool.imap_unordered(_starred, wanted)  # one by one: of a larger chunk, Ctrl-C loses runs that ended


@contextmanager
def _interrupts_left_to_this_process() -> Iterator[None]:
    """Makes started processes ignore Ctrl-C from their first instruction, because they inherit ignored signals."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _starred(arguments: tuple[int, str, int]) -> Run:
    return one_run(*arguments)


@dataclass(slots=True)
class Figures:
    """The sums over runs.

    Attributes:
        began_s: when counting began, by a clock that only goes forward.
    """

    runs: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    failed: int = 0
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    exercised: Counter[str] = field(default_factory=Counter)
    began_s: float = field(default_factory=time.monotonic)
    took_s: float = 0.0

    def add(self, run: Run) -> None:
        """Adds a run."""
        self.runs[run.mode] += 1
        self.calls += run.calls
        self.exercised += run.exercised
        self.took_s = time.monotonic() - self.began_s
        if run.violation is not None:
            self.failed += 1
            self.failures.append((run.seed, run.mode, run.violation))

    def document(self) -> dict[str, object]:
        """Returns the figures as JSON's values."""
        total, took_s = sum(self.runs.values()), max(self.took_s, 0.001)
        return {
            "runs": dict(self.runs),
            "failed": self.failed,
            "failures": [{"seed": seed, "mode": mode, "violation": what} for seed, mode, what in self.failures],
            "calls": self.calls,
            "took_s": round(took_s, 1),
            "calls_per_s": round(self.calls / took_s),
            "runs_per_min": round(60 * total / took_s),
            "exercised": dict(sorted(self.exercised.items())),
        }


def table(figures: Figures) -> str:
    """Returns the figures as text."""
    document = figures.document()
    modes = ", ".join(f"{count:,} {mode}" for mode, count in figures.runs.items())
    lines = [
        "",
        f"{sum(figures.runs.values()):,} runs ({modes}), {figures.calls:,} calls in {document['took_s']} s:",
        f"{document['calls_per_s']:,} calls a second, {document['runs_per_min']:,} runs a minute",
    ]
    for title, counts in _groups(figures.exercised.items()):
        lines += ["", title, *(f"  {count:>12,}  {what}" for what, count in sorted(counts))]
    failed = f"{figures.failed} broke a promise" if figures.failed else "no promise was broken"
    return "\n".join([*lines, "", failed])


def _groups(counts: Iterable[tuple[str, int]]) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Yields the counts by subject."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for what, count in counts:
        kind, colon, rest = what.partition(": ")
        title = _TITLES.get(kind, kind) if colon else "calls of ports"
        groups.setdefault(title, []).append((rest if colon else what, count))
    yield from sorted(groups.items())


_TITLES = {
    "fault": "faults injected",
    "faulty": "faults by call",
    "client": "clients and administrators",
    "unanswered": "clients that got no answer",
    "trigger": "triggers that went wrong",
}
