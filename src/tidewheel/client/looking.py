"""What waits, and what became of a message."""

from __future__ import annotations

from datetime import datetime

from tidewheel.client import waiting
from tidewheel.client.known import Known
from tidewheel.client.stats import TopicStats, topic_stats
from tidewheel.client.waiting import MessageStatus, WaitingMessage
from tidewheel.errors import UnknownTopic
from tidewheel.model.message import MessageId
from tidewheel.model.topic import check_name


class Looking(Known):
    """What a client can see without taking anything."""

    def stats(self, topic: str) -> TopicStats:
        """Returns what waits in a topic and how far its subscriptions have come, from metadata alone.

        Raises:
            UnknownTopic: the topic does not exist.
        """
        check_name("topic", topic)
        state = self._connection.topics.state(topic)
        if state is None:
            raise UnknownTopic(topic)
        connection = self._connection
        return topic_stats(connection.topics, connection.objects, connection.sqs, state, self._clock.now_ms())

    def get(self, topic: str, id: str) -> MessageStatus:
        """Returns what is known of a message: whether it waits, is sealed, sent, cancelled, purged or expired.

        It is found by what ledgers hold, so `unknown` has several meanings: it was never sent; it is still in an ingest
        queue (up to five minutes, if it is due in over half an hour); it was due so soon that it went to the queues
        without a ledger; or it was delivered and collected. One that was moved or superseded in time is `cancelled`.

        Raises:
            InvalidValue: a name, or the id, is not one.
            UnknownTopic: the topic does not exist.
            ExtraMissing: pyarrow is not installed; the extra `read` brings it.
        """
        check_name("topic", topic)
        return waiting.get(self._connection, topic, MessageId(id), self._clock.now_ms())

    def peek(self, topic: str, n: int = 10, *, after: str | datetime | None = None) -> list[WaitingMessage]:
        """Returns the next n messages by due time that are not planned yet, without taking them.

        Cancelled, purged and expired ones are not among them, nor what is still in an ingest queue.

        Args:
            topic: the topic.
            n: 1 to 1000.
            after: only what comes after this: the id of the last message seen, or a time with its zone.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic: the topic does not exist.
            ExtraMissing: pyarrow is not installed; the extra `read` brings it.
        """
        check_name("topic", topic)
        return waiting.peek(self._connection, topic, n, self._clock.now_ms(), after)
