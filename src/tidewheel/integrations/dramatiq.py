"""Adds a broker to dramatiq on SQS that supports any delay.

The broker of dramatiq_sqs refuses delays above 15 minutes. For such delays, this broker sends the same data (the
encoded message as base64) to the queue's topic. The worker receives the message from the queue when the message is due.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from tidewheel.client.tidewheel import Tidewheel
from tidewheel.errors import needs_extra
from tidewheel.integrations.queue_topics import MAX_THRESHOLD_S, QueueTopics, check_threshold
from tidewheel.model.settings import NewTopicSettings
from tidewheel.model.topic import Subscription

with needs_extra(__name__, "dramatiq"):
    from dramatiq_sqs import MessageTooLarge, SQSBroker

if TYPE_CHECKING:
    import dramatiq

TOPIC_OPTION = "tidewheel_topic"
ID_OPTION = "tidewheel_id"
"""Options of the message that `enqueue` returns: the topic where the message waits, and its id there."""


class TidewheelSQSBroker(SQSBroker):  # type: ignore[misc]  # dramatiq_sqs says nothing of its types
    """The broker of dramatiq_sqs without the limit of 15 minutes. Actors and workers stay unchanged.

    Example:
        >>> broker = TidewheelSQSBroker(tidewheel=Tidewheel())
        >>> dramatiq.set_broker(broker)
        >>> remind.send_with_options(args=(17,), delay=timedelta(days=3))
    """

    def __init__(
        self,
        *,
        tidewheel: Tidewheel,
        topics: Mapping[str, str] | None = None,
        threshold_s: int = MAX_THRESHOLD_S,
        **options: Any,
    ) -> None:
        """Makes a broker.

        Args:
            tidewheel: the client.
            topics: topics of queues by the queue's name in SQS (with the namespace); default: the queue's name.
            threshold_s: longest delay, in seconds, that goes to SQS directly; longer delays go through Tidewheel; 0 to
                900.
            options: SQSBroker's own.

        Raises:
            InvalidValue: a topic's name or the threshold is not usable.
        """
        self._threshold_ms = check_threshold(threshold_s) * 1000
        self._topics = QueueTopics(tidewheel, topics)
        super().__init__(**options)

    def prepare(self, queues: Iterable[str] | None = None, **settings: Unpack[NewTopicSettings]) -> list[Subscription]:
        """Creates each queue's topic, with the queue as its subscription. Existing topics are kept.

        Call this method once, at deployment.

        Args:
            queues: dramatiq's names of queues; default: all queues that actors have declared.
            settings: settings of new topics, such as slot_s=60.

        Raises:
            InvalidValue: a FIFO queue, an invalid setting, or a topic that feeds other queues.
            dramatiq.errors.QueueNotFound: no actor has declared the queue.
        """
        return [
            self._topics.prepare(self._queue_url(name), **settings)
            for name in (sorted(self.queue_names) if queues is None else queues)
        ]

    def enqueue(self, message: dramatiq.Message[Any], *, delay: int | None = None) -> dramatiq.Message[Any]:
        """Puts a message into its queue, or into the queue's topic if the delay is too long for SQS.

        Args:
            message: the message.
            delay: milliseconds.

        Returns:
            The message. If the message waits in a topic, a copy whose options `tidewheel_topic` and `tidewheel_id` name
            the topic and the id.

        Raises:
            QueueNotPrepared: `prepare` was not called for the queue; nothing was sent.
            InvalidValue, MessageTooLarge: the message cannot be delivered; nothing was sent.
            QueueUnavailable: SQS did not accept the message.
        """
        if delay is None or delay <= self._threshold_ms:
            now: dramatiq.Message[Any] = super().enqueue(message, delay=delay)
            return now
        queue_url = self._queue_url(message.queue_name)
        body = b64encode(message.encode()).decode()
        if len(body) > self.max_message_size:
            raise MessageTooLarge(f"Messages in SQS can be at most {self.max_message_size} bytes large.")
        self.emit_before("enqueue", message, delay)
        receipt = self._topics.send(queue_url, body, delay=timedelta(milliseconds=delay))
        sent = message.copy(options={TOPIC_OPTION: receipt.topic, ID_OPTION: receipt.id})
        self.emit_after("enqueue", sent, delay)
        return sent

    def _queue_url(self, queue_name: str) -> str:
        self._ensure_queue(queue_name)
        return str(self.queues[queue_name].url)
