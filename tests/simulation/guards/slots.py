"""Guards of a slot's way from open to planned: ingest, the next slot, dispatch."""

from __future__ import annotations

from tests.simulation.guards import slot_worlds as worlds
from tests.simulation.mutant import Mutant
from tidewheel.flows.delivery import commit, direct, dispatch, due_rows, ingest
from tidewheel.memory import MemoryTopics as T
from tidewheel.memory.keys import MemoryKeys

MUTANTS = (
    Mutant(
        guard="a ledger never enters a sealed slot",
        function=T.commit_bucket,
        world=worlds.SINGLE_STEPS,
        changes=(("or current.sealed > first", ""),),
    ),
    Mutant(
        guard="a commit that found the next slot low enough is refused when the next slot was raised since",
        function=T.commit_bucket,
        world=worlds.BEYOND,
        changes=(("or above(current.next_slot, first) != above(state.next_slot, first)", ""),),
    ),
    Mutant(
        guard="a commit lowers the next slot to its first slot",
        function=commit.commit_and_arm,
        world=worlds.FIRST,
        changes=(("next_work = _lowered(state, first_slot)", "next_work = None"),),
    ),
    Mutant(
        guard="a commit is seen by whoever raises the next slot",
        function=T.commit_bucket,
        world=worlds.BEYOND,
        changes=(("work_version=current.work_version + 1", "work_version=current.work_version"),),
    ),
    Mutant(
        guard="a batch that comes twice at once is stored once",
        function=T.commit_bucket,
        world=worlds.AGAIN,
        changes=(("if bucket.id in items.buckets or once in items.imports:", "if once in items.imports:"),),
    ),
    Mutant(
        guard="a commit that finds itself done keeps its ledger",
        function=commit._drop_unless_named,
        world=worlds.AGAIN,
        changes=(("if committed is None or committed.object_name != bucket.object_name:", "if True:"),),
    ),
    Mutant(
        guard="a slot is sealed before it is planned",
        function=dispatch.dispatch,
        world=worlds.BOUNDARY,
        changes=(
            (
                "sealed = ports.topics.seal(state, boundary)",
                "from dataclasses import replace\n        sealed = replace(state, sealed=boundary)",
            ),
        ),
    ),
    Mutant(
        guard="sealed never goes back",
        function=T.seal,
        world=worlds.TWO_DISPATCHES,
        changes=(("and current.sealed < slot", ""),),
    ),
    Mutant(
        guard="what is direct is decided by the topic state of the commit",
        function=ingest.ingest,
        world=worlds.BOUNDARY,
        changes=(("state, committed, commits = _commit(", "_, committed, commits = _commit("),),
    ),
    Mutant(
        guard="what is due too soon for its schedule is sealed, and goes direct",
        function=ingest._seal_what_is_due,
        world=worlds.SOON,
        changes=(("if state.sealed < boundary and", "if False and"),),
    ),
    Mutant(
        guard="a ledger arms the wheel when the next slot's own schedule is over",
        function=commit.commit_and_arm,
        world=worlds.WOKEN,
        changes=((" or not _armed(ports, state)", ""),),
    ),
    Mutant(
        guard="a ledger arms the wheel when the next slot was put where it is without a schedule",
        function=commit._armed,
        world=worlds.WOKEN_OPEN,
        changes=((" or state.next_check_ms == AT_ONCE_MS", ""),),
    ),
    Mutant(
        guard="a range is planned once",
        function=T.commit_plan,
        world=worlds.TWO_PLANNERS,
        changes=(
            (
                "(current.planned, current.swap_version) != (state.planned, state.swap_version)",
                "current.swap_version != state.swap_version",
            ),
        ),
    ),
    Mutant(
        guard="a plan that raises the next slot has seen every ledger",
        function=T.commit_plan,
        world=worlds.BEYOND,
        changes=(("if next_work is not None and current.work_version != state.work_version:", "if False:"),),
    ),
    Mutant(
        guard="a plan is handed out with its commit only to subscriptions as they were read",
        function=T.commit_plan,
        world=worlds.UNSUBSCRIBED,
        changes=(
            ("if not all(self._unmoved(step) for step in hand_outs):", "if False:"),
            (
                "            self._step(step)\n",
                "            items.subscriptions.setdefault(step.subscription.name, step.subscription)\n"
                "            self._step(step)\n",
            ),
        ),
    ),
    Mutant(
        guard="a plan is handed out once to a subscription",
        function=T._unmoved,
        world=worlds.PLANNED_TWICE,
        changes=(
            (
                "(current.cursor, current.generation) == (seen.cursor, seen.generation)",
                "current.generation == seen.generation",
            ),
        ),
    ),
    Mutant(
        guard="a subscription that lags is not moved past the plans between",
        function=dispatch._plan_and_hand_out,
        world=worlds.PLANNED_BEHIND,
        changes=((" or any(s.cursor != state.planned for s in takers)", ""),),
    ),
    Mutant(
        guard="a cursor steps over what no plan holds, and not over a plan made since",
        function=dispatch.hand_out,
        world=worlds.GAP,
        changes=(
            (
                "        state = ports.topics.state(topic)\n"
                "        subscription = ports.topics.subscription(topic, name)\n",
                "        subscription = ports.topics.subscription(topic, name)\n"
                "        plan = subscription and ports.topics.next_plan(topic, subscription.cursor)\n"
                "        state = ports.topics.state(topic)\n",
            ),
            ("        plan = ports.topics.next_plan(topic, subscription.cursor)\n", ""),
        ),
    ),
    Mutant(
        guard="the next slot is raised only if no ledger came since the buckets were read",
        function=T.raise_next_slot,
        world=worlds.PLANNED_ONLY,
        changes=(
            (
                "(current.work_version, current.swap_version) != (state.work_version, state.swap_version)",
                "current.swap_version != state.swap_version",
            ),
        ),
    ),
    Mutant(
        guard="the next slot stays while a cursor lags",
        function=dispatch._raise_next_slot,
        world=worlds.RESUMED,
        changes=(("if any(s.takes_plans and s.cursor < state.planned for s in subscriptions):", "if False:"),),
    ),
    Mutant(
        guard="the next slot stays while a sealed slot is not planned",
        function=dispatch._raise_next_slot,
        world=worlds.SEALED_ONLY,
        changes=(("if state is None or state.planned < state.sealed:", "if state is None:"),),
    ),
    Mutant(
        guard="a cancel says no once the slot is sealed",
        function=MemoryKeys._open,
        world=worlds.CANCELLED,
        changes=(("and state.sealed <= slot", ""),),
    ),
    Mutant(
        guard="a plan reads tombstones after the seal",
        function=dispatch.dispatch,
        world=worlds.CANCELLED,
        changes=(
            (
                "        sealed = ports.topics.seal(state, boundary)\n",
                "        from tests.simulation.mutant import early\n"
                "        ports = early(ports, 'tombstones', topic, state.planned, boundary)\n"
                "        sealed = ports.topics.seal(state, boundary)\n",
            ),
        ),
    ),
    Mutant(
        guard="a plan leaves out what was cancelled",
        function=due_rows._due,
        world=worlds.CANCELLED,
        changes=(("if plan.cancelled:", "if False:"),),
    ),
    Mutant(
        guard="what goes direct is dropped if it was cancelled",
        function=direct._wanted,
        world=worlds.QUEUED,
        changes=(("if cancelled:", "if False:"),),
    ),
    Mutant(
        guard="tombstones of what goes direct are read after the seal",
        function=ingest.ingest,
        world=worlds.QUEUED,
        changes=(
            (
                "    state = ports.topics.state(topic)\n",
                "    from tests.simulation.mutant import early\n"
                "    ports = early(ports, 'tombstones', topic, 0, 10**12)\n"
                "    state = ports.topics.state(topic)\n",
            ),
        ),
    ),
    Mutant(
        guard="a plan brings what is due in its slots, and nothing else of a segment",
        function=due_rows._due,
        world=worlds.SEGMENT,
        changes=(
            ("pc.less(times, plan.end_slot * state.slot_ms)", "pc.less(times, (plan.end_slot + 10) * state.slot_ms)"),
        ),
    ),
)
