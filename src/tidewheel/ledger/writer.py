"""Writes a ledger as a stream from sorted batches, with constant memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap

from tidewheel.errors import InvalidValue
from tidewheel.ledger import footer
from tidewheel.ledger.bucket import LedgerSummary, Tail, encode_tail
from tidewheel.ledger.footer import LEAVES, MAGIC, Chunk, Codec, RowGroup
from tidewheel.ledger.index import Weight
from tidewheel.ledger.rows import SCHEMA, Int64s, conform, in_order, text_bytes, times_of
from tidewheel.ledger.schema import COLUMNS, SCHEMA_VERSION, TEXT_TYPES
from tidewheel.ledger.sink import Sink
from tidewheel.model.checksum import CHECKSUM_BYTES, seal_of, sealed
from tidewheel.model.message import id_tail
from tidewheel.model.plan import Segment

VERSION_TAG = "tidewheel.schema_version"
TOPIC_TAG = "tidewheel.topic"
GENERATION_TAG = "tidewheel.generation"
SOURCES_TAG = "tidewheel.sources"
TAIL_TAG = "tidewheel.tail"
SEGMENT_ROWS = 5_000
SEGMENT_BYTES = 64 * 1024

# A merge holds a segment of each of 82 ledgers, whatever the messages' size, even when all are due in one slot.
_MAX_RAW_BYTES = 256 * 1024
# In segments of 64 KiB of real messages level 2 takes 19 % more time and saves 2 %. Level 3 takes 50 % more time
# and saves no more.
_ZSTD_LEVEL = 1
# Encoded bytes per raw byte, assumed until the first segment gives the ledger's own share.
_FIRST_SHARE = 0.4
# Bytes of a row besides its texts: differences of id and times, lengths.
_ROW_BYTES = 24
# Encoded bytes and segments that a writer keeps before it passes them on.
_FLUSH_BYTES = 2 * 1024 * 1024
_FLUSH_SEGMENTS = 128
# Slots whose bytes a writer keeps apart before it joins them.
_MOST_WEIGHTS = 1024
# Runs of slots whose bytes a bucket has, at least, unless they are single slots.
_RUNS = 16
_NEVER_MS = 1 << 62

_OPTIONAL_TEXTS = tuple(each.name for each in COLUMNS if each.nullable and each.type in TEXT_TYPES)
SEGMENT_TAGS = {VERSION_TAG: SCHEMA_VERSION}
"""Tags of a segment's footer."""


class _RowGroups:
    """Row groups, encoded by pyarrow as a Parquet file in memory. Each is a segment whose place is not known yet.

    Only the pages of that file are used.

    Args:
        with_texts: whether any row has a key or attributes. If all optional texts are null, their columns are not
            compressed, because zstd would make them larger and take a tenth of the whole time.
    """

    def __init__(self, *, with_texts: bool) -> None:
        self.with_texts = with_texts
        self.segments: list[Segment] = []
        self._sink = pa.BufferOutputStream()
        self._metadata: list[pq.FileMetaData] = []
        self._codecs = [
            Codec.NONE if leaf.column.name in _OPTIONAL_TEXTS and not with_texts else leaf.storage.codec
            for leaf in LEAVES
        ]
        names = [".".join(leaf.path) for leaf in LEAVES]
        codecs = dict(zip(names, self._codecs, strict=True))
        self._writer = pq.ParquetWriter(
            self._sink,
            SCHEMA,
            metadata_collector=self._metadata,
            compression={name: codec.name for name, codec in codecs.items()},
            compression_level={name: _ZSTD_LEVEL for name, codec in codecs.items() if codec is Codec.ZSTD},
            column_encoding={name: leaf.storage.encoding.name for leaf, name in zip(LEAVES, names, strict=True)},
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
            version="2.6",
            data_page_version="1.0",
        )
        self.size = int(self._sink.tell())

    def add(self, rows: pa.Table, segment: Segment) -> int:
        """Encodes rows as a row group and returns the encoded size."""
        # One chunk, because pyarrow may end a page where a chunk ends. The bytes must not depend on the batches.
        self._writer.write_table(rows.combine_chunks(), row_group_size=rows.num_rows)
        self.segments.append(segment)
        before, self.size = self.size, int(self._sink.tell())
        return self.size - before

    def finish(self) -> Iterator[tuple[memoryview, RowGroup, Segment]]:
        """Yields the pages, footer entry and segment of each row group."""
        self._writer.close()
        encoded = memoryview(self._sink.getvalue())
        (metadata,) = self._metadata
        for i, segment in enumerate(self.segments):
            row_group = metadata.row_group(i)
            columns = [row_group.column(j) for j in range(len(self._codecs))]
            chunks = [
                Chunk(codec, column.num_values, column.total_uncompressed_size, column.total_compressed_size)
                for codec, column in zip(self._codecs, columns, strict=True)
            ]
            start = columns[0].data_page_offset
            end = start + sum(chunk.encoded_bytes for chunk in chunks)
            yield encoded[start:end], RowGroup(segment.rows, chunks), segment


