"""Every kind of bytes read back by Tidewheel, with good examples and the product's reader."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import cast

import msgspec

from tests.fuzz.good import CHECKPOINT, ITEMS, NOW_MS, PACKS, PLAN, RECEIVED, SLOTS, TABLE, ledger
from tidewheel.client.connection import Connection
from tidewheel.client.receiving import fetch_payload
from tidewheel.errors import CorruptLedger
from tidewheel.flows.delivery.due_rows import due_rows
from tidewheel.flows.delivery.parking import parked_rows
from tidewheel.flows.delivery.sending import queue_messages
from tidewheel.flows.maintenance.payloads import _marks
from tidewheel.flows.ports import Ports, in_order
from tidewheel.ledger.bucket import Bucket, Tail, encode_tail
from tidewheel.ledger.inspection import inspect
from tidewheel.ledger.ledger import decode_segment
from tidewheel.ledger.reader import segments_of, tags_of
from tidewheel.memory.objects import MemoryObjects
from tidewheel.model.checkpoint import decode_checkpoint
from tidewheel.model.checksum import sealed
from tidewheel.model.pack import decode_pack
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.plan import Plan, PlannedSegment, Segment, decode_plan
from tidewheel.model.received import parse_received
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import TopicState
from tidewheel.storage import items
from tidewheel.storage.objects import StoredObject

NAME = "ledgers/orders/2027-01-15/000006000000-0123456789abcdef0123456789abcdef-0123456789abcdef.parquet"
_ENDING_BYTES = 12
_SLOT_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of stored bytes.

    Attributes:
        good: examples.
        read: reads one as the product does; equal bytes give equal values.
        checked: all of it is read, so any damage is noticed. Of a plan's own rows one segment is read.
    """

    good: tuple[bytes, ...]
    read: Callable[[bytes], object]
    checked: bool = True


def _ending_of(data: bytes) -> int:
    return len(data) - _ENDING_BYTES - int.from_bytes(data[-8:-4], "little")


# ---- ledgers
@cache
def _ledger() -> bytes:
    return ledger().data


@cache
def _ledger_with_tail() -> bytes:
    return ledger(2_000, segment_rows=10).data


