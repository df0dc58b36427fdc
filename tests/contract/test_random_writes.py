"""Random sequences of our own writes get the same answers and refusals from the client in memory as from others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.contract.builders import (
    Store,
    a_bucket,
    a_delivery,
    a_message_id,
    a_plan,
    a_state,
    a_subscription,
    raise_next_slot,
    some_trash,
)
from tests.contract.conftest import aws_store
from tidewheel.errors import TidewheelError
from tidewheel.ledger.bucket import bucket_id
from tidewheel.model.key import KeyEntry
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.set_aside import SetAside, SetAsideKey
from tidewheel.model.subscription_state import State
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import NextWork, TopicState
from tidewheel.storage.deliveries import HandOut

SEQUENCES = 5
WRITES = 120
LOW = NextWork(next_slot=105, next_check_ms=7000, collect_at_ms=None)


class Writer:
    """Makes random writes with values of small ranges. Some conditions succeed, and some fail.

    A read value is kept and used again later, as a slow writer does.
    """

    def __init__(self, store: Store, random: Random) -> None:
        self.store, self.random = store, random
        self.states: list[TopicState] = [a_state()]
        self.subscriptions = [a_subscription()]
        self.parks: list[Park] = []

    def any(self, values: list[Any]) -> Any:
        return self.random.choice(values[-4:])

    @property
    def state(self) -> TopicState:
        found: TopicState = self.any(self.states)
        return found

    @property
    def slot(self) -> int:
        return self.random.randint(99, 112)

    @property
    def subscription(self) -> Any:
        return self.any(self.subscriptions)

    def park(self) -> Park:
        to = self.subscription
        key = ParkKey(
            topic="orders", subscription=to.name, generation=to.generation, id=f"p{self.random.randint(1, 3)}"
        )
        return a_park(key)

    def read(self) -> None:
        if (found := self.store.topic_states.read("orders")) is not None:
            self.states.append(found)
        self.subscriptions += self.store.subscriptions.all("orders")
        self.parks += [each for each in self.store.parks.all("orders") if each.leased_ms is not None]

    def write(self) -> Any:
        """Makes a random write."""
        store, slot = self.store, self.slot
        to, part = self.subscription, self.random.randint(0, 2)
        delivery = a_delivery(to, plan=100)
        first, second = a_bucket(slot), a_bucket(slot + 1, id="b2")
        low = self.random.choice([LOW, None])
        key = KeyEntry(key=f"k{part}", id=a_message_id(part), sent_ms=slot, seq=part, ttl_s=5000)
        tombstone = a_tombstone(slot, part)
        aside = an_aside(to, part)
        writes: list[Callable[[], Any]] = [
            lambda: store.topic_states.create(a_state()),
            lambda: store.topic_states.seal(self.state, slot),
            lambda: raise_next_slot(store, self.state, LOW),
            lambda: store.topic_states.raise_layout(self.state, self.any([1, 2])),
            lambda: store.topic_states.raise_collected_until(self.state, slot),
            lambda: store.topic_states.set_collect_at(self.state, slot, slot, self.any([None, slot])),
            lambda: store.topic_states.merge_considered(self.state, self.any([None, slot])),
            lambda: store.topic_states.update_settings(self.state, replace(self.state.settings, part_rows=slot)),
            lambda: store.topic_states.set_purges(self.state, slot, []),
            lambda: store.buckets.commit(self.state, first, low, same_swaps=bool(part)),
            lambda: store.buckets.delete("orders", bucket_id(slot, "b1")),
            lambda: store.merges.lease("orders", slot, slot + 2, self.any([None, slot])),
            lambda: store.merges.release("orders", slot),
            lambda: store.merges.swap(self.state, [first], [second], some_trash(slot)),
            lambda: store.plans.commit(self.state, a_plan(slot, slot + 1), slot + 1),
            lambda: store.subscriptions.create(self.state, a_subscription(f"s{part}", cursor=slot)),
            lambda: store.subscriptions.pause(to),
            lambda: store.subscriptions.mark_broken("orders", to.name, to.generation),
            lambda: store.subscriptions.resume(self.state, to),
            lambda: store.subscriptions.update(to, {"filter_policy": self.any([None, '{"a": ["b"]}'])}),
            lambda: store.subscriptions.delete(to),
            lambda: store.deliveries.hand_out(HandOut(subscription=to, to=slot, delivery=self.any([None, delivery]))),
            lambda: store.deliveries.open_replay(self.state, a_delivery(to, plan=slot)),
            lambda: store.deliveries.lease_part(delivery.key, part, slot, slot - 2),
            lambda: store.deliveries.release_part(delivery.key, part),
            lambda: store.deliveries.part_done(delivery.key, part),
            lambda: store.deliveries.set_next_check(delivery.key, self.any([5000, slot]), slot),
            lambda: store.deliveries.delete([delivery.key]),
            lambda: store.parks.put(self.park(), self.any([State.ACTIVE, State.PAUSED])),
            lambda: store.parks.park_part(delivery.key, part, self.park()),
            lambda: store.parks.lease(self.park().key, slot, slot - 2),
            lambda: store.parks.set_next_check(self.park().key, self.any([5000, slot]), slot),
            lambda: self.parks and store.parks.replace(self.any(self.parks), [self.park()]),
            lambda: self.parks and store.parks.put_off(self.any(self.parks), self.park()),
            lambda: store.parks.delete([self.park().key]),
            lambda: store.set_aside.put(aside),
            lambda: store.set_aside.change(aside, replace(aside, tries=aside.tries + 1)),
            lambda: store.set_aside.delete([aside.key]),
            lambda: store.tombstones.cancel("orders", tombstone),
            lambda: store.keys.claim("orders", key),
            lambda: store.keys.move("orders", key, replace(key, sent_ms=slot + 1), self.any([None, tombstone])),
            lambda: store.notes.put("orders", f"n{part}", slot, 5000),
            lambda: store.checks.due(slot),
            lambda: store.checks.put_off_daily(f"d{part}", slot, self.any([None, "x"])),
            store.topic_states.all,
            lambda: store.buckets.all("orders"),
            lambda: store.deletions.delete_items("orders"),
        ]
        rare = writes[-1]
        chosen = self.random.choice(writes)
        if chosen is rare and self.random.random() < 0.8:
            chosen = writes[0]
        try:
            return chosen()
        except TidewheelError as error:
            return type(error)


def a_park(key: ParkKey) -> Park:
    return Park(key=key, rows=1, size_bytes=9, next_check_ms=5000, ledger=b"ledger", first_due_ms=1)


def a_tombstone(slot: int, number: int) -> Tombstone:
    return Tombstone(slot, a_message_id(number), ttl_s=5000)


def an_aside(to: Any, number: int) -> SetAside:
    key = SetAsideKey(topic="orders", subscription=to.name, generation=to.generation, id=f"a{number}")
    return SetAside(
        key=key, plan=a_plan(), ranges=((0, 0, 7),), start=100, reason="cut", first_seen_ms=1, next_check_ms=None
    )


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_writes_in_any_order_get_the_same_answers(dynamodb: Any, seed: int) -> None:
    writer = Writer(aws_store(dynamodb, compared=True), Random(seed))
    done = 0
    for _ in range(WRITES):
        writer.read()
        done += bool(writer.write())

    assert done > WRITES // 8, "nearly all writes were refused"
