import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks import results
from benchmarks.peers.account import Run
from benchmarks.peers.asked import asked_a_month
from benchmarks.peers.costs import (
    Keeping,
    Runs,
    between,
    cost_of,
    counted_cost,
    per_day,
    redis_cost,
    schedules_with_free_tier,
    tidewheel_cost,
)
from benchmarks.peers.counted import Counted, Line, counted
from benchmarks.peers.crossings import first_true
from benchmarks.peers.peer import NAMES, SETTINGS, Peer
from benchmarks.peers.plots import WAITING, save_plots
from benchmarks.peers.prices import DURABLE_NODES, HOURS_A_MONTH, NODES, TASK_DOLLARS_AN_HOUR, node_for
from benchmarks.peers.section import markdown
from benchmarks.peers.stream import Outcome
from tidewheel.cost.bill import bill, total
from tidewheel.cost.deployed import ENVIRONMENTS
from tidewheel.cost.prices import DOLLARS_PER_GB_SECOND
from tidewheel.errors import InvalidValue

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
    cost = counted_cost(SCHEDULES, rate, Runs.NOTHING)

    assert cost.a_month == pytest.approx(1.40)
    assert cost.a_million(rate) == pytest.approx(1.40)
    assert (cost.standing, cost.runs) == (0.0, None)


def test_the_free_tier_of_schedules_ends_at_14_million() -> None:
    assert schedules_with_free_tier(14e6 / 30) == pytest.approx(14 * 0.40)
    assert schedules_with_free_tier(15e6 / 30) == pytest.approx(15 * 0.40 + 1.00)


def test_a_poller_costs_its_polls_its_task_and_what_is_stored() -> None:
    cost = counted_cost(POLLED, per_day(1_000_000), Runs.POLLER)

    sent = 1_000_000 / 7 * 30
    assert cost.messages == pytest.approx(sent * 3 * 0.625 / 1e6 + 1_000_000 * 500 / 1e9 * 0.25)
    assert cost.standing == pytest.approx(1800 * 720 * 0.125 / 1e6 + TASK_DOLLARS_AN_HOUR * 720)
    assert cost.runs == "the poller"


def test_idle_pollers_cost_and_idle_schedules_do_not() -> None:
    assert counted_cost(POLLED, 0.0, Runs.POLLER).a_month > 7
    assert counted_cost(SCHEDULES, 0.0, Runs.NOTHING).a_month == 0


def test_a_function_costs_its_calls_and_its_time_and_no_task() -> None:
    called = Counted(
        requests=Line(a_message={}, an_hour={}),
        units=Line(a_message={}, an_hour={"lambda.invocation": 60.0, "scheduler.invocation": 60.0}),
        stored_a_message_bytes=None,
    )
    cost = counted_cost(called, 1_000_000 / 30, Runs.FUNCTION)

    calls = 60 * 720
    assert cost.standing == pytest.approx(calls * (1.20 / 1e6 + 0.1 * DOLLARS_PER_GB_SECOND))
    assert cost.messages == pytest.approx(1_000_000 * 0.002 * DOLLARS_PER_GB_SECOND)
    assert cost.runs == "a function"


def test_a_node_is_the_smallest_that_keeps_a_quarter_of_its_memory_free() -> None:
    for nodes in (NODES, DURABLE_NODES):
        assert [node.memory_bytes for node in nodes] == sorted(node.memory_bytes for node in nodes)
        assert [node.dollars_an_hour for node in nodes] == sorted(node.dollars_an_hour for node in nodes)
    full = NODES[0].memory_bytes * 0.75

    assert node_for(full) is NODES[0]
    assert node_for(full + 1) is NODES[1]
    assert node_for(1, DURABLE_NODES) is DURABLE_NODES[0]
    with pytest.raises(InvalidValue, match="divide it among several"):
        node_for(1e12)


