"""Tests the benchmarks' rounds, tables, files and command."""

from __future__ import annotations

import importlib
import importlib.util
import json
from pathlib import Path

import pytest

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
