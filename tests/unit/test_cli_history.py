"""Tests the commands to purge, replay, redrive, update and delete, over the service in memory."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.unit.test_cli import Here
from tidewheel.cli.main import app
from tidewheel.local import MemoryTidewheel


class Shell:
    """Runs commands against a topic "orders" with the subscription "billing"."""

    def __init__(self) -> None:
        self.stack = MemoryTidewheel()
        self.target = Here(made=self.stack.client())
        self("topics", "create", "orders")
        self("subscriptions", "create", "orders", "billing")

    def __call__(self, *arguments: str, stdin: str = "") -> Result:
        return CliRunner().invoke(app, list(arguments), obj=self.target, input=stdin)

    def json(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def bodies(self) -> list[str]:
        return [message.body for message in self.stack.receive("orders", "billing")]


def test_a_purge_asks_first_and_says_what_it_dropped() -> None:
    shell = Shell()
    shell("send", "orders", "hello", "--delay", "2d")
    shell.stack.advance(hours=1)
    refused = shell("purge", "orders", stdin="n\n")
    assert refused.exit_code == 1 and "Drop all waiting messages of topic orders?" in refused.stderr
    purged = shell.json("purge", "orders", "--yes")
    assert (purged["messages"], purged["ledgers"]) == (1, 1)
    shell.stack.advance(days=3)
    assert shell.bodies() == []


def test_a_purge_of_a_range_leaves_the_rest() -> None:
    shell = Shell()
    for day in ("02", "04"):
        shell("send", "orders", day, "--deliver-at", f"2026-01-{day}T12:00:00Z")
    done = shell("purge", "orders", "--from", "2026-01-03T00:00:00Z", "--until", "2026-01-05T00:00:00Z", "--yes")
    assert done.exit_code == 0 and "messages (estimated)" in done.stdout
    shell.stack.advance(days=6)
    assert shell.bodies() == ["02"]


def test_settings_are_updated_and_shown() -> None:
    shell = Shell()
    settings = ("--retention-s", "60", "--delay-levels", "1s 5s", "--max-waiting", "9")
    [changed] = shell.json("topics", "update", "orders", *settings)
    updated = changed["settings"]
    assert (updated["retention_s"], updated["delay_levels"], updated["max_waiting"]) == (60, [1, 5], 9)
    [changed] = shell.json("topics", "update", "orders", "--max-waiting", "none")
    assert changed["settings"]["max_waiting"] is None and shell.json("topics", "list") == [changed]


def test_a_deletion_asks_first_and_takes_the_queues_if_told() -> None:
    shell = Shell()
    assert shell("topics", "delete", "orders", stdin="n\n").exit_code == 1
    assert shell.json("topics", "list")
    assert shell("topics", "delete", "orders", "--delete-queues", "--yes").exit_code == 0
    assert shell.json("topics", "list") == []
    again = shell("topics", "create", "orders")
    assert again.exit_code == 1 and "is being deleted" in again.stderr


def test_a_replay_says_what_comes_again() -> None:
    shell = Shell()
    shell("topics", "update", "orders", "--retention-s", "604800")
    shell("send", "orders", "hello", "--delay", "2h")
    shell.stack.advance(days=1)
    assert shell.bodies() == ["hello"]
    assert shell.json("replay", "orders", "billing")["messages"] == 1
    shell.stack.advance(seconds=10)
    assert shell.bodies() == ["hello"]
    assert "under way already" in shell("replay", "orders", "billing").stdout


def test_dead_letters_go_back_from_a_subscription_and_from_the_service() -> None:
    shell = Shell()
    [done] = shell.json("redrive", "orders", "billing")
    assert (done["messages"], done["task"]) == (0, None)
    assert len(shell.json("redrive", "--service")) == 3
    assert "from dead-letter queue" in shell("redrive", "orders", "billing").stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("purge", "orders", "--yes", "--from", "tomorrow"),
            "--from='tomorrow': give an ISO 8601 time with a time zone",
        ),
        (
            ("replay", "orders", "billing", "--until", "2026-01-01T00:00:00"),
            "--until='2026-01-01T00:00:00': give an ISO 8601 time with a time zone",
        ),
        (("replay", "orders", "nobody"), "has no subscription 'nobody'"),
        (("redrive", "orders"), "give a topic and a subscription, or --service"),
        (("redrive", "orders", "--service"), "give a topic and a subscription, or --service"),
        (("topics", "update", "orders"), "give at least one setting"),
        (("topics", "update", "orders", "--delay-levels", "often"), "delay_levels, level 1="),
        (("topics", "delete", "mail", "--yes"), "topic 'mail' does not exist"),
    ],
)
def test_bad_arguments_are_one_clear_line(arguments: tuple[str, ...], says: str) -> None:
    result = Shell()(*arguments)
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert re.search(says, result.stderr)
