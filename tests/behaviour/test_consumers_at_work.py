"""The consumer with the whole service, through retries, dead letters, large bodies, drops, workers and Lambda."""

from __future__ import annotations

import importlib
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace
from typing import Any

import boto3
import pytest
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from tests.behaviour.topic import receive_raw, record_of
from tidewheel import (
    Consumer,
    ConsumerCounts,
    InvalidValue,
    Message,
    QueueUnavailable,
    ReceivedMessage,
    RetryLater,
    Tidewheel,
    Worker,
    parse_received,
)
from tidewheel.client.worker import holding, serving
from tidewheel.local import MemoryTidewheel
from tidewheel.model.settings import Claims

TOPIC = "orders"
LARGE = "x" * 1_500_000
"""More than SQS takes."""


def until(true: Callable[[], object]) -> None:
    end_s = time.monotonic() + 15
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.01)


class Service:
    """A service in memory with a topic, two subscriptions, and a consumer of the first."""

    def __init__(self, claims: Claims = "keyed", **consumer: Any) -> None:
        self.stack = MemoryTidewheel()
        self.client: Tidewheel = self.stack.client()
        self.client.create_topic(TOPIC, claims=claims)
        self.url, self.other_url = (
            self.client.create_subscription(TOPIC, name).queue_url for name in ("billing", "audit")
        )
        self.consumer = Consumer(self.client, TOPIC, "billing", **consumer)

    def worker(self, function: Callable[[ReceivedMessage], object], **handles: Any) -> Worker:
        """Returns a worker whose failed messages come again after the queue's visibility time-out."""
        worker = Worker(self.client, wait_s=0)
        worker.handles("orders/billing", **{"at_once": 1, "retry": None} | handles)(function)
        return worker

    def send(self, *bodies: Any, **options: Any) -> str:
        """Sends messages that are due at once. Returns the first one's id."""
        sent = self.client.send_many(TOPIC, [Message(body=each, **options) for each in bodies])
        self.stack.advance(seconds=1)
        return sent[0].id

    def one(self) -> ReceivedMessage:
        """Receives the only available message."""
        [message] = self.consumer.receive()
        return message

    def bodies(self, url: str) -> list[str]:
        """Returns the bodies of all messages in a queue, including delayed and in-flight messages."""
        return sorted(message.body for message in self.stack.queue(url).everything)

    def event(self) -> dict[str, Any]:
        """Receives all available messages, as a Lambda event of an event source mapping."""
        return {"Records": [record_of(raw) for raw in receive_raw(self.stack.sqs, self.url)]}

    def delete_as_lambda_does(self, event: dict[str, Any], answer: dict[str, Any]) -> None:
        failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        for record in event["Records"]:
            if record["messageId"] not in failed:
                self.stack.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=record["receiptHandle"])


# ---- retry_later


@pytest.mark.parametrize("delay", ["5s", "2d"])
def test_a_retry_comes_to_the_subscription_that_asked_for_it_and_to_no_other(delay: str) -> None:
    service = Service()
    service.send("mine", attributes={"a": "b"})
    assert [each.body for each in service.stack.receive(TOPIC, "audit")] == ["mine"]
    service.consumer.retry_later(service.one(), delay=delay)
    service.client.send_many(TOPIC, [Message(body="for all", delay=delay), Message(body="too", delay=delay)])
    service.stack.advance(days=3)
    assert sorted(each.body for each in service.stack.receive(TOPIC, "billing")) == ["for all", "mine", "too"]
    assert sorted(each.body for each in service.stack.receive(TOPIC, "audit")) == ["for all", "too"]


def test_a_retry_of_a_paused_subscription_waits_until_it_is_resumed() -> None:
    service = Service()
    service.send("mine")
    service.client.pause(TOPIC, "billing")
    service.consumer.retry_later(service.one(), delay="5s")
    service.stack.advance(minutes=1)
    assert service.consumer.receive() == []
    service.client.resume(TOPIC, "billing")
    service.stack.advance(minutes=10)
    assert service.one().attempt == 1
    assert service.bodies(service.other_url) == ["mine"]


