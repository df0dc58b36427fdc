"""Random damage to stored bytes, as by disks, networks, programs and people."""

from __future__ import annotations

import random

_RUNS = (b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xfe\xff\xff\xff\x0f")


def damaged(chance: random.Random, data: bytes, start: int = 0) -> bytes:
    """Returns bytes with one to four faults at or behind `start`."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        if len(found) <= start:
            found += chance.randbytes(chance.randint(1, 9))
            continue
        at = chance.randrange(start, len(found))
        # Heads and ends say how the rest is to be read: they are hit more often.
        at = chance.choice((at, at, min(start + chance.randrange(16), len(found) - 1), len(found) - 1 - at % 16))
        _fault(chance, found, max(at, start), start)
    return bytes(found)


def _fault(chance: random.Random, found: bytearray, at: int, start: int) -> None:
    length = chance.choice((1, chance.randint(1, 12), chance.randint(1, len(found))))
    other = chance.randrange(start, len(found))
    match chance.randrange(10):
        case 0 | 1:
            found[at] ^= 1 << chance.randrange(8)
        case 2 | 3:
            found[at] = chance.randrange(256)
        case 4:
            run = chance.choice(_RUNS)
            found[at : at + len(run)] = run[: len(found) - at]
        case 5:
            del found[at : at + length]
        case 6:
            first, last = sorted((at, other))
            length = min(length, last - first, len(found) - last)
            found[first : first + length], found[last : last + length] = (
                found[last : last + length],
                found[first : first + length],
            )
        case 7:
            piece = found[other : other + length]
            found[at : at + len(piece)] = piece[: len(found) - at]
        case 8:
            found[at : at + length] = bytes(min(length, len(found) - at))
        case _:
            place = at if chance.random() < 0.5 else len(found)
            found[place:place] = chance.randbytes(length % 64 + 1)
