"""Guards of deliveries. A handed out plan is sent once, to one generation of a subscription, and may be replayed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

from tests.simulation.conditions import unallowed, unchecked, unwritten
from tests.simulation.guard import Guard, in_storage
from tests.simulation.guards import delivery_worlds as worlds
from tests.simulation.removal import always, instead, keyword, never
from tidewheel.flows.administration import replay as replaying
from tidewheel.flows.delivery import deliver, due_rows, planning
from tidewheel.flows.upkeep import due_checks
from tidewheel.flows.upkeep import sweep as sweeping
from tidewheel.storage import layout


def _nine_slots_later(next_occupied: Any, ports: Any, buckets: Any, slot: int) -> Any:
    return next_occupied(ports, buckets, slot + 9)


GUARDS = (
    Guard("a part is one worker's", in_storage("deliveries.lease_part"), unchecked("leases"), worlds.TWICE),
    Guard("a part that is done stays done", in_storage("deliveries.lease_part"), unchecked("done"), worlds.TWICE),
    Guard(
        "a part that comes late does not bring back a delivery that is gone",
        in_storage("deliveries.lease_part"),
        unchecked("pk"),
        worlds.SLOW,
    ),
    Guard(
        "a worker that ends late does not bring back a delivery that is gone",
        in_storage("deliveries.part_done"),
        unchecked("pk"),
        worlds.SLOW,
    ),
    Guard("a delivery goes when all of its parts are done", deliver._delete_complete, always("complete"), worlds.TWICE),
    Guard(
        "a part whose lease has ended is another worker's",
        in_storage("deliveries.lease_part"),
        unallowed("leases"),
        worlds.DYING,
    ),
    Guard(
        "an open delivery is started again",
        due_checks.check_delivery,
        instead("enqueue_parts"),
        worlds.DYING_DISPATCH,
    ),
    Guard("a complete delivery whose worker died goes", due_checks.check_delivery, never("complete"), worlds.DYING),
    Guard(
        "a topic whose next slot is due is dispatched",
        sweeping._dispatch_overdue,
        never("at_ms now_ms"),
        worlds.DYING_DISPATCH,
    ),
    Guard(
        "the next slot names the next occupied slot",
        planning.DueBuckets.next_slot,
        instead("next_occupied", _nine_slots_later),
        worlds.DYING_DISPATCH,
    ),
    Guard(
        "one sweep starts an old delivery",
        in_storage("deliveries.set_next_check"),
        unchecked("next_check_ms"),
        worlds.TWO_SWEEPS,
    ),
    Guard("a subscription gets what is due from its start on", due_rows.rows_of, never(".start"), worlds.LATER),
    Guard(
        "a plan that was read for an old subscription is not handed out to a new one",
        in_storage("deliveries._cursor_change"),
        unchecked("generation"),
        worlds.RECREATED,
    ),
    Guard(
        "a pause of an old subscription does not pause a new one",
        in_storage("subscriptions.pause"),
        unchecked("generation"),
        worlds.PAUSED_OLD,
    ),
    Guard(
        "a deletion of an old subscription does not delete a new one",
        in_storage("subscriptions.delete"),
        unchecked("generation"),
        worlds.DELETED_TWICE,
    ),
    Guard(
        "a refused part of an old subscription does not break a new one",
        in_storage("subscriptions.mark_broken"),
        unchecked("generation"),
        worlds.BROKEN_OLD,
    ),
    Guard(
        "deliveries of a subscription that is gone go, too",
        due_checks.check_delivery,
        instead("subscriptions.read", lambda *_: SimpleNamespace(generation=ANY)),
        worlds.UNSUBSCRIBED,
    ),
    Guard(
        "no replay of a plan that may be deleted",
        in_storage("deliveries.open_replay"),
        unchecked("collected_until"),
        worlds.REPLAY_COLLECT,
    ),
    Guard(
        "a collection that has not seen a replay is refused",
        in_storage("deliveries.open_replay"),
        unwritten("subscriptions_version"),
        worlds.REPLAY_COLLECT,
    ),
    Guard(
        "a subscription that is paused gets no replay",
        in_storage("deliveries.open_replay"),
        unchecked("state"),
        worlds.REPLAY_PAUSE,
    ),
    Guard(
        "a subscription that is gone gets no replay",
        in_storage("deliveries.open_replay"),
        unchecked("generation", layout.SUBSCRIPTIONS),
        worlds.REPLAY_UNSUBSCRIBE,
    ),
    Guard(
        "a worker of an earlier delivery does not end a replay",
        replaying._Run._delivery,
        keyword("DeliveryKey", "replay"),
        worlds.REPLAY_WORKER,
    ),
)
