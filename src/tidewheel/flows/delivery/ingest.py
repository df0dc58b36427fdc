"""Ingests packs into one committed ledger, and sends messages of sealed slots directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from tidewheel import deadline
from tidewheel.deadline import TRY_S
from tidewheel.errors import ConcurrentModification, CorruptPack, TopicReplaced, UnknownTopic
from tidewheel.flows.delivery.commit import commit_bucket
from tidewheel.flows.delivery.direct import Direct, send_direct
from tidewheel.flows.delivery.progress import Progress, settled
from tidewheel.flows.delivery.schedules import schedule
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket, BucketId, bucket_id, content_id
from tidewheel.ledger.ledger import SCHEMA, Ledger, encode_for_topic
from tidewheel.ledger.rows import sort_rows, version_of, without_repeats
from tidewheel.ledger.schema import COLUMNS
from tidewheel.model import object_names
from tidewheel.model.message import HEADER_ATTRIBUTE, Encoding, bytes_of_text
from tidewheel.model.pack import Pack
from tidewheel.model.received import header_extras
from tidewheel.model.topic_state import TopicState
from tidewheel.model.validation import Options
from tidewheel.model.wheel import open_from
from tidewheel.storage.buckets import Commit

_ATTEMPTS = 20
_PROGRESS_S = 2 * TRY_S
"""Kept for the progress of direct rows, if the ledger fails."""
_OF_OPTIONS = {each.name: each.of_options for each in COLUMNS if each.of_options is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """The counts of an ingest call.

    Attributes:
        ledger_rows: in a ledger that this call, or an earlier try, committed.
        direct_rows: sent directly; cancelled messages count too.
        object_name, bucket_id: of the ledger, if this call committed a ledger.
        expired: direct messages that were dropped because their time had passed.
        superseded: messages that lost their key to another message; these count above, too, and are not delivered.
        cancelled: direct messages that were dropped because they were cancelled or purged.
        parked: direct messages that were parked, counted for each subscription.
        unread: subscriptions that could not be read, and whose direct messages are set aside.
        left: place in the batch -> the error of a pack that comes again, alone or for some of its messages.
    """

    ledger_rows: int
    direct_rows: int
    object_name: str | None
    bucket_id: BucketId | None
    superseded: int = 0
    cancelled: int = 0
    expired: int = 0
    parked: int = 0
    unread: int = 0
    left: Mapping[int, Exception] = field(default_factory=dict)


def ingest(ports: Ports, topic: str, packs: Sequence[Pack]) -> Ingested:
    """Sends messages that are due soon, and makes the others durable in the topic's index.

    Rows of sealed slots are sent before the ledger is put, so that they need no S3. So are rows whose slots are sealed
    while the ledger is committed. If it stops
        between keys: see `settle_keys`; nothing is committed.
        between direct sends, or after them: a repetition sends copies with the same ids, once; see `Progress`.
        after the object is put: nothing refers to the object, which stays as waste; the queue brings the packs again.
        after the commit: a repetition finds the bucket, sends direct messages again, and creates the schedule.

    Messages whose keys cannot be settled now, and packs whose progress cannot be read or written, wait and fail no
    others. If it stops after the commit and before the progress of a pack with such messages is written, the pack's
    other messages come once more.

    The caller acknowledges the packs that are not `left` when this returns, and none if it raises.

    Raises:
        UnknownTopic: there is no topic of this name; nothing was done.
        TopicReplaced: the topic of the packs was deleted; nothing was done.
        CorruptPack: a message of a pack cannot be a row; nothing was committed.
        KeysNotSettled: items of some keys cannot be read; nothing was committed.
        ConcurrentModification: the topic state moved too often; nothing was committed.
        QueueUnavailable: neither the table nor the work queue took a subscription's direct messages; the others
            received theirs, and nothing was committed.
    """
    state = ports.topic_states.existing(topic)
    for pack in packs:
        if pack.generation != state.generation:
            raise TopicReplaced(topic, pack.generation)
    packs = [_after_purges(state, pack) for pack in packs]
    batch: FirstTry | Progress
    if all(map(_has_no_options, packs)):
        batch, superseded = FirstTry(packs), 0
    else:
        batch, superseded = settled(ports, state, packs)
    state, rows, slots = _unsent(ports, state, batch)
    sealed = _SealedRows(ports, batch, rows, slots)
    try:
        with deadline.reserve(_PROGRESS_S):
            state, committed, unscheduled = _commit(ports, state, rows, slots, sealed)
    except Exception:
        if sealed.end:
            tried = Progress(ports, state, packs) if isinstance(batch, FirstTry) else batch
            tried.failed(sealed.below_slot)
        raise
    batch.finish()
    if unscheduled is not None:
        schedule(ports, topic, unscheduled, state.settings)
    return Ingested(
        ledger_rows=rows.num_rows - sealed.end,
        direct_rows=sealed.end,
        object_name=None if committed is None else committed.object_name,
        bucket_id=None if committed is None else committed.id,
        superseded=superseded,
        cancelled=sum(each.cancelled for each in sealed.sent),
        expired=sum(each.expired for each in sealed.sent),
        parked=sum(each.parked for each in sealed.sent),
        unread=max((each.unread for each in sealed.sent), default=0),
        left=batch.left,
    )


def _after_purges(state: TopicState, pack: Pack) -> Pack:
    """Returns a pack as a sender sends it who knows of all purges until SQS took the pack.

    So a message is not purged that was sent after the purge on a machine whose clock is behind, by SENDER_SKEW_MS at
    most.
    """
    taken_ms = 0 if pack.arrival is None else pack.arrival.taken_ms
    return replace(pack, sent_at_ms=state.sent_at_ms(pack.sent_at_ms, taken_ms))


def _has_no_options(pack: Pack) -> bool:
    """Returns whether a pack comes for the first time, and has no keys or other options."""
    return pack.options is None and pack.arrival is not None and not pack.arrival.retried


class FirstTry:
    """The packs of a call without options. They need no notes, unless the ledger fails after direct rows were sent.

    See `Progress`, which stands here for other packs.
    """

    again = False

    def __init__(self, packs: Sequence[Pack]) -> None:
        self.packs = dict(enumerate(packs))
        self.left: dict[int, Exception] = {}

    def begin(self, below_slot: int) -> bool:  # noqa: ARG002
        """Returns True: all packs are ingested."""
        return True

    def sent(self, below_slot: int) -> None:
        """Does nothing."""

    def finish(self) -> None:
        """Does nothing."""


class _SealedRows:
    """Sends the rows of sealed slots, each once.

    If a sending fails, no ledger is committed. A ledger of a pack that comes again would hold rows that are direct by
    then.

    Attributes:
        again: whether an earlier try may have committed the rows that are not sent.
        end: the first row that is not sent.
        below_slot: all rows below this slot are sent.
        sent: the counts of each sending.
    """

    def __init__(self, ports: Ports, batch: FirstTry | Progress, rows: pa.Table, slots: np.ndarray) -> None:
        self._ports = ports
        self._batch = batch
        self._rows = rows
        self._slots = slots
        self.again = batch.again
        self.end = self.below_slot = 0
        self.sent: list[Direct] = []

    def send(self, state: TopicState) -> None:
        """Sends the rows that were not sent yet, of all slots that are sealed in a topic state."""
        end = int(np.searchsorted(self._slots, state.sealed))
        if end <= self.end:
            return
        if not self._batch.begin(state.sealed):
            raise next(reversed(self._batch.left.values()))
        self.sent.append(send_direct(self._ports, state, self._rows.slice(self.end, end - self.end)))
        self.end, self.below_slot = end, state.sealed
        self._batch.sent(state.sealed)


def _unsent(ports: Ports, state: TopicState, batch: FirstTry | Progress) -> tuple[TopicState, pa.Table, np.ndarray]:
    """Returns the rows that are to be ingested, with their slots, and the topic state that routes them.

    Raises:
        CorruptPack: a message cannot be a row.
    """
    while True:
        try:
            rows = without_repeats(sort_rows(pack_rows(*batch.packs.values())))
        except (ValueError, TypeError, OverflowError) as error:
            raise CorruptPack(f"a message that no ledger can hold ({type(error).__name__})") from error
        slots = np.asarray(rows.column("deliver_at_ms")) // state.slot_ms
        state = _seal_what_is_due(ports, _in_layout(ports, state, rows), slots)
        if batch.begin(state.sealed):
            return state, rows, slots


def pack_rows(*packs: Pack) -> pa.Table:
    """Returns the messages of packs as rows of a ledger."""
    n = sum(map(len, packs))
    ids = b"".join(pack.ids for pack in packs)
    times = np.zeros((n, 8), np.uint8)
    times[:, 2:] = np.frombuffer(ids, np.uint8).reshape(n, 16)[:, :6]
    options = _column(packs, "options", None)
    columns = {
        "deliver_at_ms": pa.array(times.view(">i8").reshape(n).astype(np.int64)),
        "message_id": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), n, [None, pa.py_buffer(ids)]),
        "payload": _payloads(packs, options),
        "encoding": pa.array(list(chain.from_iterable(p.encodings for p in packs)), SCHEMA.field("encoding").type),
        "sent_at_ms": pa.array(_sent_ms(packs, options)),
    }
    if options is not None or any(pack.attributes is not None for pack in packs):
        attributes = _column(packs, "attributes", {}) or [{}] * n
        columns["attributes"] = pa.array(_pairs(attributes, options or [None] * n), SCHEMA.field("attributes").type)
    for name, of_options in _OF_OPTIONS.items() if options is not None else ():
        values = [None if each is None else of_options(each) for each in options or ()]
        columns[name] = pa.array(values, SCHEMA.field(name).type)
    arrays = [columns[f.name] if f.name in columns else pa.nulls(n, f.type) for f in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _column(packs: Sequence[Pack], name: str, absent: Any) -> list[Any] | None:
    """Returns an optional column of all packs, or None if no pack has it."""
    found = [getattr(pack, name) for pack in packs]
    if all(each is None for each in found):
        return None
    some = (each if each is not None else [absent] * len(pack) for each, pack in zip(found, packs, strict=True))
    return list(chain.from_iterable(some))


def _payloads(packs: Sequence[Pack], options: Sequence[Options | None] | None) -> pa.Array:
    texts = list(chain.from_iterable(pack.texts for pack in packs))
    if not any(Encoding.BYTES in pack.encodings for pack in packs):
        return pa.array(texts, pa.string()).cast(pa.binary())
    encodings = chain.from_iterable(pack.encodings for pack in packs)
    return pa.array(
        [
            # The reference to a body in S3 is text, even if the body is not.
            text.encode() if given is not None and given.payload else bytes_of_text(text, Encoding(encoding))
            for text, encoding, given in zip(texts, encodings, options or [None] * len(texts), strict=True)
        ],
        pa.binary(),
    )


def _sent_ms(packs: Sequence[Pack], options: Sequence[Options | None] | None) -> np.ndarray:
    """Returns when each message was sent. A plain message that was packed has its own time."""
    sent = np.repeat(np.array([pack.sent_at_ms for pack in packs], np.int64), [len(pack) for pack in packs])
    for place, each in enumerate(options or ()):
        if each is not None and each.sent_at_ms is not None:
            sent[place] = each.sent_at_ms
    return sent


def _pairs(
    attributes: Sequence[Mapping[str, str]], options: Sequence[Options | None]
) -> list[list[tuple[str, str]] | None]:
    """Returns each message's attributes, including the header's extras under the header's name."""
    found = []
    last, extras = None, None
    for each, given in zip(attributes, options, strict=True):
        pairs = list(each.items())
        if given is not last:  # messages of one plain message share their options
            last, extras = given, None if given is None else header_extras(given)
        if extras is not None:
            pairs.append((HEADER_ATTRIBUTE, extras))
        found.append(pairs or None)
    return found


