"""Guards of deliveries: a plan handed out is sent once, to a subscription of one generation, and may be replayed."""

from __future__ import annotations

from tests.simulation.guards import delivery_worlds as worlds
from tests.simulation.mutant import Mutant
from tidewheel.flows.administration import replay as replaying
from tidewheel.flows.delivery import deliver, dispatch
from tidewheel.flows.upkeep import sweep as sweeping
from tidewheel.memory import MemoryTopics as T
from tidewheel.memory.administration import MemoryAdministration
from tidewheel.memory.parks import MemoryParks

_REVIVED = (
    "if current is None:\n"
    "            from tidewheel.model.subscription_state import Delivery\n"
    "            current = Delivery(key=key, queue_url='queue-billing', parts=2, start=0, next_check_ms=0)\n"
)

MUTANTS = (
    Mutant(
        guard="a part is one worker's",
        function=T.lease_part,
        world=worlds.TWICE,
        changes=(("if part in leases and leases[part] >= expired_before_ms:", "if False:"),),
    ),
    Mutant(
        guard="a part that is done stays done",
        function=T.lease_part,
        world=worlds.TWICE,
        changes=(("if current is None or part in current.done:", "if current is None:"),),
    ),
    Mutant(
        guard="a part that comes late does not bring back a delivery that is gone",
        function=T.lease_part,
        world=worlds.SLOW,
        changes=(("if current is None or part in current.done:\n            return None\n", _REVIVED),),
    ),
    Mutant(
        guard="a worker that ends late does not bring back a delivery that is gone",
        function=T.part_done,
        world=worlds.SLOW,
        changes=(("if current is None:\n            return None\n", _REVIVED),),
    ),
    Mutant(
        guard="a delivery goes when all of its parts are done",
        function=deliver.deliver_part,
        world=worlds.TWICE,
        changes=(("if after is not None and after.complete:", "if after is not None:"),),
    ),
    Mutant(
        guard="a part whose lease has ended is another worker's",
        function=T.lease_part,
        world=worlds.DYING,
        changes=(("if part in leases and leases[part] >= expired_before_ms:", "if part in leases:"),),
    ),
    Mutant(
        guard="an open delivery is started again",
        function=sweeping._look_after_delivery,
        world=worlds.DYING_DISPATCH,
        changes=(("ports.queues.enqueue_parts(key, parts)", "pass"),),
    ),
    Mutant(
        guard="a complete delivery whose worker died goes",
        function=sweeping._look_after_delivery,
        world=worlds.DYING,
        changes=((" or delivery.complete", ""),),
    ),
    Mutant(
        guard="a topic whose next slot is due is dispatched",
        function=sweeping.look_after_topic,
        world=worlds.DYING_DISPATCH,
        changes=(
            ("if state.next_slot is not None and fires_at_ms(state.next_slot, state.settings) <= now_ms:", "if False:"),
        ),
    ),
    Mutant(
        guard="the next slot names the next occupied slot",
        function=dispatch._next_work,
        world=worlds.DYING_DISPATCH,
        changes=(("next_occupied(ports, buckets, state.sealed)", "next_occupied(ports, buckets, state.sealed + 9)"),),
    ),
    Mutant(
        guard="one sweep starts an old delivery",
        function=T.stamp_delivery,
        world=worlds.TWO_SWEEPS,
        changes=(("or current.next_check_ms != seen_look_at_ms", ""),),
    ),
    Mutant(
        guard="a subscription gets what is due from its start on",
        function=deliver._its_rows,
        world=worlds.LATER,
        changes=(("if delivery.start > delivery.key.plan:", "if False:"),),
    ),
    Mutant(
        guard="a plan that was read for an old subscription is not handed out to a new one",
        function=T._unmoved,
        world=worlds.RECREATED,
        changes=(
            ("(current.cursor, current.generation) == (seen.cursor, seen.generation)", "current.cursor == seen.cursor"),
        ),
    ),
    Mutant(
        guard="a pause of an old subscription does not pause a new one",
        function=MemoryParks._change,
        world=worlds.PAUSED_OLD,
        changes=(("or current.generation != subscription.generation", ""),),
    ),
    Mutant(
        guard="a deletion of an old subscription does not delete a new one",
        function=MemoryParks._change,
        world=worlds.DELETED_TWICE,
        changes=(("or current.generation != subscription.generation", ""),),
    ),
    Mutant(
        guard="a refused part of an old subscription does not break a new one",
        function=MemoryParks.mark_broken,
        world=worlds.BROKEN_OLD,
        changes=(
            ("(current.generation, current.state) != (generation, State.ACTIVE)", "current.state != State.ACTIVE"),
        ),
    ),
    Mutant(
        guard="deliveries of a subscription that is gone go, too",
        function=sweeping._look_after_delivery,
        world=worlds.UNSUBSCRIBED,
        changes=(
            (
                "subscription is None or subscription.generation != key.generation or delivery.complete",
                "delivery.complete",
            ),
        ),
    ),
    Mutant(
        guard="no replay of a plan that may be deleted",
        function=MemoryAdministration.open_replay,
        world=worlds.REPLAY_COLLECT,
        changes=((" or current.collected_until > delivery.key.plan", ""),),
    ),
    Mutant(
        guard="a collection that has not seen a replay is refused",
        function=MemoryAdministration.open_replay,
        world=worlds.REPLAY_COLLECT,
        changes=(
            (
                "subscriptions_version=current.subscriptions_version + 1",
                "subscriptions_version=current.subscriptions_version",
            ),
        ),
    ),
    Mutant(
        guard="a subscription that is paused gets no replay",
        function=MemoryAdministration.open_replay,
        world=worlds.REPLAY_PAUSE,
        changes=((" or not to.takes_plans", ""),),
    ),
    Mutant(
        guard="a subscription that is gone gets no replay",
        function=MemoryAdministration.open_replay,
        world=worlds.REPLAY_UNSUBSCRIBE,
        changes=((" or to.generation != delivery.key.generation", ""),),
    ),
    Mutant(
        guard="a worker of an earlier delivery does not end a replay",
        function=replaying._Run._delivery,
        world=worlds.REPLAY_WORKER,
        changes=(("replay=secrets.token_hex(8),", "replay=None,"),),
    ),
)
