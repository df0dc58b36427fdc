"""Converts domain values to items of the table and back.

The attribute `v` is the format version of an item. A topic state also has the `layout` of its topic if the layout is
above 1. The layout sets the rules by which all data of the topic is read and changed. Optional fields are absent,
never null. Attributes unknown to this release are ignored, and kept when an item is changed and not put whole.

Binary attributes (`slots`, `segments`, `manifest`, `ledger`) hold bytes with their own checksum, which is verified
before a parser sees the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import NamedTuple, TypeVar

from tidewheel.errors import CorruptMetadata, NewerRelease, TidewheelError, UnsupportedLayout
from tidewheel.ledger.bucket import Bucket, BucketId, Tail
from tidewheel.ledger.segment_table import decode_segments, encode_segments
from tidewheel.ledger.slots import decode_slots, encode_slots
from tidewheel.ledger.weights import decode_weights, encode_weights
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import Encoding, MessageId, id_bytes
from tidewheel.model.note import Note
from tidewheel.model.park import Park
from tidewheel.model.plan import Plan, decode_plan, encode_plan
from tidewheel.model.recurring import Recurring
from tidewheel.model.set_aside import SetAside
from tidewheel.model.setting import settings_of
from tidewheel.model.settings import StoredSettings, TopicSettings, read_stored
from tidewheel.model.subscription_state import Delivery, State, SubscriptionState
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import NextWork, Purge, TopicState, check_layout
from tidewheel.model.trash import Trash
from tidewheel.model.untrusted import json_of, text, whole
from tidewheel.storage import layout
from tidewheel.storage.writes import LAYOUT_READ, Change, Item, Value, item_of

VERSION = 1
SAME_TOPIC = f"generation = :generation AND {LAYOUT_READ}"
"""Condition of every change of a topic state. The topic is the same as read, with a layout that this release reads."""

T = TypeVar("T")


def next_slot_comparison(is_above: bool, slot: str) -> str:
    """Returns the condition that next_slot is above a slot, or not above. An absent next_slot is above every slot."""
    if is_above:
        return f"(attribute_not_exists(next_slot) OR next_slot > {slot})"
    return f"next_slot <= {slot}"


def _reading(decode: Callable[[Item], T]) -> Callable[[Item], T]:
    """Makes a decoder raise CorruptMetadata for every item it cannot read."""

    @wraps(decode)
    def checked(item: Item) -> T:
        try:
            if "layout" in item:
                check_layout(_topic(item), _number(item, "layout"))
            version = _number(item, "v")
            if version <= VERSION:
                return decode(item)
        except UnsupportedLayout:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, TidewheelError) as error:
            reason = str(error) if isinstance(error, TidewheelError) else repr(error)
            raise CorruptMetadata(f"item {_name(item)} is not readable ({reason}); restore the item") from None
        raise NewerRelease(
            f"item {_name(item)} has version {version}; this release reads version {VERSION}: upgrade Tidewheel"
        )

    return checked


def _of_client(kind: str) -> Callable[[Callable[[Item], T]], Callable[[Item], T]]:
    """Makes a decoder see only the attributes of its kind, and raise CorruptMetadata for an item of any newer version.

    Clients write these items. A forged item must stop no message but its own, as a newer version or layout would.
    """

    def decorated(decode: Callable[[Item], T]) -> Callable[[Item], T]:
        @wraps(decode)
        def checked(item: Item) -> T:
            seen = {layout.PARTITION_KEY, layout.SORT_KEY} | layout.CLIENT_ITEMS[kind]
            try:
                return decode({name: value for name, value in item.items() if name in seen})
            except NewerRelease as error:
                raise CorruptMetadata(str(error)) from None

        return checked

    return decorated


def _name(item: Item) -> str:
    return "/".join(item.get(part, {}).get("S", "?") for part in (layout.PARTITION_KEY, layout.SORT_KEY))


def _number(item: Item, name: str) -> int:
    return int(item[name]["N"])


def _optional(item: Item, name: str) -> int | None:
    return int(item[name]["N"]) if name in item else None


def _text(item: Item, name: str) -> str:
    return str(item[name]["S"])


def _binary(item: Item, name: str) -> bytes:
    return bytes(item[name]["B"])


def _plain(item: Item, name: str) -> str | int:
    return _number(item, name) if "N" in item[name] else _text(item, name)


def _message_id(item: Item, name: str) -> MessageId | None:
    if name not in item:
        return None
    id_bytes(_text(item, name))  # Raises an error that _reading catches.
    return MessageId(_text(item, name))


def _attributes(item: Item) -> dict[str, str]:
    found = json_of(_text(item, "attributes")) if "attributes" in item else {}
    return {text(name): text(value) for name, value in found.items()}


def key_of(item: Item) -> layout.Key:
    """Returns an item's key."""
    return _text(item, layout.PARTITION_KEY), _text(item, layout.SORT_KEY)


