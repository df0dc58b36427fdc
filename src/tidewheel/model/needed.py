"""Says from which slot on a topic's data is still needed.

Whatever deletes data by time asks here: the collection, the purge marks and the deletion of large bodies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidewheel.model.park import Park
from tidewheel.model.subscription_state import Delivery, SubscriptionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """The first needed slots. None: no slot is needed.

    Attributes:
        ledgers: from this slot on, somebody will read ledgers and plans.
        messages: a message due from this slot on may still be sent, so its purge marks and its large body are needed.
    """

    ledgers: int | None
    messages: int | None


def needed(
    slot_ms: int,
    *,
    subscriptions: Iterable[SubscriptionState] = (),
    opened: Iterable[Delivery] = (),
    parks: Iterable[Park] = (),
) -> Needed:
    """Returns the first slots needed by a topic's items.

    A park has a ledger of its own.

    Args:
        slot_ms: the topic's slot length.
        subscriptions: read before the deliveries.
        opened: the open deliveries, read before the parks.
        parks: with or without their ledgers.
    """
    plans = [each.key.plan for each in opened]
    ledgers = [each.cursor for each in subscriptions] + plans
    messages = plans + [(each.first_due_ms or 0) // slot_ms for each in parks]
    return Needed(ledgers=min(ledgers, default=None), messages=min(ledgers + messages, default=None))
