"""Takes messages from the queue of one subscription, claims them, and puts them where they belong.

A message with a key is claimed just before it is handled, not when its batch is received: a slow claim would use up the
visibility time-out of the others.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

from tidewheel import deadline
from tidewheel.aws.tries import AWS_ERRORS, CALL_S, patient
from tidewheel.client import receiving, tracing
from tidewheel.client.core import Core
from tidewheel.client.operations.dead_letters import attributes_of, bury, reason_of
from tidewheel.client.operations.subscription_queues import dead_letter_queue
from tidewheel.client.receiving import fetch_payload
from tidewheel.client.sender import Sender
from tidewheel.client.worker.claiming import Claimed, buried, claim
from tidewheel.client.worker.retries import retry_due_ms, sent_again
from tidewheel.errors import ClaimFailed, DeleteFailed, InvalidValue, QueueUnavailable, RetryLater, TemporaryFailure
from tidewheel.model.message import Receipt
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.topic import check_name
from tidewheel.model.untrusted import check_whole

_WAITING_MS = 1000
"""The least delay of a retry that counts no attempt."""

_RETRY_NEEDS = "a retry needs the actions receive and retry_later of `tidewheel policy consumer`"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerCounts:
    """The number of messages that a consumer or worker has seen, by outcome.

    Attributes:
        handled: the function returned.
        failed: the function raised an error; SQS brings the message again.
        retried: sent again, after an error or because the function asked for it.
        dead: sent to the dead-letter queue.
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


