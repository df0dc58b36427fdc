"""Converts domain values to items of the table and back.

The attribute `v` is the format version of an item. A topic state also has the `layout` of its topic if the layout is
above 1. The layout sets the rules by which all data of the topic is read and changed. Optional fields are absent,
never null. Attributes unknown to this release are ignored, and kept when an item is changed and not put whole.

Binary attributes (`slots`, `segments`, `weights`, `manifest`, `ledger`) hold bytes with their own checksum, which is
verified before a parser sees the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from tidewheel.errors import CorruptMetadata, NewerRelease, TidewheelError, UnsupportedLayout
from tidewheel.ledger.bucket import Bucket, BucketId, Tail
from tidewheel.ledger.segment_table import decode_segments, encode_segments
from tidewheel.ledger.slots import decode_slots, encode_slots
from tidewheel.ledger.weights import decode_weights, encode_weights
from tidewheel.model.claim import Claim, Holder
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import Encoding, MessageId, id_bytes
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
from tidewheel.storage.writes import (
    LAYOUT_READ,
    Change,
    Fields,
    Item,
    Value,
    as_seen,
    binary,
    converted,
    item_of,
    number,
    plain,
    string,
)

VERSION = 1

T = TypeVar("T")
_NONE: Mapping[str, Any] = {}


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
                check_layout(_topic(item), number(item["layout"]))
            version = number(item["v"])
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


def _message_id(value: Any) -> MessageId:
    id_bytes(string(value))  # Raises an error that _reading catches.
    return MessageId(string(value))


def _count(value: Any) -> int:
    return whole(number(value))


def key_of(item: Item) -> layout.Key:
    """Returns an item's key."""
    return string(item[layout.PARTITION_KEY]), string(item[layout.SORT_KEY])


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
    return number(item[layout.CHECK_SORT_KEY])


def next_check_change(key: layout.Key, seen_ms: int, next_ms: int) -> Change:
    """Returns the change of an item's next check, if nobody has changed it since."""
    return Change(key=key, sets={layout.CHECK_SORT_KEY: next_ms}, **as_seen({layout.CHECK_SORT_KEY: seen_ms}))


def state_change(
    state: TopicState,
    *clauses: str,
    seen: Mapping[str, Value | None] = _NONE,
    values: Mapping[str, Value] = _NONE,
    sets: Mapping[str, Value | None] = _NONE,
    adds: Mapping[str, Value] = _NONE,
) -> Change:
    """Returns a change of a topic state. The topic must be the same as read, with a layout that this release reads.

    Args:
        state: the topic state as read.
        clauses: further clauses of the condition.
        seen: attributes that must be as read. None: absent.
        values: values of the clauses' `:names`.
        sets: attributes and their new values; None removes the attribute.
        adds: values added to numbers.
    """
    condition = as_seen({"generation": state.generation, **seen}, LAYOUT_READ, *clauses, **values)
    return Change(key=layout.topic_state_key(state.topic), sets=sets, adds=adds, **condition)


def next_at_ms_of(item: Item) -> int:
    """Returns when a daily work is next due, from the item of its claim."""
    return number(item["next_at_ms"])


def _topic(item: Item) -> str:
    return layout.topic_of(string(item[layout.PARTITION_KEY]))


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


def _item(key: layout.Key, attributes: Mapping[str, Value | None]) -> Item:
    return item_of(key, {"v": VERSION, **attributes})


def encode_purges(purges: Sequence[Purge]) -> str | None:
    """Returns purged ranges as stored in a topic state's item. Equal ranges give equal texts."""
    texts = [[each.first_ms, each.end_ms, each.sent_before_ms] for each in purges]
    return json.dumps(texts, separators=(",", ":")) if texts else None


def _purges(stored: str) -> tuple[Purge, ...]:
    return tuple(Purge.of(*each) for each in json_of(stored))


_TOPIC_STATE = Fields(
    plain(string, "generation"),
    converted("settings", lambda value: TopicSettings.from_json(string(value)), TopicSettings.to_json),
    plain(number, "sealed", "planned", "collected_until", "purge_ms"),
    plain(number, "work_version", "swap_version", "subscriptions_version"),
    plain(number, "next_slot", "next_check_ms", "collect_at_ms", "merge_at_ms", default=None),
    plain(number, "deleting_at_ms", "created_at_ms", default=None),
    plain(number, "merge_considered_version", "waiting", "recurring", default=0),
    plain(number, "layout", default=1),
    converted("purges", lambda value: _purges(string(value)), encode_purges, default=()),
)


