"""The consumer: takes a subscription's messages from wherever SQS hands them out, and gives each a second chance."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from tidewheel.client import receiving
from tidewheel.client.consumer_counts import ConsumerCounts
from tidewheel.client.interrupts import Interrupts
from tidewheel.client.payloads import fetch_payload
from tidewheel.client.receiving import DeleteFailed
from tidewheel.client.retries import Delay, RetryLater, bury, dead_letter_url, retry_due_ms, sent_again, supersedes
from tidewheel.errors import InvalidValue
from tidewheel.model.levels import Backoff
from tidewheel.model.message import Receipt
from tidewheel.model.received import ReceivedMessage, parse_received
from tidewheel.model.topic import check_name

if TYPE_CHECKING:
    from tidewheel.client.tidewheel import Tidewheel

__all__ = ["Consumer", "DeleteFailed"]

T = TypeVar("T")
_Message = Mapping[str, Any]

_log = logging.getLogger(__name__)


class Consumer:
    """Works on one subscription of a topic; several threads may use it.

    It takes messages as boto3's ReceiveMessage, a Lambda event or Powertools has them, and puts bodies back that are
    kept in S3. A message that is dropped costs no read of its body.

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
        drop_superseded: bool = False,
        drop_expired: bool = True,
    ) -> None:
        """Prepares a consumer; AWS is not called before it is used.

        Args:
            tw: the client.
            topic: the topic.
            subscription: the subscription.
            max_attempts: how often a message's work is tried in all; `retry_later` sends one that has had so many to
                the dead-letter queue.
            drop_superseded: whether to drop a message whose key was cancelled or replaced after its slot was sealed,
                when it could no longer be stopped on its way. Costs one DynamoDB read for each message with a key, and
                nothing for others: a cancel by id that comes too late leaves no trace.
            drop_expired: whether to drop a message that lay in the queue beyond its expiry.

        Raises:
            InvalidValue: a value is not usable.
        """
        if not isinstance(max_attempts, int) or isinstance(max_attempts, bool) or max_attempts < 1:
            raise InvalidValue("max_attempts", max_attempts, "give a whole number of at least 1")
        self.topic = check_name("topic", topic)
        self.subscription = check_name("subscription", subscription)
        self._tw = tw
        self._max_attempts = max_attempts
        self._drop_superseded = drop_superseded
        self._drop_expired = drop_expired
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._dead_url: str | None = None
        # Receipt handles of messages that whoever called the function acknowledges.
        self._in_hand: set[str] = set()

    @property
    def counts(self) -> ConsumerCounts:
        """What it has done so far."""
        with self._lock:
            return ConsumerCounts(**self._counts)

    # ---- messages
    def decode(self, raw: _Message) -> ReceivedMessage:
        """Decodes a message of ReceiveMessage's answer, a record of a Lambda event, or a Powertools SQSRecord.

        Raises:
            InvalidValue: Tidewheel did not deliver it.
            ObjectMissing: its body was kept in S3 and is gone: it was handed out over 28 days ago.
        """
        return fetch_payload(self._tw._connection, parse_received(raw))

    def receive(self, *, max_messages: int = 10, wait_s: int = 0) -> list[ReceivedMessage]:
        """Takes messages from the queue; what is to be dropped is acknowledged and left out.

        Args:
            max_messages: at most so many; above ten, SQS is called several times.
            wait_s: how long to wait for the first one, 0 to 20 seconds.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic, UnknownSubscription: there is none of this name.
        """
        receiving.check_receive(max_messages, wait_s)
        taken = receiving.receive(self._tw._connection.sqs, self._queue_url, max_messages, wait_s)
        dropped = [message for message in taken if self._drops(message)]
        if dropped:
            self._acknowledge(dropped)
            gone = {message.receipt_handle for message in dropped}
            taken = [message for message in taken if message.receipt_handle not in gone]
        return receiving.with_bodies(self._tw._connection, taken)

    def retry_later(
        self,
        message: ReceivedMessage,
        *,
        level: int | None = None,
        backoff: Backoff | None = None,
        delay: Delay | None = None,
    ) -> Receipt | None:
        """Sends a message again, to this subscription only, and then deletes the one in hand.

        It has the same body and attributes, a new id, the first message's id as `original_id`, and `attempt` is one
        higher. It is sent without a key: it is not dropped as a duplicate, and takes nothing's place. If it stops after
        sending, both come, with the same `original_id`.

        In a function that `run`, `handle_event` or `record_handler` calls, the one in hand is deleted when the function
        returns.

        Args:
            message: as received.
            level: a number of the topic's table of delay levels.
            backoff: delays that grow with the attempts.
            delay: seconds, a timedelta or text. None of the three: level 3 (10s) first, then 4 (30s), 5 (1m), ...

        Returns:
            The new message's receipt. None if it had its last attempt, and went to the dead-letter queue; or if it
            would have come again after its expiry, and was dropped.

        Raises:
            InvalidValue: a value is not usable, or there is no dead-letter queue: the message stays.
            UnknownTopic, UnknownSubscription: there is none of this name: the message stays.
            QueueUnavailable: SQS did not take it: the message stays.
            DeleteFailed: it was sent again, and the one in hand comes again too.
        """
        if not isinstance(message, ReceivedMessage):
            raise InvalidValue("message", message, "give what receive returned")
        state = self._tw._state(self.topic)
        now_ms, attempt = self._tw._clock.now_ms(), message.attempt + 1
        levels = state.settings.delay_levels
        due_ms = retry_due_ms(now_ms, attempt, levels, level=level, backoff=backoff, delay=delay)
        expires_at_ms = self._expiry_ms(message)
        receipt: Receipt | None = None
        if attempt >= self._max_attempts:
            self._bury(message)
        elif expires_at_ms is not None and expires_at_ms <= due_ms:
            self._count("expired")
        else:
            whole = fetch_payload(self._tw._connection, message)
            again = sent_again(whole, self._tw._ids, due_ms, self.subscription, expires_at_ms=expires_at_ms)
            [receipt] = self._tw._sender(state).send_checked([again])
            self._count("retried")
        if message.receipt_handle not in self._in_hand:
            receiving.delete(self._tw._connection.sqs, self._queue_url, [message])
        return receipt

    # ---- in a Lambda function
    def record_handler(self, function: Callable[[ReceivedMessage], T]) -> Callable[[_Message], T | None]:
        """Returns a record handler for Powertools' BatchProcessor, that calls a function with each message.

        The function may raise RetryLater; what else it raises fails the record. Lambda deletes the message in any
        other case.
        """

        def handle(record: _Message) -> T | None:
            message = parse_received(record)
            if self._drops(message):
                return None
            return self._call(fetch_payload(self._tw._connection, message), function)

        return handle

    def handle_event(self, event: Mapping[str, Any], function: Callable[[ReceivedMessage], object]) -> dict[str, Any]:
        """Calls a function with each message of a Lambda event, one after the other.

        The event source mapping needs `ReportBatchItemFailures`.

        Args:
            event: as SQS's event source mapping gives it.
            function: may raise RetryLater; what else it raises is logged and fails the record.

        Returns:
            What the Lambda function returns: `{"batchItemFailures": [...]}`.

        Raises:
            InvalidValue: the event is not SQS's.
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
        batch: int = 10,
    ) -> None:
        """Receives, calls a function with each message and acknowledges it, until it is told to stop.

        What the function raises is logged, and the message comes again after the queue's visibility time-out, which
        must be longer than a batch takes. RetryLater sends it again instead. What raises while receiving ends the run.

        Args:
            function: gets one message after the other; run several threads or processes for more at once.
            stop: ends it after the message in hand when set, or when the poll under way ends; so does Ctrl-C in the
                main thread, at once if no message is in hand. The rest of a batch goes back to the queue.
            wait_s: how long a poll waits, 0 to 20 seconds.
            batch: how many messages to take at a time.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic, UnknownSubscription: there is none of this name.
        """
        receiving.check_receive(batch, wait_s)
        stop = stop or threading.Event()
        with Interrupts(stop) as interrupts:
            while not stop.is_set():
                messages = self.receive(max_messages=batch, wait_s=wait_s)
                for i, message in enumerate(messages):
                    if stop.is_set():
                        receiving.give_back(self._tw._connection.sqs, self._queue_url, messages[i:])
                        break
                    with interrupts.message_in_hand():
                        self._work(message, function)

    def _work(self, message: ReceivedMessage, function: Callable[[ReceivedMessage], object]) -> None:
        try:
            self._call(message, function)
        except Exception:
            _log.exception("message %s was not handled; it comes again after its visibility time-out", message.id)
        else:
            self._acknowledge([message])

    # ---- inside
    def _call(self, message: ReceivedMessage, function: Callable[[ReceivedMessage], T]) -> T | None:
        """Calls the function; when this returns, the caller acknowledges the message."""
        with self._held(message):
            try:
                try:
                    result = function(message)
                except RetryLater as wanted:
                    self.retry_later(message, level=wanted.level, backoff=wanted.backoff, delay=wanted.delay)
                    return None
            except Exception:
                self._count("failed")
                raise
        self._count("handled")
        return result

    @contextmanager
    def _held(self, message: ReceivedMessage) -> Iterator[None]:
        self._in_hand.add(message.receipt_handle)
        try:
            yield
        finally:
            self._in_hand.discard(message.receipt_handle)

    def _drops(self, message: ReceivedMessage) -> bool:
        """Whether nobody wants a message any more; counts it if so."""
        expires_at_ms = self._expiry_ms(message)
        if expires_at_ms is not None and expires_at_ms < self._tw._clock.now_ms():
            self._count("expired")
            return True
        # A recurring message's name is no key: it has no version.
        if self._drop_superseded and message.key is not None and message.version[1]:
            entry = self._tw._connection.topics.key(self.topic, message.key)
            if entry is not None and supersedes(entry, message):
                self._count("superseded")
                return True
        return False

    def _expiry_ms(self, message: ReceivedMessage) -> int | None:
        """When a message is not wanted any more; None if never, or if that is not for us to say."""
        if message.expires_at is None or not self._drop_expired:
            return None
        return round(message.expires_at.timestamp() * 1000)

    def _bury(self, message: ReceivedMessage) -> None:
        """Sends a message to the dead-letter queue; if it stops after that, it comes again and is sent there again."""
        connection = self._tw._connection
        if self._dead_url is None:
            self._dead_url = dead_letter_url(connection.sqs, self._queue_url)
        bury(connection.sqs, self._dead_url, connection.settings.s3_bucket, message)
        self._count("dead")

    def _acknowledge(self, messages: list[ReceivedMessage]) -> None:
        try:
            receiving.delete(self._tw._connection.sqs, self._queue_url, messages)
        except DeleteFailed as error:
            _log.warning("queue %s: %s", self._queue_url, error)

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    @property
    def _queue_url(self) -> str:
        return self._tw._subscription(self.topic, self.subscription).queue_url
