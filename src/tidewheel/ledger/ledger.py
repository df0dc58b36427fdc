r"""Encodes ledgers as Parquet files in which each segment can be read alone.

A ledger holds messages sorted by delivery time, and any Parquet reader reads the whole file. A segment's range, with
the magic in front, is a Parquet file too, so that one GET is enough and no footer needs to be fetched or kept:

    ledger   | "PAR1" | segment | segment | ... | tail | ending |
    segment  | CRC-32 of the rest of the segment, 4 bytes LE | pages | footer | footer length, 4 bytes LE | "PAR1" |
    ending   | CRC-32 of the rest of the ledger, 4 bytes LE | footer | footer length, 4 bytes LE | "PAR1" |
    pages    | of each column of `ledger/schema.py`, in that order (a map has two: keys, values) |

Segments are contiguous, the first at offset 4. The pages are encoded once and named by two footers. The segment's own
footer has offsets from the segment's start, the ledger's footer has offsets from the file's start. Only the ledger's
footer has statistics (of deliver_at_ms) and the tags `tidewheel.topic`, `.generation`, `.sources` (a JSON list of
the ledgers it was merged from). Both have `tidewheel.schema_version`. `ledger/footer.py` draws the footers.

Rows are sorted by (deliver_at_ms, message_id). Texts and bytes are compressed with zstd. Times and ids are stored as
differences instead, which is smaller and faster than zstd.

The checksum covers whole segments instead of Parquet's pages. It costs a third of Parquet's checksums, covers page
headers and footers too, and is verified before a parser reads the bytes. The ledger's own footer has such a checksum
too. Parquet's readers ignore those four bytes, since no footer names them. A tail (`bucket.py`) exists only if an item
cannot hold the ledger's index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidewheel.errors import CorruptLedger
from tidewheel.ledger import footer
from tidewheel.ledger.bucket import LedgerSummary
from tidewheel.ledger.rows import SCHEMA, check_schema, conform, rows_table, times_of
from tidewheel.ledger.writer import SEGMENT_BYTES, SEGMENT_ROWS, VERSION_TAG, LedgerWriter
from tidewheel.model import checksum
from tidewheel.model.message import Encoding
from tidewheel.model.plan import Segment
from tidewheel.model.topic_state import TopicState

__all__ = ["SCHEMA", "LedgerSummary", "LedgerWriter", "rows_table"]
"""Names of other modules that are also found here."""

_UNREADABLE = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, OverflowError)
"""The errors of pyarrow for bytes that it cannot read."""
# In a ledger of less than two days each slot has a larger share of the rows. Smaller segments save useless reads.
_SHORT_SEGMENT_BYTES = 16 * 1024
_SHORT_SPAN_MS = 2 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """An encoded ledger, as the object's bytes and a summary."""

    data: bytes
    summary: LedgerSummary


def encode_ledger(
    table: pa.Table,
    *,
    topic: str,
    generation: str,
    slot_ms: int,
    segment_rows: int = SEGMENT_ROWS,
    segment_bytes: int | None = None,
    sources: Sequence[str] = (),
) -> Ledger:
    """Encodes messages as a ledger. The same rows give the same bytes.

    Args:
        table: rows in SCHEMA, sorted by (deliver_at_ms, message_id).
        topic: the topic's name.
        generation: the topic's generation.
        slot_ms: the topic's slot length.
        segment_rows: most rows of a segment.
        segment_bytes: encoded bytes after which a segment ends with its slot. None: 64 KiB, or 16 KiB in a ledger
            spanning under 2 days.
        sources: names of the ledgers that this ledger replaces.

    Raises:
        InvalidValue: no rows, or rows not sorted or not in SCHEMA.
    """
    table = conform(table).combine_chunks()
    if segment_bytes is None:
        times = times_of(table)
        short = not times.size or times[-1] - times[0] < _SHORT_SPAN_MS
        segment_bytes = _SHORT_SEGMENT_BYTES if short else SEGMENT_BYTES
    sink = BytesIO()
    writer = LedgerWriter(
        sink,
        topic=topic,
        generation=generation,
        slot_ms=slot_ms,
        segment_rows=segment_rows,
        segment_bytes=segment_bytes,
        sources=sources,
    )
    writer.write(table)
    summary = writer.close()
    return Ledger(data=sink.getvalue(), summary=summary)


