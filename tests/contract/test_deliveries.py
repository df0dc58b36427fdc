"""Topics: subscriptions, their cursors, and open deliveries with their leases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_delivery, a_state, a_subscription
from tidewheel.flows.ports import AT_ONCE_MS, HandOut
from tidewheel.model.subscription_state import DeliveryKey


# ---- create_subscription
def test_a_subscription_is_read_as_it_was_created_and_the_sweep_looks_at_it(store: Store) -> None:
    state = store.topic(sealed=105)
    subscription = a_subscription(cursor=100, start=105)
    assert store.topics.create_subscription(state, subscription)
    assert store.topics.subscription("orders", "billing") == subscription
    assert store.current() == replace(
        state, subscriptions_version=1, work_version=1, next_slot=100, next_check_ms=state.check_at(100, None)
    )


def test_a_new_subscription_lowers_a_wake_mark_above_its_cursor(store: Store) -> None:
    state = store.topic(next_slot=400, next_check_ms=10**9, collect_at_ms=5, sealed=100)
    assert store.topics.create_subscription(state, a_subscription(cursor=100))
    marks = (store.current().next_slot, store.current().next_check_ms, store.current().collect_at_ms)
    assert marks == (100, AT_ONCE_MS, 5)


@pytest.mark.parametrize("next_slot", [99, 100])
def test_a_new_subscription_leaves_a_wake_mark_that_is_low_enough(store: Store, next_slot: int) -> None:
    state = store.topic(next_slot=next_slot, next_check_ms=3)
    assert store.topics.create_subscription(state, a_subscription(cursor=100))
    assert store.current() == replace(state, subscriptions_version=1, work_version=1)


def test_a_subscription_is_refused_below_what_is_collected(store: Store) -> None:
    state = store.topic(planned=110, sealed=110)
    assert store.topics.raise_gc(state, 105)
    _assert_refused(store, state, a_subscription(cursor=104))
    assert store.topics.create_subscription(state, a_subscription(cursor=105))


def test_a_subscription_is_refused_when_the_topic_is_another_of_the_same_name(store: Store) -> None:
    store.topic()
    _assert_refused(store, a_state(generation="g0"), a_subscription())


@pytest.mark.parametrize(("read", "now"), [(None, 90), (90, None), (90, 200)])
def test_a_subscription_is_refused_when_wake_moved_across_its_cursor(
    store: Store, read: int | None, now: int | None
) -> None:
    store.topic(next_slot=now)
    _assert_refused(store, a_state(next_slot=read), a_subscription())


def test_a_subscription_that_exists_is_not_created_again(store: Store) -> None:
    store.topic()
    [subscription] = store.subscribed()
    before = store.current()
    assert not store.topics.create_subscription(before, replace(subscription, generation="s2"))
    assert store.topics.subscriptions("orders") == [subscription]
    assert store.current() == before


def _assert_refused(store: Store, state: Any, subscription: Any) -> None:
    before = store.current()
    assert not store.topics.create_subscription(state, subscription)
    assert store.topics.subscriptions("orders") == []
    assert store.current() == before


def test_all_subscriptions_are_read_by_name(store: Store) -> None:
    store.topic()
    store.topics.create_topic(a_state("orders-2"))
    store.subscribed("m", "z", "a", "B", "k-1")
    names = [subscription.name for subscription in store.topics.subscriptions("orders")]
    assert names == ["B", "a", "k-1", "m", "z"]
    assert store.topics.subscriptions("orders-2") == []
    assert store.topics.subscription("orders", "none") is None


# ---- hand_out
def test_a_hand_out_moves_the_cursor_and_opens_the_delivery(store: Store) -> None:
    store.topic()
    [subscription] = store.subscribed()
    delivery = a_delivery(subscription, leases=((0, 50), (2, 51)), done=frozenset())
    assert store.topics.hand_out(HandOut(subscription=subscription, to=103, delivery=delivery))
    assert store.topics.subscription("orders", "billing") == replace(subscription, cursor=103)
    assert store.topics.delivery(delivery.key) == delivery


def test_a_step_over_slots_in_which_nothing_is_due_moves_the_cursor_alone(store: Store) -> None:
    store.topic()
    [subscription] = store.subscribed()
    assert store.topics.hand_out(HandOut(subscription=subscription, to=103, delivery=None))
    assert store.topics.subscription("orders", "billing") == replace(subscription, cursor=103)
    assert store.topics.open_deliveries("orders") == []


@pytest.mark.parametrize("seen", [{"cursor": 99}, {"generation": "s0"}, {"name": "unknown"}])
@pytest.mark.parametrize("empty", [False, True])
def test_a_hand_out_is_refused_when_the_subscription_moved(store: Store, seen: dict[str, Any], empty: bool) -> None:
    store.topic()
    [subscription] = store.subscribed()
    stale = replace(subscription, **seen)
    delivery = None if empty else a_delivery(stale)
    assert not store.topics.hand_out(HandOut(subscription=stale, to=103, delivery=delivery))
    assert store.topics.subscriptions("orders") == [subscription]
    assert store.topics.open_deliveries("orders") == []


# ---- deliveries
def test_all_open_deliveries_of_a_topic_are_read(store: Store) -> None:
    store.topic()
    made = []
    for subscription in store.subscribed("a", "b", "c"):
        current = subscription
        for plan in (100, 1000):
            made.append(a_delivery(subscription, plan=plan))
            assert store.topics.hand_out(HandOut(subscription=current, to=plan + 1, delivery=made[-1]))
            current = replace(current, cursor=plan + 1)
    assert sorted(store.topics.open_deliveries("orders"), key=_order) == sorted(made, key=_order)
    assert store.topics.open_deliveries("order") == []


def _order(delivery: Any) -> tuple[str, int]:
    return delivery.key.subscription, delivery.key.plan


def test_a_part_that_nobody_has_is_leased(store: Store) -> None:
    delivery = store.delivered()
    after = store.topics.lease_part(delivery.key, 1, 700, 400)
    assert after == replace(delivery, leases=((1, 700),))
    assert store.topics.delivery(delivery.key) == after
    assert store.topics.lease_part(delivery.key, 0, 800, 400) == replace(delivery, leases=((0, 800), (1, 700)))


@pytest.mark.parametrize("expired_before_ms", [699, 700])
def test_a_leased_part_is_not_leased_again_while_the_lease_lasts(store: Store, expired_before_ms: int) -> None:
    delivery = store.delivered()
    leased = store.topics.lease_part(delivery.key, 1, 700, 400)
    assert store.topics.lease_part(delivery.key, 1, 900, expired_before_ms) is None
    assert store.topics.delivery(delivery.key) == leased


def test_an_expired_lease_is_another_s_to_take(store: Store) -> None:
    delivery = store.delivered()
    store.topics.lease_part(delivery.key, 1, 700, 400)
    assert store.topics.lease_part(delivery.key, 1, 900, 701) == replace(delivery, leases=((1, 900),))


def test_a_part_that_is_done_is_not_leased(store: Store) -> None:
    delivery = store.delivered()
    store.topics.part_done(delivery.key, 1)
    assert store.topics.lease_part(delivery.key, 1, 700, 699) is None
    assert store.topics.lease_part(delivery.key, 2, 700, 699) is not None


def test_a_released_part_may_be_leased_at_once(store: Store) -> None:
    delivery = store.delivered()
    store.topics.lease_part(delivery.key, 1, 700, 400)
    store.topics.lease_part(delivery.key, 2, 700, 400)
    store.topics.release_part(delivery.key, 1)
    store.topics.release_part(delivery.key, 1)
    assert store.topics.delivery(delivery.key) == replace(delivery, leases=((2, 700),))
    assert store.topics.lease_part(delivery.key, 1, 701, 400) is not None


def test_parts_are_done_once_each_until_the_delivery_is_complete(store: Store) -> None:
    delivery = store.delivered()
    assert store.topics.part_done(delivery.key, 2) == replace(delivery, done=frozenset({2}))
    assert store.topics.part_done(delivery.key, 2) == replace(delivery, done=frozenset({2}))
    store.topics.part_done(delivery.key, 0)
    after = store.topics.part_done(delivery.key, 1)
    assert after is not None
    assert after.complete
    assert store.topics.delivery(delivery.key) == after


def test_nothing_brings_a_deleted_delivery_back(store: Store) -> None:
    delivery = store.delivered()
    key = delivery.key
    store.topics.delete_deliveries([key, replace(key, plan=7), replace(key, topic="unknown")])
    assert store.topics.part_done(key, 1) is None
    assert store.topics.lease_part(key, 1, 700, 400) is None
    assert not store.topics.stamp_delivery(key, delivery.next_check_ms, 1)
    store.topics.release_part(key, 1)
    assert store.topics.delivery(key) is None
    assert store.topics.open_deliveries("orders") == []


def test_many_deliveries_are_deleted(store: Store) -> None:
    store.topic()
    keys: list[DeliveryKey] = []
    for subscription in store.subscribed(*(f"s{number}" for number in range(30))):
        delivery = a_delivery(subscription)
        store.topics.hand_out(HandOut(subscription=subscription, to=103, delivery=delivery))
        keys.append(delivery.key)
    store.topics.delete_deliveries(iter(keys[:-1]))
    assert [delivery.key for delivery in store.topics.open_deliveries("orders")] == keys[-1:]


def test_a_delivery_is_stamped_once_by_those_who_saw_the_same(store: Store) -> None:
    delivery = store.delivered(next_check_ms=5000)
    assert store.topics.stamp_delivery(delivery.key, 5000, 6000)
    assert not store.topics.stamp_delivery(delivery.key, 5000, 7000)
    assert store.topics.delivery(delivery.key) == replace(delivery, next_check_ms=6000)
