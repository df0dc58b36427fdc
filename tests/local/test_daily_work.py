"""The local runtimes do the sweep's daily work in virtual time, and skip days without work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidewheel.local import LocalTidewheel, MemoryTidewheel

DAY_S = 86_400
TOPIC = "orders"


@pytest.fixture(params=[MemoryTidewheel, pytest.param(LocalTidewheel, marks=pytest.mark.long)])
def stack(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param() as stack:
        stack.client().create_topic(TOPIC)
        stack.client().create_subscription(TOPIC, "billing")
        yield stack


def test_ten_idle_years_have_a_few_sweeps(stack: Any) -> None:
    stack.client().send(TOPIC, "far off", delay=3600 * DAY_S)
    stack.advance(days=3650)
    assert stack.invocations["sweep"] <= 20
    assert stack.client().health() == [], "no sweep is late"


def test_a_stack_that_changes_every_day_has_daily_work_every_day(stack: Any) -> None:
    stack.client().send_recurring(TOPIC, "tick", "x", every="24h")
    stack.advance(days=2)
    before = stack.invocations["sweep"]
    stack.advance(days=10)
    assert stack.invocations["sweep"] - before >= 9
