"""Guards of ledgers that are merged, collected, purged or swept up: what is needed stays, and all else goes."""

from __future__ import annotations

from tests.simulation.guards import ledger_worlds as worlds
from tests.simulation.mutant import Mutant
from tidewheel.flows.administration import purge as purging
from tidewheel.flows.administration import subscribe as subscribing
from tidewheel.flows.delivery import direct, due_rows
from tidewheel.flows.upkeep import collect as collecting
from tidewheel.flows.upkeep import merge as merging
from tidewheel.flows.upkeep import orphans
from tidewheel.memory import MemoryObjects
from tidewheel.memory import MemoryTopics as T
from tidewheel.memory.administration import MemoryAdministration
from tidewheel.memory.keys import MemoryKeys

MUTANTS = (
    Mutant(
        guard="a plan is made of a snapshot, though a merge hides ledgers between two pages",
        function=T.commit_plan,
        world=worlds.MERGE_DISPATCH,
        changes=(
            (
                "(current.planned, current.swap_version) != (state.planned, state.swap_version)",
                "current.planned != state.planned",
            ),
        ),
    ),
    Mutant(
        guard="a merge is seen by whoever reads ledgers meanwhile",
        function=T.swap,
        world=worlds.MERGE_DISPATCH,
        changes=(("swap_version=current.swap_version + 1", "swap_version=current.swap_version"),),
    ),
    Mutant(
        guard="a merge rewrites all that is not planned",
        function=merging._choose,
        world=worlds.MERGE_DISPATCH,
        changes=(("choose(buckets, state.planned,", "choose(buckets, state.sealed,"),),
    ),
    Mutant(
        guard="the next slot is raised by a snapshot, too",
        function=T.raise_next_slot,
        world=worlds.MERGE_RAISE,
        changes=(
            (
                "(current.work_version, current.swap_version) != (state.work_version, state.swap_version)",
                "current.work_version != state.work_version",
            ),
        ),
    ),
    Mutant(
        guard="a ledger is merged once",
        function=T.swap,
        world=worlds.TWO_MERGES,
        changes=(
            (
                "if any(source.id not in items.buckets for source in sources):\n            return False",
                "sources = [source for source in sources if source.id in items.buckets]",
            ),
        ),
    ),
    Mutant(
        guard="a swap is refused when more was planned than its trash outlives",
        function=T.swap,
        world=worlds.MERGE_LAGGING,
        changes=(("or current.planned > trash.sealed", ""),),
    ),
    Mutant(
        guard="the trash of a merge is stamped with a mark that outlives every plan",
        function=merging._swap,
        world=worlds.MERGE_LAGGING,
        changes=(("sealed=current.sealed", "sealed=current.collected_until"),),
    ),
    Mutant(
        guard="merged ledgers stay while a plan names them",
        function=collecting._delete,
        world=worlds.MERGE_LAGGING,
        changes=(("if trash.sealed <= until:", "if True:"),),
    ),
    Mutant(
        guard="a collection reads cursors before deliveries",
        function=collecting.collect,
        world=worlds.COLLECT_HAND_OUT,
        changes=(
            (
                "    subscriptions = ports.topics.subscriptions(topic)\n"
                "    opened = ports.topics.open_deliveries(topic)\n",
                "    opened = ports.topics.open_deliveries(topic)\n"
                "    subscriptions = ports.topics.subscriptions(topic)\n",
            ),
        ),
    ),
    Mutant(
        guard="a collection waits for open deliveries",
        function=collecting.collect,
        world=worlds.COLLECT_DISPATCH,
        changes=((" + [d.key.plan for d in opened]", ""),),
    ),
    Mutant(
        guard="a collection waits for the least cursor",
        function=collecting.collect,
        world=worlds.COLLECT_PAUSED,
        changes=(("[s.cursor for s in subscriptions] + ", ""),),
    ),
    Mutant(
        guard="a plan stays until its end is behind all cursors",
        function=collecting._delete,
        world=worlds.COLLECT_PAUSED,
        changes=(("if b <= until:", "if a <= until:"),),
    ),
    Mutant(
        guard="a ledger stays until its last slot is behind all cursors",
        function=collecting._delete,
        world=worlds.COLLECT_NEXT,
        changes=(("if bucket.last_slot < until:", "if bucket.last_slot <= until:"),),
    ),
    Mutant(
        guard="a bucket goes before its ledger",
        function=collecting._delete,
        world=worlds.COLLECT_NEXT,
        changes=(
            (
                "            ports.topics.delete_bucket(topic, bucket.id)\n"
                "            ports.objects.delete([bucket.object_name])\n",
                "            ports.objects.delete([bucket.object_name])\n"
                "            ports.topics.delete_bucket(topic, bucket.id)\n",
            ),
        ),
    ),
    Mutant(
        guard="what a collection that died has left goes with the next",
        function=collecting.collect,
        world=worlds.COLLECT_LAST,
        changes=(
            (
                "    if until > state.collected_until:\n        ports.topics.raise_gc(state, until)\n",
                "    raised = until > state.collected_until and ports.topics.raise_gc(state, until)\n",
            ),
            ("    _delete(ports, state, done)\n", "    if raised:\n        _delete(ports, state, done)\n"),
        ),
    ),
    Mutant(
        guard="a topic is collected again while something is left that nobody needs",
        function=collecting._next_at_ms,
        world=worlds.COLLECT_HAND_OUT,
        changes=(("at_ms = now_ms + state.settings.collect_interval_s * 1000\n", "return None\n"),),
    ),
    Mutant(
        guard="collected_until never goes back",
        function=T.raise_gc,
        world=worlds.TWO_COLLECTIONS,
        changes=(("or current.collected_until >= collected_until", ""),),
    ),
    Mutant(
        guard="a collection that has not seen a new subscription is refused",
        function=T.raise_gc,
        world=worlds.SUBSCRIBE_COLLECT,
        changes=(("or current.subscriptions_version != state.subscriptions_version", ""),),
    ),
    Mutant(
        guard="a new subscription is seen by a collection",
        function=T.create_subscription,
        world=worlds.SUBSCRIBE_COLLECT,
        changes=(("subscriptions_version=current.subscriptions_version + 1, ", ""),),
    ),
    Mutant(
        guard="a collection deletes by the mark that was stored",
        function=collecting.collect,
        world=worlds.SUBSCRIBE_COLLECT,
        changes=(
            (
                "    state = ports.topics.state(topic)\n    if state is None:\n        return None\n    done",
                "    from dataclasses import replace\n    state = replace(state, collected_until=until)\n    done",
            ),
        ),
    ),
    Mutant(
        guard="a subscription does not begin below what is collected",
        function=T.create_subscription,
        world=worlds.SUBSCRIBE_COLLECT,
        changes=(("or current.collected_until > cursor", ""),),
    ),
    Mutant(
        guard="a subscription that begins behind is seen by the sweep",
        function=T.create_subscription,
        world=worlds.SUBSCRIBE_COLLECT,
        changes=(("if lower:", "if False:"),),
    ),
    Mutant(
        guard="a subscription that found the next slot low enough is refused when the next slot was raised since",
        function=T.create_subscription,
        world=worlds.SUBSCRIBE_FIRST,
        changes=(("if above(current.next_slot, cursor) != lower:", "if False:"),),
    ),
    Mutant(
        guard="a new subscription is seen by whoever raises the next slot",
        function=T.create_subscription,
        world=worlds.SUBSCRIBE_DISPATCH,
        changes=((", work_version=current.work_version + 1", ""),),
    ),
    Mutant(
        guard="a subscription is created once",
        function=T.create_subscription,
        world=worlds.SUBSCRIBE_TWICE,
        changes=(("subscription.name in items.subscriptions or ", ""),),
    ),
    Mutant(
        guard="a new cursor is a boundary of plans",
        function=subscribing.create_subscription,
        world=worlds.SUBSCRIBE_BETWEEN,
        changes=(("else state.planned,", "else state.sealed,"),),
    ),
    Mutant(
        guard="collected_until is a boundary of plans",
        function=collecting._until,
        world=worlds.EARLIEST,
        changes=(("min([kept_from, *inside])", "kept_from"),),
    ),
    Mutant(
        guard="a tombstone outlives every redelivery of its message",
        function=MemoryKeys.delete_tombstones,
        world=worlds.REDELIVERY,
        changes=(("if tombstones[each].ttl_s < expired_before_s:", "if True:"),),
    ),
    Mutant(
        guard="each try of an ingest has an object of its own",
        function=MemoryObjects.new_attempt,
        world=worlds.ORPHAN_RETRY,
        changes=(("self._attempts += 1", "pass"),),
    ),
    Mutant(
        guard="an object that may still get named is no orphan",
        function=orphans._visit,
        world=worlds.ORPHAN_RETRY,
        changes=(("ORPHAN_GRACE_S * 1000", "0"),),
    ),
    Mutant(
        guard="an object that is named is no orphan",
        function=orphans._delete,
        world=worlds.ORPHAN_MERGE,
        changes=((" if each.name not in kept", ""),),
    ),
    Mutant(
        guard="orphans are told by buckets first, and by the trash then",
        function=orphans._ledgers_named,
        world=worlds.ORPHAN_MERGE,
        changes=(
            (
                "    live = frozenset(bucket.object_name for bucket in topics.buckets(topic))\n",
                "    trash = topics.trash(topic)\n"
                "    live = frozenset(bucket.object_name for bucket in topics.buckets(topic))\n",
            ),
            ("for trash in topics.trash(topic)", "for trash in trash"),
        ),
    ),
    Mutant(
        guard="a purge swaps out no ledger that came after its mark",
        function=purging.purge,
        world=worlds.PURGE_SEND,
        changes=(
            (
                "            inside = buckets if whole",
                "            buckets = topics.buckets(topic)\n            inside = buckets if whole",
            ),
        ),
    ),
    Mutant(
        guard="what was sent in the millisecond of a purge is purged",
        function=purging.purge,
        world=worlds.PURGE_DIRECT,
        changes=(
            (
                "sent_before_ms = state.sent_at_ms(clock.now_ms()) + 1",
                "sent_before_ms = state.sent_at_ms(clock.now_ms())",
            ),
        ),
    ),
    Mutant(
        guard="an older purge does not undo a newer one",
        function=MemoryAdministration.set_purges,
        world=worlds.TWO_PURGES,
        changes=((" or (current.purge_ms, current.purges) != (state.purge_ms, state.purges)", ""),),
    ),
    Mutant(
        guard="the trash of a purge is stamped likewise",
        function=purging._swap_out,
        world=worlds.PURGE_PLAN,
        changes=(("sealed=current.sealed", "sealed=current.collected_until"),),
    ),
    Mutant(
        guard="a plan brings nothing that was purged",
        function=due_rows._due,
        world=worlds.PURGE_PLAN,
        changes=(("return without_purged(rows.filter(keep), state)", "return rows.filter(keep)"),),
    ),
    Mutant(
        guard="what goes direct is dropped if it was purged",
        function=direct._wanted,
        world=worlds.PURGE_DIRECT,
        changes=(("return without_purged(rows, state)", "return rows"),),
    ),
)
