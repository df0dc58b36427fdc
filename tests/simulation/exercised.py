"""Events that a set of runs must contain. A simulation without events proves nothing."""

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
    "trigger: plain messages twice",
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
    "client: large body moved",
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
    "client: keys lost",
    "client: delete topic",
    "client: create topic again",
    "client: plain messages",
    "client: plain cancel in time",
)
UNANSWERED = tuple(
    f"unanswered: {kind}"
    for kind in ("send", "plain send", "cancel", "cancel by key", "reschedule", "purge", "pause", "resume")
)
FLOWS = (
    "topic_states.seal",
    "buckets.commit -> committed",
    "plans.commit in one transaction -> yes",
    "plans.commit in one transaction -> no",
    "plans.commit in single steps -> yes",
    "deliveries.hand_out -> yes",
    "deliveries.lease_part",
    "deliveries.part_done",
    "subscriptions.mark_broken -> yes",
    "parks.put -> parked",
    "parks.park_part -> parked",
    "parks.lease",
    "parks.delete",
    "subscriptions.resume -> yes",
    "merges.swap -> yes",
    "topic_states.raise_collected_until -> yes",
    "buckets.delete",
    "plans.delete",
    "merges.delete_trash",
    "keys.claim",
    "keys.move -> yes",
    "tombstones.put",
    "tombstones.cancel_batch -> yes",
    "tombstones.cancel_batch -> no",
    "recurring.put -> yes",
    "recurring.delete -> yes",
    "deliveries.open_replay -> opened",
    "topic_states.merge_considered -> yes",
    "deletions.forget -> yes",
    "topic_states.update_settings -> yes",
    "queues.refuse",
    "queues.forward",
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
    "buckets.commit -> exists",
    "buckets.commit -> moved",
    "parks.put -> exists",
    "topic_states.raise_collected_until -> no",
    "sweep: parts enqueued again",
    "sweep: parks enqueued",
    "sweep: orphans deleted",
)
"""What is done only after something went wrong, or by chance."""


def missing(exercised: Counter[str], wanted: Iterable[str]) -> list[str]:
    """Returns the missing events."""
    return [each for each in wanted if not exercised[each]]
