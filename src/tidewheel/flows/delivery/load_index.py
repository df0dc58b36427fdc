"""Loads the tails of buckets from their ledgers, with one GET per bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tidewheel.errors import CorruptLedger, ObjectMissing
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.index import touching
from tidewheel.model.plan import Unindexed
from tidewheel.storage.objects import Objects


def complete(objects: Objects, bucket: Bucket) -> Bucket:
    """Returns the bucket with its whole index.

    Raises:
        ObjectMissing: its ledger is gone.
        CorruptLedger: the tail is damaged.
    """
    if bucket.complete or bucket.tail is None:
        return bucket
    return bucket.with_tail(objects.get_range(bucket.object_name, bucket.tail.offset, bucket.tail.length))


def complete_all(objects: Objects, buckets: Iterable[Bucket], unreadable: dict[str, Exception]) -> list[Bucket]:
    """Returns the buckets whose index can be had, complete.

    Args:
        unreadable: gets the error of each other bucket, by the name of its ledger.
    """
    found = []
    for bucket in buckets:
        try:
            found.append(complete(objects, bucket))
        except (CorruptLedger, ObjectMissing) as error:
            unreadable[bucket.object_name] = error
    return found


def unindexed(bucket: Bucket) -> Unindexed:
    """Returns how a plan names a ledger whose index cannot be read."""
    tail = "" if bucket.tail is None else bucket.tail.tag
    return Unindexed(object_name=bucket.object_name, tail=tail, rows=bucket.rows)


class Indexes(NamedTuple):
    """Buckets, and those of them whose tail is needed and could not be read."""

    buckets: list[Bucket]
    unreadable: list[Bucket]


def completed(ports: Ports, buckets: Sequence[Bucket], first_slot: int, end_slot: int, slot_ms: int) -> Indexes:
    """Returns the buckets, complete for slots of [first_slot, end_slot) as far as their tails can be read.

    Tails are read side by side. All slots of a tail are kept, but only the segments that the range touches: a large
    ledger has thousands of segments, and a dispatch that kept all would grow with the number of waiting messages.
    """
    found = list(buckets)
    unreadable: list[Bucket] = []

    def read(i: int) -> None:
        try:
            whole = complete(ports.objects, found[i])
        except Exception:  # of any kind: the other ledgers are on time, and whoever delivers this one reads it again
            unreadable.append(found[i])
            return
        found[i] = replace(whole, segments=touching(whole.segments, first_slot * slot_ms, end_slot * slot_ms))

    wanted = [i for i, bucket in enumerate(found) if not bucket.complete and bucket.occupies(first_slot, end_slot)]
    ports.parallel(read, wanted)
    return Indexes(found, sorted(unreadable, key=lambda each: each.object_name))
