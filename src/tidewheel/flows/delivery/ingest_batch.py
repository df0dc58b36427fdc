"""Groups a batch of the ingest queue by topic, so that no topic crowds out another.

A pack of a kilobyte may hold three megabytes, and a batch six megabytes of packs. So the packs are decoded in portions,
and each portion is ingested before the next is decoded. SQS might have grouped the packs in the same way. Packs that
come again are in portions that begin small, each deleted from the queue when it is done. So a call that dies of one of
them keeps what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from tidewheel.errors import CorruptPack
from tidewheel.flows.delivery.ingest import Ingested
from tidewheel.flows.delivery.refusing import PendingPacks
from tidewheel.ledger.bucket import content_id
from tidewheel.model.pack import PACK_ATTRIBUTE, SENDER_SKEW_MS, Arrival, Pack, decode_pack
from tidewheel.model.received import QueuedMessage
from tidewheel.model.refused import REDRIVEN

MAX_HELD_BYTES = 64 * 1024 * 1024
"""Decompressed bytes of packs that are ingested at one time. Several copies fit into ingest's memory."""
CALLS_AGAIN = 32
"""Calls of the table in the first portion of packs that come again. Each further portion has twice as many."""

NamedPack = tuple[str, Pack]
"""A pack, and the id of its SQS message."""


def is_pack(message: QueuedMessage) -> bool:
    """Returns whether a message of an ingest queue is a pack, and not a plain message."""
    return "BinaryValue" in message.attributes.get(PACK_ATTRIBUTE, {})


def pack_of(message: QueuedMessage) -> Pack:
    """Reads a pack from an ingest queue, by SQS's clock.

    The sender's time counts up to SQS's own time and the skew of an honest clock. A later time would outlive purges
    that come after the message, and would win its key for ever.

    A pack is redriven if `redrive_service` says so, or if it is older than its SQS message, like a dead letter.

    Raises:
        CorruptPack: the pack is unreadable.
        NewerRelease: the pack has a newer version.
    """
    data = message.attributes[PACK_ATTRIBUTE]["BinaryValue"]
    pack = decode_pack(data, message.sent_at_ms)
    redriven = REDRIVEN in message.attributes or pack.sent_at_ms + SENDER_SKEW_MS < message.sent_at_ms
    return replace(
        pack,
        sent_at_ms=min(pack.sent_at_ms, message.sent_at_ms + SENDER_SKEW_MS),
        arrival=Arrival(
            name=content_id(data),
            retried=message.receives > 1 or redriven,
            taken_ms=0 if redriven else message.sent_at_ms,
        ),
    )


class Group(NamedTuple):
    """Packs of one topic and generation.

    Attributes:
        packs: the packs.
        of: how many groups are left, with this group. Portions still to come count as one. The caller gives the group
            as large a share of its time.
    """

    packs: list[NamedPack]
    of: int


def groups(packs: Iterable[NamedPack]) -> Iterator[Group]:
    """Yields packs by topic and generation. Takes the next packs when the earlier ones are done.

    Packs are grouped by generation, too, because a pack for a deleted topic must not fail packs for its successor. The
    smallest group comes first, so that what it leaves of its share goes to the larger groups. The caller must release
    a group before the next is requested; otherwise two portions are held.
    """
    held: dict[tuple[str, str], list[NamedPack]] = {}
    held_bytes, calls, most_calls = 0, 0, CALLS_AGAIN
    for name, pack in packs:
        held.setdefault((pack.topic, pack.generation), []).append((name, pack))
        held_bytes += pack.raw_bytes
        calls += _calls_again(pack)
        if held_bytes > MAX_HELD_BYTES or calls >= most_calls:
            yield from _emptied(held, more=1)
            most_calls *= 2 if calls else 1
            held_bytes = calls = 0
    yield from _emptied(held, more=0)


def _calls_again(pack: Pack) -> int:
    """Returns about how many calls of the table a pack takes that comes again. Returns 0 at its first try."""
    if pack.arrival is None or not pack.arrival.retried:
        return 0
    return 1 + len(pack.cancellations) + (0 if pack.options is None else len(pack))


def _emptied(held: dict[tuple[str, str], list[NamedPack]], more: int) -> Iterator[Group]:
    for topic in sorted(held, key=lambda each: sum(pack.raw_bytes for _, pack in held[each])):
        yield Group(held.pop(topic), of=len(held) + 1 + more)


def ingest_group(
    packs: list[NamedPack],
    ingest_packs: Callable[[list[Pack]], Ingested],
    in_time: Callable[[], bool],
) -> list[PendingPacks]:
    """Ingests packs of one topic and generation. Halves the group while a corrupt pack fails the others.

    A pack can fail the others only before the commit. After a commit the same packs come again together, and find
    their ledger.

    Args:
        packs: all of one topic and generation.
        ingest_packs: ingests some of them, or raises.
        in_time: whether there is time to begin.
    """
    if not packs:
        return []
    if not in_time():
        return [_pending(packs, None)]
    try:
        return _pending_of(packs, ingest_packs([pack for _, pack in packs]))
    except Exception as error:
        if not isinstance(error, CorruptPack) or len(packs) == 1:
            return [_pending(packs, error)]
        half = len(packs) // 2
        parts = packs[:half], packs[half:]
        return [each for part in parts for each in ingest_group(part, ingest_packs, in_time)]


def _pending_of(packs: list[NamedPack], done: Ingested) -> list[PendingPacks]:
    """Returns the packs that come again, by their errors."""
    names: dict[Exception, list[str]] = {}
    for place, error in done.pending.items():
        names.setdefault(error, []).append(packs[place][0])
    return [PendingPacks(names=some, error=error) for error, some in names.items()]


def _pending(packs: list[NamedPack], error: Exception | None) -> PendingPacks:
    return PendingPacks(names=[name for name, _ in packs], error=error)
