"""A worker's promises to its user, in memory: what becomes of each message, who waits for whom, what it refuses."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tidewheel import (
    Backoff,
    InvalidValue,
    Message,
    ReceivedMessage,
    Reject,
    RetryLater,
    Tidewheel,
    UnknownSubscription,
    Worker,
)
from tidewheel.client.worker import serving
from tidewheel.local import MemoryTidewheel


class Shop:
    """A service in memory with subscriptions, and a worker."""

    def __init__(self, *addresses: str, **worker: Any) -> None:
        self.stack = MemoryTidewheel()
        self.tw: Tidewheel = self.stack.client()
        for address in addresses:
            topic, name = address.split("/")
            self.tw.create_topic(topic)
            self.tw.create_subscription(topic, name, reader="tidewheel")
        self.worker = Worker(self.tw, wait_s=0, **worker)

    def send(self, topic: str, *bodies: Any, **options: Any) -> list[str]:
        return [each.id for each in self.tw.send_many(topic, [Message(body=body, **options) for body in bodies])]

    def reasons(self, topic: str, name: str) -> list[str | None]:
        return [each.reason for each in self.stack.dead_letters(topic, name)]


def until(true: Callable[[], object]) -> None:
    end_s = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.005)


# ---- what becomes of a message


def test_half_an_hour_without_the_downstream_makes_no_dead_letter_at_default_settings() -> None:
    shop = Shop("orders/bill")
    back = shop.stack.now().timestamp() + 1800

    @shop.worker.handles("orders/bill")
    def bill(message: ReceivedMessage) -> None:
        if shop.stack.now().timestamp() < back:
            raise ConnectionError

    shop.send("orders", *range(100))
    [counts] = shop.stack.drain(shop.worker, until="1d", errors="count").values()
    assert (counts.handled, counts.dead) == (100, 0)


def test_a_function_that_always_fails_ends_after_eight_attempts_in_nine_hours_with_one_id() -> None:
    shop, seen = Shop("orders/bill", "orders2/bill"), list[tuple[str | None, int]]()
    begun = shop.stack.now()

    @shop.worker.handles("orders/bill")
    def bill(message: ReceivedMessage) -> None:
        seen.append((message.original_id, message.attempt))
        raise ValueError("no")

    [sent] = shop.send("orders", "x")
    shop.send("orders2", "stays")
    [counts] = shop.stack.drain(shop.worker, until="10h", errors="count").values()
    assert seen == [(None, 0), *((sent, attempt) for attempt in range(1, 8))]
    assert (counts.retried, counts.dead) == (7, 1)
    [letter] = shop.stack.dead_letters("orders", "bill")
    assert (letter.reason, letter.original_id, letter.attempt) == ("ValueError: no", sent, 7)
    assert 7 < (letter.deliver_at - begun).total_seconds() / 3600 <= 9.1
    assert [each.body for each in shop.stack.receive("orders2", "bill")] == ["stays"]


def test_drain_raises_the_functions_error_after_what_became_of_the_message() -> None:
    shop = Shop("orders/bill")

    @shop.worker.handles("orders/bill", retry=None, max_attempts=2)
    def bill(message: ReceivedMessage) -> None:
        raise KeyError("x")

    shop.send("orders", 1)
    for dead in (0, 1):
        with pytest.raises(KeyError):
            shop.stack.drain(shop.worker)
        assert len(shop.reasons("orders", "bill")) == dead
        shop.stack.advance(minutes=1)
    assert shop.stack.drain(shop.worker, until="1h")["orders/bill"].failed == 1


def test_a_worker_drains_the_stack_that_asks_and_no_other() -> None:
    worker, seen = Worker(), list[str]()

    @worker.handles("orders/bill")
    def bill(message: ReceivedMessage) -> None:
        seen.append(message.body)

    for body in "ab":
        shop = Shop("orders/bill")
        shop.send("orders", body)
        assert shop.stack.drain(worker, until="1h")["orders/bill"].handled == 1
    assert seen == ["a", "b"]


@pytest.mark.parametrize("retry", [Backoff(base="30s"), None])
@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_functions_own_cancelled_future_is_an_error_as_any_other(kind: str, retry: Backoff | None) -> None:
    shop = Shop("orders/bill")

    def bill(message: ReceivedMessage) -> None:
        raise asyncio.CancelledError

    async def bill_async(message: ReceivedMessage) -> None:
        bill(message)

    shop.worker.handles("orders/bill", max_attempts=2, retry=retry)(bill if kind == "plain" else bill_async)
    shop.send("orders", "x")
    shop.stack.drain(shop.worker, until="1h", errors="count")
    assert shop.reasons("orders", "bill") == ["RuntimeError: it awaited something that was cancelled"]


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_what_is_refused_is_a_dead_letter_after_one_receive_and_its_neighbours_are_unharmed(kind: str) -> None:
    shop, seen = Shop("orders/bill"), list[Any]()

    class Gone(Exception):
        pass

    def bill(message: ReceivedMessage, order: Any) -> None:
        if order == 2:
            raise Reject("no such customer")
        if order == 3:
            raise Gone("moved")
        seen.append(order)

    async def bill_async(message: ReceivedMessage, order: Any) -> None:
        bill(message, order)

    shop.worker.handles("orders/bill", parse=json.loads, reject=(Gone,))(bill if kind == "plain" else bill_async)
    shop.send("orders", 1, 2, 3, 4, "{bad")
    [counts] = shop.stack.drain(shop.worker, until="1h").values()
    assert (sorted(seen), counts.handled, counts.dead, counts.retried) == ([1, 4], 2, 3, 0)
    expected = "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    assert sorted(map(str, shop.reasons("orders", "bill"))) == ["Gone: moved", expected, "no such customer"]


def test_waiting_spends_no_attempt_and_at_least_a_second() -> None:
    shop = Shop("orders/bill")

    @shop.worker.handles("orders/bill", max_attempts=2)
    def bill(message: ReceivedMessage) -> None:
        assert message.attempt == 0
        raise RetryLater(delay=0, counts=False)

    shop.send("orders", "x")
    [counts] = shop.stack.drain(shop.worker, until="1m").values()
    assert 20 <= counts.retried <= 61 and counts.dead == 0


def test_a_retry_without_a_delay_takes_that_of_the_handler() -> None:
    shop = Shop("orders/bill")
    times = list[float]()

    @shop.worker.handles("orders/bill", retry=Backoff(base="10m"))
    def bill(message: ReceivedMessage) -> None:
        times.append(shop.stack.now().timestamp())
        if len(times) == 1:
            raise RetryLater

    shop.send("orders", "x")
    shop.stack.drain(shop.worker, until="1h")
    assert times[1] - times[0] == pytest.approx(600, abs=1)


def test_what_is_around_runs_around_each_message_in_the_order_of_registration() -> None:
    shop, seen = Shop("a/sync", "b/async"), list[str]()

    @shop.worker.around
    def outer(message: ReceivedMessage) -> Iterator[None]:
        seen.append(f"begin {message.body}")
        try:
            yield
        finally:
            seen.append(f"end {message.body} {threading.current_thread().name[:9]}")

    @shop.worker.around
    def inner(message: ReceivedMessage) -> Iterator[None]:
        seen.append("inner")
        yield

    @shop.worker.handles("a/sync", retry=None)
    def fail(message: ReceivedMessage) -> None:
        raise ValueError

    @shop.worker.handles("b/async")
    async def work(message: ReceivedMessage) -> None:
        seen.append("work")

    shop.send("a", "x")
    shop.send("b", "y")
    shop.stack.drain(shop.worker, until="1s", errors="count")
    assert seen == ["begin x", "inner", "end x MainThrea", "begin y", "inner", "work", "end y MainThrea"]


# ---- who waits for whom


def test_a_busy_subscription_waits_neither_for_one_that_sleeps_nor_for_an_empty_one() -> None:
    shop, go, done = Shop("a/sleeping", "b/empty", "c/busy"), threading.Event(), list[str]()

    @shop.worker.handles("a/sleeping", at_once=2)
    def sleep(message: ReceivedMessage) -> None:
        go.wait(60)

    @shop.worker.handles("b/empty")
    async def nothing(message: ReceivedMessage) -> None:
        pytest.fail()

    @shop.worker.handles("c/busy", at_once=1)
    def work(message: ReceivedMessage) -> None:
        done.append(message.id)

    shop.send("a", *range(10))
    shop.send("c", *range(300))
    shop.stack.advance(seconds=1)
    shop.worker.start()
    until(lambda: len(done) == 300)
    assert shop.worker.counts["a/sleeping"].handled == 0
    go.set()
    until(lambda: shop.worker.counts["a/sleeping"].handled == 10)
    shop.worker.stop()
    shop.stack.advance(hours=1)
    assert [shop.stack.receive(*each.split("/")) for each in shop.worker.addresses] == [[], [], []]


def test_a_subscription_that_is_refused_later_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "REFUSED_S", 0.05)
    monkeypatch.setattr(serving, "_FIRST_PAUSE_S", 0.01)
    shop, done = Shop("a/gone", "b/busy"), list[str]()

    @shop.worker.handles("a/gone")
    @shop.worker.handles("b/busy")
    def work(message: ReceivedMessage) -> None:
        done.append(message.body)

    shop.worker.start()
    shop.send("a", "x")
    shop.stack.advance(seconds=1)
    until(lambda: done == ["x"])
    shop.tw.delete_subscription("a", "gone")
    shop.stack.advance(minutes=10)
    until(lambda: any(each.levelno == logging.ERROR for each in caplog.records))
    shop.send("b", "y")
    shop.stack.advance(seconds=1)
    until(lambda: done == ["x", "y"])
    with pytest.raises(Exception, match="a/gone"):
        shop.worker.stop()


def test_a_worker_that_may_not_keep_messages_invisible_acknowledges_them_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "_FIRST_PAUSE_S", 0.01)
    shop, refusals, refused = Shop("orders/bill"), list[object](), threading.Event()
    denied = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ChangeMessageVisibility")

    def hide(**_: object) -> None:
        refusals.append(0)
        if len(refusals) == 3:
            refused.set()
        raise denied

    monkeypatch.setattr(shop.stack.sqs, "change_message_visibility_batch", hide)
    short(shop, 10, VisibilityTimeout="1")

    @shop.worker.handles("orders/bill")
    def bill(message: ReceivedMessage) -> None:
        refused.wait(60)

    sent = shop.tw.send("orders", "x").id
    shop.stack.advance(seconds=1)
    shop.worker.start()
    until(lambda: not shop.stack.queued("orders", sent))
    shop.worker.stop()
    told = [each.getMessage() for each in caplog.records]
    assert len([each for each in told if "changes of visibility fail" in each]) == 1
    assert not [each for each in told if "work again" in each]


def test_an_error_that_ends_a_started_worker_is_told_at_once_and_raised_by_its_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shop = Shop("orders/bill")

    @shop.worker.handles("orders/bill")
    def bill(message: ReceivedMessage) -> None:
        raise SystemExit("enough")

    shop.send("orders", "x")
    shop.stack.advance(seconds=1)
    shop.worker.start()
    until(lambda: [each for each in caplog.records if "ended the worker of orders/bill" in each.getMessage()])
    with pytest.raises(SystemExit, match="enough"):
        shop.worker.stop()


def test_a_lifespan_begins_once_aws_answers_and_not_with_a_wrong_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop("orders/bill")
    read, calls = shop.tw.core.connection.storage.subscriptions.read, list[object]()

    def fails_first(*names: str) -> object:
        calls.append(names)
        if len(calls) == 1:
            raise EndpointConnectionError(endpoint_url="table")
        return read(*names)

    async def live(address: str) -> None:
        worker = Worker(shop.tw, wait_s=0)
        worker.handles(address)(nothing)
        async with worker:
            assert worker.addresses

    monkeypatch.setattr(shop.tw.core.connection.storage.subscriptions, "read", fails_first)
    asyncio.run(live("orders/bill"))
    assert len(calls) > 1
    with pytest.raises(UnknownSubscription, match="bil"):
        asyncio.run(live("orders/bil"))


def test_coroutines_that_refuse_to_end_hold_up_the_end_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewheel.client.worker.worker.LAST_CALL_S", 0.3)
    shop, begun, go = Shop("a/x", "b/y", finish_s=0), list[str](), threading.Event()

    @shop.worker.handles("a/x")
    @shop.worker.handles("b/y")
    async def refuse(message: ReceivedMessage) -> None:
        begun.append(message.id)
        while not go.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    shop.send("a", 1)
    shop.send("b", 1)
    shop.stack.advance(seconds=1)
    shop.worker.start()
    until(lambda: len(begun) == 2)
    at_s = time.monotonic()
    shop.worker.stop()
    assert time.monotonic() - at_s < 5
    go.set()


# ---- what it refuses at the start


def nothing(message: ReceivedMessage) -> None:
    pytest.fail()


async def around(message: ReceivedMessage) -> AsyncIterator[None]:
    yield


def short(shop: Shop, receives: int, **attributes: str) -> None:
    [url] = [each.queue_url for each in shop.tw.subscriptions("orders")]
    redrive = {"deadLetterTargetArn": shop.stack.queue(f"{url}-dead").arn, "maxReceiveCount": receives}
    shop.stack.sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(redrive), **attributes})


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (lambda shop: None, "it has no function; decorate one"),
        (lambda shop: shop.worker.handles("orders")(nothing), "give topic/subscription"),
        (lambda shop: shop.worker.handles(nothing), "give topic/subscription"),  # type: ignore[arg-type]
        (lambda shop: shop.worker.handles("orders/bill", parse=json.loads)(nothing), "and of what parse returns"),
        (lambda shop: [shop.worker.handles("orders/bill")(nothing) for _ in "12"], "this subscription has a function"),
        (lambda shop: (short(shop, 3), shop.worker.handles("orders/bill", retry=None)(nothing)), "after 3 receives"),
        (lambda shop: shop.worker.handles("orders/bill", retry=None, max_attempts=11)(nothing), "give at most 10"),
        (lambda shop: shop.worker.handles("orders/bill", at_once=51)(nothing), "at_once=51: give "),
        (lambda shop: shop.worker.handles("orders/bill", timeout="12h")(nothing), "give 1s to 11h"),
        (lambda shop: shop.worker.handles("orders/bill", reject=("x",))(nothing), "give classes of errors"),
        (lambda shop: (shop.worker.around(around), shop.worker.handles("orders/bill")(nothing)), "a plain function"),
        (lambda shop: shop.worker.around(nothing), "give a generator function"),
        (lambda shop: Worker(shop.tw, finish_s=-1), "finish_s=-1: give seconds"),
    ],
)
def test_what_cannot_work_is_an_error_at_the_start_that_says_what_to_do(
    prepare: Callable[[Shop], object], told: str
) -> None:
    shop = Shop("orders/bill")
    with pytest.raises(InvalidValue, match=told):
        prepare(shop)
        shop.worker.start()


def test_a_wrong_subscription_is_an_error_unless_the_worker_may_create_it() -> None:
    shop = Shop("orders/bill")
    shop.worker.handles("orders/bil")(nothing)
    with pytest.raises(UnknownSubscription, match="bil"):
        shop.worker.start()
    creating = Worker(shop.tw, create=True, wait_s=0)
    creating.handles("new/one")(nothing)
    creating.handles("orders/bill")(nothing)
    creating.start()
    creating.stop()
    assert [each.reader for each in shop.tw.subscriptions("new")] == ["tidewheel"]


# ---- in a Lambda function


def test_a_lambda_function_of_two_queues_fails_only_what_fails() -> None:
    shop, seen = Shop("a/x", "b/y"), list[str]()

    @shop.worker.handles("a/x", retry=None)
    def fail(message: ReceivedMessage) -> None:
        raise ValueError

    @shop.worker.handles("b/y")
    async def work(message: ReceivedMessage) -> None:
        seen.append(message.body)

    def record(name: str, topic: str) -> dict[str, Any]:
        from tests.behaviour.topic import receive_raw, record_of

        shop.send(topic, topic)
        shop.stack.advance(seconds=1)
        [url] = [each.queue_url for each in shop.tw.subscriptions(topic)]
        [raw] = receive_raw(shop.stack.sqs, url)
        return record_of(raw) | {"eventSourceARN": shop.stack.queue(url).arn}

    records = [record("x", "a"), record("y", "b")]
    answer = shop.worker.lambda_handler({"Records": records})
    assert answer == {"batchItemFailures": [{"itemIdentifier": records[0]["messageId"]}]}
    assert seen == ["b"]
    shop.tw.delete_subscription("a", "x")
    shop.stack.advance(minutes=10)
    assert shop.worker.lambda_handler({"Records": records[1:]}) == {"batchItemFailures": []}
