"""A topic with a million due messages keeps another topic's parts waiting for at most a few seconds."""

from __future__ import annotations

from benchmarks.bench_fairness import CALLS, Job, fair, jobs, oldest_first, part_s, waits_s


def test_another_topics_part_waits_less_than_three_seconds_behind_a_million_messages() -> None:
    for subscriptions in (1, 10):
        work = jobs(subscriptions)
        without, groups = waits_s(work, oldest_first), waits_s(work, fair)
        assert groups["quiet"] <= part_s(1_000) < 3
        assert without["quiet"] > 3 * subscriptions
        # The busy topic itself waits no longer: the calls are as busy as before.
        assert groups["busy"] <= without["busy"] + part_s(1_000)


def test_jobs_of_one_topic_share_all_calls() -> None:
    assert waits_s([Job("busy", 0.0, 1.0)] * CALLS, fair) == {"busy": 0.0}
    assert waits_s([Job("busy", 0.0, 1.0)] * (CALLS + 1), fair) == {"busy": 1.0}


def test_many_quiet_topics_are_served_in_their_order() -> None:
    work = [Job(f"topic-{n}", n / 10, 2.0) for n in range(50)]
    assert waits_s(work, fair, calls=10) == waits_s(work, oldest_first, calls=10)
