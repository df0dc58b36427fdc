"""A topic with a million due messages keeps another topic's parts waiting for at most a few seconds."""

from __future__ import annotations

from benchmarks.bench_fairness import fair, jobs, oldest_first, part_s, waits_s


def test_another_topics_part_waits_less_than_three_seconds_behind_a_million_messages() -> None:
    for subscriptions in (1, 10):
        work = jobs(subscriptions)
        without, groups = waits_s(work, oldest_first), waits_s(work, fair)
        assert groups["quiet"] <= part_s(1_000) < 3
        assert without["quiet"] > 3 * subscriptions
        # The busy topic itself waits no longer: the calls are as busy as before.
        assert groups["busy"] <= without["busy"] + part_s(1_000)
