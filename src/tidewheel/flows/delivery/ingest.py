"""Ingests packs into one committed ledger, and sends messages of sealed slots directly.

packs --+--------------------------------------------+-- rows -- seal --+-- of sealed slots --> queues
        |                                            |                  |
        +-- keys, moves, packs that come again ------+                  +-- the rest: ledger --> bucket --> schedule
             settled first, with notes: `Progress`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidewheel import deadline
from tidewheel.deadline import TRY_S
from tidewheel.errors import ConcurrentModification, CorruptPack, TopicReplaced, UnknownTopic
from tidewheel.flows.delivery.commit import commit_bucket, schedule
from tidewheel.flows.delivery.direct import Direct, send_direct
from tidewheel.flows.delivery.progress import Progress, settled
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket, BucketId, bucket_id, content_id
from tidewheel.ledger.ledger import encode_for_topic
from tidewheel.ledger.rows import pack_rows, sort_rows, without_repeats
from tidewheel.model import object_names
from tidewheel.model.message import id_deliver_at_ms
from tidewheel.model.pack import Pack
from tidewheel.model.topic_state import TopicState
from tidewheel.model.wheel import open_from
from tidewheel.storage.buckets import Commit

_ATTEMPTS = 20
_PROGRESS_S = 2 * TRY_S
"""Kept for the progress of direct rows, if the ledger fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """The counts of an ingest call.

    Attributes:
        ledger_rows: in a ledger that this call, or an earlier try, committed.
        direct_rows: sent directly; cancelled messages count too.
        object_name, bucket_id: of the ledger, if this call committed a ledger.
        expired: direct messages that were dropped because their time had passed.
        superseded: messages that were dropped because of their key, or because their move came too late. These messages
            count in ledger_rows or direct_rows, too.
        cancelled: direct messages that were dropped because they were cancelled or purged.
        parked: direct messages that were parked, counted for each subscription.
        pending: place in the batch -> the error of a pack that comes again: all of it, or its messages that wait.
    """

    ledger_rows: int
    direct_rows: int
    object_name: str | None
    bucket_id: BucketId | None
    superseded: int = 0
    cancelled: int = 0
    expired: int = 0
    parked: int = 0
    pending: Mapping[int, Exception] = field(default_factory=dict)


def ingest(ports: Ports, topic: str, packs: Sequence[Pack]) -> Ingested:
    """Sends messages that are due soon, and makes the others durable in the topic's index.

    Rows of sealed slots are sent before the ledger is put, so these rows need no S3. If a slot is sealed before the
    ledger is committed, the rows of the slot are sent, too, and the other rows become a new ledger. If it stops
        between keys: see `settle_keys`; nothing is committed.
        between direct sends, or after them: a repetition sends copies with the same ids, once; see `Progress`.
        after the object is put: nothing refers to the object, which stays as waste; the queue brings the packs again.
        after the commit: a repetition finds the bucket, sends direct messages again, and creates the schedule. If a
            merge took the bucket away meanwhile, it commits copies with the same ids.

    Messages whose keys cannot be settled now, and packs whose progress cannot be read or written, wait and fail no
    others. The progress of a pack with waiting messages is written after the commit. If it stops before, all messages
    of the pack come again, so those that were sent directly come twice.

    The caller acknowledges the packs that are not `pending` when this returns, and none if it raises.

    Raises:
        UnknownTopic: there is no topic of this name, or it was deleted meanwhile; nothing was committed.
        TopicReplaced: the topic of the packs was deleted; nothing was done.
        CorruptPack: a message of a pack cannot be a row; nothing was committed.
        ConcurrentModification: the topic state moved too often; nothing was committed.
        Exception: a park of direct messages was not taken; other subscriptions received theirs, and nothing was
            committed.
    """
    state = ports.topic_states.existing(topic)
    for pack in packs:
        if pack.generation != state.generation:
            raise TopicReplaced(topic, pack.generation)
    packs = [_after_purges(state, pack) for pack in packs]
    if all(map(_needs_no_progress, packs)):
        done, unscheduled = _store(ports, state, packs)
    else:
        progress = settled(ports, state, packs)
        done, unscheduled = _store(ports, state, list(progress.packs.values()), progress)
        progress.finish()
        done = replace(done, superseded=progress.superseded, pending=progress.pending)
    if unscheduled is not None:
        schedule(ports, topic, unscheduled, state.settings)
    return done


def _needs_no_progress(pack: Pack) -> bool:
    """Returns whether a pack comes for the first time, and its messages affect no others."""
    return pack.arrival is not None and not pack.arrival.retried and not pack.affects_others


