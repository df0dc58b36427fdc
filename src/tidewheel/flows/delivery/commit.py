"""Commits stored ledgers and creates the schedules of their first slots."""

from __future__ import annotations

from typing import NamedTuple

from tidewheel.flows.delivery.replaced import was_replaced
from tidewheel.flows.delivery.schedules import schedule
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.topic_state import NextWork, TopicState, above
from tidewheel.model.wheel import fires_at_ms
from tidewheel.storage.buckets import Commit
from tidewheel.storage.topic_states import AT_ONCE_MS


class Committed(NamedTuple):
    """The result of one try to commit a bucket.

    Attributes:
        commit: as the port `Buckets` answers.
        schedule: the slot whose schedule the caller creates when all its other work is done, if any.
    """

    commit: Commit
    schedule: int | None = None


def commit_bucket(
    ports: Ports, state: TopicState, bucket: Bucket, once: str | None = None, *, again: bool = False
) -> Committed:
    """Tries once to commit a bucket. Deletes the object if the bucket exists already, or was merged away.

    Args:
        state: as read.
        bucket: its ledger is stored.
        once: `<import id>#<cut>`, if an import wrote the ledger.
        again: whether an earlier try may have committed the bucket. See `replaced`.
    """
    first_slot = bucket.first_slot
    next_work = _lowered(state, first_slot)
    merge_at_ms = None
    if state.wants_merge:
        merge_at_ms = ports.clock.now_ms()
        if state.next_check_ms is not None:  # or the topic would lose its place among those that wait for the sweep
            merge_at_ms = min(merge_at_ms, state.next_check_ms)
    if again and was_replaced(ports, state, bucket.id):
        commit = Commit.EXISTS
    else:
        commit = ports.buckets.commit(state, bucket, next_work, merge_at_ms, once, same_swaps=again)
    if commit is Commit.EXISTS:
        _drop_unless_named(ports, state, bucket)
    missing = commit is Commit.EXISTS or (
        commit is Commit.COMMITTED and (next_work is not None or not _scheduled(ports, state))
    )
    return Committed(commit, first_slot if missing else None)


def commit_and_schedule(ports: Ports, state: TopicState, bucket: Bucket, once: str | None = None) -> Commit:
    """Tries once to commit a bucket, and creates the schedule of its first slot. See `commit_bucket`."""
    commit, slot = commit_bucket(ports, state, bucket, once)
    if slot is not None:
        schedule(ports, state.topic, slot, state.settings)
    return commit


def _drop_unless_named(ports: Ports, state: TopicState, bucket: Bucket) -> None:
    """Deletes the object of a try that came second.

    The object stays if the committed bucket names it, because then this try had come first.
    """
    committed = ports.buckets.read(state.topic, bucket.id)
    if committed is None or committed.object_name != bucket.object_name:
        ports.objects.delete([bucket.object_name])


def _lowered(state: TopicState, first_slot: int) -> NextWork | None:
    """Returns the next work for a ledger. Returns None if the next slot is low enough.

    The caller that lowers the next slot creates its schedule. A schedule that is still to fire leads to a dispatch,
    which creates the following schedule.
    """
    if not above(state.next_slot, first_slot):
        return None
    next_check_ms = state.check_at(first_slot, None)
    if state.next_check_ms is not None and next_check_ms is not None:
        next_check_ms = min(next_check_ms, state.next_check_ms)
    return NextWork(next_slot=first_slot, next_check_ms=next_check_ms, collect_at_ms=state.collect_at_ms)


def _scheduled(ports: Ports, state: TopicState) -> bool:
    """Returns whether the next slot's own schedule is still to fire.

    The result is False in two cases. Either a caller without access to schedules set the next slot, for instance when
    it created or resumed a subscription, and the slot's time has come or no sweep has created the schedule yet. Or the
    next slot's dispatch is running and may have read the buckets.
    """
    if state.next_slot is None or state.next_check_ms == AT_ONCE_MS:
        return False
    return fires_at_ms(state.topic, state.next_slot, state.settings) > ports.clock.now_ms()
