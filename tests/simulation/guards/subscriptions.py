"""Guards of a subscription's state: what it must not have yet, or its queue does not take, is parked."""

from __future__ import annotations

from tests.simulation.guards import subscription_worlds as worlds
from tests.simulation.mutant import Mutant
from tidewheel.flows.administration import pause as pausing
from tidewheel.flows.delivery import deliver, direct, dispatch, drain, parking
from tidewheel.flows.upkeep import orphans
from tidewheel.flows.upkeep import sweep as sweeping
from tidewheel.memory.parks import MemoryParks as P
from tidewheel.model import subscription_state as subscriptions

MUTANTS = (
    Mutant(
        guard="a plan is not handed out with its commit to who is paused",
        function=dispatch._plan_and_hand_out,
        world=worlds.PAUSED,
        changes=((" if s.takes_plans]", "]"),),
    ),
    Mutant(
        guard="a plan is not handed out later to who is paused",
        function=dispatch.hand_out,
        world=worlds.PAUSED_MEANWHILE,
        changes=(("or not subscription.takes_plans", ""),),
    ),
    Mutant(
        guard="a plan that is handed out is older than a pause that was not yet seen",
        function=dispatch.hand_out,
        world=worlds.PAUSED_MEANWHILE,
        changes=(
            (
                "        state = ports.topics.state(topic)\n"
                "        subscription = ports.topics.subscription(topic, name)\n",
                "        subscription = ports.topics.subscription(topic, name)\n"
                "        state = ports.topics.state(topic)\n",
            ),
        ),
    ),
    Mutant(
        guard="a paused subscription gets nothing that goes direct",
        function=direct._send_or_park,
        world=worlds.PAUSED,
        changes=(("if current.state is State.ACTIVE:", "if True:"),),
    ),
    Mutant(
        guard="what a paused subscription must not have yet is kept for it",
        function=direct._send_or_park,
        world=worlds.PAUSED,
        changes=(("elif put_aside(ports, state, current, rows) is not Parked.MOVED:", "else:"),),
    ),
    Mutant(
        guard="nothing is parked for a subscription after the resume that would drain it",
        function=P.put_park,
        world=worlds.RESUMED,
        changes=(("or owner.state is State.ACTIVE", ""),),
    ),
    Mutant(
        guard="a subscription that resumes behind is seen by the sweep",
        function=P.resume,
        world=worlds.TWO_RESUMED,
        changes=(("if lower:", "if False:"),),
    ),
    Mutant(
        guard="a resume that found the next slot low enough is refused when the next slot was raised since",
        function=P.resume,
        world=worlds.TWO_RESUMED,
        changes=(("if above(marks.next_slot, cursor) != lower:", "if False:"),),
    ),
    Mutant(
        guard="a resume is seen by whoever raises the next slot",
        function=P.resume,
        world=worlds.TWO_RESUMED,
        changes=(("work_version=marks.work_version + 1", "work_version=marks.work_version"),),
    ),
    Mutant(
        guard="a park is one worker's",
        function=P.lease_park,
        world=worlds.DRAINED_TWICE,
        changes=(
            (
                "if current is None or (current.leased_ms is not None and current.leased_ms >= expired_before_ms):",
                "if current is None:",
            ),
        ),
    ),
    Mutant(
        guard="a park whose worker died is drained by another",
        function=P.lease_park,
        world=worlds.DRAIN_DIES,
        changes=((" and current.leased_ms >= expired_before_ms", ""),),
    ),
    Mutant(
        guard="a park goes before its object",
        function=pausing.drop_parks,
        world=worlds.DRAIN_DIES,
        changes=(
            ("        topics.delete_parks([park.key])\n", ""),
            (
                "            objects.delete([park.object_name])\n",
                "            objects.delete([park.object_name])\n        topics.delete_parks([park.key])\n",
            ),
        ),
    ),
    Mutant(
        guard="an old park is drained",
        function=sweeping._look_after_park,
        world=worlds.DRAIN_DIES,
        changes=(("ports.queues.enqueue_parks([key])", "pass"),),
    ),
    Mutant(
        guard="a park is not drained while its subscription is paused",
        function=drain.drain,
        world=worlds.PAUSED_AGAIN,
        changes=(("if subscription.state is State.PAUSED:", "if False:"),),
    ),
    Mutant(
        guard="a drain brings nothing that was purged",
        function=drain._send,
        world=worlds.PARKED_PURGED,
        changes=(("without_purged(parked_rows(ports.objects, park), state)", "parked_rows(ports.objects, park)"),),
    ),
    Mutant(
        guard="an object that a park names is no orphan",
        function=orphans._parked_named,
        world=worlds.PARKED_LONG,
        changes=(("if park.object_name is not None", "if False"),),
    ),
    Mutant(
        guard="a park that is there already is not put again",
        function=P.put_park,
        world=worlds.PARKING,
        changes=(("if key in items.parks:", "if False:"),),
    ),
    Mutant(
        guard="a park that finds itself put keeps its object",
        function=parking._forget_unnamed,
        world=worlds.PARKING,
        changes=(("if found is None or found.object_name != park.object_name:", "if True:"),),
    ),
    Mutant(
        guard="one sweep starts an old park",
        function=P.stamp_park,
        world=worlds.TWO_SWEEPS,
        changes=(("or current.next_check_ms != seen_look_at_ms", ""),),
    ),
    Mutant(
        guard="a queue that refuses does not end a pause",
        function=P.mark_broken,
        world=worlds.REFUSED_PAUSED,
        changes=(
            ("(current.generation, current.state) != (generation, State.ACTIVE)", "current.generation != generation"),
        ),
    ),
    Mutant(
        guard="what a queue refuses of a part is parked once",
        function=P.spill_part,
        world=worlds.REFUSED_TWICE,
        changes=(("if delivery is None or part in delivery.done:", "if delivery is None:"),),
    ),
    Mutant(
        guard="what a queue refuses of a part is parked",
        function=deliver._set_aside,
        world=worlds.REFUSED_PAUSED,
        changes=(("spill(ports, state, key, part, rows)", "ports.topics.part_done(key, part)"),),
    ),
    Mutant(
        guard="a queue that has healed does not end a pause",
        function=P.resume,
        world=worlds.HEALED_PAUSED,
        changes=(
            (
                "if (current.generation, current.state) != (subscription.generation, subscription.state):",
                "if current.generation != subscription.generation:",
            ),
        ),
    ),
    Mutant(
        guard="a broken subscription keeps its cursor moving",
        function=subscriptions.SubscriptionState.takes_plans.fget,  # type: ignore[attr-defined]
        world=worlds.BROKEN_COLLECTED,
        changes=(("self.state is not State.PAUSED", "self.state is State.ACTIVE"),),
    ),
    Mutant(
        guard="of a part that a queue took in part, the rest is parked",
        function=deliver.deliver_part,
        world=worlds.GOES_IN_DELIVERY,
        changes=(("rows.take(pa.array(error.unsent))", "rows"),),
    ),
    Mutant(
        guard="of direct messages that a queue took in part, the rest is parked",
        function=direct._send_or_park,
        world=worlds.GOES_IN_DIRECT,
        changes=(
            ("rows, messages = rows.take(pa.array(error.unsent)), [messages[place] for place in error.unsent]", "pass"),
        ),
    ),
    Mutant(
        guard="of a park that a queue took in part, the rest is parked anew",
        function=drain._send,
        world=worlds.GOES_IN_DRAIN,
        changes=(("in_part = len(error.unsent) < rows.num_rows", "in_part = False"),),
    ),
)