class LedgerWriter:
    """Encodes sorted batches of rows as a ledger.

    A segment ends at `segment_rows` rows, or with the slot in which it reaches `segment_bytes`. In any slot, a segment
    ends before its raw bytes exceed 256 KiB. Encoded bytes are estimated as raw bytes times the share of the last
    segments, where each segment counts half as much as the next. The ends of segments do not depend on how the rows
    were cut into batches.

    Args:
        sink: takes the bytes.
        topic: the topic's name.
        generation: the topic's generation.
        slot_ms: the topic's slot length.
        segment_rows: most rows of a segment.
        segment_bytes: encoded bytes after which a segment ends with its slot.
        sources: names of the ledgers that this ledger replaces.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        topic: str,
        generation: str,
        slot_ms: int,
        segment_rows: int = SEGMENT_ROWS,
        segment_bytes: int = SEGMENT_BYTES,
        sources: Sequence[str] = (),
    ) -> None:
        self._sink = sink
        self._tags = SEGMENT_TAGS | {
            TOPIC_TAG: topic,
            GENERATION_TAG: generation,
            SOURCES_TAG: json.dumps(list(sources)),
        }
        self._slot_ms = slot_ms
        self._segment_rows, self._segment_bytes, self._share = segment_rows, segment_bytes, _FIRST_SHARE
        self._pending = SCHEMA.empty_table()
        self._last_row: tuple[int, bytes] | None = None
        self._ended_ms = -1
        self._slots = BitMap()
        self._weights = np.empty((0, len(Weight._fields)), np.int64)
        self._first_sent_ms: int | None = None
        self._encoder: _RowGroups | None = None
        self._segments: list[Segment] = []
        self._row_groups: list[bytes] = []
        self._offset = 0
        self._put(MAGIC)

    def write(self, table: pa.Table) -> None:
        """Adds rows. No row may sort before the rows already written.

        Raises:
            InvalidValue: the rows are not in SCHEMA or not in order.
        """
        if table.num_rows == 0:
            return
        table = conform(table)
        self._check_order(table)
        self._pending = pa.concat_tables([self._pending, table])
        self._encode_pending(to_the_end=False)

    def close(self) -> LedgerSummary:
        """Writes the remaining rows and the footer.

        Raises:
            InvalidValue: no rows were written.
        """
        if self._last_row is None:
            raise InvalidValue("rows", 0, "a ledger holds at least one message")
        self._encode_pending(to_the_end=True)
        self._flush()
        rows = sum(segment.rows for segment in self._segments)
        tail = self._put_tail()
        self._put(sealed(footer.ledger_footer(rows, self._row_groups, self._tags)))
        return LedgerSummary(
            segments=tuple(self._segments),
            rows=rows,
            slots=self._slots,
            size_bytes=self._offset,
            tail=tail,
            weights=tuple(join_weights(self._weights)),
            checked_ms=self._first_sent_ms or 0,
        )

    def _put_tail(self) -> Tail | None:
        data, tail = encode_tail(self._slots, self._segments, offset=self._offset)
        if not tail.needed:
            return None
        self._put(data)
        self._tags[TAIL_TAG] = tail.tag
        return tail

    def _check_order(self, table: pa.Table) -> None:
        first, last = (
            (table.column("deliver_at_ms")[i].as_py(), table.column("message_id")[i].as_py()) for i in (0, -1)
        )
        if (self._last_row is not None and first < self._last_row) or not in_order(table):
            raise InvalidValue("rows", table.num_rows, "sort them by (deliver_at_ms, message_id)")
        self._last_row = last

    def _encode_pending(self, *, to_the_end: bool) -> None:
        rows = self._pending
        if rows.num_rows == 0:
            return
        times = times_of(rows)
        slots = times // self._slot_ms
        slot_starts = np.flatnonzero(slots[1:] != slots[:-1]) + 1
        weights = np.zeros(len(times) + 1, np.int64)
        np.cumsum(text_bytes(rows) + _ROW_BYTES, out=weights[1:])
        texts = [name for name in _OPTIONAL_TEXTS if rows.column(name).null_count < rows.num_rows]
        start = 0
        while start < len(times):
            end = self._segment_end(start, weights, slot_starts)
            if end is None:
                if not to_the_end:
                    break
                end = len(times)
            raw_bytes = int(weights[end] - weights[start])
            part = rows.slice(start, end - start)
            with_texts = any(part.column(name).null_count < part.num_rows for name in texts)
            self._encode(part, self._segment(part, raw_bytes), with_texts=with_texts)
            start = end
        if start:
            starts = np.concatenate(([0], slot_starts[slot_starts < start]))
            self._note_slots(rows.slice(0, start), slots[starts], starts, weights)
        self._pending = rows.slice(start)

    def _note_slots(self, rows: pa.Table, slots: Int64s, starts: Int64s, weights: Int64s) -> None:
        """Notes the slots of encoded rows, their bytes and the earliest sending time."""
        self._slots.update(slots.tolist())
        sizes = weights[np.append(starts[1:], rows.num_rows)] - weights[starts]
        expires_s = _expiries_s(rows.column("expires_at_ms"), starts)
        self._weights = np.concatenate((self._weights, np.column_stack((slots, slots, sizes, expires_s))))
        if len(self._weights) > _MOST_WEIGHTS:
            self._weights = np.array(join_weights(self._weights))
        first_sent_ms = pc.min(rows.column("sent_at_ms")).as_py()
        self._first_sent_ms = min(first_sent_ms, first_sent_ms if self._first_sent_ms is None else self._first_sent_ms)

    def _segment_end(self, start: int, weights: Int64s, slot_starts: Int64s) -> int | None:
        """Returns the end of the segment from a row on.

        Returns None if the end depends on rows not yet written.
        """
        rows = len(weights) - 1
        before = int(weights[start])
        full = int(weights.searchsorted(before + int(self._segment_bytes / self._share)))
        next_slot = int(slot_starts.searchsorted(max(full, start + 1)))
        too_large = int(weights.searchsorted(before + _MAX_RAW_BYTES, "right")) - 1
        ends = [start + self._segment_rows]
        if next_slot < len(slot_starts):
            ends.append(int(slot_starts[next_slot]))
        if too_large < rows:
            ends.append(max(too_large, start + 1))
        end = min(ends)
        return end if end <= rows else None

    def _segment(self, rows: pa.Table, raw_bytes: int) -> Segment:
        first_ms, last_ms = (rows.column("deliver_at_ms")[i].as_py() for i in (0, -1))
        tied, self._ended_ms = first_ms == self._ended_ms, last_ms
        return Segment(
            offset=0,
            length=0,
            rows=rows.num_rows,
            raw_bytes=raw_bytes,
            first_deliver_at_ms=first_ms,
            last_deliver_at_ms=last_ms,
            first_tail=id_tail(rows.column("message_id")[0].as_py()) if tied else 0,
        )

    def _encode(self, rows: pa.Table, segment: Segment, *, with_texts: bool) -> None:
        if self._encoder is None or self._encoder.with_texts != with_texts:
            self._flush()
            self._encoder = _RowGroups(with_texts=with_texts)
        encoded_bytes = self._encoder.add(rows, segment)
        self._share = (self._share + encoded_bytes / segment.raw_bytes) / 2
        if self._encoder.size >= _FLUSH_BYTES or len(self._encoder.segments) >= _FLUSH_SEGMENTS:
            self._flush()

    def _flush(self) -> None:
        if self._encoder is None:
            return
        for pages, row_group, segment in self._encoder.finish():
            ending = footer.segment_footer(row_group, len(MAGIC) + CHECKSUM_BYTES, SEGMENT_TAGS)
            span = (segment.first_deliver_at_ms, segment.last_deliver_at_ms)
            self._row_groups.append(row_group.in_ledger(self._offset + CHECKSUM_BYTES, *span))
            length = CHECKSUM_BYTES + len(pages) + len(ending)
            self._segments.append(replace(segment, offset=self._offset, length=length))
            self._put(seal_of(pages, ending))
            self._put(pages)
            self._put(ending)
        self._encoder = None

    def _put(self, data: bytes | memoryview) -> None:
        self._sink.write(data)
        self._offset += len(data)


def _expiries_s(expires: pa.ChunkedArray, starts: Int64s) -> Int64s:
    """Returns when the last row of each slot has expired, in seconds. 0: a row of the slot never expires."""
    if expires.null_count == len(expires):
        return np.zeros(len(starts), np.int64)
    times = pc.fill_null(expires, _NEVER_MS).to_numpy()
    latest = np.maximum.reduceat(times, starts)
    return np.where(latest == _NEVER_MS, 0, np.maximum(1, -(-latest // 1000)))


def join_weights(weights: Int64s) -> list[Weight]:
    """Joins weights of ascending slots. The result has at most 33 weights, or 16 that are single slots.

    Args:
        weights: a row a weight, at least one, with the fields of `Weight`. The rows of a slot may come in several
            batches, of which each makes a weight.
    """
    first_slots, last_slots = weights[:, 0], weights[:, 1]
    rows = _sums_of_runs(weights, np.flatnonzero(np.append(True, first_slots[1:] != last_slots[:-1])))
    if len(rows) > _RUNS:
        rows = _sums_of_runs(rows, _starts_of_runs(np.cumsum(rows[:, 2])))
    return [Weight(*row) for row in rows.tolist()]


def _starts_of_runs(ends: Int64s) -> Int64s:
    """Returns the first weight of each run. A run is as long as it has at most a 16th of all bytes."""
    starts = [0]
    most = int(ends[-1]) // _RUNS
    while True:
        before = int(ends[starts[-1] - 1]) if starts[-1] else 0
        end = max(starts[-1] + 1, int(ends.searchsorted(before + most, "right")))
        if end >= len(ends):
            return np.array(starts)
        starts.append(end)


def _sums_of_runs(weights: Int64s, starts: Int64s) -> Int64s:
    """Returns the sums of runs of weights."""
    ends = np.append(starts[1:], len(weights)) - 1
    raw_bytes = np.add.reduceat(weights[:, 2], starts)
    expires_s = weights[:, 3]
    never = np.minimum.reduceat(expires_s, starts) == 0
    expires_s = np.where(never, 0, np.maximum.reduceat(expires_s, starts))
    return np.column_stack((weights[starts, 0], weights[ends, 1], raw_bytes, expires_s))
