"""dramatiq's own worker on the local stack, with delays of days."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import Pipelines, Retries
from dramatiq_sqs import MessageTooLarge

from tidewheel import InvalidValue
from tidewheel.errors import QueueNotPrepared
from tidewheel.integrations.dramatiq import TidewheelSQSBroker
from tidewheel.local import LocalTidewheel

PATIENCE_S = 60
"""What a worker may take for what needs milliseconds: the machine may be busy."""
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def _options(stack: LocalTidewheel) -> dict[str, Any]:
    """Where SQSBroker finds SQS."""
    return {
        "endpoint_url": stack.endpoint_url,
        "region_name": "us-east-1",
        "aws_access_key_id": "local",
        "aws_secret_access_key": "local",
    }


def _broker(stack: LocalTidewheel, **options: Any) -> TidewheelSQSBroker:
    return TidewheelSQSBroker(tidewheel=stack.client(), **_options(stack), **options)


class Acknowledged(dramatiq.Middleware):
    """Reports messages acknowledged by the worker, after the actor ran."""

    def __init__(self) -> None:
        self._done: SimpleQueue[str] = SimpleQueue()

    def after_ack(self, broker: dramatiq.Broker, message: Any) -> None:
        self._done.put(message.message_id)

    def wait(self) -> None:
        """Waits for the next acknowledgement."""
        self._done.get(timeout=PATIENCE_S)


@contextmanager
def _working(broker: dramatiq.Broker) -> Iterator[None]:
    """Runs dramatiq's worker on a separate thread."""
    worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=1)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


def _actor(broker: dramatiq.Broker, **options: Any) -> tuple[dramatiq.Actor[Any, Any], SimpleQueue[Any]]:
    """Declares an actor. Each call's arguments are put into the returned queue."""
    runs: SimpleQueue[Any] = SimpleQueue()

    def remind(customer: str, *, text: str = "") -> None:
        runs.put((customer, text))

    return dramatiq.actor(remind, broker=broker, **options), runs


def _depth(stack: LocalTidewheel, queue: str = "default") -> int:
    """Counts all messages in a queue, including delayed and in-flight messages."""
    return len(stack.queue(queue).everything)


def _receivable(stack: LocalTidewheel, queue: str = "default") -> int:
    return len(stack.queue(queue).messages)


@pytest.fixture
def stack() -> Iterator[LocalTidewheel]:
    with LocalTidewheel() as opened:
        yield opened
        assert opened.failures == []


def test_what_sqs_can_hold_back_goes_to_the_queue_as_ever(stack: LocalTidewheel) -> None:
    broker = _broker(stack)
    remind, _ = _actor(broker)
    sent = remind.send_with_options(args=("c-1",), delay=900_000)  # and needs no topic
    assert "tidewheel_id" not in sent.options
    assert _depth(stack) == 1
    broker.prepare()
    remind.send_with_options(args=("c-2",), delay=900_001)
    assert _depth(stack) == 1
    stack.advance(minutes=16)
    assert _depth(stack) == 2


def test_a_retry_after_hours_comes_after_hours(stack: LocalTidewheel) -> None:
    acknowledged = Acknowledged()
    # dramatiq's jitter makes that two to four hours.
    broker = _broker(stack, middleware=[Retries(min_backoff=2 * HOUR_MS), acknowledged])
    tries: SimpleQueue[int] = SimpleQueue()
    attempts = iter(range(1, 9))

    def flaky() -> None:
        tries.put(attempt := next(attempts))
        if attempt == 1:
            raise RuntimeError("try again")

    actor = dramatiq.actor(flaky, broker=broker)
    broker.prepare()
    actor.send()
    with _working(broker):
        assert tries.get(timeout=PATIENCE_S) == 1
        acknowledged.wait()  # which is after the retry was sent
        stack.advance(minutes=119)
        assert _receivable(stack) == 0
        stack.advance(hours=2, minutes=2)
        assert tries.get(timeout=PATIENCE_S) == 2
    assert tries.empty()
    assert _depth(stack) == 0


def test_a_pipeline_with_a_delay_starts_late_and_goes_on_at_once(stack: LocalTidewheel) -> None:
    broker = _broker(stack, middleware=[Pipelines()])
    remind, runs = _actor(broker)
    first = dramatiq.actor(lambda number: f"c-{number}", actor_name="first", broker=broker)
    broker.prepare()
    dramatiq.pipeline([first.message(7), remind.message(text="piped")], broker=broker).run(delay=DAY_MS)
    stack.advance(hours=23, minutes=59)
    assert _receivable(stack) == 0
    stack.advance(minutes=1)
    with _working(broker):
        assert runs.get(timeout=PATIENCE_S) == ("c-7", "piped")


def test_the_returned_message_says_where_it_waits(stack: LocalTidewheel) -> None:
    broker = _broker(stack, namespace="prod", topics={"prod_mail": "late-mail"})
    remind, _ = _actor(broker, queue_name="mail")
    broker.prepare(["mail"])
    message = remind.message("c-1")
    sent = broker.enqueue(message, delay=DAY_MS)
    assert sent.message_id == message.message_id
    assert sent.options["tidewheel_topic"] == "late-mail"
    stack.advance(days=1)
    [delivered] = stack.receive("late-mail", "workers")
    assert delivered.id == sent.options["tidewheel_id"]


def test_middleware_sees_a_delayed_message_as_any_other(stack: LocalTidewheel) -> None:
    seen: list[tuple[str, str, int | None]] = []

    class Watching(dramatiq.Middleware):
        def before_enqueue(self, broker: dramatiq.Broker, message: Any, delay: int | None) -> None:
            seen.append(("before", message.message_id, delay))

        def after_enqueue(self, broker: dramatiq.Broker, message: Any, delay: int | None, **_: Any) -> None:
            seen.append(("after", message.message_id, delay))

    broker = _broker(stack, middleware=[Watching()])
    remind, _ = _actor(broker)
    broker.prepare()
    ids = [remind.send_with_options(args=("c",), delay=delay).message_id for delay in (60_000, DAY_MS)]
    assert seen == [(when, ids[i], delay) for i, delay in ((0, 60_000), (1, DAY_MS)) for when in ("before", "after")]


def test_a_queue_that_was_not_prepared_is_refused_with_what_to_do(stack: LocalTidewheel) -> None:
    remind, _ = _actor(_broker(stack))
    with pytest.raises(QueueNotPrepared, match=r"call prepare\(\)"):
        remind.send_with_options(args=("c-1",), delay=DAY_MS)


@pytest.mark.parametrize(("delay_ms", "characters"), [(DAY_MS, 800_000), (4000 * DAY_MS, 1)])
def test_what_cannot_be_delivered_is_refused(stack: LocalTidewheel, delay_ms: int, characters: int) -> None:
    broker = _broker(stack)
    remind, _ = _actor(broker)
    broker.prepare()
    with pytest.raises((InvalidValue, MessageTooLarge)):
        remind.send_with_options(args=("c" * characters,), delay=delay_ms)
    assert stack.requests["sqs.SendMessageBatch"] == 0


def test_an_undeclared_queue_cannot_be_prepared(stack: LocalTidewheel) -> None:
    with pytest.raises(dramatiq.QueueNotFound):
        _broker(stack).prepare(["nobody"])
