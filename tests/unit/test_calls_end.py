"""Each call of a client ends in time under any fault of AWS. The error names the call's request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from math import isinf
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, ProxyConnectionError, ReadTimeoutError

from tests.slow_endpoint import Asked, Mode, SlowEndpoint
from tidewheel import deadline
from tidewheel.aws import tries
from tidewheel.aws.service import Service
from tidewheel.aws.tries import CALL_S, Tries, classified
from tidewheel.client import buffered, connection
from tidewheel.client.asynchronous import AsyncTidewheel
from tidewheel.client.buffered import BufferedSender
from tidewheel.client.connection import Connection
from tidewheel.client.operations.health import Problem
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.client.waiting import WaitingMessage
from tidewheel.client.worker.consumer import Consumer
from tidewheel.clock import SystemClock
from tidewheel.errors import FlushFailed, OutOfTime, QueueUnavailable, SendFailed, TemporaryFailure, TidewheelError
from tidewheel.jobs import location
from tidewheel.jobs.job import make_job
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Encoding, Message, MessageId
from tidewheel.storage import table

QUICK = Tries(connect_s=2, read_s=0.05, silent=2, refused=3)
"""For an endpoint that never answers."""
CALM = Tries(connect_s=2, read_s=2, silent=2, refused=3)
"""For moto's answers, which take some 20 ms, on a busy machine."""
LARGE = "x" * 2_000_000
WAITING = WaitingMessage(
    id=MessageId("01M89Q21GM5BYH7NQ9AJ4M8DT0"),
    deliver_at=datetime(2026, 11, 28, tzinfo=UTC),
    body="",
    encoding=Encoding.TEXT,
    attributes={},
    sent_at=datetime(2026, 11, 25, tzinfo=UTC),
    payload="payloads/orders/x",
)
"""A message whose body is in S3."""


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives objects no more time than other requests, and shortens the pauses between tries."""
    monkeypatch.setattr(Tries, "for_objects", property(lambda tries: tries))
    monkeypatch.setattr(tries, "_BACKOFF_S", 0.01)


@pytest.fixture
def quick_objects(short_waits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives objects less time than other requests, for an S3 that never answers."""
    monkeypatch.setattr(Tries, "for_objects", property(lambda tries: replace(tries, read_s=0.4)))


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalTidewheel]:
    with LocalTidewheel(stack_name="toy") as stack:
        tw = stack.client()
        for topic in ("orders", "carts"):
            tw.create_topic(topic)
            tw.create_subscription(topic, "billing")
        yield stack


class World:
    """A client of a stack, behind an endpoint with later faults."""

    def __init__(self, stack: LocalTidewheel, endpoint: SlowEndpoint) -> None:
        self.stack, self.endpoint = stack, endpoint
        known = stack.client()
        for topic in ("orders", "carts"):
            known.core.cache.subscription(topic, "billing")
            known.core.cache.state(topic)
        self.message_id = known.send("orders", "a", delay="3d").id
        settings = known.core.connection.settings
        self.tw = Tidewheel("toy", session=a_session(), settings=settings, endpoint_url=endpoint.url, clock=stack.clock)
        self.tw.core.cache._states |= known.core.cache._states
        self.tw.core.cache._subscriptions |= known.core.cache._subscriptions

    def be(self, mode: Mode, service: str, which: Callable[[Asked], bool] = lambda _: True) -> None:
        self.endpoint.be(mode, lambda asked: asked.service == service and which(asked))

    def now(self, mode: Mode, count: int) -> Callable[[Asked], bool]:
        """Returns a rule for the first requests only."""
        return lambda _: len(self.endpoint.asked) <= count


