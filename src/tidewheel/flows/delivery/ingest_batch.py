"""Groups a batch of the ingest queue by topic, so that no topic crowds out another.

A pack of a kilobyte may hold three megabytes, and a batch six megabytes of packs. So the packs are decoded in portions,
and each portion is ingested before the next is decoded. SQS might have grouped the packs in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidewheel.errors import CorruptPack, KeysNotSettled
from tidewheel.ledger.bucket import content_id
from tidewheel.model.message import id_text
from tidewheel.model.pack import PACK_ATTRIBUTE, SENDER_SKEW_MS, Arrival, Pack, decode_pack, encode_pack, select
from tidewheel.model.refused import QueuedMessage

MAX_HELD_BYTES = 64 * 1024 * 1024
"""Decompressed bytes of packs that are ingested at one time. Several copies fit into ingest's memory."""

NamedPack = tuple[str, Pack]
"""A pack, and the id of its SQS message."""


def pack_of(message: QueuedMessage) -> Pack:
    """Reads a message of an ingest queue as a pack, by SQS's clock.

    The sender's time counts up to SQS's own time and the skew of an honest clock. A later time would outlive purges
    that come after the message, and would win its key for ever.

    A pack that is older than its SQS message was redriven: it was refused, or a dead letter.

    Raises:
        CorruptPack: the message has no pack, or an unreadable pack.
        NewerRelease: the pack has a newer version.
    """
    data = message.attributes.get(PACK_ATTRIBUTE, {}).get("BinaryValue")
    if data is None:
        raise CorruptPack(f"no Binary attribute {PACK_ATTRIBUTE!r}")
    pack = decode_pack(data, message.sent_at_ms)
    return replace(
        pack,
        sent_at_ms=min(pack.sent_at_ms, message.sent_at_ms + SENDER_SKEW_MS),
        arrival=Arrival(
            name=content_id(data),
            retried=message.receives > 1 or pack.sent_at_ms + SENDER_SKEW_MS < message.sent_at_ms,
        ),
    )


def groups(packs: Iterable[NamedPack]) -> Iterator[list[NamedPack]]:
    """Yields packs by topic and generation. Takes the next packs when the earlier ones are done.

    Packs are grouped by generation, too, because a pack for a deleted topic must not fail packs for its successor. The
    caller must release a group before the next is requested; otherwise two portions are held.
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
    """Packs that were not ingested, or not as a whole.

    Attributes:
        names: of their SQS messages.
        error: the failure; None: there was no time for the packs.
        rests: encoded packs of the messages that failed, by name. The other messages of these packs were ingested.
    """

    names: list[str]
    error: Exception | None
    rests: Mapping[str, bytes] = field(default_factory=dict)

    def left_of(self, message: QueuedMessage) -> QueuedMessage:
        """Returns a message of these packs, without what was ingested of it."""
        rest = self.rests.get(message.id)
        if rest is None:
            return message
        pack = {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": rest}}
        return replace(message, attributes={**message.attributes, **pack})


def ingest_group(
    packs: list[NamedPack], ingest_packs: Callable[[list[Pack]], object], in_time: Callable[[], bool]
) -> list[PendingPacks]:
    """Ingests packs of one topic and generation. Halves the group while a pack fails the others.

    A pack can fail the others only before the commit. After a commit the same packs come again together, and find
    their ledger. Messages whose keys cannot be settled are left out, and the others are ingested. If it stops then,
    the same messages are left out again.

    Args:
        packs: all of one topic and generation.
        ingest_packs: ingests some of them, or raises.
        in_time: whether there is time to begin.
    """
    taken, unsettled, ids = packs, None, frozenset[str]()
    while taken:
        if not in_time():
            return [PendingPacks(names=_names(packs), error=None)]
        try:
            ingest_packs([pack for _, pack in taken])
            break
        except KeysNotSettled as error:
            if error.ids <= ids:
                return [PendingPacks(names=_names(packs), error=error)]
            unsettled, ids = error, ids | error.ids
            taken = [(name, _without(pack, ids)) for name, pack in packs]
            taken = [(name, pack) for name, pack in taken if len(pack)]
        except Exception as error:
            if not isinstance(error, CorruptPack) or len(packs) == 1:
                return [PendingPacks(names=_names(packs), error=error)]
            half = len(packs) // 2
            return [left for part in (packs[:half], packs[half:]) for left in ingest_group(part, ingest_packs, in_time)]
    rests = {name: encode_pack(select(pack, places)) for name, pack in packs if (places := _places(pack, ids))}
    return [PendingPacks(names=[*rests], error=unsettled, rests=rests)] if rests else []


def _names(packs: list[NamedPack]) -> list[str]:
    return [name for name, _ in packs]


def _places(pack: Pack, ids: Collection[str]) -> list[int]:
    return [i for i in range(len(pack)) if id_text(pack.ids[16 * i : 16 * i + 16]) in ids] if ids else []


def _without(pack: Pack, ids: Collection[str]) -> Pack:
    """Returns a pack without some messages. It has a progress of its own, as the whole pack may come again."""
    out = _places(pack, ids)
    if not out:
        return pack
    kept = select(pack, [i for i in range(len(pack)) if i not in set(out)])
    if pack.arrival is None:
        return kept
    return replace(kept, arrival=replace(pack.arrival, name=content_id(pack.arrival.name.encode() + kept.ids)))
