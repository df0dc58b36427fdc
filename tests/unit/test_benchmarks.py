"""Tests the benchmarks' rounds, tables, files and command."""

from __future__ import annotations

import importlib
import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks import bench_contention
from benchmarks.registry import BENCHMARKS
from benchmarks.results import machine
from benchmarks.tables import reached, tables


def test_a_result_names_no_host_and_no_path() -> None:
    text = json.dumps(machine())
    assert str(Path.home()) not in text and str(Path.cwd()) not in text
    assert "hostname" not in text and "node" not in text and "load_at_start" not in text


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
