"""A run of the benchmarks beside an earlier one, on made-up results."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import comparison, results
from benchmarks.comparison import Change, changes, doubts, read
from benchmarks.figures import Figure
from benchmarks.results import Result
from tidewheel.errors import InvalidValue

MACHINE = {"cpu": "A", "cores": 2, "python": "3.11.7", "pyarrow": "1", "boto3": "1", "moto": "1", "load_at_start": 0.1}


def result(name: str, figures: dict[str, object], **machine: object) -> Result:
    return Result(name=name, command="x", machine={**MACHINE, **machine}, date="2026-01-31", figures=figures)


def change(more: bool | None, old: float, new: float) -> Change:
    return Change(benchmark="x", figure=Figure(at="x", says="x", more=more), old=old, new=new)


@pytest.mark.parametrize(
    ("more", "old", "new", "worse"),
    [
        (False, 100, 111, True),
        (False, 100, 109, False),
        (False, 100, 50, False),
        (True, 100, 89, True),
        (True, 100, 92, False),
        (True, 100, 200, False),
        (None, 100, 1000, False),
        (False, 0, 0, False),
        (False, 0, 1, True),
        (True, 0, 1, False),
        (True, 1, 0, True),
    ],
)
def test_a_change_for_the_worse_by_more_than_a_tenth_is_told(
    more: bool | None, old: float, new: float, worse: bool
) -> None:
    assert change(more, old, new).is_worse is worse


def test_half_the_rate_is_as_bad_as_twice_the_time() -> None:
    assert change(True, 100, 50).worse_by == change(False, 50, 100).worse_by == 1.0


def test_figures_of_both_runs_are_compared_each_in_its_direction() -> None:
    old = {"dispatch": result("dispatch", {"dispatch_ratio": 1.0, "dispatch_messages_a_second": 5000})}
    new = {"dispatch": result("dispatch", {"dispatch_ratio": 0.8, "dispatch_messages_a_second": 5001, "more": 1})}
    found = changes(old, new)
    assert [(each.figure.at, each.is_worse) for each in found] == [
        ("dispatch_ratio", True),
        ("dispatch_messages_a_second", False),
    ]
    assert [each.share for each in found] == pytest.approx([-0.2, 0.0002])
    assert changes(old, {"plan": result("plan", {})}) == []


def _ansi(found: list[Change]) -> str:
    text = io.StringIO()
    Console(file=text, force_terminal=True, color_system="standard", width=120).print(comparison.table(found))
    return text.getvalue()


def test_what_is_worse_is_red_what_is_better_green_and_the_rest_has_no_colour() -> None:
    red, green = "\x1b[31m", "\x1b[32m"
    assert f"{red}+50.0%" in _ansi([change(False, 10, 15)])
    assert f"{green}+50.0%" in _ansi([change(True, 10, 15)])
    assert f"{red}from 0" in _ansi([change(False, 0, 15)])
    plain = _ansi([change(True, 10, 10.5), change(None, 10, 15)])
    assert "+5.0%" in plain and red not in plain and green not in plain


def test_a_quick_run_is_not_compared_with_a_whole_one() -> None:
    old = {"plan": result("plan", {"query_ms": 1})}
    new = {"plan": result("plan", {"query_ms": 9, "quick": True})}
    assert changes(old, new) == []
    assert doubts(old, new) == ["plan: one of the two is a quick run, which is not compared"]


def test_other_machines_versions_and_loads_are_told_beside_a_comparison() -> None:
    old, new = {"plan": result("plan", {})}, {"plan": result("plan", {}, cpu="B", pyarrow="2", load_at_start=1.5)}
    assert doubts(old, old) == []
    assert doubts(old, new) == [
        "plan: cpu was A, and is B",
        "plan: pyarrow was 1, and is 2",
        "plan: the machine was busy in the new run (load 1.5)",
    ]


def test_an_earlier_run_is_a_directory_or_a_file(tmp_path: Path) -> None:
    for name in ("plan", "index"):
        results.save(name, {"a": 1}, command="x", directory=tmp_path)
    assert set(read(tmp_path)) == {"plan", "index"}
    assert set(read(tmp_path / "plan.json")) == {"plan"}
    with pytest.raises(InvalidValue, match="directory with results"):
        read(tmp_path / "nothing")


def _run(monkeypatch: pytest.MonkeyPatch, ratios: dict[str, float | None], *arguments: str) -> int:
    """Runs the command with benchmarks that find these figures; None: they fail."""

    def measured(benchmark: object, directory: Path, *, quick: bool) -> Result:
        name = benchmark.name  # type: ignore[attr-defined]
        value = ratios[name]
        if value is None:
            raise KeyboardInterrupt
        results.save(name, {f"{name}_ratio": value}, command="x", directory=directory)
        return results.load(name, directory)

    monkeypatch.setattr(command, "measure", measured)
    return command.main(arguments)


def test_the_command_fails_on_a_slowdown_only_if_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    results.save("dispatch", {"dispatch_ratio": 1.0}, command="x", directory=before)
    arguments = ("dispatch", "--into", str(after), "--compare", str(before))
    assert _run(monkeypatch, {"dispatch": 0.5}, *arguments) == 0
    assert "-50.0%" in capsys.readouterr().out
    assert _run(monkeypatch, {"dispatch": 0.5}, *arguments, "--fail") == 1
    assert _run(monkeypatch, {"dispatch": 0.95}, *arguments, "--fail") == 0


def test_a_run_into_the_directory_that_it_is_compared_with_is_compared_with_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.save("dispatch", {"dispatch_ratio": 1.0}, command="x", directory=tmp_path)
    arguments = ("dispatch", "--into", str(tmp_path), "--compare", str(tmp_path), "--fail")
    assert _run(monkeypatch, {"dispatch": 0.5}, *arguments) == 1
    assert _run(monkeypatch, {"dispatch": 0.5}, *arguments) == 0


def test_control_c_keeps_what_was_measured_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _run(
        monkeypatch,
        {"ingest": 0.7, "dispatch": None, "ledger": 1.0},
        "ingest",
        "dispatch",
        "ledger",
        "--into",
        str(tmp_path),
    )
    assert code == 130
    assert results.names(tmp_path) == ["ingest"]
    assert "Ended during dispatch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "Use ledger, ingest"),
        (["--quick", "--record"], "not those of a quick run"),
        (["ledger", "--compare", "nowhere"], "Give a directory"),
        (["ledger", "--quick", "--compare"], "Give results of a quick run"),
        (["ledger", "--fail"], "give --compare with it"),
        (["ledger", "--all"], "give one of them"),
        (["ledger", "--record", "--into", "elsewhere"], "give one of them"),
        (["ledger", "--into", __file__], "Give one that can be written to"),
    ],
)
def test_wrong_use_is_told_before_anything_is_measured(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    assert said in " ".join(capsys.readouterr().out.split())
