"""Guards of claims. A message is handed out or stopped, and of a message and its replacement one comes."""

from __future__ import annotations

from tests.simulation.guard import Guard
from tests.simulation.guards import claim_worlds as worlds
from tests.simulation.removal import always, instead, never
from tidewheel.flows.delivery import cancel as cancelling
from tidewheel.flows.delivery import keys

GUARDS = (
    Guard(
        "a late cancel of a message that was moved cancels its replacement",
        cancelling.cancel,
        always("isinstance"),
        worlds.MOVE_CANCEL,
    ),
    Guard("a message that was moved late comes at its new time", cancelling.fate, never("claim .to"), worlds.MOVE),
    Guard("a late cancel by key says who has the message", cancelling.fate, never(".holders"), worlds.CANCEL_KEY),
    Guard(
        "a newer message stops what no consumer has",
        keys._Settling._cancel_of_claim,
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
        instead("_bring_forward"),
        worlds.PUT_OFF,
    ),
    Guard(
        "a message that comes again is the one that its key names",
        keys._Settling._verdict,
        never("id_at found.id"),
        worlds.PUT_OFF,
    ),
    Guard(
        "a cancelled message does not come at its key's latest time either",
        keys._Settling._bring_forward,
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
