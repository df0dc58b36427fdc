"""The trace of a run names the subject of each call. The story of a failed run is its last relevant steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.simulation.promises import Violation
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.key import KeyEntry
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.plan import Plan, Trash
from tidewheel.model.subscription_state import Delivery, DeliveryKey, SubscriptionState
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import NextWork, TopicState
from tidewheel.storage.deliveries import HandOut

_MOST_NAMES = 6
MOST_LINES = 40
_READS = re.compile(
    r": (?:\w+\.(?:read|all|ids)|plans\.(?:next|ranges|objects)|merges\.trash|buckets\.imported|checks\.due)\b"
    r"(?!.*(?:fails|dies|throttled))"
    r"|: objects\.(?:get_range|list)\b(?!.*(?:fails|dies|throttled))"
)


def story(command: str, trace: Sequence[str], error: Violation) -> str:
    """Returns the steps about the subject of a violation, and the command to show all steps.

    That is: those that name it; what else the functions wrote that had it in hands; and, as far as there is room, what
    others wrote to its topic next.
    """
    topic, *things = error.about or ("",)
    named = [place for place, line in enumerate(trace) if any(thing in line for thing in things if thing)]
    hands = {_who(trace[place]) for place in named}
    chosen = {place for place, line in enumerate(trace) if _who(line) in hands and not _READS.search(line)}
    chosen = set(sorted(chosen.union(named))[-MOST_LINES:])
    others = [place for place, line in enumerate(trace) if topic in line and not _READS.search(line)]
    begin = max(named, default=0)
    behind = [place for place in others if place >= begin] if named else others[-MOST_LINES:]
    chosen.update([place for place in behind if place not in chosen][: MOST_LINES - len(chosen)])
    return "\n".join(
        [
            f"again: {command}",
            f"all {len(trace):,} steps: {command} --trace",
            "ms since the start, who: what",
            *(trace[place] for place in sorted(chosen)),
        ]
    )


def _who(line: str) -> str:
    return line[12:].partition(":")[0]


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
