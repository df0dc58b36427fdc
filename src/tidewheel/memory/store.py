"""Holds the items of all topics in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tidewheel.flows.ports.merges import Trash
from tidewheel.flows.ports.notes import Note
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.plan import Plan
from tidewheel.model.recurring import Recurring
from tidewheel.model.set_aside import SetAside, SetAsideKey
from tidewheel.model.subscription_state import Delivery, DeliveryKey, SubscriptionState
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import LAYOUT, TopicState, check_layout


@dataclass(slots=True)
class TopicItems:
    """The items stored under a topic's name."""

    state: TopicState | None = None
    buckets: dict[BucketId, Bucket] = field(default_factory=dict)
    plans: dict[int, Plan] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionState] = field(default_factory=dict)
    deliveries: dict[DeliveryKey, Delivery] = field(default_factory=dict)
    parks: dict[ParkKey, Park] = field(default_factory=dict)
    set_aside: dict[SetAsideKey, SetAside] = field(default_factory=dict)
    tombstones: dict[tuple[int, MessageId], Tombstone] = field(default_factory=dict)
    keys: dict[str, KeyEntry] = field(default_factory=dict)
    moves: dict[MessageId, tuple[MessageId, int]] = field(default_factory=dict)
    notes: dict[str, tuple[Note, int]] = field(default_factory=dict)
    recurring: dict[str, Recurring] = field(default_factory=dict)
    trash: dict[tuple[int, str], Trash] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    merging_until_ms: int | None = None


class MemoryStore:
    """The dicts that all ports in memory share, with the lock that makes each call atomic."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.topics: dict[str, TopicItems] = {}
        self.daily: dict[str, tuple[int, str | None]] = {}

    def of(self, topic: str) -> TopicItems:
        return self.topics.setdefault(topic, TopicItems())

    def changes(self) -> list[object]:
        """Returns another value after each change of a topic. Daily claims are no change."""
        with self.lock:
            return [(each.state, len(each.tombstones), len(each.keys)) for each in self.topics.values()]

    def same(self, state: TopicState) -> TopicState | None:
        """Returns the current topic state if the generation is unchanged and this release may change the topic."""
        current = self.of(state.topic).state
        if current is None or current.layout > LAYOUT:
            return None
        return current if current.generation == state.generation else None

    def read(self, topic: str) -> TopicState | None:
        """Returns the topic state, also of a topic that is being deleted.

        Raises:
            UnsupportedLayout: the topic state is not readable.
        """
        found = self.of(topic).state
        if found is not None:
            check_layout(topic, found.layout)
        return found

    def slot_open(self, topic: str, slot: int) -> bool:
        """Returns whether a slot is not sealed, and this release may change the topic."""
        state = self.of(topic).state
        return state is not None and state.layout <= LAYOUT and state.sealed <= slot

    def expire(self, now_s: int, goes: Callable[[], bool] = lambda: True) -> None:
        """Deletes tombstones, keys, moves and progress with an expired ttl.

        DynamoDB's TTL does so too, some days late and in any order.

        Args:
            goes: returns whether to delete an item now; other items are left to a later call.
        """
        with self.lock:
            for items in self.topics.values():
                for tombstone in [at for at, each in items.tombstones.items() if each.ttl_s < now_s and goes()]:
                    del items.tombstones[tombstone]
                for key in [key for key, each in items.keys.items() if each.ttl_s < now_s and goes()]:
                    del items.keys[key]
                for mover in [id for id, (_, ttl_s) in items.moves.items() if ttl_s < now_s and goes()]:
                    del items.moves[mover]
                for name in [name for name, (_, ttl_s) in items.notes.items() if ttl_s < now_s and goes()]:
                    del items.notes[name]