def encode_topic_state(state: TopicState) -> Item:
    """Returns a topic state's item."""
    checks = check_fields(state.topic, state.next_check_ms)
    return _item(layout.topic_state_key(state.topic), _TOPIC_STATE.attributes(state) | checks)


@_reading
def decode_topic_state(item: Item) -> TopicState:
    """Reads a topic state."""
    return TopicState(topic=_topic(item), **_TOPIC_STATE.values(item))


_BUCKET = Fields(
    plain(string, "object_name"),
    plain(number, "size_bytes", "rows"),
    converted("slots", lambda value: decode_slots(binary(value)), encode_slots),
    converted("segments", lambda value: decode_segments(binary(value)), encode_segments, default=()),
    converted("tail", lambda value: Tail.of_tag(string(value)), lambda tail: tail.tag, default=None),
    converted("weights", lambda value: decode_weights(binary(value)), encode_weights, default=()),
    plain(_count, "slot_shift", "checked_ms", default=0),
    converted("schema_version", _count, attribute="schema", default=1),
)


def encode_bucket(topic: str, bucket: Bucket) -> Item:
    """Returns a bucket's item."""
    return _item(layout.bucket_key(topic, bucket.id), _BUCKET.attributes(bucket.without_tail()))


@_reading
def decode_bucket(item: Item) -> Bucket:
    """Reads a bucket. Readers stop by the slot in its id, so a bucket with an earlier slot cannot be read."""
    bucket = Bucket(id=BucketId(key_of(item)[1].removeprefix(layout.BUCKETS)), **_BUCKET.values(item))
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


_PLAN = Fields(
    plain(number, "end_slot"),
    plain(binary, "manifest", default=None),
    plain(string, "object_name", "occurrences", default=None),
    plain(number, "object_bytes", default=0),
)


def encode_plan_item(plan: PlanItem) -> Item:
    """Returns a plan's item."""
    return _item(layout.plan_key(plan.topic, plan.first_slot), _PLAN.attributes(plan))


@_reading
def decode_plan_item(item: Item) -> PlanItem:
    """Reads a plan's item, complete or with `pk, sk, v, end_slot` only."""
    return PlanItem(topic=_topic(item), first_slot=layout.plan_slot(key_of(item)[1]), **_PLAN.values(item))


@_reading
def decode_plan_in_table(item: Item) -> PlanItem:
    """Reads a plan's item and the manifest in it. A manifest that is an object is not read."""
    plan = decode_plan_item(item)
    if plan.manifest is not None:
        decode_plan(plan.topic, plan.first_slot, plan.end_slot, plan.manifest)
    return plan


_SUBSCRIPTION = Fields(
    plain(string, "generation", "queue_url"),
    plain(number, "cursor", "start"),
    converted("state", lambda value: State(string(value)), lambda state: str(state.value)),
    plain(number, "created_at_ms", default=None),
)


def encode_subscription(subscription: SubscriptionState) -> Item:
    """Returns a subscription's item."""
    key = layout.subscription_key(subscription.topic, subscription.name)
    return _item(key, _SUBSCRIPTION.attributes(subscription) | subscription.stored())


@_reading
def decode_subscription(item: Item) -> SubscriptionState:
    """Reads a subscription."""
    stored = {name: item[name] for name in settings_of(StoredSettings) if name in item}
    return SubscriptionState(
        topic=_topic(item),
        name=key_of(item)[1].removeprefix(layout.SUBSCRIPTIONS),
        **_SUBSCRIPTION.values(item),
        **read_stored({name: number(value) if "N" in value else string(value) for name, value in stored.items()}),
    )


_DELIVERY = Fields(
    plain(string, "queue_url"),
    plain(number, "parts", "start", "next_check_ms"),
    converted("done", lambda value: frozenset(map(int, value["NS"])), default=frozenset()),
    # `leases` exists from the start, so that updates can set its entries.
    converted("leases", lambda value: _leases(value["M"]), lambda leases: {str(part): ms for part, ms in leases}),
    plain(string, "filter_policy", "carry", default=None),
    plain(number, "first_ms", "end_ms", default=None),
)


