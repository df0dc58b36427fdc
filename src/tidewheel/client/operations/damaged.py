"""Lists what cannot be read, and retries, restores or gives up messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidewheel.client.connection import Connection
from tidewheel.clock import Clock, utc
from tidewheel.errors import ConcurrentModification, InvalidValue, NothingToRestore, TidewheelError, UnknownDamaged
from tidewheel.ledger.footer import MAGIC
from tidewheel.model import checksum
from tidewheel.model.object_names import PLANS
from tidewheel.model.park import Park
from tidewheel.model.refused import GIVEN_UP
from tidewheel.model.subscription_state import Delivery
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.storage import Storage
from tidewheel.storage.unreadable import UnreadableItem

_Read = Callable[[int, int], bytes]
_ADVICE = {
    "recurring message": "restore it, or cancel it and make it again",
    "cancelled message": "restore it, or leave it: it is forgotten some days after its time",
}
"""Of items that a sender wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """What cannot be read: messages of one subscription, or an item of the table.

    Attributes:
        topic: the topic.
        id: the name for `retry_damaged`, `restore_damaged` and `give_up_damaged`. None for an item of the table.
        what: "messages", or the kind of an item of the table that cannot be read: "subscription", "ledger", "plan",
            "delivery", "park", "merged ledger", "recurring message" or "cancelled message".
        name: the subscription of the messages, or the name of the item.
        reason: why the last try failed.
        damaged: False while the service tries often, for half an hour. It then tries every hour. It is always False for
            parks, which the service tries up to every 6 hours.
        tries: how often the service has tried again.
        messages: estimated.
        objects: the objects in S3.
        due_from, due_before: between which times the messages are due.
        first_seen: when the first try failed.
    """

    topic: str
    id: str | None
    what: str
    name: str
    reason: str
    damaged: bool = True
    tries: int = 0
    messages: int | None = None
    objects: tuple[str, ...] = ()
    due_from: datetime | None = None
    due_before: datetime | None = None
    first_seen: datetime | None = None


def listed(connection: Connection, topic: str) -> list[Damaged]:
    """Lists what cannot be read. See `Tidewheel.damaged`."""
    storage = connection.storage
    found = [found for found, _ in messages(storage, storage.topic_states.existing(topic))]
    return found + [_described_item(each) for each in storage.unreadable.all(topic)]


def messages(storage: Storage, state: TopicState) -> Iterator[tuple[Damaged, Delivery | Park]]:
    """Yields the unreadable messages of a topic, each with a description. Takes two queries, or three."""
    unread = [each for each in storage.deliveries.all(state.topic, {}) if each.unread]
    ends = dict(storage.plans.ranges(state.topic)) if unread else {}
    for each in unread:
        yield _described(each, state.slot_ms, ends.get(each.key.plan, each.key.plan + 1)), each
    for park in storage.parks.all(state.topic, {}):
        if park.unreadable is not None:
            yield _described_park(park), park


def retry(connection: Connection, clock: Clock, topic: str, id: str) -> None:
    """Lets the next sweep try a delivery or a park. See `Tidewheel.retry_damaged`."""
    _retry(connection, clock, _find(connection, topic, id))


def _retry(connection: Connection, clock: Clock, item: Delivery | Park) -> None:
    storage, now_ms = connection.storage, clock.now_ms()
    if isinstance(item, Park):
        changed = storage.parks.set_next_check(item.key, item.next_check_ms, now_ms)
    else:
        changed = storage.deliveries.set_next_check(item.key, item.next_check_ms, now_ms)
    if not changed:
        raise ConcurrentModification("retry of what cannot be read", item.key.topic, 1)


def restore(connection: Connection, clock: Clock, topic: str, id: str) -> None:
    """Copies S3's last good versions back, then retries all that needs these. See `Tidewheel.restore_damaged`.

    If it stops after an object is restored, the next try of the service finds the object.
    """
    item = _find(connection, topic, id)
    if isinstance(item, Park):
        if item.object_name is None:
            raise InvalidValue("id", id, "its bytes are in the table; restore the item from a backup, or give it up")
        if not connection.objects.restore(item.object_name, _is_ledger):
            raise NothingToRestore(item.object_name)
        _retry(connection, clock, item)
        return
    names = sorted(item.unread_objects)
    left = [name for name in names if not connection.objects.restore(name, _whole(connection.storage, item, name))]
    for each in connection.storage.deliveries.all(topic, {}):
        if each.unread_objects - set(left) and (each.key == item.key or each.unread_objects <= item.unread_objects):
            _retry(connection, clock, each)
    if left:
        raise NothingToRestore(", ".join(left))