def test_redis_costs_its_nodes_and_the_poller_whatever_is_sent() -> None:
    def used_bytes(waiting: float) -> float:
        return 543 * waiting

    one, replica, durable = (redis_cost(used_bytes, per_day(1_000_000), keeping) for keeping in Keeping)

    assert one.runs == "the poller, cache.t4g.small"
    assert one.a_month == pytest.approx((0.0256 + TASK_DOLLARS_AN_HOUR) * HOURS_A_MONTH)
    assert replica.a_month - one.a_month == pytest.approx(0.0256 * HOURS_A_MONTH)
    assert durable.runs == "the poller, 2 cache.m6g.large"
    alone = redis_cost(used_bytes, per_day(1_000_000), task=False)
    assert (alone.runs, alone.a_month) == ("cache.t4g.small", pytest.approx(0.0256 * HOURS_A_MONTH))
    assert redis_cost(used_bytes, 0.0).a_month < one.a_month
    assert redis_cost(used_bytes, per_day(100_000_000)).runs == "the poller, cache.r7g.4xlarge"


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
    assert tidewheel_cost(0.0).a_month == pytest.approx(total(_idle_bill().standing))


def _idle_bill() -> Any:
    from benchmarks.peers.costs import ENVIRONMENT, workload

    return bill(workload(0.0), ENVIRONMENTS[ENVIRONMENT])


def test_requests_a_month_grow_with_messages_from_what_is_asked_anyhow() -> None:
    counts = {Peer.DYNEIN: POLLED}

    assert asked_a_month(Peer.DYNEIN, 0, counts) == {"dynamodb.PutItem": 0.0, "dynamodb.Query": 3600.0 * 720}
    assert asked_a_month(Peer.DYNEIN, 7000, counts)["dynamodb.PutItem"] == pytest.approx(30_000)
    idle, busy = (asked_a_month(Peer.TIDEWHEEL, waiting, counts) for waiting in (0, 1_000_000))
    # Lambda's five pollers ask each of three queues every 20 s, and each of 8,640 sweeps takes no message.
    assert idle["sqs.ReceiveMessage"] == pytest.approx(3 * 5 * 3 * 60 * 720)
    assert "sqs.SendMessageBatch" not in idle
    # Ten messages a request, and the packs that bring them.
    sent = per_day(1_000_000) * 30
    assert sent / 10 < busy["sqs.SendMessageBatch"] < sent / 5


def test_the_rate_from_which_something_holds_is_found_within_a_thousandth() -> None:
    assert first_true(lambda rate: rate >= 1234.5, 10, 1e7) == pytest.approx(1234.5, rel=2e-3)
    assert first_true(lambda _: True, 10, 1e7) == 10
    assert first_true(lambda _: False, 10, 1e7) is None


def test_every_peer_has_a_name_settings_and_a_bill() -> None:
    counts = dict.fromkeys(Peer, POLLED)

    for peer in Peer:
        assert NAMES[peer]
        assert SETTINGS[peer].endswith(".")
        cost = cost_of(peer, 1000.0, counts, lambda _: 1000.0)
        assert cost is not None
        assert cost.a_month > 0
    assert cost_of(Peer.REDIS, 1000.0, counts, None) is None


