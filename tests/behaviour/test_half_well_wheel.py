"""EventBridge Scheduler refuses calls for a while. All due messages still come, once."""

from __future__ import annotations

from collections import Counter

from tests.half_well import HalfWell
from tidewheel.local import MemoryTidewheel

IN_TIME_MS = 2_000


class Stage:
    """A service with one topic, and with faults set by the test."""

    def __init__(self, *subscriptions: str) -> None:
        self.faults = HalfWell()
        self.stack = MemoryTidewheel(start="2026-01-01T00:00:00Z", wrap=self.faults)
        self.client = self.stack.client()
        self.client.create_topic("orders")
        for name in subscriptions or ("billing",):
            self.client.create_subscription("orders", name)
        self.copies: Counter[str] = Counter()
        self.latest_ms = 0
        self.due_ms: dict[str, int] = {}

    def send(self, text: str, delay: str) -> None:
        sent = self.client.send("orders", text, delay=delay)
        assert sent.deliver_at is not None
        self.due_ms[sent.id] = round(sent.deliver_at.timestamp() * 1000)

    def run(self, minutes: int, subscription: str = "billing") -> None:
        self.stack.advance(minutes=minutes)
        for message in self.stack.receive("orders", subscription):
            self.copies[message.id] += 1
            late_ms = round(message.visible_at.timestamp() * 1000) - self.due_ms[message.id]
            assert late_ms >= 0, "a message is early"
            self.latest_ms = max(self.latest_ms, late_ms)

    def expect_one_copy_each(self, latest_ms: int = IN_TIME_MS) -> None:
        assert set(self.copies) == set(self.due_ms), f"{len(self.due_ms) - len(self.copies)} messages never came"
        assert self.copies.total() == len(self.due_ms), f"{self.copies.total()} copies of {len(self.due_ms)} messages"
        assert self.latest_ms <= latest_ms, f"the latest came {self.latest_ms / 1000:.0f} s late"


def test_a_scheduler_that_refuses_for_half_an_hour_makes_no_copies_and_nothing_late() -> None:
    stage = Stage()
    stage.stack.advance(minutes=7)
    stage.faults.refuse("wheel.schedule", minutes=30)
    for place in range(120):
        stage.send(f"message {place}", delay=f"{60 + 14 * place}s")
    stage.run(45)
    stage.expect_one_copy_each()
    assert not stage.stack.failures and not stage.stack.logged


def test_a_sweep_whose_schedules_are_refused_starts_dispatches_and_tries_the_schedules_again() -> None:
    stage = Stage()
    stage.stack.advance(minutes=7)
    stage.faults.refuse("wheel.schedule", minutes=60)
    stage.client.send_recurring("orders", "ticks", "tick", every="20m")
    stage.send("message", delay="50m")
    stage.stack.advance(minutes=58)
    assert not stage.stack.failures and not stage.stack.logged
    assert not stage.stack.service.wheel.schedules
    stage.stack.advance(minutes=20)
    assert stage.stack.service.wheel.schedules
    messages = stage.stack.receive("orders", "billing")
    assert len({message.id for message in messages}) == len(messages) > 3
    for message in messages:
        assert message.deliver_at is not None
        assert (message.visible_at - message.deliver_at).total_seconds() <= 2
