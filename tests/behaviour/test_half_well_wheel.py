"""EventBridge Scheduler refuses calls for a while. All due messages still come, once and in time."""

from __future__ import annotations

from tests.half_well import HalfWell
from tidewheel.local import MemoryTidewheel


def test_a_sweep_whose_schedules_are_refused_starts_dispatches_and_tries_the_schedules_again() -> None:
    faults = HalfWell()
    stack = MemoryTidewheel(start="2026-01-01T00:00:00Z", wrap=faults)
    client = stack.client()
    client.create_topic("orders")
    client.create_subscription("orders", "billing")
    stack.advance(minutes=7)
    faults.refuse("wheel.schedule", minutes=60)
    client.send_recurring("orders", "ticks", "tick", every="20m")
    sent = [client.send("orders", f"message {minutes}", delay=f"{minutes}m") for minutes in range(1, 55)]
    stack.advance(minutes=58)
    assert not stack.failures and not stack.logged
    assert not stack.service.wheel.schedules
    stack.advance(minutes=20)
    assert stack.service.wheel.schedules
    messages = stack.receive("orders", "billing")
    assert len({message.id for message in messages}) == len(messages) > len(sent) + 2
    assert {each.id for each in sent} < {message.id for message in messages}
    for message in messages:
        assert message.deliver_at is not None
        assert 0 <= (message.visible_at - message.deliver_at).total_seconds() <= 2
