"""Tests the consumer, Powertools, and plain consumers (point 10)."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import AsyncIterator
from functools import partial, wraps
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from tests.behaviour.topic import Topic, record_of
from tidewheel import Consumer, ConsumerCounts, InvalidValue, ReceivedMessage, Tidewheel
from tidewheel.client.worker import run as worker
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


def due(topic: Topic, count: int) -> Consumer:
    """Returns a consumer of a number of receivable messages."""
    for number in range(count):
        topic.send(str(number))
    topic.advance(seconds=1)
    return Consumer(topic.client, topic.name, "billing")


async def never_awaited(message: ReceivedMessage) -> None:
    pytest.fail(message.body)


def never_called(message: ReceivedMessage) -> None:
    pytest.fail(message.body)


@pytest.mark.parametrize("function", [never_awaited, partial(never_awaited)])
def test_a_coroutine_function_is_refused_where_nobody_awaits_it(topic: Topic, function: Any) -> None:
    consumer, stopped = due(topic, 1), threading.Event()
    stopped.set()
    for refuses in (
        lambda: consumer.run(function, stop=stopped),
        lambda: consumer.record_handler(function),
        lambda: consumer.handle_event({"Records": []}, function),
    ):
        with pytest.raises(InvalidValue, match="for a coroutine function, use run_async"):
            refuses()
    assert topic.bodies() == ["0"]


@pytest.mark.parametrize("function", [never_called, partial(never_called), Topic.send])
def test_a_plain_function_is_refused_before_run_async_calls_it(topic: Topic, function: Any) -> None:
    consumer, stopped = due(topic, 1), threading.Event()
    stopped.set()
    with pytest.raises(InvalidValue, match="for a plain function, use run"):
        asyncio.run(consumer.run_async(function, stop=stopped))
    assert topic.bodies() == ["0"]


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
    consumer, stop = due(topic, 1), threading.Event()

    def wanted(message: ReceivedMessage) -> object:
        stop.set()
        return makes(message)

    consumer.run(wanted, stop=stop, wait_s=0)
    assert "for a coroutine function, use run_async" in caplog.text
    topic.advance(seconds=61)
    event = {"Records": [record_of(each) for each in topic.receive_raw()]}
    assert len(consumer.handle_event(event, wanted)["batchItemFailures"]) == 1
    assert consumer.counts == ConsumerCounts(failed=2)


def test_run_async_does_not_acknowledge_what_a_lambda_returned_that_cannot_be_awaited(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    consumer, stop = due(topic, 1), threading.Event()
    asyncio.run(consumer.run_async(lambda _: stop.set(), stop=stop, wait_s=0))  # type: ignore[arg-type, return-value]
    assert "for a plain function, use run" in caplog.text
    topic.advance(seconds=61)
    assert topic.bodies() == ["0"]


def test_run_async_takes_a_plain_wrapper_of_a_coroutine_function_and_what_makes_a_task(topic: Topic) -> None:
    consumer, stop = due(topic, 2), threading.Event()

    async def handle(message: ReceivedMessage) -> None:
        stop.set()

    @wraps(handle)
    def wrapper(message: ReceivedMessage) -> Any:
        return handle(message)

    asyncio.run(consumer.run_async(wrapper, stop=stop, wait_s=0, at_once=1, batch=1))
    stop.clear()
    task: Any = lambda message: asyncio.ensure_future(handle(message))  # noqa: E731
    asyncio.run(consumer.run_async(task, stop=stop, wait_s=0, at_once=1, batch=1))
    assert consumer.counts == ConsumerCounts(handled=2)


def test_run_async_handles_a_burst_side_by_side_by_default(topic: Topic) -> None:
    consumer, stop = due(topic, 10), threading.Event()

    async def work() -> None:
        begun, all_begun = list[str](), asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            begun.append(message.body)
            if len(begun) == 10:
                stop.set()
                all_begun.set()
            await all_begun.wait()

        await asyncio.wait_for(consumer.run_async(handle, stop=stop, wait_s=0, finish_s=0), 60)

    asyncio.run(work())
    assert consumer.counts == ConsumerCounts(handled=10)


def test_a_run_receives_ten_at_a_time_once_it_has_begun_as_many(topic: Topic) -> None:
    consumer, stop = due(topic, 20), threading.Event()
    taken = count_receives(consumer)

    def handle(_: ReceivedMessage) -> None:
        if consumer.counts.handled == 19:
            stop.set()

    consumer.run(handle, stop=stop, wait_s=0)
    assert taken == [1, 1, 2, 4, 8, 4] and topic.bodies() == []


def test_where_calls_are_slow_a_run_receives_what_can_begin_at_once(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, stop = due(topic, 6), threading.Event()
    taken = count_receives(consumer)
    monkeypatch.setattr(worker, "BUFFERED_S", 1e-9)

    def handle(_: ReceivedMessage) -> None:
        if consumer.counts.handled == 5:
            stop.set()

    consumer.run(handle, stop=stop, wait_s=0)
    assert taken == [1] * 6


def count_receives(consumer: Consumer) -> list[int]:
    """Returns a list of the number of messages of each receive of a consumer."""
    taken: list[int] = []
    take = consumer._take

    def counted(most: int, wait_s: int) -> list[ReceivedMessage]:
        found = take(most, wait_s)
        taken.append(len(found))
        return found

    consumer._take = counted  # type: ignore[method-assign, assignment]
    return taken


@pytest.mark.parametrize("at_once", [1, 3])
def test_coroutines_that_have_no_time_left_go_back_at_once_and_the_log_counts_them_only(
    topic: Topic, at_once: int, caplog: pytest.LogCaptureFixture
) -> None:
    consumer, over = due(topic, 1), threading.Event()
    caplog.set_level(logging.INFO, "tidewheel")
    take = consumer._take

    def polls(most: int, wait_s: int) -> list[ReceivedMessage]:
        return take(most, wait_s) or [][: over.wait(60)]

    consumer._take = polls  # type: ignore[method-assign, assignment]

    async def work() -> None:
        begun = asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            begun.set()
            await asyncio.Event().wait()

        run = asyncio.create_task(consumer.run_async(handle, wait_s=0, at_once=at_once, finish_s=0))
        await asyncio.wait_for(begun.wait(), 60)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(run, 60)

    asyncio.run(work())
    over.set()
    assert [(each.levelname, each.getMessage().partition(" ")[2]) for each in caplog.records][:1] == [
        ("WARNING", "no time is left for 1 messages in hand; they come again")
    ]
    [told] = [each for each in caplog.records[1:] if "not handled" in each.getMessage()]
    assert told.levelname == "INFO" and "it comes again at once" in told.getMessage()
    assert topic.bodies() == ["0"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("at_once", each) for each in (0, 51, 1.5, "2", inf, True, None)]
    + [("finish_s", each) for each in (-1, None, "2", True, nan)]
    + [("batch", each) for each in (0, 1.5, "2", True)],
)
def test_a_worker_names_a_value_that_it_cannot_use(topic: Topic, name: str, value: Any) -> None:
    consumer, stopped = Consumer(topic.client, topic.name, "billing"), threading.Event()
    stopped.set()
    with pytest.raises(InvalidValue, match=f"^{name}={value!r}: give "):
        consumer.run(never_called, stop=stopped, **{name: value})
    with pytest.raises(InvalidValue, match=f"^{name}={value!r}: give "):
        asyncio.run(consumer.run_async(never_awaited, stop=stopped, **{name: value}))


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_message_whose_function_ends_the_program_waits_for_its_time_out_and_the_rest_go_back(
    topic: Topic, at_once: int
) -> None:
    consumer = due(topic, 3)
    begun: list[str] = []

    def crash(message: ReceivedMessage) -> None:
        begun.append(message.body)
        sys.exit(1)

    with pytest.raises(SystemExit):
        consumer.run(crash, wait_s=0, at_once=at_once, batch=3)
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