def a_session() -> boto3.Session:
    return boto3.Session(region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")


@pytest.fixture
def calm(stack: LocalTidewheel, short_waits: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A client with time for AWS's answers."""
    monkeypatch.setattr(connection, "SDK", CALM)
    with SlowEndpoint(stack.endpoint_url) as endpoint:
        yield World(stack, endpoint)


@pytest.fixture
def world(calm: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A client with short timeouts."""
    monkeypatch.setattr(connection, "SDK", QUICK)
    return calm


CALLS: dict[str, Callable[[World], object]] = {
    "send": lambda world: world.tw.send("new", "x"),
    "send_many": lambda world: world.tw.send_many("new", [Message(body="x")]),
    "cancel": lambda world: world.tw.cancel("orders", world.message_id),
    "cancel_many": lambda world: world.tw.cancel_many("orders", [world.message_id, world.message_id]),
    "reschedule": lambda world: world.tw.reschedule("orders", world.message_id, delay="4d"),
    "deliver_now": lambda world: world.tw.deliver_now("orders", world.message_id),
    "find": lambda world: list(world.tw.find("orders", key_prefix="k")),
    "estimate": lambda world: world.tw.estimate("orders", key_prefix="k"),
    "cancel_where": lambda world: world.tw.cancel_where("orders", key_prefix="k"),
    "reschedule_where": lambda world: world.tw.reschedule_where("orders", key_prefix="k", by="1h"),
    "send_recurring": lambda world: world.tw.send_recurring("orders", "daily", "x", every="1d"),
    "recurring": lambda world: world.tw.recurring("orders"),
    "cancel_recurring": lambda world: world.tw.cancel_recurring("orders", "daily"),
    "receive": lambda world: world.tw.receive("orders", "new"),
    "delete": lambda world: world.tw.delete("orders", "new", []),
    "stats": lambda world: world.tw.stats("orders"),
    "get": lambda world: world.tw.get("orders", world.message_id),
    "peek": lambda world: world.tw.peek("orders"),
    "history": lambda world: list(world.tw.history("orders")),
    "sent_by_hour": lambda world: world.tw.sent_by_hour("orders"),
    "ledgers": lambda world: world.tw.ledgers("orders"),
    "read_body": lambda world: world.tw.read_body(WAITING),
    "create_topic": lambda world: world.tw.create_topic("new"),
    "update_topic": lambda world: world.tw.update_topic("orders", max_waiting=10),
    "delete_topic": lambda world: world.tw.delete_topic("orders"),
    "topics": lambda world: world.tw.topics(),
    "purge": lambda world: world.tw.purge("orders"),
    "create_subscription": lambda world: world.tw.create_subscription("orders", "new"),
    "subscriptions": lambda world: world.tw.subscriptions("orders"),
    "pause": lambda world: world.tw.pause("orders", "billing"),
    "resume": lambda world: world.tw.resume("orders", "billing"),
    "set_filter": lambda world: world.tw.set_filter("orders", "billing", None),
    "delete_subscription": lambda world: world.tw.delete_subscription("orders", "billing"),
    "replay": lambda world: world.tw.replay("orders", "billing"),
    "redrive": lambda world: world.tw.redrive("orders", "new"),
    "delete_dead_letters": lambda world: world.tw.delete_dead_letters("orders", "new", ids=["x"]),
    "dead_letters": lambda world: world.tw.dead_letters("orders", "new"),
    "damaged": lambda world: world.tw.damaged("orders"),
    "retry_damaged": lambda world: world.tw.retry_damaged("orders", "billing:000005890755.-.8d969eef6ecad3c2"),
    "restore_damaged": lambda world: world.tw.restore_damaged("orders", "billing:000005890755.-.8d969eef6ecad3c2"),
    "give_up_damaged": lambda world: world.tw.give_up_damaged(
        "orders", "billing:000005890755.-.8d969eef6ecad3c2", "why"
    ),
    "health": lambda world: world.tw.health(),
    "redrive_service": lambda world: world.tw.redrive_service(),
    "refused": lambda world: world.tw.refused(),
}


def test_these_are_all_calls_of_the_client() -> None:
    assert CALLS.keys() == {name for name in vars(Tidewheel) if not name.startswith("_")}


@pytest.mark.parametrize("mode", [Mode.REFUSE, Mode.RESET, Mode.HANG, Mode.ERROR, Mode.THROTTLE])
def test_each_call_ends_with_an_error_of_one_class_and_asks_an_aws_that_hangs_twice(
    world: World, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SDK", replace(QUICK, read_s=0.02 if mode is Mode.HANG else 2, refused=1))
    monkeypatch.setattr(table, "_THROTTLED_BACKOFF_S", 0)
    calls = CALLS | {
        "send a large body": lambda world: world.tw.send("orders", LARGE),
        "receive as a consumer": lambda world: Consumer(world.tw, "orders", "new").receive(),
        "add": lambda world: BufferedSender(world.tw).add("new", "x"),
        "a new client": lambda world: Tidewheel("toy", session=a_session(), endpoint_url=world.endpoint.url).topics(),
        "send as a coroutine": lambda world: asyncio.run(AsyncTidewheel(client=world.tw).send("new", "x")),
    }
    world.endpoint.be(mode)
    for name in calls.keys() - {"health"}:
        world.endpoint.asked.clear()
        fails_for_now(lambda name=name: calls[name](world))  # type: ignore[misc]
        if mode is Mode.HANG:
            until(lambda: len(world.endpoint.asked) >= 2)
            assert len(world.endpoint.asked) == 2, name


def until(condition: Callable[[], bool]) -> None:
    """Waits for what another thread does."""
    end_s = time.monotonic() + 10
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.005)


def fails_for_now(call: Callable[[], object]) -> None:
    """Checks that a call raises a TemporaryFailure, or one for each of its messages."""
    with pytest.raises(TidewheelError) as caught:
        call()
    failed = caught.value.failures.values() if isinstance(caught.value, SendFailed) else [caught.value]
    assert {isinstance(each, TemporaryFailure) for each in failed} == {True}, repr(caught.value)
    assert "try" in str(caught.value)


def test_what_aws_refuses_for_good_is_no_temporary_failure() -> None:
    answer: Any = {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
    with pytest.raises(ClientError), classified():
        raise ClientError(answer, "Query")


def test_health_of_an_aws_that_hangs_ends_and_says_of_each_part_that_it_cannot_be_read(world: World) -> None:
    world.endpoint.be(Mode.HANG)
    findings = world.tw.health()
    assert {each.problem for each in findings} == {Problem.NOT_READABLE}
    until(lambda: len(world.endpoint.asked) >= 2 * len(findings))
    assert len(world.endpoint.asked) == 2 * len(findings)  # the sweep, three queues, refused messages, topics


def test_a_call_has_as_long_as_the_page_says(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []
    monkeypatch.setattr(world.tw.core.cache, "read", lambda _: left.append(deadline.left_s()))
    for call in (lambda: world.tw.stats("orders"), lambda: world.tw.cancel("new", world.message_id)):
        with pytest.raises(AttributeError):
            call()
    assert len(left) == 2
    assert all(CALL_S - 10 < each <= CALL_S for each in left)
    monkeypatch.setattr(world.tw.core.cache, "subscription", lambda *_: left.append(deadline.left_s()))
    with pytest.raises(AttributeError):
        world.tw.receive("orders", "billing", wait_s=20)
    assert CALL_S + 10 < left[2] <= CALL_S + 20
    assert isinf(deadline.left_s())


# ---- sending


def test_a_send_to_an_sqs_that_hangs_says_which_service_where(world: World) -> None:
    world.be(Mode.HANG, "sqs")
    begin_s = time.monotonic()
    with pytest.raises(QueueUnavailable) as caught:
        world.tw.send("orders", "x", delay="1h")
    assert f"(sqs SendMessageBatch at {world.endpoint.url}, tried 2 times; check the network" in str(caught.value)
    assert time.monotonic() - begin_s < 15  # needs 1 s


@pytest.mark.parametrize("mode", [Mode.THROTTLE, Mode.ERROR])
def test_what_is_refused_at_once_is_tried_more_often(calm: World, mode: Mode) -> None:
    calm.be(mode, "sqs", calm.now(mode, 2))
    calm.tw.send("orders", "x", delay="1h")
    assert calm.endpoint.count("sqs") == 3
    calm.be(mode, "sqs")
    with pytest.raises(QueueUnavailable, match="tried 3 times"):
        calm.tw.send("orders", "x", delay="1h")
    assert calm.endpoint.count("sqs") == 6


def test_a_send_names_the_messages_of_the_queue_that_fails_and_sends_all_others(calm: World) -> None:
    urgent = calm.tw.core.connection.settings.urgent_queue_url.rpartition("/")[2].encode()
    calm.be(Mode.ERROR, "sqs", lambda asked: urgent in asked.body)
    messages = [Message(body=str(i), delay="1m" if i % 2 else "1d") for i in range(6)]
    with pytest.raises(SendFailed) as caught:
        calm.tw.send_many("orders", messages)
    assert list(caught.value.failures) == [1, 3, 5]
    assert [each is not None for each in caught.value.receipts] == [True, False] * 3


def test_an_s3_that_hangs_is_not_waited_for_with_every_large_body(calm: World, quick_objects: None) -> None:
    calm.be(Mode.HANG, "s3")
    messages = [Message(body=body, delay="1d") for body in (LARGE, "small", LARGE, LARGE)]
    with pytest.raises(SendFailed) as caught:
        calm.tw.send_many("orders", messages)
    assert list(caught.value.failures) == [0, 2, 3]
    assert calm.endpoint.count("s3") == 2


def test_a_buffered_batch_asks_a_queue_that_hangs_once_for_all_topics(world: World) -> None:
    world.be(Mode.HANG, "sqs")
    with pytest.raises(FlushFailed) as caught, BufferedSender(world.tw, max_messages=4) as sender:
        for topic in ("orders", "carts") * 2:
            sender.add(topic, "x", delay="1d")
    assert caught.value.count == 4
    assert world.endpoint.count("sqs") == 2


# ---- receiving


def test_a_poll_waits_as_long_as_it_was_asked_to_and_no_other_request_does(world: World) -> None:
    world.endpoint.late_s = 3 * QUICK.read_s  # later than other requests wait
    world.be(Mode.LATE, "sqs")
    assert world.tw.receive("orders", "billing", wait_s=20) == []
    assert world.endpoint.count("sqs") == 1
    with pytest.raises(TemporaryFailure, match="Read timeout"):
        world.tw.receive("orders", "billing")


def test_messages_that_were_taken_are_returned_when_the_next_request_fails(calm: World) -> None:
    for i in range(12):
        calm.tw.send("carts", str(i))
    calm.stack.advance(minutes=1)
    calm.endpoint.asked.clear()
    calm.be(Mode.ERROR, "sqs", lambda _: calm.endpoint.count("sqs") > 1)
    assert len(calm.tw.receive("carts", "billing", max_messages=20)) == 10


def test_a_large_body_that_cannot_be_had_leaves_time_for_the_other_messages(
    calm: World, quick_objects: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for body in (LARGE, LARGE, LARGE, "small"):
        calm.stack.client().send("orders", body)
    calm.stack.advance(minutes=1)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: 4 * calm.endpoint.count("s3")))
    calm.be(Mode.HANG, "s3")
    calm.endpoint.asked.clear()
    with deadline.patience(CALM.try_s + 1):  # for one try of S3, which takes 4 s
        found = calm.tw.receive("orders", "billing", max_messages=4)
    assert [each.body for each in found] == ["small"]
    assert calm.endpoint.count("s3") == 1


def test_a_retry_of_a_consumer_ends_and_the_message_stays(calm: World) -> None:
    calm.tw.send("carts", "again")
    calm.stack.advance(minutes=1)
    consumer = Consumer(calm.tw, "carts", "billing")
    [message] = [each for each in consumer.receive(max_messages=50) if each.body == "again"]
    calm.be(Mode.ERROR, "sqs")
    calm.endpoint.asked.clear()
    with pytest.raises(QueueUnavailable):
        consumer.retry_later(message)
    assert calm.endpoint.count("sqs") == CALM.refused


# ---- time


def test_a_throttled_table_is_asked_while_there_is_time_and_no_longer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.tw.core.connection.storage  # its client is made before the time begins
    asked = world.endpoint.asked
    moved = SimpleNamespace(monotonic=lambda: len(asked), sleep=lambda _: None)  # 1 s a request
    monkeypatch.setattr(deadline, "time", moved)
    world.be(Mode.THROTTLE, "dynamodb")
    with deadline.patience(QUICK.try_s + 5), pytest.raises(TemporaryFailure):
        world.tw.stats("orders")
    assert world.endpoint.count("dynamodb") == 6  # the last one begins with 2.05 s left; without a deadline, 15


def test_a_refusal_gives_a_call_no_more_time_and_an_answer_does(calm: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: len(calm.endpoint.asked)))  # 1 s a request
    calm.be(Mode.THROTTLE, "sqs", lambda _: calm.endpoint.count("sqs") <= CALM.refused)
    with deadline.patience(60):
        with pytest.raises(ClientError):
            calm.tw.core.connection.sqs.list_queues()
        assert deadline.left_s() == 60 - CALM.refused
        calm.tw.core.connection.sqs.list_queues()
        assert deadline.left_s() == 60


def test_a_call_without_time_for_another_try_raises_what_aws_said(calm: World) -> None:
    calm.be(Mode.THROTTLE, "sqs")
    with deadline.ends_in(lambda: CALM.try_s + 0.005), pytest.raises(ClientError, match="tried 1 times"):
        calm.tw.core.connection.sqs.list_queues()


def test_a_batch_that_runs_out_of_time_names_its_messages(calm: World) -> None:
    with deadline.ends_in(lambda: 0), pytest.raises(SendFailed) as caught:
        calm.tw.send_many("orders", [Message(body="small", delay="1d"), Message(body=LARGE, delay="1d")])
    assert list(caught.value.failures) == [0, 1]
    assert isinstance(caught.value.failures[1], OutOfTime)


def test_a_long_call_goes_on_while_aws_answers(calm: World, monkeypatch: pytest.MonkeyPatch) -> None:
    each_s = 60
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: each_s * len(calm.endpoint.asked)))
    with deadline.patience(each_s + CALM.try_s):
        calm.tw.stats("orders")
        calm.tw.stats("carts")
    assert len(calm.endpoint.asked) > 2


def test_a_request_is_not_tried_again_once_the_time_is_over(world: World) -> None:
    world.endpoint.be(Mode.REFUSE)
    left_s = iter([60.0, 60.0, 60.0])  # the call, its first try, the wait
    out_of_time = pytest.raises(OutOfTime, match=r"no time is left for sqs\.ListQueues")
    with out_of_time, deadline.ends_in(lambda: next(left_s, 0)):
        world.tw.core.connection.sqs.list_queues()
    with pytest.raises(EndpointConnectionError, match="tried 3 times"):
        world.tw.core.connection.sqs.list_queues()


# ---- other settings, functions and jobs


def test_settings_that_the_caller_gave_to_the_session_come_first(stack: LocalTidewheel) -> None:
    core = botocore.session.Session()
    core.set_credentials("a", "b")
    core.set_default_client_config(Config(retries={"total_max_attempts": 1}, read_timeout=0.3, user_agent_extra="mine"))
    session = boto3.Session(botocore_session=core, region_name="us-east-1")
    with SlowEndpoint(stack.endpoint_url, Mode.HANG) as endpoint:
        client = Connection("toy", session=session, settings=None, endpoint_url=endpoint.url).sqs
        config: Any = client.meta.config
        assert (config.read_timeout, config.user_agent_extra, config.connect_timeout) == (0.3, "mine", 2)
        with pytest.raises(ReadTimeoutError):
            client.list_queues()
        assert len(endpoint.asked) == 1


@pytest.mark.parametrize("mode", [Mode.HANG, Mode.THROTTLE, Mode.ERROR])
def test_a_function_tries_twice(stack: LocalTidewheel, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = stack.client().core.connection.settings
    read_s = 0.2 if mode is Mode.HANG else 60
    function = Tries(connect_s=2, read_s=read_s, silent=tries.FUNCTION.silent, refused=tries.FUNCTION.refused)
    with SlowEndpoint(mode=mode) as endpoint:
        service = Service.of(settings, a_session(), SystemClock(), endpoint_url=endpoint.url, tries=function)
        with pytest.raises((ReadTimeoutError, ClientError)):
            service.queues.refuse({})
        assert len(endpoint.asked) == 2


def test_a_job_is_patient_with_what_its_driver_and_its_tasks_ask_for(
    stack: LocalTidewheel, short_waits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tries.JOB.for_objects
    monkeypatch.setattr("tidewheel.aws.tries.JOB", Tries(connect_s=2, read_s=0.2, silent=3, refused=4))
    with SlowEndpoint(stack.endpoint_url) as endpoint:
        job = make_job({"stack": "toy"}, session=a_session(), clock=SystemClock(), endpoint_url=endpoint.url)
        endpoint.asked.clear()
        endpoint.be(Mode.HANG)
        with pytest.raises(ReadTimeoutError, match="tried 3 times"):
            location.client(job.location, "s3").list_buckets()
        endpoint.be(Mode.THROTTLE)
        with pytest.raises(ClientError, match="tried 4 times"):
            location.client(job.location, "s3").list_buckets()
        config: Any = job.service.objects._client.meta.config  # type: ignore[attr-defined]
        assert (config.read_timeout, config.connect_timeout) == (real.read_s, real.connect_s)


def test_a_request_of_a_job_ends_within_two_minutes() -> None:
    job = tries.JOB.for_objects
    pauses = [min(tries._MAX_BACKOFF_S, tries._BACKOFF_S * 2**each) for each in range(1, job.refused)]
    assert job.silent * job.try_s + sum(pauses[: job.silent - 1]) < 120
    assert 25 < sum(pauses) / 2  # noqa: SIM300
    assert sum(pauses) < 120


def test_a_buffered_sender_that_is_closed_soon_gives_up_a_queue_that_hangs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SDK", Tries(connect_s=2, read_s=1, silent=9, refused=9))
    monkeypatch.setattr(buffered, "CLOSE_S", 1)
    world.be(Mode.HANG, "sqs")
    sender = BufferedSender(world.tw, max_age_s=0)
    sender.add("orders", "x", delay="3d")
    until(lambda: world.endpoint.count("sqs") > 0)
    began_s = time.monotonic()
    with pytest.raises(FlushFailed):
        sender.close()
    assert time.monotonic() - began_s < 0.5 * CALL_S  # it took one second, not nine tries or CALL_S


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (503, "ServiceUnavailable", True),
        (500, "InternalError", True),
        (400, "RequestThrottled", True),
        (403, "AccessDenied", False),
        (403, "ExpiredToken", False),
        (400, "AWS.SimpleQueueService.NonExistentQueue", False),
    ],
)
def test_throttling_and_errors_of_aws_itself_pass_and_refusals_do_not(status: int, code: str, expected: bool) -> None:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    assert tries.passes(ClientError(answer, "ReceiveMessage")) is expected


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_endpoint_on_this_machine_is_asked_without_the_environments_proxy(
    stack: LocalTidewheel, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint_url = stack.endpoint_url.replace("127.0.0.1", host)
    monkeypatch.setattr(tries, "_BACKOFF_S", 0.01)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    Tidewheel("toy", session=a_session(), endpoint_url=endpoint_url, clock=stack.clock).topics()
    make_job({"stack": "toy"}, session=a_session(), clock=SystemClock(), endpoint_url=endpoint_url)
    other = Connection("toy", session=a_session(), settings=None, endpoint_url="http://aws.example").sqs
    with pytest.raises(ProxyConnectionError):
        other.list_queues()
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint_url)
    Tidewheel("toy", session=a_session(), clock=stack.clock).topics()