def readable(
    found: Iterable[Item], decode: Callable[[Item], T], prefix: str, unreadable: dict[str, Exception] | None
) -> list[T]:
    """Returns the items that can be read. See `each_readable`."""
    return list(each_readable(found, decode, prefix, unreadable))


def each_readable(
    found: Iterable[Item], decode: Callable[[Item], T], prefix: str, unreadable: dict[str, Exception] | None
) -> Iterator[T]:
    """Yields the items that can be read. Puts the name behind the prefix, and the error, of each other into a dict.

    Raises:
        CorruptMetadata: an item cannot be read, and there is no dict.
        NewerRelease: an item waits for an upgrade of this release.
    """
    for item in found:
        try:
            value = decode(item)
        except CorruptMetadata as error:
            if unreadable is None or isinstance(error, NewerRelease):
                raise
            unreadable[key_of(item)[1].removeprefix(prefix)] = error
            continue
        yield value


def next_check_ms_of(item: Item) -> int:
    """Returns the time of an indexed item's next check."""
    return _number(item, layout.CHECK_SORT_KEY)


def next_check_change(key: layout.Key, seen_ms: int, next_ms: int) -> Change:
    """Returns the change of an item's next check, if nobody has changed it since."""
    return Change(
        key=key,
        condition=f"{layout.CHECK_SORT_KEY} = :seen",
        values={"seen": seen_ms},
        sets={layout.CHECK_SORT_KEY: next_ms},
    )


def next_at_ms_of(item: Item) -> int:
    """Returns when a daily work is next due, from the item of its claim."""
    return _number(item, "next_at_ms")


def _topic(item: Item) -> str:
    return layout.topic_of(_text(item, layout.PARTITION_KEY))


def check_fields(topic: str, next_check_ms: int | None) -> dict[str, Value | None]:
    """Returns the attributes that add an item to the index `checks` or remove the item."""
    return {
        layout.CHECK_PARTITION_KEY: None if next_check_ms is None else layout.check_shard(topic),
        layout.CHECK_SORT_KEY: next_check_ms,
    }


def next_work_fields(topic: str, next_work: NextWork) -> dict[str, Value | None]:
    """Returns the topic state's attributes that a NextWork changes."""
    return {
        "next_slot": next_work.next_slot,
        "collect_at_ms": next_work.collect_at_ms,
        **check_fields(topic, next_work.next_check_ms),
    }


def encode_topic_state(state: TopicState) -> Item:
    """Returns a topic state's item."""
    fields: dict[str, Value | None] = {
        "v": VERSION,
        "generation": state.generation,
        "settings": state.settings.to_json(),
        "sealed": state.sealed,
        "planned": state.planned,
        "collected_until": state.collected_until,
        "next_slot": state.next_slot,
        "work_version": state.work_version,
        "swap_version": state.swap_version,
        "subscriptions_version": state.subscriptions_version,
        "purge_ms": state.purge_ms,
        "purges": encode_purges(state.purges),
        "deleting_at_ms": state.deleting_at_ms,
        "collect_at_ms": state.collect_at_ms,
        "merge_considered_version": state.merge_considered_version or None,
        "merge_at_ms": state.merge_at_ms,
        "waiting": state.waiting or None,
        "recurring": state.recurring or None,
        "layout": state.layout if state.layout > 1 else None,
        "created_at_ms": state.created_at_ms,
    }
    return item_of(layout.topic_state_key(state.topic), fields | check_fields(state.topic, state.next_check_ms))


