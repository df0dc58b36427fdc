"""Many runs over several processes, and their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context

from tests.simulation.modes import MODES
from tests.simulation.service import Simulation, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The outcome of a seed in a mode.

    Attributes:
        calls: steps of the run: calls of ports, and events.
        exercised: what happened, and how often.
        violation: what was broken; None: nothing.
        story: how to see it again, and the steps that matter.
        trace: every step.
    """

    seed: int
    mode: str
    calls: int
    exercised: Counter[str]
    violation: str | None
    story: str
    trace: Sequence[str] = ()


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
        trace=simulation.trace,
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
    """Yields each run as it ends, without its trace. One job runs in this process, in order."""
    wanted = [(seed, mode, steps) for seed in seeds for mode in modes]
    if jobs <= 1 or len(wanted) == 1:
        yield from map(_traceless, wanted)
        return
    with get_context("spawn").Pool(min(jobs, len(wanted))) as pool:
        yield from pool.imap_unordered(_traceless, wanted)


def _traceless(arguments: tuple[int, str, int]) -> Run:
    return replace(one_run(*arguments), trace=())


def table(runs: Sequence[Run], took_s: float) -> str:
    """Returns the sums over runs as text."""
    exercised = sum((run.exercised for run in runs), Counter[str]())
    modes = ", ".join(f"{count:,} {mode}" for mode, count in Counter(run.mode for run in runs).items())
    failed = sum(run.violation is not None for run in runs)
    calls = sum(run.calls for run in runs)
    return "\n".join(
        [
            *(f"{count:>12,}  {what}" for what, count in sorted(exercised.items())),
            f"{len(runs):,} runs ({modes}), {calls:,} calls in {took_s:.1f} s",
            f"{failed} broke a promise" if failed else "no promise was broken",
        ]
    )