def encode_for_topic(state: TopicState, rows: pa.Table) -> Ledger:
    """Encodes rows as a ledger by a topic's settings. See `encode_ledger`."""
    segment_rows, segment_bytes = state.settings.segment_rows, state.settings.segment_bytes
    owner = {"topic": state.topic, "generation": state.generation}
    return encode_ledger(rows, **owner, slot_ms=state.slot_ms, segment_rows=segment_rows, segment_bytes=segment_bytes)


def decode_segment(
    range_bytes: bytes | memoryview, *, object_name: str, segment: Segment, columns: Sequence[str] | None = None
) -> pa.Table:
    """Returns the rows of a segment, in SCHEMA.

    Args:
        range_bytes: the result of a range GET of `segment`.
        object_name: the ledger's object, for the error.
        segment: the segment as its bucket describes it.
        columns: names of the columns wanted, in this order. None: all columns.

    Raises:
        CorruptLedger: the bytes are not the segment, for any reason.
    """
    reason = _damage(range_bytes, segment)
    if reason is None:
        try:
            table = _read(range_bytes, segment, columns)
            reason = _disagreement(table, segment)
        except _UNREADABLE as error:
            reason = f"not a readable segment: {error}"
    if reason is not None:
        raise CorruptLedger(object_name, segment.offset, segment.last_byte, reason)
    return table if columns is None else table.select(list(columns))


def _damage(range_bytes: bytes | memoryview, segment: Segment) -> str | None:
    if len(range_bytes) != segment.length:
        return f"{len(range_bytes)} bytes instead of {segment.length}"
    try:
        checksum.check(range_bytes)
    except ValueError as error:
        return str(error)
    return None


def _read(range_bytes: bytes | memoryview, segment: Segment, columns: Sequence[str] | None) -> pa.Table:
    source = pa.BufferReader(b"".join((footer.MAGIC, range_bytes)))
    file = pq.ParquetFile(source, pre_buffer=False)
    check_schema((file.metadata.metadata or {}).get(VERSION_TAG.encode(), b"none").decode(), file.schema_arrow)
    if file.metadata.num_rows != segment.rows:  # a few bytes can stand for any number of rows
        raise ValueError(f"{file.metadata.num_rows} rows instead of {segment.rows}")
    wanted = None if columns is None else list({"deliver_at_ms", *columns})
    table = file.read(columns=wanted, use_threads=False)
    # Parquet's readers do not check that texts are UTF-8, but messages must be.
    table.validate(full=True)
    return table


def _disagreement(table: pa.Table, segment: Segment) -> str | None:
    unknown = _unknown_values(table)
    if unknown is not None:
        return unknown
    times = pc.min_max(table.column("deliver_at_ms"))
    found = (times["min"].as_py(), times["max"].as_py())
    if found != (segment.first_deliver_at_ms, segment.last_deliver_at_ms):
        return (
            f"delivery times {found[0]} to {found[1]} "
            f"instead of {segment.first_deliver_at_ms} to {segment.last_deliver_at_ms}"
        )
    return None


def _unknown_values(table: pa.Table) -> str | None:
    """Returns why rows accepted by Parquet's reader are no messages, or None."""
    if "encoding" in table.column_names:
        encodings = pc.min_max(table.column("encoding"))
        if encodings["min"].as_py() < min(Encoding) or encodings["max"].as_py() > max(Encoding):
            return f"encodings {encodings['min']} to {encodings['max']}, which this release does not know"
    if "attributes" in table.column_names and any(maps.items.null_count for maps in table.column("attributes").chunks):
        return "an attribute without a value"
    return None
