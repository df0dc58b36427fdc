"""Tells where a ledger's bytes lie in time, in a few numbers of its bucket.

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

from tidewheel.errors import CorruptMetadata
from tidewheel.ledger.thrift import varint
from tidewheel.model.checksum import opened, sealed

_NUMBERS = 4
_MOST_BITS = 63


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
        numbers = _numbers(opened(data))
        if len(numbers) % _NUMBERS:
            raise ValueError("it ends within a weight")
    except ValueError as error:
        raise CorruptMetadata(f"weights of {len(data)} bytes are not readable ({error})") from None
    found = []
    before = 0
    for gap, length, raw_bytes, expires_s in zip(*[iter(numbers)] * _NUMBERS, strict=True):
        first_slot = before + gap
        before = first_slot + length
        found.append(Weight(first_slot, before, raw_bytes, expires_s))
    return tuple(found)


def _numbers(data: bytes) -> list[int]:
    numbers = []
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
        elif shift > _MOST_BITS:
            raise ValueError("a number has no end")
    if shift:
        raise ValueError("it ends within a number")
    return numbers
