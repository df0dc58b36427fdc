"""Tests the consumer, Powertools, and plain consumers (point 10)."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from tests.behaviour.topic import Topic, record_of
from tidewheel import Consumer, ConsumerCounts, InvalidValue, ReceivedMessage, Tidewheel, Worker
from tidewheel.clock import SystemClock


@pytest.mark.parametrize(
    ("body", "carried"), [("héllo", "héllo"), ({"id": 17}, '{"id":17}'), (b"\x00\xff", "AP8=")], ids=str
)
@pytest.mark.parametrize("delay", [5, "2h"])
def test_a_plain_consumer_sees_the_body_unchanged_and_one_extra_attribute(
    topic: Topic, body: Any, carried: str, delay: Any
) -> None:
    topic.send(body, delay=delay, attributes={"kind": "reminder"}, key="order 17")
    topic.advance(hours=2, seconds=2)
    [raw] = topic.receive_raw()
    assert raw["Body"] == carried
    assert set(raw["MessageAttributes"]) == {"kind", "tidewheel"}
    assert raw["MessageAttributes"]["kind"]["StringValue"] == "reminder"
    assert json.loads(raw["MessageAttributes"]["tidewheel"]["StringValue"])["key"] == "order 17"


@pytest.mark.story
def test_a_consumer_decodes_what_boto3_lambda_and_powertools_hand_over(topic: Topic) -> None:
    sent = topic.send({"id": 17}, attributes={"kind": "reminder"})
    topic.advance(seconds=1)
    consumer = Consumer(topic.client, topic.name, "billing")
    [raw] = topic.receive_raw()
    for each in (raw, record_of(raw)):
        message = consumer.decode(each)
        assert (message.id, message.json(), message.attributes) == (sent.id, {"id": 17}, {"kind": "reminder"})
    with pytest.raises(InvalidValue, match="Tidewheel delivered"):
        consumer.decode({"Body": "x", "MessageId": "1", "ReceiptHandle": "r"})


# ---- a worker and its function


def due(topic: Topic, count: int, function: Callable[[ReceivedMessage], object], **handles: Any) -> Worker:
    """Returns a worker with a number of receivable messages."""
    for number in range(count):
        topic.send(str(number))
    topic.advance(seconds=1)
    worker = Worker(topic.client, wait_s=0, finish_s=0)
    worker.handles(f"{topic.name}/billing", retry=None, **handles)(function)
    return worker


async def never_awaited(message: ReceivedMessage) -> None:
    pytest.fail(message.body)


async def unbegun_async_generator(message: ReceivedMessage) -> AsyncIterator[str]:
    yield message.body


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "makes",
    [never_awaited, unbegun_async_generator, lambda message: (each for each in [message])],
    ids=["coroutine", "asynchronous generator", "generator"],
)
def test_no_message_is_acknowledged_whose_function_returned_work_that_nobody_does(
    topic: Topic, makes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stop = threading.Event()

    def wanted(message: ReceivedMessage) -> object:
        stop.set()
        return makes(message)

    worker = due(topic, 1, wanted)
    worker.run(stop=stop)
    assert "give a function that returns None, or `async def`" in caplog.text
    topic.advance(seconds=61)
    event = {"Records": [record_of(each) for each in topic.receive_raw()]}
    assert len(worker.lambda_handler(event)["batchItemFailures"]) == 1
    assert worker.counts[f"{topic.name}/billing"] == ConsumerCounts(failed=2)


def test_what_makes_a_coroutine_runs_in_the_event_loop_however_it_is_wrapped(topic: Topic) -> None:
    loops = []

    async def handle(message: ReceivedMessage) -> None:
        loops.append(asyncio.get_running_loop())

    @wraps(handle)
    def wrapper(message: ReceivedMessage) -> Any:
        return handle(message)

    async def work() -> None:
        for function in (wrapper, partial(handle), SimpleNamespace(handle=handle).handle):
            async with due(topic, 1, function) as worker:
                while not worker.counts[f"{topic.name}/billing"].handled:
                    await asyncio.sleep(0.01)
        assert loops == [asyncio.get_running_loop()] * 3

    asyncio.run(asyncio.wait_for(work(), 60))
    assert topic.bodies() == []


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_burst_is_handled_side_by_side_by_default(topic: Topic, kind: str) -> None:
    all_begun, stop, begun = threading.Barrier(10), threading.Event(), list[str]()

    def handle(message: ReceivedMessage) -> None:
        all_begun.wait(60)
        stop.set()

    async def handle_async(message: ReceivedMessage) -> None:
        begun.append(message.body)
        while len(begun) < 10:
            await asyncio.sleep(0.01)
        stop.set()

    worker = due(topic, 10, handle if kind == "plain" else handle_async)
    worker._finish_s = 20
    worker.run(stop=stop)
    assert worker.counts[f"{topic.name}/billing"] == ConsumerCounts(handled=10)


def test_coroutines_that_have_no_time_left_go_back_at_once_and_the_log_counts_them_only(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidewheel")

    async def work() -> None:
        begun = asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            begun.set()
            await asyncio.Event().wait()

        async with due(topic, 1, handle):
            await asyncio.wait_for(begun.wait(), 60)

    asyncio.run(asyncio.wait_for(work(), 60))
    late, told = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert late == ("WARNING", f"{topic.name}/billing: no time is left for 1 messages in hand; they come again")
    assert told[0] == "INFO" and "it comes again at once" in told[1]
    assert topic.bodies() == ["0"]


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_message_whose_function_ends_the_program_waits_for_its_time_out_and_the_rest_go_back(
    topic: Topic, at_once: int
) -> None:
    begun: list[str] = []

    def crash(message: ReceivedMessage) -> None:
        begun.append(message.body)
        sys.exit(1)

    with pytest.raises(SystemExit):
        due(topic, 3, crash, at_once=at_once).run()
    assert 1 <= len(begun) <= at_once
    assert sorted(topic.bodies() + begun) == ["0", "1", "2"]
    topic.advance(seconds=61)
    assert set(topic.bodies()) >= set(begun)


def test_a_client_takes_a_session_that_only_makes_clients() -> None:
    made = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    session: Any = SimpleNamespace(client=made.client)
    tw = Tidewheel(session=session)
    assert isinstance(tw.core.clock, SystemClock)
    assert tw.core.connection.client("sqs").meta.region_name == "us-east-1"