@_reading
def decode_topic_state(item: Item) -> TopicState:
    """Reads a topic state."""
    return TopicState(
        topic=_topic(item),
        generation=_text(item, "generation"),
        settings=TopicSettings.from_json(_text(item, "settings")),
        sealed=_number(item, "sealed"),
        planned=_number(item, "planned"),
        collected_until=_number(item, "collected_until"),
        next_slot=_optional(item, "next_slot"),
        work_version=_number(item, "work_version"),
        swap_version=_number(item, "swap_version"),
        subscriptions_version=_number(item, "subscriptions_version"),
        purge_ms=_number(item, "purge_ms"),
        purges=_purges(item),
        deleting_at_ms=_optional(item, "deleting_at_ms"),
        next_check_ms=_optional(item, layout.CHECK_SORT_KEY),
        collect_at_ms=_optional(item, "collect_at_ms"),
        merge_considered_version=_optional(item, "merge_considered_version") or 0,
        merge_at_ms=_optional(item, "merge_at_ms"),
        waiting=_optional(item, "waiting") or 0,
        recurring=_optional(item, "recurring") or 0,
        layout=_optional(item, "layout") or 1,
        created_at_ms=_optional(item, "created_at_ms"),
    )


def encode_purges(purges: Sequence[Purge]) -> str | None:
    """Returns purged ranges as stored in a topic state's item. Equal ranges give equal texts."""
    texts = [[each.first_ms, each.end_ms, each.sent_before_ms] for each in purges]
    return json.dumps(texts, separators=(",", ":")) if texts else None


def _purges(item: Item) -> tuple[Purge, ...]:
    found = json_of(_text(item, "purges")) if "purges" in item else ()
    return tuple(Purge.of(*each) for each in found)


def encode_bucket(topic: str, bucket: Bucket) -> Item:
    """Returns a bucket's item."""
    held, tail = bucket.without_tail(), bucket.tail
    return item_of(
        layout.bucket_key(topic, bucket.id),
        {
            "v": VERSION,
            "object_name": held.object_name,
            "size_bytes": held.size_bytes,
            "rows": held.rows,
            "slots": encode_slots(held.slots),
            "slot_shift": held.slot_shift or None,
            "segments": encode_segments(held.segments) if held.segments else None,
            "tail": None if tail is None else tail.tag,
            "weights": encode_weights(held.weights) if held.weights else None,
            "checked_ms": held.checked_ms or None,
            "schema": held.schema_version if held.schema_version > 1 else None,
        },
    )


@_reading
def decode_bucket(item: Item) -> Bucket:
    """Reads a bucket. Readers stop by the slot in its id, so a bucket with an earlier slot cannot be read."""
    bucket = Bucket(
        id=BucketId(key_of(item)[1].removeprefix(layout.BUCKETS)),
        object_name=_text(item, "object_name"),
        size_bytes=_number(item, "size_bytes"),
        rows=_number(item, "rows"),
        slots=decode_slots(_binary(item, "slots")),
        segments=decode_segments(_binary(item, "segments")) if "segments" in item else (),
        tail=Tail.of_tag(_text(item, "tail")) if "tail" in item else None,
        slot_shift=whole(_optional(item, "slot_shift") or 0),
        weights=decode_weights(_binary(item, "weights")) if "weights" in item else (),
        checked_ms=whole(_optional(item, "checked_ms") or 0),
        schema_version=whole(_optional(item, "schema") or 1),
    )
    if bucket.id_slot > (bucket.last_slot if bucket.slot_shift else bucket.first_slot):
        raise ValueError(f"slots begin with {bucket.first_slot}, before the slot in the key")
    return bucket


class PlanItem(NamedTuple):
    """A plan's range, with its manifest or the name of the manifest's object."""

    topic: str
    first_slot: int
    end_slot: int
    manifest: bytes | None
    object_name: str | None
    object_bytes: int
    occurrences: str | None = None


def encode_plan_item(plan: PlanItem) -> Item:
    """Returns a plan's item."""
    named = plan.object_name is not None
    return item_of(
        layout.plan_key(plan.topic, plan.first_slot),
        {
            "v": VERSION,
            "end_slot": plan.end_slot,
            "manifest": plan.manifest,
            "object_name": plan.object_name,
            "object_bytes": plan.object_bytes if named else None,
            "occurrences": plan.occurrences,
        },
    )


