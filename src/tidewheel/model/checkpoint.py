"""Encodes checkpoints, which hold the data of a rebuild beside the ledgers.

An encoded checkpoint is sealed (`tidewheel.model.checksum`), a zlib stream of JSON:

    {"v": 1, "topic": ..., "generation": ..., "settings": {...}, "written_at_ms": ...,
     "marks": [sealed, planned, collected_until, purge_ms],
     "created_at_ms": ...,                                                 null if it is unknown
     "purges": [[first_ms, end_ms, sent_before_ms], ...],
     "subscriptions": [[name, generation, queue_url, cursor, start, state, created_at_ms, created_slot,
                        settings], ...],
     "tombstones": [[slot, message id, ttl_s, id of the message it was moved to, 0 if it is uncertain], ...],
     "recurring": [[name, generation, rule, first_ms, text, encoding, attributes, expires_in_ms, window_ms,
                    group], ...],
     "keys": [[key, id, sent_ms, seq, ttl_s, floor_ms, floor_seq, tail_ms, flags], ...],
     "keys_read": [when, how many were examined]}          flags: 1 replaces others, 2 cancelled; id is null without one

Subscriptions are sorted by name, tombstones by slot and id, keys by key. Names and trailing values added by a newer
release are ignored. `v` is the layout of the topic's data, and a newer layout is refused.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidewheel.errors import CorruptMetadata, TidewheelError, UnsupportedLayout
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import Encoding, MessageId, id_bytes
from tidewheel.model.recurring import Recurring
from tidewheel.model.settings import TopicSettings, read_stored
from tidewheel.model.subscription_state import Delivery, State, SubscriptionState
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic import check_name
from tidewheel.model.topic_state import LAYOUT, Purge, TopicState, check_layout
from tidewheel.model.untrusted import decompressed, json_object_of, mapping, text, whole
from tidewheel.model.validation import check_group, check_key

_RAW_BYTES = 1024 * 1024 * 1024
"""Largest checkpoint before compression, for ten million tombstones. Longer data is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A topic's marks and cursors at a moment, in slots unless named otherwise.

    Attributes:
        written_at_ms: when the reading of the topic began.
        subscriptions: each with the cursor from which the subscription still needs its rows. This is its own cursor, or
            that of its first plan with an open delivery.
        keys: those that are not in ledgers: see `storage/keys.py`.
        keys_read_ms: when they were read.
        keys_examined: how many were read to find them.
    """

    topic: str
    generation: str
    settings: TopicSettings
    sealed: int
    planned: int
    collected_until: int
    purge_ms: int
    written_at_ms: int
    subscriptions: tuple[SubscriptionState, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    purges: tuple[Purge, ...] = ()
    recurring: tuple[Recurring, ...] = ()
    created_at_ms: int | None = None
    keys: tuple[KeyEntry, ...] = ()
    keys_read_ms: int = 0
    keys_examined: int = 0

    def says_the_same(self, other: Checkpoint) -> bool:
        """Returns whether the checkpoints differ only in their times."""
        return replace(self, written_at_ms=other.written_at_ms, keys_read_ms=other.keys_read_ms) == other

    def with_keys(self, keys: Iterable[KeyEntry], read_ms: int, examined: int) -> Checkpoint:
        """Returns the checkpoint with keys."""
        found = tuple(sorted(keys, key=lambda each: each.key))
        return replace(self, keys=found, keys_read_ms=read_ms, keys_examined=examined)


def checkpoint_of(
    state: TopicState,
    subscriptions: Iterable[SubscriptionState],
    opened: Iterable[Delivery],
    tombstones: Iterable[Tombstone],
    written_at_ms: int,
    recurring: Iterable[Recurring] = (),
) -> Checkpoint:
    """Returns the checkpoint of a topic.

    The deliveries must have been read after the subscriptions.
    """
    return Checkpoint(
        topic=state.topic,
        generation=state.generation,
        settings=state.settings,
        sealed=state.sealed,
        planned=state.planned,
        collected_until=state.collected_until,
        purge_ms=state.purge_ms,
        purges=state.purges,
        written_at_ms=written_at_ms,
        subscriptions=tuple(sorted(with_effective_cursors(subscriptions, opened), key=lambda each: each.name)),
        tombstones=tuple(sorted((each._replace(put_ms=0) for each in tombstones), key=lambda each: each[:3])),
        recurring=tuple(sorted(recurring, key=lambda each: each.name)),
        created_at_ms=state.created_at_ms,
    )


def with_effective_cursors(
    subscriptions: Iterable[SubscriptionState], opened: Iterable[Delivery]
) -> Iterable[SubscriptionState]:
    """Yields subscriptions with the first slot still needed by each."""
    first_open: dict[tuple[str, str], int] = {}
    # An open replay delivers old messages again, and ends with the index that it reads. Its plans do not count here.
    for key in (delivery.key for delivery in opened if delivery.key.replay is None):
        owner = (key.subscription, key.generation)
        first_open[owner] = min(key.plan, first_open.get(owner, key.plan))
    for each in subscriptions:
        yield replace(each, cursor=min(each.cursor, first_open.get((each.name, each.generation), each.cursor)))


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Returns the bytes of a checkpoint."""
    document: dict[str, Any] = {
        "v": LAYOUT,
        "topic": checkpoint.topic,
        "generation": checkpoint.generation,
        "settings": json.loads(checkpoint.settings.to_json()),
        "written_at_ms": checkpoint.written_at_ms,
        "marks": [checkpoint.sealed, checkpoint.planned, checkpoint.collected_until, checkpoint.purge_ms],
        "subscriptions": [_subscription_values(each) for each in checkpoint.subscriptions],
        "tombstones": [[*each[:4], int(each.certain)] for each in checkpoint.tombstones],
        "created_at_ms": checkpoint.created_at_ms,
        "purges": [[each.first_ms, each.end_ms, each.sent_before_ms] for each in checkpoint.purges],
        "recurring": [_recurring_values(each) for each in checkpoint.recurring],
        "keys": [_key_values(each) for each in checkpoint.keys],
        "keys_read": [checkpoint.keys_read_ms, checkpoint.keys_examined],
    }
    return sealed(zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6))


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Reads a checkpoint.

    Raises:
        CorruptMetadata: the data is not a checkpoint.
        UnsupportedLayout: the topic's data had a newer layout when the checkpoint was written.
    """
    try:
        document = json_object_of(decompressed(opened(data), _RAW_BYTES))
        topic = check_name("topic", document["topic"])
        keys_read_ms, keys_examined = map(whole, document["keys_read"])
        check_layout(topic, whole(document["v"]))
        sealed, planned, collected_until, purge_ms = map(whole, document["marks"])
        return Checkpoint(
            topic=topic,
            generation=text(document["generation"]),
            settings=TopicSettings.from_json(json.dumps(document["settings"])),
            sealed=sealed,
            planned=planned,
            collected_until=collected_until,
            purge_ms=purge_ms,
            purges=tuple(Purge.of(*each) for each in document["purges"]),
            written_at_ms=whole(document["written_at_ms"]),
            subscriptions=tuple(_subscription(topic, each) for each in document["subscriptions"]),
            tombstones=tuple(_tombstone(each) for each in document["tombstones"]),
            recurring=tuple(_recurring(topic, each) for each in document["recurring"]),
            created_at_ms=_optional(document["created_at_ms"]),
            keys=tuple(_key(each) for each in document["keys"]),
            keys_read_ms=keys_read_ms,
            keys_examined=keys_examined,
        )
    except UnsupportedLayout:
        raise
    except (KeyError, TypeError, ValueError, TidewheelError) as error:
        raise CorruptMetadata(
            f"checkpoint is not readable, bytes 0-{len(data) - 1} of its object ({error}): an older one is taken in "
            "its place, and the sweep writes a new one; restore the object from a backup if a rebuild needs it"
        ) from None


def _subscription(topic: str, row: Sequence[Any]) -> SubscriptionState:
    name, generation, queue_url, cursor, start, state, created_at_ms, created_slot, settings, *_ = row
    return SubscriptionState(
        topic=topic,
        name=check_name("subscription", name),
        generation=text(generation),
        queue_url=text(queue_url),
        cursor=whole(cursor),
        start=whole(start),
        state=State(state),
        created_at_ms=whole(created_at_ms),
        created_slot=whole(created_slot),
        **read_stored(mapping(settings)),
    )


def _optional(value: object) -> int | None:
    return None if value is None else whole(value)


def _subscription_values(each: SubscriptionState) -> list[Any]:
    settings = {name: value for name, value in each.stored().items() if value is not None}
    marks = (each.cursor, each.start, each.state.value, each.created_at_ms, each.created_slot)
    return [each.name, each.generation, each.queue_url, *marks, settings]


def _tombstone(row: Sequence[Any]) -> Tombstone:
    slot, message_id, ttl_s, to, certain, *_ = row
    moved_to = None if to is None else MessageId(text(to))
    return Tombstone(whole(slot), MessageId(text(message_id)), whole(ttl_s), moved_to, bool(whole(certain)))


def _recurring_values(each: Recurring) -> list[Any]:
    content = (each.text, int(each.encoding), dict(each.attributes), each.expires_in_ms, each.window_ms, each.group)
    return [each.name, each.generation, each.rule, each.first_ms, *content]


def _recurring(topic: str, row: Sequence[Any]) -> Recurring:
    name, generation, rule, first_ms, body, encoding, attributes, expires_in_ms, *others = row
    window_ms, group, *_ = others
    return Recurring(
        topic=topic,
        name=text(name),
        generation=text(generation),
        rule=text(rule),
        first_ms=whole(first_ms),
        text=text(body),
        encoding=Encoding(encoding),
        attributes={text(name): text(value) for name, value in mapping(attributes).items()},
        expires_in_ms=_optional(expires_in_ms),
        group=None if group is None else check_group(group),
        window_ms=_optional(window_ms),
    )


def _key_values(each: KeyEntry) -> list[Any]:
    flags = each.replace + 2 * each.cancelled
    return [each.key, each.id, each.sent_ms, each.seq, each.ttl_s, *each.floor, each.tail_ms, flags]


def _key(row: Sequence[Any]) -> KeyEntry:
    key, id, *numbers = row
    sent_ms, seq, ttl_s, floor_ms, floor_seq, tail_ms, flags = map(whole, numbers[:7])
    if id is not None:
        id_bytes(id)
    return KeyEntry(
        key=check_key(key),
        id=None if id is None else MessageId(id),
        sent_ms=sent_ms,
        seq=seq,
        ttl_s=ttl_s,
        floor=(floor_ms, floor_seq),
        tail_ms=tail_ms,
        replace=bool(flags & 1),
        cancelled=bool(flags & 2),
    )
