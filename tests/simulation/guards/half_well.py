"""Guards of a service during partial AWS faults. The simulation of lasting faults fails without each guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.simulation.guard import Guard
from tests.simulation.removal import always, instead, never, reads, wrapped
from tidewheel.errors import QueueUnavailable
from tidewheel.flows.delivery import (
    deliver,
    direct,
    dispatch,
    due_rows,
    load_index,
    planning,
    refusing,
    release,
    schedules,
    work,
)
from tidewheel.flows.upkeep import due_checks, sweep
from tidewheel.model import checked_clock, needed
from tidewheel.model.wheel import fires_at_ms

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Missed:
    """A guard, with the fault family and the first seed of runs that fail without the guard.

    Attributes:
        family: of the faults.
        seed: from which on a promise is broken soon.
    """

    guard: Guard
    family: str
    seed: int = 0


def _fails(_: Any, ports: Any, topic: str, slot: int, settings: Any) -> bool:
    ports.wheel.schedule(topic, slot, fires_at_ms(topic, slot, settings))
    return True


def _schedules_first(dispatch_overdue: Any, ports: Any, topics: Any, *args: Any) -> None:
    for topic in topics:
        state = ports.topic_states.read(topic)
        if state is not None and state.next_slot is not None:
            ports.wheel.schedule(topic, state.next_slot, fires_at_ms(topic, state.next_slot, state.settings))
    dispatch_overdue(ports, topics, *args)


def _all_or_none(send_all: Any, ports: Any, sendings: Any) -> Any:
    found = send_all(ports, sendings)
    for outcome in found:
        if outcome.unavailable:
            raise QueueUnavailable("queue", "one of them") from outcome.error
    return found


def _all_rows_or_none(read: Any, *args: Any) -> Any:
    found = read(*args)
    for each in found.unread:
        raise each.error
    return found


def _all_indexes_or_none(read: Any, ports: Any, *args: Any) -> Any:
    found = read(ports, *args)
    for each in found.unreadable:
        load_index.complete(ports.objects, each)
    return found


GUARDS = (
    Missed(
        Guard("a schedule that is refused fails nobody", schedules.schedule, wrapped(_fails)),
        "wheel",
        1,
    ),
    Missed(
        Guard("a sweep dispatches first", sweep._dispatch_overdue, wrapped(_schedules_first)),
        "wheel",
        1,
    ),
    Missed(
        Guard("a queue that refuses keeps no other from its messages", release.send_all, wrapped(_all_or_none)),
        "key",
    ),
    Missed(
        Guard("what a queue does not take is parked", direct._send_at_once, never("outcome.untaken")),
        "queues",
    ),
    Missed(
        Guard(
            "parts that were not enqueued are found by the next sweep",
            dispatch._delivery,
            reads("LEASE_MS", lambda _: _HOUR_MS),
        ),
        "jobs",
        3,
    ),
    Missed(
        Guard("a schedule is set though work is left", dispatch.dispatch, instead("schedule")),
        "key",
        44,
    ),
    Missed(
        Guard("what cannot be read is set aside", deliver._ready, instead("set_aside", lambda *_: [])),
        "damage",
        49,
    ),
    Missed(
        Guard("a damaged segment fails no other", due_rows.due_rows, wrapped(_all_rows_or_none)),
        "damage",
        127,
    ),
    Missed(
        Guard("a damaged index fails no other ledger", load_index.completed, wrapped(_all_indexes_or_none)),
        "damage",
        172,
    ),
    Missed(
        Guard(
            "rows behind an unreadable filter are set aside",
            direct._set_unreadable_aside,
            instead("set_aside_rows subscription"),
        ),
        "damage",
        5,
    ),
    Missed(
        Guard(
            "a ledger's item that cannot be read is made anew",
            planning.DueBuckets._made_again,
            instead("buckets_again", lambda *_: []),
        ),
        "damage",
        16,
    ),
    Missed(
        Guard("a suspect holds collection", needed.needed, never("damaged")),
        "damage",
        322,
    ),
    Missed(
        Guard("a set-aside item is tried again", due_checks.check_set_aside, instead("enqueue_set_aside")),
        "damage",
        4,
    ),
    Missed(
        Guard("a clock that AWS contradicts is doubted", checked_clock.CheckedClock.doubt, always("ahead behind")),
        "clocks",
        3,
    ),
    Missed(
        Guard("what no retry can help is refused at once", refusing.hopeless_until_ms, never("_HOPELESS")),
        "wheel",
        3,
    ),
    Missed(
        Guard("a job with an unreadable ledger is no job", work.job_in, instead("held_rows")),
        "wheel",
        33,
    ),
)
"""Each is a rule of `docs/architecture.md` for an AWS that works half well."""
