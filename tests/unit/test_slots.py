"""The bitmap of slots is refused if it is damaged, by its checksum or by CRoaring."""

from __future__ import annotations

import random
import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from tidewheel.errors import CorruptMetadata
from tidewheel.ledger.index import decode_slots, encode_slots
from tidewheel.model.checksum import opened, sealed


def array_of(numbers: list[int]) -> bytes:
    """A bitmap of one array container with any numbers."""
    head = struct.pack("<IIHHI", 12346, 1, 90, len(numbers) - 1, 16)
    return head + struct.pack(f"<{len(numbers)}H", *numbers)


def runs_of(runs: list[tuple[int, int]], *, said: int | None = None) -> bytes:
    """A bitmap of one container of runs, each with a first number and the count of the following numbers."""
    count = said if said is not None else sum(more + 1 for _, more in runs)
    head = struct.pack("<HHBHHH", 12347, 0, 1, 90, (count - 1) & 0xFFFF, len(runs))
    return head + b"".join(struct.pack("<HH", *run) for run in runs)


def run_bounds(run: tuple[int, int]) -> tuple[int, int]:
    return (90 << 16) + run[0], (90 << 16) + run[0] + run[1] + 1


def taken_slots(data: bytes) -> BitMap | None:
    """The slots of a bitmap, or None after a refusal."""
    try:
        return decode_slots(sealed(data))
    except CorruptMetadata:
        return None


def taken(data: bytes) -> list[int] | None:
    """The slots of a bitmap, relative to its container, or None after a refusal."""
    slots = taken_slots(data)
    return None if slots is None else [slot - (90 << 16) for slot in slots]


def in_order(numbers: list[int]) -> bool:
    return all(each < following for each, following in pairwise(numbers))


# Numbers at both ends of what 16 bits hold.
EDGES = st.sampled_from([0, 1, 2, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF]) | st.integers(0, 0xFFFF)


@settings(max_examples=100, deadline=None)
@given(st.lists(EDGES, min_size=1, max_size=9), st.booleans())
def test_an_array_is_taken_exactly_if_each_number_is_below_the_next(numbers: list[int], ordered: bool) -> None:
    numbers = sorted(set(numbers)) if ordered else numbers
    assert taken(array_of(numbers)) == (numbers if in_order(numbers) else None)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(EDGES, st.integers(0, 9) | EDGES), min_size=1, max_size=4), st.booleans())
def test_runs_are_taken_exactly_if_each_ends_ahead_of_the_next(runs: list[tuple[int, int]], ordered: bool) -> None:
    if ordered:
        bounds = sorted({each for run in runs for each in run})
        runs = [(first, last - first) for first, last in zip(bounds[::2], bounds[1::2], strict=False)] or [(5, 0)]
    bounds = [each for first, more in runs for each in (first, first + more + 1)]
    apart = in_order(bounds) and bounds[-1] <= 0x10000
    slots = taken_slots(runs_of(runs))
    assert (slots is not None) == apart
    assert slots is None or slots == BitMap.union(*(BitMap(range(*run_bounds(run))) for run in runs))


@pytest.mark.parametrize("count", [2, 2047, 4095, 4096])
def test_one_pair_that_is_out_of_order_is_found_wherever_it_is(count: int) -> None:
    numbers = [3 * i for i in range(count)]
    runs = [(3 * i, 1) for i in range(count)]
    assert taken(array_of(numbers)) == numbers
    assert taken_slots(runs_of(runs)) is not None
    for at in {1, count // 2, count - 1}:
        for wrong in (numbers[at - 1], numbers[at - 1] + 1 - 3 * (at > 1), 0):
            assert taken_slots(runs_of([*runs[:at], (wrong, 1), *runs[at + 1 :]])) is None
        assert taken(array_of([*numbers[:at], numbers[at - 1], *numbers[at + 1 :]])) is None
    assert taken(runs_of([*runs[:-1], (0xFFFF, 1)])) is None
    assert taken(runs_of([], said=1)) is None


@pytest.mark.parametrize("swapped", [None, 0, 1_500, 2_998])
def test_containers_are_read_in_order_only_however_many_there_are(swapped: int | None) -> None:
    keys = list(range(3_000))
    if swapped is not None:
        keys[swapped : swapped + 2] = reversed(keys[swapped : swapped + 2])
    heads = b"".join(struct.pack("<HH", key, 0) for key in keys)
    offsets = b"".join(struct.pack("<I", 8 + 8 * len(keys) + 2 * i) for i in range(len(keys)))
    data = struct.pack("<II", 12346, len(keys)) + heads + offsets + struct.pack("<H", 7) * len(keys)
    if swapped is None:
        assert list(decode_slots(sealed(data))) == [(key << 16) + 7 for key in keys]
    else:
        with pytest.raises(CorruptMetadata, match="bitmap of 30012 bytes"):
            decode_slots(sealed(data))


@pytest.mark.parametrize("seed", range(6))
def test_every_kind_of_container_is_read_as_it_was_written_and_refused_when_it_is_cut(seed: int) -> None:
    random_ = random.Random(seed)
    slots = BitMap(random_.sample(range(65_536), 9_000))  # bits
    slots |= BitMap(65_536 + each for each in random_.sample(range(65_536), random_.randrange(1, 4_096)))  # an array
    for first in random_.sample(range(131_072, 2**32 - 999), 5):  # runs
        slots.add_range(first, first + random_.randrange(100, 999))
    slots.add_range(2**32 - 50, 2**32)
    data = encode_slots(slots)
    assert decode_slots(data) == slots
    for _ in range(20):
        with pytest.raises(CorruptMetadata):
            decode_slots(data[: random_.randrange(len(data))])
        with pytest.raises(CorruptMetadata):
            decode_slots(sealed(opened(data)[: random_.randrange(len(data) - 4)]))
    with pytest.raises(CorruptMetadata):
        decode_slots(data + b"\0")
