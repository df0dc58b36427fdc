"""Point 10: the consumer, Powertools, and plain consumers."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from tests.behaviour.topic import Topic
from tidewheel import Consumer, ConsumerCounts, InvalidValue, ReceivedMessage, RetryLater


def receive_raw(topic: Topic) -> list[dict[str, Any]]:
    """Takes messages as plain boto3 does."""
    answer = topic.sqs.receive_message(
        QueueUrl=topic.queue_url(),
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["All"],
    )
    found: list[dict[str, Any]] = answer.get("Messages", [])
    return found


def event_of(raws: list[dict[str, Any]]) -> dict[str, Any]:
    """The messages as an event source mapping hands them to a Lambda function."""
    return {
        "Records": [
            {
                "messageId": raw["MessageId"],
                "receiptHandle": raw["ReceiptHandle"],
                "body": raw["Body"],
                "attributes": {"ApproximateReceiveCount": "1"},
                "messageAttributes": {
                    name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
                    for name, value in raw.get("MessageAttributes", {}).items()
                },
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:orders",
                "awsRegion": "us-east-1",
            }
            for raw in raws
        ]
    }


@pytest.mark.parametrize(
    ("body", "carried"), [("héllo", "héllo"), ({"id": 17}, '{"id":17}'), (b"\x00\xff", "AP8=")], ids=str
)
@pytest.mark.parametrize("delay", [5, "2h"])
def test_a_plain_consumer_sees_the_body_unchanged_and_one_extra_attribute(
    topic: Topic, body: Any, carried: str, delay: Any
) -> None:
    topic.send(body, delay=delay, attributes={"kind": "reminder"}, key="order 17")
    topic.advance(hours=2, seconds=2)
    [raw] = receive_raw(topic)
    assert raw["Body"] == carried
    assert set(raw["MessageAttributes"]) == {"kind", "tidewheel"}
    assert raw["MessageAttributes"]["kind"]["StringValue"] == "reminder"
    assert json.loads(raw["MessageAttributes"]["tidewheel"]["StringValue"])["key"] == "order 17"


def test_a_consumer_decodes_what_boto3_lambda_and_powertools_hand_over(topic: Topic) -> None:
    sent = topic.send({"id": 17}, attributes={"kind": "reminder"})
    topic.advance(seconds=1)
    consumer = Consumer(topic.client, topic.name, "billing")
    [raw] = receive_raw(topic)
    for each in (raw, event_of([raw])["Records"][0]):
        message = consumer.decode(each)
        assert (message.id, message.json(), message.attributes) == (sent.id, {"id": 17}, {"kind": "reminder"})
    with pytest.raises(InvalidValue, match="Tidewheel delivered"):
        consumer.decode({"Body": "x", "MessageId": "1", "ReceiptHandle": "r"})


def test_it_works_with_powertools_batch_processor_and_one_failure_fails_one_record(topic: Topic) -> None:
    for body in ("good", "bad", "later"):
        topic.send(body)
    topic.advance(seconds=1)
    consumer = Consumer(topic.client, topic.name, "billing")
    seen: list[str] = []

    def work(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if message.body == "bad":
            raise ValueError(message.body)
        if message.body == "later":
            raise RetryLater(delay="1m")

    event = event_of(receive_raw(topic))
    answer = process_partial_response(
        event=event,
        record_handler=consumer.record_handler(work),
        processor=BatchProcessor(event_type=EventType.SQS),
        context=None,
    )
    [bad] = [each["messageId"] for each in event["Records"] if each["body"] == "bad"]
    assert answer == {"batchItemFailures": [{"itemIdentifier": bad}]}
    assert sorted(seen) == ["bad", "good", "later"]
    assert consumer.counts == ConsumerCounts(handled=1, failed=1, retried=1)


def test_every_copy_of_a_message_has_its_id_so_that_work_is_idempotent_by_it(topic: Topic) -> None:
    sent = topic.send("x")
    copies = topic.copies_of_what_is_on_its_way()
    topic.advance(seconds=1)
    topic.bring_again(copies)
    topic.advance(seconds=1)
    assert [each.id for each in topic.take()] == [sent.id] * 2


def test_a_worker_handles_each_message_and_what_it_raises_brings_the_message_again(topic: Topic) -> None:
    for body in ("good", "bad"):
        topic.send(body)
    topic.advance(seconds=1)
    consumer, stop, seen = Consumer(topic.client, topic.name, "billing"), threading.Event(), []

    def work(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if len(seen) == 2:
            stop.set()
        if message.body == "bad":
            raise ValueError(message.body)

    consumer.run(work, stop=stop, wait_s=0)
    assert sorted(seen) == ["bad", "good"]
    topic.advance(seconds=61)
    assert topic.bodies() == ["bad"]
    assert consumer.counts == ConsumerCounts(handled=1, failed=1)
