"""A bucket's index is coarse if too large for an item, and complete again with its ledger's tail."""

from __future__ import annotations

import random
from dataclasses import replace
from io import BytesIO
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from tidewheel.ledger.bucket import (
    INLINE_SEGMENTS_BYTES,
    INLINE_SLOTS_BYTES,
    Bucket,
    LedgerSummary,
    bucket_id,
    encode_tail,
)
from tidewheel.ledger.index import decode_segments, decode_slots, encode_segments, encode_slots
from tidewheel.ledger.ledger import LedgerWriter
from tidewheel.ledger.rows import rows_table
from tidewheel.ledger.writer import TAIL_TAG
from tidewheel.model.plan import Segment

START_MS = 1_767_225_600_000
FIRST_SLOT = START_MS // 1000


def some_segments(count: int, *, seed: int = 1) -> tuple[Segment, ...]:
    """Consecutive segments of incompressible lengths."""
    random_ = random.Random(seed)
    found, offset, at_ms = [], 4, START_MS
    for _ in range(count):
        length, rows, span = random_.randrange(1, 90_000), random_.randrange(1, 5_000), random_.randrange(9_000_000)
        first = at_ms + random_.choice([0, random_.randrange(1, 9_000)])
        found.append(
            Segment(
                offset=offset,
                length=length,
                rows=rows,
                raw_bytes=3 * length,
                first_deliver_at_ms=first,
                last_deliver_at_ms=first + span,
                first_tail=random_.getrandbits(79) if found and first == at_ms else 0,
            )
        )
        offset, at_ms = offset + length, first + span
    return tuple(found)


def scattered(count: int, within: int, *, seed: int = 2) -> BitMap:
    """Slots without a pattern."""
    return BitMap(FIRST_SLOT + each for each in random.Random(seed).sample(range(within), count))


def a_bucket(slots: BitMap, segments: tuple[Segment, ...]) -> tuple[Bucket, bytes]:
    """A complete bucket, and its tail's bytes (none if the index fits into an item)."""
    data, tail = encode_tail(slots, segments, offset=77)
    held = tail if tail.needed else None
    bucket = Bucket(
        id=bucket_id(slots.min(), "b"),
        object_name="ledgers/b",
        size_bytes=9,
        rows=9,
        slots=slots,
        segments=segments,
        tail=held,
    )
    return bucket, data if held else b""


FEW_SLOTS = BitMap(range(FIRST_SLOT, FIRST_SLOT + 100))
MANY_SLOTS = scattered(40_000, 5_000_000)


# ---- what an item holds
def test_a_small_index_has_no_tail() -> None:
    bucket, _ = a_bucket(FEW_SLOTS, some_segments(40))
    assert bucket.tail is None
    assert bucket.complete
    assert bucket.without_tail() is bucket


def test_a_long_run_of_slots_needs_no_tail() -> None:
    bucket, _ = a_bucket(BitMap(range(FIRST_SLOT, FIRST_SLOT + 2_000_000)), some_segments(5))
    assert bucket.tail is None


def test_a_long_segment_table_is_in_the_tail_and_the_slots_stay_exact() -> None:
    bucket, data = a_bucket(FEW_SLOTS, some_segments(400))
    assert bucket.tail is not None and bucket.tail.segments_bytes > INLINE_SEGMENTS_BYTES
    assert bucket.tail.length == len(data)
    held = bucket.without_tail()
    assert held == replace(bucket, segments=())
    assert not held.complete
    assert held.with_tail(data) == bucket
    assert bucket.complete


@pytest.mark.parametrize("segments", [some_segments(1), some_segments(400)])
def test_a_large_bitmap_is_in_the_tail_and_the_item_has_a_coarser_one(segments: tuple[Segment, ...]) -> None:
    bucket, data = a_bucket(MANY_SLOTS, segments)
    held = bucket.without_tail()
    assert held.slot_shift > 0
    assert len(encode_slots(held.slots)) <= INLINE_SLOTS_BYTES
    assert held.segments == ()
    assert not held.complete
    assert held.with_tail(data) == bucket


# ---- what a coarse bitmap says
def occupied(slots: BitMap, at_or_after: int) -> int | None:
    return next(slots.iter_equal_or_larger(at_or_after), None)


slot_sets = st.builds(
    lambda near, runs: BitMap(
        {FIRST_SLOT + each for each in near} | {FIRST_SLOT + a + i for a, n in runs for i in range(n)}
    ),
    st.sets(st.integers(0, 5_000), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 10**8), st.integers(1, 300)), max_size=4),
)


@settings(max_examples=150, deadline=None)
@given(slot_sets, st.integers(0, 20), st.data())
def test_a_coarse_bitmap_bounds_the_slots_from_both_sides(exact: BitMap, shift: int, data: st.DataObject) -> None:
    bucket, _ = a_bucket(exact, some_segments(1))
    coarse = replace(bucket, slots=BitMap(slot >> shift for slot in exact), slot_shift=shift)
    assert coarse.first_slot <= exact.min() < coarse.first_slot + (1 << shift)
    assert coarse.last_slot - (1 << shift) < exact.max() <= coarse.last_slot
    near = st.sampled_from(list(exact)).flatmap(lambda slot: st.integers(slot - 3 - (2 << shift), slot + 3))
    at = data.draw(near | st.integers(0, 2**31))
    at = max(0, at)
    first, bound = occupied(exact, at), coarse.next_slot(at)
    if first is None:
        assert bound is None or at <= bound <= coarse.last_slot
    else:
        assert bound is not None
        assert at <= bound <= first
    assert bucket.next_slot(at) == first


