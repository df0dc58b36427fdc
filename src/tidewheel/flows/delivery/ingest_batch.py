"""A batch of an ingest queue: packs of many topics, from anybody, of which none may crowd out another.

A pack of a kilobyte may hold three megabytes, and a batch six megabytes of packs. So they are decoded a portion at a
time, and what a portion holds is ingested before the next one is decoded: as SQS might have grouped them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidewheel.errors import KeysNotSettled
from tidewheel.model.pack import Pack

MAX_HELD_BYTES = 64 * 1024 * 1024
"""Of packs, decompressed, that are ingested at one time: held several times over, they fit ingest's memory."""

NamedPack = tuple[str, Pack]
"""A pack, and the id of the SQS message that it came in."""


def groups(packs: Iterable[NamedPack]) -> Iterator[list[NamedPack]]:
    """Yields packs by topic and generation; takes the next ones when those before are dealt with.

    By generation, too: a pack for a topic that is no more must not fail those for its successor. Whoever takes a group
    lets go of it before he asks for the next: two portions would be held else.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPacks:
    """Packs that come again.

    Attributes:
        names: of their SQS messages.
        error: what went wrong; None: there was no time for them.
    """

    names: list[str]
    error: Exception | None


def ingest_group(
    packs: list[NamedPack], ingest_packs: Callable[[list[Pack]], object], in_time: Callable[[], bool]
) -> list[PendingPacks]:
    """Ingests packs of one topic and generation, and halves them as long as one fails the others.

    That is so only before anything is committed: what a sender may put into the table, such as the entry of a key, is
    read when a message names it. After a commit the same packs come again together, and find their ledger.

    Args:
        packs: all of one topic and generation.
        ingest_packs: ingests some of them, or raises.
        in_time: whether there is time to begin.
    """
    if not in_time():
        return [PendingPacks(names=[name for name, _ in packs], error=None)]
    try:
        ingest_packs([pack for _, pack in packs])
    except Exception as error:
        if not isinstance(error, KeysNotSettled) or len(packs) == 1:
            return [PendingPacks(names=[name for name, _ in packs], error=error)]
        half = len(packs) // 2
        return [left for part in (packs[:half], packs[half:]) for left in ingest_group(part, ingest_packs, in_time)]
    return []
