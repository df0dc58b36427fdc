"""Compares the calculator's estimate with the counted requests of a running stream."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.conftest import TOPIC, orders
from tests.local.asked import send_plain
from tidewheel.cost.figures import added
from tidewheel.cost.stream import Stream
from tidewheel.cost.workload import Workload
from tidewheel.model import prices
from tidewheel.model.message import Message

HOUR_S = 3600


@pytest.mark.parametrize(
    ("batch", "every_s", "subscriptions", "plain"),
    [
        pytest.param(10, 120, 2, False, marks=pytest.mark.long),
        (3, 600, 1, False),
        (1, 200, 1, True),
        pytest.param(3, 180, 2, True, marks=pytest.mark.long),
    ],
)
def test_the_calculator_is_within_fifteen_percent_of_a_stream_that_was_counted(
    batch: int, every_s: int, subscriptions: int, plain: bool
) -> None:
    """The local runtime has one poller per queue, and skips sweeps without work."""
    mean_s, counted_hours = 1.5 * HOUR_S, 3 if every_s < 600 else 8
    choose, names = random.Random(3), [f"reader{i}" for i in range(subscriptions)]
    with orders(*names) as service:

        def run(hours: float) -> None:
            for step in range(round(hours * HOUR_S / every_s)):
                delays = [round(choose.uniform(0, 2 * mean_s), 3) for _ in range(batch)]
                some = [Message(body=f"{choose.random():0216}", delay=d) for d in delays]
                if plain:
                    send_plain(service, some)
                else:
                    service.client.send_many(TOPIC, some)
                service.stack.advance(seconds=every_s)
                if step % 20 == 0:
                    for name in names:
                        service.stack.receive(TOPIC, name)

        service.stack.advance(days=1)
        run(3.2)
        before, sweeps = Counter(service.stack.requests.units), service.stack.invocations["sweep"]
        run(counted_hours)
        assert service.stack.failures == []
        counted = Counter(service.stack.requests.units) - before
        sweeps = service.stack.invocations["sweep"] - sweeps
    workload = Workload(
        per_day=batch * 86_400 / every_s,
        delay_mean_s=mean_s,
        size_bytes=216,
        subscriptions=subscriptions,
        batch=batch,
        plain=plain,
    )
    stream = Stream(workload, batching_pollers=1, receives_a_second=1000, plain_receives_a_second=1000)
    expected = added((run.units(), 1) for run in stream.runs())
    days = counted_hours / 24
    a_sweep = {"lambda.invocation": 1, "dynamodb.read": 16}
    by_calculator = sum(prices.dollars(unit, count * days) for unit, count in expected.items())
    by_calculator += sum(prices.dollars(unit, count * sweeps) for unit, count in a_sweep.items())
    by_count = sum(prices.dollars(unit, count) for unit, count in counted.items())
    assert by_calculator == pytest.approx(by_count, rel=0.15), {
        unit: (counted[unit], round(count * days)) for unit, count in sorted(expected.items())
    }
