"""Seeds in which each call of AWS takes time, and functions end at their time-outs."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.exercised import REPEATS, missing
from tests.simulation.runs import sound_runs

STEPS = 2000
FAULTY = (*range(12), 16)


@pytest.fixture(scope="module")
def faulty() -> Counter[str]:
    """The counted events of the seeds with faults, without a broken promise."""
    return sound_runs(FAULTY, "timed_faults", STEPS)


def test_where_nothing_goes_wrong_each_message_comes_once_and_in_time() -> None:
    found = sound_runs(range(6), "timed", STEPS)
    assert found["client: messages"] > 100
    assert found["function died"] == 0 and found["fault: timed out"] == 0


def test_whatever_is_slow_hangs_or_fails_every_promise_is_kept(faulty: Counter[str]) -> None:
    assert faulty["client: messages"] > 10 * len(FAULTY)


def test_calls_of_all_services_hang_and_functions_end_in_the_middle_of_a_call(faulty: Counter[str]) -> None:
    hangs = [f"latency: {what} hangs" for what in ("dynamodb.get_item", "dynamodb.transact_write_items", "s3.put")]
    hangs += [f"latency: {what} hangs" for what in ("sqs.send_message_batch", "wheel.schedule", "dynamodb.query")]
    throttled = [f"latency: {what} throttled" for what in ("dynamodb.get_item", "sqs.send_message_batch", "s3.put")]
    ended = ["latency: out of time", "latency: a machine stands still", "fault: timed out", *REPEATS]
    assert missing(faulty, [*hangs, *throttled, *ended]) == []


def test_a_fault_that_lasts_and_takes_time_stays_with_what_has_it() -> None:
    found = sound_runs(range(8), "timed_half_well", STEPS)
    assert found["client: messages"] > 80 and found["fault: lasts"] > 0
