r"""Encodes values in Thrift's compact protocol.

varint      7 bits a byte, lowest first, high bit set on all but the last byte
integer     varint of its zigzag form: 0, -1, 1, -2, ... -> 0, 1, 2, 3, ...
string      varint length | bytes
list        1 byte: length << 4 | element type (length >= 15: 0xF0 | type, then varint length) | elements
struct      fields | 0x00
field       1 byte: (its number - the number of the field before) << 4 | type | value
types       1 true, 2 false, 5 i32, 6 i64, 8 string, 9 list, 12 struct
"""

from __future__ import annotations

from functools import lru_cache

STOP = b"\x00"
I32, I64, STRING, LIST, STRUCT = 5, 6, 8, 9, 12


def varint(value: int) -> bytes:
    """Encodes a number that is not negative."""
    # A ledger's footers hold thousands of these, nearly all of one to three bytes, and many are equal.
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number(encoded: bytes) -> int:
    """Reads the result of `integer` for a number that is not negative."""
    found = 0
    for byte in reversed(encoded):
        found = found << 7 | byte & 0x7F
    return found >> 1


@lru_cache(maxsize=4096)
def integer(value: int) -> bytes:
    """Encodes any number."""
    return varint(value << 1 if value >= 0 else ~value << 1 | 1)


def string(value: bytes) -> bytes:
    """Encodes bytes with their length."""
    return varint(len(value)) + value


def list_head(length: int, element_type: int) -> bytes:
    """Encodes the head of a list, before its elements."""
    if length < 15:
        return bytes((length << 4 | element_type,))
    return bytes((0xF0 | element_type,)) + varint(length)
