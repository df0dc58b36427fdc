"""Topics: deliveries of plans that are delivered again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_delivery, a_state
from tidewheel.flows.ports.administration import Replay
from tidewheel.model.subscription_state import Delivery


def a_replay(plan: int = 100, replay_id: str = "r1", **fields: Any) -> Delivery:
    """A delivery of a plan that is delivered again to "billing"."""
    bounds = {"first_ms": 7, "end_ms": 9, "filter_policy": '{"kind":["a"]}', "done": frozenset({1}), "start": 0}
    delivery = a_delivery(plan=plan, **(bounds | fields))
    return replace(delivery, key=replace(delivery.key, replay=replay_id))


def test_a_replay_is_a_delivery_of_its_own_beside_the_first(store: Store) -> None:
    first = store.delivered()
    state = store.current()
    replays = [a_replay(), a_replay(replay_id="r2")]
    for number, delivery in enumerate(replays, 1):
        assert store.topics.open_replay(store.current(), delivery) is Replay.OPENED
        assert store.topics.delivery(delivery.key) == delivery
        assert store.current() == replace(state, subscriptions_version=state.subscriptions_version + number)
    assert set(store.topics.open_deliveries("orders")) == {first, *replays}
    assert set(store.topics.due_for_look(10**6).deliveries) == {first.key, *(each.key for each in replays)}
    assert store.topics.part_done(first.key, 0) == replace(first, done=frozenset({0}))
    store.topics.delete_deliveries([first.key])
    assert set(store.topics.open_deliveries("orders")) == set(replays)
    leased = store.topics.lease_part(replays[0].key, 0, 50, 0)
    assert leased == replace(replays[0], leases=((0, 50),))
    assert store.topics.lease_part(replays[0].key, 1, 50, 0) is None


@pytest.mark.parametrize(
    ("collected_until", "outcome"), [(99, Replay.OPENED), (100, Replay.OPENED), (101, Replay.COLLECTED)]
)
def test_a_plan_is_delivered_again_only_while_it_is_kept(store: Store, collected_until: int, outcome: Replay) -> None:
    store.topic(collected_until=collected_until, planned=110)
    store.subscribed()
    assert store.topics.open_replay(store.current(), a_replay(start=0)) is outcome
    assert bool(store.topics.open_deliveries("orders")) == (outcome is Replay.OPENED)


def test_a_collection_that_saw_no_replay_is_refused_after_it(store: Store) -> None:
    store.topic(planned=110)
    store.subscribed()
    seen = store.current()
    assert store.topics.open_replay(seen, a_replay()) is Replay.OPENED
    assert not store.topics.raise_gc(seen, 105)
    assert store.topics.raise_gc(store.current(), 105)


def test_a_paused_subscription_and_one_that_is_gone_get_no_replay(store: Store) -> None:
    store.topic()
    [subscription] = store.subscribed()
    state = store.current()
    strange = a_replay()
    other = replace(strange, key=replace(strange.key, subscription="audit"))
    assert store.topics.open_replay(state, other) is Replay.REFUSED
    again = replace(strange, key=replace(strange.key, generation="s9"))
    assert store.topics.open_replay(state, again) is Replay.REFUSED
    assert store.topics.pause(subscription)
    assert store.topics.open_replay(state, a_replay()) is Replay.REFUSED
    assert store.topics.open_deliveries("orders") == []
    assert store.current() == state


def test_a_broken_subscription_gets_its_replay(store: Store) -> None:
    store.topic()
    [subscription] = store.subscribed()
    assert store.topics.mark_broken("orders", "billing", subscription.generation)
    assert store.topics.open_replay(store.current(), a_replay()) is Replay.OPENED


def test_another_generation_of_the_topic_opens_nothing(store: Store) -> None:
    store.topic(generation="g2")
    store.subscribed()
    assert store.topics.open_replay(a_state(), a_replay()) is Replay.COLLECTED
