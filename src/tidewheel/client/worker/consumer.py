"""Receives a subscription's messages in a program with its own loop."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tidewheel.aws.tries import patient
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.client.worker.inbox import ConsumerCounts, Inbox
from tidewheel.client.worker.retries import Delay
from tidewheel.errors import InvalidValue, RetryLater
from tidewheel.model.levels import Backoff
from tidewheel.model.message import Receipt
from tidewheel.model.received import ReceivedMessage, parse_received


class Consumer:
    """Receives the messages of one subscription, for a program that has its own loop. Others use `Worker`.

    Several threads may use the same consumer. It decodes messages from boto3's ReceiveMessage, a Lambda event or
    Powertools, and reads large bodies from S3. For a dropped message, the body is not read.

    Example:
        >>> consumer = Consumer(tw, "orders", "billing")
        >>> for message in consumer.receive(wait_s=20):
        ...     print(message.json())
        ...     tw.delete("orders", "billing", [message])
    """

    def __init__(
        self, tw: Tidewheel, topic: str, subscription: str, *, max_attempts: int = 8, drop_expired: bool = True
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
        self._inbox = Inbox(tw.core, topic, subscription, max_attempts=max_attempts, drop_expired=drop_expired)

    @property
    def counts(self) -> ConsumerCounts:
        """The counts of this consumer so far."""
        return self._inbox.counts

    @patient()
    def decode(self, raw: Mapping[str, Any]) -> ReceivedMessage:
        """Decodes a message of ReceiveMessage's answer, a record of a Lambda event, or a Powertools SQSRecord.

        Raises:
            InvalidValue: Tidewheel did not deliver the message.
            ObjectMissing: the body was kept in S3 and is gone: the message was handed out over 28 days ago.
            BodyChanged: the body was kept in S3, and is not the body that was sent.
        """
        return self._inbox.whole(parse_received(raw))

    @patient()
    def claim(self, message: ReceivedMessage) -> bool:
        """Returns whether to handle a message from `decode`. Otherwise acknowledge the message, counted as dropped.

        This claims a message that can be cancelled until a consumer has it. All other ways to receive do so too.

        Raises:
            ClaimFailed: DynamoDB gives no answer, or refuses. Do not handle the message; it comes again.
        """
        return not self._inbox.drops(message)

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
        return self._inbox.receive(max_messages, wait_s)

    @patient()
    def retry_later(
        self,
        message: ReceivedMessage,
        *,
        level: int | None = None,
        backoff: Backoff | None = None,
        delay: Delay | None = None,
        counts: bool = True,
    ) -> Receipt | None:
        """Sends a message again, to this subscription only, and then deletes the received message.

        The new message has the same body and attributes, a new id, the first message's id as `original_id`, and an
        `attempt` higher by 1. It has no key, so it is neither dropped as a duplicate nor replaces another message. If
        the process stops after sending, both messages come, with the same `original_id`.

        A dead letter gets the error that is being handled as its reason, or the error that RetryLater was raised for.

        Args:
            message: as received.
            level: a number of the topic's table of delay levels.
            backoff: delays that grow with the attempts.
            delay: seconds, a timedelta or text. None of the three: level 3 (10s) first, then 4 (30s), 5 (1m), ...
            counts: whether this was an attempt. A message that only waits keeps its attempts, and waits at least 1 s.

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
        later = RetryLater(level=level, backoff=backoff, delay=delay, counts=counts)
        return self._inbox.send_again(message, later, sys.exception())