def _leases(taken: Item) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((int(part), number(taken_ms)) for part, taken_ms in taken.items()))


def encode_delivery(delivery: Delivery) -> Item:
    """Returns a delivery's item."""
    checks = check_fields(delivery.key.topic, delivery.next_check_ms)
    return _item(layout.delivery_key(delivery.key), _DELIVERY.attributes(delivery) | checks)


@_reading
def decode_delivery(item: Item) -> Delivery:
    """Reads a delivery."""
    return Delivery(key=layout.parse_delivery_key(key_of(item)), **_DELIVERY.values(item))


_PARK = Fields(
    plain(number, "rows", "size_bytes", "next_check_ms"),
    plain(binary, "ledger", default=None),
    plain(string, "object_name", "unreadable", default=None),
    plain(number, "leased_ms", "refused_ms", "first_due_ms", default=None),
    plain(number, "tries", default=0),
)


def encode_park(park: Park) -> Item:
    """Returns a park's item."""
    checks = check_fields(park.key.topic, park.next_check_ms)
    return _item(layout.park_key(park.key), _PARK.attributes(park) | checks)


@_reading
def decode_park(item: Item) -> Park:
    """Reads a park, with or without its ledger."""
    return Park(key=layout.parse_park_key(key_of(item)), **_PARK.values(item))


_SET_ASIDE = Fields(
    converted("start", number, attribute="start_slot"),
    plain(string, "filter_policy", default=None),
    plain(number, "first_ms", "end_ms", "next_check_ms", default=None),
    plain(string, "reason"),
    plain(number, "first_seen_ms", "tries", "damage"),
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
        **_SET_ASIDE.attributes(item),
        **check_fields(item.key.topic, item.next_check_ms),
    }


@_reading
def decode_set_aside(item: Item) -> SetAside:
    """Reads a set-aside item."""
    first_slot, end_slot = number(item["first_slot"]), number(item["end_slot"])
    plan = decode_plan(_topic(item), first_slot, end_slot, binary(item["manifest"]))
    ranges = tuple(_range(plan, *each) for each in json_of(string(item["ranges"])))
    key = layout.parse_set_aside_key(key_of(item))
    return SetAside(key=key, plan=plan, ranges=ranges, **_SET_ASIDE.values(item))


def _range(plan: Plan, segment: object, first_row: object, end_row: object, *_: object) -> tuple[int, int, int]:
    if whole(segment) >= len(plan.segments):
        raise ValueError(f"segment {segment} of {len(plan.segments)}")
    return whole(segment), whole(first_row), whole(end_row)


_TRASH = Fields(
    converted("objects", lambda value: tuple(map(text, json_of(string(value)))), json.dumps),
    plain(number, "read_until", default=None),
)


def encode_trash(topic: str, trash: Trash) -> Item:
    """Returns a trash item."""
    return _item(layout.trash_key(topic, trash.sealed, trash.id), _TRASH.attributes(trash))


@_reading
def decode_trash(item: Item) -> Trash:
    """Reads a trash item."""
    sealed, _, trash_id = key_of(item)[1].removeprefix(layout.TRASH).partition("#")
    return Trash(sealed=int(sealed), id=trash_id, **_TRASH.values(item))


_TOMBSTONE = Fields(
    converted("ttl_s", number, attribute=layout.TTL_ATTRIBUTE),
    converted("to", _message_id, attribute="moved_to", default=None),
    converted("certain", lambda _: False, lambda _: 1, attribute="uncertain", default=True),
    plain(_count, "put_ms", default=0),
)


def encode_tombstone(topic: str, tombstone: Tombstone) -> Item:
    """Returns a tombstone's item."""
    return _item(layout.tombstone_key(topic, tombstone.slot, tombstone.id), _TOMBSTONE.attributes(tombstone))


@_of_client("tombstone")
@_reading
def decode_tombstone(item: Item) -> Tombstone:
    """Reads a tombstone."""
    slot, message_id = layout.parse_tombstone_key(key_of(item))
    return Tombstone(slot, message_id, **_TOMBSTONE.values(item))


