"""An expired message is never delivered (point 4)."""

from __future__ import annotations

import pytest

from tests.behaviour.topic import Topic
from tidewheel import Message, MessageState
from tidewheel.telemetry.function import Telemetry
from tidewheel.telemetry.metrics import EXPIRED, Metric


@pytest.mark.parametrize("delay", [60, "30m", "2h"])
def test_an_expired_message_is_never_delivered_and_one_that_has_not_expired_is(topic: Topic, delay: str) -> None:
    topic.client.pause(topic.name, "billing")
    topic.send("milk", delay=delay, expires_in="10m")
    topic.send("wine", delay=delay, expires_in="30d")
    topic.advance(hours=3)
    topic.client.resume(topic.name, "billing")
    topic.advance(minutes=10)
    assert topic.bodies() == ["wine"]


@pytest.mark.story(alone=True)  # the metric is the deployed functions'
@pytest.mark.parametrize(
    ("delay", "resumed_min"),
    [
        (60, 181),
        ("2h", 181),
        ("2h", 180),  # on the sweep's tick: it hands out first
    ],
)
def test_an_expired_message_is_counted(
    topic: Topic, delay: str, resumed_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[float] = []

    def count(self: Telemetry, metric: Metric, value: float) -> None:
        if metric is EXPIRED:
            counted.append(value)

    monkeypatch.setattr(Telemetry, "add", count)
    topic.client.pause(topic.name, "billing")
    topic.client.send_many(topic.name, [Message(body="milk", delay=delay, expires_in="10m")] * 3)
    start = topic.stack.now()
    topic.advance(minutes=resumed_min - (start.hour * 60 + start.minute) % 5, seconds=-start.second)
    assert sum(counted) == 0
    topic.client.resume(topic.name, "billing")
    topic.advance(minutes=10)
    assert sum(counted) == 3


def test_a_message_comes_in_time_with_its_expiry(topic: Topic) -> None:
    sent = topic.send("milk", delay="2h", expires_in="10m")
    topic.advance(hours=2, seconds=1)
    [message] = topic.take()
    assert message.expires_at is not None
    assert message.expires_at.timestamp() * 1000 == sent.deliver_at_ms + 600_000


def test_peek_leaves_out_what_has_expired_and_get_says_so(topic: Topic) -> None:
    topic.client.pause(topic.name, "billing")
    sent = topic.send_and_store("milk", delay="2h", expires_in="10m")
    assert [each.body for each in topic.client.peek(topic.name)] == ["milk"]
    topic.advance(hours=3)
    assert topic.client.get(topic.name, sent.id).state is MessageState.EXPIRED
    assert topic.client.peek(topic.name) == []
