"""Finds a message in the ledgers by its id, in few requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import CorruptLedger, ObjectMissing
from tidewheel.flows.delivery.load_index import complete_all
from tidewheel.flows.delivery.sending import attributes_of, texts_of
from tidewheel.ledger.bucket import Bucket, due_segments
from tidewheel.ledger.ledger import decode_segment
from tidewheel.model.message import Encoding, MessageId, id_bytes, id_deliver_at_ms
from tidewheel.model.plan import Plan, PlannedSegment, Segment
from tidewheel.model.received import OPTIONS_OF_EXTRAS
from tidewheel.model.subscription_state import unread_objects
from tidewheel.model.topic_state import TopicState
from tidewheel.model.validation import Options, OutgoingMessage
from tidewheel.storage.objects import Objects
from tidewheel.storage.storage import Storage

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage:
    """A message as stored in a ledger.

    Attributes:
        checked: the sent message; a ledger does not hold `replace` and `moves`, which are settled before.
        sent_at_ms: by its sender's clock.
        object_name: the ledger.
        segment, segments: the number of the ledger's segment with the message, from 1, and the number of its segments.
            None if the ledger's index was not read, as for a message that is found through its plan.
        plan: first slot of the plan that sends the message; None if there is no plan yet, or no longer.
        cancelled: whether that plan leaves the message out.
    """

    checked: OutgoingMessage
    sent_at_ms: int
    object_name: str
    segment: int | None = None
    segments: int | None = None
    plan: int | None = None
    cancelled: bool = False

    @property
    def key(self) -> str | None:
        """The key, as consumers see it. Ingest settles none of an occurrence, an imported message or a retry."""
        options = self.checked.options or Options()
        return options.key or options.recurring or (options.first_version or (None,))[0]

    @property
    def expires_at_ms(self) -> int | None:
        """The expiry time, if the sender gave an expiry."""
        return None if self.checked.options is None else self.checked.options.expires_at_ms


def find_message(storage: Storage, state: TopicState, message_id: MessageId) -> FoundMessage | None:
    """Returns the message of an id, even if purged or expired. Returns None if no kept ledger has the id.

    Reads the buckets, then of each ledger the segment that may have the id, until the row is found. For a planned slot,
    the plan is read first, since a merge leaves planned rows out.

    Args:
        state: of the topic, read by the caller.

    Raises:
        InvalidValue: the id is not valid.
        CorruptLedger, CorruptMetadata, ObjectMissing: something that may hold the message cannot be read, and nothing
            else holds the message.
    """
    found = reading_again(lambda: _find(storage, state, message_id))
    if found is not None:
        return found
    slot = id_deliver_at_ms(id_bytes(message_id)) // state.slot_ms
    now = storage.topic_states.read(state.topic)
    if now is None or not state.planned <= slot < now.planned:
        return None
    # The slot was planned meanwhile, and a later merge has left the row out.
    return reading_again(lambda: _find(storage, now, message_id))


def reading_again(read: Callable[[], T]) -> T:
    """Calls `read`, and calls again if an object was missing.

    A collection may delete an object after its name was read.
    """
    try:
        return read()
    except ObjectMissing:
        return read()


def segment_rows(objects: Objects, object_name: str, segment: Segment) -> pa.Table:
    """Reads a segment with a single range GET.

    Raises:
        CorruptLedger: the segment is damaged.
        ObjectMissing: the ledger is gone.
    """
    data = objects.get_range(object_name, segment.offset, segment.length)
    return decode_segment(data, object_name=object_name, segment=segment)


def found_messages(rows: pa.Table, object_name: str) -> list[FoundMessage]:
    """Returns ledger rows as messages, in the rows' order."""
    attributes, extras = attributes_of(rows)
    columns = (
        rows.column(name).to_pylist() for name in ("encoding", "key", "expires_at_ms", "sent_at_ms", "message_group")
    )
    ids = rows.column("message_id").cast(pa.binary()).to_pylist()
    return [
        FoundMessage(
            checked=OutgoingMessage(
                id=id,
                text=text,
                encoding=Encoding(encoding),
                attributes=MappingProxyType(given or {}),
                options=_options(key, expires_at_ms, group, {} if more is None else json.loads(more)),
            ),
            sent_at_ms=sent_at_ms,
            object_name=object_name,
        )
        for id, text, given, more, encoding, key, expires_at_ms, sent_at_ms, group in zip(
            ids, texts_of(rows, extras), attributes, extras, *columns, strict=True
        )
    ]


