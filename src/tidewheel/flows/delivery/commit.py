"""Commit: a ledger that is stored becomes live under the fence, and the wheel is armed for its first slot."""

from __future__ import annotations

from tidewheel.flows.ports import AT_ONCE_MS, Commit, Ports, Wake
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.topic_state import Fence, above
from tidewheel.model.wheel import fires_at_ms


def commit_and_arm(ports: Ports, fence: Fence, bucket: Bucket, once: str | None = None) -> Commit:
    """Tries once to commit a bucket; the object of one that exists already is deleted.

    Args:
        fence: as read.
        bucket: its ledger is stored.
        once: `<import id>#<cut>`, if an import wrote the ledger.
    """
    first_slot = bucket.first_slot
    wake = _lowered(fence, first_slot)
    merge_at_ms = ports.clock.now_ms() if fence.wants_merge else None
    commit = ports.topics.commit_bucket(fence, bucket, wake, merge_at_ms, once)
    if commit is Commit.EXISTS:
        _drop_unless_named(ports, fence, bucket)
    if commit is Commit.EXISTS or (commit is Commit.COMMITTED and (wake is not None or not _armed(ports, fence))):
        ports.wheel.arm(fence.topic, first_slot, fires_at_ms(first_slot, fence.settings))
    return commit


def _drop_unless_named(ports: Ports, fence: Fence, bucket: Bucket) -> None:
    """Deletes the object of a try that came second, unless it turns out that this very try had come first."""
    committed = ports.topics.bucket(fence.topic, bucket.id)
    if committed is None or committed.object_name != bucket.object_name:
        ports.objects.delete([bucket.object_name])


def _lowered(fence: Fence, first_slot: int) -> Wake | None:
    """Returns the wake marks that a ledger needs, None if the sweep looks early enough already.

    Who lowers wake arms the wheel; while its schedule is to come, that leads to the dispatch that arms the next.
    """
    if not above(fence.wake_slot, first_slot):
        return None
    look_at_ms = fence.look_at(first_slot, None)
    if fence.look_at_ms is not None and look_at_ms is not None:
        look_at_ms = min(look_at_ms, fence.look_at_ms)
    return Wake(wake_slot=first_slot, look_at_ms=look_at_ms, collect_at_ms=fence.collect_at_ms)


def _armed(ports: Ports, fence: Fence) -> bool:
    """Returns whether wake's own schedule is still to come.

    It is not when wake is where somebody put it who may not arm the wheel, such as a new or resumed subscription, and
    its time has come, or no sweep has armed it yet; or when its dispatch is under way and may have read the buckets.
    """
    if fence.wake_slot is None or fence.look_at_ms == AT_ONCE_MS:
        return False
    return fires_at_ms(fence.wake_slot, fence.settings) > ports.clock.now_ms()
