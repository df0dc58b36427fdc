"""Reads ledgers whole, and makes buckets anew whose items cannot be read."""

from __future__ import annotations

from tidewheel.errors import ObjectMissing, ObjectRefused
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.objects import Objects, StoredObject
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.inspection import READ_BYTES, Inspected, inspect
from tidewheel.ledger.reader import Read
from tidewheel.model.object_names import LEDGERS, ledger_bucket_id, topic_prefix
from tidewheel.model.topic_state import TopicState


def buckets_again(ports: Ports, state: TopicState, unreadable: dict[str, Exception]) -> list[Bucket]:
    """Puts buckets over their items that cannot be read. Returns these buckets.

    A ledger holds all that its bucket says, so its messages are on time. If it stops between two buckets, the next
    dispatch finds the others.

    Args:
        unreadable: id of a bucket -> why its item cannot be read. Only those stay here whose ledger is gone, damaged or
            refused, too.

    Raises:
        Exception: S3 does not answer. Whoever plans must not do so without these ledgers: nobody would plan them later.
    """
    if not unreadable:
        return []
    found = []
    for stored in ports.objects.list(topic_prefix(LEDGERS, state.topic)):
        id = ledger_bucket_id(stored.name)
        if id not in unreadable:
            continue
        try:
            inspected = inspect_object(ports.objects, stored, state.slot_ms)
        except ObjectRefused:
            continue
        if inspected is None or inspected.bucket is None or inspected.damage is not None:
            continue
        del unreadable[id]
        if ports.buckets.repair(state.topic, inspected.bucket):
            found.append(inspected.bucket)
    return found


def inspect_object(objects: Objects, stored: StoredObject, slot_ms: int) -> Inspected | None:
    """Inspects an object. Returns None if the object is gone.

    A small object is read with one request.
    """
    try:
        return inspect(reader_of(objects, stored), stored.size_bytes, stored.name, slot_ms)
    except ObjectMissing:
        return None


def reader_of(objects: Objects, stored: StoredObject) -> Read:
    """Returns the reader of an object. A small object is read at once, with a single request."""
    if stored.size_bytes > READ_BYTES:
        return lambda offset, length: objects.get_range(stored.name, offset, length)
    data = objects.get_range(stored.name, 0, stored.size_bytes)
    return lambda offset, length: data[offset : offset + length]