@_reading
def decode_plan_item(item: Item) -> PlanItem:
    """Reads a plan's item, complete or with `pk, sk, v, end_slot` only."""
    return PlanItem(
        topic=_topic(item),
        first_slot=layout.plan_slot(key_of(item)[1]),
        end_slot=_number(item, "end_slot"),
        manifest=_binary(item, "manifest") if "manifest" in item else None,
        object_name=_text(item, "object_name") if "object_name" in item else None,
        object_bytes=_optional(item, "object_bytes") or 0,
        occurrences=_text(item, "occurrences") if "occurrences" in item else None,
    )


@_reading
def decode_plan_in_table(item: Item) -> PlanItem:
    """Reads a plan's item and the manifest in it. A manifest that is an object is not read."""
    plan = decode_plan_item(item)
    if plan.manifest is not None:
        decode_plan(plan.topic, plan.first_slot, plan.end_slot, plan.manifest)
    return plan


def encode_subscription(subscription: SubscriptionState) -> Item:
    """Returns a subscription's item."""
    return item_of(
        layout.subscription_key(subscription.topic, subscription.name),
        {
            "v": VERSION,
            "generation": subscription.generation,
            "queue_url": subscription.queue_url,
            "cursor": subscription.cursor,
            "start": subscription.start,
            "state": subscription.state.value,
            **subscription.stored(),
            "created_at_ms": subscription.created_at_ms,
        },
    )


@_reading
def decode_subscription(item: Item) -> SubscriptionState:
    """Reads a subscription."""
    return SubscriptionState(
        topic=_topic(item),
        name=key_of(item)[1].removeprefix(layout.SUBSCRIPTIONS),
        generation=_text(item, "generation"),
        queue_url=_text(item, "queue_url"),
        cursor=_number(item, "cursor"),
        start=_number(item, "start"),
        state=State(_text(item, "state")),
        created_at_ms=_optional(item, "created_at_ms"),
        **read_stored({name: _plain(item, name) for name in settings_of(StoredSettings) if name in item}),
    )


def encode_delivery(delivery: Delivery) -> Item:
    """Returns a delivery's item. `leases` exists from the start, so that updates can set its entries."""
    fields: dict[str, Value | None] = {
        "v": VERSION,
        "queue_url": delivery.queue_url,
        "parts": delivery.parts,
        "start": delivery.start,
        "done": delivery.done or None,
        "leases": {str(part): taken_ms for part, taken_ms in delivery.leases},
        "filter_policy": delivery.filter_policy,
        "first_ms": delivery.first_ms,
        "end_ms": delivery.end_ms,
    }
    topic = delivery.key.topic
    return item_of(layout.delivery_key(delivery.key), fields | check_fields(topic, delivery.next_check_ms))


@_reading
def decode_delivery(item: Item) -> Delivery:
    """Reads a delivery."""
    return Delivery(
        key=layout.parse_delivery_key(key_of(item)),
        queue_url=_text(item, "queue_url"),
        parts=_number(item, "parts"),
        start=_number(item, "start"),
        next_check_ms=_number(item, layout.CHECK_SORT_KEY),
        done=frozenset(int(part) for part in item["done"]["NS"]) if "done" in item else frozenset(),
        leases=tuple(sorted((int(part), int(taken["N"])) for part, taken in item["leases"]["M"].items())),
        filter_policy=_text(item, "filter_policy") if "filter_policy" in item else None,
        first_ms=_optional(item, "first_ms"),
        end_ms=_optional(item, "end_ms"),
    )


def encode_park(park: Park) -> Item:
    """Returns a park's item."""
    fields: dict[str, Value | None] = {
        "v": VERSION,
        "rows": park.rows,
        "size_bytes": park.size_bytes,
        "ledger": park.ledger,
        "object_name": park.object_name,
        "leased_ms": park.leased_ms,
        "tries": park.tries or None,
        "refused_ms": park.refused_ms,
        "first_due_ms": park.first_due_ms,
        "unreadable": park.unreadable,
    }
    return item_of(layout.park_key(park.key), fields | check_fields(park.key.topic, park.next_check_ms))


