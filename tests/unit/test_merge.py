"""Tests the choice and the cuts of merges. Merging ends and costs little in the long run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from tidewheel.flows.maintenance.consider_merge import SMALL_BYTES, SMALL_ROWS, size_of
from tidewheel.flows.maintenance.merge_planning import (
    FULL_BYTES,
    MAX_ITEMS,
    MAX_MERGE_BYTES,
    MAX_OUTPUT_BYTES,
    MAX_OUTPUT_ROWS,
    MAX_OUTPUTS,
    Merge,
    Size,
    Window,
    _windows,
    choose,
    windows,
)
from tidewheel.flows.ports import MergeSize
from tidewheel.ledger.bucket import Bucket, BucketId

SLOT_MS = 300_000
HOUR = 3_600_000
DAY = 24 * HOUR
START_MS = 1_767_225_600_000  # 2026-01-01, a Thursday
KIB, MIB = 1024, 1024 * 1024


def slot_at(*date: int, slot_ms: int = SLOT_MS) -> int:
    """The slot of a time (UTC)."""
    return int(datetime(*date, tzinfo=UTC).timestamp() * 1000) // slot_ms  # type: ignore[arg-type, misc]


PLANNED = slot_at(2026, 1, 1)
SOON = HOUR // SLOT_MS


def a_bucket(
    number: int = 0, size: int = 10 * KIB, slots: Iterable[int] = range(1000, 2000), *, rows: int = 100, shift: int = 0
) -> Bucket:
    """A bucket of some bytes. Slots count from PLANNED."""
    occupied = BitMap(PLANNED + slot >> shift for slot in slots)
    return Bucket(
        id=BucketId(f"b{number:04d}"),
        object_name=f"ledgers/{number}",
        size_bytes=size,
        rows=rows,
        slots=occupied,
        segments=(),
        slot_shift=shift,
    )


def some_buckets(count: int, size: int = 10 * KIB, first: int = 0) -> list[Bucket]:
    return [a_bucket(number, size) for number in range(first, first + count)]


def chosen(buckets: Sequence[Bucket], max_buckets: int = 8, *, everything: bool = False) -> Merge:
    merge = choose(buckets, PLANNED, SLOT_MS, max_buckets, everything=everything)
    assert merge is not None
    return merge


def nothing_chosen(buckets: Sequence[Bucket], max_buckets: int = 8, *, everything: bool = False) -> bool:
    return choose(buckets, PLANNED, SLOT_MS, max_buckets, everything=everything) is None


# ---- which ledgers
@pytest.mark.parametrize("count", [0, 1, 2, 8])
def test_up_to_max_buckets_nothing_is_merged(count: int) -> None:
    assert nothing_chosen(some_buckets(count))
    assert not nothing_chosen(some_buckets(9))


def test_everything_is_merged_if_asked_however_few_there_are() -> None:
    assert list(chosen(some_buckets(2), everything=True).sources) == some_buckets(2)
    assert nothing_chosen(some_buckets(1), everything=True)
    mixed = [*some_buckets(2), *some_buckets(2, MIB, 5), *some_buckets(1, 100 * MIB, 9)]
    assert list(chosen(mixed, everything=True).sources) == mixed


def test_the_lowest_tier_with_eight_ledgers_is_merged_whole() -> None:
    tier_0, tier_1, tier_2 = some_buckets(7), some_buckets(9, MIB, 10), some_buckets(20, 10 * MIB, 30)
    assert list(chosen([*tier_2, *tier_0, *tier_1]).sources) == tier_1
    eighth = a_bucket(99, 1)
    assert list(chosen([*tier_2, *tier_0, eighth, *tier_1]).sources) == [*tier_0, eighth]


@pytest.mark.parametrize(("size", "tier"), [(256 * KIB - 1, 0), (256 * KIB, 1), (2 * MIB - 1, 1), (2 * MIB, 2)])
def test_tiers_are_powers_of_eight_from_32_kib(size: int, tier: int) -> None:
    inside = (100 * KIB, MIB, 4 * MIB)[tier]
    rest = [each for other in range(3) if other != tier for each in some_buckets(1, (1, MIB, 4 * MIB)[other], other)]
    members = [a_bucket(50, size), *some_buckets(7, inside, 60)]
    assert list(chosen([*rest, *members]).sources) == members


def test_a_ledger_s_tier_is_of_the_bytes_that_are_still_to_be_planned() -> None:
    small = some_buckets(7)
    mostly_past = a_bucket(50, 10 * MIB, [*range(-990, 0), *range(1000, 1010)])
    others = some_buckets(7, 10 * MIB, 60)
    merge = chosen([*others, *small, mostly_past])
    assert list(merge.sources) == [*small, mostly_past]
    assert merge.live_bytes == 7 * 10 * KIB + 10 * MIB // 100


def test_where_no_tier_has_eight_the_smallest_are_merged_to_half_the_limit() -> None:
    buckets = [a_bucket(20 * tier + i, 8**tier * 40 * KIB + i) for tier in (3, 1, 0, 2) for i in range(3)]
    by_size = sorted(buckets, key=lambda bucket: bucket.size_bytes)
    assert list(chosen(buckets).sources) == by_size[:4]


@pytest.mark.parametrize("max_buckets", [1, 2, 3])
def test_however_low_the_limit_two_ledgers_are_merged_at_least(max_buckets: int) -> None:
    assert len(chosen(some_buckets(4), max_buckets).sources) == 2


def test_full_ledgers_are_neither_counted_nor_merged() -> None:
    full = some_buckets(20, FULL_BYTES, 100)
    assert nothing_chosen([*full, *some_buckets(8)])
    assert list(chosen([*full, *some_buckets(9)]).sources) == some_buckets(9)
    assert list(chosen([*full, *some_buckets(2)], everything=True).sources) == some_buckets(2)
    assert nothing_chosen(full, everything=True)


def test_a_full_ledger_counts_again_when_most_of_it_is_planned() -> None:
    shrunk = a_bucket(50, FULL_BYTES, [*range(-2000, 0), 1000])
    assert shrunk in chosen([*some_buckets(8), shrunk]).sources


def test_ledgers_that_end_within_the_hour_are_neither_counted_nor_merged() -> None:
    ending = [a_bucket(100 + i, slots=[SOON - 1]) for i in range(20)]
    assert nothing_chosen([*some_buckets(8), *ending])
    assert nothing_chosen(ending, everything=True)
    lasting = a_bucket(200, slots=[2, SOON])
    assert lasting in chosen([*some_buckets(8), *ending, lasting]).sources


def test_with_slots_longer_than_an_hour_those_that_end_with_the_next_slot_are_left_alone() -> None:
    slot = START_MS // DAY
    ending = [replace_slots(bucket, [slot]) for bucket in some_buckets(9)]
    assert choose(ending, slot, DAY, 8) is None
    assert choose([replace_slots(bucket, [slot + 1]) for bucket in ending], slot, DAY, 8) is not None


def replace_slots(bucket: Bucket, slots: list[int]) -> Bucket:
    return replace(bucket, slots=BitMap(slots))


# ---- how many
def test_as_many_ledgers_are_merged_at_once_as_one_swap_takes_beside_the_outputs() -> None:
    assert len(chosen(some_buckets(300)).sources) == MAX_ITEMS - MAX_OUTPUTS


def test_at_most_four_gib_are_merged_at_once() -> None:
    merge = chosen(some_buckets(60, 200 * MIB))
    assert len(merge.sources) == 20
    assert merge.live_bytes <= MAX_MERGE_BYTES


def test_at_most_three_mib_of_bitmaps_are_swapped_at_once() -> None:
    # Every second slot of 65,536 is a bitmap of 8 KiB: nine of those are 72 KiB.
    slots = BitMap(range(PLANNED >> 16 << 16, (PLANNED >> 16) + 9 << 16, 2))
    merge = chosen([replace(bucket, slots=slots) for bucket in some_buckets(60)])
    assert len(merge.sources) == 3 * MIB // (9 * 8 * KIB + 100)


# ---- cuts


def test_rows_that_are_planned_are_before_the_first_cut() -> None:
    merge = chosen([*some_buckets(8), a_bucket(50, slots=range(-5, 50))])
    assert merge.windows == (Window(PLANNED, PLANNED + 2000),)


def test_the_first_cut_is_at_the_first_slot_that_is_occupied() -> None:
    merge = chosen([*some_buckets(8), a_bucket(50, slots=[-5, 17, 5000])])
    assert merge.windows == (Window(PLANNED + 17, PLANNED + 5001),)


def test_large_ledgers_are_cut_into_windows_that_grow() -> None:
    merge = chosen([a_bucket(i, 30 * MIB, range(0, 90 * 288)) for i in range(40)])
    widths = [end - first for first, end, share, _ in merge.windows if share == 0]
    assert 3 < len(widths) <= 10
    assert widths[0] < widths[-2] / 2


def test_what_is_too_large_for_a_ledger_is_shared_by_several_also_within_a_slot() -> None:
    by_bytes = chosen([a_bucket(i, 250 * MIB, range(20, 40)) for i in range(9)])
    assert by_bytes.live_bytes / len(by_bytes.windows) <= MAX_OUTPUT_BYTES
    by_rows = chosen([a_bucket(i, slots=range(0, 2000), rows=1_000_000) for i in range(9)])
    assert by_rows.windows == (Window(PLANNED, PLANNED + 2000, 0, 2), Window(PLANNED, PLANNED + 2000, 1, 2))
    assert 9_000_000 > MAX_OUTPUT_ROWS >= 9_000_000 / 2
    one_slot = chosen([a_bucket(i, 250 * MIB, [77]) for i in range(9)])
    assert one_slot.windows == tuple(Window(PLANNED + 77, PLANNED + 78, share, 5) for share in range(5))


def test_outputs_are_fewer_than_sources_however_much_is_in_a_slot() -> None:
    merge = chosen([a_bucket(i, 250 * MIB, [77], rows=10**8) for i in range(9)])
    assert [window.shares for window in merge.windows] == [8] * 8


@pytest.mark.parametrize("late", [range(0, 8000), range(1000, 1001), range(7999, 8000)])
@pytest.mark.parametrize(("rows", "most_rows"), [(100, 8200), (480_000, MAX_OUTPUT_ROWS), (3_000_000, 15_400_000)])
def test_outputs_of_many_windows_fit_into_a_ledger_each_unless_there_are_too_many_rows(
    late: range, rows: int, most_rows: int
) -> None:
    merge = chosen([a_bucket(i, 49 * MIB, late if i else range(0, 8000), rows=rows) for i in range(82)])
    assert (len(merge.sources), merge.windows[-1].end_slot) == (82, PLANNED + 8000)
    for first, end, _, shares in merge.windows:
        held = [source.share(first, end) / shares for source in merge.sources]
        assert sum(held) * 49 * MIB <= MAX_OUTPUT_BYTES
        assert sum(held) * rows <= most_rows


def test_outputs_have_ids_of_their_own_that_depend_on_sources_and_windows_only() -> None:
    merge = chosen([a_bucket(i, 250 * MIB, range(0, 90 * 288)) for i in range(9)])
    again = chosen([a_bucket(i, 250 * MIB, range(0, 90 * 288)) for i in reversed(range(9))])
    others = chosen([a_bucket(i, 250 * MIB, range(0, 90 * 288)) for i in range(1, 10)])
    assert list(map(merge.output_id, merge.windows)) == list(map(again.output_id, again.windows))
    ids = {each.output_id(window) for window in merge.windows for each in (merge, others)}
    assert len(ids) == 2 * len(merge.windows)


bucket_sets = st.lists(
    st.tuples(
        st.integers(1, 40).map(lambda power: 2**power),
        st.integers(-2000, 40_000),
        st.integers(1, 40_000),
        st.integers(0, 10**8),
        st.integers(0, 6),
    ),
    max_size=120,
)


@settings(max_examples=60, deadline=None)
@given(bucket_sets, st.integers(1, 80), st.booleans())
def test_any_merge_fits_one_transaction_and_its_cuts_cover_all_that_is_live(
    drawn: list[tuple[int, int, int, int, int]], max_buckets: int, everything: bool
) -> None:
    buckets = [
        a_bucket(i, size, range(first, first + length, 1 << shift), rows=rows, shift=shift)
        for i, (size, first, length, rows, shift) in enumerate(drawn)
    ]
    merge = choose(buckets, PLANNED, SLOT_MS, max_buckets, everything=everything)
    if merge is None:
        return
    assert len(merge.sources) >= 2
    assert len(merge.sources) + len(merge.windows) <= MAX_ITEMS
    assert len(merge.windows) <= MAX_OUTPUTS
    assert merge.live_bytes <= MAX_MERGE_BYTES
    assert merge.windows[0].first_slot >= PLANNED and merge.windows[0].share == 0
    for before, after in pairwise(merge.windows):
        assert before.first_slot < before.end_slot
        more = before.share + 1 < before.shares
        assert after == (
            before._replace(share=before.share + 1) if more else after._replace(first_slot=before.end_slot, share=0)
        )
    for source in merge.sources:
        first = source.next_slot(PLANNED)
        assert first is not None
        assert merge.windows[0].first_slot <= first <= source.last_slot < merge.windows[-1].end_slot


# ---- windows
def test_windows_are_the_wider_the_later_they_are() -> None:
    assert windows(5, 40, 100) == [(5, 6), (6, 8), (8, 16), (16, 32), (32, 40)]


firsts, lengths = st.integers(0, 3 * 10**9), st.integers(1, 1000) | st.integers(1, 10**9)


@settings(max_examples=80, deadline=None)
@given(firsts, lengths, st.integers(1, 200))
def test_windows_divide_the_slots_without_a_gap_and_are_no_more_than_asked(first: int, length: int, most: int) -> None:
    found = windows(first, first + length, most)
    assert 1 <= len(found) <= most
    assert (found[0][0], found[-1][1]) == (first, first + length)
    assert all(a < b for a, b in found)
    assert all(before[1] == after[0] for before, after in pairwise(found))


@settings(max_examples=100, deadline=None)
@given(firsts, lengths, st.data())
def test_an_earlier_coarser_division_s_cuts_that_are_still_ahead_are_cuts_of_a_later_finer_one(
    first: int, length: int, data: st.DataObject
) -> None:
    end = first + length
    later = data.draw(st.integers(first, end - 1))
    finer, coarser = sorted(data.draw(st.tuples(st.integers(0, 20), st.integers(0, 20))))
    ahead = {b for _, b in _windows(first, end, 1 << coarser) if b > later}
    assert ahead <= {b for _, b in _windows(later, end, 1 << finer)}


# ---- where it runs
@pytest.mark.parametrize(
    ("size", "rows", "expected"),
    [
        (SMALL_BYTES // 4, SMALL_ROWS // 4, MergeSize.SMALL),
        (SMALL_BYTES // 4 + 1, 100, MergeSize.LARGE),
        (KIB, SMALL_ROWS // 4 + 1, MergeSize.LARGE),
    ],
)
def test_a_merge_is_a_functions_up_to_a_number_of_bytes_and_of_rows(size: int, rows: int, expected: MergeSize) -> None:
    assert size_of(chosen([a_bucket(i, size, rows=rows) for i in range(4)], everything=True)) is expected


@pytest.mark.parametrize(("most", "sources"), [(Size(5 * KIB, inf), 5), (Size(MIB, 300), 3), (Size(KIB, 1000), 0)])
def test_a_merge_has_as_many_ledgers_as_may_be_rewritten_at_once(most: Size, sources: int) -> None:
    merge = choose(some_buckets(9, KIB), PLANNED, SLOT_MS, 8, most=most)
    assert (0 if merge is None else len(merge.sources)) == sources


# ---- in the long run
class Simulation:
    """Sixty days in slots of an hour, with twelve ledgers an hour, each spread evenly over the following time.

    Merges are idealised: an output weighs what its window of the sources weighs.
    """

    MOST_MERGES = 1500

    def __init__(self, ledger_bytes: int, *, max_buckets: int = 64, ahead_hours: int = 60 * 24) -> None:
        self.live: list[Bucket] = []
        self.merges = self.ingested = self.rewritten = self.most_live = self.largest = 0
        start = START_MS // HOUR
        for hour in range(start, start + 60 * 24):
            self.live = [bucket for bucket in self.live if bucket.last_slot >= hour]
            for _ in range(12):
                self._ingest(ledger_bytes, range(hour + 1, hour + 1 + ahead_hours))
                if self.ingested // ledger_bytes % (max_buckets // 2) == 0:
                    self._merge(hour, max_buckets)
            small = sum(b.size_bytes * b.share(hour, b.last_slot + 1) < FULL_BYTES for b in self.live)
            self.most_live = max(self.most_live, small)

    def _ingest(self, ledger_bytes: int, slots: range) -> None:
        self.ingested += ledger_bytes
        self._add(f"{self.ingested:016d}", ledger_bytes, BitMap(slots))

    def _add(self, name: str, size: int, slots: object) -> None:
        self.live.append(
            Bucket(id=BucketId(name), object_name=name, size_bytes=size, rows=100, slots=slots, segments=())
        )

    def _merge(self, hour: int, max_buckets: int) -> None:
        while (merge := choose(self.live, hour, HOUR, max_buckets)) is not None:
            self.merges += 1
            assert self.merges <= self.MOST_MERGES, f"{len(self.live)} live ledgers, and merging does not end"
            self.rewritten += merge.live_bytes
            self.largest = max(self.largest, merge.live_bytes)
            gone = {source.id for source in merge.sources}
            self.live = [bucket for bucket in self.live if bucket.id not in gone]
            for window in merge.windows:
                a, b, share, shares = window
                slots = BitMap(()).union(*(source.slots for source in merge.sources)) & BitMap(range(a, b))
                slots = slots[len(slots) * share // shares : len(slots) * (share + 1) // shares]
                if slots:
                    size = int(sum(source.share(a, b) * source.size_bytes for source in merge.sources) / shares)
                    self._add(merge.output_id(window), size, slots)


@pytest.mark.parametrize(
    ("ledger_bytes", "ahead_hours"),
    [(KIB, 60 * 24), (100 * KIB, 60 * 24), (MIB, 60 * 24), (100 * KIB, 24), (10 * MIB, 60 * 24)],
)
def test_over_sixty_days_live_ledgers_stay_few_and_bytes_are_rewritten_less_than_four_times(
    ledger_bytes: int, ahead_hours: int
) -> None:
    done = Simulation(ledger_bytes, ahead_hours=ahead_hours)
    assert done.most_live <= 1.6 * 64
    assert done.rewritten <= 4 * done.ingested
    if ledger_bytes < MIB:  # less than a gigabyte waits: Glue is not needed
        assert done.largest <= SMALL_BYTES
