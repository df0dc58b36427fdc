"""Looks at waiting messages, and at the state of single messages."""

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
    """Read-only methods of the client."""

    def stats(self, topic: str) -> TopicStats:
        """Returns a topic's waiting messages and its subscriptions' progress, from metadata alone.

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
        """Returns a message's status, such as waiting, sealed, sent, cancelled, purged or expired.

        The search covers ledgers only, so `unknown` has several meanings: the message was never sent; it is still in an
        ingest queue (up to five minutes, if it is due in over half an hour); it was due so soon that it was sent
        direct; or it was delivered and collected. A message that was moved or superseded in time is `cancelled`.

        Raises:
            InvalidValue: the topic's name or the id is not usable.
            UnknownTopic: the topic does not exist.
            ExtraMissing: pyarrow is not installed; install the extra `read`.
        """
        check_name("topic", topic)
        return waiting.get(self._connection, topic, MessageId(id), self._clock.now_ms())

    def peek(self, topic: str, n: int = 10, *, after: str | datetime | None = None) -> list[WaitingMessage]:
        """Returns the next n unplanned messages by due time, and leaves them in the topic.

        Cancelled, purged and expired messages are left out, and so are messages that are still in an ingest queue.

        Args:
            topic: the topic.
            n: 1 to 1000.
            after: return only messages after this: the id of the last message seen, or a time with its zone.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic: the topic does not exist.
            ExtraMissing: pyarrow is not installed; install the extra `read`.
        """
        check_name("topic", topic)
        return waiting.peek(self._connection, topic, n, self._clock.now_ms(), after)