def give_up(connection: Connection, clock: Clock, topic: str, id: str, reason: str) -> None:
    """Deletes a damaged delivery or park, and keeps a record. See `Tidewheel.give_up_damaged`.

    If it stops after the record is sent, the messages are still there, and another call sends a second record.
    """
    item = _find(connection, topic, id)
    if not reason:
        raise InvalidValue("reason", reason, "say why, for the record in the queue of refused messages")
    found = _described_park(item) if isinstance(item, Park) else _described(item, 0, 0)
    if isinstance(item, Delivery) and not item.damaged:
        advice = (
            "the service still tries, for half an hour, or still sends other messages; give it up once it is damaged"
        )
        raise InvalidValue("id", id, advice)
    known = {"subscription": found.name, "messages": found.messages, "error": found.reason, "objects": found.objects}
    record = json.dumps({"reason": reason, "code": GIVEN_UP, "topic": topic, **known})
    connection.sqs.send_message(QueueUrl=connection.settings.refused_queue_url, MessageBody=record)
    if isinstance(item, Park):
        connection.storage.parks.delete([item.key])
    else:
        storage, lost = connection.storage, item.tally._replace(lost=max(1, item.unread_rows))
        now_ms, settings = clock.now_ms(), storage.topic_states.existing(topic).settings
        storage.deliveries.finish(replace(item, tally=lost, done_ms=now_ms), settings.record_ttl_s(now_ms))


def _described_item(item: UnreadableItem) -> Damaged:
    advice = _ADVICE.get(item.what, f"restore it, or run tidewheel rebuild {item.topic} --replace")
    return Damaged(topic=item.topic, id=None, what=item.what, name=item.name, reason=f"{item.error}; {advice}")


def _described_park(park: Park) -> Damaged:
    reason = f"park {park.key.id}: {park.unreadable}"
    objects = () if park.object_name is None else (park.object_name,)
    return _messages(park, park.key.id, park.rows, reason=reason, damaged=False, objects=objects)


def _described(item: Delivery, slot_ms: int, end_slot: int) -> Damaged:
    id = f"{item.key.plan}" if item.key.replay is None else f"{item.key.plan}.{item.key.replay}"
    return _messages(
        item,
        id,
        item.unread_rows,
        reason=item.reason or "",
        damaged=item.damaged,
        objects=tuple(sorted(item.unread_objects)),
        due_from=utc(item.key.plan * slot_ms),
        due_before=utc(end_slot * slot_ms),
        first_seen=None if item.unread_ms is None else utc(item.unread_ms),
    )


def _messages(item: Delivery | Park, id: str, rows: int, **others: Any) -> Damaged:
    topic, subscription = item.key.topic, item.key.subscription
    given = {"tries": item.tries, "messages": rows, **others}
    return Damaged(topic=topic, id=f"{subscription}:{id}", what="messages", name=subscription, **given)


def _find(connection: Connection, topic: str, id: str) -> Delivery | Park:
    for found, item in messages(connection.storage, connection.storage.topic_states.existing(topic)):
        if found.id == id:
            return item
    raise UnknownDamaged(topic, id)


def _is_ledger(read: _Read) -> bool:
    """Whether a version of an object begins as a ledger does. Only a try to read it finds all damage."""
    return read(0, len(MAGIC)) == MAGIC


def _whole(storage: Storage, delivery: Delivery, name: str) -> Callable[[_Read], bool]:
    """Returns a check whether a version of an object has all segments that a delivery's plan names."""
    try:
        plan = storage.plans.read(delivery.key.topic, delivery.key.plan)
    except TidewheelError:
        plan = None  # the plan is what is to be restored
    segments = [] if plan is None else [each.segment for each in plan.segments if each.object_name == name]

    def whole(read: _Read) -> bool:
        try:
            for each in segments:
                data = read(each.offset, each.length)
                if len(data) != each.length:
                    return False
                checksum.check(data)
        except ValueError:
            return False
        return bool(segments) or name.startswith(PLANS) or _is_ledger(read)

    return whole
