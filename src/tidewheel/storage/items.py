"""Converts domain values to items of the table and back.

The attribute `v` is the format version of an item. A topic state also has the `layout`, which sets the rules by which
all data of the topic is read and changed. Optional fields are absent, never null. Attributes unknown to this release
are ignored, and kept when an item is changed and not put whole.

Binary attributes (`slots`, `segments`, `weights`, `manifest`, `ledger`) hold bytes with their own checksum, which is
verified before a parser sees the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from tidewheel.errors import CorruptMetadata, NewerRelease, TidewheelError, UnsupportedLayout
from tidewheel.ledger.bucket import Bucket, BucketId, Tail
from tidewheel.ledger.index import (
    decode_segments,
    decode_slots,
    decode_weights,
    encode_segments,
    encode_slots,
    encode_weights,
)
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import Encoding, MessageId, id_bytes
from tidewheel.model.park import Park
from tidewheel.model.plan import Trash, decode_plan
from tidewheel.model.recurring import Recurring
from tidewheel.model.settings import STORED_SETTINGS, TopicSettings, read_stored
from tidewheel.model.subscription_state import (
    Delivery,
    DeliveryKey,
    PlainReader,
    State,
    SubscriptionState,
    Tally,
    Unread,
)
from tidewheel.model.tombstone import Claim, Tombstone
from tidewheel.model.topic_state import NextWork, Purge, TopicState, check_layout
from tidewheel.model.untrusted import json_of, text, whole
from tidewheel.storage import table_keys
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
    """Makes a decoder raise CorruptMetadata for every unreadable item."""

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
            seen = {table_keys.PARTITION_KEY, table_keys.SORT_KEY} | table_keys.CLIENT_ITEMS[kind]
            try:
                return decode({name: value for name, value in item.items() if name in seen})
            except NewerRelease as error:
                raise CorruptMetadata(str(error)) from None

        return checked

    return decorated


def _name(item: Item) -> str:
    return "/".join(item.get(part, {}).get("S", "?") for part in (table_keys.PARTITION_KEY, table_keys.SORT_KEY))


def _message_id(value: Any) -> MessageId:
    id_bytes(string(value))  # Raises an error that _reading catches.
    return MessageId(string(value))


def _count(value: Any) -> int:
    return whole(number(value))


def key_of(item: Item) -> table_keys.Key:
    """Returns an item's key."""
    return string(item[table_keys.PARTITION_KEY]), string(item[table_keys.SORT_KEY])


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
    return number(item[table_keys.CHECK_SORT_KEY])


def next_check_change(key: table_keys.Key, seen_ms: int, next_ms: int) -> Change:
    """Returns the change of an item's next check, if nobody has changed it since."""
    return Change(key=key, sets={table_keys.CHECK_SORT_KEY: next_ms}, **as_seen({table_keys.CHECK_SORT_KEY: seen_ms}))


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
    return Change(key=table_keys.topic_state_key(state.topic), sets=sets, adds=adds, **condition)


def next_at_ms_of(item: Item) -> int:
    """Returns the next due time of a daily work, from the claim's item."""
    return number(item["next_at_ms"])


def _topic(item: Item) -> str:
    return table_keys.topic_of(string(item[table_keys.PARTITION_KEY]))


def check_fields(topic: str, next_check_ms: int | None) -> dict[str, Value | None]:
    """Returns the attributes to add an item to the index `checks` or to remove the item."""
    return {
        table_keys.CHECK_PARTITION_KEY: None if next_check_ms is None else table_keys.check_shard(topic),
        table_keys.CHECK_SORT_KEY: next_check_ms,
    }


def next_work_fields(topic: str, next_work: NextWork) -> dict[str, Value | None]:
    """Returns the topic state's attributes for a NextWork."""
    return {
        "next_slot": next_work.next_slot,
        "collect_at_ms": next_work.collect_at_ms,
        **check_fields(topic, next_work.next_check_ms),
    }


def _item(key: table_keys.Key, attributes: Mapping[str, Value | None]) -> Item:
    return item_of(key, {"v": VERSION, **attributes})


def encode_purges(purges: Sequence[Purge]) -> str | None:
    """Returns purged ranges as stored in a topic state's item. Equal ranges give equal texts."""
    texts = [[each.first_ms, each.end_ms, each.sent_before_ms] for each in purges]
    return json.dumps(texts, separators=(",", ":")) if texts else None


