"""Encodes the occupied slots of a ledger: all of them as a bitmap, and runs of slots with their bytes as weights.

The bitmap is a sealed portable roaring bitmap. The layout behind the checksum (`tidewheel.model.checksum`) is that of
https://github.com/RoaringBitmap/RoaringFormatSpec. The checksum notices damage, and CRoaring checks the content of
containers (`roaring_bitmap_internal_validate`, which pyroaring calls since 1.0.1).

A weight is a run of occupied slots:

    slots      |--0--|----1----|--------2--------|     of a ledger with a raw size of 1,000 bytes
    raw_bytes    700     250            50             most of its bytes are due soon

The segment table cannot say this: a small ledger is one segment, whose rows may be due over ten years. With weights, a
collection knows the dead bytes of every ledger without a read of S3. A run has at most a 16th of the ledger's bytes, or
is a single slot.

Encoded: sealed (`tidewheel.model.checksum`) unsigned LEB128 numbers, four a weight:

    first_slot - last_slot of the one before   last_slot - first_slot   raw_bytes   expires_s, 0 if a row never expires
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyroaring import BitMap

from tidewheel.errors import CorruptMetadata
from tidewheel.ledger.footer import varint
from tidewheel.ledger.segment_table import varints
from tidewheel.model.checksum import opened, sealed

_WEIGHT_NUMBERS = 4


def encode_slots(slots: BitMap) -> bytes:
    """Returns the sealed portable form of a bitmap, with runs where runs are shorter."""
    compact = BitMap(slots)
    compact.run_optimize()
    return sealed(bytes(compact.serialize()))


def decode_slots(data: bytes) -> BitMap:
    """Reads the result of `encode_slots`.

    Raises:
        CorruptMetadata: the data is damaged, not a bitmap, or an empty bitmap.
    """
    try:
        slots = BitMap.deserialize(opened(data))
        if not slots:
            raise ValueError("there are no slots in it")
    except ValueError as error:
        raise CorruptMetadata(f"bitmap of {len(data)} bytes is not readable ({error})") from None
    return slots


class Weight(NamedTuple):
    """The rows of a run of slots.

    Attributes:
        first_slot, last_slot: the first and the last occupied slot.
        raw_bytes: as segments count them.
        expires_s: the second at which the last of the rows has expired. 0: a row never expires.
    """

    first_slot: int
    last_slot: int
    raw_bytes: int
    expires_s: int = 0


def encode_weights(weights: Iterable[Weight]) -> bytes:
    """Returns the weights of a bucket's item."""
    out = bytearray()
    before = 0
    for each in weights:
        for number in (each.first_slot - before, each.last_slot - each.first_slot, each.raw_bytes, each.expires_s):
            out += varint(number)
        before = each.last_slot
    return sealed(bytes(out))


def decode_weights(data: bytes) -> tuple[Weight, ...]:
    """Reads the result of `encode_weights`.

    Raises:
        CorruptMetadata: the data is damaged.
    """
    try:
        numbers = list(varints(opened(data)))
        if len(numbers) % _WEIGHT_NUMBERS or data[-1] >= 0x80:
            raise ValueError("it ends within a weight")
    except ValueError as error:
        raise CorruptMetadata(f"weights of {len(data)} bytes are not readable ({error})") from None
    found = []
    before = 0
    for gap, length, raw_bytes, expires_s in zip(*[iter(numbers)] * _WEIGHT_NUMBERS, strict=True):
        first_slot = before + gap
        before = first_slot + length
        found.append(Weight(first_slot, before, raw_bytes, expires_s))
    return tuple(found)
