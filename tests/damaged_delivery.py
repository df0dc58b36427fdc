"""Puts a delivery of which something cannot be read."""

from __future__ import annotations

from tidewheel.model.subscription_state import DAMAGED_AFTER_TRIES, Delivery, DeliveryKey, Unread
from tidewheel.storage import items
from tidewheel.storage.storage import Storage
from tidewheel.storage.writes import Put


def put_damaged(
    storage: Storage,
    topic: str,
    subscription: str,
    plan: int,
    *,
    generation: str = "s1",
    object_name: str = "ledgers/x",
    tries: int = DAMAGED_AFTER_TRIES,
) -> Delivery:
    """Puts a delivery of a plan that waits for an object with three messages."""
    delivery = Delivery(
        key=DeliveryKey(topic=topic, subscription=subscription, generation=generation, plan=plan),
        queue_url="https://queue",
        parts=1,
        start=0,
        next_check_ms=1 << 45,
        unread=((0, Unread((), (object_name,), 3, lost=True)),),
        unread_ms=0,
        reason="the checksum does not match",
        tries=tries,
    )
    storage.deliveries._table.put(Put(item=items.encode_delivery(delivery)), action="put", topic=topic)
    return delivery