def test_a_retry_that_is_rescheduled_is_still_for_its_own_subscription() -> None:
    service = Service()
    service.send("mine", key="k")
    service.stack.receive(TOPIC, "audit")
    receipt = service.consumer.retry_later(service.one(), delay="2d")
    assert receipt is not None
    service.stack.advance(minutes=10)
    assert service.client.reschedule(TOPIC, receipt.id, delay="1d")
    service.stack.advance(days=1, minutes=10)
    again = service.one()
    assert (again.only, again.attempt, again.key) == ("billing", 1, "k")
    assert service.bodies(service.other_url) == []


def test_a_retry_is_neither_a_duplicate_of_its_own_key_nor_replaces_what_was_sent_since() -> None:
    service = Service()
    service.send("first", key="k")
    first = service.one()
    service.send("second", key="k", delay="2h")
    service.consumer.retry_later(first, delay="1h")
    service.stack.advance(hours=3)
    found = {each.body: each for each in service.consumer.receive()}
    assert set(found) == {"first", "second"}
    assert found["first"].key == "k" and found["first"].version == first.version


@pytest.mark.parametrize(
    ("when", "named"),
    [
        ({"level": 1, "delay": "1s"}, "level, delay"),
        ({"level": -1}, "delay_level"),
        ({"delay": "soon"}, "delay"),
        ({"backoff": "1s"}, "backoff"),
    ],
)
def test_a_retry_at_no_time_is_refused_and_the_message_stays(when: dict[str, Any], named: str) -> None:
    service = Service(max_attempts=1)
    service.send("x")
    with pytest.raises(InvalidValue, match=f"^{named}="):
        service.consumer.retry_later(service.one(), **when)
    assert service.bodies(service.url) == ["x"]


def test_what_has_had_its_last_attempt_goes_to_the_dead_letters_as_it_was() -> None:
    service = Service(max_attempts=2)
    service.send(b"\x00\xff", attributes={"kind": "reminder"}, key="k")
    assert service.consumer.retry_later(service.one()) is not None
    service.stack.advance(seconds=10)
    last = service.one()
    assert service.consumer.retry_later(last) is None
    assert service.bodies(service.url) == []
    dead_url = f"{service.url}-dead"
    answer = service.stack.sqs.receive_message(QueueUrl=dead_url, MessageAttributeNames=["All"])
    [raw] = answer["Messages"]
    dead = service.consumer.decode(raw)
    header = json.loads(raw["MessageAttributes"]["tidewheel"]["StringValue"])
    assert header == json.loads(last.header) | {"why": "the last of 2 attempts"}
    assert (dead.id, dead.body, dead.attributes) == (last.id, last.body, last.attributes)
    assert dead.attempt == 0  # redriven, its attempts begin anew
    assert service.consumer.counts == ConsumerCounts(retried=1, dead=1)


def test_the_last_attempt_without_a_dead_letter_queue_is_an_error_that_says_what_to_do() -> None:
    service = Service(max_attempts=1)
    service.stack.sqs.set_queue_attributes(QueueUrl=service.url, Attributes={"RedrivePolicy": ""})
    service.send("x")
    with pytest.raises(InvalidValue, match="set a RedrivePolicy, raise max_attempts, or delete the message"):
        service.consumer.retry_later(service.one())
    assert service.bodies(service.url) == ["x"]


def test_a_dead_letter_queue_that_was_deleted_is_named_with_what_to_do_until_there_is_another() -> None:
    service = Service(max_attempts=1)
    sqs = service.stack.sqs
    service.send("x")
    service.consumer.retry_later(service.one())
    sqs.delete_queue(QueueUrl=f"{service.url}-dead")
    service.send("y")
    message = service.one()
    missing = rf"queue {service.url}-dead of dead letters does not exist: create a queue of this name, or name another"
    for call in (
        lambda: service.consumer.retry_later(message),
        lambda: service.client.redrive(TOPIC, "billing"),
        lambda: service.client.dead_letters(TOPIC, "billing"),
    ):
        with pytest.raises(QueueUnavailable, match=missing):
            call()
    other = sqs.create_queue(QueueName="other")["QueueUrl"]
    policy = {"deadLetterTargetArn": service.stack.queue(other).arn, "maxReceiveCount": 5}
    sqs.set_queue_attributes(QueueUrl=service.url, Attributes={"RedrivePolicy": json.dumps(policy)})
    service.consumer.retry_later(message)
    assert service.bodies(other) == ["y"]


