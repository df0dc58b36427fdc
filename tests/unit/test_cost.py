"""Tests the output of `tidewheel cost`, and compares its data with the code."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from tidewheel.cli.cost import notes
from tidewheel.cli.main import app
from tidewheel.client.sender import URGENT_MS
from tidewheel.cost.bill import ENVIRONMENTS, HISTORY, KEYS, LOGS, POLLS, STORAGE, Bill, bill
from tidewheel.cost.figures import ASSUMED, FLOWS, gb_seconds
from tidewheel.cost.rivals import rivals
from tidewheel.cost.stream import ENDS_SOON_S, FORWARD_S, URGENT_S
from tidewheel.cost.workload import Spread, Workload
from tidewheel.errors import InvalidValue
from tidewheel.flows.delivery.adopt import FORWARD_MS
from tidewheel.flows.maintenance.merge_planning import _ENDS_SOON_MS
from tidewheel.model import prices


def _million(**changes: Any) -> Bill:
    return bill(Workload(per_day=1_000_000, **changes), ENVIRONMENTS["development"])


def test_the_arithmetic_has_the_codes_own_constants() -> None:
    assert URGENT_S * 1000 == URGENT_MS
    assert FORWARD_S * 1000 == FORWARD_MS
    assert ENDS_SOON_S * 1000 == _ENDS_SOON_MS


def test_every_unit_of_every_flow_has_a_price_and_every_request_a_latency() -> None:
    for flow in FLOWS.values():
        for asked in flow.asked.values():
            for unit in asked.units:
                assert prices.dollars(unit, 1) > 0
            if flow.function is not None:
                assert gb_seconds(flow.function, 1, 0, asked.requests) > 0


@pytest.mark.parametrize("subscriptions", [1, 3])
def test_a_million_keys_cost_a_write_a_claim_for_each_subscription_and_28_days_in_the_table(subscriptions: int) -> None:
    plain, claimed = (_million(subscriptions=subscriptions, keyed=each) for each in (0, 1))
    assert KEYS not in plain.messages
    assert claimed.a_million(claimed.messages[KEYS]) == pytest.approx(0.625 * (1 + subscriptions))
    stored = claimed.messages[STORAGE] - plain.messages[STORAGE]
    assert claimed.a_million(stored) == pytest.approx(0.168)
    assert claimed.total - plain.total == pytest.approx(claimed.messages[KEYS] + stored)
    assert KEYS not in bill(Workload(per_day=0, keyed=1), ENVIRONMENTS["development"]).messages


def test_the_command_shows_what_keys_cost_when_asked() -> None:
    def rows(*options: str) -> str:
        return CliRunner().invoke(app, ["cost", "--per-day", "1000000", *options]).stdout

    assert "\nkeys" not in rows()
    [row] = [line for line in rows("--keyed", "1").splitlines() if line.startswith("keys")]
    assert row.split() == ["keys", "$37.5000", "-"]


def test_history_costs_a_write_a_delivery_and_a_week_of_ledgers_and_records() -> None:
    found = _million(spread=Spread.SAME)
    deliveries = 30 * 288
    ledgers = 7e6 * (ASSUMED["stored_fixed_bytes"] + ASSUMED["stored_share"] * 500) * 0.023e-9
    records = 288 * 8 * 350 * 0.45e-9
    merged = 1 + ASSUMED["rewrites"]
    assert found.messages[HISTORY] == pytest.approx(deliveries * 0.625e-6 + ledgers * merged + records, rel=0.01)
    assert HISTORY not in _million(delay_mean_s=1).messages


def test_an_idle_development_stack_costs_fifteen_cents_beside_its_pollers() -> None:
    idle = bill(Workload(per_day=0), ENVIRONMENTS["development"])
    assert idle.messages == {} and idle.consumers == 0
    assert idle.total - idle.standing[POLLS] <= 0.15
    assert idle.standing[POLLS] == pytest.approx(0.31104)


def test_free_tiers_pay_each_service_up_to_its_limit_for_us_and_for_others() -> None:
    idle = bill(Workload(per_day=0), ENVIRONMENTS["production"])
    assert idle.free == pytest.approx(idle.standing[LOGS] + idle.standing["Lambda"] + 0.40 + 1.00)
    large = bill(Workload(per_day=1e9), ENVIRONMENTS["production"])
    assert large.free == pytest.approx(0.40 + 0.20 + 400_000 * prices.DOLLARS_PER_GB_SECOND + 2.50 + 1.00, abs=0.01)
    scheduler, steps, table = rivals(large.workload)
    assert (scheduler.free, steps.free) == pytest.approx((14.40, 0.50))
    assert table.free == pytest.approx(0.40 + 400_000 * prices.DOLLARS_PER_GB_SECOND)


def test_a_total_is_the_sum_of_its_parts() -> None:
    found = _million()
    others = sum(found.messages[part] for part in (STORAGE, HISTORY, LOGS))
    parts = found.requests + others + sum(found.standing.values())
    assert found.total == pytest.approx(parts)


@pytest.mark.parametrize("delay_s", [1200, 7 * 86_400])
@pytest.mark.parametrize(
    ("a_second", "batch", "dollars"),
    [(1, 1, 3.85), (10, 1, 3.46), (1000, 1, 0.72), (1, 10, 0.8), (10, 10, 0.43), (1000, 10, 0.23)],
)
def test_plain_messages_cost_what_the_table_says(delay_s: int, a_second: float, batch: int, dollars: float) -> None:
    workload = Workload(per_day=a_second * 86_400, delay_mean_s=delay_s, spread=Spread.SAME, batch=batch, plain=True)
    found = bill(workload, ENVIRONMENTS["development"])
    assert found.a_million(found.total) == pytest.approx(dollars, abs=0.06)


@pytest.mark.parametrize(("a_second", "batch"), [(141, 1), (0.39, 10)])
def test_a_schedule_a_message_is_cheaper_than_plain_messages_below_a_rate(a_second: float, batch: int) -> None:
    for share, cheaper in ((0.97, False), (1.03, True)):
        workload = Workload(per_day=a_second * share * 86_400, spread=Spread.SAME, batch=batch, plain=True)
        found = bill(workload, ENVIRONMENTS["development"])
        assert ((found.a_million(found.total) or 0) < 1.40) is cheaper


def test_glue_is_needed_only_where_more_waits_than_the_function_merges() -> None:
    def glue(days: int) -> float:
        return _million(delay_mean_s=days * 86_400).messages.get("Glue", 0.0)

    assert glue(10) == 0 < glue(14)
    [told] = notes(_million(delay_mean_s=14 * 86_400))
    assert "With ten workers for eight minutes, all is $" in told


@pytest.mark.parametrize("spread", Spread)
@pytest.mark.parametrize("mean_s", [1, 300, 3600, 86_400, 300_000_000])
@pytest.mark.parametrize("per_day", [1, 1e4, 1e10])
def test_every_workload_has_a_bill_of_sane_lines(spread: Spread, mean_s: float, per_day: float) -> None:
    for topics in (1, 10_000):
        workload = Workload(per_day=per_day, delay_mean_s=mean_s, spread=spread, topics=topics)
        found = bill(workload, ENVIRONMENTS["production"])
        assert all(dollars > 0 for dollars in (*found.messages.values(), *found.standing.values()))


def test_others_cost_what_their_formulas_say() -> None:
    workload = Workload(per_day=1_000_000, subscriptions=2)
    scheduler, steps, table = rivals(workload)
    assert scheduler.dollars == pytest.approx(60 * 1.40)
    assert steps.dollars == pytest.approx(60 * 50.40)
    assert 60 * 2 < table.dollars < 60 * 3


@pytest.mark.parametrize(
    ("field", "value"),
    [("per_day", -1), ("per_day", float("nan")), ("delay_mean_s", 0), ("size_bytes", 2_000_000), ("batch", 0)],
)
def test_a_value_out_of_range_is_named_with_what_to_give(field: str, value: float) -> None:
    with pytest.raises(InvalidValue, match=field):
        Workload(**{"per_day": 1, field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--delay-mean", "7y"], "--delay-mean='7y'"),
        (["--spread", "odd"], "even, exponential, same"),
        (["--environment", "test"], "development, production"),
    ],
)
def test_odd_input_of_the_command_is_answered_in_one_line(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["cost", "--per-day", "5", *arguments])
    assert result.exit_code == 1
    assert told in result.stderr and result.stderr.count("\n") == 1
