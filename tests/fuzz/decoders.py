"""Every decoder of documents and items, with good input to change and a use of each result."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from tests.fuzz import hostile
from tests.fuzz.good import CHECKPOINT, ITEMS, JOBS, NOW_MS, PACKS, PLAN, RECEIVED, SLOTS, TABLE
from tests.fuzz.kinds import kind_of
from tests.packs import parts_of
from tidewheel.client.operations.declared import SUBSCRIPTION_TYPE, TOPIC_TYPE, declared
from tidewheel.clock import ManualClock
from tidewheel.flows.delivery.sending import queue_messages
from tidewheel.ledger.bucket import Bucket, Tail
from tidewheel.ledger.index import decode_segments, decode_slots, encode_slots
from tidewheel.ledger.rows import pack_rows
from tidewheel.model.checkpoint import decode_checkpoint, encode_checkpoint
from tidewheel.model.checksum import CHECKSUM_BYTES, opened, sealed
from tidewheel.model.filter_policy import FilterPolicy
from tidewheel.model.message import SQS_MAX_BYTES
from tidewheel.model.pack import decode_pack
from tidewheel.model.plan import decode_plan
from tidewheel.model.received import parse_received
from tidewheel.model.recurrence import Rule
from tidewheel.model.settings import ServiceSettings, TopicSettings
from tidewheel.model.task import task_body, task_of
from tidewheel.storage import items


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """A decoder of foreign bytes.

    Attributes:
        inputs: hostile ones.
        decode: reads one, and asks of the result what the product asks of it.
    """

    inputs: st.SearchStrategy[Any]
    decode: Callable[[Any], object]


def _pack_of(head: bytes, bodies: bytes) -> bytes:
    return sealed(b"\x01" + zlib.compress(head + b"\n" + bodies))


def _pack(data: bytes) -> None:
    pack = decode_pack(data, NOW_MS)
    for release in queue_messages(pack_rows(pack), TopicSettings()):
        assert release.size <= SQS_MAX_BYTES, "SQS would refuse what ingest took"
        message = {"MessageAttributes": _attribute_values(release.attributes, release.header)}
        received = parse_received({"Body": release.text, "MessageId": "m", "ReceiptHandle": "r"} | message)
        assert received.body == release.text


def _attribute_values(attributes: Mapping[str, str] | None, header: str) -> dict[str, Any]:
    return {name: {"StringValue": value} for name, value in {**(attributes or {}), "tidewheel": header}.items()}


def _bucket(bucket: Bucket) -> None:
    assert bucket.first_slot <= bucket.last_slot
    bucket.next_slot(0)
    bucket.occupies(0, 10**9)
    bucket.share(0, 1000)
    bucket.without_tail()
    assert len(tuple(bucket.segments)) == len(bucket.segments)


def _item(kind: str) -> Decoder:
    decode: Callable[[Any], Any] = getattr(items, f"decode_{kind}")
    then: Callable[[Any], object] = {"bucket": _bucket}.get(kind, repr)
    return Decoder(inputs=_changed_items(ITEMS[kind]), decode=lambda item: then(decode(item)))


_TYPED = st.one_of(
    hostile.VALUES.map(lambda value: {"S": value if isinstance(value, str) else json.dumps(value)}),
    st.sampled_from([*hostile.NUMBERS, "1.5", "1E+20", "-0"]).map(lambda number: {"N": str(number)}),
    st.binary(max_size=40).map(lambda data: {"B": data}),
    st.sampled_from([{"NULL": True}, {"BOOL": True}, {"L": []}, {"M": {"x": {"N": "1"}}}, {"NS": ["1", "2"]}]),
)


@st.composite
def _changed_items(draw: st.DrawFn, good: dict[str, Any]) -> dict[str, Any]:
    """Draws an item as returned by DynamoDB, with dropped, retyped or damaged attributes. Its keys are always texts."""
    item = dict(good)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(item)))
        value = draw(_TYPED)
        if name in ("pk", "sk"):
            item[name] = {"S": draw(st.one_of(st.sampled_from(hostile.NAMES), st.text(max_size=20))) or "x"}
        elif "B" in item[name] and draw(st.booleans()):
            item[name] = {"B": draw(hostile.any_bytes([item[name]["B"][CHECKSUM_BYTES:]]).map(sealed))}
        elif draw(st.booleans()):
            item[name] = value
        else:
            del item[name]
    if draw(st.booleans()):
        item["v"] = {"N": draw(st.sampled_from(["1", "1", "2", "99"]))}
    return item


def _tail(data: bytes) -> None:
    """Decodes a tail with correct checksums around any contents."""
    slots, segments = sealed(data[: len(data) // 2]), sealed(data[len(data) // 2 :])
    place = Tail(offset=4, slots_bytes=len(slots), segments_bytes=len(segments))
    bucket = items.decode_bucket(ITEMS["bucket"])
    whole = Bucket(
        id=bucket.id, object_name="o", size_bytes=9, rows=9, slots=bucket.slots, segments=(), tail=place, slot_shift=1
    )
    _bucket(whole.with_tail(slots + segments))


def _slots(data: bytes) -> None:
    slots = decode_slots(data)
    assert list(slots) == sorted(set(slots))
    assert decode_slots(encode_slots(slots)) == slots


def _plan(data: bytes) -> None:
    plan = decode_plan("orders", 10, 20, data)
    if sum(planned.segment.rows // plan.part_rows for planned in plan.segments) < 10_000:
        assert all(part for part in plan.parts())


def _received(raw: dict[str, Any]) -> None:
    message = parse_received(raw)
    assert isinstance(message.version[1], int) and message.id
    repr(message)


def _rule(text: str) -> None:
    rule = Rule.from_json(text)
    rule.between(NOW_MS, NOW_MS + 3_600_000, 100)


def _filter(text: str) -> None:
    policy = FilterPolicy.parse(text)
    policy.matches({"color": "red", "n": "[1, 2]"})
    assert FilterPolicy.parse(policy.to_json()).to_json() == policy.to_json()


def _eta(message: dict[str, Any]) -> None:
    from tidewheel.integrations.celery import DelayedTasks

    due = DelayedTasks(topics=None, threshold_s=900, clock=ManualClock(NOW_MS)).due(message)  # type: ignore[arg-type]
    assert due is None or isinstance(due, datetime)


DECODERS: dict[str, Decoder] = {
    "pack": Decoder(
        inputs=st.one_of(
            *(
                hostile.streams([head], [data], wrap=lambda raw, bodies=bodies: _pack_of(raw, bodies))
                for data in PACKS
                for head, bodies in [parts_of(data)]
            )
        ),
        decode=_pack,
    ),
    "job": Decoder(inputs=hostile.texts(JOBS), decode=lambda text: task_of(task_body(task_of(text)))),
    "plan": Decoder(inputs=hostile.streams([json.loads(zlib.decompress(opened(PLAN)))], [PLAN]), decode=_plan),
    "checkpoint": Decoder(
        inputs=hostile.streams([json.loads(zlib.decompress(opened(CHECKPOINT)))], [CHECKPOINT]),
        decode=lambda data: encode_checkpoint(decode_checkpoint(data)),
    ),
    "segment table": Decoder(
        inputs=st.one_of(
            hostile.any_bytes([TABLE]), hostile.any_bytes([zlib.decompress(opened(TABLE))]).map(hostile.stream)
        ),
        decode=lambda data: tuple(decode_segments(data)),
    ),
    "bitmap of slots": Decoder(inputs=hostile.any_bytes([opened(each) for each in SLOTS]).map(sealed), decode=_slots),
    "tail": Decoder(inputs=hostile.any_bytes([opened(SLOTS[0]) + opened(TABLE)]), decode=_tail),
    "received message": Decoder(
        inputs=st.one_of(
            hostile.changed([json.loads(each["MessageAttributes"]["tidewheel"]["StringValue"]) for each in RECEIVED])
        ).map(lambda header: {**RECEIVED[0], "MessageAttributes": {"tidewheel": {"StringValue": json.dumps(header)}}})
        | hostile.texts([1]).map(
            lambda text: {**RECEIVED[0], "MessageAttributes": {"tidewheel": {"StringValue": text}}}
        ),
        decode=_received,
    ),
    "settings of a topic": Decoder(
        inputs=hostile.texts([json.loads(TopicSettings(delay_levels=(1, 5)).to_json())]), decode=TopicSettings.from_json
    ),
    "settings of the service": Decoder(
        inputs=hostile.texts(
            [
                {name: name for name in ServiceSettings.__slots__ if not name.startswith("_")}
                | {"max_skew_ms": 1, "send_threads": 2, "topic_queues": {"a": ["u", "b"]}}
            ]
        ),
        decode=lambda text: ServiceSettings.from_json(text, "the parameter"),
    ),
    "recurring rule": Decoder(
        inputs=hostile.texts(
            [
                {"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "start_ms": 0},
                {"period_s": 60, "timezone": "UTC", "start_ms": 1000},
            ]
        ),
        decode=_rule,
    ),
    "filter": Decoder(
        inputs=hostile.texts(
            [
                {"color": ["red", {"prefix": "b"}], "n": [{"numeric": [">", 1, "<", 9]}]},
                {"$or": [{"a": [{"anything-but": ["x", 1]}]}, {"b": [{"exists": True}, None]}]},
            ]
        ),
        decode=_filter,
    ),
    "declared topic": Decoder(
        inputs=hostile.changed([{"Topic": "orders", "Settings": "{}"}]), decode=lambda each: declared(TOPIC_TYPE, each)
    ),
    "declared subscription": Decoder(
        inputs=hostile.changed(
            [{"Topic": "orders", "Subscription": "s", "QueueUrl": "u", "FilterPolicy": '{"a": ["b"]}'}]
        ),
        decode=lambda each: declared(SUBSCRIPTION_TYPE, each),
    ),
    "Celery message": Decoder(
        inputs=st.one_of(
            st.text(max_size=30),
            st.datetimes().map(datetime.isoformat),
            st.sampled_from(["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:00+23:59"]),
            hostile.SCALARS,
        ).map(lambda eta: {"body": base64.b64encode(b"{}").decode(), "headers": {"eta": eta, "task": "t"}}),
        decode=_eta,
    ),
    **{
        name: Decoder(
            inputs=hostile.any_bytes([opened(each) for each in kind_of(name).good]).map(sealed),
            decode=kind_of(name).read,
        )
        for name in ("marks of large bodies", "record of an import")
    },
    **{f"item of a {kind}": _item(kind) for kind in ITEMS},
}
