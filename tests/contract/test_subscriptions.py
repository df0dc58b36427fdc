"""Tests the port Subscriptions, with their states and filters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_park, a_state, a_subscription, in_state, raise_next_slot
from tidewheel.model.subscription_state import PlainReader, State, SubscriptionState
from tidewheel.model.topic_state import NextWork
from tidewheel.storage.parks import Parked
from tidewheel.storage.topic_states import AT_ONCE_MS


def _assert_refused(store: Store, state: Any, subscription: Any) -> None:
    before = store.current()
    assert not store.subscriptions.create(state, subscription)
    assert store.subscriptions.all("orders") == []
    assert store.current() == before


def now(store: Store) -> SubscriptionState | None:
    return store.subscriptions.read("orders", "billing")


def _next_work(slot: int) -> NextWork:
    return NextWork(next_slot=slot, next_check_ms=10**9, collect_at_ms=5)


def _assert_not_resumed(store: Store, state: Any, subscription: Any) -> None:
    before, state_before = store.subscriptions.all("orders"), store.current()
    assert not store.subscriptions.resume(state, subscription)
    assert store.subscriptions.all("orders") == before
    assert store.current() == state_before


FILTER = '{"color":["red"]}'


def test_a_subscription_is_read_as_it_was_created_and_the_sweep_checks_it(store: Store) -> None:
    state = store.topic(sealed=105)
    subscription = a_subscription(cursor=100, start=105)
    assert store.subscriptions.create(state, subscription)
    assert store.subscriptions.read("orders", "billing") == subscription
    assert store.current() == replace(
        state, subscriptions_version=1, work_version=1, next_slot=100, next_check_ms=state.check_at(100, None)
    )


def test_a_new_subscription_lowers_a_next_slot_above_its_cursor(store: Store) -> None:
    state = store.topic(next_slot=400, next_check_ms=10**9, collect_at_ms=5, sealed=100)
    assert store.subscriptions.create(state, a_subscription(cursor=100))
    marks = (store.current().next_slot, store.current().next_check_ms, store.current().collect_at_ms)
    assert marks == (100, AT_ONCE_MS, 5)


def test_a_new_subscription_keeps_that_the_schedule_of_the_next_slot_is_missing(store: Store) -> None:
    state = store.topic(next_slot=400, next_check_ms=AT_ONCE_MS, sealed=300)
    assert store.subscriptions.create(state, a_subscription(cursor=100))
    assert (store.current().next_slot, store.current().next_check_ms) == (100, AT_ONCE_MS)


def test_a_change_that_did_not_see_that_a_schedule_is_missing_is_refused(store: Store) -> None:
    store.topic(next_slot=400, next_check_ms=10**9, planned=300, sealed=300)
    [subscription] = store.subscribed(cursor=200)
    assert raise_next_slot(store, store.current(), _next_work(400))
    assert store.subscriptions.pause(subscription)
    paused, before = replace(subscription, state=State.PAUSED), store.current()
    assert store.topic_states.set_collect_at(before, None, AT_ONCE_MS)
    assert not store.subscriptions.resume(before, paused)
    assert not store.subscriptions.create(before, a_subscription("another", cursor=200))
    assert store.subscriptions.resume(store.current(), paused)
    assert (store.current().next_slot, store.current().next_check_ms) == (200, AT_ONCE_MS)


@pytest.mark.parametrize("next_slot", [99, 100])
def test_a_new_subscription_leaves_a_next_slot_that_is_low_enough(store: Store, next_slot: int) -> None:
    state = store.topic(next_slot=next_slot, next_check_ms=3)
    assert store.subscriptions.create(state, a_subscription(cursor=100))
    assert store.current() == replace(state, subscriptions_version=1, work_version=1)


def test_a_subscription_is_refused_below_what_is_collected(store: Store) -> None:
    state = store.topic(planned=110, sealed=110)
    assert store.topic_states.raise_collected_until(state, 105)
    _assert_refused(store, state, a_subscription(cursor=104))
    assert store.subscriptions.create(state, a_subscription(cursor=105))


def test_a_subscription_is_refused_when_the_topic_is_another_of_the_same_name(store: Store) -> None:
    store.topic()
    _assert_refused(store, a_state(generation="g0"), a_subscription())


@pytest.mark.parametrize(("read", "now"), [(None, 90), (90, None), (90, 200)])
def test_a_subscription_is_refused_when_the_next_slot_moved_across_its_cursor(
    store: Store, read: int | None, now: int | None
) -> None:
    store.topic(next_slot=now)
    _assert_refused(store, a_state(next_slot=read), a_subscription())


def test_a_topic_state_names_the_subscriptions_that_may_not_claim(store: Store) -> None:
    store.topic()
    _, audit, mail = (
        *store.subscribed("billing", reader="tidewheel"),
        *store.subscribed("audit", reader="plain"),
        *store.subscribed("mail", reader=None, generation="s9"),
    )
    before = store.current()
    assert before.readers == (PlainReader("audit", "s1", declared=True), PlainReader("mail", "s9", declared=False))
    assert not store.subscriptions.delete(replace(before, generation="g0"), mail)
    assert store.subscriptions.delete(before, mail)
    assert not store.subscriptions.delete(before, audit)
    assert store.current().readers == before.readers[:1]
    assert not store.subscriptions.create(before, a_subscription("another"))


def test_a_subscription_is_refused_when_its_slots_were_sealed_since(store: Store) -> None:
    state = store.topic(sealed=100)
    assert store.topic_states.seal(state, 101) is not None
    _assert_refused(store, state, a_subscription())


def test_a_subscription_that_exists_is_not_created_again(store: Store) -> None:
    store.topic()
    [subscription] = store.subscribed()
    before = store.current()
    assert not store.subscriptions.create(before, replace(subscription, generation="s2"))
    assert store.subscriptions.all("orders") == [subscription]
    assert store.current() == before


@pytest.mark.parametrize("state", list(State))
def test_a_subscription_in_any_state_is_paused(store: Store, state: State) -> None:
    subscription = in_state(store, state)
    before = store.current()
    assert store.subscriptions.pause(subscription)
    assert now(store) == replace(subscription, state=State.PAUSED)
    assert store.current() == before


def test_pausing_is_refused_when_the_subscription_is_another_or_gone(store: Store) -> None:
    subscription = in_state(store, State.ACTIVE)
    assert not store.subscriptions.pause(replace(subscription, generation="s0"))
    assert not store.subscriptions.pause(replace(subscription, name="unknown"))
    assert store.subscriptions.all("orders") == [subscription]


@pytest.mark.parametrize(("state", "marked"), [(State.ACTIVE, True), (State.PAUSED, False), (State.BROKEN, False)])
def test_only_an_active_subscription_is_marked_as_broken(store: Store, state: State, marked: bool) -> None:
    subscription = in_state(store, state)
    assert store.subscriptions.mark_broken("orders", "billing", subscription.generation) == marked
    assert now(store) == replace(subscription, state=State.BROKEN if marked else state)


def test_marking_as_broken_is_refused_when_the_subscription_is_another_or_gone(store: Store) -> None:
    subscription = in_state(store, State.ACTIVE)
    assert not store.subscriptions.mark_broken("orders", "billing", "s0")
    assert not store.subscriptions.mark_broken("orders", "unknown", "s1")
    assert store.subscriptions.all("orders") == [subscription]


def test_a_raise_of_the_next_slot_that_did_not_see_the_resume_is_refused(store: Store) -> None:
    store.topic()
    subscription = in_state(store, State.PAUSED)
    before = store.current()
    assert store.subscriptions.resume(before, subscription)
    assert not raise_next_slot(store, before, _next_work(400))


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
def test_a_resume_is_refused_when_the_next_slot_moved_across_its_cursor(
    store: Store, read: int | None, next_slot: int | None
) -> None:
    subscription = in_state(store, State.PAUSED)
    assert raise_next_slot(store, store.current(), replace(_next_work(0), next_slot=next_slot))
    _assert_not_resumed(store, replace(store.current(), next_slot=read), subscription)


def test_the_successor_of_a_subscription_is_not_deleted_in_its_stead(store: Store) -> None:
    subscription = in_state(store, State.ACTIVE)
    assert not store.subscriptions.delete(store.current(), replace(subscription, generation="s0"))
    assert now(store) == subscription


def test_nothing_brings_a_deleted_subscription_back(store: Store) -> None:
    subscription = in_state(store, State.PAUSED)
    assert store.subscriptions.delete(store.current(), subscription)
    assert not store.subscriptions.pause(subscription)
    assert not store.subscriptions.mark_broken("orders", "billing", "s1")
    assert not store.subscriptions.update(subscription, {"filter_policy": FILTER})
    assert not store.subscriptions.resume(store.current(), subscription)
    assert store.parks.put(a_park(subscription), subscription.state) is Parked.MOVED
    assert now(store) is None
    assert store.parks.all("orders") == []
