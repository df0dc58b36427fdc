"""Defines the public methods that `LocalTidewheel` and `MemoryTidewheel` share."""

from __future__ import annotations

import datetime as dt
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from heapq import nlargest
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from tidewheel.clock import Clock, ManualClock, utc
from tidewheel.errors import InvalidValue
from tidewheel.local.pump import Failure, Pump
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.memory.sqs_queue import MemoryQueue
from tidewheel.model.duration import delay_ms, read_time
from tidewheel.model.message import HEADER_ATTRIBUTE, MessageId
from tidewheel.model.received import parse_received
from tidewheel.model.setting import check_names
from tidewheel.model.settings import NewTopicSettings, TopicSettings
from tidewheel.model.topic import check_name

if TYPE_CHECKING:
    from tidewheel.client.operations.dead_letters import DeadLetter
    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.client.worker.inbox import ConsumerCounts
    from tidewheel.client.worker.retries import Delay
    from tidewheel.client.worker.worker import Worker
    from tidewheel.model.received import ReceivedMessage

DEFAULT_START = "2026-01-01T00:00:00Z"


class Stack(ABC):
    """Runs the service on one machine. Time moves in `advance`, from event to event.

    Attributes:
        clock: the stack's time.
        stack_name: the stack's name.
        topic_settings: defaults of `client().create_topic`.
    """

    def __init__(self, clock: Clock, stack_name: str, topic_settings: NewTopicSettings) -> None:
        check_name("stack_name", stack_name)
        if topic_settings:
            check_names(TopicSettings, topic_settings, "a topic")
            TopicSettings(**topic_settings)  # type: ignore[arg-type]  # refuses settings that no topic could have
        self.clock, self.stack_name, self.topic_settings = clock, stack_name, topic_settings
        self._pump: Pump | None = None
        self._consumer: Tidewheel | None = None

    @abstractmethod
    def open(self) -> Self:
        """Starts the stack."""

    @abstractmethod
    def close(self) -> None:
        """Stops the stack. Harmless when called twice."""

    @abstractmethod
    def client(self) -> Tidewheel:
        """Returns the ordinary SDK client, on the stack's services and clock."""

    @abstractmethod
    def queue(self, url: str) -> MemoryQueue:
        """Returns the queue with a URL, name or ARN, to inspect its contents.

        Raises:
            SqsError: there is no such queue.
        """

    def _make_consumer(self) -> Tidewheel:
        """Makes the client of `receive`."""
        return self.client()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def receive(self, topic: str, subscription: str) -> list[ReceivedMessage]:
        """Receives and deletes all receivable messages of a subscription, oldest first.

        Each message also has `visible_at`, the time at which SQS made it receivable. These requests are not counted,
        since a consumer's cost is not the service's.
        """
        self._running()
        if self._consumer is None:
            self._consumer = self._make_consumer()
        messages = self._consumer.receive(topic, subscription, max_messages=sys.maxsize)
        if not messages:
            return []
        [url] = [each.queue_url for each in self._consumer.subscriptions(topic) if each.name == subscription]
        queue = self.queue(url)
        visible_ms = [queue.visible_at_ms(message.sqs_message_id) for message in messages]
        self._consumer.delete(topic, subscription, messages)
        return [
            replace(message, visible_at=None if at_ms is None else utc(at_ms))
            for message, at_ms in zip(messages, visible_ms, strict=True)
        ]

    def drain(
        self, worker: Worker, until: Delay = "7d", *, errors: Literal["raise", "count"] = "raise"
    ) -> Mapping[str, ConsumerCounts]:
        """Advances virtual time with a worker at work, in this thread, without threads of its own.

        Each message is handled at its second, and so are its retries. Messages of other subscriptions stay.

        Args:
            worker: its functions are called. Its client is this stack's.
            until: how far to advance.
            errors: "raise": the first error of a function ends the drain, after its message was sent again or buried.
                "count": the worker goes on.

        Returns:
            The worker's counts, by topic/subscription.

        Raises:
            InvalidValue: as `Worker.run`.
        """
        end_ms = self.clock.now_ms() + delay_ms(until, "until")
        if self._consumer is None:
            self._consumer = self._make_consumer()
        while True:
            while worker.play(self._consumer, raises=errors == "raise"):
                pass
            now_ms, at_ms = self.clock.now_ms(), self._running().next_ms()
            ready = [
                each.ready_at_ms
                for inbox in worker.inboxes
                for each in self.queue(inbox.queue_url).everything
                if each.ready_at_ms > now_ms
            ]
            following_ms = min([*ready, *(() if at_ms is None else (at_ms,))], default=end_ms)
            if following_ms >= end_ms and now_ms == end_ms:
                return worker.counts
            self._advance_to(min(end_ms, max(now_ms, following_ms)))

    def dead_letters(self, topic: str, subscription: str, n: int = 10) -> list[DeadLetter]:
        """Looks at the n newest dead letters of a subscription, newest first, and receives none.

        Messages that Tidewheel did not deliver are left out.

        Raises:
            UnknownTopic, UnknownSubscription: it does not exist.
        """
        from tidewheel.client.operations.dead_letters import dead_letter_of
        from tidewheel.client.operations.subscription_queues import dead_letter_queue

        of = self.client().core.cache.subscription(topic, subscription)
        queue = self.queue(of.queue_url)
        dead = dead_letter_queue(of.queue_url, queue.attributes)
        found: list[DeadLetter] = []
        letters = [] if queue.dead_letters is None else queue.dead_letters.everything
        for message in nlargest(n, letters, key=lambda each: (each.sent_at_ms, each.arrival)):
            with suppress(InvalidValue):
                found.append(dead_letter_of(_as_received(message), of, dead.receives if dead else 0))
        return found

    def queued(self, topic: str, message_id: MessageId) -> dict[str, str]:
        """Looks for a message and its retries in the queues of its topic's subscriptions, and receives none.

        Returns:
            Subscription -> "delayed", "receivable", "in flight" or "dead letter". Those without the message are left
            out.

        Raises:
            UnknownTopic: it does not exist.
        """
        now_ms, found = self.clock.now_ms(), {}
        for each in self.client().subscriptions(topic):
            queue = self.queue(each.queue_url)
            for message in queue.everything:
                if _has(message, message_id):
                    waits = message.ready_at_ms > now_ms
                    found[each.name] = ("in flight" if message.in_flight else "delayed") if waits else "receivable"
            letters = queue.dead_letters
            if letters is not None and any(_has(message, message_id) for message in letters.everything):
                found.setdefault(each.name, "dead letter")
        return found

    def oldest(self, topic: str) -> dt.datetime | None:
        """Returns since when the oldest message in the queues of a topic can be received. None: there is none.

        Raises:
            UnknownTopic: it does not exist.
        """
        queues = {each.queue_url for each in self.client().subscriptions(topic)}
        waits_ms = [it.ready_at_ms for url in queues for it in self.queue(url).messages[:1]]
        return utc(min(waits_ms)) if waits_ms else None

    @property
    def failures(self) -> list[Failure]:
        """All invocations of functions, and all job runs, with errors or reported failures, oldest first."""
        return self._running().failures

    @property
    def invocations(self) -> dict[str, int]:
        """Invocations so far, by function (ingest, dispatch, deliver, sweep, compact)."""
        return dict(self._running().invocations)

    @property
    def drop_schedules(self) -> bool:
        """Whether one-time schedules vanish instead of firing."""
        return self._running().drop_schedules

    @drop_schedules.setter
    def drop_schedules(self, drop: bool) -> None:
        self._running().drop_schedules = drop

    def now(self) -> dt.datetime:
        """Returns the stack's time, UTC."""
        return utc(self.clock.now_ms())

    def advance(self, **duration: float) -> None:
        """Moves time forward, and handles all events due on the way. With the real clock, waits.

        Args:
            duration: as `datetime.timedelta` takes it: days=3, hours=1, seconds=0.5. Without arguments, handles events
                due now.

        Raises:
            InvalidValue: the duration is negative, or `datetime.timedelta` does not take it.
        """
        self._running()
        self._advance_to(self.clock.now_ms() + milliseconds_of(duration))

    def advance_to(self, when: dt.datetime) -> None:
        """Advances to a time. For a time in the past, handles events due now.

        Raises:
            InvalidValue: the time has no zone.
        """
        if not isinstance(when, dt.datetime) or when.tzinfo is None:
            raise InvalidValue("when", when, "give a datetime with a time zone, such as datetime(..., tzinfo=UTC)")
        self.advance(milliseconds=max(0, round(when.timestamp() * 1000) - self.clock.now_ms()))

    def _advance_to(self, until_ms: int) -> None:
        assert isinstance(self.clock, ManualClock)
        pump = self._running()
        while pump.run_next(until_ms, self.clock.set_ms) is not None:
            pass
        self.clock.set_ms(until_ms)
        pump.next_ms()  # notes the sweeps that are left out

    def _running(self) -> Pump:
        if self._pump is None:
            raise RuntimeError("this local Tidewheel stack is not open")
        return self._pump


