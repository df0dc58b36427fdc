"""A checkpoint: what a rebuild of a topic's index needs and the ledgers do not hold.

Encoded it is a zlib stream of JSON:

    {"v": 1, "topic": ..., "generation": ..., "settings": {...}, "written_at_ms": ...,
     "marks": [sealed, planned, gc_until, purge_ms],
     "subscriptions": [[name, generation, queue_url, cursor, start, state], ...],
     "tombstones": [[slot, message id, ttl_s], ...]}

Subscriptions are in the order of their names, tombstones in that of slots and ids.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tidewheel.errors import CorruptMetadata, TidewheelError
from tidewheel.fence import Fence
from tidewheel.message import MessageId
from tidewheel.settings import TopicSettings
from tidewheel.subscription import Delivery, State, Subscription

_VERSION = 1


class Tombstone(NamedTuple):
    """A cancelled message.

    Attributes:
        slot: of the message.
        ttl_s: Unix second after which it may be forgotten.
    """

    slot: int
    id: MessageId
    ttl_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A topic's marks and cursors at a moment; slots, unless named otherwise.

    Attributes:
        written_at_ms: when its reading began.
        subscriptions: each with the cursor from which it still needs its rows: its own, or that of its first plan
            whose delivery is open.
    """

    topic: str
    generation: str
    settings: TopicSettings
    sealed: int
    planned: int
    gc_until: int
    purge_ms: int
    written_at_ms: int
    subscriptions: tuple[Subscription, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()

    def says_the_same(self, other: Checkpoint) -> bool:
        """Whether nothing but the time differs."""
        return replace(self, written_at_ms=other.written_at_ms) == other


def checkpoint_of(
    fence: Fence,
    subscriptions: Iterable[Subscription],
    opened: Iterable[Delivery],
    tombstones: Iterable[Tombstone],
    written_at_ms: int,
) -> Checkpoint:
    """Returns the checkpoint of a topic; deliveries must have been read after subscriptions."""
    return Checkpoint(
        topic=fence.topic,
        generation=fence.generation,
        settings=fence.settings,
        sealed=fence.sealed,
        planned=fence.planned,
        gc_until=fence.gc_until,
        purge_ms=fence.purge_ms,
        written_at_ms=written_at_ms,
        subscriptions=tuple(sorted(with_effective_cursors(subscriptions, opened), key=lambda each: each.name)),
        tombstones=tuple(sorted(tombstones)),
    )


def with_effective_cursors(subscriptions: Iterable[Subscription], opened: Iterable[Delivery]) -> Iterable[Subscription]:
    """Yields subscriptions with the cursor from which each still needs its rows."""
    first_open: dict[tuple[str, str], int] = {}
    for key in (delivery.key for delivery in opened):
        owner = (key.subscription, key.generation)
        first_open[owner] = min(key.plan, first_open.get(owner, key.plan))
    for each in subscriptions:
        yield replace(each, cursor=min(each.cursor, first_open.get((each.name, each.generation), each.cursor)))


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Returns the bytes of a checkpoint."""
    document = {
        "v": _VERSION,
        "topic": checkpoint.topic,
        "generation": checkpoint.generation,
        "settings": json.loads(checkpoint.settings.to_json()),
        "written_at_ms": checkpoint.written_at_ms,
        "marks": [checkpoint.sealed, checkpoint.planned, checkpoint.gc_until, checkpoint.purge_ms],
        "subscriptions": [
            [each.name, each.generation, each.queue_url, each.cursor, each.start, each.state.value]
            for each in checkpoint.subscriptions
        ],
        "tombstones": checkpoint.tombstones,
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6)


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Reads a checkpoint.

    Raises:
        CorruptMetadata: it is not one, or a newer version's.
    """
    try:
        document: dict[str, Any] = json.loads(zlib.decompress(data))
        if document["v"] != _VERSION:
            raise ValueError(f"version {document['v']}; this release reads version {_VERSION}")
        topic = str(document["topic"])
        sealed, planned, gc_until, purge_ms = map(int, document["marks"])
        return Checkpoint(
            topic=topic,
            generation=str(document["generation"]),
            settings=TopicSettings.from_json(json.dumps(document["settings"])),
            sealed=sealed,
            planned=planned,
            gc_until=gc_until,
            purge_ms=purge_ms,
            written_at_ms=int(document["written_at_ms"]),
            subscriptions=tuple(_subscription(topic, *each) for each in document["subscriptions"]),
            tombstones=tuple(Tombstone(slot, MessageId(id), ttl_s) for slot, id, ttl_s in document["tombstones"]),
        )
    except (zlib.error, KeyError, TypeError, ValueError, TidewheelError) as error:
        raise CorruptMetadata(f"checkpoint of {len(data)} bytes is not readable ({error})") from None


def _subscription(
    topic: str, name: str, generation: str, queue_url: str, cursor: int, start: int, state: str
) -> Subscription:
    return Subscription(
        topic=topic,
        name=name,
        generation=generation,
        queue_url=queue_url,
        cursor=cursor,
        start=start,
        state=State(state),
    )
