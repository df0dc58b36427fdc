"""Builds and parses the table's keys, for the application, the stack and the tests alike.

    item          pk                       sk
    topic state   T#<topic>                STATE
    bucket        T#<topic>                BUCKET#<bucket id>, which begins with the first slot
    plan          T#<topic>                PLAN#<first slot>
    subscription  T#<topic>                SUB#<name>
    delivery      T#<topic>                DELIVERY#<subscription>#<generation>#<first slot>, and #<id> of a replay
    marks         T#<topic>/<sub.>/<item>  as the delivery, whose further parts they mark
    sent record   T#<topic>                SENT#<first slot>#<subscription>#<generation>, and #<id> of a replay
    park          T#<topic>                PARK#<subscription>#<generation>#<id>
    trash         T#<topic>                TRASH#<dead from this slot>#<id>
    recurring     T#<topic>                RECUR#<name>
    merge lease   T#<topic>                MERGE
    import        T#<topic>                IMPORT#<import id>#<mark>
    adoption      T#<topic>                CLAIM#<subscription, or nothing>#<owner>
    tombstone     T#<topic>#TOMB           <slot>#<message id>
    key           T#<topic>#KEY#<00 to 15> <key>
    move          T#<topic>#MOVE           <id of the message that moves another>
    note          T#<topic>#NOTE           <content id of a pack, or another name>
    claim         T#<topic>#CLAIM#<id>     CLAIM
    listed topic  T##TOPICS                <topic>
    list's mark   T##TOPICS                #
    daily work    SERVICE                  <name>
    heartbeat     SERVICE                  SWEEP, the time of the last sweep

Slots have 12 digits, so that keys sort in the order of slots. Names contain no '#' (`topic.check_name`).

Topic states, deliveries and parks with a next check are also in the sparse index `checks`, whose keys
are `check_shard` and `next_check_ms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

from tidewheel.ledger.bucket import SLOT_DIGITS, BucketId
from tidewheel.model.message import MessageId
from tidewheel.model.park import ParkKey
from tidewheel.model.subscription_state import DeliveryKey
from tidewheel.model.topic import check_name

PARTITION_KEY = "pk"
SORT_KEY = "sk"
TTL_ATTRIBUTE = "ttl"

CHECK_INDEX = "checks"
CHECK_PARTITION_KEY = "check_shard"
CHECK_SORT_KEY = "next_check_ms"
CHECK_SHARDS = 16

STATE = "STATE"
BUCKETS = "BUCKET#"
PLANS = "PLAN#"
SUBSCRIPTIONS = "SUB#"
DELIVERIES = "DELIVERY#"
SENT = "SENT#"
PARKS = "PARK#"
TRASH = "TRASH#"
MERGE = "MERGE"
IMPORTS = "IMPORT#"
RECURRING = "RECUR#"
ADOPTIONS = "CLAIM#"

EVERY_TOPIC = "T#*"
"""IAM policy pattern for the partitions of all topics' items. A topic's name contains no '#'."""
EVERY_BESIDE = "T#*#*"
"""IAM policy pattern for the partitions of all topics' tombstones and keys."""
EVERY_TOMBSTONES = "T#*#TOMB"
EVERY_KEYS = "T#*#KEY#*"
EVERY_MOVES = "T#*#MOVE"
EVERY_NOTES = "T#*#NOTE"
EVERY_CLAIMS = "T#*#CLAIM#*"
SERVICE = "SERVICE"
"""The partition of items that belong to no topic."""
LISTED = "T##TOPICS"
"""The partition of the list of topics. It is no topic's, and the policies of those who create topics include it."""

CLIENT_ITEMS = {
    "tombstone": frozenset({"v", TTL_ATTRIBUTE, "moved_to", "uncertain", "put_ms"}),
    "key": frozenset(
        {
            *("v", TTL_ATTRIBUTE, "id", "sent_ms", "seq", "replaces", "cancelled"),
            *("floor_ms", "floor_seq", "tail_ms", "latest_ms"),
        }
    ),
    "move": frozenset({"v", TTL_ATTRIBUTE, "moves"}),
}
"""Kind of an item that clients write -> its attributes beside its key.

The policies of clients allow no other attributes, and readers ignore others: an older policy allows all.
"""
CLAIM_ATTRIBUTES = frozenset({TTL_ATTRIBUTE, "claimed", "cancelled"})
"""The attributes of claims that consumers and senders write, beside their keys.

Consumers also count the claims of their subscription, under a name with '#'. Senders write `moved_to`.
"""
CHECKED_BY_CLIENTS = frozenset({"layout", "sealed"})
"""Attributes of the topic state that a client's transaction checks."""

Key = tuple[str, str]
"""A partition key and a sort key."""

_TOPIC = "T#"
_TOMBSTONES = "#TOMB"
_KEYS = "#KEY#"
_MOVES = "#MOVE"
_NOTES = "#NOTE"
_CLAIMS = "#CLAIM#"
_MARKS = "/"
"""No name contains it. Policies of functions allow marks as they allow the topic's own items, in one transaction."""
KEY_SHARDS = 16
HEARTBEAT: Key = (SERVICE, "SWEEP")


