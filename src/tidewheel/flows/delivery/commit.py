"""Commit: a ledger that is stored becomes live under the topic state, and the wheel is armed for its first slot."""

from __future__ import annotations

from tidewheel.flows.ports import AT_ONCE_MS, Commit, NextWork, Ports
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.topic_state import TopicState, above
from tidewheel.model.wheel import fires_at_ms


def commit_and_arm(ports: Ports, state: TopicState, bucket: Bucket, once: str | None = None) -> Commit:
    """Tries once to commit a bucket; the object of one that exists already is deleted.

    Args:
        state: as read.
        bucket: its ledger is stored.
        once: `<import id>#<cut>`, if an import wrote the ledger.
    """
    first_slot = bucket.first_slot
    next_work = _lowered(state, first_slot)
    merge_at_ms = ports.clock.now_ms() if state.wants_merge else None
    commit = ports.topics.commit_bucket(state, bucket, next_work, merge_at_ms, once)
    if commit is Commit.EXISTS:
        _drop_unless_named(ports, state, bucket)
    if commit is Commit.EXISTS or (commit is Commit.COMMITTED and (next_work is not None or not _armed(ports, state))):
        ports.wheel.schedule(state.topic, first_slot, fires_at_ms(first_slot, state.settings))
    return commit


def _drop_unless_named(ports: Ports, state: TopicState, bucket: Bucket) -> None:
    """Deletes the object of a try that came second, unless it turns out that this very try had come first."""
    committed = ports.topics.bucket(state.topic, bucket.id)
    if committed is None or committed.object_name != bucket.object_name:
        ports.objects.delete([bucket.object_name])


def _lowered(state: TopicState, first_slot: int) -> NextWork | None:
    """Returns the next slots that a ledger needs, None if the sweep looks early enough already.

    Who lowers the next slot arms the wheel; while its schedule is to come, that leads to the dispatch that arms the
    next.
    """
    if not above(state.next_slot, first_slot):
        return None
    next_check_ms = state.check_at(first_slot, None)
    if state.next_check_ms is not None and next_check_ms is not None:
        next_check_ms = min(next_check_ms, state.next_check_ms)
    return NextWork(next_slot=first_slot, next_check_ms=next_check_ms, collect_at_ms=state.collect_at_ms)


def _armed(ports: Ports, state: TopicState) -> bool:
    """Returns whether the next slot's own schedule is still to come.

    It is not when the next slot is where somebody put it who may not arm the wheel, such as a new or resumed
    subscription, and its time has come, or no sweep has armed it yet; or when its dispatch is under way and may have
    read the buckets.
    """
    if state.next_slot is None or state.next_check_ms == AT_ONCE_MS:
        return False
    return fires_at_ms(state.next_slot, state.settings) > ports.clock.now_ms()
