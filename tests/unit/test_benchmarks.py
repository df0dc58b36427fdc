"""Tests the benchmarks' rounds, tables, files and command."""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import os
import re
import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import bench_contention
from benchmarks.registry import BENCHMARKS
from benchmarks.results import busy_s, is_busy, load_now, machine, save
from benchmarks.rounds import Rounds, interleaved, spread_figures
from benchmarks.tables import reached, shown, tables
from tidewheel.errors import InvalidValue


def test_a_result_says_what_was_measured_on_what_and_how_to_repeat_it(tmp_path: Path) -> None:
    path = save("plan", {"plan_ms": 1.5}, command="python -m benchmarks plan", directory=tmp_path, load_at_start=0.123)
    found = json.loads(path.read_text())
    assert path == tmp_path / "plan.json"
    assert (found["name"], found["figures"], found["command"]) == (
        "plan",
        {"plan_ms": 1.5},
        "python -m benchmarks plan",
    )
    assert {"cpu", "cores", "memory_gib", "os", "python", "pyarrow", "boto3", "moto"} <= set(found["machine"])
    assert found["machine"]["load_at_start"] == 0.12
    assert len(found["date"]) == len("2026-01-31")


def test_a_result_names_no_host_and_no_path() -> None:
    text = json.dumps(machine())
    assert str(Path.home()) not in text and str(Path.cwd()) not in text
    assert "hostname" not in text and "node" not in text and "load_at_start" not in text


@pytest.mark.parametrize("figures", [{"ratio": float("nan")}, {"ratio": float("inf")}, {"path": Path("x")}])
def test_a_figure_that_json_cannot_say_is_refused_and_an_older_result_stays(
    figures: dict[str, object], tmp_path: Path
) -> None:
    path = save("plan", {"ratio": 1}, command="x", directory=tmp_path)
    with pytest.raises(InvalidValue, match="finite"):
        save("plan", figures, command="x", directory=tmp_path)
    assert json.loads(path.read_text())["figures"] == {"ratio": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("name", ["", "../plan", "Plan", "plan.json"])
def test_a_name_that_is_no_files_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="lower-case"):
        save(name, {}, command="x", directory=tmp_path)


def test_the_load_counts_all_work_and_what_a_neighbour_took_and_no_waiting() -> None:
    assert 0 <= load_now(sample_s=0.05) <= 2 * (os.cpu_count() or 1)
    ticks = os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, waits, irq, softirq, steal = (n * ticks for n in (1, 2, 4, 1000, 2000, 8, 16, 32))
    line = f"cpu  {user} {nice} {system} {idle} {waits} {irq} {softirq} {steal} 5 5\ncpu0 1 1 1 1"
    assert busy_s(line) == 63
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


def test_a_goal_is_a_least_or_a_most() -> None:
    assert [reached(value, ">= 1") for value in (0.9, 1.0)] == [False, True]
    assert [reached(value, "<= 1.0") for value in (1.0, 1.1)] == [True, False]


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
        ("text", "text"),
        (None, ""),
        ([1, 20.5], "1, 20.5"),
    ],
)
def test_numbers_are_shown_with_three_digits_that_count(value: object, text: str) -> None:
    assert shown(value) == text


def drawn(figures: dict[str, Any], goals: dict[str, str]) -> list[list[str]]:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, color_system="standard", width=120)
    for table in tables("Plan", figures, goals):
        console.print(table)
    plain = text.getvalue().replace("\x1b[32m", "green ").replace("\x1b[31m", "red ")
    lines = re.sub(r"\x1b\[\d+m", "", plain).split("\n")
    return [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in lines if line]


def test_single_figures_are_one_table_with_goals_in_green_or_red_and_quartiles() -> None:
    figures = {"plan_ratio": 0.8, "plan_ratio_spread": [0.7, 0.9], "plan_ms": 12, "rows": 3}
    rows = drawn(figures, {"plan_ratio": ">= 0.7", "plan_ms": "<= 10"})
    assert ["plan ratio", "green 0.800 (0.700 to 0.900)", ">= 0.7"] in rows
    assert ["plan ms", "red 12", "<= 10"] in rows
    assert ["rows", "3", ""] in rows