def encode_move(topic: str, mover: MessageId, moved: MessageId, ttl_s: int) -> Item:
    """Returns the item that allows a message to move another message."""
    return _item(layout.move_key(topic, mover), {layout.TTL_ATTRIBUTE: ttl_s, "moves": moved})


@_of_client("move")
@_reading
def decode_move(item: Item) -> MessageId | None:
    """Reads which message may be moved."""
    return _message_id(item["moves"]) if "moves" in item else None


def claims_of(item: Item, holder: Holder) -> int:
    """Returns how often a subscription has claimed a message."""
    return number(item[str(holder)])


def decode_claim(item: Item) -> Claim:
    """Reads a claim. Consumers write it, so what is no id of a message names none."""
    holders = {name.partition("#")[0] for name in item if "#" in name}
    try:
        to = _message_id(item["moved_to"]) if "moved_to" in item else None
    except (KeyError, ValueError):
        to = None
    return Claim(holders=tuple(sorted(holders)), cancelled="cancelled" in item, to=to)


class Note(NamedTuple):
    """A number, and the messages to which it does not apply.

    Attributes:
        number: see `tidewheel.storage.notes.Notes`.
        waiting: 16-byte ids of the pack's messages that were not sent, whatever the number says.
    """

    number: int
    waiting: frozenset[bytes] = frozenset()


def encode_note(key: layout.Key, note: Note, ttl_s: int) -> Item:
    """Returns the item of a note.

    A release that does not know of waiting messages reads the number 0 beside them, and sends the whole pack.
    """
    fields: dict[str, Value | None] = {layout.TTL_ATTRIBUTE: ttl_s, "number": note.number}
    if note.waiting:
        fields |= {"number": 0, "done_below": note.number, "waiting": b"".join(sorted(note.waiting))}
    return _item(key, fields)


@_reading
def decode_note(item: Item) -> Note:
    """Reads a note."""
    if "waiting" not in item:
        return Note(number(item["number"]))
    ids = binary(item["waiting"])
    return Note(number(item["done_below"]), frozenset(ids[i : i + 16] for i in range(0, len(ids), 16)))


_RECURRING = Fields(
    plain(string, "generation", "rule"),
    converted("text", string, attribute="body"),
    converted("encoding", lambda value: Encoding(number(value)), int),
    converted("attributes", lambda value: _texts(string(value)), lambda texts: json.dumps(dict(texts)), default={}),
    plain(number, "first_ms"),
    plain(number, "expires_in_ms", "window_ms", "missed_slot", default=None),
    plain(string, "group", default=None),
)


def _texts(stored: str) -> dict[str, str]:
    return {text(name): text(value) for name, value in json_of(stored).items()}


def encode_recurring(recurring: Recurring) -> Item:
    """Returns a recurring message's item."""
    return _item(layout.recurring_key(recurring.topic, recurring.name), _RECURRING.attributes(recurring))


@_reading
def decode_recurring(item: Item) -> Recurring:
    """Reads a recurring message."""
    name = key_of(item)[1].removeprefix(layout.RECURRING)
    return Recurring(topic=_topic(item), name=name, **_RECURRING.values(item))


_KEY = Fields(
    converted("id", _message_id, default=None),
    plain(number, "sent_ms", "seq"),
    converted("ttl_s", number, attribute=layout.TTL_ATTRIBUTE),
    converted("replace", lambda _: True, int, attribute="replaces", default=False),
    converted("cancelled", lambda _: True, int, default=False),
    plain(number, "tail_ms", "latest_ms", default=0),
)


def encode_key(topic: str, entry: KeyEntry) -> Item:
    """Returns a key's item."""
    return _item(layout.key_key(topic, entry.key), _KEY.attributes(entry) | floor_fields(entry))


def floor_fields(entry: KeyEntry) -> dict[str, int | None]:
    """Returns the attributes of a key's floor. None: the attribute is absent."""
    floor_ms, floor_seq = entry.floor
    return {"floor_ms": floor_ms or None, "floor_seq": floor_seq or None}


@_of_client("key")
@_reading
def decode_key(item: Item) -> KeyEntry:
    """Reads a key's entry."""
    floor_ms, floor_seq = (number(item[name]) if name in item else 0 for name in ("floor_ms", "floor_seq"))
    return KeyEntry(key=key_of(item)[1], floor=(floor_ms, floor_seq), **_KEY.values(item))
