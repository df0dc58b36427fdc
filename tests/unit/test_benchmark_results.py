"""Results of benchmarks: what a file says, and the rounds and figures that are in it."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path

import pytest

from benchmarks.figures import Figure, shown
from benchmarks.results import busy_s, is_busy, load, load_now, machine, names, save
from benchmarks.rounds import Rounds, interleaved, spread_figures
from tidewheel.errors import InvalidValue


def test_a_result_says_what_was_measured_on_what_and_how_to_repeat_it(tmp_path: Path) -> None:
    path = save("plan", {"plan_ms": 1.5}, command="python -m benchmarks plan", directory=tmp_path)
    assert path == tmp_path / "plan.json" and names(tmp_path) == ["plan"]
    found = load("plan", tmp_path)
    assert (found.name, found.figures, found.command) == ("plan", {"plan_ms": 1.5}, "python -m benchmarks plan")
    assert {"cpu", "cores", "memory_gib", "os", "python", "pyarrow", "boto3", "moto"} <= set(found.machine)
    assert len(found.date) == len("2026-01-31")


def test_a_result_names_no_host_and_no_path() -> None:
    text = json.dumps(machine())
    assert str(Path.home()) not in text and str(Path.cwd()) not in text
    assert "hostname" not in text and "node" not in text


@pytest.mark.parametrize("figures", [{"ratio": float("nan")}, {"ratio": float("inf")}, {"path": Path("x")}])
def test_a_figure_that_json_cannot_say_is_refused_and_an_older_result_stays(
    figures: dict[str, object], tmp_path: Path
) -> None:
    save("plan", {"ratio": 1}, command="x", directory=tmp_path)
    with pytest.raises(InvalidValue, match="finite"):
        save("plan", figures, command="x", directory=tmp_path)
    assert load("plan", tmp_path).figures == {"ratio": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("name", ["", "../plan", "Plan", "plan.json"])
def test_a_name_that_is_no_files_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="lower-case"):
        save(name, {}, command="x", directory=tmp_path)


def test_a_result_that_is_missing_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    save("plan", {}, command="x", directory=tmp_path)
    with pytest.raises(InvalidValue, match="there is plan"):
        load("merge", tmp_path)
    (tmp_path / "merge.json").write_text("{}")
    with pytest.raises(InvalidValue, match=r"merge\.json"):
        load("merge", tmp_path)


def test_the_load_is_what_works_now_and_is_kept_only_where_somebody_looked(tmp_path: Path) -> None:
    assert 0 <= load_now(sample_s=0.05) <= 2 * (os.cpu_count() or 1)
    assert machine(0.123)["load_at_start"] == 0.12
    assert "load_at_start" not in machine()
    save("plan", {}, command="x", directory=tmp_path, load_at_start=0.5)
    assert load("plan", tmp_path).machine["load_at_start"] == 0.5


def test_the_load_counts_all_work_and_what_a_neighbour_took_and_no_waiting() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, waits, irq, softirq, steal = (n * ticks for n in (1, 2, 4, 1000, 2000, 8, 16, 32))
    line = f"cpu  {user} {nice} {system} {idle} {waits} {irq} {softirq} {steal} 5 5\ncpu0 1 1 1 1"
    assert busy_s(line) == 63


def test_more_than_half_a_core_of_others_is_busy() -> None:
    assert not is_busy(0.5) and is_busy(0.51)


def test_rounds_run_the_floor_and_ours_in_turns_and_leave_out_the_warm_up() -> None:
    order: list[str] = []
    times = iter([90.0, 90.0, 1.0, 2.0, 3.0, 4.0])

    def told(action: object) -> float:
        action()  # type: ignore[operator]
        return next(times)

    rounds = interleaved(2, told, {"floor": lambda: order.append("floor"), "ours": lambda: order.append("ours")})
    assert order == ["floor", "ours"] * 3
    assert rounds.times_ms == {"floor": (1.0, 3.0), "ours": (2.0, 4.0)}
    assert rounds.median_ms("ours") == 3.0


def test_a_ratio_is_taken_between_neighbours_so_that_a_slow_spell_moves_it_little() -> None:
    # In the last of the rounds the machine was ten times as slow.
    rounds = Rounds(times_ms={"floor": (8.0, 8.0, 8.0, 8.0, 80.0), "ours": (10.0, 10.0, 10.0, 10.0, 100.0)})
    assert rounds.ratio("encode_ratio", "floor", "ours") == {"encode_ratio": 0.8, "encode_ratio_spread": [0.8, 0.8]}
    apart = statistics.mean(rounds.times_ms["floor"]) / statistics.median(rounds.times_ms["ours"])
    assert apart > 2, "medians and means of the two sides apart would say something else"


def test_a_spread_is_the_quartiles() -> None:
    assert spread_figures("x", [1.0, 2.0, 3.0, 4.0, 5.0]) == {"x": 3.0, "x_spread": [2.0, 4.0]}
    assert spread_figures("x", [1.0]) == {"x": 1.0, "x_spread": [1.0, 1.0]}


def test_a_figure_finds_its_value_in_mappings_and_lists() -> None:
    figures = {"rates": [{"p99_ms": 900}, {"p99_ms": 1000}], "a, b": {"c": 2}, "ratio": 0.5, "ratio_spread": [0.4, 0.6]}
    assert Figure(at="rates.1.p99_ms", says="", more=False).of(figures) == 1000
    assert Figure(at="a, b.c", says="", more=None).of(figures) == 2
    for missing in ("rates.2.p99_ms", "rates.x", "nothing", "ratio.x", "rates"):
        assert Figure(at=missing, says="", more=None).of(figures) is None
    assert Figure(at="ratio", says="", more=True).shown_of(figures) == "0.500 (0.400 to 0.600)"
    assert Figure(at="nothing", says="", more=True).shown_of(figures) == "missing"


def test_a_goal_is_a_least_or_a_most() -> None:
    least, most = (Figure(at="x", says="", more=more, goal=1.0) for more in (True, False))
    assert [least.reached(0.9), least.reached(1.0), most.reached(1.0), most.reached(1.1)] == [False, True, True, False]
    assert Figure(at="x", says="", more=True).reached(1) is None
    assert (least.shown_goal(), most.shown_goal(), Figure(at="x", says="", more=None).shown_goal()) == (
        "≥ 1",
        "≤ 1",
        "",
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (123.4, "123"),
        (5.0, "5"),
        (2.84, "2.84"),
        (0.7, "0.700"),
        (0.0123, "0.0123"),
        (1e-6, "1e-06"),
    ],
)
def test_numbers_are_shown_with_three_digits_that_count(value: float, text: str) -> None:
    assert shown(value) == text
