"""Schedules of EventBridge Scheduler become messages, once, by `tidewheel import --format eventbridge-schedules`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.behaviour.topic import Here, Topic
from tidewheel import Message, QueueUnavailable, Receipt
from tidewheel.cli.main import app
from tidewheel.client.sender import Sender
from tidewheel.errors import SendFailed
from tidewheel.local import MemoryTidewheel

SCHEDULES = Path(__file__).parent.parent / "eventbridge_schedules"
FRIDAY = "2027-01-29T12:00:00+00:00"
ALL = {"invoices/invoice-17", "campaign/spread", "default/report", "default/heartbeat"}
ONE_TIME = {"invoices/invoice-17", "campaign/spread"}


@pytest.fixture
def stack() -> Iterator[Any]:
    with MemoryTidewheel(start=FRIDAY) as opened:
        yield opened


@pytest.fixture
def topic(stack: Any) -> Iterator[Topic]:
    """A topic with the subscription "billing", on Friday noon."""
    yield Topic(stack, "reminders")
    assert stack.failures == []


def run(topic: Topic, files: Path = SCHEDULES, *options: str) -> Result:
    arguments = ["import", topic.name, str(files), "--format", "eventbridge-schedules", *options]
    return CliRunner().invoke(app, arguments, obj=Here(made=topic.client))


def taken(result: Result) -> set[str]:
    return {line.split("\t")[0] for line in result.stdout.splitlines()}


def refused(result: Result) -> dict[str, str]:
    """Returns key or file -> reason."""
    lines = [line.removeprefix("tidewheel: ") for line in result.stderr.splitlines()[:-1]]
    return {line.partition(": ")[0]: line.partition(": ")[2] for line in lines}


def arrivals(topic: Topic) -> list[str]:
    return sorted(f"{each.deliver_at:%d %H:%M} {each.body}" for each in topic.take())


def test_a_dry_run_sends_nothing_and_prints_what_the_import_takes(topic: Topic) -> None:
    with topic.nothing_is_sent():
        dry = run(topic, SCHEDULES, "--dry-run", "--from", FRIDAY)
    assert topic.client.recurring(topic.name) == []
    real = run(topic, SCHEDULES, "--from", FRIDAY)
    assert (dry.exit_code, taken(dry)) == (0, ALL)
    lines = sorted("\t".join(line.split("\t")[:3]) for line in real.stdout.splitlines())
    assert (real.exit_code, lines, refused(real)) == (0, sorted(dry.stdout.splitlines()), refused(dry))


def test_each_schedule_comes_at_its_times_and_a_repeated_import_doubles_nothing(topic: Topic) -> None:
    assert taken(run(topic)) == ALL
    windows = {each.key: each.window_s for each in topic.client.recurring(topic.name)}
    assert windows == {"default/report": 60, "default/heartbeat": None}
    topic.advance(minutes=7)
    assert taken(run(topic)) == ALL
    topic.advance(hours=21)
    assert taken(run(topic)) == ALL - {"campaign/spread"}, "its time has passed"
    topic.advance(days=3)
    found = arrivals(topic)
    [spread] = [each for each in found if each.endswith(" hello")]
    assert "30 09:00" <= spread[:8] < "30 09:15"
    assert found == sorted(
        [spread, '31 08:00 {"invoice": 17}']
        + ['29 13:30 {"report": "sales"}', '01 13:30 {"report": "sales"}']
        + [f"29 {hour}:00 tick" for hour in (13, 19)]
        + [f"{day} {hour}:00 tick" for day in ("30", "31", "01") for hour in ("01", "07", "13", "19")]
        + [f"02 {hour}:00 tick" for hour in ("01", "07")]
    )


def test_from_a_given_time_on_messages_come_and_earlier_ones_are_left_to_eventbridge(topic: Topic) -> None:
    sunday = ("--from", "2027-01-31T00:00:00Z")
    assert taken(run(topic, SCHEDULES, *sunday)) == ALL - {"campaign/spread"}
    later = run(topic, SCHEDULES, *sunday)
    assert taken(later) == ALL - {"campaign/spread"}
    assert "due before 2027-01-31T00:00:00+00:00" in refused(later)["campaign/spread"]
    topic.advance(days=2)
    assert arrivals(topic) == ["31 01:00 tick", "31 07:00 tick", '31 08:00 {"invoice": 17}']


def test_a_message_has_the_schedules_group_and_its_key_cancels_it(topic: Topic) -> None:
    run(topic, SCHEDULES / "invoice-17.json")
    [spread] = run(topic, SCHEDULES / "others.jsonl").stdout.splitlines()
    topic.advance(minutes=6)
    cancelled = topic.client.cancel(topic.name, key="campaign/spread")
    assert cancelled and cancelled.id == spread.split("\t")[3]
    topic.advance(days=2)
    [message] = topic.take()
    assert (message.body, message.group) == ('{"invoice": 17}', "customer-4")


def test_what_could_not_be_sent_is_told_and_comes_by_the_next_run(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Sender.send

    def one_fails(sender: Sender, messages: list[Message]) -> list[Receipt]:
        first, _ = messages
        raise SendFailed({1: QueueUnavailable("urgent", "it is down")}, [*send(sender, [first]), None])

    with monkeypatch.context() as patched:
        patched.setattr(Sender, "send", one_fails)
        down = run(topic)
    assert (down.exit_code, len(ONE_TIME & taken(down)), ONE_TIME & refused(down).keys()) == (
        1,
        1,
        ONE_TIME - taken(down),
    )
    assert run(topic).exit_code == 0
    topic.advance(days=2)
    assert [each for each in arrivals(topic) if each.startswith("31 08:00")] == ['31 08:00 {"invoice": 17}']


def test_a_recurring_message_that_was_changed_since_is_told_and_kept(topic: Topic) -> None:
    run(topic)
    topic.client.send_recurring(topic.name, "default/report", "mine", every="1d", replace=True)
    again = run(topic)
    assert taken(again) == ALL - {"default/report"}
    assert "cancel it first" in refused(again)["default/report"].lower()
    assert [each.body for each in topic.client.recurring(topic.name)] == ["tick", "mine"]


def test_an_unknown_topic_takes_nothing(topic: Topic) -> None:
    topic.client.delete_topic(topic.name)
    result = run(topic)
    assert (result.exit_code, result.stdout) == (1, "") and "reminders" in result.stderr
