"""Seals stored bytes with a checksum, verified before a parser reads them.

    sealed   | CRC-32 of the rest, 4 bytes LE | the rest, at least 1 byte |

Parsers in C and C++ trust their input. Damaged bytes can make Arrow end the whole process.
"""

from __future__ import annotations

import zlib

CHECKSUM_BYTES = 4


def seal_of(*pieces: bytes | memoryview) -> bytes:
    """Returns the checksum of the joined pieces."""
    checksum = 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
    return checksum.to_bytes(CHECKSUM_BYTES, "little")


def sealed(rest: bytes) -> bytes:
    """Returns bytes with their checksum in front."""
    return seal_of(rest) + rest


def check(data: bytes | memoryview) -> None:
    """Verifies the checksum of sealed bytes.

    Raises:
        ValueError: the bytes are damaged, cut short, or were never sealed.
    """
    view = memoryview(data)
    if len(view) <= CHECKSUM_BYTES:
        raise ValueError(f"{len(view)} bytes are too few for a checksum and content")
    if seal_of(view[CHECKSUM_BYTES:]) != view[:CHECKSUM_BYTES]:
        raise ValueError("the checksum does not match")


def opened(data: bytes) -> bytes:
    """Returns sealed bytes without their checksum.

    Raises:
        ValueError: the bytes are damaged, cut short, or were never sealed.
    """
    check(data)
    return data[CHECKSUM_BYTES:]