def _after_purges(state: TopicState, pack: Pack) -> Pack:
    """Corrects the sending times of a pack, so that a purge drops all messages that SQS took before the purge.

    If the sender's clock is behind, the sending time becomes the time of the last purge before SQS took the pack. If
    the sender's clock is ahead, the purged messages get the time at which SQS took the pack, or that of the last purge
    that the sender knew, which drops none of them. All other messages keep their sending time, because the sending time
    is the version of a key. `pack_of` limits the error of a sender's clock to SENDER_SKEW_MS.
    """
    taken_ms = 0 if pack.arrival is None else pack.arrival.taken_ms
    pack = replace(pack, sent_at_ms=state.sent_at_ms(pack.sent_at_ms, taken_ms))
    before_ms = max(taken_ms, pack.known_purge_ms or 0)
    last_purge_ms = state.sent_at_ms(0)
    if not taken_ms or pack.known_purge_ms is None or before_ms >= min(pack.sent_at_ms, last_purge_ms):
        return pack  # no purge came between what the sender knew and its sending time
    own_ms = list(map(pack.sent_ms, range(len(pack))))
    for i, sent_ms in enumerate(own_ms):
        if state.purged(id_deliver_at_ms(pack.ids[16 * i : 16 * i + 6]), before_ms):
            own_ms[i] = min(sent_ms, before_ms)
    return replace(pack, own_sent_ms=own_ms)


def _store(
    ports: Ports, state: TopicState, packs: Sequence[Pack], progress: Progress | None = None
) -> tuple[Ingested, int | None]:
    """Sends the rows of sealed slots, each once, and then commits the others as a ledger.

    If a send fails, no ledger is committed. The packs come again. By then more slots may be sealed, and the next try
    would send rows directly that are in a committed ledger already.

    Args:
        progress: None: no pack needs any.

    Returns:
        The counts, and the slot whose schedule is missing.
    """
    rows = _rows(packs)
    slots = np.asarray(rows.column("deliver_at_ms")) // state.slot_ms
    state = _seal_what_is_due(ports, state, slots)
    sent: list[Direct] = []
    sent_rows = sent_below_slot = 0
    stored: Bucket | None = None
    commit, unscheduled = Commit.EXISTS, None
    try:
        with deadline.reserve(_PROGRESS_S):
            for _ in range(_ATTEMPTS):
                sealed = int(np.searchsorted(slots, state.sealed))
                if sealed > sent_rows:
                    with nullcontext() if progress is None else progress.sending(state.sealed):
                        sent.append(send_direct(ports, state, rows.slice(sent_rows, sealed - sent_rows)))
                    sent_rows, sent_below_slot = sealed, state.sealed
                    _drop(ports, stored)
                    stored = None
                if sent_rows == len(slots):
                    break
                stored = stored or _put_ledger(ports, state, rows.slice(sent_rows), int(slots[sent_rows]))
                commit, unscheduled = commit_bucket(ports, state, stored)
                if commit is not Commit.MOVED:
                    break
                state = _moved(ports, state, stored)
            else:
                raise ConcurrentModification("ingest", state.topic, _ATTEMPTS)
    except Exception:
        if sent_rows:
            (progress or Progress(ports, state, packs)).failed(sent_below_slot)
        raise
    committed = stored if commit is Commit.COMMITTED else None
    done = Ingested(
        ledger_rows=len(slots) - sent_rows,
        direct_rows=sent_rows,
        object_name=None if committed is None else committed.object_name,
        bucket_id=None if committed is None else committed.id,
        cancelled=sum(each.cancelled for each in sent),
        expired=sum(each.expired for each in sent),
        parked=sum(each.parked for each in sent),
    )
    return done, unscheduled


def _rows(packs: Sequence[Pack]) -> pa.Table:
    """Returns the rows of packs, each once, by due time.

    Raises:
        CorruptPack: a message cannot be a row.
    """
    try:
        return without_repeats(sort_rows(pack_rows(*packs)))
    except (ValueError, TypeError, OverflowError) as error:
        raise CorruptPack(f"a message that no ledger can hold ({type(error).__name__})") from error


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


def _put_ledger(ports: Ports, state: TopicState, rows: pa.Table, first_slot: int) -> Bucket:
    """Stores rows as a ledger. Returns its bucket."""
    ledger = encode_for_topic(state, rows)
    id = bucket_id(first_slot, content_id(ledger.data))
    object_name = object_names.ledger_name(state.topic, id, state.slot_ms, ports.objects.new_attempt())
    ports.objects.put(object_name, ledger.data)
    return ledger.summary.bucket(id, object_name)


def _drop(ports: Ports, stored: Bucket | None) -> None:
    """Deletes a ledger of which rows are direct by now."""
    if stored is not None:
        ports.objects.delete([stored.object_name])


def _moved(ports: Ports, state: TopicState, stored: Bucket) -> TopicState:
    """Returns the topic state that refused a commit."""
    moved = ports.topic_states.read(state.topic)
    if moved is None or moved.generation != state.generation:
        _drop(ports, stored)
        raise UnknownTopic(state.topic)
    return moved
