"""Tests `python -m tests.simulation.mutants` and its explorer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation import mutants
from tests.simulation.exploring import Found, explore
from tests.simulation.guards import slots
from tests.simulation.removal import wrapped

_CAUGHT = next(guard for guard in slots.GUARDS if guard.promise == "a range is planned once")
assert _CAUGHT.world is not None
_WORLD = _CAUGHT.world


def test_a_schedule_that_breaks_a_promise_is_found_again_after_as_many() -> None:
    first, second = _CAUGHT.hunt(), _CAUGHT.hunt()

    assert isinstance(first, Found) and isinstance(second, Found)
    assert (first.schedules, first.story, str(first.violation)) == (
        second.schedules,
        second.story,
        str(second.violation),
    )


def test_more_deviations_are_more_schedules() -> None:
    none, one, two = (explore(replace(_WORLD, most=most)) for most in range(3))

    assert isinstance(none, int) and isinstance(one, int) and isinstance(two, int)
    assert none == 2 and none < one < two


def test_all_guards_that_are_missed_end_it_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(mutants, "GUARDS", (_CAUGHT,))
    file = tmp_path / "mutants.json"

    assert mutants.main(["--json", str(file)]) == 0

    shown = capsys.readouterr().out
    assert "1 of 1 guards are missed" in shown and "planned went back" in shown
    figures = json.loads(file.read_text())
    assert (figures["guards"], figures["caught"]) == (1, 1)
    assert figures["mutants"][0]["place"] == "tidewheel.storage.plans.Plans.commit"


def test_a_guard_that_nobody_misses_ends_it_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harmless = replace(_CAUGHT, removal=wrapped(lambda function, *args, **kwargs: function(*args, **kwargs)))
    monkeypatch.setattr(mutants, "GUARDS", (harmless,))

    assert mutants.main([]) == 1

    assert "NOT MISSED" in capsys.readouterr().out
