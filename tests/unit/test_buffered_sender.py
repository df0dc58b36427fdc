"""Tests the buffered sender's times of sends and its failures. No message is lost without an error."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel import (
    BufferedSender,
    BufferFull,
    Closed,
    FailedMessage,
    FlushFailed,
    InvalidValue,
    LimitExceeded,
    Receipt,
    Tidewheel,
)
from tidewheel.local import MemoryTidewheel

TOPIC = "orders"
LONG_S = 600.0
"""Age that no test reaches."""


class Service:
    """A service in memory whose SQS can be held back, or refuse."""

    def __init__(self, **topic: int) -> None:
        self.stack = MemoryTidewheel()
        self.client: Tidewheel = self.stack.client()
        self.client.create_topic(TOPIC, **topic)
        self.client.create_subscription(TOPIC, "billing")
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Semaphore(0)
        self.refusals = 0
        self.batches: list[int] = []
        self._send = self.stack.sqs.send_message_batch
        self.stack.sqs.send_message_batch = self._send_message_batch  # type: ignore[method-assign]

    def _send_message_batch(self, *, QueueUrl: str, Entries: Sequence[Any]) -> dict[str, Any]:
        self.arrived.release()
        assert self.gate.wait(10)
        if self.refusals:
            self.refusals -= 1
            failed = [{"Id": each["Id"], "SenderFault": True, "Code": "Refused", "Message": ""} for each in Entries]
            return {"Failed": failed}
        self.batches.append(len(Entries))
        return self._send(QueueUrl=QueueUrl, Entries=Entries)

    def received(self) -> list[str]:
        """The bodies of all due messages."""
        self.stack.advance(seconds=2)
        return sorted(each.body for each in self.stack.receive(TOPIC, "billing"))


def ids(futures: list[Future[Receipt]]) -> list[str]:
    return [future.result(timeout=10).id for future in futures]


# ---- when it sends


def test_so_many_messages_are_sent_together_and_the_rest_at_the_end() -> None:
    service = Service()
    with BufferedSender(service.client, max_messages=3, max_age_s=LONG_S) as sender:
        futures = [sender.add(TOPIC, str(i)) for i in range(3)]
        assert len(set(ids(futures))) == 3
        last = sender.add(TOPIC, "3")
        assert not last.done()
    assert last.done() and len(service.batches) == 2
    assert service.received() == ["0", "1", "2", "3"]


def test_so_many_bytes_are_sent_whatever_their_number() -> None:
    service = Service()
    with BufferedSender(service.client, max_bytes=1000, max_age_s=LONG_S) as sender:
        small = sender.add(TOPIC, "small")
        assert not small.done()
        sender.add(TOPIC, "x" * 1000)
        assert small.result(timeout=10)


def test_what_has_waited_long_enough_is_sent_without_another_message() -> None:
    service = Service()
    with BufferedSender(service.client, max_age_s=0.01) as sender:
        assert sender.add(TOPIC, "x").result(timeout=10)


def test_flush_waits_for_all_that_was_added_before() -> None:
    service = Service()
    with BufferedSender(service.client, max_age_s=LONG_S) as sender:
        futures = [sender.add(TOPIC, str(i)) for i in range(10)]
        sender.flush()
        assert all(future.done() for future in futures) and sender.pending == 0
        sender.flush()  # nothing to do


def test_messages_of_several_topics_go_each_to_their_own_and_in_their_order() -> None:
    service = Service()
    service.client.create_topic("others")
    service.client.create_subscription("others", "billing")
    with BufferedSender(service.client, max_age_s=LONG_S) as sender:
        futures = [sender.add(topic, str(i)) for i in range(6) for topic in (TOPIC, "others")]
    assert Counter(future.result().topic for future in futures) == {TOPIC: 6, "others": 6}
    assert ids(futures[::2]) == sorted(ids(futures[::2]))
    service.stack.advance(seconds=1)
    assert [each.body for each in service.stack.receive("others", "billing")] == list("012345")


def test_a_delay_counts_from_the_moment_of_adding() -> None:
    service = Service()
    with BufferedSender(service.client, max_age_s=LONG_S) as sender:
        future = sender.add(TOPIC, "x", delay="10s", attributes={"a": "b"}, key="k", expires_in="1h")
        due_ms = service.stack.clock.now_ms() + 10_000
        service.stack.advance(seconds=5)
    assert future.result().deliver_at_ms == due_ms
    service.stack.advance(seconds=6)
    [message] = service.stack.receive(TOPIC, "billing")
    assert (message.key, message.attributes) == ("k", {"a": "b"})


def test_a_body_that_is_changed_after_adding_is_sent_as_it_was() -> None:
    service = Service()
    body = {"id": 1}
    with BufferedSender(service.client, max_age_s=LONG_S) as sender:
        sender.add(TOPIC, body)
        body["id"] = 2
    assert service.received() == ['{"id":1}']


def test_a_topic_whose_large_bodies_are_refused_fails_no_other_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service()
    service.client.create_topic("other")
    objects = service.client.core.connection.objects
    put = objects.put

    def refusing(name: str, data: bytes, *, new: bool = False) -> None:
        if f"/{TOPIC}/" in name:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "PutObject")
        put(name, data, new=new)

    monkeypatch.setattr(objects, "put", refusing)
    sender = BufferedSender(service.client, max_age_s=LONG_S)
    refused, taken = (sender.add(topic, "x" * 1_500_000) for topic in (TOPIC, "other"))
    with pytest.raises(FlushFailed):
        sender.close()
    assert isinstance(refused.exception(), ClientError)
    assert taken.exception() is None


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 400), max_size=60),
    max_messages=st.integers(1, 20),
    max_bytes=st.integers(1, 2000),
    max_pending=st.integers(1, 30),
)
def test_every_message_is_sent_once_whatever_the_limits(
    sizes: list[int], max_messages: int, max_bytes: int, max_pending: int
) -> None:
    service = Service()
    with BufferedSender(
        service.client,
        max_messages=max_messages,
        max_bytes=max_bytes,
        max_pending=max_pending,
        max_pending_bytes=1000,
        max_age_s=0.001,
    ) as sender:
        futures = [sender.add(TOPIC, f"{i}-{'x' * size}") for i, size in enumerate(sizes)]
    assert len(set(ids(futures))) == len(sizes)
    assert service.received() == sorted(f"{i}-{'x' * size}" for i, size in enumerate(sizes))


def test_many_threads_may_add_to_one() -> None:
    service = Service()
    with BufferedSender(service.client, max_messages=7, max_pending=20) as sender:

        def add(name: int) -> None:
            for i in range(50):
                sender.add(TOPIC, f"{name}-{i}")

        threads = [threading.Thread(target=add, args=(name,)) for name in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(service.received()) == 300


# ---- back-pressure


def test_adding_waits_while_the_buffer_is_full_and_goes_on_when_there_is_room() -> None:
    service = Service()
    service.gate.clear()
    with BufferedSender(service.client, max_messages=1, max_pending=2) as sender:
        sender.add(TOPIC, "0")
        sender.add(TOPIC, "1")
        added = threading.Event()
        thread = threading.Thread(target=lambda: (sender.add(TOPIC, "2"), added.set()))
        thread.start()
        assert service.arrived.acquire(timeout=10)
        assert not added.is_set() and sender.pending == 2
        service.gate.set()
        assert added.wait(10)
        thread.join()
    assert service.received() == ["0", "1", "2"]


def test_adding_gives_up_after_its_time_and_says_what_to_do() -> None:
    service = Service()
    service.gate.clear()
    with BufferedSender(service.client, max_messages=1, max_pending_bytes=100, max_wait_s=0.01) as sender:
        sender.add(TOPIC, "x" * 150)  # larger than the limit, but alone
        with pytest.raises(BufferFull, match=r"1 messages of 150 bytes wait .* none went within 0.01 s: send less"):
            sender.add(TOPIC, "y")
        service.gate.set()
    assert service.received() == ["x" * 150]


def test_messages_fit_up_to_the_very_byte_and_those_that_were_cancelled_make_room_again() -> None:
    service = Service()
    with BufferedSender(service.client, max_pending_bytes=100, max_wait_s=0, max_age_s=LONG_S) as sender:
        for _ in range(3):
            assert sender.add(TOPIC, "x" * 60).cancel()
            sender.flush()
        sender.add(TOPIC, "a" * 40)
        cancelled = sender.add(TOPIC, "b" * 60)
        with pytest.raises(BufferFull, match="2 messages of 100 bytes"):
            sender.add(TOPIC, "c")
        assert cancelled.cancel()
        with pytest.raises(BufferFull):  # its place is free when the buffer is sent
            sender.add(TOPIC, "c")
        sender.flush()
        sender.add(TOPIC, "d" * 100)
    assert service.received() == ["a" * 40, "d" * 100]


def test_a_buffer_whose_messages_are_all_cancelled_is_sent_to_nobody_and_the_sender_goes_on() -> None:
    service = Service()
    with BufferedSender(service.client, max_messages=2, max_age_s=LONG_S) as sender:
        futures = [sender.add(TOPIC, "cancelled")]
        assert futures[0].cancel()
        futures.append(sender.add(TOPIC, "sent"))  # the second of two: a cancelled message counts until then
        assert futures[1].result(timeout=10) and service.batches == [1]
        assert sender.add(TOPIC, "cancelled, too").cancel()
        sender.flush()
        assert (sender.pending, service.batches) == (0, [1])
    assert service.received() == ["sent"]


def test_a_message_on_its_way_cannot_be_cancelled_and_the_sender_goes_on() -> None:
    service = Service()
    service.gate.clear()
    with BufferedSender(service.client, max_messages=1) as sender:
        future = sender.add(TOPIC, "on its way")
        assert service.arrived.acquire(timeout=10)
        assert not future.cancel()
        service.gate.set()
        assert sender.add(TOPIC, "next").result(timeout=10)
    assert service.received() == ["next", "on its way"]


# ---- what is wrong


def test_a_topics_limit_is_told_where_the_message_is_added() -> None:
    service = Service(max_waiting=2)
    with BufferedSender(service.client, max_age_s=LONG_S) as sender:
        for i in range(2):
            sender.add(TOPIC, str(i), delay="1d")
        with pytest.raises(LimitExceeded, match="max_waiting"):
            sender.add(TOPIC, "one too many", delay="1d")


def test_what_sqs_refuses_is_raised_by_flush_with_the_messages_and_by_each_future() -> None:
    service = Service()
    service.refusals = 1
    with BufferedSender(service.client, max_age_s=LONG_S) as sender:
        sent = [sender.add(TOPIC, f"bad {i}") for i in range(2)]
        said = r"2 messages were added and not sent; first message 0 of topic 'orders': .* Refused"
        with pytest.raises(FlushFailed, match=said) as caught:
            sender.flush()
        good = sender.add(TOPIC, "good")
    assert [(each.index, each.message.body) for each in caught.value.failures] == [(0, "bad 0"), (1, "bad 1")]
    assert all("Refused" in str(future.exception()) for future in sent)
    assert good.result()
    assert service.received() == ["good"]


def test_an_error_of_the_block_is_not_hidden_by_a_failure_to_send() -> None:
    service = Service()
    service.refusals = 1
    with pytest.raises(RuntimeError, match="the block's") as caught, BufferedSender(service.client) as sender:
        sender.add(TOPIC, "bad")
        raise RuntimeError("the block's")
    [note] = caught.value.__notes__
    assert note.startswith("1 messages were added and not sent")


def test_a_callback_gets_every_failure_and_then_flush_does_not_raise(caplog: pytest.LogCaptureFixture) -> None:
    service = Service()
    service.refusals = 1
    failed: list[FailedMessage] = []

    def on_failure(failure: FailedMessage) -> None:
        failed.append(failure)
        raise RuntimeError("the callback's own")

    with BufferedSender(service.client, max_age_s=LONG_S, on_failure=on_failure) as sender:
        futures = [sender.add(TOPIC, str(i)) for i in range(2)]
    assert [each.message.body for each in failed] == ["0", "1"]
    assert all(future.exception() is failed[0].error for future in futures)
    assert "on_failure raised" in caplog.text


def test_a_callback_may_add_the_message_again_and_does_not_wait_for_itself() -> None:
    service = Service()
    service.refusals = 1
    errors: list[Exception] = []
    senders: list[BufferedSender] = []

    def again(failure: FailedMessage) -> None:
        try:
            senders[0].add(TOPIC, failure.message.body)
            senders[0].flush()
        except Exception as error:
            errors.append(error)

    sender = BufferedSender(service.client, max_age_s=LONG_S, max_messages=2, max_pending=3, on_failure=again)
    senders.append(sender)
    for i in range(2):
        sender.add(TOPIC, str(i))
    sender.flush()
    sender.close()
    assert service.received() == ["0"]
    assert [type(error) for error in errors] == [InvalidValue, BufferFull]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_messages": 0},
        {"max_bytes": "1"},
        {"max_pending": True},
        {"max_pending_bytes": 1.5},
        {"max_age_s": -1},
        {"max_wait_s": float("nan")},
        {"on_failure": "print"},
    ],
)
def test_limits_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        BufferedSender(Service().client, **wrong)


# ---- its end


def test_a_closed_sender_says_so_and_closing_it_again_is_harmless() -> None:
    sender = BufferedSender(Service().client)
    sender.add(TOPIC, "x")
    sender.close()
    sender.close()
    with pytest.raises(Closed, match="this BufferedSender was closed: make a new one"):
        sender.add(TOPIC, "y")


def test_who_waits_for_room_is_told_when_the_sender_is_closed() -> None:
    service = Service()
    service.gate.clear()
    sender = BufferedSender(service.client, max_messages=1, max_pending=1)
    sender.add(TOPIC, "0")
    assert service.arrived.acquire(timeout=10)
    errors: list[Exception] = []

    def add() -> None:
        try:
            sender.add(TOPIC, "1")
        except Closed as error:
            errors.append(error)
            service.gate.set()

    waiting = threading.Thread(target=add)
    waiting.start()
    sender.close()
    waiting.join()
    assert len(errors) == 1
    assert service.received() == ["0"]


def test_a_program_that_ends_without_closing_sends_what_it_added() -> None:
    program = """
import atexit
from tidewheel import BufferedSender
from tidewheel.local import MemoryTidewheel
stack = MemoryTidewheel()
client = stack.client()
client.create_topic("orders")
client.create_subscription("orders", "billing")
def show():
    stack.advance(seconds=1)
    print([message.body for message in stack.receive("orders", "billing")])
atexit.register(show)
BufferedSender(client, max_age_s=600).add("orders", "at the last moment")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("['at the last moment']", "", 0)


def test_a_forked_process_is_told_to_make_its_own_and_sends_nothing_of_its_parents() -> None:
    service = Service()
    context = multiprocessing.get_context("fork")
    answers: Any = context.SimpleQueue()
    with BufferedSender(service.client, max_age_s=LONG_S) as sender:
        sender.add(TOPIC, "the parent's")

        def child() -> None:
            try:
                sender.add(TOPIC, "the child's")
            except Closed as error:
                sender.close()
                answers.put(str(error))

        process = context.Process(target=child)
        process.start()
        process.join(30)
        assert process.exitcode == 0
        assert "belongs to process" in answers.get()
    assert service.received() == ["the parent's"]
