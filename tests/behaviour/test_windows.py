"""A window spreads due times, and every copy of a message has the same due time."""

from __future__ import annotations

import asyncio

import pytest

from tests.behaviour.topic import Topic
from tidewheel import AsyncTidewheel, BufferedSender, InvalidValue, Message

MINUTE_MS = 60_000
WINDOW_MS = 15 * MINUTE_MS


def due_at_nine(topic: Topic) -> tuple[float, int]:
    """A time in hours, in Unix seconds and milliseconds."""
    nine_ms = topic.stack.clock.now_ms() // 1000 * 1000 + 120 * MINUTE_MS
    return nine_ms / 1000, nine_ms


def test_messages_for_nine_o_clock_come_evenly_over_the_window(topic: Topic) -> None:
    nine, nine_ms = due_at_nine(topic)
    receipts = topic.client.send_many(topic.name, [Message(body="x", deliver_at=nine, window="15m")] * 600)
    shifts = [each.deliver_at_ms - nine_ms for each in receipts]
    assert all(0 <= each < WINDOW_MS for each in shifts)
    by_minute = [sum(each // MINUTE_MS == minute for each in shifts) for minute in range(15)]
    assert min(by_minute) >= 15 and max(by_minute) <= 75  # 40 each: four standard deviations are 24
    topic.advance(hours=2, minutes=16)
    assert sorted(each.id for each in topic.take()) == sorted(each.id for each in receipts)


def test_messages_with_one_key_have_one_shift_and_a_replacement_keeps_it(topic: Topic) -> None:
    nine, _ = due_at_nine(topic)
    first = topic.send("old", deliver_at=nine, window="15m", key="tenant-7")
    topic.advance(minutes=6)
    second = topic.send("new", deliver_at=nine, window="15m", key="tenant-7", replace=True)
    assert second.deliver_at_ms == first.deliver_at_ms
    others = [topic.send("x", deliver_at=nine, window="15m", key=f"tenant-{n}").deliver_at_ms for n in range(10, 30)]
    assert len(set(others)) > 10
    topic.advance(hours=3)
    assert "old" not in topic.bodies()


def test_every_way_to_send_takes_a_window(topic: Topic) -> None:
    nine, nine_ms = due_at_nine(topic)

    async def one() -> int:
        async with AsyncTidewheel(client=topic.client) as tw:
            return (await tw.send(topic.name, "x", deliver_at=nine, window=900, key="k")).deliver_at_ms

    with BufferedSender(topic.client) as sender:
        buffered = sender.add(topic.name, "x", deliver_at=nine, window="15m", key="k")
    dues = {asyncio.run(one()), buffered.result().deliver_at_ms}
    dues.add(topic.send("x", deliver_at=nine, window="900s", key="k").deliver_at_ms)
    [due_ms] = dues
    assert nine_ms < due_ms < nine_ms + WINDOW_MS


def test_a_message_expires_counted_from_its_shifted_time(topic: Topic) -> None:
    sent = topic.send_and_store("milk", delay="2h", window="6h", key="k", expires_in="10m")
    [waiting] = topic.client.peek(topic.name)
    assert waiting.expires_at is not None
    assert (waiting.expires_at - sent.deliver_at).total_seconds() == 600


def test_a_rescheduled_message_is_due_at_the_new_time_without_its_window(topic: Topic) -> None:
    sent = topic.send_and_store("milk", delay="2h", window="6h")
    now_ms = topic.stack.clock.now_ms()
    moved = topic.client.reschedule(topic.name, sent.id, delay="90m")
    assert moved
    assert moved.receipt.deliver_at_ms == now_ms + 90 * MINUTE_MS  # type: ignore[union-attr]


def test_a_window_that_ends_after_ten_years_is_refused_whatever_the_shift(topic: Topic) -> None:
    for _ in range(5):
        with topic.nothing_is_sent(), pytest.raises(InvalidValue, match="must end within ten years"):
            topic.send("x", delay="3652d 23h", window="2h")
    assert topic.send("x", delay="3652d 23h", window="1h")
