"""What the table's items look like: domain values to items and back.

Each item has the number of its layout's version in `v`. Optional fields are absent, never null.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, TypeVar

from pyroaring import BitMap

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb_writes import Item, Value, item_of
from tidewheel.bucket import Bucket, BucketId, Tail, decode_segments, encode_segments, encode_slots
from tidewheel.errors import CorruptMetadata, TidewheelError
from tidewheel.fence import Fence
from tidewheel.flows.ports import Trash, Wake
from tidewheel.settings import TopicSettings
from tidewheel.subscription import Delivery, State, Subscription

VERSION = 1

T = TypeVar("T")


def _reading(decode: Callable[[Item], T]) -> Callable[[Item], T]:
    """Makes a decoder raise CorruptMetadata for whatever it cannot read."""

    @wraps(decode)
    def checked(item: Item) -> T:
        name = "/".join(item.get(part, {}).get("S", "?") for part in (layout.PARTITION_KEY, layout.SORT_KEY))
        try:
            version = _number(item, "v")
            if version > VERSION:
                raise CorruptMetadata(
                    f"item {name} has version {version}; this release reads version {VERSION}: upgrade Tidewheel"
                )
            return decode(item)
        except CorruptMetadata:
            raise
        except (KeyError, TypeError, ValueError, TidewheelError) as error:
            raise CorruptMetadata(f"item {name} is not readable ({error!r}); rebuild the index") from None

    return checked


def _number(item: Item, name: str) -> int:
    return int(item[name]["N"])


def _optional(item: Item, name: str) -> int | None:
    return int(item[name]["N"]) if name in item else None


def _text(item: Item, name: str) -> str:
    return str(item[name]["S"])


def _binary(item: Item, name: str) -> bytes:
    return bytes(item[name]["B"])


def key_of(item: Item) -> layout.Key:
    """Returns an item's key."""
    return _text(item, layout.PARTITION_KEY), _text(item, layout.SORT_KEY)


def _topic(item: Item) -> str:
    return layout.topic_of(_text(item, layout.PARTITION_KEY))


def look_fields(topic: str, look_at_ms: int | None) -> dict[str, Value | None]:
    """Returns the attributes that put an item into the index `wake`, or take it out."""
    return {
        layout.WAKE_PARTITION_KEY: None if look_at_ms is None else layout.wake_shard(topic),
        layout.WAKE_SORT_KEY: look_at_ms,
    }


def wake_fields(topic: str, wake: Wake) -> dict[str, Value | None]:
    """Returns the fence's attributes that a Wake changes."""
    return {
        "wake_slot": wake.wake_slot,
        "collect_at_ms": wake.collect_at_ms,
        **look_fields(topic, wake.look_at_ms),
    }


def encode_fence(fence: Fence) -> Item:
    """Returns a fence's item."""
    fields: dict[str, Value | None] = {
        "v": VERSION,
        "generation": fence.generation,
        "settings": fence.settings.to_json(),
        "sealed": fence.sealed,
        "planned": fence.planned,
        "gc_until": fence.gc_until,
        "wake_slot": fence.wake_slot,
        "ver": fence.ver,
        "cver": fence.cver,
        "subs_ver": fence.subs_ver,
        "purge_ms": fence.purge_ms,
        "collect_at_ms": fence.collect_at_ms,
        "merge_ver": fence.merge_ver or None,
        "merge_at_ms": fence.merge_at_ms,
    }
    return item_of(layout.fence_key(fence.topic), fields | look_fields(fence.topic, fence.look_at_ms))


@_reading
def decode_fence(item: Item) -> Fence:
    """Reads a fence."""
    return Fence(
        topic=_topic(item),
        generation=_text(item, "generation"),
        settings=TopicSettings.from_json(_text(item, "settings")),
        sealed=_number(item, "sealed"),
        planned=_number(item, "planned"),
        gc_until=_number(item, "gc_until"),
        wake_slot=_optional(item, "wake_slot"),
        ver=_number(item, "ver"),
        cver=_number(item, "cver"),
        subs_ver=_number(item, "subs_ver"),
        purge_ms=_number(item, "purge_ms"),
        look_at_ms=_optional(item, layout.WAKE_SORT_KEY),
        collect_at_ms=_optional(item, "collect_at_ms"),
        merge_ver=_optional(item, "merge_ver") or 0,
        merge_at_ms=_optional(item, "merge_at_ms"),
    )


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
        },
    )


