"""Events that a set of runs must contain, because a simulation without events proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

FAULTS = (
    "fault: fails before",
    "fault: fails after",
    "fault: dies before",
    "fault: dies after",
    "fault: throttled",
    "fault: half sent",
    "fault: timed out",
    "fault: killed",
)
TRIGGERS = (
    "trigger: schedule lost",
    "trigger: schedule late",
    "trigger: schedule twice",
    "trigger: dispatch call lost",
    "trigger: packs twice",
    "trigger: packs to dead letters",
    "trigger: job twice",
    "trigger: sweep lost",
    "trigger: merge lost",
)
REPEATS = ("trigger: dispatch repeated",)
"""What only functions that fail cause."""
CLIENTS = (
    "client: send",
    "client: messages",
    "client: cancel in time",
    "client: cancel too late",
    "client: cancel by key in time",
    "client: cancel by key too late",
    "client: reschedule in time",
    "client: purged",
    "client: pause",
    "client: resume",
    "client: a queue is gone",
    "client: subscribe",
    "client: unsubscribe",
    "client: set filter",
    "client: change settings",
    "client: plans replayed",
    "client: make recurring",
    "client: end recurring",
    "client: rebuild",
    "client: rebuilt",
    "client: delete topic",
    "client: create topic again",
)
UNANSWERED = tuple(
    f"unanswered: {kind}" for kind in ("send", "cancel", "cancel by key", "reschedule", "purge", "pause", "resume")
)
FLOWS = (
    "topics.seal",
    "topics.commit_bucket -> committed",
    "topics.commit_plan in one transaction -> yes",
    "topics.commit_plan in one transaction -> no",
    "topics.commit_plan in single steps -> yes",
    "topics.hand_out -> yes",
    "topics.raise_next_slot -> yes",
    "topics.lease_part",
    "topics.part_done",
    "topics.mark_broken -> yes",
    "topics.put_park -> parked",
    "topics.spill_part -> parked",
    "topics.lease_park",
    "topics.delete_parks",
    "topics.resume -> yes",
    "topics.swap -> yes",
    "topics.raise_gc -> yes",
    "topics.delete_bucket",
    "topics.delete_plan",
    "topics.delete_trash",
    "topics.claim_key",
    "topics.move_key -> yes",
    "topics.put_tombstone",
    "topics.cancel_batch -> yes",
    "topics.cancel_batch -> no",
    "topics.put_recurring -> yes",
    "topics.delete_recurring -> yes",
    "topics.open_replay -> opened",
    "topics.merge_considered -> yes",
    "topics.forget_topic -> yes",
    "topics.update_settings -> yes",
    "queues.refuse",
    "objects.copy",
    "ingest: direct_rows",
    "ingest: ledger_rows",
    "ingest: superseded",
    "ingest: cancelled",
    "ingest: expired",
    "ingest: parked",
    "dispatch: messages",
    "dispatch: parts left to the work queue",
    "deliver: messages",
    "deliver: parked",
    "collect: buckets",
    "sweep: dispatches started",
    "sweep: payloads deleted",
    "sweep: topics deleted",
)
HEALING = (
    "topics.commit_bucket -> exists",
    "topics.commit_bucket -> moved",
    "topics.put_park -> exists",
    "topics.raise_gc -> no",
    "sweep: parts enqueued again",
    "sweep: parks enqueued",
    "sweep: orphans deleted",
)
"""What is done only after something went wrong, or by chance."""


def missing(exercised: Counter[str], wanted: Iterable[str]) -> list[str]:
    """Returns the missing events."""
    return [each for each in wanted if not exercised[each]]
