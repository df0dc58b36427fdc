"""Many subscriptions of one topic, some of them odd, in small numbers."""

from __future__ import annotations

from benchmarks.soak import fan_out


def test_a_broken_queue_and_a_paused_subscription_hold_up_nobody_else_and_get_everything_once_in_the_end() -> None:
    outcome = fan_out.run(fan_out.SMALL)
    assert outcome.broken == []
    assert outcome.figures["parks_at_repair"] > 0
    sent = fan_out.SMALL.messages + 2 * fan_out.SMALL.flash
    everything = sent * (fan_out.SMALL.subscriptions - len(fan_out.FILTERED))
    assert everything < outcome.figures["copies"] < everything + sent
