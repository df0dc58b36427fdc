"""Guards of deliveries. A handed out plan is sent once, to one generation of a subscription, and may be replayed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

from tests.simulation.conditions import unallowed, unwritten
from tests.simulation.guard import Guard, in_storage
from tests.simulation.guards import delivery_worlds as worlds
from tests.simulation.removal import always, instead, keyword, never
from tidewheel.flows.administration import replay as replaying
from tidewheel.flows.delivery import due_rows, planning
from tidewheel.flows.maintenance import due_checks
from tidewheel.flows.maintenance import sweep as sweeping


def _nine_slots_later(next_occupied: Any, ports: Any, buckets: Any, slot: int) -> Any:
    return next_occupied(ports, buckets, slot + 9)


GUARDS = (
    Guard(
        "a delivery goes when all of its parts are done",
        in_storage("deliveries.ended"),
        always("whole.complete"),
        worlds.TWICE,
    ),
    Guard(
        "a hand-out puts all marks of a delivery, and its end deletes them",
        in_storage("deliveries._puts"),
        instead("marks.divided", lambda _, delivery: [delivery]),
        worlds.TWICE,
    ),
    Guard(
        "a part whose lease has ended is another worker's",
        in_storage("deliveries.lease_part"),
        unallowed("leases"),
        worlds.DYING,
    ),
    Guard(
        "an open delivery is started again", due_checks.check_delivery, instead("enqueue_parts"), worlds.DYING_DISPATCH
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
    Guard("a subscription gets what is due from its start on", due_rows.rows_of, never(".start"), worlds.LATER),
    Guard(
        "deliveries of a subscription that is gone go, too",
        due_checks.check_delivery,
        instead("subscriptions.read", lambda *_: SimpleNamespace(generation=ANY)),
        worlds.UNSUBSCRIBED,
    ),
    Guard(
        "a collection that has not seen a replay is refused",
        in_storage("deliveries.open_replay"),
        unwritten("subscriptions_version"),
        worlds.REPLAY_COLLECT,
    ),
    Guard(
        "a worker of an earlier delivery does not end a replay",
        replaying._delivery,
        keyword("DeliveryKey", "replay"),
        worlds.REPLAY_WORKER,
    ),
)
