"""Tests recurring messages by cron and by rate, without drift and across changes of clocks (point 13)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel import AlreadyExists, InvalidValue, UnknownMessage
from tidewheel.local import MemoryTidewheel


def due(topic: Topic) -> list[datetime]:
    """Returns the due times of all receivable messages."""
    found = topic.take()
    assert all((each.visible_at - each.deliver_at).total_seconds() <= 1.1 for each in found)  # type: ignore[operator]
    return sorted(each.deliver_at for each in found)


def test_a_rate_comes_at_each_multiple_from_its_start_on_without_drift(topic: Topic) -> None:
    start = topic.stack.now().replace(microsecond=0)
    made = topic.client.send_recurring(topic.name, "tick", {"n": 1}, every="20m", start=start, attributes={"a": "b"})
    assert (made.every_s, made.cron, made.key) == (1200, None, "tick")
    topic.advance(hours=4)
    times = due(topic)
    since = [(each - start).total_seconds() / 1200 for each in times]
    assert since in ([*range(13)], [*range(1, 13)])
    topic.client.cancel_recurring(topic.name, "tick")


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2026-03-27", ["03-28T01:30", "03-29T01:00", "03-30T00:30"]),  # 02:30 is skipped: as the clocks go forward
        ("2026-10-23", ["10-24T00:30", "10-25T00:30", "10-26T01:30"]),  # 02:30 comes twice: once
    ],
)
def test_a_time_that_is_skipped_comes_when_clocks_go_forward_and_one_that_is_repeated_comes_once(
    start: str, expected: list[str]
) -> None:
    stack = MemoryTidewheel(start=start)
    topic = Topic(stack, "daily")
    topic.client.send_recurring("daily", "nightly", "x", cron="30 2 * * *", timezone="Europe/Berlin")
    stack.advance(days=4)
    assert [f"{each:%m-%dT%H:%M}" for each in due(topic)][1:4] == expected


@pytest.mark.story
def test_one_that_says_the_same_is_fine_another_needs_replace_and_takes_its_place(topic: Topic) -> None:
    topic.client.send_recurring(topic.name, "tick", "old", every="1h")
    same = topic.client.recurring(topic.name)
    with pytest.raises(AlreadyExists, match="tick"):
        topic.client.send_recurring(topic.name, "tick", "new", every="30m")
    topic.client.send_recurring(topic.name, "tick", "new", every="30m", replace=True)
    assert (len(same), [each.body for each in topic.client.recurring(topic.name)]) == (1, ["new"])
    topic.advance(hours=1)
    topic.take()
    topic.advance(hours=2)
    assert topic.bodies() == ["new"] * 4
    topic.client.cancel_recurring(topic.name, "tick")


def test_a_cancelled_one_ends_and_is_gone_from_the_list(topic: Topic) -> None:
    topic.client.send_recurring(topic.name, "tick", "x", every="30m")
    topic.client.cancel_recurring(topic.name, "tick")
    topic.advance(minutes=40)
    topic.take()
    topic.advance(hours=2)
    assert topic.take() == [] and topic.client.recurring(topic.name) == []
    with pytest.raises(UnknownMessage, match="tick"):
        topic.client.cancel_recurring(topic.name, "tick")


def test_next_at_is_when_it_comes_next(topic: Topic) -> None:
    made = topic.client.send_recurring(topic.name, "yearly", "x", cron="0 9 1 1 *")
    assert made.next_at is not None and made.next_at > topic.stack.now()
    assert (made.next_at.month, made.next_at.day, made.next_at.hour) == (1, 1, 9)
    assert made.next_at.tzinfo is UTC
    years = range(made.next_at.year, made.next_at.year + 5)
    assert made.next_times == tuple(made.next_at.replace(year=each) for each in years)


def test_a_window_moves_each_day_by_the_same_time_and_the_list_shows_it(topic: Topic) -> None:
    made = topic.client.send_recurring(topic.name, "tenant-7", "x", cron="0 9 * * *", window="15m")
    assert made.next_at is not None and made.window_s == 900
    nine = made.next_at.replace(minute=0, second=0, microsecond=0)
    assert made.next_at.hour == 9 and nine < made.next_at < nine + timedelta(minutes=15)
    assert topic.client.recurring(topic.name) == [made]
    assert topic.client.send_recurring(topic.name, "tenant-7", "x", cron="0 9 * * *", window=900) == made
    topic.advance(days=3)
    times = due(topic)
    assert times == [made.next_at + timedelta(days=n) for n in range(3)]
    topic.client.cancel_recurring(topic.name, "tenant-7")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"cron": "0 9 * * *", "window": 0}, "window"),
        ({}, "cron"),
        ({"cron": "0 9 * * *", "every": "1h"}, "cron, every"),
        ({"cron": "every day"}, "cron="),
        ({"cron": "61 * * * *"}, "cron="),
        ({"every": 5}, "every="),
        ({"every": "1h", "start": datetime(2026, 1, 1)}, "start="),
        ({"cron": "0 9 * * *", "timezone": "Mars/Base"}, "timezone="),
    ],
)
def test_a_rule_that_is_none_is_refused_and_nothing_is_made(topic: Topic, given: dict[str, Any], named: str) -> None:
    with topic.nothing_is_sent(), pytest.raises(InvalidValue) as caught:
        topic.client.send_recurring(topic.name, "tick", "x", **given)
    assert named.rstrip("=") in caught.value.field
    assert topic.client.recurring(topic.name) == []