def encode_readers(readers: Sequence[PlainReader]) -> str | None:
    """Returns the plain readers as stored in a topic state's item. Equal readers give equal texts."""
    return json.dumps(readers, separators=(",", ":")) if readers else None


def _reader(name: object, generation: object, declared: object) -> PlainReader:
    if not isinstance(name, str) or not isinstance(generation, str):
        raise ValueError("a reader's name or generation is not a text")
    return PlainReader(name, generation, bool(declared))


_TOPIC_STATE = Fields(
    plain(string, "generation"),
    converted("settings", lambda value: TopicSettings.from_json(string(value)), TopicSettings.to_json),
    plain(number, "layout", "sealed", "planned", "collected_until", "purge_ms"),
    plain(number, "work_version", "swap_version", "subscriptions_version"),
    plain(number, "next_slot", "next_check_ms", "collect_at_ms", "merge_at_ms", "view_at_ms", default=None),
    plain(number, "deleting_at_ms", "created_at_ms", default=None),
    plain(number, "merge_considered_version", "waiting", "recurring", default=0),
    converted(
        "purges", lambda value: tuple(Purge.of(*each) for each in json_of(string(value))), encode_purges, default=()
    ),
    converted(
        "readers", lambda value: tuple(_reader(*each) for each in json_of(string(value))), encode_readers, default=()
    ),
)


def encode_topic_state(state: TopicState) -> Item:
    """Returns a topic state's item."""
    checks = check_fields(state.topic, state.next_check_ms)
    return _item(table_keys.topic_state_key(state.topic), _TOPIC_STATE.attributes(state) | checks)


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
)


def encode_bucket(topic: str, bucket: Bucket) -> Item:
    """Returns a bucket's item."""
    return _item(table_keys.bucket_key(topic, bucket.id), _BUCKET.attributes(bucket.without_tail()))


@_reading
def decode_bucket(item: Item) -> Bucket:
    """Reads a bucket. Readers stop by the slot in its id, so a bucket with an earlier slot cannot be read."""
    bucket = Bucket(id=BucketId(key_of(item)[1].removeprefix(table_keys.BUCKETS)), **_BUCKET.values(item))
    if bucket.id_slot > (bucket.last_slot if bucket.slot_shift else bucket.first_slot):
        raise ValueError(f"slots begin with {bucket.first_slot}, before the slot in the key")
    return bucket


class PlanItem(NamedTuple):
    """A plan's range, with the manifest or the name of the manifest's object."""

    topic: str
    first_slot: int
    end_slot: int
    manifest: bytes | None
    object_name: str | None
    object_bytes: int
    occurrences: str | None = None
    edition: int = 0


_PLAN = Fields(
    plain(number, "end_slot"),
    plain(binary, "manifest", default=None),
    plain(string, "object_name", "occurrences", default=None),
    plain(number, "object_bytes", "edition", default=0),
)


def encode_plan_item(plan: PlanItem) -> Item:
    """Returns a plan's item."""
    return _item(table_keys.plan_key(plan.topic, plan.first_slot), _PLAN.attributes(plan))


@_reading
def decode_plan_item(item: Item) -> PlanItem:
    """Reads a plan's item, complete or with `pk, sk, v, end_slot` only."""
    return PlanItem(topic=_topic(item), first_slot=table_keys.plan_slot(key_of(item)[1]), **_PLAN.values(item))


@_reading
def decode_plan_in_table(item: Item) -> PlanItem:
    """Reads a plan's item and the manifest in the item, but no manifest object."""
    plan = decode_plan_item(item)
    if plan.manifest is not None:
        decode_plan(plan.topic, plan.first_slot, plan.end_slot, plan.manifest)
    return plan


_SUBSCRIPTION = Fields(
    plain(string, "generation", "queue_url"),
    plain(number, "cursor", "start", "created_at_ms"),
    plain(number, "created_slot", default=0),
    converted("state", lambda value: State(string(value)), lambda state: str(state.value)),
)


def encode_subscription(subscription: SubscriptionState) -> Item:
    """Returns a subscription's item."""
    key = table_keys.subscription_key(subscription.topic, subscription.name)
    return _item(key, _SUBSCRIPTION.attributes(subscription) | subscription.stored())


@_reading
def decode_subscription(item: Item) -> SubscriptionState:
    """Reads a subscription."""
    return SubscriptionState(
        topic=_topic(item),
        name=key_of(item)[1].removeprefix(table_keys.SUBSCRIPTIONS),
        **_SUBSCRIPTION.values(item),
        **_stored_settings(item),
    )


