"""Tests finding waiting messages, and cancelling or moving together what was found."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel import InvalidValue, Message
from tidewheel.client.finding import ChangedMessages


def carts(topic: Topic) -> None:
    """Sends messages with keys of three carts, and others."""
    messages = [
        Message(body=f"{cart}/{item}", delay=f"{10 + item}h", key=f"cart-{cart}/{item}", group=f"tenant-{cart}")
        for cart in (17, 18, 170)
        for item in range(3)
    ]
    topic.client.send_many(topic.name, [*messages, Message(body="other", delay="10h")])
    topic.advance(seconds=301)


def bodies(topic: Topic, **selected: Any) -> list[str]:
    return [each.message.body if each.message else each.key for each in topic.client.find(topic.name, **selected)]  # type: ignore[misc]


@pytest.mark.story
def test_messages_are_found_by_the_prefix_of_their_key_in_the_order_of_keys(topic: Topic) -> None:
    carts(topic)
    assert bodies(topic, key_prefix="cart-17/") == ["cart-17/0", "cart-17/1", "cart-17/2"]
    assert bodies(topic, key_prefix="cart-17") == [f"cart-{cart}/{item}" for cart in (17, 170) for item in range(3)]
    assert bodies(topic, key_prefix="none") == []
    assert len(bodies(topic, key_prefix="", everything=True)) == 9
    assert bodies(topic, key_prefix="cart-17/", after="cart-17/0") == ["cart-17/1", "cart-17/2"]
    [first, *_] = topic.client.find(topic.name, key_prefix="cart-18/")
    assert first.deliver_at - topic.stack.now() < timedelta(hours=10) and first.message is None


def test_cancelled_and_purged_messages_are_not_found_by_their_key(topic: Topic) -> None:
    carts(topic)
    first, second, *_ = topic.client.find(topic.name, key_prefix="cart-")
    assert topic.client.cancel(topic.name, second.id)
    assert bodies(topic, key_prefix="cart-17/") == ["cart-17/0", "cart-17/2"]
    assert topic.client.cancel_where(topic.name, key_prefix="cart-17/").done == 2
    assert bodies(topic, key_prefix="cart-17/", after=first.after) == []
    topic.client.purge(topic.name)
    assert bodies(topic, key_prefix="cart-") == []


def test_messages_are_found_by_group_and_due_time_with_their_bodies(topic: Topic) -> None:
    carts(topic)
    assert bodies(topic, group="tenant-17") == ["17/0", "17/1", "17/2"]
    now = topic.stack.now()
    soon = bodies(topic, first=now, end=now + timedelta(hours=10))
    assert sorted(soon) == ["17/0", "170/0", "18/0", "other"]
    assert bodies(topic, group="tenant-18", first=now + timedelta(hours=11)) == ["18/2"]
    assert len(bodies(topic, everything=True)) == 10


def test_first_is_included_and_end_is_not_whatever_selects_besides(topic: Topic) -> None:
    midnight = topic.stack.now().replace(microsecond=0) + timedelta(days=1)
    times = [midnight + timedelta(milliseconds=ms) for ms in (-1, 0, 1)] + [midnight + timedelta(days=1)]
    for place, due in enumerate(times):
        topic.send(str(place), deliver_at=due, key=f"k/{place}", group="g")
    topic.advance(seconds=301)
    for first, end in product([*times, None], repeat=2):
        inside = [
            str(place)
            for place, due in enumerate(times)
            if (first is None or due >= first) and (end is None or due < end)
        ]
        window: dict[str, Any] = {"first": first, "end": end}
        assert bodies(topic, **window, everything=True) == inside
        assert bodies(topic, **window, group="g") == inside
        assert [each[2:] for each in bodies(topic, **window, key_prefix="k/")] == inside
        assert topic.client.cancel_where(topic.name, **window, group="g", dry_run=True).matched == len(inside)
        assert topic.client.reschedule_where(topic.name, **window, group="g", by=1, dry_run=True).matched == len(inside)
    assert bodies(topic, first=0, group="g") == bodies(topic, first=-1, group="g") == ["0", "1", "2", "3"]
    assert topic.client.cancel_where(topic.name, first=midnight, end=times[3]).done == 2
    topic.advance(days=3)
    assert topic.bodies() == ["0", "3"]


def test_a_find_that_selects_nothing_or_too_much_says_how(topic: Topic) -> None:
    with pytest.raises(InvalidValue, match="everything=True"):
        topic.client.find(topic.name)
    with pytest.raises(InvalidValue, match="everything=True"):
        topic.client.cancel_where(topic.name, key_prefix="")
    with pytest.raises(InvalidValue, match="leave key_prefix out"):
        topic.client.find(topic.name, key_prefix="cart-", group="tenant-17")


def test_what_is_found_is_counted_and_cancelled(topic: Topic) -> None:
    carts(topic)
    told: list[ChangedMessages] = []
    counted = topic.client.cancel_where(topic.name, key_prefix="cart-17/", dry_run=True)
    assert (counted.matched, counted.done) == (3, 0)
    done = topic.client.cancel_where(topic.name, key_prefix="cart-17/", progress=told.append)
    assert done == told[-1] == ChangedMessages(matched=3, done=3, after="cart-17/2")
    assert topic.client.cancel_where(topic.name, group="tenant-18").done == 3
    topic.advance(hours=14)
    assert topic.bodies() == ["170/0", "170/1", "170/2", "other"]


def test_a_run_goes_on_behind_what_it_has_done(topic: Topic) -> None:
    carts(topic)

    def stop(done: ChangedMessages) -> None:
        raise RuntimeError(done.after)

    with pytest.raises(RuntimeError) as stopped:
        topic.client.reschedule_where(topic.name, key_prefix="cart-17", by="1h", progress=stop)
    rest = topic.client.reschedule_where(topic.name, key_prefix="cart-17", by="1h", after=str(stopped.value))
    assert (rest.matched, rest.done) == (5, 5)


def test_a_run_over_ledgers_that_goes_on_moves_nothing_twice(topic: Topic) -> None:
    carts(topic)

    def stop(done: ChangedMessages) -> None:
        raise RuntimeError(done.after)

    with pytest.raises(RuntimeError) as stopped:
        topic.client.reschedule_where(topic.name, everything=True, by="90m", progress=stop)
    topic.advance(minutes=10)  # what was moved is in a ledger, behind the others
    rest = topic.client.reschedule_where(topic.name, everything=True, by="90m", after=str(stopped.value))
    assert (rest.matched, rest.done) == (9, 9)


def test_nothing_is_found_behind_the_last_key(topic: Topic) -> None:
    carts(topic)
    assert bodies(topic, key_prefix="cart-17", after="z") == []


def test_what_is_found_is_moved_by_the_same_time(topic: Topic) -> None:
    carts(topic)
    done = topic.client.reschedule_where(topic.name, group="tenant-17", by="10h")
    assert (done.matched, done.done) == (3, 3)
    topic.advance(hours=14)
    assert len(topic.bodies()) == 7
    topic.advance(hours=9)
    assert topic.bodies() == ["17/0", "17/1", "17/2"]
