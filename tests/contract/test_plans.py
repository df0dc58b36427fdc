"""Tests the port Plans, and the transaction of a plan and its hand-outs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_bucket, a_delivery, a_plan, a_state
from tidewheel.flows.delivery import dispatch
from tidewheel.model.plan import Plan
from tidewheel.model.topic_state import NextWork
from tidewheel.storage.deliveries import HandOut

NEXT = NextWork(next_slot=300, next_check_ms=8, collect_at_ms=9)


def _assert_refused(
    store: Store, state: Any, plan: Plan | None, steps: list[HandOut], next_work: NextWork | None
) -> None:
    before, subscriptions = store.current(), store.subscriptions.all("orders")
    assert not store.plans.commit(state, plan, 103, steps, next_work)
    assert store.current() == before
    assert store.plans.read("orders", 100) is None
    assert store.subscriptions.all("orders") == subscriptions
    assert store.deliveries.all("orders") == []


def large_plan() -> Plan:
    """A plan whose manifest no item can hold."""
    return a_plan(cancelled=60_000)


@pytest.mark.parametrize("large", [False, True])
def test_a_plan_is_put_again_once_as_another_edition(store: Store, large: bool) -> None:
    state = store.topic(sealed=103)
    forgotten = a_plan(100, 103)
    assert store.plans.commit(state, forgotten, 103)
    made = large_plan() if large else a_plan(100, 103, segments=9)
    state = store.current()
    assert store.plans.again(state, forgotten, made)
    assert store.plans.read("orders", 100) == replace(made, edition=1)
    assert store.current().subscriptions_version == state.subscriptions_version + 1
    assert not store.plans.again(state, forgotten, made)


def test_a_plan_that_may_be_collected_is_not_put_again(store: Store) -> None:
    state = store.topic(sealed=103)
    plan = a_plan(100, 103)
    assert store.plans.commit(state, plan, 103)
    store.topic_states.raise_collected_until(store.current(), 101)
    assert not store.plans.again(store.current(), plan, a_plan(100, 103, segments=9))
    assert store.plans.read("orders", 100) == plan


def test_as_many_subscriptions_as_dispatch_hands_out_at_once_fit_into_one_step(store: Store) -> None:
    store.topic(sealed=103)
    most = dispatch._ONE_STEP_SUBSCRIPTIONS
    subscriptions = store.subscribed(*(f"s{number:02d}" for number in range(most)))
    steps = [HandOut(subscription=s, to=103, delivery=a_delivery(s)) for s in subscriptions]
    assert store.plans.commit(store.current(), a_plan(), 103, steps, NEXT)
    assert {s.cursor for s in store.subscriptions.all("orders")} == {103}
    assert len(store.deliveries.all("orders")) == most == 49


@pytest.mark.parametrize("next_work", [None, NEXT])
def test_rows_that_are_planned_no_longer_count_as_waiting(store: Store, next_work: NextWork | None) -> None:
    state = store.topic(sealed=103, waiting=50)
    assert store.plans.commit(state, None, 103, (), next_work, rows=20)
    assert store.current().waiting == 30
    assert not store.plans.commit(state, None, 103, (), next_work, rows=20)
    assert store.current().waiting == 30


@pytest.mark.parametrize("moved", [{"planned": 101}, {"swap_version": 1}, {"generation": "g2"}])
@pytest.mark.parametrize("next_work", [None, NEXT])
@pytest.mark.parametrize("plan", [None, a_plan()])
def test_nothing_is_planned_when_the_topic_state_moved(
    store: Store, moved: dict[str, Any], next_work: NextWork | None, plan: Plan | None
) -> None:
    store.topic(sealed=103, **moved)
    [subscription] = store.subscribed(cursor=100)
    state = replace(a_state(sealed=103, next_slot=100), work_version=store.current().work_version)
    step = HandOut(subscription=subscription, to=103, delivery=a_delivery(subscription))
    _assert_refused(store, state, plan, [step], next_work)
    _assert_refused(store, state, plan, [], next_work)


def test_a_plan_that_raises_the_next_slot_is_refused_when_a_ledger_came_in_between(store: Store) -> None:
    state = store.topic(sealed=103)
    store.buckets.commit(state, a_bucket(200), NextWork(next_slot=200, next_check_ms=1, collect_at_ms=None))
    _assert_refused(store, state, a_plan(), [], NEXT)
    _assert_refused(store, state, None, [], NEXT)


def test_a_plan_that_leaves_the_next_slot_is_committed_beside_ledgers_and_seals(store: Store) -> None:
    state = store.topic(sealed=103)
    store.buckets.commit(state, a_bucket(200), NextWork(next_slot=200, next_check_ms=1, collect_at_ms=None))
    store.topic_states.seal(store.current(), 110)
    assert store.plans.commit(state, a_plan(), 103)
    assert (store.current().planned, store.current().sealed, store.current().next_slot) == (103, 110, 200)


@pytest.mark.parametrize("seen", [{"cursor": 99}, {"generation": "s0"}, {"name": "unknown"}])
def test_nothing_is_planned_when_one_hand_out_is_refused(store: Store, seen: dict[str, Any]) -> None:
    store.topic(sealed=103)
    good, other = store.subscribed("billing", "mail")
    bad = replace(other, **seen)
    steps = [HandOut(subscription=s, to=103, delivery=a_delivery(s)) for s in (good, bad)]
    _assert_refused(store, store.current(), a_plan(), steps, NEXT)


def test_the_next_plan_is_the_first_at_or_after_a_slot(store: Store) -> None:
    store.topic(sealed=2000, planned=5)
    plans = [a_plan(5, 8), a_plan(90, 95), a_plan(1000, 1001)]
    for plan in plans:
        state = store.current()
        assert store.plans.commit(replace(state, planned=state.planned), plan, plan.end_slot)
    assert [store.plans.next("orders", slot) for slot in (0, 5, 6, 90, 91, 1000)] == [
        plans[0],
        plans[0],
        plans[1],
        plans[1],
        plans[2],
        plans[2],
    ]
    assert store.plans.next("orders", 1001) is None
    assert store.plans.read("orders", 6) is None


def test_plans_are_read_backwards(store: Store) -> None:
    store.topic(sealed=9000, planned=0)
    for slot in (8, 258, 508, 758):
        assert store.plans.commit(store.current(), a_plan(slot, slot + 3), slot + 3)
    assert [each.first_slot for each in store.plans.before("orders", 508)] == [508, 258, 8]


def test_a_plan_too_large_for_an_item_is_read_and_deleted_like_any_other(store: Store) -> None:
    plan = large_plan()
    assert store.plans.commit(store.topic(), plan, 103)
    assert store.plans.read("orders", 100) == plan
    assert store.plans.next("orders", 7) == plan
    assert store.plans.ranges("orders") == [(100, 103)]
    store.plans.delete("orders", 100)
    assert store.plans.read("orders", 100) is None
    assert store.object_names() == []


def test_a_plan_is_put_again_only_where_it_is_and_in_its_topic(store: Store) -> None:
    state, plan = store.topic(sealed=103), a_plan(100, 103)
    assert not store.plans.again(state, plan, plan)
    assert store.plans.commit(state, plan, 103)
    assert not store.plans.again(replace(store.current(), generation="other"), plan, plan)
    assert store.plans.again(store.current(), plan, plan)
