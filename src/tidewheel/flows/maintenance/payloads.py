"""Deletes bodies that are too large for SQS, 28 days after their messages were handed out.

The names of payloads hold the due date. Once a day, a mark records how far each topic is collected. Messages due before
the mark of 28 days ago were handed out to every subscription by then, and none of them is in a park or undelivered:

    payloads/<topic>/collected.json    [[written_at_ms, collected_ms], ...], of the last 28 days
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidewheel.flows.maintenance.daily import walk_daily
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import next_slot
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.needed import needed
from tidewheel.model.object_names import PAYLOADS, collections_name, payload_day_end_ms
from tidewheel.model.topic_state import TopicState
from tidewheel.model.untrusted import json_of, whole
from tidewheel.storage.objects import StoredObject

DAILY = "PAYLOADS"
KEPT_MS = 28 * 86_400_000
_MARKS_BYTES = 64 * 1024
"""A mark a day for 28 days takes a kilobyte."""

Marks = list[tuple[int, int]]


def sweep_payloads_daily(ports: Ports, ends_ms: int) -> tuple[int, Mapping[str, Exception]]:
    """Deletes bodies once a day, in portions. Returns how many, and the errors by topic. Nothing if it is not due."""
    deleted: list[int] = []

    def visit(_: str, topic: str, listed: list[StoredObject]) -> None:
        deleted.append(_sweep_topic(ports, topic, listed))

    failures = walk_daily(ports, DAILY, [PAYLOADS], visit, ends_ms)
    return sum(deleted), failures or {}


def _sweep_topic(ports: Ports, topic: str, stored: list[StoredObject]) -> int:
    now_ms = ports.clock.now_ms()
    marks_name = collections_name(topic)
    bodies = [each for each in stored if each.name != marks_name]
    state = ports.topic_states.read(topic)
    if state is None:
        # The topic is deleted, or its table is lost. Bodies old enough for both cases are deleted.
        done = [each.name for each in bodies if (payload_day_end_ms(each.name) or now_ms) + KEPT_MS < now_ms]
        ports.objects.delete(done)
        return len(done)
    collected_ms = _collected_ms(ports, state)
    # A message that is parked or cannot be read after a mark is sent later: the mark's 28 days begin anew.
    found = _marks(ports, [each for each in stored if each.name == marks_name])
    marks = [(at_ms, min(to_ms, collected_ms)) for at_ms, to_ms in found]
    handed_out_ms = max((to_ms for at_ms, to_ms in marks if at_ms <= now_ms - KEPT_MS), default=0)
    ends_ms = {each.name: payload_day_end_ms(each.name) for each in bodies}
    done = [name for name, end_ms in ends_ms.items() if end_ms is not None and end_ms <= handed_out_ms]
    kept = [mark for mark in marks if mark[0] > now_ms - KEPT_MS or mark[1] == handed_out_ms]
    if len(done) == len(bodies):
        done.append(marks_name)
    else:
        ports.objects.put(marks_name, sealed(json.dumps([*kept, (now_ms, collected_ms)]).encode()))
    ports.objects.delete(done)
    return len(done)


def _collected_ms(ports: Ports, state: TopicState) -> int:
    """Returns the time before which every message is handed out.

    This is the current time, or the start of the first slot with a message that is not handed out.
    """
    storage, topic = ports, state.topic
    slots = [next_slot(storage.buckets.in_order(topic), state.collected_until)]
    slots += [a for a, _ in storage.plans.ranges(topic, limit=1)]
    # In the order in which a message moves.
    opened = storage.deliveries.all(topic)
    slots.append(needed(state.slot_ms, opened=opened, parks=storage.parks.all(topic)).messages)
    return min([ports.clock.now_ms(), *(slot * state.slot_ms for slot in slots if slot is not None)])


def _marks(ports: Ports, stored: list[StoredObject]) -> Marks:
    # Senders put large bodies under the same prefix, so any sender may have written this object.
    if not stored or stored[0].size_bytes > _MARKS_BYTES:
        return []
    try:
        found = json_of(opened(ports.objects.get_range(stored[0].name, 0, stored[0].size_bytes)))
        marks = [(whole(at_ms), whole(to_ms)) for at_ms, to_ms in found]
        return [(at_ms, to_ms) for at_ms, to_ms in marks if to_ms <= at_ms]
    except (ValueError, TypeError):
        return []  # a damaged record is started anew, which costs 28 days