def slot_text(slot: int) -> str:
    """Returns a slot as text for a sort key."""
    return f"{slot:0{SLOT_DIGITS}d}"


def slot_range(prefix: str, first_slot: int, end_slot: int | None) -> tuple[str, str]:
    """Returns the bounds of the sort keys that begin with a prefix and a slot of [first_slot, end_slot)."""
    if end_slot is not None and end_slot <= max(0, first_slot):
        return prefix + "~", prefix + "~"
    end = "" if end_slot is None else slot_text(end_slot - 1)
    return prefix + slot_text(max(0, first_slot)), f"{prefix}{end}~"


def topic_partition(topic: str) -> str:
    """Returns the partition of a topic's items, except tombstones, keys, moves and notes."""
    return _TOPIC + topic


def tombstone_partition(topic: str) -> str:
    """Returns the partition of a topic's tombstones."""
    return _TOPIC + topic + _TOMBSTONES


def topic_of(partition: str) -> str:
    """Returns the topic of a partition from `topic_partition`."""
    return partition.removeprefix(_TOPIC)


def is_topic_partition(partition: str) -> bool:
    """Returns whether a partition is from `topic_partition`. Clients write into others, under any sort key."""
    try:
        return topic_partition(check_name("topic", topic_of(partition))) == partition
    except ValueError:
        return False


def topic_state_key(topic: str) -> Key:
    """Returns the key of a topic's state."""
    return topic_partition(topic), STATE


def bucket_key(topic: str, bucket_id: BucketId) -> Key:
    """Returns a bucket's key."""
    return topic_partition(topic), BUCKETS + bucket_id


def plan_key(topic: str, first_slot: int) -> Key:
    """Returns the key of the plan with the start first_slot."""
    return topic_partition(topic), PLANS + slot_text(first_slot)


def plan_slot(sort_key: str) -> int:
    """Returns the first slot of a plan, from the sort key."""
    return int(sort_key.removeprefix(PLANS))


def subscription_key(topic: str, name: str) -> Key:
    """Returns a subscription's key."""
    return topic_partition(topic), SUBSCRIPTIONS + name


def delivery_key(key: DeliveryKey) -> Key:
    """Returns a delivery's key."""
    name = f"{DELIVERIES}{key.subscription}#{key.generation}#{slot_text(key.plan)}"
    return topic_partition(key.topic), name if key.replay is None else f"{name}#{key.replay}"


def parse_delivery_key(key: Key) -> DeliveryKey:
    """Returns the DeliveryKey of the key in the table of a delivery or of its marks.

    Raises:
        ValueError: the key is not a delivery's.
    """
    parts = key[1].split("#")
    replay = parts.pop() if len(parts) > 4 else None
    _, subscription, generation, plan = parts
    topic = topic_of(key[0]).partition(_MARKS)[0]
    return DeliveryKey(topic=topic, subscription=subscription, generation=generation, plan=int(plan), replay=replay)


def marks_key(key: DeliveryKey, item: int) -> Key:
    """Returns the key of an item with marks of a delivery. Item 0 is the delivery itself."""
    partition, name = delivery_key(key)
    return (f"{partition}{_MARKS}{key.subscription}{_MARKS}{item:02d}" if item else partition), name


def marks_partitions(topic: str) -> str:
    """Returns the IAM policy pattern for the partitions of the marks of a topic's deliveries."""
    return f"{_TOPIC}{topic}{_MARKS}*"


def sent_key(key: DeliveryKey) -> Key:
    """Returns the key of the record of a delivery that is done."""
    name = f"{SENT}{slot_text(key.plan)}#{key.subscription}#{key.generation}"
    return topic_partition(key.topic), name if key.replay is None else f"{name}#{key.replay}"


def parse_sent_key(key: Key) -> DeliveryKey:
    """Returns the delivery of a key from `sent_key`.

    Raises:
        ValueError: the key is of another form.
    """
    _, plan, subscription, generation, *replay = key[1].split("#")
    return DeliveryKey(
        topic=topic_of(key[0]),
        subscription=subscription,
        generation=generation,
        plan=int(plan),
        replay=replay[0] if replay else None,
    )


def park_key(key: ParkKey) -> Key:
    """Returns a park's key."""
    return topic_partition(key.topic), f"{parks_prefix(key.subscription, key.generation)}{key.id}"


def parks_prefix(subscription: str, generation: str) -> str:
    """Returns the prefix of the sort keys of a subscription's parks."""
    return f"{PARKS}{subscription}#{generation}#"


def parse_park_key(key: Key) -> ParkKey:
    """Returns the ParkKey of a park's key in the table.

    Raises:
        ValueError: the key is not a park's.
    """
    return ParkKey(**_owned(key))


def _owned(key: Key) -> dict[str, str]:
    _, subscription, generation, id = key[1].split("#")
    return {"topic": topic_of(key[0]), "subscription": subscription, "generation": generation, "id": id}


