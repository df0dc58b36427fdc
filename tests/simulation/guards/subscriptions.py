"""Guards of a subscription's state. Messages for a paused subscription or a broken queue are parked."""

from __future__ import annotations

from typing import Any

from tests.simulation.conditions import unallowed, unchecked, unwritten
from tests.simulation.guard import Guard, in_storage
from tests.simulation.guards import subscription_worlds as worlds
from tests.simulation.removal import always, instead, moved, never, wrapped
from tidewheel.flows.administration import pause as pausing
from tidewheel.flows.delivery import deliver, direct, dispatch, drain, parking
from tidewheel.flows.upkeep import due_checks, orphans
from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.storage import layout


def _done_without_a_park(_: Any, ports: Any, state: Any, key: Any, part: int, rows: Any, **__: Any) -> None:
    ports.deliveries.part_done(key, part)


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
        instead("park_ledger", lambda *_, **__: None),
        worlds.PAUSED,
    ),
    Guard(
        "nothing is parked for a subscription after the resume that would drain it",
        in_storage("parks.put"),
        unchecked("state"),
        worlds.RESUMED,
    ),
    Guard(
        "a subscription that resumes behind is seen by the sweep",
        in_storage("subscriptions.resume"),
        instead("_lowered", lambda *_: {}),
        worlds.TWO_RESUMED,
    ),
    Guard(
        "a resume that found the next slot low enough is refused when the next slot was raised since",
        in_storage("subscriptions.resume"),
        unchecked("next_slot"),
        worlds.TWO_RESUMED,
    ),
    Guard(
        "a resume is seen by whoever raises the next slot",
        in_storage("subscriptions.resume"),
        unwritten("work_version"),
        worlds.TWO_RESUMED,
    ),
    Guard("a park is one worker's", in_storage("parks.lease"), unchecked("leased_ms"), worlds.DRAINED_TWICE),
    Guard(
        "a worker that comes late does not bring back a park that is gone",
        in_storage("parks.lease"),
        unchecked("pk"),
        worlds.DRAINED_TWICE,
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
    # No worker is slower than a lease, so no world holds the next three.
    Guard("a park is replaced by who has its lease", in_storage("parks.replace"), unchecked("leased_ms")),
    Guard("no park is overwritten by what is left of another", in_storage("parks.replace"), unchecked("pk")),
    Guard("a park is put off by who has its lease", in_storage("parks.put_off"), unchecked("leased_ms")),
    Guard(
        "a park that is there already is not put again",
        in_storage("parks.put"),
        unchecked("pk", layout.PARKS),
        worlds.PARKING,
    ),
    Guard(
        "a park that finds itself put keeps its object",
        parking._forget_unnamed,
        always(before="delete"),
        worlds.PARKING,
    ),
    Guard(
        "one sweep starts an old park",
        in_storage("parks.set_next_check"),
        unchecked("next_check_ms"),
        worlds.TWO_SWEEPS,
    ),
    Guard(
        "a queue that refuses does not end a pause",
        in_storage("subscriptions.mark_broken"),
        unchecked("state"),
        worlds.REFUSED_PAUSED,
    ),
    Guard(
        "what a queue refuses of a part is parked once",
        in_storage("parks.park_part"),
        unchecked("done"),
        worlds.REFUSED_TWICE,
    ),
    Guard(
        "what a queue refuses of a part is parked",
        deliver._park_rest,
        instead("park_part", _done_without_a_park),
        worlds.REFUSED_PAUSED,
    ),
    Guard(
        "a queue that has healed does not end a pause",
        in_storage("subscriptions.resume"),
        unchecked("state"),
        worlds.HEALED_PAUSED,
    ),
    Guard(
        "a broken subscription keeps its cursor moving",
        SubscriptionState.takes_plans,
        wrapped(lambda _, subscription: subscription.state is State.ACTIVE),
        worlds.BROKEN_COLLECTED,
    ),
    Guard(
        "of a part that a queue took in part, the rest is parked",
        deliver._park_rest,
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
    Guard(
        "a part of which the park is there already is parked once",
        in_storage("parks.park_part"),
        unchecked("pk", layout.PARKS),
    ),
)
