"""Celery's own worker on the local stack, with ETAs days ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import SimpleQueue
from typing import Any

import kombu
import pytest
from celery import Celery, signals
from celery.contrib.testing.worker import start_worker
from kombu.transport import SQS

from tidewheel import InvalidValue, NotConfigured
from tidewheel.clock import ManualClock
from tidewheel.errors import QueueNotPrepared
from tidewheel.integrations import celery as delayed
from tidewheel.integrations.queue_topics import QueueTopics
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Receipt

PATIENCE_S = 60
"""What a worker may take for what needs milliseconds: the machine may be busy."""
THREE_DAYS = timedelta(days=3)


class Tasks:
    """An app on the local stack with one task.

    Attributes:
        app, remind: the app, and its task.
        runs: what the task was called with, in order, with its request.
    """

    def __init__(self, stack: LocalTidewheel, **transport_options: Any) -> None:
        self.app = Celery(
            "tests", broker=stack.endpoint_url.replace("http://", "sqs://local:local@"), set_as_current=False
        )
        self.app.conf.update(
            broker_transport_options={
                "is_secure": False,
                "region": "us-east-1",
                "wait_time_seconds": 0,
                "polling_interval": 0.05,
                **transport_options,
            },
            worker_enable_remote_control=False,
        )
        self.runs: SimpleQueue[tuple[Any, ...]] = SimpleQueue()

        @self.app.task(bind=True, shared=False)
        def remind(task: Any, customer: str, *, text: str = "") -> None:
            self.runs.put((customer, text, task.request.id, task.request.eta))

        self.remind = remind

    @contextmanager
    def working(self) -> Iterator[None]:
        """Runs Celery's worker on a separate thread."""
        with start_worker(self.app, pool="solo", perform_ping_check=False, shutdown_timeout=PATIENCE_S):
            yield


@contextmanager
def _watching(signal: Any, receiver: Callable[..., None]) -> Iterator[None]:
    signal.connect(receiver, weak=False)
    try:
        yield
    finally:
        signal.disconnect(receiver)


@contextmanager
def _acknowledging() -> Iterator[Callable[[], str]]:
    """Yields a function that waits for the worker's next acknowledgement, before or after the task's run."""
    done: SimpleQueue[str] = SimpleQueue()
    basic_ack = SQS.Channel.basic_ack

    def watched(channel: SQS.Channel, delivery_tag: str, multiple: bool = False) -> None:
        basic_ack(channel, delivery_tag, multiple)
        done.put(delivery_tag)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SQS.Channel, "basic_ack", watched)
        yield partial(done.get, timeout=PATIENCE_S)


def _depth(stack: LocalTidewheel, queue: str = "celery") -> int:
    """Counts all messages in a queue, including delayed and in-flight messages."""
    return len(stack.queue(queue).everything)


def _receivable(stack: LocalTidewheel, queue: str = "celery") -> int:
    return len(stack.queue(queue).messages)


@pytest.fixture
def stack() -> Iterator[LocalTidewheel]:
    # Celery's own clock is the machine's.
    with LocalTidewheel(start=datetime.now(UTC).replace(microsecond=0)) as opened:
        yield opened
        assert opened.failures == []


@pytest.fixture
def tasks(stack: LocalTidewheel) -> Tasks:
    """Tasks with the integration, prepared."""
    made = Tasks(stack)
    delayed.install(made.app, tidewheel=stack.client())
    delayed.prepare(made.app)
    return made


# ---- with a worker


def test_a_retry_after_hours_comes_after_hours(stack: LocalTidewheel, tasks: Tasks) -> None:
    tries: SimpleQueue[int] = SimpleQueue()

    @tasks.app.task(bind=True, shared=False)
    def flaky(task: Any) -> None:
        tries.put(task.request.retries)
        if task.request.retries == 0:
            raise task.retry(countdown=7200)

    ended: SimpleQueue[str] = SimpleQueue()
    flaky.delay()
    with (
        _watching(signals.task_postrun, lambda task_id, **_: ended.put(task_id)),
        _acknowledging() as await_acknowledgement,
        tasks.working(),
    ):
        assert tries.get(timeout=PATIENCE_S) == 0
        ended.get(timeout=PATIENCE_S)  # the retry was sent
        await_acknowledgement()
        stack.advance(hours=1, minutes=59)
        assert _receivable(stack) == 0
        stack.advance(hours=1)
        assert tries.get(timeout=PATIENCE_S) == 1
        await_acknowledgement()
    assert tries.empty()
    assert _depth(stack) == 0


