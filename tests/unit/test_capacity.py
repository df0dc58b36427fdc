"""Compares the limits of the capacity model with the design."""

from __future__ import annotations

import math

import pytest

from benchmarks.bench_capacity import LIMITS, RATES, TOPICS, loads, regime, shares
from tests.local.client_requests import ALL_FLOWS
from tidewheel.cdk.environment import MIN_WARM_READ_UNITS, MIN_WARM_WRITE_UNITS
from tidewheel.cost.workload import DAY_S, Spread, Workload
from tidewheel.storage.tombstones import MAX_CANCELS


@pytest.mark.parametrize("topics", TOPICS)
def test_no_load_becomes_less_when_more_messages_come(topics: int) -> None:
    before = loads(regime(RATES[0], topics))
    assert set(before) == set(LIMITS)
    for rate in RATES[1:]:
        after = loads(regime(rate, topics))
        # A manifest that is too large for its item is an object, which reads no item.
        others = {"table reads", "a new table's reads", "reads of one topic's partition"}
        assert all(after[name] >= before[name] * 0.99 for name in LIMITS if name not in others)
        before = after


def test_a_topic_alone_is_limited_by_its_commits_at_280_000_a_second() -> None:
    first, second, *_ = shares(regime(280_000, 1))
    assert first == ("commits to one topic state", pytest.approx(0.97, abs=0.02))
    assert second == ("deliver at one time", pytest.approx(0.93, abs=0.02))


def test_the_scheduler_starts_300_000_topics_in_a_slot() -> None:
    share = dict(shares(regime(1_000_000, 300_000)))["dispatches of a slot"]
    assert share == pytest.approx(1.0, abs=0.01)


def test_a_new_table_takes_what_the_environment_says_that_every_new_table_takes() -> None:
    assert LIMITS["a new table's writes"] == MIN_WARM_WRITE_UNITS
    assert LIMITS["a new table's reads"] == MIN_WARM_READ_UNITS


def test_an_account_with_ten_calls_at_one_time_carries_a_thousand_messages_a_second() -> None:
    assert [math.ceil(loads(regime(1_000, topics))["functions at one time"]) for topics in (1, 10, 9_000)] == [1, 1, 10]


def test_ten_thousand_messages_a_second_over_ten_thousand_topics_need_no_other_quota() -> None:
    [(name, share)] = [each for each in shares(regime(10_000, 10_000)) if each[1] > 1]
    assert (name, share) == ("a sweep that heals all topics", pytest.approx(2.0, abs=0.01))


@pytest.mark.parametrize(
    ("rate", "batch", "delay_s", "commits"),
    [
        (500, 1, 1_200, 50),  # ten packs a commit
        (50_000, 100, 1_200, 50),
        (500, 1, 3_600, 0.053),  # the bulk queue: whoever sends one by one meets other limits first
        (33_000, 1, 3_600, 3.3),
    ],
)
def test_what_a_topic_takes_in_messages_is_fifty_commits_of_ten_packs_when_due_soon_and_much_more_when_due_later(
    rate: int, batch: int, delay_s: int, commits: float
) -> None:
    stream = Workload(per_day=rate * DAY_S, batch=batch, delay_mean_s=delay_s, spread=Spread.SAME)
    assert LIMITS["commits to one topic state"] == 50
    assert loads(stream)["commits to one topic state"] == pytest.approx(commits, rel=0.05)


def test_ninety_cancels_in_a_transaction_are_limited_by_their_partition_at_500_a_second() -> None:
    a_tombstone = (
        ALL_FLOWS["cancel by id"].units({"call": 1})["dynamodb.write"] / 2
    )  # beside the check of the topic state
    assert LIMITS["writes of one topic's partition"] / a_tombstone == 500 < 50 * MAX_CANCELS