def _in_layout(ports: Ports, state: TopicState, rows: pa.Table) -> TopicState:
    """Raises the topic's layout if rows need it. Must come before any ledger of the rows, parks included."""
    raised = state if version_of(rows) <= state.layout else ports.topic_states.raise_layout(state, version_of(rows))
    if raised is None:
        raise UnknownTopic(state.topic)
    return raised


def _seal_what_is_due(ports: Ports, state: TopicState, slots: np.ndarray) -> TopicState:
    """Seals slots whose schedule would fire too late, if a row lies in such a slot.

    The row is then sent directly.
    """
    boundary = open_from(ports.clock.now_ms(), state.settings)
    first_open = int(np.searchsorted(slots, state.sealed))
    if state.sealed < boundary and first_open < len(slots) and slots[first_open] < boundary:
        sealed = ports.topic_states.seal(state, boundary)
        if sealed is None:
            raise UnknownTopic(state.topic)
        return sealed
    return state


def _commit(
    ports: Ports, state: TopicState, rows: pa.Table, slots: np.ndarray, sealed: _SealedRows
) -> tuple[TopicState, Bucket | None, int | None]:
    """Sends the rows of sealed slots, and then commits the others as a ledger.

    Returns the topic state by which rows are direct, the bucket, and the slot whose schedule is missing.
    """
    ledger: Ledger | None = None
    object_name = ""
    routed_by = -1
    for _ in range(_ATTEMPTS):
        sealed.send(state)
        start = sealed.end
        if start == len(slots):
            if ledger is not None:
                ports.objects.delete([object_name])
            return state, None, None
        if ledger is None or start != routed_by:
            if ledger is not None:
                ports.objects.delete([object_name])
            ledger = encode_for_topic(state, rows.slice(start))
            id = bucket_id(int(slots[start]), content_id(ledger.data))
            object_name = object_names.ledger_name(state.topic, id, state.slot_ms, ports.objects.new_attempt())
            ports.objects.put(object_name, ledger.data)
            routed_by = start
            bucket = ledger.summary.bucket(id, object_name)
        commit, unscheduled = commit_bucket(ports, state, bucket, again=sealed.again)
        if commit is not Commit.MOVED:
            return state, bucket if commit is Commit.COMMITTED else None, unscheduled
        moved = ports.topic_states.read(state.topic)
        if moved is None or moved.generation != state.generation:
            ports.objects.delete([object_name])
            raise UnknownTopic(state.topic)
        state = moved
    raise ConcurrentModification("ingest", state.topic, _ATTEMPTS)
