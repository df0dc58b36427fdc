"""`tidewheel cost` answers odd input in one line."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tidewheel.cli.main import app


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--per-day", "5", "--delay-mean", "7y"], "delay_mean='7y'"),
        (["--per-day", "5", "--spread", "odd"], "even, exponential, same"),
        (["--per-day", "5", "--environment", "test"], "development, production"),
    ],
)
def test_odd_input_is_answered_in_one_line(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["cost", *arguments])
    assert result.exit_code == 1
    assert told in result.stderr and result.stderr.count("\n") == 1