def _stored_settings(item: Item) -> dict[str, Any]:
    stored = {name: item[name] for name in STORED_SETTINGS if name in item}
    return read_stored({name: number(value) if "N" in value else string(value) for name, value in stored.items()})


_DELIVERY = Fields(
    plain(string, "queue_url"),
    plain(number, "parts", "start", "next_check_ms"),
    converted("done", lambda value: frozenset(map(int, value["NS"])), default=frozenset()),
    # `leases` and `unread` exist from the start, so that updates can set their entries.
    converted("leases", lambda value: _leases(value["M"]), lambda leases: {str(part): ms for part, ms in leases}),
    plain(number, "first_ms", "end_ms", "unread_ms", default=None),
    converted(
        "unread", lambda value: _unread(value["M"]), lambda unread: {str(n): unread_text(it) for n, it in unread}
    ),
    plain(string, "reason", default=None),
    plain(number, "tries", "edition", "created_slot", "opened_ms", "done_ms", default=0),
)


def unread_text(unread: Unread) -> str:
    """Returns the stored pieces of a part that could not be read."""
    return json.dumps(unread, separators=(",", ":"))


def _unread(parts: Item) -> tuple[tuple[int, Unread], ...]:
    return tuple(sorted((int(part), _unread_of(*json_of(string(stored)))) for part, stored in parts.items()))


def _unread_of(pieces: Sequence[object], objects: Sequence[object], rows: object, lost: object, *_: object) -> Unread:
    return Unread(tuple(map(whole, pieces)), tuple(map(text, objects)), whole(rows), bool(lost))


def _leases(taken: Item) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((int(part), number(taken_ms)) for part, taken_ms in taken.items()))


def encode_delivery(delivery: Delivery, number: int = 0) -> Item:
    """Returns an item of a delivery, as `marks.divided` numbers them. The first is in the index `checks`."""
    checks = {} if number else check_fields(delivery.key.topic, delivery.next_check_ms)
    fields = _DELIVERY.attributes(delivery) | tally_fields(delivery.tally)
    return _item(table_keys.marks_key(delivery.key, number), fields | delivery.stored() | checks)


@_reading
def decode_delivery(item: Item) -> Delivery:
    """Reads an item of a delivery."""
    return _delivery(item, table_keys.parse_delivery_key(key_of(item)))


def _delivery(item: Item, key: DeliveryKey) -> Delivery:
    tally = Tally(**{name: number(item[name]) for name in Tally._fields if name in item})
    return Delivery(key=key, tally=tally, **_DELIVERY.values(item), **_stored_settings(item))


def encode_sent(delivery: Delivery, ttl_s: int) -> Item:
    """Returns the record that a delivery leaves when it is done."""
    small = replace(delivery, done=frozenset(), leases=(), unread=(), reason=None)
    fields = _DELIVERY.attributes(small) | tally_fields(delivery.tally) | delivery.stored()
    unchecked = {table_keys.TTL_ATTRIBUTE: ttl_s, table_keys.CHECK_SORT_KEY: None}
    return _item(table_keys.sent_key(delivery.key), fields | unchecked)


@_reading
def decode_sent(item: Item) -> Delivery:
    """Reads the record of a delivery that is done."""
    return _delivery(item | {table_keys.CHECK_SORT_KEY: {"N": "0"}}, table_keys.parse_sent_key(key_of(item)))


def tally_fields(tally: Tally) -> dict[str, int]:
    """Returns the attributes of a tally. Zeros have none."""
    return {name: count for name, count in tally._asdict().items() if count}


_PARK = Fields(
    plain(number, "rows", "size_bytes", "next_check_ms"),
    plain(binary, "ledger", default=None),
    plain(string, "object_name", "unreadable", default=None),
    plain(number, "leased_ms", "first_due_ms", default=None),
    plain(number, "tries", default=0),
)


def encode_park(park: Park) -> Item:
    """Returns a park's item."""
    checks = check_fields(park.key.topic, park.next_check_ms)
    return _item(table_keys.park_key(park.key), _PARK.attributes(park) | checks)


@_reading
def decode_park(item: Item) -> Park:
    """Reads a park, with or without the ledger."""
    return Park(key=table_keys.parse_park_key(key_of(item)), **_PARK.values(item))


_TRASH = Fields(
    plain(number, "sealed"),
    converted("objects", lambda value: tuple(map(text, json_of(string(value)))), json.dumps),
    plain(_count, "put_ms", default=0),
)