def test_a_share_of_coarse_slots_is_close_to_the_exact_one() -> None:
    bucket, _ = a_bucket(MANY_SLOTS, some_segments(1))
    coarse = bucket.without_tail()
    for a, b in ((0, 5_000_000), (0, 1_000_000), (1_234_567, 4_000_000), (4_900_000, 9_000_000)):
        exact = bucket.share(FIRST_SLOT + a, FIRST_SLOT + b)
        assert exact == MANY_SLOTS.range_cardinality(FIRST_SLOT + a, FIRST_SLOT + b) / len(MANY_SLOTS)
        assert abs(coarse.share(FIRST_SLOT + a, FIRST_SLOT + b) - exact) < 0.02


@pytest.mark.parametrize("shift", [0, 3])
def test_all_slots_are_a_share_of_one_and_none_of_zero(shift: int) -> None:
    bucket, _ = a_bucket(FEW_SLOTS, some_segments(1))
    bucket = replace(bucket, slots=BitMap(slot >> shift for slot in FEW_SLOTS), slot_shift=shift)
    assert bucket.share(bucket.first_slot, bucket.last_slot + 1) == 1
    assert bucket.share(0, bucket.first_slot) == 0
    assert bucket.share(bucket.last_slot + 1, bucket.last_slot + 9) == 0
    assert bucket.share(bucket.first_slot, bucket.first_slot) == 0
    assert bucket.share(bucket.first_slot + 9, bucket.first_slot) == 0


# ---- the codec
@settings(max_examples=30, deadline=None)
@given(
    slot_sets | st.integers(0, 9).map(lambda seed: scattered(20_000, 3_000_000, seed=seed)),
    st.integers(1, 500),
    st.integers(0, 9),
)
def test_every_bucket_is_whole_again_with_its_tail(slots: BitMap, segments: int, seed: int) -> None:
    bucket, data = a_bucket(slots, some_segments(segments, seed=seed))
    held = bucket.without_tail()
    assert decode_segments(encode_segments(bucket.segments)) == bucket.segments
    assert decode_slots(encode_slots(held.slots)) == held.slots
    assert (held.with_tail(data) if bucket.tail else held) == bucket


# ---- ledgers
def many_rows(count: int, slots: int) -> pa.Table:
    """Rows in random slots of a second."""
    random_ = random.Random(5)
    times = sorted(START_MS + 1000 * random_.randrange(slots) for _ in range(count))
    return rows_table(
        deliver_at_ms=times,
        message_id=[ms.to_bytes(6) + i.to_bytes(10) for i, ms in enumerate(times)],
        payload=[b"hello"] * count,
        encoding=[1] * count,
        sent_at_ms=[START_MS] * count,
    )


def written(table: pa.Table, *, segment_rows: int = 5_000, slot_ms: int = 1000) -> tuple[bytes, LedgerSummary]:
    sink = BytesIO()
    writer = LedgerWriter(sink, topic="orders", generation="g", slot_ms=slot_ms, segment_rows=segment_rows)
    writer.write(table)
    summary = writer.close()
    return sink.getvalue(), summary


@pytest.mark.parametrize(("rows", "slots", "segment_rows"), [(20_000, 10_000_000, 5_000), (3_000, 1_000_000, 5)])
def test_a_ledger_with_a_tail_is_a_parquet_file_whose_tail_has_the_same_index(
    rows: int, slots: int, segment_rows: int
) -> None:
    table = many_rows(rows, slots)
    data, summary = written(table, segment_rows=segment_rows)
    tail = summary.tail
    assert tail is not None
    bucket = summary.bucket(bucket_id(summary.slots.min(), "b"), "ledgers/b")
    assert list(bucket.slots) == sorted({ms // 1000 for ms in table.column("deliver_at_ms").to_pylist()})
    held = bucket.without_tail()
    assert not held.complete
    assert held.with_tail(data[tail.offset : tail.offset + tail.length]) == bucket
    assert tail.offset == bucket.segments[-1].offset + bucket.segments[-1].length
    assert all(a.offset + a.length == b.offset for a, b in pairwise(bucket.segments))
    file = pq.ParquetFile(pa.BufferReader(data))
    assert (
        file.metadata.metadata[TAIL_TAG.encode()] == f"{tail.offset},{tail.slots_bytes},{tail.segments_bytes}".encode()
    )
    read = file.read()
    read.validate(full=True)
    assert read.equals(table)
    assert (summary.size_bytes, summary.rows) == (len(data), rows)


def test_a_small_ledger_has_no_tail() -> None:
    data, summary = written(many_rows(300, 10_000))
    assert summary.tail is None
    bucket = summary.bucket(bucket_id(summary.slots.min(), "b"), "ledgers/b")
    assert bucket.complete
    assert TAIL_TAG.encode() not in pq.ParquetFile(pa.BufferReader(data)).metadata.metadata
