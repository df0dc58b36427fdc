"""Commits stored ledgers, and creates schedules of slots.

A schedule is a hint: the sweep finds the slots whose schedules are missing.
"""

from __future__ import annotations

from typing import NamedTuple

from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import NextWork, TopicState, above
from tidewheel.model.wheel import fires_at_ms
from tidewheel.storage.buckets import Commit
from tidewheel.storage.topic_states import AT_ONCE_MS

_ATTEMPTS = 10


class Committed(NamedTuple):
    """The result of one try to commit a bucket.

    Attributes:
        commit: as the port `Buckets` answers.
        schedule: the slot whose schedule the caller creates when all its other work is done, if any.
    """

    commit: Commit
    schedule: int | None = None


def commit_bucket(ports: Ports, state: TopicState, bucket: Bucket, once: str | None = None) -> Committed:
    """Tries once to commit a bucket. Deletes the object if the bucket exists already.

    An import's object stays: two runs commit the same objects, and a merge may have put them into the trash.

    Args:
        state: as read.
        bucket: its ledger is stored.
        once: `<import id>#<mark>`, if an import wrote the ledger.
    """
    first_slot = bucket.first_slot
    next_work = _lowered(state, first_slot)
    merge_at_ms = None
    if state.wants_merge:
        merge_at_ms = ports.clock.now_ms()
        if state.next_check_ms is not None:  # or the topic would lose its place among those that wait for the sweep
            merge_at_ms = min(merge_at_ms, state.next_check_ms)
    commit = ports.buckets.commit(state, bucket, next_work, merge_at_ms, once)
    if commit is Commit.EXISTS and once is None:
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


def schedule(ports: Ports, topic: str, slot: int, settings: TopicSettings) -> bool:
    """Creates a slot's schedule. Returns False if the scheduler refused or did not answer.

    A schedule only makes a dispatch earlier, so a refusal never fails the caller. The caller does all its other work
    first. The topic state names the slot, and the sweep dispatches the topic at its next check.
    """
    try:
        ports.wheel.schedule(topic, slot, fires_at_ms(topic, slot, settings))
    except Exception:  # the function's telemetry has counted and logged it
        return False
    return True


def schedule_again(ports: Ports, topic: str) -> None:
    """Creates the missing schedule of a next slot, and sets the next check.

    A caller without access to schedules lowered the next slot. If it stops between the two, or the scheduler refuses,
    the next sweep does both again. The schedule is created even for a next slot that is due, because the sweep may have
    no dispatch left for the topic, or fail to start the dispatch.
    """
    for _ in range(_ATTEMPTS):
        state = ports.topic_states.read(topic)
        if state is None or state.next_check_ms != AT_ONCE_MS:
            return
        if state.next_slot is not None and not schedule(ports, topic, state.next_slot, state.settings):
            return
        if ports.topic_states.set_collect_at(
            state, state.collect_at_ms, state.check_at(state.next_slot, state.collect_at_ms)
        ):
            return
