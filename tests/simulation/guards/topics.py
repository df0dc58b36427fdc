"""Guards of a topic's creation, deletion, rebuild, recurring messages, imports and settings."""

from __future__ import annotations

from tests.simulation.conditions import unchecked, unwritten
from tests.simulation.guard import Guard, in_storage
from tests.simulation.guards import recurring_worlds, seldom_worlds
from tests.simulation.guards import topic_worlds as worlds
from tests.simulation.removal import early, instead, keyword, never, reads, together
from tidewheel.flows.administration import delete_topic as deleting
from tidewheel.flows.delivery import dispatch, planning
from tidewheel.flows.delivery import ingest as ingesting
from tidewheel.flows.maintenance import orphans, payloads
from tidewheel.flows.maintenance import sweep as sweeping
from tidewheel.flows.recovery import rebuild as rebuilding

_FOREVER_MS = 1 << 62

GUARDS = (
    Guard(
        "a deletion ends after whoever has not seen it",
        deleting.finish_deletion,
        reads("LATE_MS", lambda _: 0),
        worlds.DELETE_INGEST,
    ),
    Guard(
        "a deletion comes to its end though its caller has died",
        sweeping._dispatch_overdue,
        instead("append ended"),
        worlds.DELETE_INGEST,
    ),
    Guard("a deletion takes schedules away", deleting._empty, instead("unschedule"), worlds.DELETE_INGEST),
    Guard(
        "a batch of a deleted topic is not ingested into a new one",
        ingesting.ingest,
        never("generation"),
        worlds.TOPIC_AGAIN,
    ),
    Guard(
        "an update does not undo another",
        in_storage("topic_states.update_settings"),
        together(never(".settings"), unchecked("settings")),
        worlds.UPDATED_TWICE,
    ),
    Guard(
        "recurring messages are read after the seal",
        dispatch.dispatch,
        early("recurring.all"),
        recurring_worlds.RECUR_DISPATCH,
    ),
    Guard(
        "a recurring message that comes is seen by whoever raises the next slot",
        in_storage("recurring.put"),
        unwritten("work_version"),
        recurring_worlds.RECUR_DISPATCH,
    ),
    Guard(
        "a recurring message that comes is seen by the sweep",
        in_storage("recurring.put"),
        never(before="AT_ONCE_MS"),
        recurring_worlds.RECUR_DISPATCH,
    ),
    Guard(
        "a recurring message keeps the sweep looking",
        planning.next_work_of,
        instead("next_occupied_by"),
        recurring_worlds.RECUR_DISPATCH,
    ),
    Guard(
        "a plan whose dispatch has read a recurring message before its end is refused",
        in_storage("recurring.delete"),
        unwritten("swap_version"),
        recurring_worlds.REMOVED_AND_ADDED,
    ),
    Guard(
        "the object of occurrences stays while a plan names it",
        orphans._manifests_named,
        instead("plans.objects", lambda *_: frozenset()),
        recurring_worlds.RECURRING_PAUSED,
    ),
    Guard(
        "a topic whose topic state is lost keeps its ledgers", orphans._delete, never("_is_lost"), seldom_worlds.LOST
    ),
    Guard(
        "a rebuild begins with its own checkpoint, though another's clock was ahead",
        rebuilding.rebuild,
        keyword("checkpoint_topic", "ahead_ms"),
        seldom_worlds.REBUILD_AHEAD,
    ),
    Guard(
        "a topic is at rest while it is rebuilt",
        rebuilding.rebuild,
        instead("topic_states.delete"),
        seldom_worlds.REBUILD_INGEST,
    ),
    Guard(
        "a large body stays until its message was handed out, and longer",
        payloads._sweep_topic,
        together(instead("_marks", lambda *_: [(0, _FOREVER_MS)]), instead("_collected_ms", lambda *_: _FOREVER_MS)),
        seldom_worlds.LARGE_BODY,
    ),
    Guard(
        "daily work is done once a day",
        in_storage("checks.claim_daily"),
        together(never("now_ms"), unchecked("next_at_ms")),
    ),
    Guard(
        "a deletion makes every condition that names the topic's generation fail",
        in_storage("deletions.mark"),
        unwritten("generation"),
    ),
    Guard("a deletion seals every slot", in_storage("deletions.mark"), unwritten("sealed")),
    Guard("a topic that is being deleted is not there", in_storage("topic_states.read"), never("deleting_at_ms")),
)