def test_cases_are_a_table_each_whose_longer_side_goes_down() -> None:
    rows = drawn({"by_size": [{"rows": 1, "a": {"ms": 2}, "b": 4}, {"rows": 1000, "a": {"ms": 3}}]}, {})
    assert ["", "1", "1,000"] in rows and ["a ms", "2", "3"] in rows and ["b", "4", ""] in rows
    rows = drawn({"mixes": {"commit": {"calls": 1}, "cancel": {"calls": 2}}, "bytes": {"small": 5}}, {})
    assert ["commit", "1"] in rows and ["cancel", "2"] in rows and ["small", "5"] in rows


def test_every_benchmark_has_a_module_and_every_goal_is_a_bound() -> None:
    for name, each in BENCHMARKS.items():
        assert importlib.util.find_spec(each.module or f"benchmarks.bench_{name}") is not None
        assert all(reached(0.0, goal) in (True, False) for goal in each.goals.values())


@pytest.mark.parametrize("name", ["ledger", "ingest", "plan", "index"])
def test_a_benchmark_of_a_second_runs_in_its_quick_form(name: str) -> None:
    figures = importlib.import_module(f"benchmarks.bench_{name}").benchmark(quick=True)
    assert list(tables(name, figures, BENCHMARKS[name].goals))


def test_fifty_calls_a_second_meet_conflicts_and_give_up_none_and_as_many_as_can_be_made_do() -> None:
    figures = bench_contention.benchmark(quick=True)
    assert set(BENCHMARKS["contention"].goals) <= set(figures)
    kinds = ("commit", "cancel by id", "cancel 90 at once", "upsert and cancel by key")
    for kind in kinds:
        assert figures["50_calls_a_second"][kind]["gave_up_a_thousand"] == 0
        assert figures["as_fast_as_they_can"][kind]["conflicts_a_call"] > 0.2, "all of them take the topic state"
    assert figures["50_calls_a_second"]["upsert"]["conflicts_a_call"] < 0.02, "a key is an item of its own"
    assert bench_contention.benchmark(quick=True) == figures, "time is virtual: no other program changes them"


def test_what_a_caller_of_the_contention_raises_is_raised() -> None:
    load = bench_contention.Load()

    def fails() -> None:
        load.turns.sleep(0.1)
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        bench_contention.run(load, [load.commit, fails], 1.0, 0.1)


def test_a_benchmark_prints_its_table_and_saves_its_figures_and_says_if_the_run_was_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = SimpleNamespace(benchmark=lambda *, quick: {"query_ms": 1.25 if quick else 9.0})
    monkeypatch.setattr(command, "importlib", SimpleNamespace(import_module=lambda _: module, util=importlib.util))
    assert command.main(["plan", "--quick", "--into", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "plan.json").read_text())
    assert found["figures"] == {"quick": True, "query_ms": 1.25}
    assert found["command"] == "python -m benchmarks plan" and "load_at_start" in found["machine"]
    assert "1.25" in capsys.readouterr().out


def test_control_c_saves_nothing_and_exits_with_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*, quick: bool) -> dict[str, object]:
        raise KeyboardInterrupt

    module = SimpleNamespace(benchmark=interrupted)
    monkeypatch.setattr(command, "importlib", SimpleNamespace(import_module=lambda _: module, util=importlib.util))
    assert command.main(["plan", "--into", str(tmp_path)]) == 130
    assert list(tmp_path.iterdir()) == []


def test_a_benchmark_that_fails_does_not_stop_the_next_and_control_c_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes, ran = {"ledger": 1, "ingest": 0, "plan": 130}, []

    def started(arguments: list[str], *, check: bool) -> SimpleNamespace:
        ran.append(arguments[3])
        return SimpleNamespace(returncode=codes[arguments[3]])

    monkeypatch.setattr(command.subprocess, "run", started)
    assert command.main(["ledger", "ingest", "--into", str(tmp_path)]) == 1
    assert command.main(["plan", "ingest", "--into", str(tmp_path)]) == 130
    assert ran == ["ledger", "ingest", "plan"]
    assert "ledger failed (exit code 1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "no such benchmark: nothing; there are ledger, ingest"),
        (["--quick", "--record"], "--record is for whole runs"),
        (["ledger", "--all"], "give --all or names"),
        (["ledger", "--record", "--into", "elsewhere"], "not allowed with"),
        (["ledger", "--into", __file__], "Give one that can be written to"),
    ],
)
def test_wrong_use_is_told_before_anything_is_measured(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert said in " ".join(capsys.readouterr().err.split())
