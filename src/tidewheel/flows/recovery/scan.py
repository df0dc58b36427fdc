"""Reads and verifies ledgers once for a rebuild, and keeps the columns to compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import ObjectMissing
from tidewheel.ledger.bucket import INLINE_SEGMENTS_BYTES
from tidewheel.ledger.inspection import READ_BYTES, Inspected, inspect
from tidewheel.ledger.reader import Read
from tidewheel.ledger.rows import SCHEMA, times_of
from tidewheel.storage.objects import Objects, StoredObject
from tidewheel.storage.read_ahead import read_ahead

_COLUMNS = ("deliver_at_ms", "message_id", "key", "sent_at_ms")
KEYED = pa.schema([SCHEMA.field(name) for name in ("key", "message_id", "sent_at_ms")])
"""The columns from which keys are restored."""

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRange:
    """The messages that a rebuild compares.

    Attributes:
        slot_ms: the topic's slot length.
        from_ms: messages due from then on are compared by their ids.
        keys_from_ms: messages due from then on have keys to restore.
    """

    slot_ms: int
    from_ms: int
    keys_from_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """A ledger that was read.

    Attributes:
        inspected: its metadata. A segment table that is too large for an item is left out.
        ids: the lower 64 bits of the ids to compare, as integers. They are random: two messages that agree in them are
            taken for one, which makes two ledgers one, and changes nothing else.
        keyed: the messages with keys to restore, with the columns of `KEYED`.
    """

    inspected: Inspected
    ids: Array
    keyed: pa.Table


def scan(objects: Objects, ledgers: Sequence[StoredObject], wanted: ScanRange, threads: int) -> Iterator[Scanned]:
    """Reads and verifies ledgers, and so many ahead. Leaves out those that are gone."""

    def begun(stored: StoredObject) -> Read | None:
        with suppress(ObjectMissing):
            return reader_of(objects, stored)
        return None

    with closing(read_ahead(begun, ledgers, size=lambda each: each.size_bytes, threads=threads)) as readers:
        for stored, read in zip(ledgers, readers, strict=True):
            with suppress(ObjectMissing):
                if read is not None:
                    yield _scanned(stored, read, wanted)


def _scanned(stored: StoredObject, read: Read, wanted: ScanRange) -> Scanned:
    ids: list[Array] = [np.empty(0, np.int64)]
    keyed: list[pa.Table] = [KEYED.empty_table()]

    def take(rows: pa.Table) -> None:
        times = times_of(rows)
        compared = rows.slice(int(np.searchsorted(times, wanted.from_ms)))
        ids.extend(
            np.frombuffer(chunk.buffers()[1], "<i8", 2 * len(chunk), 16 * chunk.offset)[1::2]
            for chunk in compared.column("message_id").chunks
        )
        if rows.column("key").null_count < rows.num_rows:
            restored = rows.slice(int(np.searchsorted(times, wanted.keys_from_ms))).select(KEYED.names)
            keyed.append(restored.filter(pc.is_valid(restored.column("key"))).cast(KEYED))

    found = inspect(read, stored.size_bytes, stored.name, wanted.slot_ms, columns=_COLUMNS, take=take)
    return Scanned(inspected=_slim(found), ids=np.concatenate(ids), keyed=pa.concat_tables(keyed))


def _slim(found: Inspected) -> Inspected:
    """Returns a ledger's metadata, with less memory: without a segment table that only its tail holds."""
    bucket = found.bucket
    if bucket is not None:
        bucket.slots.run_optimize()
    if bucket is None or bucket.tail is None or bucket.tail.segments_bytes <= INLINE_SEGMENTS_BYTES:
        return found
    return replace(found, bucket=replace(bucket, segments=()))


def reader_of(objects: Objects, stored: StoredObject) -> Read:
    """Returns the reader of an object. A small object is read at once, with a single request."""
    if stored.size_bytes > READ_BYTES:
        return lambda offset, length: objects.get_range(stored.name, offset, length)
    data = objects.get_range(stored.name, 0, stored.size_bytes)
    return lambda offset, length: data[offset : offset + length]
