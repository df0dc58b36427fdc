"""Guards of a slot from its first ingest to its plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.simulation.conditions import unchecked, unwritten
from tests.simulation.guard import Guard, in_storage
from tests.simulation.guards import slot_worlds as worlds
from tests.simulation.healing import SECOND, SLOT_S
from tests.simulation.removal import always, early, instead, moved, never, together
from tidewheel.flows.delivery import commit, direct, dispatch, due_rows, ingest
from tidewheel.storage import table_keys

_LATER_SLOTS = 10
_FOREVER = 10**12


def _due_later_too(less: Any, times: Any, end_ms: int) -> Any:
    return less(times, end_ms + _LATER_SLOTS * SLOT_S * SECOND)


GUARDS = (
    Guard(
        "a commit that found the next slot low enough is refused when the next slot was raised since",
        in_storage("buckets.commit"),
        unchecked("next_slot"),
        worlds.BEYOND,
    ),
    Guard("a commit lowers the next slot to its first slot", commit.commit_bucket, instead("_lowered"), worlds.AGAIN),
    Guard(
        "a commit is seen by whoever raises the next slot",
        in_storage("buckets.commit"),
        unwritten("work_version"),
        worlds.BEYOND,
    ),
    Guard(
        "a batch that comes twice at once is stored once",
        in_storage("buckets.commit"),
        unchecked("pk", table_keys.BUCKETS),
        worlds.AGAIN,
    ),
    Guard(
        "a commit that finds itself done keeps its ledger",
        commit._drop_unless_named,
        always(before="delete"),
        worlds.AGAIN,
    ),
    Guard(
        "a slot is sealed before it is planned",
        dispatch.dispatch,
        instead("seal", lambda _, state, slot: replace(state, sealed=slot)),
        worlds.BOUNDARY,
    ),
    Guard(
        "what is due too soon for its schedule is sealed, and goes direct",
        ingest._seal_what_is_due,
        never(".sealed"),
        worlds.SOON,
    ),
    Guard(
        "a ledger creates its schedule when the schedule of the next slot has fired",
        commit.commit_bucket,
        never("_scheduled"),
        worlds.LOWERED_OPEN,
    ),
    Guard(
        "a ledger creates its schedule when the next slot was lowered without a schedule",
        commit._scheduled,
        never("AT_ONCE_MS"),
        worlds.LOWERED_OPEN,
    ),
    Guard(
        "a plan is handed out with its commit only to subscriptions as they were read",
        in_storage("deliveries.hand_out_writes"),
        together(unchecked("cursor"), unchecked("generation")),
        worlds.UNSUBSCRIBED,
    ),
    Guard(
        "a plan is handed out once to a subscription",
        in_storage("deliveries.hand_out_writes"),
        unchecked("cursor"),
        worlds.PLANNED_TWICE,
    ),
    Guard(
        "a subscription that lags is not moved past the plans between",
        dispatch._up_to_date,
        always("cursor"),
        worlds.PLANNED_BEHIND,
    ),
    Guard(
        "a cursor steps over what no plan holds, and not over a plan made since",
        dispatch.hand_out,
        together(moved("_next_plan", after="subscriptions.read"), moved("topic_states.read", after="_next_plan")),
        worlds.GAP,
    ),
    Guard("the next slot stays while a cursor lags", dispatch._Step.__init__, never("cursor"), worlds.RESUMED),
    Guard(
        "a raise of the next slot plans what was sealed since",
        dispatch._Step.__init__,
        instead("make_plan"),
        worlds.SEALED_ONLY,
    ),
    Guard(
        "a plan reads tombstones after the seal",
        dispatch.dispatch,
        early("tombstones.ids", 0, _FOREVER),
        worlds.CANCELLED,
    ),
    Guard(
        "a plan leaves out what was cancelled",
        due_rows._due,
        instead("without_ids", lambda _, rows, __: rows),
        worlds.CANCELLED,
    ),
    Guard(
        "what goes direct is dropped if it was cancelled",
        direct._without_cancelled,
        instead("tombstones.ids", lambda *_: frozenset()),
        worlds.QUEUED,
    ),
    Guard(
        "tombstones of what goes direct are read after the seal",
        ingest.ingest,
        early("tombstones.ids", 0, _FOREVER),
        worlds.QUEUED,
    ),
    Guard(
        "a plan brings what is due in its slots, and nothing else of a segment",
        due_rows._due,
        instead("less", _due_later_too),
        worlds.SEGMENT,
    ),
)
