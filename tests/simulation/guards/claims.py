"""Guards of claims. A message is handed out or stopped, and of a message and its replacement one comes."""

from __future__ import annotations

from tests.simulation.conditions import unchecked
from tests.simulation.guard import Guard, in_storage
from tests.simulation.guards import claim_worlds as worlds
from tests.simulation.removal import always, instead, never
from tidewheel.flows.administration import cancel as cancelling
from tidewheel.flows.delivery import keys

GUARDS = (
    Guard(
        "a message that was cancelled late is not handed out",
        in_storage("claims.claim"),
        unchecked("cancelled"),
        worlds.CANCEL,
    ),
    Guard(
        "a message that a consumer has is not cancelled",
        in_storage("claims.cancel"),
        unchecked("claimed"),
        worlds.CANCEL,
    ),
    Guard(
        "a message that a consumer has is not moved",
        in_storage("claims.cancel"),
        unchecked("claimed"),
        worlds.MOVE,
    ),
    Guard(
        "of two late moves the first stays",
        in_storage("claims.cancel"),
        unchecked("moved_to"),
        worlds.TWO_MOVES,
    ),
    Guard(
        "a late cancel of a message that was moved cancels its replacement",
        cancelling._refused,
        always("claim .to"),
        worlds.MOVE_CANCEL,
    ),
    Guard(
        "a late cancel by key says who has the message",
        cancelling._cancel_named,
        never(".comes"),
        worlds.CANCEL_KEY,
    ),
    Guard(
        "a newer message stops what no consumer has",
        keys._Settling._stop,
        instead("superseding", lambda *_, **__: None),
        worlds.REPLACE,
    ),
    Guard(
        "a message that was promised for a time is not stopped after it",
        keys._Settling._may_replace,
        always("over"),
        worlds.PROMISE_OVER,
    ),
    Guard(
        "a message that would come after its key's latest time comes then",
        keys._Settling.claim,
        instead("_send_earlier"),
        worlds.PUT_OFF,
    ),
    Guard(
        "a message that comes again is the one that its key names",
        keys._Settling._settle,
        never("is_mine found.id"),
        worlds.PUT_OFF,
    ),
    Guard(
        "a cancelled message does not come at its key's latest time either",
        keys._Settling._send_earlier,
        never("known.to"),
        worlds.PUT_OFF_CANCELLED,
    ),
    Guard(
        "a late move says to keys that its message is gone",
        cancelling.cancel_late,
        instead("tombstones.put_late"),
        worlds.ONCE,
    ),
)