def encode_trash(topic: str, trash: Trash) -> Item:
    """Returns a trash item."""
    return _item(table_keys.trash_key(topic, trash.dead_from, trash.id), _TRASH.attributes(trash))


@_reading
def decode_trash(item: Item) -> Trash:
    """Reads a trash item."""
    _, dead_from, trash_id = key_of(item)[1].split("#")
    return Trash(dead_from=int(dead_from), id=trash_id, **_TRASH.values(item))


_TOMBSTONE = Fields(
    converted("ttl_s", number, attribute=table_keys.TTL_ATTRIBUTE),
    converted("to", _message_id, attribute="moved_to", default=None),
    converted("certain", lambda _: False, lambda _: 1, attribute="uncertain", default=True),
    plain(_count, "put_ms", default=0),
)


def encode_tombstone(topic: str, tombstone: Tombstone) -> Item:
    """Returns a tombstone's item."""
    return _item(table_keys.tombstone_key(topic, tombstone.slot, tombstone.id), _TOMBSTONE.attributes(tombstone))


@_of_client("tombstone")
@_reading
def decode_tombstone(item: Item) -> Tombstone:
    """Reads a tombstone."""
    slot, message_id = table_keys.parse_tombstone_key(key_of(item))
    return Tombstone(slot, message_id, **_TOMBSTONE.values(item))


def encode_move(topic: str, mover: MessageId, moved: MessageId, ttl_s: int) -> Item:
    """Returns the item that allows a message to move another."""
    return _item(table_keys.move_key(topic, mover), {table_keys.TTL_ATTRIBUTE: ttl_s, "moves": moved})


@_of_client("move")
@_reading
def decode_move(item: Item) -> MessageId | None:
    """Reads which message may be moved."""
    return _message_id(item["moves"]) if "moves" in item else None


CLAIMED_AT = "#at"
"""The end of an attribute of a claim, behind its holder: the Unix second in which the holder claimed last."""


def decode_claim(item: Item) -> Claim:
    """Reads a claim. Consumers write claims, so a malformed id names no message."""
    holders = {name.partition("#")[0] for name in item if "#" in name}
    taken = {name.partition("#")[0]: number(at) for name, at in item.items() if name.endswith(CLAIMED_AT) and "N" in at}
    try:
        to = _message_id(item["moved_to"]) if "moved_to" in item else None
    except (KeyError, ValueError):
        to = None
    return Claim(holders=tuple(sorted(holders)), taken=taken, cancelled="cancelled" in item, to=to)


class Note(NamedTuple):
    """A number, and the messages excepted from the number.

    Attributes:
        number: see `tidewheel.storage.notes.Notes`.
        waiting: 16-byte ids of the pack's messages that were not sent, whatever the number says.
    """

    number: int
    waiting: frozenset[bytes] = frozenset()


_NOTE = Fields(
    plain(number, "number"),
    converted("waiting", lambda value: _ids(binary(value)), lambda ids: b"".join(sorted(ids)), default=frozenset()),
)


def _ids(data: bytes) -> frozenset[bytes]:
    return frozenset(data[i : i + 16] for i in range(0, len(data), 16))


def encode_note(key: table_keys.Key, note: Note, ttl_s: int) -> Item:
    """Returns the item of a note."""
    return _item(key, {table_keys.TTL_ATTRIBUTE: ttl_s, **_NOTE.attributes(note)})


@_reading
def decode_note(item: Item) -> Note:
    """Reads a note."""
    return Note(**_NOTE.values(item))


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
    return _item(table_keys.recurring_key(recurring.topic, recurring.name), _RECURRING.attributes(recurring))


@_reading
def decode_recurring(item: Item) -> Recurring:
    """Reads a recurring message."""
    name = key_of(item)[1].removeprefix(table_keys.RECURRING)
    return Recurring(topic=_topic(item), name=name, **_RECURRING.values(item))


_KEY = Fields(
    converted("id", _message_id, default=None),
    plain(number, "sent_ms", "seq"),
    converted("ttl_s", number, attribute=table_keys.TTL_ATTRIBUTE),
    converted("replace", lambda _: True, int, attribute="replaces", default=False),
    converted("cancelled", lambda _: True, int, default=False),
    plain(number, "tail_ms", "latest_ms", default=0),
)


def encode_key(topic: str, entry: KeyEntry) -> Item:
    """Returns a key's item."""
    return _item(table_keys.key_key(topic, entry.key), _KEY.attributes(entry) | floor_fields(entry))


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