class Inbox:
    """The queue of one subscription. Several threads may use the same inbox.

    Args:
        core: the client's.
        max_attempts: how many attempts a message has; `send_again` buries a message that had the last.
        drop_expired: whether to drop a message that stayed in the queue beyond its expiry.

    Raises:
        InvalidValue: a value is not usable.
    """

    def __init__(
        self, core: Core, topic: str, subscription: str, *, max_attempts: int = 8, drop_expired: bool = True
    ) -> None:
        check_whole("max_attempts", max_attempts, 1)
        self.topic = check_name("topic", topic)
        self.subscription = check_name("subscription", subscription)
        self.core, self._max_attempts, self._drop_expired = core, max_attempts, drop_expired
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        # Receipt handles of messages that the caller of the user's function acknowledges.
        self._in_hand: set[str] = set()

    @property
    def queue_url(self) -> str:
        """The queue's URL. Raises UnknownTopic or UnknownSubscription."""
        return self.core.cache.subscription(self.topic, self.subscription).queue_url

    @property
    def counts(self) -> ConsumerCounts:
        """The counts so far."""
        with self._lock:
            return ConsumerCounts(**self._counts)

    def count(self, what: str) -> None:
        """Counts a message under a name of `ConsumerCounts`."""
        with self._lock:
            self._counts[what] += 1

    # ---- taking
    def receive(self, max_messages: int, wait_s: int) -> list[ReceivedMessage]:
        """Receives and claims messages, with their bodies. Acknowledges and leaves out messages to drop."""
        receiving.check_receive(max_messages, wait_s)
        with patient(wait_s + CALL_S), tracing.receiving(self.topic, self.subscription) as received:
            claimed = self._claimed(self.take(max_messages, wait_s))
            received.extend(receiving.with_bodies(self.core.connection, claimed))
        return received

    def _claimed(self, taken: list[ReceivedMessage]) -> list[ReceivedMessage]:
        """Claims messages side by side. One whose claim gets no answer is left out with a warning, and comes again.

        Raises:
            ClaimFailed, InvalidValue: no message could be claimed.
        """
        failures = list[Exception]()

        def drops(message: ReceivedMessage) -> bool | None:
            try:
                return self.drops(message)
            except (*AWS_ERRORS, ClaimFailed, InvalidValue) as error:
                failures.append(error)
                return None

        with ThreadPoolExecutor(receiving.RECEIVE_BATCH) as threads:  # begin with their first work
            each_of = threads.map if any(map(self.asks, taken)) else map
            answers = list(zip(taken, each_of(deadline.carried(drops), taken), strict=True))
        if failures and len(failures) == len(taken):
            raise failures[0]
        for failure in failures:
            _log.warning("message passed over: %s", failure)
        try:
            self.acknowledge([message for message, dropped in answers if dropped])
        except AWS_ERRORS as error:  # the others are claimed
            _log.warning("queue %s: %s", self.queue_url, error)
        return [message for message, dropped in answers if dropped is False]

    def take(self, max_messages: int, wait_s: int) -> list[ReceivedMessage]:
        """Receives messages, and neither claims nor drops any."""
        with deadline.patience(wait_s + CALL_S):
            known = self.core.cache.subscription(self.topic, self.subscription)
            receiving.begin(self.core, self.topic, self.subscription, known.generation)
            return receiving.receive(self.core.connection.polling(wait_s), known.queue_url, max_messages, wait_s)

    def whole(self, message: ReceivedMessage) -> ReceivedMessage:
        """Returns a message with its own body, as `receiving.fetch_payload`."""
        return fetch_payload(self.core.connection, message)

    @staticmethod
    def asks(message: ReceivedMessage) -> bool:
        """Returns whether `drops` calls AWS."""
        retries = message.original_id is not None and message.key is not None
        return retries or message.claim is not None or message.receive_count > receiving.MAX_RECEIVES

    def drops(self, message: ReceivedMessage) -> bool:
        """Claims a message, if it needs a claim. Returns whether to drop the message. Counts a dropped message.

        Raises:
            ClaimFailed: the message must wait.
        """
        if self._is_unwanted(message):
            return True
        claimed = claim(self.core, self.topic, self.subscription, message, self.core.clock.now_ms())
        if claimed is Claimed.CANCELLED:
            self.count("cancelled")
        elif claimed is Claimed.SPENT:
            if not buried(self.core.connection, self.queue_url, message):
                return False
            self.count("dead")
        return claimed is not Claimed.MINE

    def _is_unwanted(self, message: ReceivedMessage) -> bool:
        """Returns whether a message has expired or is superseded, and counts it."""
        expires_at_ms = self._expiry_ms(message)
        if expires_at_ms is not None and expires_at_ms < self.core.clock.now_ms():
            self.count("expired")
            return True
        # A retry's claim, if any, is of its own id. The name of a recurring message is not a key: it has no version.
        if message.original_id is not None and message.key is not None and message.version[1]:
            entry = self.core.connection.storage.keys.read(self.topic, message.key)
            if entry is not None and entry.floor > message.version:
                self.count("superseded")
                return True
        return False

    def _expiry_ms(self, message: ReceivedMessage) -> int | None:
        """Returns when a message expires. None if never, or if expired messages are kept."""
        if message.expires_at is None or not self._drop_expired:
            return None
        return round(message.expires_at.timestamp() * 1000)

    # ---- putting back
    @contextmanager
    def in_hand(self, message: ReceivedMessage) -> Iterator[None]:
        """Leaves the deletion of a message to the caller of the block, also when the block sends it again."""
        self._in_hand.add(message.receipt_handle)
        try:
            yield
        finally:
            self._in_hand.discard(message.receipt_handle)

    def send_again(
        self, message: ReceivedMessage, later: RetryLater, error: BaseException | None = None
    ) -> Receipt | None:
        """Sends a message again, or buries it. See `Consumer.retry_later`.

        Args:
            later: when, and whether this was an attempt.
            error: the reason of a dead letter. None: the error that `later` was raised for.
        """
        state, counts = self.core.cache.state(self.topic), later.counts
        now_ms, attempt = self.core.clock.now_ms(), message.attempt + counts
        due_ms = retry_due_ms(now_ms, max(1, attempt), state.settings.delay_levels, later)
        expires_at_ms = self._expiry_ms(message)
        receipt: Receipt | None = None
        if counts and attempt >= self._max_attempts:
            self.bury(message, error or later, f"the last of {self._max_attempts} attempts")
        elif expires_at_ms is not None and expires_at_ms <= due_ms:
            self.count("expired")
        else:
            due_ms = due_ms if counts else max(due_ms, now_ms + _WAITING_MS)
            again = sent_again(
                self.whole(message), self.core.ids, due_ms, self.subscription, attempt, expires_at_ms=expires_at_ms
            )
            try:
                [receipt] = Sender(self.core, state).send_checked([again])
            except QueueUnavailable as refused:
                if isinstance(refused, TemporaryFailure):
                    raise
                raise QueueUnavailable(self.queue_url, f"{refused}; {_RETRY_NEEDS}", "gets no retry") from refused
            self.count("retried")
        if message.receipt_handle not in self._in_hand:
            receiving.delete(self.core.connection.sqs, self.queue_url, [message])
        return receipt

    def bury(self, message: ReceivedMessage, error: BaseException | None, otherwise: str = "") -> None:
        """Puts a message into the dead-letter queue, with an error as the reason, or with another text."""
        bury(self.core.connection, self.queue_url, message, reason_of(error, otherwise))
        self.count("dead")

    def acknowledge(self, messages: list[ReceivedMessage]) -> None:
        """Deletes messages from the queue. What SQS cannot delete comes again, with a warning."""
        try:
            receiving.delete(self.core.connection.sqs, self.queue_url, messages)
        except DeleteFailed as error:
            _log.warning("queue %s: %s", self.queue_url, error)

    def hide(self, messages: list[ReceivedMessage], seconds: int) -> set[str]:
        """Hides messages for so many seconds from now. Returns the receipt handles that SQS refuses."""
        handles = [each.receipt_handle for each in messages]
        return receiving.hide(self.core.connection.sqs, self.queue_url, handles, seconds)

    # ---- the queue
    @cached_property
    def rule(self) -> tuple[int | None, int | None]:
        """The queue's visibility time-out in seconds, and how often SQS hands a message out.

        None: the queue has none, or AWS does not tell.
        """
        with suppress(*AWS_ERRORS):
            found = attributes_of(self.core.connection.sqs, self.queue_url, "VisibilityTimeout", "RedrivePolicy")
            dead = dead_letter_queue(self.queue_url, found)
            return int(found["VisibilityTimeout"]), None if dead is None else dead.receives
        return None, None
