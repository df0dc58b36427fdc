"""Reads all ledgers of a topic once for a rebuild, and finds the messages that several of them hold.

`scan_here` compares in this process: all ids are in memory, about 45 bytes a message. `tidewheel.spark.ledger_scan`
compares on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import ObjectMissing
from tidewheel.flows.maintenance.merge_outputs import Writer
from tidewheel.flows.recovery.rebuild_keys import KeyPorts, KeyRestore
from tidewheel.ledger.bucket import INLINE_SEGMENTS_BYTES
from tidewheel.ledger.inspection import READ_BYTES, Inspected, inspect
from tidewheel.ledger.reader import Read
from tidewheel.ledger.rows import SCHEMA, times_of
from tidewheel.model.key import KeyEntry
from tidewheel.storage.objects import Objects, StoredObject
from tidewheel.storage.read_ahead import THREADS, read_ahead

_COLUMNS = ("deliver_at_ms", "message_id", "key", "sent_at_ms")
KEYED = pa.schema([SCHEMA.field(name) for name in ("key", "message_id", "sent_at_ms")])
"""The columns from which keys are restored."""

Array = npt.NDArray[Any]
Overlaps = Iterable[tuple[int, int]]
"""Pairs of places in a list of ledgers; the two ledgers share a message."""


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


class LedgerScan(Protocol):
    """The port to the findings of one reading of all ledgers."""

    @property
    def inspected(self) -> Sequence[Inspected]:
        """The ledgers that were still there."""
        ...

    def overlaps(self, ledgers: Sequence[Inspected], /) -> Overlaps:
        """Returns which of these ledgers share a message that is due in the scan's range.

        The result has enough pairs to connect all such ledgers.
        """
        ...

    def restore_keys(self, ledgers: Sequence[Inspected], restore: KeyRestore, known: Sequence[KeyEntry], /) -> int:
        """Restores the keys of these ledgers and of a checkpoint. Returns how many. A repetition is harmless."""
        ...

    def close(self) -> None:
        """Frees the data of the scan."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildEngine:
    """Reads and writes the ledgers of a rebuild, on any machine.

    Attributes:
        scan: reads ledgers.
        writer: writes the outputs of merges. A failed or repeated task leaves only orphans.
    """

    scan: Callable[[Sequence[StoredObject], ScanRange], LedgerScan]
    writer: Writer


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanHere:
    """Implements `LedgerScan` in this process.

    Attributes:
        scanned: the ledgers that were still there.
        ports: returns the ports to keys.
    """

    scanned: Sequence[Scanned]
    ports: Callable[[], KeyPorts]

    @property
    def inspected(self) -> Sequence[Inspected]:
        """The ledgers that were still there."""
        return [each.inspected for each in self.scanned]

    def overlaps(self, ledgers: Sequence[Inspected], /) -> Overlaps:
        """Sorts all ids, and compares neighbours."""
        found = self._of(ledgers)
        ids = np.concatenate([np.empty(0, np.int64), *(each.ids for each in found)])
        places = np.repeat(np.arange(len(found), dtype=np.uint32), [len(each.ids) for each in found])
        order = np.argsort(ids)
        ids, places = ids[order], places[order]
        same = (ids[1:] == ids[:-1]) & (places[1:] != places[:-1])
        pairs = np.unique(np.stack((places[:-1][same], places[1:][same]), axis=1), axis=0)
        return [(int(a), int(b)) for a, b in pairs]

    def restore_keys(self, ledgers: Sequence[Inspected], restore: KeyRestore, known: Sequence[KeyEntry], /) -> int:
        """Restores all keys at once."""
        rows = pa.concat_tables([KEYED.empty_table(), *(each.keyed for each in self._of(ledgers))])
        return restore.put(self.ports, rows, known)

    def close(self) -> None:
        """Does nothing."""

    def _of(self, ledgers: Sequence[Inspected]) -> list[Scanned]:
        by_name = {each.inspected.object_name: each for each in self.scanned}
        return [by_name[each.object_name] for each in ledgers]


def scan_here(
    objects: Objects,
    ports: Callable[[], KeyPorts],
    stored: Sequence[StoredObject],
    wanted: ScanRange,
    *,
    cores: int = 1,
    threads: int = THREADS,
    advance: Callable[[float, float], None] = lambda _done, _total: None,
) -> ScanHere:
    """Reads ledgers in this process.

    Args:
        objects: the objects.
        ports: returns the ports to keys.
        stored: the ledgers.
        wanted: the messages to compare.
        cores: large ledgers that are read side by side.
        threads: ledgers that are read side by side.
        advance: takes the read and the total bytes.
    """
    sizes = {each.name: each.size_bytes for each in stored}
    total, done = sum(sizes.values()), 0
    scanned: list[Scanned] = []
    for each in scan(objects, stored, wanted, cores=cores, threads=threads):
        scanned.append(each)
        done += sizes[each.inspected.object_name]
        advance(done, total)
    return ScanHere(scanned=scanned, ports=ports)


def scan(
    objects: Objects, stored: Sequence[StoredObject], wanted: ScanRange, *, cores: int = 1, threads: int = THREADS
) -> Iterator[Scanned]:
    """Reads and verifies ledgers, in their order. Leaves out those that are gone.

    Args:
        objects: the objects.
        stored: the ledgers.
        wanted: the messages to compare.
        cores: large ledgers that are read side by side.
        threads: ledgers that are read side by side.
    """

    def read(ledger: StoredObject) -> Scanned | None:
        with suppress(ObjectMissing):
            return _scanned(ledger, reader_of(objects, ledger), wanted)
        return None

    def held_bytes(ledger: StoredObject) -> int:
        return min(ledger.size_bytes, READ_BYTES)

    most_bytes, threads = cores * READ_BYTES, max(threads, cores)
    with closing(read_ahead(read, stored, size=held_bytes, threads=threads, most_bytes=most_bytes)) as found:
        yield from filter(None, found)


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
    """Returns a ledger's metadata in less memory: without a segment table that only its tail holds."""
    bucket = found.bucket
    if bucket is None:
        return found
    bucket.slots.run_optimize()
    in_tail = bucket.tail is not None and bucket.tail.segments_bytes > INLINE_SEGMENTS_BYTES
    return replace(found, bucket=replace(bucket, segments=())) if in_tail else found


def reader_of(objects: Objects, stored: StoredObject) -> Read:
    """Returns the reader of an object. A small object is read at once, with a single request."""
    if stored.size_bytes > READ_BYTES:
        return lambda offset, length: objects.get_range(stored.name, offset, length)
    data = objects.get_range(stored.name, 0, stored.size_bytes)
    return lambda offset, length: data[offset : offset + length]
