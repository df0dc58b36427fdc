"""Lists what cannot be read, and retries, restores or gives up messages that are set aside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidewheel.client.connection import Connection
from tidewheel.clock import Clock, utc
from tidewheel.errors import (
    ConcurrentModification,
    CorruptLedger,
    InvalidValue,
    NothingToRestore,
    UnknownDamaged,
)
from tidewheel.ledger.bucket import Tail
from tidewheel.ledger.footer import MAGIC
from tidewheel.model import checksum
from tidewheel.model.park import Park
from tidewheel.model.set_aside import SetAside
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.storage import Storage
from tidewheel.storage.unreadable import UnreadableItem

_Read = Callable[[int, int], bytes]
_KEPT = {
    "subscription": "or rebuild the index",
    "ledger": "or restore the ledger, and rebuild the index",
    "merged ledger": "or rebuild the index; nothing is collected until then",
    "plan": "or leave it: its messages are planned anew, within 28 days of their time",
    "recurring message": "or cancel it, and make it again",
}
"""Items that nobody gives up, with what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """What cannot be read: messages of one subscription, or an item of the table.

    Attributes:
        topic: the topic.
        id: the name for `retry_damaged`, `restore_damaged` and `give_up_damaged`; of an item, for the last only. None
            for what these do not take.
        what: "messages", or the kind of an item of the table that cannot be read: "subscription", "ledger", "plan",
            "delivery", "park", "set-aside item", "merged ledger", "recurring message" or "cancelled message".
        name: the subscription of the messages, or the name of the item.
        reason: why the last try failed.
        damaged: False while the service still tries.
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
    return [found for found, _ in _everything(connection, topic)]


def _everything(connection: Connection, topic: str) -> Iterator[tuple[Damaged, SetAside | Park | UnreadableItem]]:
    """Yields unreadable messages and items, each with a description."""
    storage = connection.storage
    yield from messages(storage, storage.topic_states.existing(topic))
    for item in storage.unreadable.all(topic):
        yield _described_item(item), item


def messages(storage: Storage, state: TopicState) -> Iterator[tuple[Damaged, SetAside | Park]]:
    """Yields the unreadable messages of a topic, each with a description. Takes two queries."""
    for each in storage.set_aside.all(state.topic, {}):
        yield _described(each, state.slot_ms), each
    for park in storage.parks.all(state.topic, {}):
        if park.unreadable is not None:
            yield _described_park(park), park


def retry(connection: Connection, clock: Clock, topic: str, id: str) -> None:
    """Lets the next sweep try a set-aside item or a park. See `Tidewheel.retry_damaged`."""
    _retry(connection, clock, _find_messages(connection, topic, id))


def _retry(connection: Connection, clock: Clock, item: SetAside | Park) -> None:
    now_ms = clock.now_ms()
    if isinstance(item, Park):
        changed = connection.storage.parks.set_next_check(item.key, item.next_check_ms, now_ms)
    else:
        changed = connection.storage.set_aside.change(item, replace(item, next_check_ms=now_ms))
    if not changed:
        raise ConcurrentModification("retry of what is set aside", item.key.topic, 1)


def restore(connection: Connection, clock: Clock, topic: str, id: str) -> None:
    """Copies S3's last good versions back, then retries all that needs these. See `Tidewheel.restore_damaged`.

    If it stops after an object is restored, the next try of the service finds the object.
    """
    item = _find_messages(connection, topic, id)
    if isinstance(item, Park):
        if item.object_name is None:
            raise InvalidValue("id", id, "its bytes are in the table; restore the item from a backup, or give it up")
        if not connection.objects.restore(item.object_name, _is_ledger):
            raise NothingToRestore(item.object_name)
    else:
        left = [name for name in item.objects if not connection.objects.restore(name, _whole(item, name))]
        if left:
            if len(left) < len(item.objects):  # the messages of the restored objects are sent
                retry(connection, clock, topic, id)
            raise NothingToRestore(", ".join(left))
        for each in connection.storage.set_aside.all(topic, {}):
            if each.damaged and each.key != item.key and set(each.objects) <= set(item.objects):
                _retry(connection, clock, each)
    retry(connection, clock, topic, id)


def give_up(connection: Connection, topic: str, id: str, reason: str) -> None:
    """Deletes a damaged item and keeps a record. See `Tidewheel.give_up_damaged`.

    If it stops after the record is sent, the item is still there, and another call sends a second record.
    """
    item = _find(connection, topic, id)
    if not reason:
        raise InvalidValue("reason", reason, "say why, for the record in the queue of refused messages")
    known: dict[str, object] = {"reason": reason, "code": "Damaged", "topic": topic}
    if isinstance(item, UnreadableItem):
        _check_not_needed(connection, item)
        _tell(connection, {**known, "item": id, "error": str(item.error)})
        connection.storage.unreadable.delete([item])
        return
    known |= {"subscription": item.key.subscription, "messages": item.rows}
    if isinstance(item, Park):
        _tell(connection, {**known, "error": item.unreadable})
        connection.storage.parks.delete([item.key])
        return
    if not item.damaged:
        advice = "the service still tries, for half an hour, or a day if S3 refuses it; give it up once it is damaged"
        raise InvalidValue("id", id, advice)
    slots = [item.plan.first_slot, item.plan.end_slot]
    _tell(connection, {**known, "error": item.reason, "objects": item.objects, "slots": slots})
    connection.storage.set_aside.delete([item.key])


def _check_not_needed(connection: Connection, item: UnreadableItem) -> None:
    """Raises InvalidValue for a cancellation without which its message would come."""
    state = connection.storage.topic_states.read(item.topic)
    if item.what == "cancelled message" and state is not None and int(item.name.partition("#")[0]) >= state.planned:
        raise InvalidValue("id", f"{item.what}:{item.name}", "its message would come; give it up once it is due")


def _tell(connection: Connection, document: Mapping[str, object]) -> None:
    connection.sqs.send_message(QueueUrl=connection.settings.refused_queue_url, MessageBody=json.dumps(document))


def _described_item(item: UnreadableItem) -> Damaged:
    advice = _KEPT.get(item.what)
    reason = f"{item.error}; {advice or 'or give it up'}"
    id = f"{item.what}:{item.name}" if advice is None else None
    return Damaged(topic=item.topic, id=id, what=item.what, name=item.name, reason=reason)


def _described_park(park: Park) -> Damaged:
    reason = f"park {park.key.id}: {park.unreadable}"
    objects = () if park.object_name is None else (park.object_name,)
    return _messages(park, reason=reason, damaged=False, objects=objects)


def _described(item: SetAside, slot_ms: int) -> Damaged:
    first, end = utc(item.plan.first_slot * slot_ms), utc(item.plan.end_slot * slot_ms)
    times = {"due_from": first, "due_before": end, "first_seen": utc(item.first_seen_ms)}
    return _messages(item, reason=item.reason, damaged=item.damaged, objects=item.objects, **times)


def _messages(item: SetAside | Park, **others: Any) -> Damaged:
    topic, subscription = item.key.topic, item.key.subscription
    given = {"tries": item.tries, "messages": item.rows, **others}
    return Damaged(topic=topic, id=f"{subscription}:{item.key.id}", what="messages", name=subscription, **given)


def _find(connection: Connection, topic: str, id: str) -> SetAside | Park | UnreadableItem:
    for found, item in _everything(connection, topic):
        if found.id == id:
            return item
    raise UnknownDamaged(topic, id)


def _find_messages(connection: Connection, topic: str, id: str) -> SetAside | Park:
    item = _find(connection, topic, id)
    if isinstance(item, UnreadableItem):
        raise InvalidValue("id", id, "an item of the table is read again by itself; restore it, or give it up")
    return item


def _is_ledger(read: _Read) -> bool:
    """Whether a version of an object begins as a ledger does. Only a try to read it finds all damage."""
    return read(0, len(MAGIC)) == MAGIC


def _whole(item: SetAside, name: str) -> Callable[[_Read], bool]:
    """Returns a check whether a version of an object has all that an item needs."""

    def whole(read: _Read) -> bool:
        try:
            for each in item.plan.segments:
                if each.object_name == name:
                    data = read(each.segment.offset, each.segment.length)
                    if len(data) != each.segment.length:
                        return False
                    checksum.check(data)
            for unindexed in item.plan.unindexed:
                if not unindexed.tail:
                    return _is_ledger(read)
                tail = Tail.of_tag(unindexed.tail)
                tail.index(read(tail.offset, tail.length), name)
        except (ValueError, CorruptLedger):
            return False
        return True

    return whole