def made_up(*, redis: bool) -> dict[str, Any]:
    """Figures as they are measured, with numbers that nobody measured."""
    cost = {"messages": 1.0, "standing": 2.0, "a_month": 3.0, "a_million": 4.0, "runs": None}
    late = {"clock": "virtual", "messages": 9, "p50_ms": 500, "p99_ms": 990, "max_ms": 1000}
    peers = [peer.value for peer in Peer if redis or peer is not Peer.REDIS]
    sizes = ("1000", "100000")
    stored = {size: {"s3_bytes": 115 * int(size), "dynamodb_bytes": int(size)} for size in sizes}
    held: dict[str, Any] = {
        "tidewheel": stored,
        "dynein": {"dynamodb_bytes": {size: 460 * int(size) for size in sizes}},
    }
    if redis:
        held["redis"] = {"memory_bytes": {size: 543 * int(size) for size in sizes}}
    lines = {"a_message": {"dynamodb.PutItem": 1.0}, "an_hour": {"dynamodb.Query": 3600.0}}
    return {
        "stream": {
            "few": 3,
            "more": 9,
            "span_s": 300,
            "lead_s": 1200,
            "real": 9,
            "real_s": 20,
            "mean_body_bytes": 314.2,
        },
        "delivered": {peer: {"sent": 9, "delivered": 9, "lost": 0, "early": 0, "duplicates": 0} for peer in peers},
        "requests": {peer: lines for peer in peers if peer != "tidewheel"},
        "asked_a_month": {size: {peer: {"a": 1.0} for peer in peers} for size in ("0", *sizes)},
        "tidewheel_requests": {"messages": 9, "s3.PutObject": 2},
        "precision": dict.fromkeys(("tidewheel", "tidewheel_real", "dynein", "ahead"), late)
        | {"schedules": {"clock": "documented", "max_ms": 60_000}}
        | ({"redis_fast": {**late, "p50_ms": 4}} if redis else {}),
        "waiting": held,
        "kept_after_kill": {"sent": 9, "append_only_file": 9, "snapshots": 0} if redis else None,
        "costs": {size: dict.fromkeys(peers, cost) for size in sizes},
        "idle": dict.fromkeys(peers, cost),
        "cheaper_from": {"schedules": 96_543.0, "schedules_after_free_tier": 461_234.0, "dynein": None, "ahead": 10.0},
        "series": [{"per_day": rate, **dict.fromkeys(peers, rate / 100)} for rate in (10, 1000)],
        "prices_of": "2026-11-21",
        "redis": "6.2" if redis else None,
    }


def saved(folder: Path, figures: Mapping[str, Any]) -> results.Result:
    results.save("peers", figures, command="make peers", directory=folder)
    return results.load("peers", folder)


def test_the_section_has_every_peer_and_says_where_another_is_better(tmp_path: Path) -> None:
    text = markdown(saved(tmp_path, made_up(redis=True)))

    assert "each once, none early" in text
    assert all(name in text for name in NAMES.values())
    assert "costs less below 97,000 messages a day, with its free tier below 460,000" in text
    assert "within 4 ms of their time" in text
    assert "54 MB (543 B each)" in text


def test_the_section_says_on_which_nodes_what_waits_is_kept(tmp_path: Path) -> None:
    figures = made_up(redis=True)
    small = dict(figures["idle"]["redis"], runs="the poller, micro")
    figures["idle"]["redis"] = figures["costs"]["1000"]["redis"] = small
    figures["costs"]["100000"]["redis"] = dict(small, runs="the poller, small")

    text = markdown(saved(tmp_path, figures))

    assert "| the poller, micro; with 100,000 waiting the poller, small |" in text
    assert "1,000 B with 1,000, 50,000 B with 50,000" in text


@pytest.mark.parametrize(("load", "said"), [(0.03, ". Every peer gets"), (1.54, "others wanted 1.5 cores just before")])
def test_the_section_says_if_the_machine_was_busy(tmp_path: Path, load: float, said: str) -> None:
    results.save("peers", made_up(redis=True), command="make peers", directory=tmp_path, load_at_start=load)

    assert said in markdown(results.load("peers", tmp_path))


def test_the_section_says_that_redis_was_left_out_and_shows_no_figure_of_it(tmp_path: Path) -> None:
    text = markdown(saved(tmp_path, made_up(redis=False)))

    assert "There was no redis-server: Redis is left out." in text
    assert "Redis, `used_memory`" not in text
    assert NAMES[Peer.REDIS] not in text


def test_the_section_does_not_hide_a_lost_message(tmp_path: Path) -> None:
    figures = made_up(redis=True)
    figures["delivered"]["dynein"]["delivered"] = 8

    assert "NOT ALL ONCE AND IN TIME" in markdown(saved(tmp_path, figures))


def test_the_same_result_gives_the_same_plots(tmp_path: Path) -> None:
    result = saved(tmp_path, made_up(redis=True))

    drawn = save_plots(result, tmp_path / "one")
    [again] = save_plots(result, tmp_path / "two", names=(WAITING,))

    assert again.read_bytes() == (tmp_path / "one" / WAITING).read_bytes()
    for path in drawn:
        assert "Tidewheel" in path.read_text()
        assert json.dumps(str(tmp_path)) not in path.read_text()
