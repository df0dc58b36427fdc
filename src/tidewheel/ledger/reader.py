"""Reads a ledger's segments and tags from the footer, without a bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq

from tidewheel.errors import CorruptLedger
from tidewheel.ledger.bucket import Tail
from tidewheel.ledger.footer import MAGIC
from tidewheel.ledger.rows import check_schema
from tidewheel.ledger.writer import TAIL_TAG, VERSION_TAG
from tidewheel.model.checksum import CHECKSUM_BYTES, opened
from tidewheel.model.plan import Segment

Read = Callable[[int, int], bytes]
"""Takes an offset and a length. Returns these bytes of the object."""

# The footer takes about 550 bytes a segment, so one read gets the footer of a hundred segments.
_TAIL_BYTES = 64 * 1024
_LENGTH_BYTES = 4
_LEAST_BYTES = CHECKSUM_BYTES + _LENGTH_BYTES + len(MAGIC)
_FOOTER_BYTES = 1 << 30
"""Largest footer, for two million segments, more than a merge writes. A longer footer is refused."""


def segments_of(read: Read, size_bytes: int, object_name: str) -> tuple[Segment, ...]:
    """Returns a ledger's segments, equal to the bucket's except for `raw_bytes` and without `first_tail`.

    `raw_bytes` here counts all columns with their page headers, which is slightly more than the bucket's.

    Args:
        read: reads a range of the object. Called at most twice.
        size_bytes: size of the object.
        object_name: the ledger's object, for the error.

    Raises:
        CorruptLedger: the object does not end with a ledger's footer.
    """
    metadata, ending = _read_footer(read, size_bytes, object_name)
    try:
        found = tuple(_segments(metadata, _end_of_segments(metadata, ending)))
    except (pa.ArrowException, OSError, ValueError, TypeError, IndexError, OverflowError) as error:
        raise _corrupt(object_name, ending, size_bytes, str(error)) from None
    return found


def tags_of(read: Read, size_bytes: int, object_name: str) -> dict[str, str]:
    """Returns the tags in a ledger's footer. Arguments and errors are those of `segments_of`."""
    metadata, ending = _read_footer(read, size_bytes, object_name)
    try:
        return {key.decode(): value.decode() for key, value in (metadata.metadata or {}).items()}
    except UnicodeDecodeError as error:
        raise _corrupt(object_name, ending, size_bytes, str(error)) from None


def _read_footer(read: Read, size_bytes: int, object_name: str) -> tuple[pq.FileMetaData, int]:
    """Returns the footer, and the offset of the ledger's ending.

    The ending starts with the footer's checksum.
    """
    start = max(0, size_bytes - _TAIL_BYTES)
    data = read(start, size_bytes - start)
    if len(data) != size_bytes - start or len(data) < _LEAST_BYTES or not data.endswith(MAGIC):
        raise _corrupt(object_name, start, size_bytes, "the ledger does not end with Parquet's magic")
    length = int.from_bytes(data[-_LENGTH_BYTES - len(MAGIC) : -len(MAGIC)], "little")
    ending = size_bytes - _LEAST_BYTES - length
    if ending < len(MAGIC) or length > _FOOTER_BYTES:
        raise _corrupt(object_name, start, size_bytes, f"a footer of {length} bytes does not fit")
    data = data[ending - start :] if ending >= start else read(ending, start - ending) + data
    try:
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + opened(data)))
        version = (metadata.metadata or {}).get(VERSION_TAG.encode(), b"none").decode(errors="replace")
        check_schema(version, metadata.schema.to_arrow_schema())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _corrupt(object_name, ending, size_bytes, f"not a readable footer: {error}") from None
    return metadata, ending


def _end_of_segments(metadata: pq.FileMetaData, ending: int) -> int:
    tail = metadata.metadata.get(TAIL_TAG.encode())
    if tail is None:
        return ending
    place = Tail.of_tag(tail.decode())
    if place.offset + place.length != ending:
        raise ValueError(f"the tail {tail!r} does not end at {ending}")
    return place.offset


def _segments(metadata: pq.FileMetaData, end_of_segments: int) -> Iterator[Segment]:
    row_groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    times = [row_group.column(0) for row_group in row_groups]
    offsets = [column.data_page_offset - CHECKSUM_BYTES for column in times]
    if offsets[:1] != [len(MAGIC)]:
        raise ValueError(f"the first segment is at {offsets[:1]} instead of {len(MAGIC)}")
    ends = [*offsets, end_of_segments]
    for row_group, column, (offset, end) in zip(row_groups, times, pairwise(ends), strict=True):
        if end - offset <= CHECKSUM_BYTES:
            raise ValueError(f"a segment at {offset} ends at {end}")
        statistics = column.statistics
        if statistics is None or not statistics.has_min_max:
            raise ValueError(f"the segment at {offset} has no delivery times")
        yield Segment(
            offset=offset,
            length=end - offset,
            rows=row_group.num_rows,
            raw_bytes=row_group.total_byte_size,
            first_deliver_at_ms=statistics.min,
            last_deliver_at_ms=statistics.max,
        )


def _corrupt(object_name: str, first_byte: int, size_bytes: int, reason: str) -> CorruptLedger:
    return CorruptLedger(object_name, first_byte, size_bytes - 1, reason)
