"""Topics with dedicated ingest queues, with their accepted and refused messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.infra.variants import DEDICATED, local_template_of
from tests.infra.variants import MINE as OWN
from tests.marks import topic_state
from tidewheel.errors import WrongQueue
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import IdSource, Message
from tidewheel.model.pack import PACK_ATTRIBUTE, packs
from tidewheel.model.settings import ServiceSettings, parameter_name
from tidewheel.model.validation import check_message

SHARED = "invoices"
URGENT, BULK = 0, 1
DELAYS = {URGENT: "5m", BULK: "2d"}
ONE_RECEIVE = ({"minutes": 1}, {"minutes": 6})


class Stack:
    """A local stack with one topic on dedicated queues and another on shared queues."""

    def __init__(self, local: LocalTidewheel) -> None:
        self.local = local
        self.client = local.client()
        for topic in (OWN, SHARED):
            self.client.create_topic(topic)
            self.client.create_subscription(topic, "mail")
        parameter = local.session.client("ssm").get_parameter(Name=parameter_name("tidewheel"))
        self.settings = ServiceSettings.from_json(parameter["Parameter"]["Value"], "the parameter")

    def put(self, queue_url: str, topic: str, delay: str) -> None:
        """Sends a pack with one message to a queue, as anyone with permission for the queue could."""
        state = topic_state(self.client, topic)
        now_ms = self.local.clock.now_ms()
        message = check_message(Message(body=f"for {topic}", delay=delay), IdSource(), now_ms)
        [(_, data)] = packs(topic, state.generation, now_ms, [message])
        attributes: Any = {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": data}}
        sqs = self.local.session.client("sqs")
        sqs.send_message(QueueUrl=queue_url, MessageBody=topic, MessageAttributes=attributes)

    def depth(self, queue_url: str) -> int:
        """How many messages a queue holds, receivable or not."""
        return len(self.local.queue(queue_url).everything)

    def bodies(self, topic: str) -> list[str]:
        return [message.body for message in self.local.receive(topic, "mail")]


@pytest.fixture
def stack() -> Iterator[Stack]:
    with LocalTidewheel(template=local_template_of(DEDICATED)) as local:
        yield Stack(local)


def test_a_message_of_a_topic_with_queues_of_its_own_goes_through_them(stack: Stack) -> None:
    for kind in (URGENT, BULK):
        stack.client.send(OWN, "mine", delay=DELAYS[kind])
        stack.client.send(SHARED, "ours", delay=DELAYS[kind])
        assert stack.depth(stack.settings.topic_queues[OWN][kind]) == 1
        assert stack.depth(stack.settings.ingest_queues(SHARED)[kind]) == 1
    shared = (stack.settings.urgent_queue_url, stack.settings.bulk_queue_url)
    assert stack.settings.ingest_queues(SHARED) == shared != stack.settings.ingest_queues(OWN)
    stack.local.advance(days=2)
    assert stack.bodies(OWN) == ["mine", "mine"]
    assert stack.bodies(SHARED) == ["ours", "ours"]
    assert stack.local.failures == []


@pytest.mark.parametrize(
    ("queue_of", "topic"),
    [
        pytest.param(OWN, SHARED, id="another topic through a topic's own queue"),
        pytest.param(OWN, "orders2", id="one topic with queues through another's"),
        pytest.param(SHARED, OWN, id="a topic with queues of its own through the shared ones"),
    ],
)
def test_a_pack_that_came_through_the_wrong_queue_is_refused_in_one_call_and_is_never_delivered(
    stack: Stack, queue_of: str, topic: str
) -> None:
    if topic == "orders2":
        stack.client.create_topic(topic)
        stack.client.create_subscription(topic, "mail")
    for kind in (URGENT, BULK):
        queue_url = stack.settings.ingest_queues(queue_of)[kind]
        stack.put(queue_url, topic, DELAYS[kind])
        stack.put(queue_url, queue_of, DELAYS[kind])  # the rest of the batch
        stack.local.advance(**ONE_RECEIVE[kind])
        assert (stack.depth(queue_url), stack.depth(stack.settings.refused_queue_url)) == (0, 1 + kind)
        assert stack.local.invocations["ingest"] == 1 + kind
    stack.local.advance(days=2)
    assert stack.bodies(topic) == []
    assert stack.bodies(queue_of) == [f"for {queue_of}"] * 2
    assert stack.local.failures == []


def test_a_redrive_does_not_bring_a_refused_pack_into_another_topics_queue(stack: Stack) -> None:
    """An operator's redrive must not move packs from the shared queues to a topic with dedicated queues."""
    stack.put(stack.settings.bulk_queue_url, OWN, DELAYS[BULK])
    stack.local.advance(**ONE_RECEIVE[BULK])
    assert sum(each.messages for each in stack.client.redrive_service()) == 1
    stack.local.advance(days=2)
    assert stack.bodies(OWN) == []
    assert stack.depth(stack.settings.refused_queue_url) == 1


def test_a_redrive_does_not_bring_a_plain_message_into_another_topics_queue(stack: Stack) -> None:
    """A sender to the shared queue has no right to send to a topic with queues of its own."""
    named: Any = {"tidewheel.topic": {"DataType": "String", "StringValue": OWN}}
    url = stack.settings.urgent_queue_url
    stack.local.session.client("sqs").send_message(QueueUrl=url, MessageBody="x", MessageAttributes=named)
    stack.local.advance(**ONE_RECEIVE[URGENT])
    assert stack.depth(stack.settings.refused_queue_url) == 1
    assert sum(each.messages for each in stack.client.redrive_service()) == 0
    stack.local.advance(days=2)
    assert stack.bodies(OWN) == []


def test_the_log_says_which_queue_and_which_topic_did_not_fit(caplog: pytest.LogCaptureFixture) -> None:
    with LocalTidewheel(template=local_template_of(DEDICATED)) as local:
        stack = Stack(local)
        stack.put(stack.settings.urgent_queue_url, OWN, "5m")
        with caplog.at_level(logging.WARNING, logger="ingest"):
            local.advance(seconds=1)
    [record] = [each for each in caplog.records if each.getMessage() == "pack refused"]
    assert record.exc_info is not None
    error = record.exc_info[1]
    assert isinstance(error, WrongQueue) and "IngestionUrgentQueue" in str(error) and repr(OWN) in str(error)
