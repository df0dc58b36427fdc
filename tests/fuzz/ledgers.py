"""Ledgers that lie: damaged bytes with checksums that match, read as the product reads them.

Run as a program (`python -m tests.fuzz.ledgers <examples> <seed>`) it does so in a process of its own: a crash in Arrow
or CRoaring ends that one only. It prints what it tried and what was refused, as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace

from tests.fuzz.good import SLOTS, ledger
from tidewheel.errors import TidewheelError
from tidewheel.flows.parking import parked_rows
from tidewheel.flows.release import releases
from tidewheel.inspection import inspect
from tidewheel.ledger import decode_segment
from tidewheel.ledger_reader import segments_of, tags_of
from tidewheel.memory.objects import MemoryObjects
from tidewheel.park import Park, ParkKey
from tidewheel.segment import Segment
from tidewheel.slots import decode_slots

NAME = "ledgers/orders/2027-01-15/6000000-0123456789abcdef0123456789abcdef-0123456789abcdef.parquet"
_RUNS = (b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xfe\xff\xff\xff\x0f")


def damaged(chance: random.Random, data: bytes, start: int) -> bytes:
    """Returns bytes with one to four faults behind `start`."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(start, len(found))
        match chance.randrange(4):
            case 0:
                found[at] ^= 1 << chance.randrange(8)
            case 1:
                found[at] = chance.randrange(256)
            case 2:
                run = chance.choice(_RUNS)
                found[at : at + len(run)] = run[: len(found) - at]
            case _:
                length = chance.randint(1, 12)
                other = chance.randrange(start, len(found))
                piece = found[other : other + length]
                found[at : at + len(piece)] = piece[: len(found) - at]
    return bytes(found)


def read_segment(data: bytes, segment: Segment) -> None:
    """Reads one segment with its checksum put right, and makes messages of it."""
    honest = zlib.crc32(data[4:]).to_bytes(4, "little") + data[4:]
    releases(decode_segment(honest, object_name=NAME, segment=segment))


def read_whole(data: bytes) -> None:
    """Reads a ledger by its own footer, as a merge, a rebuild and a drain do."""

    def read(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    inspect(read, len(data), NAME, 300_000)
    tags_of(read, len(data), NAME)
    key = ParkKey(topic="orders", subscription="billing", generation="s1", id="p")
    park = Park(key=key, rows=1, size_bytes=len(data), look_at_ms=0, ledger=data)
    releases(parked_rows(MemoryObjects(), park))


def attacks(chance: random.Random) -> Iterator[tuple[str, object]]:
    """Yields the name of a decoder and what it is called with, for ever."""
    encoded = ledger()
    whole = encoded.data
    segments = segments_of(lambda offset, length: whole[offset : offset + length], len(whole), NAME)
    footer = segments[-1].offset + segments[-1].length
    while True:
        segment = chance.choice(segments)
        data = whole[segment.offset : segment.offset + segment.length]
        # Half of the faults go where the pages are described, the others anywhere.
        start = 4 if chance.random() < 0.5 else chance.randrange(4, len(data) - 8)
        yield "segment of a ledger", (damaged(chance, data, start), segment)
        lie = replace(
            segment, **{chance.choice(("rows", "raw_bytes", "last_deliver_at_ms")): chance.choice((0, 2**62))}
        )
        yield "segment of a ledger", (data, lie)
        yield "whole ledger", damaged(chance, whole, footer if chance.random() < 0.7 else 4)
        yield "whole ledger", whole[chance.randrange(len(whole)) :]
        yield "bitmap of slots", damaged(chance, chance.choice(SLOTS), 0)


def main(examples: int, seed: int) -> dict[str, int]:
    """Tries hostile input; returns how often, and how often it was refused, by decoder."""
    counts: dict[str, int] = {}
    attack = attacks(random.Random(seed))
    for _ in range(examples):
        name, given = next(attack)
        counts[name] = counts.get(name, 0) + 1
        try:
            match name, given:
                case "segment of a ledger", (bytes(data), Segment() as segment):
                    read_segment(data, segment)
                case "whole ledger", bytes(data):
                    read_whole(data)
                case _, bytes(data):
                    slots = decode_slots(data)
                    assert list(slots.iter_equal_or_larger(0)) == sorted(slots)
        except TidewheelError:
            refused = f"refused {name}"
            counts[refused] = counts.get(refused, 0) + 1
    return counts


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))))
