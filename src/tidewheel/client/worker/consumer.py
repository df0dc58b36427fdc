"""Receives a subscription's messages and retries failed messages later."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from tidewheel import deadline
from tidewheel.aws.tries import AWS_ERRORS, CALL_S, patient
from tidewheel.client import receiving, tracing
from tidewheel.client.operations.dead_letters import attributes_of, bury, reason_of
from tidewheel.client.receiving import fetch_payload
from tidewheel.client.sender import Sender
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.client.worker.claiming import Claimed, buried, claim, claim_all
from tidewheel.client.worker.interrupts import Interrupts
from tidewheel.client.worker.retries import Delay, retry_due_ms, sent_again
from tidewheel.client.worker.run import Run, Steps
from tidewheel.errors import DeleteFailed, InvalidValue, RetryLater
from tidewheel.model.levels import Backoff
from tidewheel.model.message import Receipt
from tidewheel.model.received import ReceivedMessage, parse_received
from tidewheel.model.topic import check_name
from tidewheel.model.untrusted import check_whole

T = TypeVar("T")
_Message = Mapping[str, Any]
_PLAIN = "give a function that does its work when it is called; for a coroutine function, use run_async"
_ASYNC = "give a coroutine function (async def); for a plain function, use run"

_USUAL_VISIBILITY_S = 30

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerCounts:
    """The number of messages that a consumer has seen, by outcome.

    Attributes:
        handled: the function returned.
        failed: the function raised an error; SQS brings the message again.
        retried: sent again by `retry_later`.
        dead: sent to the dead-letter queue after the last attempt.
        expired: dropped, because the message was received after its expiry, or its retry would be.
        superseded: dropped, because the key was cancelled or has a newer message.
        cancelled: dropped, because the message was cancelled before a consumer had it.
    """

    handled: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    expired: int = 0
    superseded: int = 0
    cancelled: int = 0


class Consumer:
    """Works on one subscription of a topic. Several threads may use the same consumer.

    The consumer decodes messages from boto3's ReceiveMessage, a Lambda event or Powertools, and reads large bodies from
    S3. For a dropped message, the body is not read.

    Example:
        >>> consumer = Consumer(tw, "orders", "billing")
        >>> consumer.run(lambda message: print(message.json()))
    """

    def __init__(
        self,
        tw: Tidewheel,
        topic: str,
        subscription: str,
        *,
        max_attempts: int = 5,
        drop_expired: bool = True,
    ) -> None:
        """Prepares a consumer. This does not call AWS.

        Args:
            tw: the client.
            topic: the topic.
            subscription: the subscription.
            max_attempts: how many attempts a message has in total; after the last, `retry_later` sends the message to
                the dead-letter queue.
            drop_expired: whether to drop a message that stayed in the queue beyond its expiry.

        Raises:
            InvalidValue: a value is not usable.
        """
        check_whole("max_attempts", max_attempts, 1)
        self.topic = check_name("topic", topic)
        self.subscription = check_name("subscription", subscription)
        self._core = tw.core
        self._max_attempts = max_attempts
        self._drop_expired = drop_expired
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        # Receipt handles of messages that the caller of the user's function acknowledges.
        self._in_hand: set[str] = set()

    @property
    def counts(self) -> ConsumerCounts:
        """The counts of this consumer so far."""
        with self._lock:
            return ConsumerCounts(**self._counts)

    # ---- messages
    @patient()
    def decode(self, raw: _Message) -> ReceivedMessage:
        """Decodes a message of ReceiveMessage's answer, a record of a Lambda event, or a Powertools SQSRecord.

        Raises:
            InvalidValue: Tidewheel did not deliver the message.
            ObjectMissing: the body was kept in S3 and is gone: the message was handed out over 28 days ago.
            BodyChanged: the body was kept in S3, and is not the body that was sent.
        """
        return fetch_payload(self._core.connection, parse_received(raw))

    @patient()
    def claim(self, message: ReceivedMessage) -> bool:
        """Returns whether to handle a message from `decode`. Otherwise acknowledge the message. It counts as dropped.

        This claims a message that can be cancelled until a consumer has it. All other ways to receive do so too.

        Raises:
            ClaimFailed: DynamoDB gives no answer, or refuses. Do not handle the message; it comes again.
        """
        return not self._claim_or_drop(message)

    def receive(self, *, max_messages: int = 10, wait_s: int = 0) -> list[ReceivedMessage]:
        """Receives messages from the queue. Messages to drop are acknowledged and left out.

        A message whose large body cannot be had is left out with a warning, and comes again.

        Args:
            max_messages: the most messages to return; above ten, SQS is called several times.
            wait_s: how long to wait for the first message, 0 to 20 seconds.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
            ClaimFailed: none of the messages could be claimed. They come again.
        """
        receiving.check_receive(max_messages, wait_s)
        with patient(wait_s + CALL_S), tracing.receiving(self.topic, self.subscription) as found:
            found.extend(receiving.with_bodies(self._core.connection, self._receive(max_messages, wait_s)))
        return found

    def _receive(self, max_messages: int, wait_s: int) -> list[ReceivedMessage]:
        """Receives messages without the bodies kept in S3. Acknowledges and leaves out messages to drop."""
        taken = [(message, self._is_unwanted(message)) for message in self._take(max_messages, wait_s)]
        if dropped := [message for message, drops in taken if drops]:
            self._acknowledge(dropped)
        wanted = [message for message, drops in taken if not drops]
        core = self._core
        if not receiving.must_ask(wanted, receiving.begin(core, self.topic, self.subscription)):
            return wanted
        return claim_all(core, self.topic, self.subscription, self._queue_url, wanted, core.clock.now_ms(), self._count)

    def _take(self, max_messages: int, wait_s: int) -> list[ReceivedMessage]:
        with deadline.patience(wait_s + CALL_S):
            known = self._core.cache.subscription(self.topic, self.subscription)
            receiving.begin(self._core, self.topic, self.subscription, known.generation)
            return receiving.receive(self._core.connection.polling(wait_s), known.queue_url, max_messages, wait_s)

    @patient()
    def retry_later(
        self,
        message: ReceivedMessage,
        *,
        level: int | None = None,
        backoff: Backoff | None = None,
        delay: Delay | None = None,
    ) -> Receipt | None:
        """Sends a message again, to this subscription only, and then deletes the received message.

        The new message has the same body and attributes, a new id, the first message's id as `original_id`, and an
        `attempt` higher by 1. It has no key, so it is neither dropped as a duplicate nor replaces another message. If
        the process stops after sending, both messages come, with the same `original_id`.

        A dead letter gets the error that is being handled as its reason, or the error that RetryLater was raised for.

        In a function that `run`, `handle_event` or `record_handler` calls, the received message is deleted when the
        function returns.

        Args:
            message: as received.
            level: a number of the topic's table of delay levels.
            backoff: delays that grow with the attempts.
            delay: seconds, a timedelta or text. None of the three: level 3 (10s) first, then 4 (30s), 5 (1m), ...

        Returns:
            The new message's receipt. None if the message had its last attempt and went to the dead-letter queue, or if
            it would have come again after its expiry and was dropped.

        Raises:
            InvalidValue: a value is not usable, or there is no dead-letter queue; the message stays.
            UnknownTopic, UnknownSubscription: it does not exist; the message stays.
            QueueUnavailable: SQS did not accept the new message; the received message stays.
            BodyChanged, ObjectMissing: as of `decode`; the message stays.
            DeleteFailed: the message was sent again, and the received message comes again too.
        """
        if not isinstance(message, ReceivedMessage):
            raise InvalidValue("message", message, "give a message that receive returned")
        state = self._core.cache.state(self.topic)
        now_ms, attempt = self._core.clock.now_ms(), message.attempt + 1
        levels = state.settings.delay_levels
        due_ms = retry_due_ms(now_ms, attempt, levels, level=level, backoff=backoff, delay=delay)
        expires_at_ms = self._expiry_ms(message)
        receipt: Receipt | None = None
        if attempt >= self._max_attempts:
            reason = reason_of(sys.exception(), f"the last of {self._max_attempts} attempts")
            bury(self._core.connection, self._queue_url, message, reason)
            self._count("dead")
        elif expires_at_ms is not None and expires_at_ms <= due_ms:
            self._count("expired")
        else:
            whole = fetch_payload(self._core.connection, message)
            again = sent_again(whole, self._core.ids, due_ms, self.subscription, expires_at_ms=expires_at_ms)
            [receipt] = Sender(self._core, state).send_checked([again])
            self._count("retried")
        if message.receipt_handle not in self._in_hand:
            receiving.delete(self._core.connection.sqs, self._queue_url, [message])
        return receipt

    # ---- in a Lambda function
    def record_handler(self, function: Callable[[ReceivedMessage], T]) -> Callable[[_Message], T | None]:
        """Returns a record handler for Powertools' BatchProcessor.

        The handler calls the function with each message. The function may raise RetryLater; any other error fails the
        record. In all other cases Lambda deletes the message.

        Raises:
            InvalidValue: the function is a coroutine function.
        """
        _check_plain(function)

        def handle(record: _Message) -> T | None:
            message = parse_received(record)
            return None if self._claim_or_drop(message) else self._handle(message, function)

        return handle

    def handle_event(self, event: Mapping[str, Any], function: Callable[[ReceivedMessage], object]) -> dict[str, Any]:
        """Calls a function with each message of a Lambda event in turn.

        The event source mapping needs `ReportBatchItemFailures`.

        Args:
            event: the event from SQS's event source mapping.
            function: may raise RetryLater; any other error is logged and fails the record.

        Returns:
            The return value for the Lambda function: `{"batchItemFailures": [...]}`.

        Raises:
            InvalidValue: the event is not from SQS, or the function is a coroutine function.
        """
        records = event.get("Records") if isinstance(event, Mapping) else None
        if not isinstance(records, list):
            raise InvalidValue("event", event, "give the event of an SQS event source mapping, with its Records")
        handle = self.record_handler(function)
        failures = []
        for record in records:
            try:
                handle(record)
            except Exception:
                _log.exception("message %s was not handled; it comes again", record.get("messageId"))
                failures.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failures}

    # ---- a worker
    def run(
        self,
        function: Callable[[ReceivedMessage], object],
        *,
        stop: threading.Event | None = None,
        wait_s: int = 20,
        batch: int | None = None,
        at_once: int = 1,
        finish_s: float = 20,
        signals: bool = True,
    ) -> None:
        """Receives messages, calls a function with each and acknowledges them, until told to stop.

        An error of the function is logged, and so is a large body that cannot be had. The message then comes again
        after the queue's visibility time-out, which must be five seconds longer than the function takes. RetryLater
        sends the message again instead.

        One thread receives for all threads: a message for each free thread. The thread receives more, up to `batch`, if
        the run has begun as many messages before, and if all messages can begin within five seconds at the speed of the
        slowest of the last calls. A message that waits longer goes back to the queue.

        Acknowledgements are sent when there are ten, when one has waited for a second or until two seconds before the
        end of its visibility time-out, when no message is in hand or waits, and before the run ends. If the process is
        killed, those messages come again.

        While AWS cannot be reached, throttles or answers with an error of its own, the run goes on trying, with
        pauses of up to 20 seconds, and logs the loss and the end of it.

        SIGTERM and Ctrl-C, in the main thread, end the run: messages that were received and not begun go back to the
        queue at once, the current poll and the messages in hand are finished. After `finish_s` seconds, the run ends
        without them. The function in the caller's thread then gets a KeyboardInterrupt, but not on Windows, and its
        message goes back too. Messages of other threads come again after the visibility time-out. A second signal ends
        the program at once. A handler for these signals that the program has set itself stays: let it set `stop`, as
        also where `run` is called in another thread.

        Args:
            function: gets the messages, in the caller's thread and in `at_once` - 1 others.
            stop: when set, ends the run likewise, without a limit of time.
            wait_s: how long a poll waits, 0 to 20 seconds.
            batch: the most messages to receive at a time. None: ten. A receive is billed, also an empty one.
            at_once: how many messages are handled at once, 1 to 50, each in a thread.
            finish_s: seconds after a signal for what was begun. ECS and Kubernetes kill after 30 by default.
            signals: whether signals end the run.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
            QueueUnavailable: AWS refuses, such as for want of permission, at the start or for a minute.
        """
        _check_plain(function)
        with Interrupts(signals) as interrupts:
            stop = stop or threading.Event()
            steps = self._steps(function)
            run = Run(steps, interrupts, interrupts.interrupt, stop, wait_s, batch, at_once, finish_s)
            run.start(run.workers[1:])
            run.workers[0].work()
            while not run.ended.done():
                wait([run.ended], 1)  # a signal does not end a longer wait on Windows
        run.ended.result()

    async def run_async(
        self,
        function: Callable[[ReceivedMessage], Coroutine[Any, Any, object]],
        *,
        stop: threading.Event | None = None,
        wait_s: int = 20,
        batch: int | None = None,
        at_once: int = 10,
        finish_s: float = 20,
        signals: bool = True,
    ) -> None:
        """As `run`, for a coroutine function, in the running event loop.

        `finish_s` seconds after a signal, the coroutines that still run are cancelled, and their messages go back at
        once. A cancel of this call counts as a signal. Ctrl-C under `asyncio.run` cancels this call.

        Args:
            function: is called in the loop.
            at_once: how many messages are handled at once, 1 to 50; a thread waits for each.
        """
        _check_async(function)
        loop = asyncio.get_running_loop()
        running: set[Future[None]] = set()

        async def awaited(message: ReceivedMessage) -> None:
            result = function(message)
            if not inspect.isawaitable(result):
                raise InvalidValue("function", function, _ASYNC)
            await result

        def handle(message: ReceivedMessage) -> None:
            future = asyncio.run_coroutine_threadsafe(awaited(message), loop)
            running.add(future)
            try:
                future.result()
            finally:
                running.discard(future)

        def cancel() -> object:
            return [each.cancel() for each in list(running)]

        with Interrupts(signals) as interrupts:
            steps = self._steps(handle)
            run = Run(steps, interrupts, cancel, stop or threading.Event(), wait_s, batch, at_once, finish_s)
            run.start(run.workers)
            ended = asyncio.wrap_future(run.ended)
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                interrupts.caught = True
                await ended
                raise

    # ---- inside
    def _steps(self, function: Callable[[ReceivedMessage], object]) -> Steps:
        return Steps(
            name=f"{self.topic}/{self.subscription}",
            take=self._take,
            hidden_s=self._hidden_s,
            drops=self._claim_or_drop,
            handle=lambda message: self._handle(message, function),
            acknowledge=self._acknowledge,
            give_back=self._give_back,
        )

    def _handle(self, message: ReceivedMessage, function: Callable[[ReceivedMessage], T]) -> T | None:
        """Calls the function with a message. When this returns, the caller acknowledges the message.

        A message whose large body cannot be had counts as failed.
        """
        self._in_hand.add(message.receipt_handle)
        try:
            with tracing.processing(self.topic, self.subscription, message):
                whole = fetch_payload(self._core.connection, message)
                try:
                    result = function(whole)
                except RetryLater as wanted:
                    self.retry_later(whole, level=wanted.level, backoff=wanted.backoff, delay=wanted.delay)
                    return None
                if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
                    getattr(result, "close", lambda: None)()  # otherwise Python warns of a coroutine
                    raise InvalidValue("function", function, _PLAIN)
        except Exception:
            self._count("failed")
            raise
        finally:
            self._in_hand.discard(message.receipt_handle)
        self._count("handled")
        return result

    def _claim_or_drop(self, message: ReceivedMessage) -> bool:
        """Claims a message, if it needs a claim. Returns whether to drop the message. Counts a dropped message.

        The caller acknowledges a dropped message and does not handle it. The caller asks just before it handles the
        message, not when the batch is received: a slow claim would use up the visibility time-out of the others.

        Raises:
            ClaimFailed: the message must wait.
        """
        if self._is_unwanted(message):
            return True
        core = self._core
        claimed = claim(core, self.topic, self.subscription, message, core.clock.now_ms())
        if claimed is Claimed.CANCELLED:
            self._count("cancelled")
        elif claimed is Claimed.SPENT:
            if not buried(core.connection, self._queue_url, message):
                return False
            self._count("dead")
        return claimed is not Claimed.MINE

    def _is_unwanted(self, message: ReceivedMessage) -> bool:
        """Returns whether a message has expired or is superseded, and counts it."""
        expires_at_ms = self._expiry_ms(message)
        if expires_at_ms is not None and expires_at_ms < self._core.clock.now_ms():
            self._count("expired")
            return True
        # A retry's claim, if any, is of its own id. The name of a recurring message is not a key: it has no version.
        if message.attempt and message.key is not None and message.version[1]:
            entry = self._core.connection.storage.keys.read(self.topic, message.key)
            if entry is not None and entry.floor > message.version:
                self._count("superseded")
                return True
        return False

    def _expiry_ms(self, message: ReceivedMessage) -> int | None:
        """Returns when a message expires. None if never, or if this consumer keeps expired messages."""
        if message.expires_at is None or not self._drop_expired:
            return None
        return round(message.expires_at.timestamp() * 1000)

    def _hidden_s(self) -> int:
        """Returns the queue's visibility time-out, or SQS's default if AWS does not tell."""
        with suppress(*AWS_ERRORS):
            found = attributes_of(self._core.connection.sqs, self._queue_url, "VisibilityTimeout")
            return int(found["VisibilityTimeout"])
        return _USUAL_VISIBILITY_S

    def _give_back(self, messages: list[ReceivedMessage], after_s: int) -> None:
        receiving.give_back(self._core.connection.sqs, self._queue_url, messages, after_s)

    def _acknowledge(self, messages: list[ReceivedMessage]) -> None:
        try:
            receiving.delete(self._core.connection.sqs, self._queue_url, messages)
        except DeleteFailed as error:
            _log.warning("queue %s: %s", self._queue_url, error)

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    @property
    def _queue_url(self) -> str:
        return self._core.cache.subscription(self.topic, self.subscription).queue_url


def _check_plain(function: object) -> None:
    """Raises InvalidValue for a function that only makes a coroutine."""
    if inspect.iscoroutinefunction(function):
        raise InvalidValue("function", function, _PLAIN)


def _check_async(function: object) -> None:
    """Raises InvalidValue for a plain `def`, before the function can do anything."""
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    plain = (inspect.isfunction(inner) or inspect.ismethod(inner)) and inner.__name__ != "<lambda>"
    if plain and not inspect.iscoroutinefunction(inspect.unwrap(inner)):  # a decorator's plain def may return one
        raise InvalidValue("function", function, _ASYNC)