@_reading
def decode_bucket(item: Item) -> Bucket:
    """Reads a bucket."""
    return Bucket(
        id=BucketId(key_of(item)[1].removeprefix(layout.BUCKETS)),
        object_name=_text(item, "object_name"),
        size_bytes=_number(item, "size_bytes"),
        rows=_number(item, "rows"),
        slots=BitMap.deserialize(_binary(item, "slots")),
        segments=decode_segments(_binary(item, "segments")) if "segments" in item else (),
        tail=Tail.of_tag(_text(item, "tail")) if "tail" in item else None,
        slot_shift=_optional(item, "slot_shift") or 0,
    )


class PlanItem(NamedTuple):
    """A plan's item: the range, and the manifest or the object that holds it."""

    topic: str
    a: int
    b: int
    manifest: bytes | None
    object_name: str | None
    object_bytes: int


def encode_plan_item(plan: PlanItem) -> Item:
    """Returns a plan's item."""
    named = plan.object_name is not None
    return item_of(
        layout.plan_key(plan.topic, plan.a),
        {
            "v": VERSION,
            "b": plan.b,
            "manifest": plan.manifest,
            "object_name": plan.object_name,
            "object_bytes": plan.object_bytes if named else None,
        },
    )


@_reading
def decode_plan_item(item: Item) -> PlanItem:
    """Reads a plan's item, whole or with `pk, sk, v, b` only."""
    return PlanItem(
        topic=_topic(item),
        a=layout.plan_slot(key_of(item)[1]),
        b=_number(item, "b"),
        manifest=_binary(item, "manifest") if "manifest" in item else None,
        object_name=_text(item, "object_name") if "object_name" in item else None,
        object_bytes=_optional(item, "object_bytes") or 0,
    )


def encode_subscription(subscription: Subscription) -> Item:
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
        },
    )


@_reading
def decode_subscription(item: Item) -> Subscription:
    """Reads a subscription."""
    return Subscription(
        topic=_topic(item),
        name=key_of(item)[1].removeprefix(layout.SUBSCRIPTIONS),
        generation=_text(item, "generation"),
        queue_url=_text(item, "queue_url"),
        cursor=_number(item, "cursor"),
        start=_number(item, "start"),
        state=State(_text(item, "state")),
    )


def encode_delivery(delivery: Delivery) -> Item:
    """Returns a delivery's item; `leases` is there from the start, so that a change may set an entry of it."""
    fields: dict[str, Value | None] = {
        "v": VERSION,
        "queue_url": delivery.queue_url,
        "parts": delivery.parts,
        "start": delivery.start,
        "done": delivery.done or None,
        "leases": {str(part): taken_ms for part, taken_ms in delivery.leases},
    }
    topic = delivery.key.topic
    return item_of(layout.delivery_key(delivery.key), fields | look_fields(topic, delivery.look_at_ms))


@_reading
def decode_delivery(item: Item) -> Delivery:
    """Reads a delivery."""
    return Delivery(
        key=layout.parse_delivery_key(key_of(item)),
        queue_url=_text(item, "queue_url"),
        parts=_number(item, "parts"),
        start=_number(item, "start"),
        look_at_ms=_number(item, layout.WAKE_SORT_KEY),
        done=frozenset(int(part) for part in item["done"]["NS"]) if "done" in item else frozenset(),
        leases=tuple(sorted((int(part), int(taken["N"])) for part, taken in item["leases"]["M"].items())),
    )


def encode_trash(topic: str, trash: Trash) -> Item:
    """Returns a trash item."""
    fields: dict[str, Value | None] = {"v": VERSION, "objects": json.dumps(trash.objects)}
    return item_of(layout.trash_key(topic, trash.sealed, trash.id), fields)


@_reading
def decode_trash(item: Item) -> Trash:
    """Reads a trash item."""
    sealed, _, trash_id = key_of(item)[1].removeprefix(layout.TRASH).partition("#")
    return Trash(sealed=int(sealed), id=trash_id, objects=tuple(json.loads(_text(item, "objects"))))
