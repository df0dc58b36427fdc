"""The guards of the protocol, and a small world for each guard to break a promise without the guard."""

from tests.simulation.guard import Guard
from tests.simulation.guards import claims, deliveries, keys, ledgers, plain, slots, subscriptions, topics

GUARDS: tuple[Guard, ...] = (
    *slots.GUARDS,
    *ledgers.GUARDS,
    *deliveries.GUARDS,
    *subscriptions.GUARDS,
    *keys.GUARDS,
    *plain.GUARDS,
    *claims.GUARDS,
    *topics.GUARDS,
)
"""All guards, in the order of a message's life."""
