"""Values for the contract suites."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyroaring import BitMap

from tidewheel.ledger.bucket import Bucket, bucket_id
from tidewheel.model.message import MessageId
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.plan import Plan, PlannedSegment, Segment, Trash
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription_state import Delivery, DeliveryKey, State, SubscriptionState
from tidewheel.model.topic_state import NextWork, TopicState
from tidewheel.storage.deliveries import HandOut
from tidewheel.storage.storage import Storage

SLOT_MS = 300_000


def a_state(topic: str = "orders", **marks: Any) -> TopicState:
    """A topic state with its marks at slot 100 by default."""
    values = {
        "generation": "g1",
        "settings": TopicSettings(),
        "sealed": 100,
        "planned": 100,
        "collected_until": 100,
        "created_at_ms": 7,
    } | marks
    return TopicState(topic=topic, **values)


def a_bucket(*slots: int, id: str = "b1", segments: int = 2) -> Bucket:
    """A bucket with some occupied slots."""
    start = min(slots) * SLOT_MS
    return Bucket(
        id=bucket_id(min(slots), id),
        object_name=f"ledgers/orders/{id}",
        size_bytes=4000,
        rows=40,
        slots=BitMap(slots),
        segments=tuple(a_segment(i, start) for i in range(segments)),
    )


def a_segment(number: int = 0, start_ms: int = 100 * SLOT_MS) -> Segment:
    """A numbered segment of 1000 bytes."""
    return Segment(
        offset=4 + 1000 * number,
        length=1000,
        rows=20,
        raw_bytes=5000,
        first_deliver_at_ms=start_ms + 1000 * number,
        last_deliver_at_ms=start_ms + 1000 * number + 999,
    )


def a_plan(
    first_slot: int = 100, end_slot: int = 103, *, segments: int = 1, objects: int = 1, cancelled: int = 0
) -> Plan:
    """A plan. Many objects make its manifest large."""
    planned = tuple(
        PlannedSegment(object_name=f"ledgers/orders/{i % objects:032x}", segment=a_segment(i), due_rows=7)
        for i in range(segments)
    )
    ids = frozenset(a_message_id(i) for i in range(cancelled))
    return Plan(topic="orders", first_slot=first_slot, end_slot=end_slot, segments=planned, cancelled=ids)


def raise_next_slot(storage: Storage, state: TopicState, next_work: NextWork) -> bool:
    """Raises the next slot of a topic in which nothing is to be planned."""
    return storage.plans.commit(state, None, state.planned, next_work=next_work)


def a_message_id(number: int = 0) -> MessageId:
    """A message id made from a number."""
    return MessageId(f"01{number * 2654435761 % 2**60:024d}")


def a_subscription(name: str = "billing", cursor: int = 100, **fields: Any) -> SubscriptionState:
    """A subscription with its cursor at slot 100, whose consumers claim."""
    values = {"generation": "s1", "queue_url": f"https://sqs/{name}", "start": cursor, "created_at_ms": 7}
    values |= {"reader": "tidewheel"} | fields
    return SubscriptionState(topic=fields.pop("topic", "orders"), name=name, cursor=cursor, **values)


def a_delivery(subscription: SubscriptionState | None = None, plan: int = 100, **fields: Any) -> Delivery:
    """A delivery of three parts."""
    to = subscription or a_subscription()
    key = DeliveryKey(topic=to.topic, subscription=to.name, generation=to.generation, plan=plan)
    values = {"queue_url": to.queue_url, "parts": 3, "start": to.start, "next_check_ms": 5000} | fields
    return Delivery(key=key, **values)


class Store:
    """The ports under test, with shortcuts.

    Attributes:
        object_names: lists the names of the stored objects, which the ports do not tell.
    """

    def __init__(self, storage: Storage, *, object_names: Any) -> None:
        self.topic_states = storage.topic_states
        self.topic_list = storage.topic_list
        self.buckets = storage.buckets
        self.merges = storage.merges
        self.plans = storage.plans
        self.subscriptions = storage.subscriptions
        self.deliveries = storage.deliveries
        self.parks = storage.parks
        self.tombstones = storage.tombstones
        self.claims = storage.claims
        self.keys = storage.keys
        self.notes = storage.notes
        self.recurring = storage.recurring
        self.checks = storage.checks
        self.deletions = storage.deletions
        self.objects = storage.objects
        self.object_names = object_names

    def topic(self, **marks: Any) -> TopicState:
        """Creates a topic."""
        state = a_state(**marks)
        assert self.topic_states.create(state)
        return state

    def current(self, topic: str = "orders") -> TopicState:
        """The current topic state."""
        state = self.topic_states.read(topic)
        assert state is not None
        return state

    def put_trash(self, trash: Trash) -> None:
        """Puts trash as merges do, but without sources and outputs."""
        assert self.merges.swap(self.current(), [], [], trash)

    def subscribed(self, *names: str, **fields: Any) -> list[SubscriptionState]:
        """Creates subscriptions of the topic, by default with their cursors at `planned`."""
        made = []
        for name in names or ("billing",):
            state = self.current()
            subscription = a_subscription(name, cursor=fields.pop("cursor", state.planned), **fields)
            assert self.subscriptions.create(state, subscription)
            made.append(subscription)
        return made

    def delivered(self, **fields: Any) -> Delivery:
        """Hands a plan out to a new subscription. Returns the open delivery."""
        if self.topic_states.read("orders") is None:
            self.topic()
        [subscription] = self.subscribed()
        delivery = a_delivery(subscription, **fields)
        assert self.deliveries.hand_out(HandOut(subscription=subscription, to=103, delivery=delivery))
        return delivery


def some_trash(sealed: int, id: str = "t1") -> Trash:
    """A trash item."""
    return Trash(
        sealed=sealed, id=id, objects=(f"ledgers/orders/{id}-1", f"ledgers/orders/{id}-2"), dead_from=sealed, put_ms=7
    )


def a_park(subscription: SubscriptionState | None = None, id: str = "p1", **fields: Any) -> Park:
    """A small park of a subscription."""
    to = subscription or a_subscription()
    key = ParkKey(topic=to.topic, subscription=to.name, generation=to.generation, id=id)
    values = {"rows": 3, "size_bytes": 6, "next_check_ms": 5000, "ledger": b"ledger"} | fields
    return Park(key=key, **values)


def in_state(store: Store, state: State) -> SubscriptionState:
    """The only subscription of the topic, in a state."""
    if store.topic_states.read("orders") is None:
        store.topic()
    [subscription] = store.subscribed()
    if state is State.PAUSED:
        assert store.subscriptions.pause(subscription)
    if state is State.BROKEN:
        assert store.subscriptions.mark_broken("orders", "billing", subscription.generation)
    return replace(subscription, state=state)
