"""The clock of one machine of four is wrong. No message comes early, and late messages wait for another machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from tests.half_well import HalfWell
from tidewheel.errors import ClockDoubted
from tidewheel.local import MemoryTidewheel
from tidewheel.model.message import Message

SECOND_MS = 1_000
MINUTE_MS = 60_000
SWEEP_MS = 5 * MINUTE_MS
MESSAGES = 1_200


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Counts copies and messages, and gives times in milliseconds after the due time."""

    copies: int
    messages: int
    earliest_ms: int
    latest_ms: int


READS = {"topic_states.read", "topic_states.existing", "checks.due", "notes.read"}
"""What a machine may ask before it knows that its clock is wrong."""


def run(*skews_ms: int) -> tuple[Figures, MemoryTidewheel, HalfWell]:
    """Sends messages due in 1 to 60 minutes, while invocations take turns on machines with some clocks."""
    faults = HalfWell()
    stack = MemoryTidewheel(start="2026-01-01T00:00:00Z", wrap=faults, max_skew_ms=100)
    client = stack.client()
    client.create_topic("orders")
    client.create_subscription("orders", "billing")
    stack.advance(minutes=7)
    faults.skew(*skews_ms)
    due_ms: dict[str, int] = {}
    for minute in range(30):
        messages = [Message(body="x", delay=f"{60 + 90 * place}s") for place in range(MESSAGES // 30)]
        for sent in client.send_many("orders", messages):
            assert sent.deliver_at is not None
            due_ms[sent.id] = round(sent.deliver_at.timestamp() * 1000)
        stack.advance(minutes=1, seconds=minute % 7)
    stack.advance(hours=2)
    copies: Counter[str] = Counter()
    late_ms = []
    for message in stack.receive("orders", "billing"):
        copies[message.id] += 1
        assert message.visible_at is not None
        late_ms.append(round(message.visible_at.timestamp() * 1000) - due_ms[message.id])
    figures = Figures(copies=copies.total(), messages=len(copies), earliest_ms=min(late_ms), latest_ms=max(late_ms))
    return figures, stack, faults


@pytest.mark.parametrize("skew_ms", [10 * MINUTE_MS, 4 * MINUTE_MS, 3 * SECOND_MS])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_machine_whose_clock_is_wrong_sends_nothing_early_and_others_do_its_work(skew_ms: int, sign: int) -> None:
    figures, _, faults = run(0, 0, 0, sign * skew_ms)
    assert figures.messages == figures.copies == MESSAGES
    assert figures.earliest_ms >= 0
    assert figures.latest_ms <= SWEEP_MS
    assert set(faults.calls_of_wrong_hosts) <= READS


@pytest.mark.parametrize("skew_ms", [1_500, -1_500])
def test_an_error_below_two_seconds_brings_messages_early_or_late_by_the_error_at_most(skew_ms: int) -> None:
    figures, stack, _ = run(0, 0, 0, skew_ms)
    assert figures.messages == figures.copies == MESSAGES
    assert figures.earliest_ms >= -abs(skew_ms)
    assert figures.latest_ms <= 2 * SECOND_MS + abs(skew_ms)
    assert not stack.failures and not stack.logged


def test_a_dispatch_whose_clock_is_thirty_days_ahead_seals_and_sends_nothing() -> None:
    faults = HalfWell(signed=False)
    stack = MemoryTidewheel(start="2026-01-01T00:00:00Z", wrap=faults)
    client = stack.client()
    client.create_topic("orders")
    client.create_subscription("orders", "billing")
    client.send("orders", "first", delay="1h")
    stack.advance(minutes=50)
    for days in (1, 10, 20, 29):
        client.send("orders", "later", delay=f"{days}d")
    stack.advance(minutes=6)
    before = stack.service.topic_states.read("orders")
    faults.skew(30 * 24 * 60 * MINUTE_MS)
    with pytest.raises(ClockDoubted, match="AWS says 2026-01-01T00:56:00"):
        stack._functions.call("dispatch", {"topic": "orders"})
    assert stack.service.topic_states.read("orders") == before
    assert set(faults.calls_of_wrong_hosts) == {"topic_states.read"}
    faults.skew(0)
    received = []
    for _ in range(30):
        stack.advance(days=1)
        received += [message.id for message in stack.receive("orders", "billing")]
    assert len(received) == len(set(received)) == 5
