"""A month's bills of the peers, from counted requests and list prices."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.peers.account import Run
from benchmarks.peers.costs import ENVIRONMENT, Counted, Line, counted, counted_cost, per_day, tidewheel_cost, workload
from benchmarks.peers.peer import Peer
from benchmarks.peers.stream import Outcome
from tidewheel.cost.bill import ENVIRONMENTS, bill
from tidewheel.errors import InvalidValue

SCHEDULES = Counted(
    requests=Line(a_message={"scheduler.CreateSchedule": 1.0}, an_hour={}),
    units=Line(a_message={"scheduler.invocation": 1.0, "sqs.request": 1.0}, an_hour={}),
    stored_a_message_bytes=None,
)


def run(sent: int, requests: Mapping[str, float], *, lost: int = 0, hours: float = 1.0) -> Run:
    arrived = Outcome(
        sent=sent, delivered=sent - lost, lost=lost, early=0, duplicates=0, lateness_ms=tuple([500] * (sent - lost))
    )
    return Run(outcome=arrived, requests=requests, units=requests, hours=hours, stored_bytes=sent * 400)


def test_requests_are_divided_into_those_of_each_message_and_those_of_each_hour() -> None:
    found = counted(
        run(0, {"Query": 1800}, hours=0.5),
        run(100, {"Query": 300, "PutItem": 100, "Send": 30}),
        run(300, {"Query": 300, "PutItem": 300, "Send": 50}),
    )

    assert found.requests.a_message == {"PutItem": 1.0, "Send": 0.1}
    assert found.requests.an_hour == {"Query": 3600.0}
    assert found.requests.at(1000, 24) == {"PutItem": 1000.0, "Send": 100.0, "Query": 86_400.0}
    assert found.stored_a_message_bytes == 400.0


def test_a_run_that_lost_a_message_is_not_counted() -> None:
    with pytest.raises(InvalidValue, match="arrive once and not early"):
        counted(run(0, {}), run(10, {"a": 10}), run(20, {"a": 19}, lost=1))


def test_a_million_schedules_cost_a_dollar_and_forty_cents() -> None:
    rate = 1_000_000 / 30
    cost = counted_cost(Peer.SCHEDULES, SCHEDULES, rate)

    assert cost.a_month == pytest.approx(1.40)
    assert cost.standing == 0.0


def test_tidewheels_bill_is_that_of_the_calculator_and_less_without_telemetry() -> None:
    rate = per_day(1_000_000)
    all_told, bare = tidewheel_cost(rate), tidewheel_cost(rate, telemetry=False)

    assert 0 < bare.messages < all_told.messages
    assert 0 < bare.standing < all_told.standing
    assert tidewheel_cost(rate, batch=1).a_month > all_told.a_month
    assert tidewheel_cost(0.0).a_month == pytest.approx(bill(workload(0.0), ENVIRONMENTS[ENVIRONMENT]).total)
