"""Groups a batch of the ingest queue by topic, so that no topic crowds out another.

A pack of a kilobyte may hold three megabytes, and a batch six megabytes of packs. So the packs are decoded in portions,
and each portion is ingested before the next is decoded. SQS might have grouped the packs in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tidewheel.errors import CorruptPack, KeysNotSettled
from tidewheel.flows.delivery.ingest import Ingested
from tidewheel.flows.delivery.keys import candidates_of
from tidewheel.ledger.bucket import content_id
from tidewheel.model.pack import PACK_ATTRIBUTE, SENDER_SKEW_MS, Arrival, Pack, decode_pack, select
from tidewheel.model.refused import REDRIVEN, QueuedMessage

MAX_HELD_BYTES = 64 * 1024 * 1024
"""Decompressed bytes of packs that are ingested at one time. Several copies fit into ingest's memory."""

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
    held_bytes = 0
    for name, pack in packs:
        held.setdefault((pack.topic, pack.generation), []).append((name, pack))
        held_bytes += pack.raw_bytes
        if held_bytes > MAX_HELD_BYTES:
            yield from _emptied(held, more=1)
            held_bytes = 0
    yield from _emptied(held, more=0)


def _emptied(held: dict[tuple[str, str], list[NamedPack]], more: int) -> Iterator[Group]:
    for topic in sorted(held, key=lambda each: sum(pack.raw_bytes for _, pack in held[each])):
        yield Group(held.pop(topic), of=len(held) + 1 + more)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPacks:
    """Packs that are left in the queue and come again.

    Attributes:
        names: of their SQS messages.
        error: the failure; None: there was no time for the packs.
    """

    names: list[str]
    error: Exception | None


def ingest_group(
    packs: list[NamedPack],
    ingest_packs: Callable[[list[Pack]], Ingested],
    refuse_some: Callable[[str, Pack, Exception], None],
    in_time: Callable[[], bool],
) -> list[PendingPacks]:
    """Ingests packs of one topic and generation. Halves the group while a corrupt pack fails the others.

    A pack can fail the others only before the commit. After a commit the same packs come again together, and find
    their ledger. Messages whose keys cannot be settled are refused before the others of their packs are ingested. If
    it stops between the two, the packs come again, and the same messages are refused again.

    Args:
        packs: all of one topic and generation.
        ingest_packs: ingests some of them, or raises.
        refuse_some: refuses some messages of the pack of a name, with the reason, or raises.
        in_time: whether there is time to begin.
    """
    pending: list[PendingPacks] = []
    while packs:
        if not in_time():
            return [*pending, _left(packs, None)]
        try:
            done = ingest_packs([pack for _, pack in packs])
            return [*pending, *_left_of(packs, done)]
        except KeysNotSettled as error:
            rests: list[NamedPack] = []
            for place, (name, pack) in enumerate(packs):
                if not in_time():
                    return [*pending, _left([*rests, *packs[place:]], None)]
                try:
                    rest = _refused(name, pack, error, refuse_some)
                except Exception as unsent:
                    pending.append(PendingPacks(names=[name], error=unsent))
                    continue
                if len(rest):
                    rests.append((name, rest))
            if rests == packs:
                return [*pending, _left(packs, error)]
            packs = rests
        except Exception as error:
            if not isinstance(error, CorruptPack) or len(packs) == 1:
                return [*pending, _left(packs, error)]
            half = len(packs) // 2
            for part in (packs[:half], packs[half:]):
                pending += ingest_group(part, ingest_packs, refuse_some, in_time)
            return pending
    return pending


def _left_of(packs: list[NamedPack], done: Ingested) -> list[PendingPacks]:
    """Returns the packs that come again, by their errors."""
    names: dict[Exception, list[str]] = {}
    for place, error in done.left.items():
        names.setdefault(error, []).append(packs[place][0])
    return [PendingPacks(names=some, error=error) for error, some in names.items()]


def _left(packs: list[NamedPack], error: Exception | None) -> PendingPacks:
    return PendingPacks(names=[name for name, _ in packs], error=error)


def _refused(name: str, pack: Pack, error: KeysNotSettled, refuse_some: Callable[[str, Pack, Exception], None]) -> Pack:
    """Refuses the messages of a pack whose keys cannot be settled. Returns the other messages."""
    bad = {each.place: each.name for each in candidates_of(pack) if each.name in error.errors}
    if not bad:
        return pack
    mine = KeysNotSettled(pack.topic, {each: error.errors[each] for each in bad.values()})
    refuse_some(name, select(pack, list(bad)), mine)
    return select(pack, [place for place in range(len(pack)) if place not in bad])
