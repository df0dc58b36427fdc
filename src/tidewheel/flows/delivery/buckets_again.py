"""Reads ledgers whole, and makes buckets anew whose items cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidewheel.errors import CorruptLedger, ObjectMissing, ObjectRefused
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.ledger.inspection import READ_BYTES, inspect, tail_of
from tidewheel.ledger.reader import Read, tags_of
from tidewheel.ledger.writer import VERSION_TAG
from tidewheel.model.object_names import ledger_bucket_id, ledger_prefix
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.objects import Objects, StoredObject


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
    for stored in _ledgers(ports.objects, state, list(unreadable)):
        try:
            bucket = _bucket(ports.objects, stored, state.slot_ms)
        except (CorruptLedger, ObjectMissing, ObjectRefused, ValueError):
            continue
        if bucket is None or bucket.id not in unreadable:
            continue
        del unreadable[bucket.id]
        if ports.buckets.repair(state.topic, bucket):
            found.append(bucket)
    return found


def _ledgers(objects: Objects, state: TopicState, ids: Sequence[str]) -> Iterator[StoredObject]:
    """Lists the ledgers of some buckets, with a request for each bucket."""
    for id in ids:
        try:
            prefix = ledger_prefix(state.topic, id, state.slot_ms)
        except (ValueError, OverflowError, OSError):  # a damaged key
            continue
        yield from list(objects.list(prefix))


def _bucket(objects: Objects, stored: StoredObject, slot_ms: int) -> Bucket | None:
    """Returns a bucket read from a ledger, or None if it is damaged. Only a ledger without a tail is read whole.

    Raises:
        CorruptLedger, ValueError: its footer or tail is damaged.
        ObjectMissing: it is gone.
    """
    read, name = reader_of(objects, stored), stored.name
    tags = tags_of(read, stored.size_bytes, name)
    tail = tail_of(tags)
    if tail is None:
        inspected = inspect(read, stored.size_bytes, name, slot_ms)
        return None if inspected.damage is not None else inspected.bucket
    slots, segments = tail.index(read(tail.offset, tail.length), name)
    return Bucket(
        id=BucketId(str(ledger_bucket_id(name))),
        object_name=name,
        size_bytes=stored.size_bytes,
        rows=sum(each.rows for each in segments),
        slots=slots,
        segments=segments,
        tail=tail,
        schema_version=int(tags[VERSION_TAG]),
    )


def reader_of(objects: Objects, stored: StoredObject) -> Read:
    """Returns the reader of an object. A small object is read at once, with a single request."""
    if stored.size_bytes > READ_BYTES:
        return lambda offset, length: objects.get_range(stored.name, offset, length)
    data = objects.get_range(stored.name, 0, stored.size_bytes)
    return lambda offset, length: data[offset : offset + length]
