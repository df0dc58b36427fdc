"""Names the subject of a traced call in a few characters, such as topics, slots and ids."""

from __future__ import annotations

from tidewheel.ledger.bucket import Bucket
from tidewheel.model.key import KeyEntry
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.plan import Plan
from tidewheel.model.subscription_state import Delivery, DeliveryKey, SubscriptionState
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import NextWork, TopicState
from tidewheel.model.trash import Trash
from tidewheel.storage.deliveries import HandOut

_MOST_NAMES = 6


def named(args: tuple[object, ...]) -> str:
    """Returns a call's arguments as text for the trace, without uninformative arguments."""
    found = " ".join(filter(None, map(_name, args)))
    return f" {found}" if found else ""


def _name(value: object) -> str:
    match value:
        case str() | int():
            return str(value)
        case TopicState():
            return (
                f"{value.topic}(sealed={value.sealed} planned={value.planned} "
                f"work_version={value.work_version} swap_version={value.swap_version})"
            )
        case Bucket():
            return f"{value.id[:8]}[{value.first_slot}..{value.last_slot}]"
        case Plan():
            return f"plan {value.first_slot}..{value.end_slot}"
        case NextWork():
            return f"next_slot={value.next_slot}"
        case HandOut():
            return f"{value.subscription.name}->{value.to}"
        case SubscriptionState():
            return f"{value.topic}/{value.name} cursor={value.cursor} {value.state.value}"
        case Trash():
            return f"trash@{value.sealed}"
        case _:
            return _named_item(value)


def _named_item(value: object) -> str:
    match value:
        case DeliveryKey():
            return f"{value.topic}/{value.subscription}/{value.plan}{'/replay' if value.replay else ''}"
        case ParkKey():
            return f"{value.topic}/{value.subscription}/{value.id[:8]}"
        case Delivery() | Park():
            return _named_item(value.key)
        case Tombstone():
            return f"{value.id}@{value.slot}{f' to {value.to}' if value.to else ''}"
        case KeyEntry():
            return f"{value.key}={value.id}{' cancelled' if value.cancelled else ''}"
        case list() | tuple():
            return f"({', '.join(filter(None, map(_name, value[:_MOST_NAMES])))})"
        case _:
            return ""