def trash_key(topic: str, dead_from: int, trash_id: str) -> Key:
    """Returns the key of a trash item."""
    return topic_partition(topic), f"{TRASH}{slot_text(dead_from)}#{trash_id}"


def merge_key(topic: str) -> Key:
    """Returns the key of a topic's merge lease."""
    return topic_partition(topic), MERGE


def import_key(topic: str, once: str) -> Key:
    """Returns the key of the mark of an import's committed chunk. `once` is `<import id>#<mark>`."""
    return topic_partition(topic), IMPORTS + once


def imports_prefix(import_id: str) -> str:
    """Returns the sort key prefix of an import's marks."""
    return f"{IMPORTS}{import_id}#"


def import_mark(sort_key: str) -> int:
    """Returns the number in a mark's sort key."""
    return int(sort_key.rpartition("#")[2])


def tombstone_key(topic: str, slot: int, message_id: MessageId) -> Key:
    """Returns a tombstone's key."""
    return tombstone_partition(topic), f"{slot_text(slot)}#{message_id}"


def parse_tombstone_key(key: Key) -> tuple[int, MessageId]:
    """Returns the slot and message id of a tombstone's key."""
    slot, _, message_id = key[1].partition("#")
    return int(slot), MessageId(message_id)


def moves_partition(topic: str) -> str:
    """Returns the partition of a topic's moves."""
    return _TOPIC + topic + _MOVES


def move_key(topic: str, message_id: MessageId) -> Key:
    """Returns the key of the item that allows a message to move another."""
    return moves_partition(topic), message_id


def note_key(topic: str, name: str) -> Key:
    """Returns the key of a note."""
    return _TOPIC + topic + _NOTES, name


def claim_key(topic: str, name: str) -> Key:
    """Returns the key of the claim of a message or a subscription. Each has a partition, so no partition is hot."""
    return _TOPIC + topic + _CLAIMS + name, "CLAIM"


def recurring_key(topic: str, name: str) -> Key:
    """Returns a recurring message's key."""
    return topic_partition(topic), RECURRING + name


def adoption_key(topic: str, subscription: str | None, owner: str) -> Key:
    """Returns the key of the mark of a topic or subscription adopted by an owner."""
    return topic_partition(topic), adoptions_prefix(subscription) + owner


def adoptions_prefix(subscription: str | None) -> str:
    """Returns the sort key prefix of the adoptions of a subscription, or of the topic itself."""
    return f"{ADOPTIONS}{subscription or ''}#"


def key_key(topic: str, key: str) -> Key:
    """Returns the table's key of a sender's key."""
    return _key_partition(topic, crc32(key.encode()) % KEY_SHARDS), key


def key_partitions(topic: str) -> list[str]:
    """Returns all partitions of a topic's keys."""
    return [_key_partition(topic, number) for number in range(KEY_SHARDS)]


def partitions(topic: str) -> list[str]:
    """Returns all partitions with items of a topic."""
    beside = [tombstone_partition(topic), moves_partition(topic), note_key(topic, "")[0]]
    return [topic_partition(topic), *beside, *key_partitions(topic)]


def _key_partition(topic: str, number: int) -> str:
    return f"{_TOPIC}{topic}{_KEYS}{number:02d}"


def daily_key(name: str) -> Key:
    """Returns the key of a daily job of the whole service."""
    return SERVICE, name


def check_shard(topic: str) -> str:
    """Returns the partition of a topic's items in the index `checks`."""
    return _shard(crc32(topic.encode()) % CHECK_SHARDS)


def check_shards() -> list[str]:
    """Returns all partitions of the index `checks`."""
    return [_shard(number) for number in range(CHECK_SHARDS)]


def checked_key(shard: str, key: Key) -> str | DeliveryKey | ParkKey | None:
    """Returns what a key in a shard of the index `checks` names. A topic is named by a str.

    Returns None for a key that the service does not write into this shard. A sender with an older policy may put such
    items beside its topic.
    """
    parse, build = _CHECKED.get(key[1].partition("#")[0] + "#", (lambda key: topic_of(key[0]), topic_state_key))
    try:
        named: str | DeliveryKey | ParkKey = parse(key)
    except ValueError:
        return None
    ours = is_topic_partition(key[0]) and build(named) == key and check_shard(topic_of(key[0])) == shard
    return named if ours else None


_CHECKED: dict[str, tuple[Callable[[Key], Any], Callable[[Any], Key]]] = {
    DELIVERIES: (parse_delivery_key, delivery_key),
    PARKS: (parse_park_key, park_key),
}
"""Prefix of sort keys -> functions that parse and build such keys. All other keys in the index are topic states'."""


def check_owner(key: Key) -> Key:
    """Returns the partition of an item of the index `checks`, and the prefix of its owner's items of the same kind."""
    return key[0], "".join(f"{part}#" for part in key[1].split("#")[:3])


def _shard(number: int) -> str:
    return f"W#{number:02d}"
