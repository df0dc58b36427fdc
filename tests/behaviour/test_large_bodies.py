"""Point 9: bodies over SQS's limit, kept in S3 and put back by the consumer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel import Consumer, InvalidValue, MessageState

LARGE = "x" * 1_200_000


def bodies_kept(topic: Topic) -> list[str]:
    """Names the topic's bodies in S3, without the record of what was collected when."""
    return [name for name in topic.objects("payloads/") if not name.endswith("/collected.json")]


@pytest.mark.parametrize("delay", [10, "2h"])
@pytest.mark.parametrize("body", [LARGE, LARGE.encode(), {"rows": LARGE}], ids=["text", "bytes", "json"])
def test_a_body_over_sqss_limit_is_kept_in_s3_and_put_back_by_the_consumer(topic: Topic, body: Any, delay: Any) -> None:
    sent = topic.send(body, delay=delay, attributes={"kind": "report"})
    topic.advance(hours=2, seconds=2)
    [raw] = topic.everything_in(topic.queue_url())
    assert len(raw.body) < 1000 and len(bodies_kept(topic)) == 1
    [message] = Consumer(topic.client, topic.name, "billing").receive()
    found = message.bytes() if isinstance(body, bytes) else message.json() if isinstance(body, dict) else message.body
    assert found == body
    assert (message.id, message.attributes) == (sent.id, {"kind": "report"})


def test_a_plain_consumer_finds_where_the_body_is(topic: Topic) -> None:
    topic.send(LARGE)
    topic.advance(seconds=1)
    [raw] = topic.everything_in(topic.queue_url())
    [url] = json.loads(raw.body).values()
    assert url.startswith("s3://") and url.endswith(bodies_kept(topic)[0])


def test_a_large_message_is_rescheduled_cancelled_and_looked_at_like_any_other(topic: Topic) -> None:
    moved, gone = topic.send(LARGE, delay="3h"), topic.send_and_store(LARGE, delay="3h")
    status = topic.client.get(topic.name, gone.id)
    assert status.state is MessageState.WAITING and status.message is not None
    assert status.message.payload in bodies_kept(topic)
    assert topic.client.cancel(topic.name, gone.id)
    assert topic.client.reschedule(topic.name, moved.id, delay="2h")
    topic.advance(hours=4)
    assert [len(each.body) for each in topic.take()] == [len(LARGE)]


def test_a_body_that_nobody_could_hold_is_refused(topic: Topic) -> None:
    with topic.nothing_is_sent(), pytest.raises(InvalidValue, match="Split the body"):
        topic.send("x" * (100 * 1024 * 1024 + 1))


def test_a_large_body_is_kept_for_28_days_after_it_was_handed_out_and_then_collected(topic: Topic) -> None:
    if not topic.in_memory:
        pytest.skip("eight weeks of sweeps on moto: tests/local/test_end_to_end_bodies.py")
    topic.send(LARGE, delay="2h")
    for day in range(40):
        topic.send("something goes on", delay="2h")
        topic.advance(days=1)
        assert bool(bodies_kept(topic)) or day >= 28, day
        topic.take()
    assert bodies_kept(topic) == []