def _read_whole(data: bytes) -> object:
    """Reads a ledger by its own footer, as a merge, a rebuild and Spark do."""

    def read(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    found = inspect(read, len(data), NAME, _SLOT_MS)
    if found.damage is not None:
        raise CorruptLedger(NAME, 0, len(data) - 1, found.damage.reason)
    return found, tags_of(read, len(data), NAME)


def _read_ending(ending: bytes) -> object:
    data = _ledger()[: _ending_of(_ledger())] + ending

    def read(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    # Where no tail says where the last segment ends, only its own checksum does.
    segments = segments_of(read, len(data), NAME)
    last = segments[-1]
    rows = decode_segment(read(last.offset, last.length), object_name=NAME, segment=last)
    return segments, tags_of(read, len(data), NAME), rows.num_rows


@cache
def _segment(data: bytes) -> Segment:
    return segments_of(lambda offset, length: data[offset : offset + length], len(data), NAME)[1]


def _segment_bytes() -> bytes:
    segment = _segment(_ledger())
    return _ledger()[segment.offset : segment.last_byte + 1]


def _read_segment(data: bytes) -> object:
    rows = decode_segment(data, object_name=NAME, segment=replace(_segment(_ledger()), length=len(data)))
    return queue_messages(rows, TopicSettings())


def _read_planned(data: bytes) -> object:
    """Reads the recurring messages' part of a plan, as a delivery does."""
    objects = MemoryObjects()
    objects.put("plans/orders/1.parquet", data)
    planned = PlannedSegment(object_name="plans/orders/1.parquet", segment=_segment(_ledger()), due_rows=20)
    first = NOW_MS // _SLOT_MS
    plan = Plan(topic="orders", first_slot=first, end_slot=first + 9, segments=(planned,), part_rows=100)
    ports = SimpleNamespace(objects=objects, parallel=in_order)
    state = SimpleNamespace(slot_ms=_SLOT_MS, purge_ms=0, purges=())
    found = due_rows(cast(Ports, ports), cast(TopicState, state), plan, plan.parts()[0])
    if found.unread:
        raise found.unread[0].error
    return queue_messages(found.rows, TopicSettings())


@cache
def _tail() -> tuple[bytes, Tail]:
    segments = segments_of(
        lambda offset, length: _ledger_with_tail()[offset : offset + length], len(_ledger_with_tail()), NAME
    )
    return encode_tail(_bucket().slots, segments, offset=1_000)


def _bucket() -> Bucket:
    return items.decode_bucket(ITEMS["bucket"])


def _read_tail(data: bytes) -> object:
    place = _tail()[1]
    if len(data) < place.slots_bytes:
        place = replace(place, slots_bytes=len(data) // 2)
    return replace(_bucket(), segments=(), tail=place, slot_shift=1).with_tail(data)


# ---- parks
_PARK_KEY = ParkKey(topic="orders", subscription="billing", generation="s1", id="p")


def _read_park_item(data: bytes) -> object:
    park = items.decode_park(ITEMS["park"] | {"ledger": {"B": data}})
    return queue_messages(parked_rows(MemoryObjects(), park), TopicSettings())


def _read_park_object(data: bytes) -> object:
    objects, name = MemoryObjects(), "parked/orders/billing/p-1.parquet"
    objects.put(name, data)
    park = Park(key=_PARK_KEY, rows=60, size_bytes=len(_ledger()), next_check_ms=0, object_name=name)
    return queue_messages(parked_rows(objects, park), TopicSettings())


# ---- items and documents
def _read_bucket(attribute: str) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        bucket = items.decode_bucket(ITEMS["bucket"] | {attribute: {"B": data}})
        return bucket.slots, tuple(bucket.segments), bucket.next_slot(0), list(bucket.slots.iter_equal_or_larger(0))[:9]

    return read


def _read_plan_item(data: bytes) -> object:
    item = items.decode_plan_item(ITEMS["plan_item"] | {"manifest": {"B": data}})
    return decode_plan(item.topic, item.first_slot, item.end_slot, item.manifest or b"")


def _read_plan_object(data: bytes) -> object:
    return decode_plan("orders", 1, 2, data, None, "plans/orders/1-2.json.z")


def _read_marks(data: bytes) -> object:
    objects = MemoryObjects()
    objects.put("payloads/orders/collected.json", data)
    stored = StoredObject(name="payloads/orders/collected.json", size_bytes=len(data), put_at_ms=0)
    found = _marks(cast(Ports, SimpleNamespace(objects=objects)), [stored])
    if not found:  # that is how it says so: marks are begun anew
        raise CorruptLedger(stored.name, 0, len(data), "no marks")
    return found


_BODY = b"x" * 500 + "\N{WATER WAVE}".encode() * 50


def _read_body(data: bytes) -> object:
    sent = {"payload_sha256": hashlib.sha256(_BODY).hexdigest(), "payload_bytes": len(_BODY)}
    message, objects = replace(parse_received(RECEIVED[1]), **sent), MemoryObjects()
    objects.put(str(message.payload), data)
    return fetch_payload(cast(Connection, SimpleNamespace(objects=objects)), message).body


_MARKS = sealed(json.dumps([[NOW_MS + i * 86_400_000, NOW_MS + i * 86_000_000 - 10**11] for i in range(28)]).encode())


# ---- imports
def _import_record() -> Kind:
    from tidewheel.jobs.importing.record import Input, Record, decode_record

    record = Record(
        given=Input(about={"--body": "text", "file a.csv": "100 bytes"}, changed={"/a.csv": "1"}),
        run="run7",
        stored_ms=NOW_MS,
        first_mark=7,
        good=3,
        rejected={"body is missing": 1},
        failed={"/b.csv": "it vanished"},
        rejects=["imports/orders/_1/rejects/1.json"],
        ledgers=[msgspec.msgpack.encode(ITEMS["bucket"])],
    )
    return Kind(good=(record.encode(),), read=lambda data: repr(decode_record(data, "x")))


_MAKERS: dict[str, Callable[[], Kind]] = {
    "ledger, whole": lambda: Kind(good=(_ledger(), _ledger_with_tail()), read=_read_whole),
    "ledger's footer": lambda: Kind(good=(_ledger()[_ending_of(_ledger()) :],), read=_read_ending),
    "segment": lambda: Kind(good=(_segment_bytes(),), read=_read_segment),
    "rows of recurring messages": lambda: Kind(good=(_ledger(),), read=_read_planned, checked=False),
    "tail": lambda: Kind(good=(_tail()[0],), read=_read_tail),
    "park in an item": lambda: Kind(good=(_ledger(),), read=_read_park_item),
    "park as an object": lambda: Kind(good=(_ledger(),), read=_read_park_object),
    "bitmap in an item": lambda: Kind(good=(ITEMS["bucket"]["slots"]["B"], *SLOTS), read=_read_bucket("slots")),
    "segment table in an item": lambda: Kind(good=(TABLE,), read=_read_bucket("segments")),
    "plan in an item": lambda: Kind(good=(PLAN,), read=_read_plan_item),
    "plan as an object": lambda: Kind(good=(PLAN,), read=_read_plan_object),
    "checkpoint": lambda: Kind(good=(CHECKPOINT,), read=decode_checkpoint),
    "pack": lambda: Kind(good=tuple(PACKS), read=lambda data: decode_pack(data, NOW_MS)),
    "marks of large bodies": lambda: Kind(good=(_MARKS,), read=_read_marks),
    "large body": lambda: Kind(good=(_BODY,), read=_read_body),
    "record of an import": _import_record,
}
KINDS = tuple(_MAKERS)


@cache
def kind_of(name: str) -> Kind:
    """Returns a kind by name. The first call makes its good bytes."""
    return _MAKERS[name]()
