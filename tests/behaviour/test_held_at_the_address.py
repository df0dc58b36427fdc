"""Tests plain messages of drivers that also set SQS's DelaySeconds, which holds a message at the address."""

from __future__ import annotations

import pytest

from tests.behaviour.test_plain import attributes
from tests.behaviour.topic import Topic
from tidewheel.model.plain import PREFIX


@pytest.mark.parametrize(
    ("held_s", "delay", "comes_s"), [(600, "20m", 1200), (900, "3d", 259_200), (900, "60s", 900), (900, None, 900)]
)
def test_a_message_that_sqs_holds_comes_after_the_longer_of_the_two_delays(
    topic: Topic, held_s: int, delay: str | None, comes_s: int
) -> None:
    wishes = {"topic": topic.name} | ({} if delay is None else {"delay": delay})
    topic.sqs.send_message(
        QueueUrl=topic.client.core.connection.settings.address(topic.name),
        MessageBody="held",
        DelaySeconds=held_s,
        MessageAttributes=attributes(**{PREFIX + name: value for name, value in wishes.items()}),
    )
    topic.advance(seconds=comes_s - 1)
    assert topic.bodies() == []
    topic.advance(seconds=4)
    assert topic.bodies() == ["held"]
