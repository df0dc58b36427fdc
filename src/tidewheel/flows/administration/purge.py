"""Purges messages that were sent until now, for all due times or for a range.

The topic state's marks drop the messages wherever they are: in the ingest queue, in a ledger, in a plan, in a park.
Correctness needs the marks only. Ledgers that lie wholly inside the range are also swapped out, like a merge without
outputs, so that they do not count as waiting and their storage is freed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from tidewheel.clock import Clock
from tidewheel.errors import ConcurrentModification, InvalidValue, TooManyPurges
from tidewheel.ledger.bucket import Bucket, waiting_rows
from tidewheel.model.duration import MAX_DELAY_MS
from tidewheel.model.needed import needed
from tidewheel.model.plan import Trash
from tidewheel.model.topic_state import Purge, TopicState
from tidewheel.storage.storage import Storage
from tidewheel.storage.topic_states import check_again_at

MAX_PURGES = 20
_ATTEMPTS = 50
_SWAPS = 5
_A_SWAP = 90
"""Ledgers of one swap: a transaction takes 100 items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeResult:
    """The counts and the time mark of a purge.

    Attributes:
        messages: estimate of the dropped messages that waited in ledgers.
        ledgers: swapped out; ledgers that lie partly inside the range stay until they are merged or collected.
        sent_before_ms: messages sent before this time are dropped.
    """

    messages: int
    ledgers: int
    sent_before_ms: int


def purge(
    storage: Storage, clock: Clock, topic: str, *, first_ms: int | None = None, end_ms: int | None = None
) -> PurgeResult:
    """Drops messages sent until now and due in [first_ms, end_ms), or all without bounds.

    Messages that are already in a subscription's queue (due within the lookahead) are not called back.

    If it stops
        before the mark: nothing was done.
        after the mark: all messages are dropped; ledgers that were not swapped out are deleted when they are merged or
            collected.

    Raises:
        InvalidValue: the range is empty.
        UnknownTopic: there is no topic of this name.
        TooManyPurges: the topic has 20 purged ranges that are in force.
        ConcurrentModification: other changes came first each time.
    """
    least_ms = max(0, first_ms or 0)
    if end_ms is not None and end_ms <= least_ms:
        raise InvalidValue("end", end_ms, f"give an end after the start ({least_ms})")
    for _ in range(_ATTEMPTS):
        state = storage.topic_states.existing(topic)
        # Read before the mark, so all their messages were sent before the mark.
        buckets = storage.buckets.all(topic, {})
        # Messages sent in this same millisecond count as sent before.
        sent_before_ms = state.sent_at_ms(clock.now_ms()) + 1
        whole = first_ms is None and end_ms is None
        asked = Purge(
            first_ms=least_ms,
            # No message sent until now is due later.
            end_ms=min(sent_before_ms + MAX_DELAY_MS, end_ms or sent_before_ms + MAX_DELAY_MS),
            sent_before_ms=sent_before_ms,
        )
        if _mark(storage, state, asked, whole, clock.now_ms()):
            inside = buckets if whole else [each for each in buckets if _inside(each, asked, state.slot_ms)]
            swaps = [inside[i : i + _A_SWAP] for i in range(0, len(inside), _A_SWAP)]
            ledgers = sum(_swap_out(storage, state, each, sent_before_ms) for each in swaps)
            if ledgers:
                collect_in_time(storage, clock, topic)
            first, end = asked.first_ms // state.slot_ms, -(-asked.end_ms // state.slot_ms)
            messages = sum(round(each.rows * each.share(max(state.planned, first), end)) for each in buckets)
            return PurgeResult(messages=messages, ledgers=ledgers, sent_before_ms=sent_before_ms)
    raise ConcurrentModification("purge", topic, _ATTEMPTS)


def _mark(storage: Storage, state: TopicState, asked: Purge, whole: bool, now_ms: int) -> bool:
    """Raises the purge marks. Removes marks that the new purge covers."""
    purge_ms = max(state.purge_ms, asked.sent_before_ms) if whole else state.purge_ms
    known = [each for each in purges_in_force(storage, state, now_ms) if each.sent_before_ms > purge_ms]
    if whole or asked.sent_before_ms <= purge_ms or any(each.covers(asked) for each in known):
        purges = known
    else:
        purges = [*(each for each in known if not asked.covers(each)), asked]
    if len(purges) > MAX_PURGES:
        raise TooManyPurges(state.topic, len(purges) - 1)
    return storage.topic_states.set_purges(state, purge_ms, purges)


def purges_in_force(storage: Storage, state: TopicState, now_ms: int) -> tuple[Purge, ...]:
    """Returns the purged ranges that may still affect a message. Reads items only if a range may be forgotten."""
    if len(state.purges_in_force(now_ms, None)) == len(state.purges):
        return state.purges
    unreadable: dict[str, Exception] = {}
    opened = storage.deliveries.all(state.topic, unreadable)
    parks = storage.parks.all(state.topic, unreadable)
    if unreadable:  # the item may be restored, and need each mark
        return state.purges
    return state.purges_in_force(now_ms, needed(state.slot_ms, opened=opened, parks=parks).messages)


def _inside(bucket: Bucket, asked: Purge, slot_ms: int) -> bool:
    """Whether all messages of a ledger are due in a range, as far as its item tells."""
    if bucket.segments:
        first_ms = min(each.first_deliver_at_ms for each in bucket.segments)
        last_ms = max(each.last_deliver_at_ms for each in bucket.segments)
    else:
        first_ms, last_ms = bucket.first_slot * slot_ms, (bucket.last_slot + 1) * slot_ms - 1
    return asked.first_ms <= first_ms and last_ms < asked.end_ms


def _swap_out(storage: Storage, state: TopicState, sources: Sequence[Bucket], now_ms: int) -> int:
    """Swaps out ledgers without replacement. Returns how many were swapped out.

    Ledgers that a merge or a collection has taken are skipped. The trash is stamped with the current `sealed`, so that
    it outlives every plan that names its objects.
    """
    for _ in range(_SWAPS):
        current = storage.topic_states.read(state.topic)
        if not sources or current is None or current.generation != state.generation:
            return 0
        names = tuple(source.object_name for source in sources)
        stamp = current.sealed
        dead_from = max(source.read_until(stamp) for source in sources)
        trash = Trash(sealed=stamp, id=secrets.token_hex(8), objects=names, dead_from=dead_from, put_ms=now_ms)
        dropped = waiting_rows(sources, current.planned)
        # An estimate must not bring the count below zero.
        if storage.merges.swap(current, sources, [], trash, min(dropped, max(0, current.waiting))):
            return len(sources)
        live = {each.id for each in storage.buckets.all(state.topic, {})}
        sources = [each for each in sources if each.id in live]
    return 0


def collect_in_time(storage: Storage, clock: Clock, topic: str) -> None:
    """Sets a collection of the trash if no collection is set.

    Without it, an idle topic's trash would stay long. If it stops before, the trash is deleted after the next dispatch.
    """
    for _ in range(_SWAPS):
        state = storage.topic_states.read(topic)
        if state is None or state.collect_at_ms is not None:
            return
        at_ms = clock.now_ms() + state.settings.collect_interval_s * 1000
        if storage.topic_states.set_collect_at(state, at_ms, check_again_at(state, at_ms)):
            return
