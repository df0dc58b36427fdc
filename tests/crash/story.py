"""Stories, each about a flow, and their exploration. An exploration repeats a story with each possible death."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.crash.branches import Branches, BranchFailed
from tests.crash.death import Point, When
from tests.crash.verdict import Verdict, judge, settle
from tests.crash.world import MortalTidewheel, World, replaced

_FEW_READS: Mapping[str, object] = {"tidewheel.storage.layout.CHECK_SHARDS": 1}
"""Constants of every story: of 16 shards of the index of checks that a sweep reads twice, 15 are empty with one
topic."""

Chosen = Callable[[Point], bool]
"""Which points are explored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The events of a topic in one flow.

    Attributes:
        name: as people say it.
        tell: does it all; what may die is in a block of `world.mortal`.
        reaches: AWS operations that the victim must have come to: else it is another story.
        late_s: how much later than promised a message may come after a death.
        because: what repeats the work after that time; empty if it is always in time.
        late_anyway_s: likewise without any: in a story of a queue that is gone for a while.
        subscriptions, settings: of the topic.
        constants: replaced, by their names, so that what is rare at their size is common.
        every: of the deaths that matter, every which one the test suite tries; `python -m tests.crash` tries all.
        cleaned_after_days: when after the last message a sweep looks for what nobody needs.
    """

    name: str
    tell: Callable[[World], None]
    reaches: frozenset[str]
    late_s: float = 0.0
    because: str = ""
    late_anyway_s: float = 0.0
    subscriptions: tuple[str, ...] = ("billing",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, object] = field(default_factory=dict)
    every: int = 2
    cleaned_after_days: tuple[float, ...] = (1.1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of an exploration.

    Attributes:
        calls: AWS calls of the victim in the run to which nothing happened.
        undisturbed: the verdict on that run.
        verdicts: on all others.
    """

    story: str
    calls: int
    undisturbed: Verdict
    verdicts: tuple[Verdict, ...]

    @property
    def problems(self) -> list[str]:
        """The violated promises, each with the point of the victim's death."""
        return [
            f"{self.story}: {verdict.point or 'undisturbed'}: {problem}"
            for verdict in (self.undisturbed, *self.verdicts)
            for problem in verdict.problems
        ]

    @property
    def late_ms(self) -> int:
        """The largest lateness of a message in any run."""
        return max(each.late_ms for each in (self.undisturbed, *self.verdicts))


def told(name: str, *reaches: str, **more: Any) -> Callable[[Callable[[World], None]], Story]:
    """Makes a story from the decorated function."""

    def story(tell: Callable[[World], None]) -> Story:
        return Story(name=name, tell=tell, reaches=frozenset(reaches), **more)

    return story


def every_death(point: Point) -> bool:
    """Chooses each death before and after each call."""
    return point.when in (When.BEFORE, When.AFTER)


def everything(point: Point) -> bool:
    """Chooses all happenings at all calls."""
    return True


def every_death_that_matters(point: Point) -> bool:
    """Chooses one death of each group of deaths with the same state of AWS."""
    return every_death(point) and point.matters


def thinned(chosen: Chosen, every: int) -> Chosen:
    """Chooses every n-th point of another choice, from the first on."""
    numbers = itertools.count()
    return lambda point: chosen(point) and next(numbers) % every == 0


def explore(stack: MortalTidewheel, story: Story, chosen: Chosen, *, jobs: int = 1) -> Report:
    """Runs a story undisturbed, and once more for each chosen point. The stack stays unchanged."""
    outer: Branches[Report] = Branches(longest_s=None)
    if outer.fork(story.name):
        outer.end(lambda: _explore(stack, story, chosen, jobs))
    try:
        [report] = outer.gather()
    except KeyboardInterrupt:
        outer.abandon()
        raise
    if isinstance(report, BranchFailed):
        raise report
    return report


def _explore(stack: MortalTidewheel, story: Story, chosen: Chosen, jobs: int) -> Report:
    branches: Branches[Verdict] = Branches(jobs)
    happened: list[Point] = []

    def visit(point: Point) -> bool:
        if not chosen(point) or not branches.fork(str(point)):
            return False
        stack.watch.visit = None
        happened.append(point)
        return True

    stack.watch.visit = visit
    verdict = _run(stack, story, happened)
    branches.end(lambda: verdict)
    found = branches.gather()
    lost = tuple(str(each) for each in found if isinstance(each, BranchFailed))
    calls = stack.watch.calls
    missed = sorted(story.reaches - set(calls))
    if missed:
        lost += (f"never came to {', '.join(missed)}, only to {', '.join(sorted(set(calls)))}",)
    undisturbed = Verdict(point=None, problems=verdict.problems + lost, late_ms=verdict.late_ms, copies=verdict.copies)
    verdicts = tuple(each for each in found if isinstance(each, Verdict))
    return Report(story=story.name, calls=len(calls), undisturbed=undisturbed, verdicts=verdicts)


def _run(stack: MortalTidewheel, story: Story, happened: Sequence[Point]) -> Verdict:
    """Runs a story to its end. Any error is a problem of the run."""
    try:
        with replaced({**_FEW_READS, **story.constants}):
            world = World(stack, story.subscriptions, story.settings)
            story.tell(world)
            settle(world, story.cleaned_after_days)
            return judge(world, happened[0] if happened else None, story.late_s, story.late_anyway_s)
    except BaseException:
        text = traceback.format_exc(limit=-8)
        return Verdict(point=happened[0] if happened else None, problems=(text,))
