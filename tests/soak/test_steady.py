"""Virtual weeks at a steady rate, in small numbers: what `make soak` runs in great ones."""

from __future__ import annotations

from benchmarks.soak import steady


def test_at_a_steady_rate_nothing_is_lost_early_or_double_nothing_grows_and_in_the_end_nothing_is_left() -> None:
    outcome = steady.run(steady.SMALL)
    assert outcome.broken == []
    assert outcome.figures["messages"] == steady.SMALL.messages
    assert outcome.figures["cancelled"] > 0
    assert outcome.figures["merges"] > 0
    assert outcome.figures["part_jobs"] > 0