def _options(key: str | None, expires_at_ms: int | None, group: str | None, extras: dict[str, Any]) -> Options | None:
    """Returns the options of a row, of which some are the header's extras. A recurring message has a key and no seq."""
    seq = extras.get("seq")
    first = (extras["key"], extras["first"], extras["seq"]) if "first" in extras else None
    same: dict[str, Any] = {option: extras.get(name) for name, option in OPTIONS_OF_EXTRAS.items()}
    options = Options(
        key=key if first is None and seq is not None else None,
        recurring=key if seq is None else None,
        seq=seq if first is None else None,
        expires_at_ms=expires_at_ms,
        first_version=first,
        group=group,
        **same,
    )
    return options if options.document() else None


def _find(storage: Storage, state: TopicState, message_id: MessageId) -> FoundMessage | None:
    binary = id_bytes(message_id)
    slot = id_deliver_at_ms(binary) // state.slot_ms
    plan = _plan_of(storage, state, slot) if slot < state.planned else None
    seen: set[tuple[str, Segment]] = set()
    unreadable: dict[str, Exception] = {}
    live: dict[str, Bucket] = {}
    for object_name, segment in _places(storage, state, plan, binary, live, unreadable):
        if (object_name, segment) in seen:
            continue
        seen.add((object_name, segment))
        try:
            rows = segment_rows(storage.objects, object_name, segment)
        except (CorruptLedger, ObjectMissing) as error:
            unreadable[object_name] = error
            continue
        rows = rows.filter(pc.equal(rows.column("message_id").cast(pa.binary()), pa.scalar(binary, pa.binary())))
        if rows.num_rows:
            [found] = found_messages(rows.slice(0, 1), object_name)
            if object_name in live:
                segments = list(live[object_name].segments)
                found = replace(found, segment=segments.index(segment) + 1, segments=len(segments))
            if plan is None:
                return found
            return replace(found, plan=plan.first_slot, cancelled=message_id in plan.cancelled)
    if unreadable and slot < state.collected_until:  # a quarantined delivery keeps the plan, and only its own ledgers
        kept = unread_objects(storage.deliveries.all(state.topic, {}))
        unreadable = {name: error for name, error in unreadable.items() if name in kept}
    if unreadable:
        raise next(iter(unreadable.values()))
    return None


def _plan_of(storage: Storage, state: TopicState, slot: int) -> Plan | None:
    """Returns the plan of a slot, while the plan is kept."""
    plan = next(storage.plans.before(state.topic, slot), None)
    return plan if plan is not None and slot < plan.end_slot else None


def _places(
    storage: Storage,
    state: TopicState,
    plan: Plan | None,
    binary: bytes,
    live: dict[str, Bucket],
    unreadable: dict[str, Exception],
) -> Iterator[tuple[str, Segment]]:
    """Yields the segments that may hold an id, first the plan's, then the buckets'.

    Args:
        live: gets each bucket that is read, by its ledger.
        unreadable: gets the error of each bucket that cannot be read.
    """
    if plan is not None:
        yield from _holding(plan.segments, binary)
    slot = id_deliver_at_ms(binary) // state.slot_ms
    buckets = storage.buckets.in_order(state.topic, unreadable, end_slot=slot + 1)
    occupied = [each for each in buckets if each.occupies(slot, slot + 1)]
    live |= {each.object_name: each for each in complete_all(storage.objects, occupied, unreadable)}
    yield from _holding(due_segments(live.values(), slot, slot + 1, state.slot_ms), binary)


def _holding(planned: Iterable[PlannedSegment], binary: bytes) -> Iterable[tuple[str, Segment]]:
    """Returns the segment of each ledger that may hold an id: the last one that does not begin behind the id."""
    due_ms = id_deliver_at_ms(binary)
    found = {each.object_name: each.segment for each in planned if each.segment.least_id <= binary}
    return [(name, segment) for name, segment in found.items() if due_ms <= segment.last_deliver_at_ms]
