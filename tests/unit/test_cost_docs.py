"""The tables of docs/cost.md are the command's own output; `python -m tests.unit.test_cost_docs` writes them anew."""

from __future__ import annotations

import re
import shlex

import pytest
from typer.testing import CliRunner

from tests.conftest import REPOSITORY
from tidewheel.cli.main import app

PAGE = REPOSITORY / "docs" / "cost.md"
COLUMNS = "100"
BLOCK = re.compile(r"```text\n\$ tidewheel (?P<command>cost .*)\n(?P<shown>(?:.*\n)*?)```\n")


def _output(command: str) -> str:
    result = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": COLUMNS, "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    return "\n".join(line.rstrip() for line in result.output.splitlines()).strip() + "\n"


def written(page: str) -> str:
    """Returns the page with the commands' outputs as they are now."""
    return BLOCK.sub(lambda block: f"```text\n$ tidewheel {block['command']}\n\n{_output(block['command'])}```\n", page)


def test_every_table_of_the_page_is_what_the_command_prints() -> None:
    page = PAGE.read_text()
    assert len(BLOCK.findall(page)) == 2
    assert page == written(page), "python -m tests.unit.test_cost_docs"


def test_the_page_names_the_price_of_low_rates() -> None:
    shown, page = _output("cost --per-day 100"), PAGE.read_text()
    for told in re.findall(r"`tidewheel cost --per-day 100` prints (\$[\d.]+) a month", page):
        assert f"All: {told} a month." in shown
        return
    raise AssertionError("the page does not name it")


@pytest.mark.parametrize("columns", ["70", "200"])
def test_the_command_fits_narrow_and_wide_terminals(columns: str) -> None:
    result = CliRunner().invoke(app, ["cost", "--per-day", "1000"], env={"COLUMNS": columns, "NO_COLOR": "1"})
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= int(columns)


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


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
