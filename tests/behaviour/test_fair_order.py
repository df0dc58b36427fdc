"""Nine o'clock: a tenant's flood keeps quiet tenants waiting without groups, and does not with groups."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tidewheel import Message
from tidewheel.local import MemoryTidewheel
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.memory.sqs_queue import MemoryQueue

NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)
QUIET_TENANTS = 50
QUIET_DUE_S = (0, 60, 300, 600)
"""When each quiet tenant's messages are due, in seconds after nine."""
BATCH, STEP_MS, STEPS, PER_S = 10, 100, 10, 100
"""The consumers receive ten messages every 100 ms and take a second for each: 100 in flight, 100 a second."""


def messages(flood: int, *, flood_has_group: bool, others_have_groups: bool) -> Iterator[Message]:
    """Yields one tenant's messages, all due at nine, and then the quiet tenants' messages by due time.

    So the ids of all that are due at nine count up, and the quiet tenants' come after the flood.
    """
    for _ in range(flood):
        yield Message(body="flood", deliver_at=NINE, group="flood" if flood_has_group else None)
    for due_s in QUIET_DUE_S:
        for number in range(QUIET_TENANTS):
            group = f"quiet-{number}" if others_have_groups else None
            yield Message(body="quiet", deliver_at=NINE + timedelta(seconds=due_s), group=group)


def waits_s(found: list[Message]) -> dict[str, list[float]]:
    """Returns how long the messages wait for a consumer, in order, by body."""
    stack = MemoryTidewheel(start=NINE - timedelta(hours=2))
    client = stack.client()
    client.create_topic("reminders")
    queue = stack.queue(client.create_subscription("reminders", "mail").queue_url)
    client.send_many("reminders", found)
    stack.advance(hours=2)
    assert queue.approximate_number_of_messages == sum(each.deliver_at == NINE for each in found)
    waited: dict[str, list[float]] = {"flood": [], "quiet": []}
    in_flight: deque[list[MemoryMessage]] = deque([[]] * STEPS)
    while sum(map(len, waited.values())) < len(found):
        in_flight.append(_next(queue, in_flight.popleft()))
        for message in in_flight[-1]:
            waited[message.body].append((stack.clock.now_ms() - message.visible_at_ms) / 1000)
        stack.advance(seconds=STEP_MS / 1000)
    return {body: sorted(each) for body, each in waited.items()}


def _next(queue: MemoryQueue, handled: list[MemoryMessage]) -> list[MemoryMessage]:
    for message in handled:
        assert message.receipt_handle is not None
        queue.delete(message.receipt_handle)
    return queue.take(BATCH)


def p99(waits: list[float]) -> float:
    return waits[len(waits) * 99 // 100]


@pytest.mark.parametrize("flood", [10_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_quiet_tenants_wait_two_seconds_at_most_behind_a_flood_with_groups_and_minutes_without(flood: int) -> None:
    mixed = waits_s(list(messages(flood, flood_has_group=False, others_have_groups=False)))
    fair = waits_s(list(messages(flood, flood_has_group=True, others_have_groups=True)))
    assert p99(mixed["quiet"]) >= flood / PER_S, "1,000 s behind 100,000"
    assert p99(fair["quiet"]) <= 2, "0.5 s"
    assert fair["flood"][-1] <= mixed["flood"][-1] + 2, "the flood ends as soon"
