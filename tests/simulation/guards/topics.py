"""Guards of a topic as a whole: created once, deleted whole, rebuilt; its recurring messages, imports and settings."""

from __future__ import annotations

from tests.simulation.guards import recurring_worlds, seldom_worlds
from tests.simulation.guards import topic_worlds as worlds
from tests.simulation.mutant import Mutant
from tidewheel.flows.administration import delete_topic as deleting
from tidewheel.flows.delivery import dispatch
from tidewheel.flows.delivery import ingest as ingesting
from tidewheel.flows.recovery import rebuild as rebuilding
from tidewheel.flows.upkeep import orphans, payloads
from tidewheel.flows.upkeep import sweep as sweeping
from tidewheel.memory import MemoryTopics as T
from tidewheel.memory.administration import MemoryAdministration as A
from tidewheel.memory.items import MemoryItems
from tidewheel.memory.recurring import MemoryRecurring as R

MUTANTS = (
    Mutant(
        guard="a topic is created once",
        function=T.create_topic,
        world=worlds.CREATED_TWICE,
        changes=(("if items.state is not None:", "if False:"),),
    ),
    Mutant(
        guard="a deletion ends after whoever has not seen it",
        function=deleting.finish_deletion,
        world=worlds.DELETE_INGEST,
        changes=(("if emptied and now_ms >= late_ms:", "if emptied:"),),
    ),
    Mutant(
        guard="a deletion comes to its end though its caller has died",
        function=sweeping.look_after_topic,
        world=worlds.DELETE_INGEST,
        changes=(("swept.ended.append(topic)", "pass"),),
    ),
    Mutant(
        guard="a deletion takes schedules away",
        function=deleting._empty,
        world=worlds.DELETE_INGEST,
        changes=(("ports.wheel.disarm(topic)", "pass"),),
    ),
    Mutant(
        guard="a batch of a deleted topic is not ingested into a new one",
        function=ingesting.ingest,
        world=worlds.TOPIC_AGAIN,
        changes=((" or any(pack.generation != state.generation for pack in packs)", ""),),
    ),
    Mutant(
        guard="a change that was meant for a deleted topic does not reach a new one",
        function=MemoryItems._same,
        world=worlds.TOPIC_AGAIN,
        changes=(("current if current.generation == state.generation else None", "current"),),
    ),
    Mutant(
        guard="one sweep takes away what is left of a topic",
        function=A.claim_deletion,
        world=worlds.DELETED_BY_TWO,
        changes=((" or current.next_check_ms != state.next_check_ms", ""),),
    ),
    Mutant(
        guard="an update does not undo another",
        function=A.update_settings,
        world=worlds.UPDATED_TWICE,
        changes=((" or current.settings != state.settings", ""),),
    ),
    Mutant(
        guard="a recurring message begins in a slot that is not sealed",
        function=R.put_recurring,
        world=recurring_worlds.RECUR_ALONE,
        changes=((" or current.sealed > recurring.first_ms // state.slot_ms", ""),),
    ),
    Mutant(
        guard="recurring messages are read after the seal",
        function=dispatch.dispatch,
        world=recurring_worlds.RECUR_DISPATCH,
        changes=(
            (
                "        sealed = ports.topics.seal(state, boundary)\n",
                "        from tests.simulation.mutant import early\n"
                "        ports = early(ports, 'all_recurring', topic)\n"
                "        sealed = ports.topics.seal(state, boundary)\n",
            ),
        ),
    ),
    Mutant(
        guard="a recurring message that comes is seen by whoever raises the next slot",
        function=R.put_recurring,
        world=recurring_worlds.RECUR_DISPATCH,
        changes=(("work_version=current.work_version + 1", "work_version=current.work_version"),),
    ),
    Mutant(
        guard="a recurring message that comes is seen by the sweep",
        function=R.put_recurring,
        world=recurring_worlds.RECUR_DISPATCH,
        changes=(("if next_slot is not None:", "if False:"),),
    ),
    Mutant(
        guard="a recurring message that found the next slot low enough is refused when the next slot was raised since",
        function=R.put_recurring,
        world=recurring_worlds.RECUR_WAKE,
        changes=((" or current.next_slot != state.next_slot", ""),),
    ),
    Mutant(
        guard="a recurring message keeps the sweep looking",
        function=dispatch._next_work,
        world=recurring_worlds.RECUR_DISPATCH,
        changes=(("if recurring else None", "if False else None"),),
    ),
    Mutant(
        guard="an end of a recurring message does not end a new one",
        function=R.delete_recurring,
        world=recurring_worlds.RECURRING_AGAIN,
        changes=((" or found.generation != seen.generation", ""),),
    ),
    Mutant(
        guard="the object of occurrences stays while a plan names it",
        function=orphans._manifests_named,
        world=recurring_worlds.RECURRING_PAUSED,
        changes=(("return topics.plan_objects(topic)", "return frozenset()"),),
    ),
    Mutant(
        guard="a topic whose topic state is lost keeps its ledgers",
        function=orphans._delete,
        world=seldom_worlds.LOST,
        changes=((" or (state is None and _is_lost(ports, topic))", ""),),
    ),
    Mutant(
        guard="one merge or rebuild of a topic is under way",
        function=T.lease_merge,
        world=seldom_worlds.TWO_REBUILDS,
        changes=(("if items.merging_until_ms is not None and items.merging_until_ms > now_ms:", "if False:"),),
    ),
    Mutant(
        guard="a rebuild begins with its own checkpoint, though another's clock was ahead",
        function=rebuilding.rebuild,
        world=seldom_worlds.REBUILD_AHEAD,
        changes=((", ahead_ms=ports.max_skew_ms + 1", ""),),
    ),
    Mutant(
        guard="a topic is at rest while it is rebuilt",
        function=rebuilding.rebuild,
        world=seldom_worlds.REBUILD_INGEST,
        changes=(
            (
                "            ports.topics.delete_topic_state(topic)\n            settle()\n        return",
                "            settle()\n        return",
            ),
        ),
    ),
    Mutant(
        guard="a cut of an import is committed once, whatever became of its ledger",
        function=T.commit_bucket,
        world=seldom_worlds.IMPORTED_TWICE,
        changes=((" or once in items.imports", ""),),
    ),
    Mutant(
        guard="a large body stays until its message was handed out, and longer",
        function=payloads._sweep_topic,
        world=seldom_worlds.LARGE_BODY,
        changes=((" and ends_ms <= handed_out_ms", ""),),
    ),
)
