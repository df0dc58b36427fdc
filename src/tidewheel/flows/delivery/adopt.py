"""Makes packs of a topic's generation from plain messages, before ingest.

    plain --+-- cancels keys, then -+-- due soon, or tried before ----------> pack of the topic's generation --> ingest
            |                       +-- due later --> pack in the bulk queue, as if the Python client had sent it
            +-- sent before the topic's deletion --> refused

The bulk queue gathers messages for large ledgers. A plain message is either forwarded or ingested here, with all
messages of its envelope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidewheel.errors import TopicReplaced
from tidewheel.flows.delivery.cancel import cancel_as_sent
from tidewheel.flows.delivery.ingest_batch import NamedPack
from tidewheel.flows.delivery.refusing import PendingPacks
from tidewheel.flows.ports import Ports, each_alone
from tidewheel.model.message import MAX_MESSAGE_BYTES, id_deliver_at_ms
from tidewheel.model.pack import Cancellation, Pack, outgoing, with_messages
from tidewheel.model.pack import packs as packs_of
from tidewheel.model.topic_state import TopicState
from tidewheel.model.triggers import BULK_WINDOW_S, INGEST_TIMEOUT_S, KEYED_URGENT_MS, bulk_queue
from tidewheel.storage.bodies import store_body

FORWARD_MS = (bulk_queue().visibility_s + BULK_WINDOW_S + INGEST_TIMEOUT_S) * 1000
"""Messages due later than this may be forwarded.

If a call dies with a message from the bulk queue, the message comes again after the queue's visibility time-out. It
waits for the window again, and the next call may take its whole time.
"""
_FORWARDED_MESSAGES = 1_000

Forward = Callable[[int, bytes], None]
"""Puts a pack of some messages into the topic's bulk queue, or raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """The outcome of plain messages.

    Attributes:
        packs: to be ingested now.
        forwarded: messages in the bulk queue.
        pending: what comes again, or is to be refused.
    """

    packs: list[NamedPack]
    forwarded: int
    pending: list[PendingPacks]


def adopt(ports: Ports, topic: str, plain: Sequence[NamedPack], s3_bucket: str, forward: Forward | None) -> Adopted:
    """Cancels keys, and forwards or returns the messages of a topic's plain packs. If it stops
        after a large body is stored: the message comes again, and the body gets the same name.
        between cancels: the messages come again, and the cancels find their own entries.
        after a pack is forwarded: its messages come again and are ingested here, as copies with the same ids.

    A message that was tried before is not forwarded. So one copy of it is forwarded at most, and the notes of its
    progress bound the others.

    Args:
        s3_bucket: gets bodies that are too large beside our header.
        forward: None: the messages came through the bulk queue.

    Raises:
        UnknownTopic: there is no topic of this name; nothing was done.
        ClockDoubted: the local clock is wrong; keys are cancelled, and nothing was forwarded.
    """
    packs = [pack for _, pack in plain]
    state = ports.topic_states.existing(topic)
    errors = _sent_to_deleted(ports, state, packs)

    def store(place: int) -> None:
        packs[place] = _with_stored_bodies(ports, s3_bucket, packs[place])

    large = [place for place, pack in enumerate(packs) if place not in errors and _has_large_text(pack)]
    if large:
        errors |= each_alone(ports.parallel, store, large)
    errors |= _cancel(ports, state, {place: pack for place, pack in enumerate(packs) if place not in errors})
    pending = [PendingPacks(names=[plain[place][0]], error=error) for place, error in errors.items()]
    rest = [(plain[i][0], pack) for i, pack in enumerate(packs) if i not in errors and len(pack)]
    now_ms = ports.clock.now_ms()
    far = {name: pack for name, pack in rest if _may_wait(pack, now_ms)}
    if forward is None or not _forward(state, far.values(), now_ms, forward):
        far = {}
    own = [(name, replace(pack, generation=state.generation)) for name, pack in rest if name not in far]
    return Adopted(packs=own, forwarded=sum(map(len, far.values())), pending=pending)


def _sent_to_deleted(ports: Ports, state: TopicState, plain: Sequence[Pack]) -> dict[int, Exception]:
    """Returns an error for each message that was sent before the last topic of this name was deleted."""
    created_ms = state.created_at_ms
    if created_ms is not None and all(pack.sent_at_ms >= created_ms for pack in plain):
        return {}
    # The deleter's clock may be behind SQS's.
    deleted_ms = ports.deletions.deleted_at_ms(state.topic) + ports.max_skew_ms
    error = TopicReplaced(state.topic, "deleted by now")
    return {place: error for place, pack in enumerate(plain) if pack.sent_at_ms < deleted_ms}


def _has_large_text(pack: Pack) -> bool:
    """Returns whether a body may be too large. Half of a message's bytes are its body's, at most four a character."""
    return any(len(text) > MAX_MESSAGE_BYTES // 8 for text in pack.texts)


def _with_stored_bodies(ports: Ports, s3_bucket: str, pack: Pack) -> Pack:
    """Stores bodies that are too large beside our header. Their names are those of an earlier try."""
    return with_messages(
        pack,
        [
            store_body(ports.objects, s3_bucket, pack.topic, each, each.id[-8:].hex()) if each.too_large else each
            for each in outgoing(pack)
        ],
    )


def _cancel(ports: Ports, state: TopicState, packs: Mapping[int, Pack]) -> dict[int, Exception]:
    """Cancels the keys of packs, side by side. Returns an error for each pack of which a key is not cancelled."""

    def cancel(wanted: tuple[int, Cancellation]) -> None:
        each = wanted[1]
        version = each.sent_at_ms, each.seq
        cancel_as_sent(ports, state, each.key, version, ports.clock.now_ms())

    wanted = [(place, each) for place, pack in packs.items() for each in pack.cancellations]
    if not wanted:
        return {}
    return {place: error for (place, _), error in each_alone(ports.parallel, cancel, wanted).items()}


def _may_wait(pack: Pack, now_ms: int) -> bool:
    """Returns whether all messages of a pack can wait for the bulk queue, even if a call dies."""
    if pack.arrival is None or pack.arrival.retried:
        return False
    wait_ms = KEYED_URGENT_MS if pack.affects_others else FORWARD_MS
    return all(id_deliver_at_ms(pack.ids[at : at + 6]) > now_ms + wait_ms for at in range(0, len(pack.ids), 16))


def _forward(state: TopicState, plain: Iterable[Pack], now_ms: int, forward: Forward) -> bool:
    """Forwards messages with their own sending times. Returns False if the queue does not take all."""
    messages = [replace(each, sent_at_ms=pack.sent_at_ms) for pack in plain for each in outgoing(pack)]
    try:
        for places, data in packs_of(state.topic, state.generation, now_ms, messages, max_messages=_FORWARDED_MESSAGES):
            forward(len(places), data)
    except Exception:  # whatever keeps the queue from it, the messages are ingested here
        return False
    return True