# ---- what is sent


def test_an_eta_within_fifteen_minutes_goes_to_the_queue_as_ever(stack: LocalTidewheel) -> None:
    tasks = Tasks(stack)
    delayed.install(tasks.app, tidewheel=stack.client())
    tasks.remind.apply_async(("c-1",), countdown=890)  # and needs no topic
    assert _depth(stack) == 1


@pytest.mark.parametrize("base64", [True, False])
def test_the_queue_holds_what_kombu_would_have_put_there_but_for_the_eta(stack: LocalTidewheel, base64: bool) -> None:
    tasks = Tasks(stack, sqs_base64_encoding=base64)
    delayed.install(tasks.app, tidewheel=stack.client())
    [subscription] = delayed.prepare(tasks.app)
    attributes = {"kind": {"DataType": "String", "StringValue": "renewal"}}
    tasks.remind.apply_async(("c-1",), eta=stack.now() + THREE_DAYS, message_attributes=attributes)
    stack.advance(days=3)
    sqs: Any = stack.session.client("sqs")
    [raw] = sqs.receive_message(QueueUrl=subscription.queue_url, MessageAttributeNames=["All"])["Messages"]
    assert raw["MessageAttributes"]["kind"] == attributes["kind"]
    assert set(raw["MessageAttributes"]) == {"kind", "tidewheel"}
    assert raw["Body"].startswith("{") is not base64


def test_task_delayed_tells_where_a_task_waits(stack: LocalTidewheel, tasks: Tasks) -> None:
    told: list[Mapping[str, Any]] = []
    with _watching(delayed.task_delayed, lambda **of: told.append(of)):
        tasks.remind.apply_async(("c-0",))
        sent = tasks.remind.apply_async(("c-1",), eta=stack.now() + THREE_DAYS)
    [one] = told
    assert (one["sender"], one["task_id"], one["queue"]) == (tasks.remind.name, sent.id, "celery")
    receipt: Receipt = one["receipt"]
    assert receipt.topic == "celery"
    stack.receive("celery", "workers")
    stack.advance(days=3)
    [message] = stack.receive("celery", "workers")
    assert message.id == receipt.id


def test_each_queue_has_a_topic_of_its_own(stack: LocalTidewheel) -> None:
    tasks = Tasks(stack, queue_name_prefix="prod-")
    delayed.install(tasks.app, tidewheel=stack.client(), topics={"prod-celery": "late-tasks"})
    made = delayed.prepare(tasks.app, ["celery", "emails.out"], slot_s=60)
    assert made == delayed.prepare(tasks.app, ["celery", "emails.out"])
    assert [(each.topic, each.queue_url.rpartition("/")[2]) for each in made] == [
        ("late-tasks", "prod-celery"),
        ("prod-emails-out", "prod-emails-out"),
    ]
    for queue in ("celery", "emails.out"):
        tasks.remind.apply_async((queue,), countdown=3600, queue=queue)
    stack.advance(hours=2)
    assert _depth(stack, "prod-celery") == _depth(stack, "prod-emails-out") == 1


# ---- when a message is due


