"""Holds all topics' items in memory, with the lock that makes each call atomic."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from tidewheel.flows.ports import Trash
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.plan import Plan
from tidewheel.model.recurring import Recurring
from tidewheel.model.subscription_state import Delivery, DeliveryKey, SubscriptionState
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import LAYOUT, TopicState, check_layout


@dataclass(slots=True)
class Items:
    """The items stored under a topic's name."""

    state: TopicState | None = None
    buckets: dict[BucketId, Bucket] = field(default_factory=dict)
    plans: dict[int, Plan] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionState] = field(default_factory=dict)
    deliveries: dict[DeliveryKey, Delivery] = field(default_factory=dict)
    parks: dict[ParkKey, Park] = field(default_factory=dict)
    tombstones: dict[tuple[int, MessageId], Tombstone] = field(default_factory=dict)
    keys: dict[str, KeyEntry] = field(default_factory=dict)
    recurring: dict[str, Recurring] = field(default_factory=dict)
    trash: dict[tuple[int, str], Trash] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    merging_until_ms: int | None = None


class MemoryItems:
    """The dicts shared by all parts of the port `Topics`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._items: dict[str, Items] = {}
        self._daily: dict[str, tuple[int, str | None]] = {}

    def _of(self, topic: str) -> Items:
        return self._items.setdefault(topic, Items())

    def _same(self, state: TopicState) -> TopicState | None:
        """Returns the current topic state if the generation is unchanged and this release may change the topic."""
        current = self._of(state.topic).state
        if current is None or current.layout > LAYOUT:
            return None
        return current if current.generation == state.generation else None

    def _read(self, topic: str) -> TopicState | None:
        """Returns the topic state, also of a topic that is being deleted.

        Raises:
            UnsupportedLayout: the topic state is not readable.
        """
        found = self._of(topic).state
        if found is not None:
            check_layout(topic, found.layout)
        return found
