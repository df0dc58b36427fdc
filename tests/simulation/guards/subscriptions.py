"""Guards of a subscription's state. Messages for a paused subscription or a broken queue are parked."""

from __future__ import annotations

from typing import Any

from tests.simulation.conditions import unallowed, unwritten
from tests.simulation.guard import Guard, in_storage
from tests.simulation.guards import subscription_worlds as worlds
from tests.simulation.removal import always, instead, moved, never, wrapped
from tidewheel.flows.administration import pause as pausing
from tidewheel.flows.delivery import direct, dispatch, drain, parking
from tidewheel.flows.maintenance import due_checks, orphans
from tidewheel.model.subscription_state import State, SubscriptionState


def _parks_nothing(*_: Any, **__: Any) -> list[Any]:
    return []


def _take_all(take: Any, _: Any) -> Any:
    return take.__self__


GUARDS = (
    Guard(
        "a plan is not handed out with its commit to who is paused",
        dispatch._Step.__init__,
        always("takes_plans"),
        worlds.PAUSED,
    ),
    Guard(
        "a plan is not handed out later to who is paused",
        dispatch.hand_out,
        never("takes_plans"),
        worlds.PAUSED_MEANWHILE,
    ),
    Guard(
        "a plan that is handed out is older than a pause that was not yet seen",
        dispatch.hand_out,
        moved("topic_states.read", after="subscriptions.read"),
        worlds.PAUSED_MEANWHILE,
    ),
    Guard("a paused subscription gets nothing that goes direct", direct._send_at_once, always("ACTIVE"), worlds.PAUSED),
    Guard(
        "what a paused subscription must not have yet is kept for it",
        direct._park_all,
        instead("park_rows", _parks_nothing),
        worlds.PAUSED,
    ),
    Guard(
        "a subscription that resumes behind is seen by the sweep",
        in_storage("subscriptions.resume"),
        instead("_lowered", lambda *_: {}),
        worlds.TWO_RESUMED,
    ),
    Guard(
        "a resume is seen by whoever raises the next slot",
        in_storage("subscriptions.resume"),
        unwritten("work_version"),
        worlds.TWO_RESUMED,
    ),
    Guard(
        "a park whose worker died is drained by another",
        in_storage("parks.lease"),
        unallowed("leased_ms"),
        worlds.DRAIN_DIES,
    ),
    Guard(
        "a park goes before its object",
        pausing.drop_parks,
        moved("parks.delete", after="objects.delete"),
        worlds.DRAIN_DIES,
    ),
    Guard("an old park is drained", due_checks._enqueue_park, instead("enqueue_parks"), worlds.DRAIN_DIES),
    Guard("a park is not drained while its subscription is paused", drain.drain, never("PAUSED"), worlds.PAUSED_AGAIN),
    Guard(
        "a drain brings nothing that was purged",
        drain._drain,
        instead("without_purged", lambda _, rows, __: rows),
        worlds.PARKED_PURGED,
    ),
    Guard("an object that a park names is no orphan", orphans._parked_named, never("object_name"), worlds.PARKED_LONG),
    Guard(
        "a park that finds itself put keeps its object",
        parking._forget_unnamed,
        always(before="delete"),
        worlds.PARKING,
    ),
    Guard(
        "what a queue refuses of a part is parked",
        parking.park_rest,
        instead("park_rows", _parks_nothing),
        worlds.REFUSED_PAUSED,
    ),
    Guard(
        "a broken subscription keeps its cursor moving",
        SubscriptionState.takes_plans,
        wrapped(lambda _, subscription: subscription.state is State.ACTIVE),
        worlds.BROKEN_COLLECTED,
    ),
    Guard(
        "of a part that a queue took in part, the rest is parked",
        parking.park_rest,
        instead("take", _take_all),
        worlds.GOES_IN_DELIVERY,
    ),
    Guard(
        "of direct messages that a queue took in part, the rest is parked",
        direct._send_at_once,
        instead("take", _take_all),
        worlds.GOES_IN_DIRECT,
    ),
    Guard(
        "of a park that a queue took in part, the rest is parked anew",
        drain._settle,
        always("num_rows"),
        worlds.GOES_IN_DRAIN,
    ),
)
