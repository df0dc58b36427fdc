"""Topics: subscriptions' states and filters, their deletion, and parks with their leases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_delivery, a_state, a_subscription
from tidewheel.flows.ports import AT_ONCE_MS, HandOut, NextWork
from tidewheel.flows.ports.parks import Parked
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import State, SubscriptionState

FILTER = '{"color":["red"]}'


def a_park(subscription: SubscriptionState | None = None, id: str = "p1", **fields: Any) -> Park:
    """A small park of a subscription."""
    to = subscription or a_subscription()
    key = ParkKey(topic=to.topic, subscription=to.name, generation=to.generation, id=id)
    values = {"rows": 3, "size_bytes": 6, "next_check_ms": 5000, "ledger": b"ledger"} | fields
    return Park(key=key, **values)


def in_state(store: Store, state: State) -> SubscriptionState:
    """The only subscription of the topic, in a state."""
    if store.topics.state("orders") is None:
        store.topic()
    [subscription] = store.subscribed()
    if state is State.PAUSED:
        assert store.topics.pause(subscription)
    if state is State.BROKEN:
        assert store.topics.mark_broken("orders", "billing", subscription.generation)
    return replace(subscription, state=state)


def parked(store: Store, **fields: Any) -> Park:
    """A park of a subscription that is paused."""
    park = a_park(in_state(store, State.PAUSED), **fields)
    assert store.topics.put_park(park) is Parked.PARKED
    return park


def now(store: Store) -> SubscriptionState | None:
    return store.topics.subscription("orders", "billing")


# ---- pause, mark_broken
@pytest.mark.parametrize("state", list(State))
def test_a_subscription_in_any_state_is_paused(store: Store, state: State) -> None:
    subscription = in_state(store, state)
    before = store.current()
    assert store.topics.pause(subscription)
    assert now(store) == replace(subscription, state=State.PAUSED)
    assert store.current() == before


def test_pausing_is_refused_when_the_subscription_is_another_or_gone(store: Store) -> None:
    subscription = in_state(store, State.ACTIVE)
    assert not store.topics.pause(replace(subscription, generation="s0"))
    assert not store.topics.pause(replace(subscription, name="unknown"))
    assert store.topics.subscriptions("orders") == [subscription]


@pytest.mark.parametrize(("state", "marked"), [(State.ACTIVE, True), (State.PAUSED, False), (State.BROKEN, False)])
def test_only_an_active_subscription_is_marked_as_broken(store: Store, state: State, marked: bool) -> None:
    subscription = in_state(store, state)
    assert store.topics.mark_broken("orders", "billing", subscription.generation) == marked
    assert now(store) == replace(subscription, state=State.BROKEN if marked else state)


def test_marking_as_broken_is_refused_when_the_subscription_is_another_or_gone(store: Store) -> None:
    subscription = in_state(store, State.ACTIVE)
    assert not store.topics.mark_broken("orders", "billing", "s0")
    assert not store.topics.mark_broken("orders", "unknown", "s1")
    assert store.topics.subscriptions("orders") == [subscription]


# ---- resume
@pytest.mark.parametrize(("stopped", "sealed"), [(State.PAUSED, 300), (State.BROKEN, 300), (State.PAUSED, 200)])
def test_a_resumed_subscription_is_active_and_the_sweep_looks_at_its_cursor(
    store: Store, stopped: State, sealed: int
) -> None:
    store.topic(next_slot=400, next_check_ms=10**9, collect_at_ms=5, planned=sealed, sealed=sealed)
    [subscription] = store.subscribed(cursor=200)
    seen = replace(subscription, state=stopped)
    _ = store.topics.pause(seen) if stopped is State.PAUSED else store.topics.mark_broken("orders", "billing", "s1")
    assert store.topics.raise_next_slot(store.current(), _next_work(400))
    state = store.current()
    assert store.topics.resume(state, seen)
    assert now(store) == subscription
    next_check_ms = AT_ONCE_MS if sealed == 200 else state.check_at(200, 5)
    assert store.current() == replace(
        state, work_version=state.work_version + 1, next_slot=200, next_check_ms=next_check_ms
    )


def _next_work(slot: int) -> NextWork:
    return NextWork(next_slot=slot, next_check_ms=10**9, collect_at_ms=5)


@pytest.mark.parametrize("next_slot", [99, 100])
def test_a_resume_leaves_a_wake_mark_that_is_low_enough(store: Store, next_slot: int) -> None:
    store.topic(next_slot=next_slot, next_check_ms=3)
    subscription = in_state(store, State.PAUSED)
    state = store.current()
    assert store.topics.resume(state, subscription)
    assert store.current() == replace(state, work_version=state.work_version + 1)


def test_a_raise_of_wake_that_did_not_see_the_resume_is_refused(store: Store) -> None:
    store.topic()
    subscription = in_state(store, State.PAUSED)
    before = store.current()
    assert store.topics.resume(before, subscription)
    assert not store.topics.raise_next_slot(before, _next_work(400))


@pytest.mark.parametrize(
    "seen", [{"state": State.ACTIVE}, {"state": State.BROKEN}, {"generation": "s0"}, {"name": "x"}]
)
def test_a_resume_is_refused_when_the_subscription_is_not_as_it_was_read(store: Store, seen: dict[str, Any]) -> None:
    subscription = in_state(store, State.PAUSED)
    _assert_not_resumed(store, store.current(), replace(subscription, **seen))


def test_a_resume_is_refused_when_the_topic_is_another_of_the_same_name(store: Store) -> None:
    subscription = in_state(store, State.PAUSED)
    _assert_not_resumed(store, a_state(generation="g0", next_slot=100), subscription)


@pytest.mark.parametrize(("read", "next_slot"), [(None, 90), (90, None), (90, 200)])
def test_a_resume_is_refused_when_wake_moved_across_its_cursor(
    store: Store, read: int | None, next_slot: int | None
) -> None:
    subscription = in_state(store, State.PAUSED)
    assert store.topics.raise_next_slot(store.current(), replace(_next_work(0), next_slot=next_slot))
    _assert_not_resumed(store, replace(store.current(), next_slot=read), subscription)


def _assert_not_resumed(store: Store, state: Any, subscription: Any) -> None:
    before, state_before = store.topics.subscriptions("orders"), store.current()
    assert not store.topics.resume(state, subscription)
    assert store.topics.subscriptions("orders") == before
    assert store.current() == state_before


# ---- filters
def test_a_filter_is_set_and_taken_away(store: Store) -> None:
    subscription = in_state(store, State.PAUSED)
    assert store.topics.set_filter(subscription, FILTER)
    assert now(store) == replace(subscription, filter_policy=FILTER)
    assert store.topics.set_filter(subscription, None)
    assert now(store) == subscription
    assert not store.topics.set_filter(replace(subscription, generation="s0"), FILTER)
    assert now(store) == subscription


def test_a_subscription_and_its_delivery_keep_their_filter(store: Store) -> None:
    store.topic()
    [subscription] = store.subscribed(filter_policy=FILTER)
    assert now(store) == subscription
    delivery = a_delivery(subscription, filter_policy=FILTER)
    assert store.topics.hand_out(HandOut(subscription=subscription, to=103, delivery=delivery))
    assert store.topics.delivery(delivery.key) == delivery
    assert store.topics.part_done(delivery.key, 1) == replace(delivery, done=frozenset({1}))


# ---- delete_subscription
def test_a_deleted_subscription_is_gone_and_the_topic_state_stays(store: Store) -> None:
    store.topic()
    billing, audit = store.subscribed("billing", "audit")
    before = store.current()
    assert store.topics.delete_subscription(billing)
    assert not store.topics.delete_subscription(billing)
    assert store.topics.subscriptions("orders") == [audit]
    assert store.current() == before


def test_the_successor_of_a_subscription_is_not_deleted_in_its_stead(store: Store) -> None:
    subscription = in_state(store, State.ACTIVE)
    assert not store.topics.delete_subscription(replace(subscription, generation="s0"))
    assert now(store) == subscription


def test_nothing_brings_a_deleted_subscription_back(store: Store) -> None:
    subscription = in_state(store, State.PAUSED)
    assert store.topics.delete_subscription(subscription)
    assert not store.topics.pause(subscription)
    assert not store.topics.mark_broken("orders", "billing", "s1")
    assert not store.topics.set_filter(subscription, FILTER)
    assert not store.topics.resume(store.current(), subscription)
    assert store.topics.put_park(a_park(subscription)) is Parked.MOVED
    assert now(store) is None
    assert store.topics.parks("orders") == []


# ---- put_park
@pytest.mark.parametrize("state", [State.PAUSED, State.BROKEN])
@pytest.mark.parametrize(
    "fields", [{}, {"ledger": None, "object_name": "parked/orders/billing/p1-1", "size_bytes": 10**6}]
)
def test_a_park_is_read_as_it_was_put(store: Store, state: State, fields: dict[str, Any]) -> None:
    park = a_park(in_state(store, state), **fields)
    assert store.topics.put_park(park) is Parked.PARKED
    assert store.topics.park(park.key) == park


@pytest.mark.parametrize("seen", [{}, {"generation": "s0"}, {"name": "unknown"}])
def test_no_park_appears_for_a_subscription_that_is_active_or_another(store: Store, seen: dict[str, Any]) -> None:
    subscription = replace(in_state(store, State.PAUSED if seen else State.ACTIVE), **seen)
    assert store.topics.put_park(a_park(subscription)) is Parked.MOVED
    assert store.topics.parks("orders") == []


def test_a_park_that_is_put_again_stays_as_it_is(store: Store) -> None:
    park = parked(store)
    leased = store.topics.lease_park(park.key, 700, 400)
    assert store.topics.put_park(replace(park, next_check_ms=9000)) is Parked.EXISTS
    assert store.topics.park(park.key) == leased


def test_all_parks_of_a_topic_are_read_without_their_ledgers(store: Store) -> None:
    store.topic()
    made = []
    for subscription in store.subscribed("a", "b", "c"):
        store.topics.pause(subscription)
        for id in ("p1", "p2"):
            made.append(a_park(subscription, id, ledger=b"x" * 50_000))
            assert store.topics.put_park(made[-1]) is Parked.PARKED
    assert store.topics.parks("orders") == [replace(park, ledger=None) for park in made]
    assert store.topics.parks("order") == []


# ---- spill_part
def test_a_part_is_parked_and_done_in_one(store: Store) -> None:
    delivery = store.delivered()
    store.topics.lease_part(delivery.key, 1, 700, 400)
    park = a_park()
    assert store.topics.spill_part(delivery.key, 1, park) is Parked.PARKED
    assert store.topics.park(park.key) == park
    assert store.topics.delivery(delivery.key) == replace(delivery, done=frozenset({1}))


def test_a_part_is_not_parked_twice(store: Store) -> None:
    delivery = store.delivered()
    park = a_park()
    assert store.topics.spill_part(delivery.key, 1, park) is Parked.PARKED
    assert store.topics.spill_part(delivery.key, 2, park) is Parked.EXISTS
    assert store.topics.delivery(delivery.key) == replace(delivery, done=frozenset({1}))


def test_a_part_that_is_done_is_not_parked(store: Store) -> None:
    delivery = store.delivered()
    store.topics.part_done(delivery.key, 1)
    assert store.topics.spill_part(delivery.key, 1, a_park()) is Parked.MOVED
    assert store.topics.parks("orders") == []


def test_a_part_of_a_delivery_that_is_gone_is_not_parked(store: Store) -> None:
    delivery = store.delivered()
    store.topics.delete_deliveries([delivery.key])
    assert store.topics.spill_part(delivery.key, 1, a_park()) is Parked.MOVED
    assert store.topics.parks("orders") == []
    assert store.topics.delivery(delivery.key) is None


# ---- leases, looks, deletion
def test_a_park_that_nobody_has_is_leased_once(store: Store) -> None:
    park = parked(store)
    assert store.topics.lease_park(park.key, 700, 400) == replace(park, leased_ms=700)
    assert store.topics.lease_park(park.key, 900, 700) is None
    assert store.topics.park(park.key) == replace(park, leased_ms=700)


def test_an_expired_lease_of_a_park_is_another_s_to_take(store: Store) -> None:
    park = parked(store)
    store.topics.lease_park(park.key, 700, 400)
    assert store.topics.lease_park(park.key, 900, 701) == replace(park, leased_ms=900)


def test_a_released_park_may_be_leased_at_once(store: Store) -> None:
    park = parked(store)
    store.topics.lease_park(park.key, 700, 400)
    store.topics.release_park(park.key)
    assert store.topics.park(park.key) == park
    assert store.topics.lease_park(park.key, 701, 400) is not None


def test_a_park_is_due_from_its_look_on_and_stamped_once_by_those_who_saw_the_same(store: Store) -> None:
    park = parked(store, next_check_ms=5000)
    assert store.topics.due_for_look(4999).parks == []
    assert store.topics.due_for_look(5000).parks == [park.key]
    assert store.topics.stamp_park(park.key, 5000, 6000)
    assert not store.topics.stamp_park(park.key, 5000, 7000)
    assert store.topics.due_for_look(5999).parks == []
    assert store.topics.park(park.key) == replace(park, next_check_ms=6000)


def test_nothing_brings_a_deleted_park_back(store: Store) -> None:
    park = parked(store)
    store.topics.delete_parks([park.key, replace(park.key, id="p7"), replace(park.key, topic="unknown")])
    assert store.topics.lease_park(park.key, 700, 400) is None
    assert not store.topics.stamp_park(park.key, park.next_check_ms, 1)
    store.topics.release_park(park.key)
    assert store.topics.park(park.key) is None
    assert store.topics.due_for_look(10**12).parks == []
