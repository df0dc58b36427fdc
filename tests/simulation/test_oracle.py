"""The simulation notices a service that breaks a promise, for each promise."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.simulation.modes import MODES
from tests.simulation.runs import one_run
from tests.simulation.service import Simulation
from tidewheel.client.outcome import Known, Outcome, Place
from tidewheel.flows.delivery import commit, deliver, drain, due_rows, planning, sending
from tidewheel.flows.delivery.keys import _Settling
from tidewheel.flows.maintenance import collect, payloads
from tidewheel.flows.ports import QueueMessage
from tidewheel.model import tombstone
from tidewheel.model.subscription_state import Delivery, SubscriptionState
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import TopicState
from tidewheel.storage import items
from tidewheel.storage.deliveries import Deliveries
from tidewheel.storage.plans import Plans
from tidewheel.storage.tombstones import Entombed, Tombstones
from tidewheel.storage.topic_states import TopicStates

STEPS = 900
MOST_SEEDS = 120

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def found(mode: str, first: int, says: str) -> str:
    """Returns the first violation with a given text, from a seed on. The test fails if there is none."""
    others = []
    for seed in range(first, first + MOST_SEEDS):
        if Simulation(seed=seed, mode=MODES[mode], steps=STEPS).administrators.crowd:  # ten times the work
            continue
        run = one_run(seed, mode, STEPS)
        if run.violation is not None and says in run.violation:
            return run.violation
        others += [] if run.violation is None else [run.violation]
    raise AssertionError(f"{MOST_SEEDS} seeds find only {others}")


def early(patch: Patch) -> None:
    patch.setattr(sending, "fine_delay_s", lambda due_ms, now_ms, _: max(0, (due_ms - now_ms) // 1000))


def scheduled_a_day_late(patch: Patch) -> None:
    patch.setattr(commit, "fires_at_ms", lambda _, slot, settings: slot * settings.slot_ms + 86_400_000)


def exchanged(patch: Patch) -> None:
    releases = sending.queue_messages

    def with_first_body(*given: Any, **options: Any) -> list[QueueMessage]:
        found = releases(*given, **options)
        return [each._replace(text=found[0].text) for each in found]

    patch.setattr(sending, "queue_messages", with_first_body)


def replayed_without_anything(patch: Patch) -> None:
    rows_of = deliver.rows_of

    def nothing_again(state: TopicState, delivery: Delivery, rows: pa.Table) -> pa.Table:
        return rows_of(state, delivery, rows if delivery.first_ms is None else rows[:0])

    patch.setattr(deliver, "rows_of", nothing_again)


def cancelled(patch: Patch) -> None:
    patch.setattr(Tombstones, "ids", lambda *_: frozenset())


def paused(patch: Patch) -> None:
    patch.setattr(SubscriptionState, "takes_plans", property(lambda _: True))


def purged(patch: Patch) -> None:
    patch.setattr(TopicStates, "set_purges", lambda *_: True)


def filtered(patch: Patch) -> None:
    patch.setattr(due_rows, "_parsed", lambda _: SimpleNamespace(tests_group=False, matches=lambda *_: True))


def lost(patch: Patch) -> None:
    releases = sending.queue_messages
    patch.setattr(sending, "queue_messages", lambda *given, **options: releases(*given, **options)[:3])


def twice(patch: Patch) -> None:
    patch.setattr(Deliveries, "finish", lambda *_: None)


def collected_early(patch: Patch) -> None:
    until = collect._until
    patch.setattr(collect, "_until", lambda ports, state, *rest: (state.planned, until(ports, state, *rest)[1]))


def left_behind(patch: Patch) -> None:
    patch.setattr(Plans, "delete", lambda *_: None)


def moved_back(patch: Patch) -> None:
    raise_until = TopicStates.raise_collected_until

    def backwards(self: TopicStates, state: TopicState, collected_until: int) -> bool:
        if not raise_until(self, state, collected_until):
            return False
        change = items.state_change(state, sets={"collected_until": state.collected_until - 1})
        return self._table.change(change, action="", topic=state.topic)

    patch.setattr(TopicStates, "raise_collected_until", backwards)


def moved(patch: Patch) -> None:
    cancel = Tombstones.cancel

    def forgetful(self: Tombstones, topic: str, tombstone: Tombstone) -> Entombed:
        return cancel(self, topic, tombstone) if tombstone.to is None else Entombed(done=True)

    patch.setattr(Tombstones, "cancel", forgetful)


def superseded(patch: Patch) -> None:
    patch.setattr(_Settling, "_drop", lambda *_: None)


def recurring(patch: Patch) -> None:
    patch.setattr(planning, "store_occurrences", lambda *_: None)


def recurring_unfiltered(patch: Patch) -> None:
    rows_for = due_rows.rows_for

    def all_that_recurs(rows: pa.Table, subscription: str, filter_policy: str | None) -> pa.Table:
        recurs = pa.array([body == b"again and again" for body in rows.column("payload").to_pylist()], pa.bool_())
        others = rows_for(rows.filter(pc.invert(recurs)), subscription, filter_policy)
        return pa.concat_tables([rows.filter(recurs), others])

    patch.setattr(deliver, "rows_for", all_that_recurs)


def forgotten_too_soon(patch: Patch) -> None:
    patch.setattr(tombstone, "KEPT_S", 600)


def bodies(patch: Patch) -> None:
    patch.setattr(payloads, "KEPT_MS", -86_400_000 * 2)
    patch.setattr(payloads, "payload_day_end_ms", lambda _: 0)


def expired(patch: Patch) -> None:
    for flow in (deliver, drain):
        patch.setattr(flow, "without_expired", lambda rows, _: rows)


def believed(patch: Patch) -> None:
    patch.setattr(Known, "_outcome", lambda *_: Outcome(Place.SENT))


_SOON: dict[Plant, int] = {
    believed: 5,
    bodies: 9,
    cancelled: 4,
    collected_early: 1,
    early: 5,
    expired: 9,
    forgotten_too_soon: 33,
    moved: 5,
    moved_back: 1,
    paused: 5,
    purged: 1,
    recurring: 6,
    recurring_unfiltered: 16,
    replayed_without_anything: 41,
    scheduled_a_day_late: 9,
    superseded: 9,
}
"""The seeds that find these. After a change of the simulation, the search goes on from there."""


@pytest.mark.parametrize(
    ("plant", "mode", "says"),
    [
        (early, "calm", "before its time"),
        (scheduled_a_day_late, "calm", "ms late"),
        (exchanged, "calm", "and was sent as"),
        pytest.param(replayed_without_anything, "calm", "was not replayed", marks=pytest.mark.nightly),
        (cancelled, "calm", "and came to"),
        (paused, "calm", "which is paused"),
        (purged, "calm", "was purged"),
        (filtered, "calm", "which does not take it"),
        (lost, "calm", "never came"),
        (twice, "calm", "times"),
        (collected_early, "calm", "is gone"),
        (left_behind, "calm", "plans are left"),
        (moved_back, "calm", "went back"),
        (moved, "calm", "was moved to"),
        (superseded, "calm", "had replaced it"),
        (recurring, "calm", "of rule-"),
        (recurring_unfiltered, "calm", "does not take rule-"),
        (forgotten_too_soon, "late", "was cancelled"),
        (bodies, "calm", "without its body"),
        (expired, "late", "long after it had expired"),
        (believed, "faults", "was called sent"),
    ],
)
def test_a_service_that_breaks_a_promise_is_found_out(
    plant: Plant, mode: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    assert found(mode, _SOON.get(plant, 0), says)
