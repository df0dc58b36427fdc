"""Bodies over SQS's limit are kept in S3 and put back by the consumer (point 9)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.behaviour.topic import Topic, record_of
from tidewheel import (
    AsyncTidewheel,
    BodyChanged,
    Consumer,
    InvalidValue,
    MessageState,
    ReceivedMessage,
    Worker,
    parse_received,
)
from tidewheel.model.validation import MAX_PAYLOAD_BYTES

LARGE = "x" * 1_200_000


def bodies_kept(topic: Topic) -> list[str]:
    """Returns the names of the topic's bodies in S3, without the record of collections."""
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


@pytest.mark.story
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
        topic.send("x" * (MAX_PAYLOAD_BYTES + 1))


# ---- a body that is not the one that was sent
FORGED = {
    "of the same length": "y" * len(LARGE),
    "longer": LARGE + "y",
    "longer than any": LARGE * 90,
    "shorter": LARGE[:-1],
    "empty": "",
}


def each_once(readers: Iterable[str], forged: Iterable[str]) -> list[tuple[str, str]]:
    """Returns pairs in which each reader and each forged body is at least once. All readers use one check."""
    first_reader, *other_readers = readers
    first_body, *_ = bodies = [*forged]
    return [*((first_reader, body) for body in bodies), *((reader, first_body) for reader in other_readers)]


def raw_of(topic: Topic) -> dict[str, Any]:
    """The waiting message as returned by ReceiveMessage."""
    [raw] = topic.receive_raw()
    return raw


def worker_of(topic: Topic, function: Callable[[ReceivedMessage], object]) -> Worker:
    worker = Worker(topic.client, wait_s=0)
    worker.handles(f"{topic.name}/billing", at_once=1)(function)
    return worker


def run(topic: Topic, seen: list[Any]) -> None:
    """Runs a worker until the small message behind the large message arrives."""
    topic.send("small")
    topic.advance(seconds=2)
    stop = threading.Event()

    def work(message: Any) -> None:
        (stop.set if message.body == "small" else lambda: seen.append(message.body))()

    worker_of(topic, work).run(stop=stop)


def receive_async(topic: Topic) -> list[str]:
    async def story() -> list[str]:
        async with AsyncTidewheel(client=topic.client) as tw:
            return [each.body for each in await tw.receive(topic.name, "billing")]

    return asyncio.run(story())


def handle_event(topic: Topic, seen: list[Any]) -> None:
    record = record_of(raw_of(topic))
    answer = worker_of(topic, lambda message: seen.append(message.body)).lambda_handler({"Records": [record]})
    assert answer == {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}


PASSES_OVER: dict[str, Callable[[Topic, list[Any]], object]] = {
    "receive": lambda topic, seen: seen.extend(topic.client.receive(topic.name, "billing")),
    "receive of a consumer": lambda topic, seen: seen.extend(Consumer(topic.client, topic.name, "billing").receive()),
    "receive of the async client": lambda topic, seen: seen.extend(receive_async(topic)),
    "a worker": run,
    "a Lambda event": handle_event,
}
RAISES: dict[str, Callable[[Topic, list[Any]], object]] = {
    "decode": lambda topic, _: Consumer(topic.client, topic.name, "billing").decode(raw_of(topic)),
    "a record handler": lambda topic, seen: worker_of(topic, seen.append).record_handler(record_of(raw_of(topic))),
    "retry_later": lambda topic, _: Consumer(topic.client, topic.name, "billing").retry_later(
        parse_received(raw_of(topic)), delay="1h"
    ),
}


@pytest.mark.parametrize(("reader", "how"), each_once(PASSES_OVER, FORGED))
def test_a_forged_body_is_passed_over_by_every_reader_and_never_handed_out(
    topic: Topic, reader: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    sent = topic.send(LARGE)
    topic.advance(seconds=1)
    [name] = bodies_kept(topic)
    topic.overwrite(name, FORGED[how].encode())
    seen: list[Any] = []
    PASSES_OVER[reader](topic, seen)
    assert seen == []
    assert f"object {name} is not the body that message {sent.id} was sent with" in caplog.text
    assert [parse_received_id(each) for each in topic.everything_in(topic.queue_url())] == [sent.id]
    topic.overwrite(name, LARGE.encode())  # as a restored version
    topic.advance(seconds=60)
    assert topic.bodies() == [LARGE]


def parse_received_id(raw: Any) -> str:
    return str(json.loads(raw.message_attributes["tidewheel"]["StringValue"])["id"])


@pytest.mark.parametrize(("reader", "how"), each_once(RAISES, FORGED))
def test_a_forged_body_is_an_error_that_names_the_message_and_the_object(topic: Topic, reader: str, how: str) -> None:
    sent = topic.send(LARGE.encode())
    topic.advance(seconds=1)
    [name] = bodies_kept(topic)
    topic.overwrite(name, FORGED[how].encode())
    seen: list[Any] = []
    with pytest.raises(BodyChanged, match="restore its first version, or delete the message") as caught:
        RAISES[reader](topic, seen)
    assert (caught.value.message_id, caught.value.object_name) == (sent.id, name)
    assert seen == [] and bodies_kept(topic) == [name]
    assert len(topic.everything_in(topic.queue_url())) == 1


@pytest.mark.parametrize("off", [-1, 1])
def test_a_body_of_another_length_than_the_header_says_is_not_handed_out(topic: Topic, off: int) -> None:
    topic.send(LARGE)
    topic.advance(seconds=1)
    raw = raw_of(topic)
    header = json.loads(raw["MessageAttributes"]["tidewheel"]["StringValue"])
    raw["MessageAttributes"]["tidewheel"]["StringValue"] = json.dumps(header | {"bytes": len(LARGE) + off})
    with pytest.raises(BodyChanged):
        Consumer(topic.client, topic.name, "billing").decode(raw)


def test_a_message_with_a_forged_body_is_not_moved(topic: Topic) -> None:
    sent = topic.send_and_store(LARGE, delay="3h")
    [name] = bodies_kept(topic)
    topic.overwrite(name, b"forged")
    with pytest.raises(BodyChanged, match=f"message {sent.id} was sent with"):
        topic.client.reschedule(topic.name, sent.id, delay="2h")
    assert bodies_kept(topic) == [name]
    topic.overwrite(name, LARGE.encode())
    assert topic.client.reschedule(topic.name, sent.id, delay="2h")
    topic.advance(hours=3)
    assert topic.bodies() == [LARGE]


@pytest.mark.parametrize("step", ["moved", "tried again", "parked"])
def test_a_body_is_still_checked_after_its_message_took_another_way(topic: Topic, step: str) -> None:
    sent = topic.send_and_store(LARGE, delay="2h")
    before = bodies_kept(topic)
    if step == "parked":
        topic.client.pause(topic.name, "billing")
    if step == "moved":
        assert topic.client.reschedule(topic.name, sent.id, delay="3h")
    topic.advance(hours=4)
    if step == "tried again":
        consumer = Consumer(topic.client, topic.name, "billing")
        [message] = consumer.receive()
        consumer.retry_later(message, delay="2h")
        topic.advance(hours=2, seconds=1)
    if step == "parked":
        topic.client.resume(topic.name, "billing")
        topic.advance(minutes=10)
    [name] = set(bodies_kept(topic)) - set(before) or set(before)
    topic.overwrite(name, b"forged")
    assert topic.bodies() == []
    [left] = topic.everything_in(topic.queue_url())
    header = json.loads(left.message_attributes["tidewheel"]["StringValue"])
    assert (header["ref"], header["bytes"], len(header["sha256"])) == (name, len(LARGE), 64)
