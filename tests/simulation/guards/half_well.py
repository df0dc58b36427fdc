"""Guards of a service during partial AWS faults. For each guard, a story of `behaviour` or `flows` fails without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.behaviour import test_half_well_clocks as clocks
from tests.behaviour import test_half_well_damage as damage
from tests.behaviour import test_half_well_every_call as every_call
from tests.behaviour import test_half_well_ingest as packs
from tests.behaviour import test_half_well_sending as stories_of_sending
from tests.behaviour import test_half_well_wheel as wheel
from tests.flows import test_pause, test_unread
from tests.simulation.guard import Guard
from tests.simulation.removal import always, instead, never, reads, wrapped
from tidewheel.errors import QueueUnavailable
from tidewheel.flows.delivery import commit, deliver, direct, dispatch, due_rows, load_index, refusing, sending
from tidewheel.flows.maintenance import collect, due_checks, sweep
from tidewheel.model import checked_clock
from tidewheel.model.wheel import fires_at_ms

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Held:
    """A guard, and a test that fails without the guard."""

    guard: Guard
    test: Callable[[], object]


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


def _index_is_gone() -> None:
    with pytest.MonkeyPatch.context() as patch:
        damage.test_a_large_ledger_whose_index_cannot_be_read_keeps_no_other_from_being_on_time("gone", patch)


def _none(*_: Any) -> frozenset[str]:
    return frozenset()


GUARDS = (
    Held(
        Guard("a schedule that is refused fails nobody", commit.schedule, wrapped(_fails)),
        wheel.test_a_sweep_whose_schedules_are_refused_starts_dispatches_and_tries_the_schedules_again,
    ),
    Held(
        Guard("a sweep dispatches first", sweep._dispatch_overdue, wrapped(_schedules_first)),
        wheel.test_a_sweep_whose_schedules_are_refused_starts_dispatches_and_tries_the_schedules_again,
    ),
    Held(
        Guard("a queue that refuses keeps no other from its messages", sending.send_all, wrapped(_all_or_none)),
        test_pause.test_a_broken_queue_loses_nothing_and_heals_by_itself,
    ),
    Held(
        Guard("what a queue does not take is parked", direct._send_at_once, never("outcome.untaken")),
        partial(
            stories_of_sending.test_a_queue_that_is_throttled_for_14_hours_gets_everything_when_it_heals,
            stories_of_sending.Sending,
            "1m",
        ),
    ),
    Held(
        Guard(
            "parts that were not enqueued are found by the next sweep",
            dispatch._delivery,
            reads("LEASE_MS", lambda _: _HOUR_MS),
        ),
        partial(every_call.test_a_call_that_is_refused_for_an_hour_brings_no_copies, "queues.enqueue_parts"),
    ),
    Held(
        Guard("a schedule is set though work is left", dispatch.dispatch, instead("schedule")),
        wheel.test_a_sweep_whose_schedules_are_refused_starts_dispatches_and_tries_the_schedules_again,
    ),
    Held(
        Guard("what cannot be read is noted", deliver.deliver_part, never("sent.unread")),
        partial(damage.test_one_damaged_ledger_of_five_delays_no_other, "gone"),
    ),
    Held(
        Guard("a damaged segment fails no other", due_rows.due_rows, wrapped(_all_rows_or_none)),
        partial(damage.test_one_damaged_ledger_of_five_delays_no_other, "bit"),
    ),
    Held(
        Guard("a damaged index fails no other ledger", load_index.completed, wrapped(_all_indexes_or_none)),
        _index_is_gone,
    ),
    Held(
        Guard("collection keeps what a quarantined delivery names", collect._delete, instead("unread_objects", _none)),
        test_unread.test_quarantine_keeps_what_it_names_and_nothing_else_until_it_is_given_up,
    ),
    Held(
        Guard("what could not be read is tried again", due_checks.check_delivery, instead("enqueue_parts")),
        damage.test_a_damaged_part_is_listed_retried_and_given_up,
    ),
    Held(
        Guard("a clock that AWS contradicts is doubted", checked_clock.CheckedClock.doubt, always("ahead behind")),
        clocks.test_a_dispatch_whose_clock_is_thirty_days_ahead_seals_and_sends_nothing,
    ),
    Held(
        Guard("what no retry can help is refused at once", refusing.hopeless_until_ms, never("_HOPELESS")),
        partial(packs.test_a_message_of_another_program_is_refused_in_one_call_with_the_reason, packs.QUEUES[0]),
    ),
)
"""Each is a rule of `docs/architecture.md` for an AWS that works half well."""
