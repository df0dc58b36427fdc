"""Good input of every foreign kind, as the source of hostile input."""

from __future__ import annotations

import json
from typing import Any

from pyroaring import BitMap

from tidewheel.ledger.bucket import Bucket, Tail, bucket_id
from tidewheel.ledger.index import encode_segments, encode_slots
from tidewheel.ledger.ledger import Ledger, encode_ledger, rows_table
from tidewheel.model.checkpoint import checkpoint_of, encode_checkpoint
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import Encoding, IdSource, Message, MessageId, id_text
from tidewheel.model.pack import packs
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.plan import Plan, PlannedSegment, Segment, Trash, encode_plan
from tidewheel.model.received import header_text
from tidewheel.model.recurring import Recurring
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription_state import Delivery, DeliveryKey, SubscriptionState
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import Purge, TopicState
from tidewheel.model.validation import Options, check_message
from tidewheel.storage import items
from tidewheel.storage.items import PlanItem

NOW_MS = 1_800_000_000_000
_SLOT = NOW_MS // 300_000
IDS = [id_text((NOW_MS + i << 80 | i).to_bytes(16)) for i in range(5)]
_PAYLOAD = f"payloads/orders/2027-01-15/{IDS[0]}-0123456789abcdef"
_BODY: dict[str, Any] = {"payload": _PAYLOAD, "payload_sha256": "0" * 64, "payload_bytes": 9}


def _packs() -> list[bytes]:
    ids = IdSource()
    plain = [Message(body="one", delay=5), Message(body={"n": 2}, delay="2d", attributes={"color": "red"})]
    more = [Message(body=b"\x00\xff", delay=9, key="k", replace=True, expires_in="1h"), Message(body="x", key="k2")]
    again = Options(attempt=2, original_id=IDS[0], only="billing", first_version=("k", NOW_MS - 5, 7), **_BODY)
    checked = [check_message(each, ids, NOW_MS) for each in plain]
    others = [check_message(each, ids, NOW_MS) for each in more]
    others.append(check_message(Message(body=b"again"), ids, NOW_MS, resend=again))
    others.append(check_message(Message(body="moved"), ids, NOW_MS, resend=Options(moves=IDS[1], recurring="daily")))
    large = check_message(Message(body=b"large"), ids, NOW_MS).with_payload(_PAYLOAD, "a pointer", b"large")
    others.append(large)
    return [data for each in (checked, others) for _, data in packs("orders", "g1", NOW_MS, each)]


PACKS = _packs()

_SEGMENTS = tuple(
    Segment(
        offset=4 + 100 * i,
        length=100,
        rows=7,
        raw_bytes=900,
        first_deliver_at_ms=NOW_MS + 1000 * i,
        last_deliver_at_ms=NOW_MS + 1000 * i + 900,
    )
    for i in range(4)
)
TABLE = encode_segments(_SEGMENTS)
SLOTS = [
    encode_slots(BitMap(numbers))
    for numbers in (
        [_SLOT, _SLOT + 3],
        range(1000, 9000),
        range(0, 60_000, 2),
        [1, 70_000, 140_000, 210_000, 2**32 - 1],
    )
]

PLAN = encode_plan(
    Plan(
        topic="orders",
        first_slot=_SLOT,
        end_slot=_SLOT + 1,
        segments=tuple(
            PlannedSegment(object_name=f"ledgers/orders/{i // 2}", segment=segment, due_rows=3)
            for i, segment in enumerate(_SEGMENTS)
        ),
        cancelled=frozenset(IDS[:2]),
        part_rows=5,
    )
)