@_reading
def decode_park(item: Item) -> Park:
    """Reads a park, with or without its ledger."""
    return Park(
        key=layout.parse_park_key(key_of(item)),
        rows=_number(item, "rows"),
        size_bytes=_number(item, "size_bytes"),
        next_check_ms=_number(item, layout.CHECK_SORT_KEY),
        ledger=_binary(item, "ledger") if "ledger" in item else None,
        object_name=_text(item, "object_name") if "object_name" in item else None,
        leased_ms=_optional(item, "leased_ms"),
        tries=_optional(item, "tries") or 0,
        refused_ms=_optional(item, "refused_ms"),
        first_due_ms=_optional(item, "first_due_ms"),
        unreadable=_text(item, "unreadable") if "unreadable" in item else None,
    )


def encode_set_aside(item: SetAside) -> Item:
    """Returns a set-aside item."""
    return item_of(layout.set_aside_key(item.key), set_aside_fields(item))


def set_aside_fields(item: SetAside) -> dict[str, Value | None]:
    """Returns the attributes of a set-aside item, without its key."""
    return {
        "v": VERSION,
        "first_slot": item.plan.first_slot,
        "end_slot": item.plan.end_slot,
        "manifest": encode_plan(item.plan),
        "ranges": json.dumps(item.ranges, separators=(",", ":")),
        "start_slot": item.start,
        "filter_policy": item.filter_policy,
        "first_ms": item.first_ms,
        "end_ms": item.end_ms,
        "reason": item.reason,
        "first_seen_ms": item.first_seen_ms,
        "tries": item.tries,
        "damage": item.damage,
        **check_fields(item.key.topic, item.next_check_ms),
    }


@_reading
def decode_set_aside(item: Item) -> SetAside:
    """Reads a set-aside item."""
    first_slot, end_slot = _number(item, "first_slot"), _number(item, "end_slot")
    plan = decode_plan(_topic(item), first_slot, end_slot, _binary(item, "manifest"))
    return SetAside(
        key=layout.parse_set_aside_key(key_of(item)),
        plan=plan,
        ranges=tuple(_range(plan, *each) for each in json_of(_text(item, "ranges"))),
        start=_number(item, "start_slot"),
        filter_policy=_text(item, "filter_policy") if "filter_policy" in item else None,
        first_ms=_optional(item, "first_ms"),
        end_ms=_optional(item, "end_ms"),
        reason=_text(item, "reason"),
        first_seen_ms=_number(item, "first_seen_ms"),
        tries=_number(item, "tries"),
        damage=_number(item, "damage"),
        next_check_ms=_optional(item, layout.CHECK_SORT_KEY),
    )


def _range(plan: Plan, number: object, first_row: object, end_row: object, *_: object) -> tuple[int, int, int]:
    if whole(number) >= len(plan.segments):
        raise ValueError(f"segment {number} of {len(plan.segments)}")
    return whole(number), whole(first_row), whole(end_row)


def encode_trash(topic: str, trash: Trash) -> Item:
    """Returns a trash item."""
    fields: dict[str, Value | None] = {
        "v": VERSION,
        "objects": json.dumps(trash.objects),
        "read_until": trash.read_until,
    }
    return item_of(layout.trash_key(topic, trash.sealed, trash.id), fields)


@_reading
def decode_trash(item: Item) -> Trash:
    """Reads a trash item."""
    sealed, _, trash_id = key_of(item)[1].removeprefix(layout.TRASH).partition("#")
    objects = tuple(map(text, json_of(_text(item, "objects"))))
    return Trash(sealed=int(sealed), id=trash_id, objects=objects, read_until=_optional(item, "read_until"))


def encode_tombstone(topic: str, tombstone: Tombstone) -> Item:
    """Returns a tombstone's item."""
    fields: dict[str, Value | None] = {
        "v": VERSION,
        layout.TTL_ATTRIBUTE: tombstone.ttl_s,
        "moved_to": tombstone.to,
        "uncertain": None if tombstone.certain else 1,
        "put_ms": tombstone.put_ms or None,
    }
    return item_of(layout.tombstone_key(topic, tombstone.slot, tombstone.id), fields)


