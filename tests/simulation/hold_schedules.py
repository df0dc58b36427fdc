"""Explores schedules of `hold_model`. Faults begin and end at any step."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from tests.simulation.few_deviations import Choice, Schedule, Step, first_violation
from tests.simulation.hold_flows import drain, ingest, work
from tests.simulation.hold_model import World

FLOWS = (ingest, work, drain)
Actor = Callable[[World], Step | None]
"""A flow, or a change that takes one step."""


def pack_again(w: World) -> None:
    """SQS delivers the pack again."""
    w.excuses += 1
    w.acknowledged = w.taken = False


def job_again(w: World) -> None:
    """Delivers a job a second time, even after its acknowledgement."""
    job = w.jobs[0] if w.jobs else w.last
    if job is not None:
        w.overlap |= job.refused
        w.jobs.append(replace(job, taken=False))


def no_keys(w: World) -> None:
    """The keys of the pack are settled already."""
    w.settled = True


def seal(w: World) -> None:
    """A dispatch seals the slot of row l."""
    w.sealed = "topic" not in w.down


def hour(w: World) -> None:
    """Time passes."""
    w.hour += 1


def down(name: str) -> Actor:
    """Returns the change to an outage of a part."""

    def change(w: World) -> None:
        w.down.add(name)
        w.away_hour = w.hour if name == "topic" else w.away_hour

    return change


def up(name: str) -> Actor:
    """Returns the change to the end of an outage."""
    return lambda w: w.down.discard(name)


S3, TABLE, WORK, TOPIC, KEY, A, B = "s3", "table", "work", "topic", "key", "A", "B"
SCENARIOS: dict[str, list[Actor]] = {
    "s3": [down(B), down(S3), ingest, ingest, up(S3), seal, ingest, work, drain],
    "table": [no_keys, down(B), down(TABLE), ingest, ingest, up(TABLE), ingest, job_again, work, drain, work],
    "held": [
        no_keys,
        down(A),
        down(B),
        down(S3),
        ingest,
        up(B),
        job_again,
        hour,
        work,
        up(S3),
        work,
        work,
        drain,
        down(TABLE),
        up(TABLE),
        drain,
        work,
    ],
    "held twice": [
        no_keys,
        down(B),
        down(S3),
        ingest,
        up(B),
        up(S3),
        work,
        drain,
        down(TOPIC),
        hour,
        job_again,
        work,
        up(TOPIC),
        ingest,
    ],
    "away": [no_keys, down(S3), ingest, hour, up(S3), down(TOPIC), ingest, hour, ingest, up(TOPIC), pack_again],
    "hot key": [no_keys, down(KEY), ingest, ingest, down(TABLE), ingest, up(TABLE), seal, ingest, up(KEY), ingest],
    "hot key and s3": [no_keys, down(KEY), down(S3), ingest, ingest, up(S3), ingest, up(KEY), ingest],
    "refuses all": [
        no_keys,
        down(B),
        down(WORK),
        ingest,
        down(S3),
        ingest,
        seal,
        up(WORK),
        ingest,
        hour,
        work,
        hour,
        work,
        up(S3),
    ],
}
"""Actors in the order in which they run if nothing preempts them."""


def play(scenario: list[Actor], schedule: Schedule, without: str | None) -> list[list[Choice]]:
    """Runs one schedule, ends all faults, then runs the flows until no work is left.

    Args:
        scenario: the actors.
        schedule: step -> how many actors are passed over in favour of a later actor, and whether the flow in turn
            "dies" to start again at once, or gets no answer "before" or "after" its call took effect.
        without: a guard that is lacking.

    Returns:
        For each step the other choices that there were.
    """
    w = World(without=without)
    waiting: list[tuple[Actor, Step | None, int | None]] = [(actor, None, None) for actor in scenario]
    choices: list[list[Choice]] = []
    while waiting:
        choice: list[Choice] = [
            (later, "")
            for later, (before, after) in enumerate(pairwise(waiting), 1)
            if before[:2] != after[:2]  # the next of two equal actors is as good
        ]
        later, how = schedule.get(len(choices), (0, ""))
        actor, running, copies = waiting.pop(later)
        w.called = False
        if how == "dies":
            assert running is not None
            w.excuses += copies or 0
            running.close()
            waiting.insert(0, (actor, None, None))
        elif actor in FLOWS:
            if running is not None:
                choice.append((0, "dies"))
            else:
                running = actor(w)
                assert running is not None
            w.unanswered = how
            with suppress(StopIteration):
                waiting.insert(0, (actor, running, next(running)))
            w.unanswered = ""
            if w.called:
                choice += [(0, "before"), (0, "after")]
        else:
            actor(w)
        w.check()
        choices.append(choice)
    w.down.clear()
    for flow in FLOWS * 8:
        for _ in flow(w):
            w.check()
    w.check(at_rest=True)
    return choices


def violation(
    without: str | None = None, deviations: int = 2, scenarios: Collection[str] = tuple(SCENARIOS)
) -> str | None:
    """Explores all schedules with few deviations. Returns the first violation."""
    chosen = {name: SCENARIOS[name] for name in scenarios}
    return first_violation(chosen, lambda scenario, schedule: play(scenario, schedule, without), deviations)
