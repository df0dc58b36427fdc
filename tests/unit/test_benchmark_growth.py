"""The growth benchmark leaves single work and other functions' work out of a flow's count."""

from __future__ import annotations

import pytest

from benchmarks.bench_function_time import OwnTime
from benchmarks.bench_growth import Case
from tidewheel.local import LocalTidewheel

SUBSCRIPTIONS = 33
"""More changes of a topic than half of `max_buckets`: the next ingest asks the sweep for a look at its merges."""


def test_an_ingest_of_a_topic_that_just_got_many_subscriptions_is_counted_without_the_sweep_that_it_asks_for() -> None:
    with LocalTidewheel() as stack, OwnTime(stack) as own:
        case = Case(stack, own, SUBSCRIPTIONS)
        case.settle()
        case.send(2, count=10)
        case.count("ingest", lambda: stack.advance(minutes=5))
        case.count("daily_sweep", case.sweep)
        case.count("sweep", case.sweep)

    assert case.found["ingest"]["requests"] == 7
    assert case.found["daily_sweep"]["requests"] > case.found["sweep"]["requests"]


def test_a_sweep_that_comes_in_between_is_not_counted_silently() -> None:
    with LocalTidewheel() as stack, OwnTime(stack) as own:
        case = Case(stack, own)
        with pytest.raises(AssertionError, match="a sweep is counted as ingest"):
            case.count("ingest", lambda: stack.advance(days=1))