def _has(message: MemoryMessage, id: str) -> bool:
    """Returns whether a queue's message is a copy or a retry of the message with an id."""
    with suppress(InvalidValue):
        header = message.message_attributes.get(HEADER_ATTRIBUTE, {}).get("StringValue", "")
        if id in header:
            received = parse_received(_as_received(message))
            return id in (received.id, received.original_id)
    return False


def _as_received(message: MemoryMessage) -> Any:
    """Returns a message in the form of ReceiveMessage's answer."""
    return {
        "MessageId": message.id,
        "ReceiptHandle": message.receipt_handle or "",
        "Body": message.body,
        "Attributes": message.system_attributes,
        "MessageAttributes": message.message_attributes,
    }


def milliseconds_of(duration: Mapping[str, float]) -> int:
    """Returns a duration in milliseconds.

    Args:
        duration: the arguments of `datetime.timedelta`.

    Raises:
        InvalidValue: the duration is negative, or `datetime.timedelta` does not take it.
    """
    try:
        after_ms = round(dt.timedelta(**duration).total_seconds() * 1000)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue("duration", duration, f"give days=3, hours=1 or seconds=0.5 ({error})") from None
    if after_ms < 0:
        raise InvalidValue("duration", duration, "time does not go back; give a duration of at least 0")
    return after_ms


def clock_from(start: str | dt.datetime | None) -> ManualClock:
    """Returns a virtual clock that begins at a time.

    Raises:
        InvalidValue: the start is not a time.
    """
    wanted = DEFAULT_START if start is None else start
    when = read_time(wanted) if isinstance(wanted, str) else wanted
    if not isinstance(when, dt.datetime):
        raise InvalidValue("start", start, f"give ISO 8601 text such as {DEFAULT_START!r}, or a datetime")
    return ManualClock(round((when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp() * 1000))
