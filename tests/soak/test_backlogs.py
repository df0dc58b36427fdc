"""What comes all at once, in small numbers: a burst, hours without ingest, hours without dispatch and sweep."""

from __future__ import annotations

from benchmarks.soak import backlog, burst, outage


def test_a_burst_due_in_one_second_is_there_in_time_in_parts_that_are_no_larger_than_those_of_a_smaller_one() -> None:
    outcome = burst.run(burst.SMALL)
    assert outcome.broken == []
    assert outcome.figures["copies"] == burst.SMALL.messages * len(burst.SUBSCRIPTIONS)
    assert outcome.figures["part_jobs"] > len(burst.SUBSCRIPTIONS)


def test_what_was_sent_while_ingest_stood_still_comes_within_a_batch_window_or_at_its_time() -> None:
    outcome = backlog.run(backlog.SMALL)
    assert outcome.broken == []
    assert outcome.figures["overdue_copies"] > backlog.SMALL.messages // 3


def test_after_hours_without_schedules_and_sweeps_one_sweep_brings_all_that_is_overdue() -> None:
    outcome = outage.run(outage.SMALL)
    assert outcome.broken == []
    assert outcome.figures["late_copies"] > 0
