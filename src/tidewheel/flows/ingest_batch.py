"""A batch of an ingest queue: packs of many topics, from anybody, of which none may crowd out another.

A pack of a kilobyte may hold three megabytes, and a batch six megabytes of packs. So they are decoded a portion at a
time, and what a portion holds is ingested before the next one is decoded: as SQS might have grouped them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidewheel.errors import CorruptMetadata, InvalidValue
from tidewheel.pack import Pack

MAX_HELD_BYTES = 64 * 1024 * 1024
"""Of packs, decompressed, that are ingested at one time: held several times over, they fit ingest's memory."""

NamedPack = tuple[str, Pack]
"""A pack, and the id of the SQS message that it came in."""


def groups(packs: Iterable[NamedPack]) -> Iterator[list[NamedPack]]:
    """Yields packs by topic and generation; takes the next ones when those before are dealt with.

    By generation, too: a pack for a topic that is no more must not fail those for its successor.
    """
    held: dict[tuple[str, str], list[NamedPack]] = {}
    held_bytes = 0
    for name, pack in packs:
        held.setdefault((pack.topic, pack.generation), []).append((name, pack))
        held_bytes += pack.raw_bytes
        if held_bytes > MAX_HELD_BYTES:
            yield from _emptied(held)
            held_bytes = 0
    yield from _emptied(held)


def _emptied(held: dict[tuple[str, str], list[NamedPack]]) -> Iterator[list[NamedPack]]:
    while held:
        yield held.pop(next(iter(held)))


def may_be_one_pack(packs: list[NamedPack], error: Exception) -> bool:
    """Whether one pack may have failed the others of its group, so that each is to be ingested alone.

    What a sender may put into the table, such as the entry of a key, is read when a message names it.
    """
    return len(packs) > 1 and isinstance(error, (CorruptMetadata, InvalidValue))