@pytest.mark.parametrize(
    ("eta", "expected"),
    [
        ("2026-01-04T00:00:00+00:00", datetime(2026, 1, 4, tzinfo=UTC)),
        ("2026-01-04T02:00:00+02:00", datetime(2026, 1, 4, tzinfo=UTC)),
        ("2026-01-04T00:00:00Z", datetime(2026, 1, 4, tzinfo=UTC)),
        ("2026-01-04T00:00:00", datetime(2026, 1, 4, tzinfo=UTC)),  # as the worker reads it
        ("2026-01-01T00:15:00.000001Z", datetime(2026, 1, 1, 0, 15, 0, 1, UTC)),
        ("2026-01-01T00:15:00Z", None),
        ("2025-01-01T00:00:00Z", None),
        ("tomorrow", None),
        (None, None),
    ],
)
def test_a_message_is_due_at_its_eta_if_that_is_beyond_the_threshold(
    eta: str | None, expected: datetime | None
) -> None:
    clock = ManualClock(round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000))
    found = delayed.DelayedTasks(topics=QueueTopics(LocalTidewheel), threshold_s=900, clock=clock)  # type: ignore[arg-type]
    assert found.due({"headers": {"eta": eta}}) == expected
    assert found.due({"headers": {"eta": eta}, "redelivered": True}) is None
    assert found.due({"headers": None}) is None


# ---- what is refused


def test_a_queue_that_was_not_prepared_is_refused_with_what_to_do(stack: LocalTidewheel) -> None:
    tasks = Tasks(stack)
    delayed.install(tasks.app, tidewheel=stack.client())
    with pytest.raises(QueueNotPrepared, match=r"call prepare\(\)"):
        tasks.remind.apply_async(("c-1",), countdown=3600)
    assert _depth(stack) == 0
    tasks.remind.delay("now")  # the channel is as good as before
    assert _depth(stack) == 1


def test_a_fifo_queue_is_refused_before_it_is_made(stack: LocalTidewheel, tasks: Tasks) -> None:
    with pytest.raises(InvalidValue, match="FIFO queues take no delay"):
        delayed.prepare(tasks.app, ["orders.fifo"])
    assert not stack.session.client("sqs").list_queues(QueueNamePrefix="orders").get("QueueUrls")
    with pytest.raises(InvalidValue, match="FIFO queues take no delay"):
        tasks.remind.apply_async(("c-1",), countdown=3600, queue="orders.fifo")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"args": ("c" * 1_100_000,)}, "SQS takes"),
        ({"message_attributes": {"n": {"DataType": "Number", "StringValue": "1"}}}, "only String attributes"),
        ({"countdown": 3700 * 86_400}, "ten years|3,?653 days"),
    ],
)
def test_what_cannot_be_delivered_is_refused(
    stack: LocalTidewheel, tasks: Tasks, options: Mapping[str, Any], said: str
) -> None:
    with pytest.raises(InvalidValue, match=said):
        tasks.remind.apply_async(**{"args": ("c-1",), "countdown": 3600, **options})
    assert stack.requests["sqs.SendMessageBatch"] == 0


def test_install_refuses_a_broker_that_is_not_sqs(stack: LocalTidewheel) -> None:
    app = Celery("tests", broker="memory://", set_as_current=False)
    with pytest.raises(InvalidValue, match=r"kombu\.transport\.memory:Transport.*use an sqs:// broker"):
        delayed.install(app, tidewheel=stack.client())


def test_install_refuses_a_message_protocol_that_hides_the_eta(stack: LocalTidewheel) -> None:
    tasks = Tasks(stack)
    tasks.app.conf.task_protocol = 1
    with pytest.raises(InvalidValue, match="task_protocol=1"):
        delayed.install(tasks.app, tidewheel=stack.client())


def test_install_keeps_a_transport_derived_from_its_own(stack: LocalTidewheel) -> None:
    class Own(delayed.Transport):
        pass

    tasks = Tasks(stack)
    tasks.app.conf.broker_transport = Own
    delayed.install(tasks.app, tidewheel=stack.client())
    delayed.install(tasks.app, tidewheel=stack.client())  # twice is fine
    with tasks.app.connection_for_write() as connection:
        assert type(connection.transport) is Own


def test_transport_options_that_were_replaced_after_install_are_named(stack: LocalTidewheel, tasks: Tasks) -> None:
    tasks.app.conf.broker_transport_options = {"region": "us-east-1"}
    with pytest.raises(NotConfigured, match=r"install\(app"):
        delayed.prepare(tasks.app)
    with (
        pytest.raises(NotConfigured, match=r"install\(app"),
        kombu.Connection(stack.endpoint_url.replace("http", "sqs"), transport=delayed.TRANSPORT) as connection,
    ):
        connection.channel()
