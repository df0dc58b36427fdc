"""Tests the port Deliveries, with cursors, replays, and open deliveries with their leases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_delivery, a_state
from tidewheel.model.subscription_state import Delivery, DeliveryKey, Tally, Unread
from tidewheel.storage import table_keys
from tidewheel.storage.deliveries import HandOut, Replay


def _order(delivery: Any) -> tuple[str, int]:
    return delivery.key.subscription, delivery.key.plan


def a_replay(plan: int = 100, replay_id: str = "r1", **fields: Any) -> Delivery:
    """A replay of a plan to "billing"."""
    bounds = {"first_ms": 7, "end_ms": 9, "filter_policy": '{"kind":["a"]}', "done": frozenset({1}), "start": 0}
    delivery = a_delivery(plan=plan, **(bounds | fields))
    return replace(delivery, key=replace(delivery.key, replay=replay_id))


def failing(*_: Any) -> Any:
    raise TimeoutError


@pytest.mark.parametrize("seen", [{"cursor": 99}, {"generation": "s0"}, {"name": "unknown"}])
@pytest.mark.parametrize("empty", [False, True])
def test_a_hand_out_is_refused_when_the_subscription_moved(store: Store, seen: dict[str, Any], empty: bool) -> None:
    store.topic()
    [subscription] = store.subscribed()
    stale = replace(subscription, **seen)
    delivery = None if empty else a_delivery(stale)
    assert not store.deliveries.hand_out(HandOut(subscription=stale, to=103, delivery=delivery))
    assert store.subscriptions.all("orders") == [subscription]
    assert store.deliveries.all("orders") == []


def test_a_part_is_leased_by_one_worker_until_its_lease_ends(store: Store) -> None:
    delivery = store.delivered()
    leased = store.deliveries.lease_part(delivery.key, 1, 700, 400)
    assert leased == store.deliveries.read(delivery.key) == replace(delivery, leases=((1, 700),))
    for expired_before_ms in (699, 700):
        assert store.deliveries.lease_part(delivery.key, 1, 900, expired_before_ms) is None
    assert store.deliveries.read(delivery.key) == leased
    assert store.deliveries.lease_part(delivery.key, 0, 800, 400) == replace(delivery, leases=((0, 800), (1, 700)))
    assert store.deliveries.lease_part(delivery.key, 1, 900, 701) == replace(delivery, leases=((0, 800), (1, 900)))


def test_a_part_that_is_done_is_not_leased(store: Store) -> None:
    delivery = store.delivered()
    store.deliveries.part_done(delivery.key, 1)
    assert store.deliveries.lease_part(delivery.key, 1, 700, 699) is None
    assert store.deliveries.lease_part(delivery.key, 2, 700, 699) is not None


def test_a_released_part_may_be_leased_at_once(store: Store) -> None:
    delivery = store.delivered()
    store.deliveries.lease_part(delivery.key, 1, 700, 400)
    store.deliveries.lease_part(delivery.key, 2, 700, 400)
    store.deliveries.release_part(delivery.key, 1)
    store.deliveries.release_part(delivery.key, 1)
    assert store.deliveries.read(delivery.key) == replace(delivery, leases=((2, 700),))
    assert store.deliveries.lease_part(delivery.key, 1, 701, 400) is not None


def test_a_part_whose_filter_policy_cannot_be_read_is_not_leased(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    delivery = store.delivered(parts=600, filter_policy='{"kind":["a"]}')
    with monkeypatch.context() as patch, pytest.raises(TimeoutError):
        patch.setattr(type(store.deliveries), "read_marks", failing)
        store.deliveries.lease_part(delivery.key, 300, 700, 400)
    assert store.deliveries.lease_part(delivery.key, 300, 701, 400) is not None


UNREAD = Unread((2, 5), ("ledgers/a", "ledgers/b"), 12, lost=True)


def test_a_note_of_a_part_that_is_done_does_not_stand_for_another_part(store: Store) -> None:
    delivery = store.delivered()
    store.deliveries.part_done(delivery.key, 0)
    assert store.deliveries.note_unread(delivery, {0: UNREAD, 1: UNREAD}, "gone", 900)
    after = store.deliveries.read(delivery.key)
    assert after is not None and after.parts == 3 and not after.stuck


def test_a_worker_of_an_older_edition_changes_nothing_of_a_delivery_that_began_anew(store: Store) -> None:
    delivery = store.delivered()
    assert store.deliveries.note_unread(delivery, {1: UNREAD}, "gone", 900, {0})
    assert store.deliveries.restart(delivery, edition=1, parts=2)
    anew = store.deliveries.read(delivery.key)
    assert anew == replace(delivery, edition=1, parts=2)
    assert not store.deliveries.restart(delivery, edition=1, parts=2)
    assert not store.deliveries.note_unread(delivery, {1: UNREAD}, "gone", 900)
    assert store.deliveries.part_done(delivery.key, 1) is None
    assert store.deliveries.part_done(delivery.key, 1, edition=1) == replace(anew, done=frozenset({1}))


@pytest.mark.parametrize(("parts", "part"), [(3, 1), (600, 1), (600, 599)])
def test_nothing_brings_a_deleted_delivery_back(store: Store, parts: int, part: int) -> None:
    delivery = store.delivered(parts=parts)
    key = delivery.key
    store.deliveries.delete([key, replace(key, plan=7), replace(key, topic="unknown")])
    assert store.deliveries.part_done(key, part) is None
    assert not store.deliveries.note_unread(delivery, {part: UNREAD}, "gone", 900)
    assert not store.deliveries.restart(delivery, edition=1, parts=2)
    assert store.deliveries.lease_part(key, part, 700, 400) is None
    assert not store.deliveries.set_next_check(key, delivery.next_check_ms, 1)
    store.deliveries.release_part(key, part)
    assert store.deliveries.read(key) is store.deliveries.read_marks(key, part) is None
    assert store.deliveries.all("orders") == []


def test_a_delivery_of_many_parts_ends_once_the_marks_of_all_its_items_are_full(store: Store) -> None:
    open_parts = {3, 300, 301, 599}
    delivery = store.delivered(parts=600, done=frozenset(range(600)) - open_parts, filter_policy='{"kind":["a"]}')
    key = delivery.key
    assert [delivery] == store.deliveries.all("orders") and store.deliveries.read(key) == delivery
    leased = store.deliveries.lease_part(key, 300, 700, 400)
    assert leased is not None and (leased.key, leased.filter_policy) == (key, delivery.filter_policy)
    assert (len(leased.done), leased.leases) == (254, ((300, 700),))
    assert store.deliveries.read(key) == replace(delivery, leases=((300, 700),))
    for now_ms, part in enumerate((599, 300, 3, 301), 900):
        after = store.deliveries.part_done(key, part, tally=Tally(sent=part), now_ms=now_ms)
        assert after is not None and not after.complete
        ended = store.deliveries.ended(after, part)
        assert (ended is not None) == (part == 301)
    assert ended is not None and ended.tally == Tally(sent=sum(open_parts)) and ended.done_ms == 903
    store.deliveries.finish(ended, 5000)
    store.deliveries.finish(ended, 5000)
    assert [each.tally for each in store.deliveries.sent("orders", 0, 200)] == [ended.tally]
    assert store.deliveries.all("orders") == [] and store.deliveries.read_marks(key, 599) is None


def test_a_replay_of_many_parts_is_opened_whole_or_not_at_all(store: Store) -> None:
    store.topic(planned=110)
    store.subscribed()
    replay = a_replay(parts=24_800, done=frozenset(range(1, 24_799)))
    assert store.deliveries.open_replay(store.current(), replay) is Replay.OPENED
    assert [replace(each, leases=()) for each in store.deliveries.all("orders")] == [replay]
    other = a_replay(replay_id="r2", parts=600)
    assert store.deliveries.open_replay(replace(store.current(), generation="g9"), other) is Replay.COLLECTED
    assert store.deliveries.read_marks(other.key, 599) is None


def test_the_notes_of_all_items_are_those_of_the_delivery(store: Store) -> None:
    delivery = store.delivered(parts=600, done=frozenset(range(600)) - {1, 599})
    assert not store.deliveries.note_unread(replace(delivery, edition=1), {599: UNREAD}, "gone", 900)
    assert store.deliveries.read(delivery.key) == delivery
    for now_ms, part in ((900, 599), (901, 1)):
        assert store.deliveries.note_unread(delivery, {part: UNREAD}, "gone", now_ms, (), Tally(sent=5))
    [after] = store.deliveries.all("orders")
    assert after.stuck and after.unread == ((1, UNREAD), (599, UNREAD)) and after.tally == Tally(sent=10)
    assert (after.reason, after.unread_ms) == ("gone", 900)


@pytest.mark.parametrize(("before", "after"), [(3, 600), (600, 3), (600, 300)])
def test_a_delivery_that_begins_anew_has_the_marks_of_its_new_parts_only(store: Store, before: int, after: int) -> None:
    delivery = store.delivered(parts=before)
    store.deliveries.part_done(delivery.key, before - 1, tally=Tally(sent=4))
    seen = store.deliveries.read_marks(delivery.key, before - 1)
    assert seen is not None and store.deliveries.restart(seen, edition=1, parts=after)
    anew = replace(delivery, edition=1, parts=after, tally=Tally(sent=4))
    assert [replace(each, done_ms=0) for each in store.deliveries.all("orders")] == [anew]
    assert (store.deliveries.read_marks(delivery.key, 599) is None) == (after < 512)
    assert store.deliveries.part_done(delivery.key, before - 1) is None
    if before > 256:  # whoever saw it complete before does not end it now
        store.deliveries.finish(replace(delivery, done=frozenset(range(before))), 5000)
        assert len(store.deliveries.all("orders")) == 1


def test_many_deliveries_are_deleted(store: Store) -> None:
    store.topic()
    keys: list[DeliveryKey] = []
    for subscription in store.subscribed(*(f"s{number}" for number in range(30))):
        delivery = a_delivery(subscription)
        store.deliveries.hand_out(HandOut(subscription=subscription, to=103, delivery=delivery))
        keys.append(delivery.key)
    store.deliveries.delete(iter(keys[:-1]))
    assert [delivery.key for delivery in store.deliveries.all("orders")] == keys[-1:]


@pytest.mark.parametrize("parts", [{"S": "many"}, {"N": "1.5"}])
def test_a_delivery_whose_number_of_parts_is_not_readable_is_deleted_whole(store: Store, parts: Any) -> None:
    delivery = store.delivered(parts=600)
    table: Any = store.deliveries._table
    item = table.get(table_keys.delivery_key(delivery.key))
    table._client.put_item(TableName=table._name, Item=item | {"parts": parts})
    store.deliveries.delete([delivery.key])
    assert store.deliveries.read_marks(delivery.key, 0) is store.deliveries.read_marks(delivery.key, 599) is None


def test_a_delivery_gets_its_next_check_once_by_those_who_saw_the_same(store: Store) -> None:
    delivery = store.delivered(next_check_ms=5000)
    assert store.deliveries.set_next_check(delivery.key, 5000, 6000)
    assert not store.deliveries.set_next_check(delivery.key, 5000, 7000)
    assert store.deliveries.read(delivery.key) == replace(delivery, next_check_ms=6000)


@pytest.mark.parametrize(
    ("collected_until", "outcome"), [(99, Replay.OPENED), (100, Replay.OPENED), (101, Replay.COLLECTED)]
)
def test_a_plan_is_delivered_again_only_while_it_is_kept(store: Store, collected_until: int, outcome: Replay) -> None:
    store.topic(collected_until=collected_until, planned=110)
    store.subscribed()
    assert store.deliveries.open_replay(store.current(), a_replay(start=0)) is outcome
    assert bool(store.deliveries.all("orders")) == (outcome is Replay.OPENED)


def test_a_paused_subscription_and_one_that_is_gone_get_no_replay(store: Store) -> None:
    store.topic()
    [subscription] = store.subscribed()
    state = store.current()
    strange = a_replay()
    other = replace(strange, key=replace(strange.key, subscription="audit"))
    assert store.deliveries.open_replay(state, other) is Replay.REFUSED
    again = replace(strange, key=replace(strange.key, generation="s9"))
    assert store.deliveries.open_replay(state, again) is Replay.REFUSED
    assert store.subscriptions.pause(subscription)
    assert store.deliveries.open_replay(state, a_replay()) is Replay.REFUSED
    assert store.deliveries.all("orders") == []
    assert store.current() == state


def test_a_broken_subscription_gets_its_replay(store: Store) -> None:
    store.topic()
    [subscription] = store.subscribed()
    assert store.subscriptions.mark_broken("orders", "billing", subscription.generation)
    assert store.deliveries.open_replay(store.current(), a_replay()) is Replay.OPENED


def test_another_generation_of_the_topic_opens_nothing(store: Store) -> None:
    store.topic(generation="g2")
    store.subscribed()
    assert store.deliveries.open_replay(a_state(), a_replay()) is Replay.COLLECTED


def test_a_collection_that_saw_no_replay_is_refused_after_it(store: Store) -> None:
    store.topic(planned=110)
    store.subscribed()
    seen = store.current()
    assert store.deliveries.open_replay(seen, a_replay()) is Replay.OPENED
    assert not store.topic_states.raise_collected_until(seen, 105)
    assert store.topic_states.raise_collected_until(store.current(), 105)


def test_a_delivery_that_is_done_leaves_a_record_with_its_counts(store: Store) -> None:
    first = store.delivered(opened_ms=7)
    store.deliveries.note_unread(first, {0: UNREAD}, "gone", 900, {1, 2}, Tally(sent=5, parked=1))
    done = store.deliveries.part_done(first.key, 0, tally=Tally(sent=2, expired=3), now_ms=950)
    assert done is not None and done.complete and (done.opened_ms, done.done_ms) == (7, 950)
    assert done.tally == Tally(sent=7, parked=1, expired=3)
    store.deliveries.finish(done, 5000)
    replay = a_replay(tally=Tally(lost=1))
    store.deliveries.finish(replay, 5000)
    store.deliveries.finish(a_replay(plan=1000), 5000)
    assert store.deliveries.all("orders") == []
    left = list(store.deliveries.sent("orders", 0, 1000))
    assert [(each.key, each.tally) for each in left] == [(replay.key, replay.tally), (done.key, done.tally)]
    assert [each.key.plan for each in store.deliveries.sent("orders", 101, 2000)] == [1000]
    store.deliveries.delete_sent("orders")
    assert list(store.deliveries.sent("orders", 0, 2000)) == []