_STATE = TopicState(
    topic="orders",
    generation="g1",
    settings=TopicSettings(),
    sealed=_SLOT,
    planned=_SLOT - 1,
    collected_until=_SLOT - 5,
    next_slot=_SLOT,
    purges=(Purge(first_ms=1, end_ms=2, sent_before_ms=3),),
    next_check_ms=NOW_MS,
)
_SUBSCRIPTION = SubscriptionState(
    topic="orders",
    name="billing",
    generation="s1",
    queue_url="https://sqs/1/q",
    cursor=_SLOT,
    start=0,
    created_at_ms=NOW_MS,
    filter_policy='{"color":["red"]}',
)
_DELIVERY = Delivery(
    key=DeliveryKey(topic="orders", subscription="billing", generation="s1", plan=_SLOT),
    queue_url="https://sqs/1/q",
    parts=3,
    start=0,
    next_check_ms=NOW_MS,
    done=frozenset((1,)),
    leases=((0, NOW_MS),),
)
_TOMBSTONE = Tombstone(_SLOT, IDS[0], NOW_MS // 1000, IDS[1])
_RECURRING = Recurring(
    topic="orders",
    name="daily",
    generation="r1",
    rule='{"period_s":60,"start_ms":0,"timezone":"UTC"}',
    first_ms=NOW_MS,
    text="x",
    encoding=Encoding.TEXT,
    attributes={"color": "red"},
    expires_in_ms=5,
    group="tenant-7",
    window_ms=900_000,
)
CHECKPOINT = encode_checkpoint(
    checkpoint_of(_STATE, [_SUBSCRIPTION], [_DELIVERY], [_TOMBSTONE], NOW_MS, recurring=[_RECURRING])
)
_BUCKET = Bucket(
    id=bucket_id(_SLOT, "b"),
    object_name="ledgers/orders/b",
    size_bytes=500,
    rows=28,
    slots=BitMap([_SLOT, _SLOT + 3]),
    segments=_SEGMENTS,
    tail=Tail(offset=404, slots_bytes=20, segments_bytes=30),
)
_KEY = KeyEntry(key="k", id=IDS[0], sent_ms=NOW_MS, seq=1, ttl_s=9, floor=(1, 2), tail_ms=3)
_PARK = Park(
    key=ParkKey(topic="orders", subscription="billing", generation="s1", id="abc"),
    rows=3,
    size_bytes=400,
    next_check_ms=NOW_MS,
    ledger=b"PAR1",
)

ITEMS: dict[str, dict[str, Any]] = {
    "topic_state": items.encode_topic_state(_STATE),
    "bucket": items.encode_bucket("orders", _BUCKET),
    "plan_item": items.encode_plan_item(PlanItem("orders", _SLOT, _SLOT + 1, PLAN, None, 0, None)),
    "subscription": items.encode_subscription(_SUBSCRIPTION),
    "delivery": items.encode_delivery(_DELIVERY),
    "park": items.encode_park(_PARK),
    "trash": items.encode_trash("orders", Trash(sealed=_SLOT, id="t", objects=("ledgers/orders/a",), dead_from=_SLOT)),
    "tombstone": items.encode_tombstone("orders", _TOMBSTONE),
    "recurring": items.encode_recurring(_RECURRING),
    "key": items.encode_key("orders", _KEY),
    "move": items.encode_move("orders", MessageId(IDS[0]), MessageId(IDS[1]), 9),
}
"""By what follows `decode_` in the name of the decoder."""

_OWNER = {"topic": "orders", "subscription": "billing", "generation": "s1"}
JOBS = [
    {**_OWNER, "plan": _SLOT, "part": 2},
    {**_OWNER, "plan": _SLOT, "part": 2, "replay": "r1"},
    {**_OWNER, "park": "abc"},
    _OWNER,
]


def _received(**header: Any) -> dict[str, Any]:
    text = header_text(MessageId(IDS[0]), 0, NOW_MS, key="k", expires_at_ms=NOW_MS + 5, extras=json.dumps(header))
    return {
        "Body": "x",
        "MessageId": "m",
        "ReceiptHandle": "r",
        "MessageAttributes": {"tidewheel": {"StringValue": text}},
    }


_RETRY: dict[str, Any] = {"seq": 3, "attempt": 1, "of": IDS[1], "only": "billing", "first": NOW_MS}
RECEIVED = [_received(**_RETRY), _received(**_RETRY, ref=_PAYLOAD, sha256="0" * 64, bytes=2_000_000)]


def ledger(messages: int = 60, *, segment_rows: int = 20) -> Ledger:
    """A ledger of several segments, with keys, attributes and every encoding."""
    return encode_ledger(
        rows_table(
            deliver_at_ms=[NOW_MS + 1000 * i for i in range(messages)],
            message_id=[(NOW_MS + 1000 * i << 80 | i).to_bytes(16) for i in range(messages)],
            payload=[b"\x00\xff%d" % i if i % 3 == 2 else b"body %d" % i for i in range(messages)],
            encoding=[i % 3 for i in range(messages)],
            sent_at_ms=[NOW_MS] * messages,
            key=[f"key {i}" if i % 2 else None for i in range(messages)],
            attributes=[{"color": "red"} if i % 4 else None for i in range(messages)],
        ),
        topic="orders",
        generation="g1",
        slot_ms=300_000,
        segment_rows=segment_rows,
    )