def test_if_it_stops_between_sending_again_and_deleting_both_come_with_the_same_original() -> None:
    service = Service()
    sent = service.send("x")
    message = service.one()

    def died(**_: Any) -> None:
        raise KeyboardInterrupt

    delete, service.stack.sqs.delete_message_batch = service.stack.sqs.delete_message_batch, died  # type: ignore
    with pytest.raises(KeyboardInterrupt):
        service.consumer.retry_later(message, delay="5m")
    service.stack.sqs.delete_message_batch = delete  # type: ignore[method-assign]
    service.stack.advance(minutes=6)
    found = service.consumer.receive()
    assert sorted(each.attempt for each in found) == [0, 1]
    assert {each.original_id or each.id for each in found} == {sent}


# ---- large bodies


def test_a_large_body_survives_a_retry_and_its_dead_letter_has_the_pointer_that_the_message_had() -> None:
    service = Service(max_attempts=2)
    service.send(LARGE.encode())
    service.consumer.retry_later(service.one(), delay="1d")
    service.stack.advance(days=1)
    [in_queue] = service.bodies(service.url)
    again = service.one()
    assert again.bytes() == LARGE.encode()
    assert service.consumer.retry_later(again) is None
    assert service.bodies(f"{service.url}-dead") == [in_queue]
    assert list(json.loads(in_queue)) == ["tidewheel_payload"]


def test_what_is_dropped_costs_no_read_of_its_body() -> None:
    service = Service()
    service.client.send(TOPIC, LARGE, expires_in="1m")
    service.stack.advance(minutes=2)
    objects = service.stack.service.objects
    objects.get_range = None  # type: ignore[method-assign, assignment]  # a read would raise
    assert service.consumer.receive() == []
    assert service.consumer.counts == ConsumerCounts(expired=1)


# ---- what is dropped


def test_a_retry_that_would_come_after_the_expiry_is_dropped_and_counted() -> None:
    service = Service()
    service.send("x", expires_in="1h")
    again = service.consumer.retry_later(service.one(), delay="30m")
    assert again is not None
    service.stack.advance(minutes=30)
    assert service.consumer.retry_later(service.one(), delay="30m") is None
    assert service.bodies(service.url) == []
    assert service.consumer.counts == ConsumerCounts(retried=1, expired=1)


@pytest.mark.parametrize("claims", ["keyed", "all", "none"])
@pytest.mark.parametrize("later", ["cancel", "replace", "duplicate"])
def test_a_retry_is_dropped_once_its_key_was_cancelled_or_replaced(later: str, claims: Claims) -> None:
    service = Service(claims)
    service.send("old", key="k", replace=True)
    service.consumer.retry_later(service.one(), delay="2h")
    if later == "cancel":
        assert not service.client.cancel(TOPIC, key="k")
    else:
        service.client.send(TOPIC, "new", key="k", replace=later == "replace", delay="1h")
    service.stack.advance(hours=3)
    comes = {"cancel": [], "replace": ["new"], "duplicate": ["new", "old"]}[later]
    assert sorted(each.body for each in service.consumer.receive()) == comes
    assert service.consumer.counts.superseded == (later != "duplicate")


# ---- in a Lambda function


def work(message: ReceivedMessage) -> None:
    if message.body == "later" and message.attempt == 0:
        raise RetryLater(delay="1h")
    if message.body == "bad":
        raise RuntimeError("bad")


