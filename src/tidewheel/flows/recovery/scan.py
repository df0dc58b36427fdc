"""Reads and verifies ledgers once for a rebuild, and keeps the columns to compare.

What a group of ledgers has is cut into shares, by a hash, so that each share can be compared alone. No process holds
more than a group and a share:

    group 0   | share 0 | share 1 | ...     one object a group, or the result itself if it is small
    group 1   | share 0 | share 1 | ...
                  |
                  +--> one comparison a share

    share     sealed (`tidewheel.model.checksum`):
              rows, 4 bytes LE | lower 8 bytes of each id | each place in the list of ledgers, 4 bytes LE | keys
    keys      an Arrow stream of the columns of KEYS; nothing without keys

The lower 64 bits of an id are random. Two messages that agree in them are taken for one, which makes two ledgers one,
and changes nothing else.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import CorruptMetadata, ObjectMissing
from tidewheel.ledger.inspection import READ_BYTES, Inspected, inspect
from tidewheel.ledger.reader import Read
from tidewheel.ledger.rows import SCHEMA, times_of
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.object_names import scan_name
from tidewheel.storage.objects import Objects, StoredObject
from tidewheel.storage.read_ahead import THREADS, read_ahead

ROWS = ("deliver_at_ms", "message_id", "key", "sent_at_ms")
KEYS: pa.Schema = pa.schema([*(SCHEMA.field(name) for name in ROWS), pa.field("place", pa.uint32())])
_COUNT_BYTES, _HASH_BYTES, _PLACE_BYTES = 4, 8, 4

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
class Spool:
    """The data of a group of ledgers for the comparison.

    Attributes:
        ends: the end of each share in the bytes.
        data: the bytes. None: they are an object.
        object_name: the name of the object; None if `data` has the bytes.
        keyed: how many rows have a key.
    """

    ends: tuple[int, ...]
    data: bytes | None
    object_name: str | None
    keyed: int

    def share(self, objects: Objects, number: int) -> bytes:
        """Returns the bytes of a share; b"" if it is empty."""
        start, end = ((0, *self.ends)[number], self.ends[number])
        if start == end:
            return b""
        if self.data is not None:
            return self.data[start:end]
        assert self.object_name is not None
        return objects.get_range(self.object_name, start, end - start)

    def share_bytes(self, number: int) -> int:
        """Returns the size of a share."""
        return self.ends[number] - (0, *self.ends)[number]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """Scans a group of ledgers.

    Attributes:
        objects: returns the objects, in any process.
        attempt: makes the names of the objects unique.
        shares: how many.
        small_bytes: what a group has is part of the result up to this size, and an object above.
        threads: requests side by side, ahead of use.
    """

    objects: Callable[[], Objects]
    topic: str
    attempt: str
    wanted: ScanRange
    shares: int
    small_bytes: int
    threads: int

    def __call__(self, group: tuple[int, list[tuple[int, StoredObject]]]) -> tuple[list[tuple[int, Inspected]], Spool]:
        """Returns the ledgers with their places, and the data to compare.

        Args:
            group: its number, and ledgers with their places in the list of all.
        """
        objects = self.objects()
        number, ledgers = group
        found: list[tuple[int, Inspected]] = []
        rows = _Rows(self.wanted, self.shares)

        def begun(ledger: tuple[int, StoredObject]) -> Read | None:
            with suppress(ObjectMissing):
                return reader_of(objects, ledger[1])
            return None

        with closing(read_ahead(begun, ledgers, size=lambda each: each[1].size_bytes, threads=self.threads)) as readers:
            for (place, stored), read in zip(ledgers, readers, strict=True):
                with suppress(ObjectMissing):
                    if read is not None:
                        inspected = inspect(
                            read,
                            stored.size_bytes,
                            stored.name,
                            self.wanted.slot_ms,
                            columns=ROWS,
                            take=lambda table, place=place: rows.add(place, table),  # type: ignore[misc]
                        )
                        found.append((place, inspected))
        data, ends = rows.encoded()
        name = None
        if len(data) > self.small_bytes:
            name = scan_name(self.topic, self.attempt, number)
            objects.put(name, data)
        return found, Spool(ends=ends, data=data if name is None else None, object_name=name, keyed=rows.keyed)


class _Rows:
    """Collects the rows of a group."""

    def __init__(self, wanted: ScanRange, shares: int) -> None:
        self._wanted, self._shares = wanted, shares
        self._ids: list[tuple[Array, Array]] = []
        self._keys: list[pa.Table] = []
        self.keyed = 0

    def add(self, place: int, rows: pa.Table) -> None:
        """Adds rows of a ledger, which are in the order of their times."""
        times = times_of(rows)
        wanted = rows.slice(int(np.searchsorted(times, self._wanted.from_ms)))
        for chunk in wanted.column("message_id").chunks:
            lower = np.frombuffer(chunk.buffers()[1], "<u8", 2 * len(chunk), 16 * chunk.offset)[1::2]
            self._ids.append((lower, np.full(len(chunk), place, np.uint32)))
        if rows.column("key").null_count < rows.num_rows:
            keyed = rows.slice(int(np.searchsorted(times, self._wanted.keys_from_ms)))
            keyed = keyed.filter(pc.is_valid(keyed.column("key")))
            places = pa.array(np.full(keyed.num_rows, place, np.uint32))
            self._keys.append(keyed.append_column(KEYS.field("place"), places))
            self.keyed += keyed.num_rows

    def encoded(self) -> tuple[bytes, tuple[int, ...]]:
        """Returns all shares, and the end of each."""
        ids = np.concatenate([np.empty(0, np.uint64), *(each for each, _ in self._ids)])
        places = np.concatenate([np.empty(0, np.uint32), *(each for _, each in self._ids)])
        ids, places, starts = _shared_out(ids, places, self._shares)
        keys = self._shared_keys()
        pieces = []
        for number, (start, end) in enumerate(pairwise(starts)):
            parts = (ids[start:end].tobytes(), places[start:end].tobytes(), keys[number])
            if any(parts):
                pieces.append(sealed((end - start).to_bytes(_COUNT_BYTES, "little") + b"".join(parts)))
            else:
                pieces.append(b"")
        return b"".join(pieces), tuple(np.cumsum([len(each) for each in pieces]).tolist())

    def _shared_keys(self) -> list[bytes]:
        if not self.keyed:
            return [b""] * self._shares
        rows = pa.concat_tables(self._keys)
        numbers = np.fromiter((key_share(key, self._shares) for key in rows.column("key").to_pylist()), np.int64)
        return [_stream(rows.filter(pa.array(numbers == number))) for number in range(self._shares)]


def key_share(key: str, shares: int) -> int:
    """Returns the share of a key."""
    return zlib.crc32(key.encode()) % shares


def _shared_out(ids: Array, places: Array, shares: int) -> tuple[Array, Array, list[int]]:
    """Returns rows in the order of their shares, and where each share starts, with the end of the last."""
    if shares == 1:
        return ids, places, [0, len(ids)]
    # Ids count up, so that the bytes in the middle are as random as the share needs. Numbers of 16 bits sort fastest.
    numbers = ((ids >> np.uint64(16)) % np.uint64(shares)).astype(np.uint16)
    order = np.argsort(numbers, kind="stable")
    return ids[order], places[order], np.searchsorted(numbers[order], np.arange(shares + 1)).tolist()


def _stream(rows: pa.Table) -> bytes:
    if not rows.num_rows:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, KEYS) as writer:
        writer.write_table(rows.cast(KEYS))
    return bytes(sink.getvalue())


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """Compares the ids of a share.

    Attributes:
        spools: of all groups.
        live: the place of each ledger among the ledgers that count, or -1.
    """

    objects: Callable[[], Objects]
    spools: tuple[Spool, ...]
    live: Array

    def __call__(self, share: int) -> set[tuple[int, int]]:
        """Returns pairs of ledgers that count and share an id."""
        shares = [_ids(data) for data in read_share(self.objects(), self.spools, share)]
        if not shares:
            return set()
        ids = np.concatenate([each for each, _ in shares])
        places = self.live[np.concatenate([each for _, each in shares])]
        ids, places = ids[places >= 0], places[places >= 0]
        ordered = np.sort(ids)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if not repeated.size:
            return set()
        among = np.isin(ids, repeated)
        ids, places = ids[among], places[among]
        order = np.lexsort((places, ids))
        ids, places = ids[order], places[order]
        same = (ids[1:] == ids[:-1]) & (places[1:] != places[:-1])
        pairs = np.unique(np.stack((places[:-1][same], places[1:][same]), axis=1), axis=0)
        return {(int(a), int(b)) for a, b in pairs}


def read_share(objects: Objects, spools: Sequence[Spool], share: int) -> Iterator[bytes]:
    """Yields the share of each group, if not empty, without the checksum.

    Raises:
        CorruptMetadata: an object of the scan is damaged.
    """
    with closing(
        read_ahead(
            lambda each: each.share(objects, share),
            spools,
            size=lambda each: each.share_bytes(share),
            threads=THREADS if any(each.object_name for each in spools) else 0,
        )
    ) as found:
        yield from map(_opened, filter(None, found))


def _opened(data: bytes) -> bytes:
    try:
        return opened(data)
    except ValueError as error:
        raise CorruptMetadata(f"an object of this rebuild is damaged ({error}): run the rebuild again") from None


def _ids(share: bytes) -> tuple[Array, Array]:
    count = int.from_bytes(share[:_COUNT_BYTES], "little")
    ids = np.frombuffer(share, np.uint64, count, _COUNT_BYTES)
    return ids, np.frombuffer(share, np.uint32, count, _COUNT_BYTES + _HASH_BYTES * count)


def keys_in(share: bytes) -> pa.Table:
    """Returns the rows with keys of a share."""
    count = int.from_bytes(share[:_COUNT_BYTES], "little")
    stream = share[_COUNT_BYTES + (_HASH_BYTES + _PLACE_BYTES) * count :]
    return pa.ipc.open_stream(stream).read_all() if stream else KEYS.empty_table()


def reader_of(objects: Objects, stored: StoredObject) -> Read:
    """Returns the reader of an object. A small object is read at once, with a single request."""
    if stored.size_bytes > READ_BYTES:
        return lambda offset, length: objects.get_range(stored.name, offset, length)
    data = objects.get_range(stored.name, 0, stored.size_bytes)
    return lambda offset, length: data[offset : offset + length]
