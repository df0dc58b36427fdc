"""Encodes the occupied slots of a ledger as a sealed portable roaring bitmap.

The layout behind the checksum (`tidewheel.model.checksum`) is that of
https://github.com/RoaringBitmap/RoaringFormatSpec. A bitmap is checked completely before use. CRoaring checks the
content of containers after reading (`roaring_bitmap_internal_validate`, which pyroaring calls since 1.0.1). This module
checks only the rest, because a dispatch reads the bitmaps of all buckets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from pyroaring import BitMap

from tidewheel.errors import CorruptMetadata
from tidewheel.model.checksum import opened, sealed

_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_NO_OFFSETS_BELOW = 4
_ARRAY_NUMBERS = 4096
_BITSET_BYTES = 8192


def slots_of(numbers: Iterable[int]) -> BitMap:
    """Returns the bitmap of some slots."""
    return BitMap(numbers)


def encode_slots(slots: BitMap) -> bytes:
    """Returns the sealed portable form of a bitmap, with runs where runs are shorter."""
    compact = BitMap(slots)
    compact.run_optimize()
    return sealed(bytes(compact.serialize()))


def decode_slots(data: bytes) -> BitMap:
    """Reads the result of `encode_slots`.

    CRoaring refuses unsorted containers and numbers, and a wrong number of bits. CRoaring does not notice bytes behind
    the last container, such as the numbers of a container with a too low count, or a wrong count in a container of
    runs. This function checks both, because a slot that is not seen is never planned.

    Raises:
        CorruptMetadata: the data is damaged, not a bitmap, or an empty bitmap.
    """
    try:
        bitmap = opened(data)
        runs = list(_containers_of_runs(bitmap))
        slots = BitMap.deserialize(bitmap)
        for key, said in runs:
            if slots.range_cardinality(key << 16, (key + 1) << 16) != said:
                raise ValueError("a container holds more or fewer numbers than it says")
        if not slots:
            raise ValueError("there are no slots in it")
    except (ValueError, IndexError, OverflowError) as error:
        raise CorruptMetadata(f"bitmap of {len(data)} bytes is not readable ({error})") from None
    return slots


def _containers_of_runs(data: bytes) -> Iterator[tuple[int, int]]:
    """Yields the key and the stated count of numbers of each container with runs.

    Raises:
        ValueError: the containers do not end where the data ends.
    """
    cookie = int.from_bytes(data[:4], "little")
    with_runs = cookie & 0xFFFF == _COOKIE_WITH_RUNS
    if not with_runs and cookie != _COOKIE:
        raise ValueError("no cookie of a bitmap")
    containers = (cookie >> 16) + 1 if with_runs else int.from_bytes(data[4:8], "little")
    flags = data[4 : 4 + (containers + 7) // 8] if with_runs else b""
    at = 4 + len(flags) if with_runs else 8
    heads = data[at : at + 4 * containers]
    at += 4 * containers
    if at > len(data):
        raise ValueError("it ends within its head")
    if not with_runs or containers >= _NO_OFFSETS_BELOW:
        at += 4 * containers
    for number, (key, less_one) in enumerate(struct.iter_unpack("<HH", heads)):
        if with_runs and flags[number // 8] >> number % 8 & 1:
            yield key, less_one + 1
            at += 2 + 4 * int.from_bytes(data[at : at + 2], "little")
        else:
            at += 2 * (less_one + 1) if less_one < _ARRAY_NUMBERS else _BITSET_BYTES
    if at != len(data):
        raise ValueError(f"its containers end at {at}")