@pytest.mark.parametrize("way", ["plain", "powertools"])
def test_a_lambda_function_fails_what_raises_and_sends_again_what_asks_for_it(way: str) -> None:
    service = Service()
    worker = service.worker(work)

    def powertools(event: dict[str, Any]) -> Any:
        processor = BatchProcessor(event_type=EventType.SQS)
        return process_partial_response(event=event, record_handler=worker.record_handler, processor=processor)

    ways: dict[str, Callable[[dict[str, Any]], Any]] = {"plain": worker.lambda_handler, "powertools": powertools}
    service.client.send_many(TOPIC, [Message(body=body) for body in ("good", "later", "bad")])
    service.stack.sqs.send_message(QueueUrl=service.url, MessageBody="a stranger's")
    service.stack.advance(seconds=1)
    event = service.event()
    bodies = {record["messageId"]: record["body"] for record in event["Records"]}
    calls: list[str] = []
    service.stack.sqs.delete_message_batch = lambda **_: calls.append("delete")  # type: ignore
    answer = ways[way](event)
    assert {bodies[each["itemIdentifier"]] for each in answer["batchItemFailures"]} == {"bad", "a stranger's"}
    assert calls == []  # Lambda deletes what did not fail
    service.delete_as_lambda_does(event, answer)
    assert service.bodies(service.url) == ["a stranger's", "bad"]
    assert worker.counts["orders/billing"] == ConsumerCounts(handled=1, retried=1, failed=1)
    service.stack.advance(hours=1)
    again = service.event()
    assert ways[way](again)["batchItemFailures"]
    assert worker.counts["orders/billing"].handled == 2


def test_what_is_dropped_in_a_lambda_function_is_no_failure_and_not_handled() -> None:
    service = Service()
    service.client.send(TOPIC, "late", expires_in="1m")
    service.stack.advance(minutes=2)
    worker = service.worker(pytest.fail)
    assert worker.lambda_handler(service.event()) == {"batchItemFailures": []}
    assert worker.counts == {"orders/billing": ConsumerCounts(expired=1)}


# ---- a worker


