"""A month's bills of the peers, from counted requests and list prices."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.peers.account import Run
from benchmarks.peers.costs import (
    ENVIRONMENT,
    HOURS_A_MONTH,
    NODES,
    TASK_DOLLARS_AN_HOUR,
    Counted,
    Line,
    between,
    cheaper_below,
    counted,
    counted_cost,
    node_for,
    per_day,
    redis_cost,
    schedules_with_free_tier,
    tidewheel_cost,
    workload,
)
from benchmarks.peers.peer import Peer
from benchmarks.peers.stream import Outcome
from tidewheel.cost.bill import bill
from tidewheel.cost.deployed import ENVIRONMENTS
from tidewheel.errors import InvalidValue
from tidewheel.model.prices import DOLLARS_PER_GB_SECOND

SCHEDULES = Counted(
    requests=Line(a_message={"scheduler.CreateSchedule": 1.0}, an_hour={}),
    units=Line(a_message={"scheduler.invocation": 1.0, "sqs.request": 1.0}, an_hour={}),
    stored_a_message_bytes=None,
)
POLLED = Counted(
    requests=Line(a_message={"dynamodb.PutItem": 1.0}, an_hour={"dynamodb.Query": 3600.0}),
    units=Line(a_message={"dynamodb.write": 3.0}, an_hour={"dynamodb.read": 1800.0}),
    stored_a_message_bytes=500.0,
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


def test_two_runs_of_the_same_size_say_nothing_of_a_message() -> None:
    with pytest.raises(InvalidValue, match="more than 10 messages"):
        counted(run(0, {}), run(10, {"a": 10}), run(10, {"a": 10}))


def test_a_million_schedules_cost_a_dollar_and_forty_cents() -> None:
    rate = 1_000_000 / 30
    cost = counted_cost(Peer.SCHEDULES, SCHEDULES, rate)

    assert cost.a_month == pytest.approx(1.40)
    assert cost.standing == 0.0


def test_the_free_tier_of_schedules_ends_at_14_million() -> None:
    assert schedules_with_free_tier(14e6 / 30) == pytest.approx(14 * 0.40)
    assert schedules_with_free_tier(15e6 / 30) == pytest.approx(15 * 0.40 + 1.00)


def test_a_poller_costs_its_polls_its_task_and_what_is_stored() -> None:
    cost = counted_cost(Peer.DYNEIN, POLLED, per_day(1_000_000))

    sent = 1_000_000 / 7 * 30
    assert cost.messages == pytest.approx(sent * 3 * 0.625 / 1e6 + 1_000_000 * 500 / 1e9 * 0.25)
    assert cost.standing == pytest.approx(1800 * 720 * 0.125 / 1e6 + TASK_DOLLARS_AN_HOUR * 720)


def test_idle_pollers_cost_and_idle_schedules_do_not() -> None:
    assert counted_cost(Peer.DYNEIN, POLLED, 0.0).a_month > 7
    assert counted_cost(Peer.SCHEDULES, SCHEDULES, 0.0).a_month == 0


def test_a_function_costs_its_calls_and_its_time_and_no_task() -> None:
    called = Counted(
        requests=Line(a_message={}, an_hour={}),
        units=Line(a_message={}, an_hour={"lambda.invocation": 60.0, "scheduler.invocation": 60.0}),
        stored_a_message_bytes=None,
    )
    cost = counted_cost(Peer.AHEAD, called, 1_000_000 / 30)

    calls = 60 * 720
    assert cost.standing == pytest.approx(calls * (1.20 / 1e6 + 0.1 * DOLLARS_PER_GB_SECOND))
    assert cost.messages == pytest.approx(1_000_000 * 0.002 * DOLLARS_PER_GB_SECOND)


def test_a_node_is_the_smallest_that_keeps_a_quarter_of_its_memory_free() -> None:
    assert list(NODES.values()) == sorted(NODES.values())
    full = NODES["cache.t4g.micro"][0] * 0.75

    assert node_for(full)[0] == "cache.t4g.micro"
    assert node_for(full + 1)[0] == "cache.t4g.small"
    with pytest.raises(InvalidValue, match="several nodes"):
        node_for(1e12)


def test_redis_costs_its_nodes_and_the_poller_whatever_is_sent() -> None:
    def used_bytes(waiting: float) -> float:
        return 543 * waiting

    one, replica = (redis_cost(used_bytes, per_day(1_000_000), nodes=nodes) for nodes in (1, 2))

    assert one.a_month == pytest.approx((0.0256 + TASK_DOLLARS_AN_HOUR) * HOURS_A_MONTH)
    assert replica.a_month - one.a_month == pytest.approx(0.0256 * HOURS_A_MONTH)
    assert redis_cost(used_bytes, 0.0).a_month < one.a_month


def test_memory_between_and_beyond_what_was_measured_lies_on_straight_lines() -> None:
    used_bytes = between({1000: 500, 3000: 900, 5000: 2900})

    assert [used_bytes(waiting) for waiting in (1000, 2000, 4000, 5000, 6000)] == [500, 700, 1900, 2900, 3900]
    assert used_bytes(0) == 300


def test_tidewheels_bill_is_that_of_the_calculator_and_less_without_telemetry() -> None:
    rate = per_day(1_000_000)
    all_told, bare = tidewheel_cost(rate), tidewheel_cost(rate, telemetry=False)

    assert 0 < bare.messages < all_told.messages
    assert 0 < bare.standing < all_told.standing
    assert tidewheel_cost(rate, batch=1).a_month > all_told.a_month
    assert tidewheel_cost(0.0).a_month == pytest.approx(bill(workload(0.0), ENVIRONMENTS[ENVIRONMENT]).total)


def test_the_rate_below_which_another_way_is_cheaper_is_found_within_a_thousandth() -> None:
    def schedules(rate: float) -> float:
        return counted_cost(Peer.SCHEDULES, SCHEDULES, rate).a_month

    rate = cheaper_below(schedules)

    assert rate is not None
    assert schedules(rate * 0.998) < tidewheel_cost(rate * 0.998).a_month < tidewheel_cost(rate).a_month
    assert schedules(rate * 1.002) > tidewheel_cost(rate * 1.002).a_month
    assert cheaper_below(lambda _: 1e9) == 10.0
    assert cheaper_below(lambda _: 0.0) is None