@_of_client("tombstone")
@_reading
def decode_tombstone(item: Item) -> Tombstone:
    """Reads a tombstone."""
    slot, message_id = layout.parse_tombstone_key(key_of(item))
    moved_to = _message_id(item, "moved_to")
    ttl_s, put_ms = _number(item, layout.TTL_ATTRIBUTE), whole(_optional(item, "put_ms") or 0)
    return Tombstone(slot, message_id, ttl_s, moved_to, "uncertain" not in item, put_ms)


def encode_move(topic: str, mover: MessageId, moved: MessageId, ttl_s: int) -> Item:
    """Returns the item that allows a message to move another message."""
    return item_of(layout.move_key(topic, mover), {"v": VERSION, layout.TTL_ATTRIBUTE: ttl_s, "moves": moved})


@_of_client("move")
@_reading
def decode_move(item: Item) -> MessageId | None:
    """Reads which message may be moved."""
    return _message_id(item, "moves")


def encode_note(key: layout.Key, note: Note, ttl_s: int) -> Item:
    """Returns the item of a note.

    A release that does not know of waiting messages reads the number 0 beside them, and sends the whole pack.
    """
    fields: dict[str, Value | None] = {"v": VERSION, layout.TTL_ATTRIBUTE: ttl_s, "number": note.number}
    if note.waiting:
        fields |= {"number": 0, "done_below": note.number, "waiting": b"".join(sorted(note.waiting))}
    return item_of(key, fields)


@_reading
def decode_note(item: Item) -> Note:
    """Reads a note."""
    if "waiting" not in item:
        return Note(_number(item, "number"))
    ids = _binary(item, "waiting")
    return Note(_number(item, "done_below"), frozenset(ids[i : i + 16] for i in range(0, len(ids), 16)))


def encode_recurring(recurring: Recurring) -> Item:
    """Returns a recurring message's item."""
    fields: dict[str, Value | None] = {
        "v": VERSION,
        "generation": recurring.generation,
        "rule": recurring.rule,
        "first_ms": recurring.first_ms,
        "body": recurring.text,
        "encoding": int(recurring.encoding),
        "attributes": json.dumps(dict(recurring.attributes)) if recurring.attributes else None,
        "expires_in_ms": recurring.expires_in_ms,
        "missed_slot": recurring.missed_slot,
    }
    return item_of(layout.recurring_key(recurring.topic, recurring.name), fields)


@_reading
def decode_recurring(item: Item) -> Recurring:
    """Reads a recurring message."""
    return Recurring(
        topic=_topic(item),
        name=key_of(item)[1].removeprefix(layout.RECURRING),
        generation=_text(item, "generation"),
        rule=_text(item, "rule"),
        first_ms=_number(item, "first_ms"),
        text=_text(item, "body"),
        encoding=Encoding(_number(item, "encoding")),
        attributes=_attributes(item),
        expires_in_ms=_optional(item, "expires_in_ms"),
        missed_slot=_optional(item, "missed_slot"),
    )


def encode_key(topic: str, entry: KeyEntry) -> Item:
    """Returns a key's item."""
    fields: dict[str, Value | None] = {
        "v": VERSION,
        "id": entry.id,
        "sent_ms": entry.sent_ms,
        "seq": entry.seq,
        "replaces": 1 if entry.replace else None,
        "cancelled": 1 if entry.cancelled else None,
        "floor_ms": entry.floor[0] or None,
        "floor_seq": entry.floor[1] or None,
        "tail_ms": entry.tail_ms or None,
        layout.TTL_ATTRIBUTE: entry.ttl_s,
    }
    return item_of(layout.key_key(topic, entry.key), fields)


@_of_client("key")
@_reading
def decode_key(item: Item) -> KeyEntry:
    """Reads a key's entry."""
    return KeyEntry(
        key=key_of(item)[1],
        id=_message_id(item, "id"),
        sent_ms=_number(item, "sent_ms"),
        seq=_number(item, "seq"),
        ttl_s=_number(item, layout.TTL_ATTRIBUTE),
        replace="replaces" in item,
        cancelled="cancelled" in item,
        floor=(_optional(item, "floor_ms") or 0, _optional(item, "floor_seq") or 0),
        tail_ms=_optional(item, "tail_ms") or 0,
    )
