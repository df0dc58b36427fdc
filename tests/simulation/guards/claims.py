"""Guards of claims. A message is handed out or stopped, and of a message and its replacement one comes."""

from __future__ import annotations

from typing import Any

from tests.simulation.conditions import unchecked
from tests.simulation.guard import Guard, in_storage
from tests.simulation.guards import claim_worlds as worlds
from tests.simulation.removal import always, instead, never
from tidewheel.flows.administration import cancel as cancelling
from tidewheel.flows.delivery import keys
from tidewheel.model.claim import Claim


def _nobody_has_it(cancel_late: Any, *given: Any, **more: Any) -> Claim:
    return Claim(cancelled=True)


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
        keys._Settling._stopped,
        instead("cancel_late", _nobody_has_it),
        worlds.REPLACE,
    ),
    Guard(
        "a late move says to keys that its message is gone",
        cancelling.cancel_late,
        instead("tombstones.put_late"),
        worlds.ONCE,
    ),
)
