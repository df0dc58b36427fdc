"""Tests the segment table, with its checks on read, its late decoding, and its due segments."""

from __future__ import annotations

import pickle
import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from tests.contract.builders import SLOT_MS
from tests.unit.test_bucket import START_MS, some_segments
from tidewheel.errors import CorruptMetadata
from tidewheel.ledger.bucket import Bucket, bucket_id, due_segments
from tidewheel.ledger.index import SegmentTable, decode_segments, encode_segments, touching
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.plan import Segment
from tidewheel.storage.items import decode_bucket, encode_bucket


def numbers_of(raw: bytes) -> list[int]:
    """The numbers of a table, read singly. Raises ValueError for any other contents."""
    found, number, shift = [], 0, 0
    for byte in raw:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(number)
            number = shift = 0
        elif shift > 77:
            raise ValueError
    if shift or len(found) % 6 != 1 or len(found) < 7:
        raise ValueError
    return found


def expected(raw: bytes) -> list[Segment] | None:
    """The segments of a table, or None for an invalid table."""
    try:
        offset, *numbers = numbers_of(raw)
    except ValueError:
        return None
    found, end_ms = [], 0
    for at in range(0, len(numbers), 6):
        length, rows, raw_bytes, gap_ms, span_ms, first_tail = numbers[at : at + 6]
        first_ms = end_ms + gap_ms
        end_ms = first_ms + span_ms
        found.append(
            Segment(
                offset=offset,
                length=length,
                rows=rows,
                raw_bytes=raw_bytes,
                first_deliver_at_ms=first_ms,
                last_deliver_at_ms=end_ms,
                first_tail=first_tail,
            )
        )
        offset += length
    return found


GOOD = zlib.decompress(opened(encode_segments(some_segments(7))))


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """Draws tables before compression. Some are good, some are damaged, and some end numbers seldom, often or never."""
    if draw(st.booleans()):
        return bytes(draw(st.lists(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]), max_size=40)))
    found = bytearray(GOOD)
    for _ in range(draw(st.integers(0, 3))):
        found[draw(st.integers(0, len(found) - 1))] = draw(st.integers(0, 255))
    return bytes(found[: draw(st.sampled_from([len(found), draw(st.integers(0, len(found)))]))])


@settings(max_examples=200, deadline=None)
@given(tables())
def test_a_table_that_is_taken_is_read_to_its_end_and_any_other_is_refused_at_once(raw: bytes) -> None:
    segments = expected(raw)
    if segments is None:
        with pytest.raises(CorruptMetadata, match=r"segment table of \d+ bytes is not readable"):
            decode_segments(sealed(zlib.compress(raw)))
        return
    table = decode_segments(sealed(zlib.compress(raw)))
    assert len(table) == len(segments)
    assert list(table) == segments


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "it has no segments"),
        (b"\x04", "it has no segments"),
        (GOOD + b"\xff", "or ends within one"),
        (GOOD + b"\x01", "or ends within one"),
        (GOOD[:-1] + b"\xff" * 12 + b"\x01", "a number has no end"),
    ],
)
def test_a_damaged_table_is_refused_when_its_item_is_read_before_anybody_looks_at_a_segment(
    raw: bytes, why: str
) -> None:
    item = encode_bucket("orders", bucket_of(some_segments(7)))
    with pytest.raises(CorruptMetadata, match=why):
        decode_bucket(item | {"segments": {"B": sealed(zlib.compress(raw))}})
    flipped = bytearray(item["segments"]["B"])
    flipped[len(flipped) // 2] ^= 4
    with pytest.raises(CorruptMetadata, match="segment table of"):
        decode_bucket(item | {"segments": {"B": bytes(flipped)}})


def test_a_table_is_the_sequence_of_its_segments() -> None:
    segments = some_segments(7)
    table = decode_segments(encode_segments(segments))
    assert table == segments
    assert segments == table
    assert table == decode_segments(sealed(zlib.compress(zlib.decompress(opened(encode_segments(segments))), 1)))
    assert table != segments[:-1]
    assert table != list(segments)
    assert (table[0], table[-1], table[2:4], len(table)) == (segments[0], segments[-1], segments[2:4], 7)
    assert repr(table) == repr(segments)
    assert encode_segments(table) == encode_segments(segments)
    assert pickle.loads(pickle.dumps(table)) == segments


# ---- what is due
def bucket_of(segments: tuple[Segment, ...], *, seed: int = 1) -> Bucket:
    """A bucket in which each segment's first and last slot are occupied, and some between."""
    random_ = random.Random(seed)
    slots = {ms // SLOT_MS for s in segments for ms in (s.first_deliver_at_ms, s.last_deliver_at_ms)}
    between = range(min(slots), max(slots) + 1)
    slots |= set(random_.sample(between, len(between) // 3))
    return Bucket(
        id=bucket_id(min(slots), f"b{seed}"),
        object_name=f"ledgers/b{seed}",
        size_bytes=9,
        rows=sum(each.rows for each in segments),
        slots=BitMap(slots),
        segments=segments,
    )


def naive(buckets: list[Bucket], a: int, b: int) -> list[tuple[int, str, int, int]]:
    """Start, ledger, offset and due rows of all segments with an occupied slot of [a, b), searched slot by slot."""
    found = []
    for bucket in buckets:
        for segment in bucket.segments:
            first, last = segment.first_deliver_at_ms, segment.last_deliver_at_ms
            slots = range(max(a, first // SLOT_MS), min(b, last // SLOT_MS + 1))
            if any(slot in bucket.slots for slot in slots):
                overlap = min(last + 1, b * SLOT_MS) - max(first, a * SLOT_MS)
                due = max(1, -(-segment.rows * overlap // (last - first + 1)))
                found.append((first, bucket.object_name, segment.offset, due))
    return sorted(found)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_due_is_the_same_from_tables_and_from_segments_as_slot_by_slot(seed: int) -> None:
    random_ = random.Random(seed)
    made = [bucket_of(some_segments(random_.randint(1, 40), seed=9 * seed + i), seed=i) for i in range(4)]
    read = [decode_bucket(encode_bucket("orders", each)) for each in made]
    assert any(isinstance(each.segments, SegmentTable) for each in read)
    start, end = START_MS // SLOT_MS - 2, max(each.last_slot for each in made) + 3
    for _ in range(25):
        a = random_.randint(start, end)
        b = a + random_.choice([1, 1, 1, 2, 9, 100, 10_000])
        planned = due_segments(made, a, b, SLOT_MS)
        got = [(p.segment.first_deliver_at_ms, p.object_name, p.segment.offset, p.due_rows) for p in planned]
        assert got == naive(made, a, b)
        assert due_segments(read, a, b, SLOT_MS) == planned


def test_segments_end_to_end_in_one_millisecond_are_all_touched() -> None:
    at_ms, segments = START_MS, []
    for i in range(9):
        last_ms = at_ms + (5_000 if i in (2, 6) else 0)
        segments.append(
            Segment(offset=4 + i, length=1, rows=1, raw_bytes=1, first_deliver_at_ms=at_ms, last_deliver_at_ms=last_ms)
        )
        at_ms = last_ms
    table = decode_segments(encode_segments(segments))
    for from_ms in range(START_MS - 1_000, at_ms + 2_000, 500):
        for until_ms in (from_ms, from_ms + 1, from_ms + 500, from_ms + 9_000):
            wanted = [s for s in segments if s.last_deliver_at_ms >= from_ms and s.first_deliver_at_ms < until_ms]
            assert list(touching(table, from_ms, until_ms)) == wanted
            assert list(touching(tuple(segments), from_ms, until_ms)) == wanted
