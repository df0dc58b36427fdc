"""The same stories on the command line, over HTTP to the deployed functions."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.behaviour.topic import Here, Topic
from tidewheel import Consumer
from tidewheel.cli.main import app

TOO_LATE = 3


class Shell:
    """Runs commands with a topic's client."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self._target = Here(made=topic.client)

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), obj=self._target, input=stdin)

    def ok(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.exit_code == 0, (result.stdout, result.stderr, result.exception)
        return result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def send(self, body: str, *options: str) -> str:
        [sent] = self.json("send", self.topic.name, body, *options)
        return str(sent["id"])


@pytest.fixture
def shell(topic: Topic) -> Shell:
    return Shell(topic)


def test_messages_are_cancelled_by_id_and_key_and_too_late_is_exit_code_3(shell: Shell, topic: Topic) -> None:
    by_id, _ = shell.send("x", "--delay", "2h"), shell.send("y", "--delay", "2h", "--key", "order 17")
    late = shell.send("late", "--delay", "5")
    topic.advance(seconds=6)
    assert shell.json("cancel", topic.name, by_id) == [{"id": by_id, "result": "cancelled"}]
    shell.ok("cancel", topic.name, "--key", "order 17")
    result = shell("cancel", topic.name, late)
    assert result.exit_code == TOO_LATE and "too late" in result.stdout and "its slot is sealed" in result.stdout
    moved = shell("reschedule", topic.name, late, "--delay", "1h", "--json")
    said = {"id": late, "due": None, "result": "too late", "reason": "its slot is sealed"}
    assert moved.exit_code == TOO_LATE and json.loads(moved.stdout) == said
    nobodys = shell.ok("cancel", topic.name, "--key", "nobody's")
    assert "no message with this key was found; what was sent so far will not come" in nobodys
    topic.advance(hours=3)
    assert topic.bodies() == ["late"]


def test_send_tells_until_when_a_message_can_be_cancelled(shell: Shell, topic: Topic) -> None:
    assert "a consumer has it" in shell.ok("send", topic.name, "x", "--delay", "15m", "--key", "k")
    [sent] = shell.json("send", topic.name, "x", "--deliver-at", "2030-01-01T09:07:00Z")
    assert sent["cancellable_until"] == "2030-01-01T08:57:00+00:00"


def test_a_retry_is_shown_with_the_id_of_the_first_message(shell: Shell, topic: Topic) -> None:
    first = shell.send("x")
    topic.advance(minutes=1)
    [message] = topic.client.receive(topic.name, "billing")
    again = Consumer(topic.client, topic.name, "billing").retry_later(message, delay="2h")
    topic.advance(minutes=6)
    assert again is not None
    for command in (("peek",), ("find", "--everything"), ("get", again.id)):
        assert first in shell.ok(command[0], topic.name, *command[1:])
    topic.advance(hours=2)
    [received] = shell.json("receive", topic.name, "billing", "--keep")
    assert (received["original_id"], received["attempt"]) == (first, 1)
    topic.advance(minutes=2)
    assert first in shell.ok("receive", topic.name, "billing")


def test_many_messages_are_found_counted_and_cancelled(shell: Shell, topic: Topic) -> None:
    for number in range(3):
        shell.send(f"cart {number}", "--delay", "2h", "--key", f"cart-17/{number}")
    shell.send("other", "--delay", "3h")
    topic.advance(seconds=301)
    found = shell.json("find", topic.name, "--key-prefix", "cart-17/")
    assert [each["key"] for each in found] == [f"cart-17/{number}" for number in range(3)]
    assert len(shell.json("find", topic.name, "--everything", "-n", "4")) == 4
    counted = {"matched": 3, "cancelled": 0, "too late": 0}
    assert shell.json("cancel", topic.name, "--key-prefix", "cart-17/", "--dry-run") == counted
    told = shell("cancel", topic.name, "--key-prefix", "cart-17/", "--dry-run").stderr.splitlines()
    assert told == [
        "to count: about 17 requests, 0.0 MB, $0.0000, and $0.1299 a million keys",
        "to cancel: about $0.0000",
    ]
    assert "MB" in shell("cancel", topic.name, "--everything", "--dry-run").stderr
    assert shell.json("cancel", topic.name, "--key-prefix", "cart-17/") == counted | {"cancelled": 3}
    misused = shell("cancel", topic.name, found[0]["id"], "--dry-run")
    assert misused.exit_code == 2 and "--dry-run" in misused.stderr
    unclear = shell("cancel", topic.name, "--key-prefix", "")
    assert unclear.exit_code == 1 and "everything" in unclear.stderr
    assert shell.json("cancel", topic.name, "--everything", "--yes")["cancelled"] == 1
    topic.advance(hours=4)
    assert topic.bodies() == []


def test_a_message_is_rescheduled(shell: Shell, topic: Topic) -> None:
    sent = shell.send("moved", "--delay", "2h")
    topic.advance(seconds=301)
    moved = shell.json("reschedule", topic.name, sent, "--delay", "4h")
    assert moved["result"] == "rescheduled"
    assert shell.json("get", topic.name, sent)["moved_to"] == moved["id"]
    topic.advance(hours=3)
    assert topic.bodies() == []
    assert shell("reschedule", topic.name, sent, "--delay", "1s").exit_code == 0
    topic.advance(seconds=3)
    assert topic.bodies() == ["moved"]


def test_send_takes_levels_keys_and_expiries(shell: Shell, topic: Topic) -> None:
    shell.send("level 3", "--delay-level", "3")
    shell.send("old", "--key", "cart", "--replace", "--delay", "30m")
    topic.advance(seconds=1)  # two commands in one millisecond would have no order
    shell.send("new", "--key", "cart", "--replace", "--delay", "30m")
    topic.advance(seconds=1)
    shell.send("dropped", "--key", "cart", "--delay", "1m")
    shell.send("milk", "--expires-in", "10m", "--delay", "20m")
    topic.advance(seconds=11)
    assert topic.bodies() == ["level 3"]
    shell.ok("subscriptions", "pause", topic.name, "billing")
    topic.advance(hours=1)
    shell.ok("subscriptions", "resume", topic.name, "billing")
    topic.advance(seconds=30)
    assert topic.bodies() == ["new"]


def test_send_shifts_the_time_within_a_window_as_the_client_does(shell: Shell, topic: Topic) -> None:
    nine = topic.stack.now().replace(microsecond=0) + timedelta(hours=2)
    [sent] = shell.json("send", topic.name, "x", "--deliver-at", f"{nine:%FT%TZ}", "--window", "15m", "--key", "k")
    expected = topic.send("x", deliver_at=nine, window="15m", key="k").deliver_at
    assert datetime.fromisoformat(sent["deliver_at"]) == expected
    assert "window='15 minutes': give seconds" in shell("send", topic.name, "x", "--window", "15 minutes").stderr


def test_recurring_messages_are_made_listed_and_cancelled(shell: Shell, topic: Topic) -> None:
    arguments = ("recurring", "create", topic.name, "tick", "again", "--every", "30m", "--attribute", "a=b")
    [made] = shell.json(*arguments)
    assert (made["key"], made["every_s"], made["window_s"]) == ("tick", 1800, None)
    [spread] = shell.json("recurring", "create", topic.name, "spread", "x", "--cron", "0 9 1 1 *", "--window", "15m")
    assert spread["window_s"] == 900
    shell.ok("recurring", "cancel", topic.name, "spread")
    assert shell.json("recurring", "list", topic.name)[0]["body"] == "again"
    topic.advance(hours=1)
    assert 2 <= len(topic.bodies()) <= 3
    shell.ok("recurring", "cancel", topic.name, "tick")
    assert "no recurring messages" in shell.ok("recurring", "list", topic.name)


def test_topics_are_updated_and_deleted(shell: Shell, topic: Topic) -> None:
    [changed] = shell.json("topics", "update", topic.name, "--retention-days", "1", "--max-waiting", "1")
    assert (changed["settings"]["retention_days"], changed["settings"]["max_waiting"]) == (1, 1)
    shell.send("x", "--delay", "2h")
    topic.advance(seconds=301)
    result = shell("send", topic.name, "one too many", "--delay", "2h")
    assert result.exit_code == 1 and "max_waiting=1" in result.stderr
    asked = shell("topics", "delete", topic.name, stdin=b"n\n")
    assert asked.exit_code == 1 and "Delete topic" in asked.stderr
    shell.ok("topics", "delete", topic.name, "--yes", "--delete-queues")
    topic.advance(minutes=15)
    assert topic.left() == []


def test_what_waits_is_shown_and_purged(shell: Shell, topic: Topic) -> None:
    sent = [shell.send(f"body {n}", "--delay", f"{n + 2}h") for n in range(3)]
    topic.advance(seconds=301)
    assert [each["id"] for each in shell.json("peek", topic.name, "-n", "2")] == sent[:2]
    assert "body 0" in shell.ok("peek", topic.name)
    assert "waiting" in shell.ok("get", topic.name, sent[0])
    stats = shell.json("stats", topic.name)
    assert stats["waiting"] == 3
    for bars in ("hour", "day"):
        assert "estimate" in shell.ok("stats", topic.name, "--by", bars).lower()
    assert shell.json("purge", topic.name, "--yes")["messages"] == 3
    assert shell.json("peek", topic.name) == []
    topic.advance(hours=5)
    assert topic.bodies() == []


@pytest.mark.story
def test_messages_are_replayed_and_dead_letters_redriven(shell: Shell, topic: Topic) -> None:
    shell.send("x", "--delay", "2h")
    topic.advance(hours=3)
    assert topic.bodies() == ["x"]
    assert shell.json("replay", topic.name, "billing")["messages"] == 1
    topic.advance(minutes=1)
    for _ in range(11):
        shell.ok("receive", topic.name, "billing", "--keep")
        topic.advance(seconds=61)
    [line] = shell.json("stats", topic.name)["subscriptions"]
    assert line["dead"] == 1
    [letter] = shell.json("dead-letters", "list")
    assert (letter["topic"], letter["body"]) == (topic.name, "x")
    assert "times, " in shell.ok("dead-letters", "list", topic.name, "billing")
    assert shell.json("dead-letters", "delete", f"{topic.name}/billing", "--id", "unknown", "--yes") == {"deleted": 0}
    [redriven] = shell.json("redrive", topic.name, "billing", "--cause", letter["cause"])
    assert redriven["messages"] == 1
    topic.advance(seconds=1)
    assert [each["body"] for each in shell.json("receive", topic.name, "billing")] == ["x"]
    assert len(shell.json("redrive", "--service")) == 3
