"""`tidewheel demo` is sound, or says that it is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from tidewheel.cli.main import app
from tidewheel.local import LocalTidewheel, replay

DEMO = ["demo", "--messages", "8", "--real-seconds", "0"]


def _with_receive(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Applies `change` to the messages received by the demo's replay."""

    replay_virtual = replay.replay_virtual

    def changed(stack: LocalTidewheel, *arguments: Any) -> Any:
        receive = stack.receive
        monkeypatch.setattr(stack, "receive", lambda *names: change(receive(*names)))
        return replay_virtual(stack, *arguments)

    monkeypatch.setattr(replay, "replay_virtual", changed)


def test_a_demo_that_loses_nothing_exits_with_zero_and_tells_the_costs_at_its_rate() -> None:
    done = CliRunner().invoke(app, DEMO)
    assert done.exit_code == 0, done.output
    assert "Every message arrived once, none early." in done.output
    [price] = [line.split()[-1] for line in done.output.splitlines() if line.startswith("dollars per million ")]
    assert float(price) > 0
    assert "tidewheel cost --per-day 1000000" in done.output


def test_the_figures_of_a_demo_tell_of_each_message_and_its_price() -> None:
    done = CliRunner().invoke(app, ["demo", "--messages", "20", "--real-seconds", "1", "--json"])
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert figures.pop("sound") is True
    assert len(figures) == 2
    for figure in figures.values():
        assert figure["sent"] == 20 and figure["delivered"] == 40
        assert (figure["lost"], figure["early"], figure["duplicates"]) == (0, 0, 0)
        assert figure["dollars"] == pytest.approx(figure["dollars_per_million"] * 40 / 1_000_000, rel=0.05)
        assert figure["dollars_with_eventbridge_scheduler"] == pytest.approx(40 * 1.40 / 1_000_000)


def test_a_demo_that_loses_one_message_is_unsound(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[Any] = []

    def lose_one(messages: list[Any]) -> list[Any]:
        if messages and not lost:
            lost.append(messages.pop())
        return messages

    _with_receive(monkeypatch, lose_one)
    assert CliRunner().invoke(app, DEMO).exit_code == 1
    assert len(lost) == 1


def test_a_demo_that_receives_one_message_twice_exits_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    doubled: list[Any] = []

    def double_one(messages: list[Any]) -> list[Any]:
        if messages and not doubled:
            doubled.append(messages[0])
            return [messages[0], *messages]
        return messages

    _with_receive(monkeypatch, double_one)
    done = CliRunner().invoke(app, DEMO)
    assert done.exit_code == 1
    assert "The replay is unsound." in done.output