@pytest.mark.parametrize("ends", [True, False])
def test_what_was_received_and_not_begun_goes_back_at_the_end_and_behind_a_slow_message(
    ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, stop, go, fifth = Service(), threading.Event(), threading.Event(), threading.Event()
    service.send(*map(str, range(9)))
    if not ends:
        monkeypatch.setattr(holding, "BUFFERED_S", 0.5)
    receives: list[int] = []

    def handle(message: ReceivedMessage) -> None:
        receives.append(message.receive_count)
        if len(receives) == 5:
            until(lambda: service.stack.queue(service.url).approximate_number_of_messages < 4)
            fifth.set()
            go.wait(60)

    worker = service.worker(handle)
    thread = threading.Thread(target=worker.run, kwargs={"stop": stop})
    thread.start()
    assert fifth.wait(60)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # another thread sets no handler
    if ends:
        stop.set()
    until(lambda: service.stack.queue(service.url).approximate_number_of_messages == 4)  # while the fifth is at work
    go.set()
    until(lambda: len(receives) == 9 or ends)
    stop.set()
    thread.join(60)
    assert len(receives) == (5 if ends else 9) and set(receives) == ({1} if ends else {1, 2})
    assert len(service.bodies(service.url)) == 9 - len(receives)


@pytest.mark.parametrize("handles", [1, 2, 3, 5, 11])
def test_what_workers_that_end_early_have_not_begun_is_no_dead_letter(handles: int) -> None:
    service, seen = Service(), set[str]()
    service.send(*map(str, range(60)))
    while service.bodies(service.url):
        stop, ends = threading.Event(), min(60, len(seen) + handles)

        def handle(message: ReceivedMessage, stop: threading.Event = stop, ends: int = ends) -> None:
            seen.add(message.body)
            if len(seen) == ends:
                stop.set()

        worker = service.worker(handle)
        worker.start()
        assert stop.wait(60)
        worker.stop()
    assert len(seen) == 60
    assert service.bodies(f"{service.url}-dead") == []


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize(("at_once", "most"), [(1, 89), (4, 100), (10, 100), ("async", 100)])
def test_four_hundred_messages_cost_a_quarter_of_a_request_each(
    at_once: int | str, most: int, claimed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service()
    service.client.create_topic("many", claims="all" if claimed else "none")
    service.client.create_subscription("many", "billing")
    service.client.send_many("many", [Message(body=str(i)) for i in range(400)])
    service.stack.advance(seconds=1)
    worker, stop, seen, asked = Worker(service.client, wait_s=0), threading.Event(), set(), []
    for name in ("receive_message", "delete_message_batch", "get_queue_attributes"):
        call = getattr(service.stack.sqs, name)
        monkeypatch.setattr(
            service.stack.sqs, name, lambda call=call, **given: (asked.append(call.__name__), call(**given))[1]
        )

    def handle(message: ReceivedMessage) -> None:
        seen.add(message.id)
        if len(seen) == 400:
            stop.set()

    async def handle_async(message: ReceivedMessage) -> None:
        handle(message)

    if isinstance(at_once, int):
        worker.handles("many/billing", at_once=at_once)(handle)
    else:
        worker.handles("many/billing")(handle_async)
    worker.run(stop=stop)
    assert worker.counts["many/billing"] == ConsumerCounts(handled=400)
    assert service.bodies(service.client.subscriptions("many")[0].queue_url) == []
    assert len(asked) <= most


def test_a_queue_without_a_visibility_time_out_gives_each_message_once_a_receive() -> None:
    service = Service()
    service.stack.sqs.set_queue_attributes(QueueUrl=service.url, Attributes={"VisibilityTimeout": "0"})
    sent = sorted(each.id for each in service.client.send_many(TOPIC, [Message(body=str(i)) for i in range(25)]))
    service.stack.advance(seconds=1)
    found = service.client.receive(TOPIC, "billing", max_messages=100)
    assert sorted(each.id for each in found) == sent
    assert sorted(each.id for each in service.consumer.receive(max_messages=100)) == sent
    assert sorted(each.id for each in service.stack.receive(TOPIC, "billing")) == sent
    service.client.delete(TOPIC, "billing", service.client.receive(TOPIC, "billing", max_messages=100))
    assert service.bodies(service.url) == []  # each had its last receipt handle


def test_ctrl_c_while_nothing_is_in_hand_ends_the_run() -> None:
    service = Service()
    receive = service.stack.sqs.receive_message

    def interrupted(**arguments: Any) -> Any:
        service.stack.sqs.receive_message = receive  # type: ignore[method-assign]
        signal.raise_signal(signal.SIGINT)
        return receive(**arguments)

    service.stack.sqs.receive_message = interrupted  # type: ignore[method-assign]
    service.worker(pytest.fail).run()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_leaves_the_programs_own_handlers_alone() -> None:
    service = Service()
    seen: list[int] = []
    stop = threading.Event()

    def own(number: int, frame: object) -> None:
        seen.append(number)
        stop.set()

    worker = service.worker(lambda _: signal.raise_signal(signal.SIGTERM))
    before = signal.signal(signal.SIGTERM, own)
    try:
        service.client.send(TOPIC, "x")
        service.stack.advance(seconds=1)
        worker.run(stop=stop)
        assert seen == [signal.SIGTERM] and signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
    assert worker.counts["orders/billing"] == ConsumerCounts(handled=1)


@pytest.mark.parametrize("error", ["AccessDenied", "AWS.SimpleQueueService.NonExistentQueue", "ExpiredToken"])
def test_what_aws_refuses_ends_a_worker_at_the_start_and_later_after_a_minute(
    error: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service()
    receive = service.stack.sqs.receive_message
    answers: list[bool] = []
    stop = threading.Event()

    def refused(**arguments: Any) -> Any:
        answers.append(len(answers) in good)
        if answers[-1]:
            return receive(**arguments)
        if len(answers) == last:
            stop.set()
        raise ClientError({"Error": {"Code": error, "Message": "no"}}, "ReceiveMessage")

    service.stack.sqs.receive_message = refused  # type: ignore[method-assign]
    monkeypatch.setattr(serving, "_FIRST_PAUSE_S", 0.001)
    good, last = [], 0
    with pytest.raises(QueueUnavailable, match=rf"orders/billing gives no messages: .*{error}"):
        service.worker(pytest.fail).run()
    answers.clear()
    caplog.clear()
    good, last = [0, 3], 6
    service.worker(pytest.fail).run(stop=stop)
    assert [record.message.partition(":")[2][:16] for record in caplog.records] == [
        " polls fail, try",
        " polls work agai",
        " polls fail, try",
    ]
    monkeypatch.setattr(serving, "REFUSED_S", 0.01)
    stop.clear()
    answers.clear()
    good, last = [0], 0
    with pytest.raises(QueueUnavailable):
        service.worker(pytest.fail, at_once=2).run(stop=stop)


def test_a_table_that_cannot_be_reached_does_not_keep_a_worker_from_its_queue() -> None:
    service = Service()
    service.send("x")
    assert service.consumer.receive(max_messages=1)  # it knows the queue
    service.stack.advance(minutes=5)
    subscriptions = service.client.core.connection.storage.subscriptions

    def unreachable(*_: object) -> None:
        raise EndpointConnectionError(endpoint_url="table")

    subscriptions.read = unreachable  # type: ignore[method-assign, assignment]
    stop = threading.Event()
    service.worker(lambda _: stop.set()).run(stop=stop)
    assert service.bodies(service.url) == []
    service.send("y")
    lambda_worker = Worker(service.stack.client())
    lambda_worker.handles("orders/billing")(lambda _: None)
    lambda_worker.client.core.connection.storage.subscriptions.read = unreachable
    assert lambda_worker.lambda_handler(service.event()) == {"batchItemFailures": []}


# ---- with Powertools


CONTEXT = SimpleNamespace(get_remaining_time_in_millis=lambda: 30_000)


@pytest.fixture
def powertools(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service with two due orders, and the table for Powertools."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    service = Service()
    service.client.send_many(TOPIC, [Message(body={"id": i}, attributes={"kind": "order"}) for i in range(2)])
    service.stack.advance(seconds=1)
    with mock_aws():
        boto3.client("dynamodb").create_table(
            TableName="handled-orders",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield service


def example_of(name: str) -> ModuleType:
    """Imports an example again, with clients for the current test's AWS."""
    sys.modules.pop(f"examples.{name}", None)
    return importlib.import_module(f"examples.{name}")


def handled_orders() -> list[dict[str, Any]]:
    """Returns the records kept by Powertools."""
    return boto3.resource("dynamodb").Table("handled-orders").scan()["Items"]


def test_the_powertools_example_tries_an_order_again_later(
    powertools: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = example_of("powertools_consumer")
    monkeypatch.setattr(example.worker, "client", powertools.client)
    event = powertools.event()
    answer = example.handler(event, CONTEXT)
    assert answer == {"batchItemFailures": []}
    powertools.delete_as_lambda_does(event, answer)
    assert capsys.readouterr().out.splitlines() == ["order 0 is paid"]
    powertools.stack.advance(seconds=31)
    assert example.handler(powertools.event(), CONTEXT) == {"batchItemFailures": []}
    assert capsys.readouterr().out.splitlines() == ["order 1 is paid"]


def test_the_idempotent_example_handles_each_message_once_over_copies_and_retries(
    powertools: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = example_of("idempotent_consumer")
    paid: list[tuple[int, str]] = []
    tried: list[int] = []

    def pay(order: int, request_id: str) -> None:
        tried.append(order)
        if tried == [0, 1]:
            raise example.BankIsBusy
        paid.append((order, request_id))

    monkeypatch.setattr(example, "pay", pay)
    monkeypatch.setattr(example.worker, "client", powertools.client)
    first = powertools.event()
    for _ in range(2):  # SQS hands out copies
        assert example.handler(first, CONTEXT) == {"batchItemFailures": []}
    powertools.delete_as_lambda_does(first, {"batchItemFailures": []})
    powertools.stack.advance(seconds=31)
    again = powertools.event()
    assert [json.loads(record["body"]) for record in again["Records"]] == [{"id": 1}]
    for _ in range(2):
        assert example.handler(again, CONTEXT) == {"batchItemFailures": []}
    ids = [parse_received(record).id for record in first["Records"]]
    assert paid == [(0, ids[0]), (1, ids[1])]
    records = handled_orders()
    assert {record["id"].partition("#")[0] for record in records} == {"charge"}
    now_s = datetime.now(UTC).timestamp()
    assert all(27 < (int(record["expiration"]) - now_s) / example.DAY_S <= 28 for record in records)
