"""Maps each queue of a task framework to a topic with the queue as its subscription.

    producer --send--> topic --when it is due--> subscription = the framework's own queue --> worker

A topic gives each message to all subscriptions. So two queues never share a topic, or each queue would also get the
other queue's tasks.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Unpack
from urllib.parse import urlsplit

from tidewheel.client.tidewheel import Tidewheel
from tidewheel.errors import InvalidValue, QueueNotPrepared, UnknownTopic
from tidewheel.model.message import MAX_MESSAGE_BYTES, Receipt
from tidewheel.model.settings import NewTopicSettings
from tidewheel.model.topic import Subscription, check_name
from tidewheel.model.untrusted import check_whole

SUBSCRIPTION = "workers"
"""Name of the subscription that `prepare` makes."""
MAX_THRESHOLD_S = 900
"""SQS's maximum delay."""

_MAX_TOPIC_CHARACTERS = 48
_HASH_CHARACTERS = 8

_log = logging.getLogger(__name__)


class QueueTopics:
    """Sends each delayed message to the topic of its worker's queue.

    Safe for use by several threads.
    """

    def __init__(self, tidewheel: Tidewheel, topics: Mapping[str, str] | None = None) -> None:
        """Makes the mapping without a call to AWS.

        Args:
            tidewheel: the client.
            topics: topics of queues by the queue's name in SQS; default: the topic has the queue's name.

        Raises:
            InvalidValue: a topic's name is not valid, or two queues have the same topic.
        """
        self._tidewheel = tidewheel
        self._topics = dict(topics or {})
        self._prepared: set[str] = set()
        for queue_name, topic in self._topics.items():
            check_name(f"topics[{queue_name!r}]", topic)
        if len(set(self._topics.values())) < len(self._topics):
            raise InvalidValue("topics", self._topics, "give each queue a topic of its own, else each gets all tasks")

    def topic(self, queue: str) -> str:
        """Returns the topic of a queue, given the queue's SQS name or URL.

        A queue's name may be too long for a topic's name. The topic's name is then shortened and ends in a hash.

        Raises:
            InvalidValue: the queue is a FIFO queue.
        """
        name = _queue_name(queue)
        if name.endswith(".fifo"):
            raise InvalidValue("queue", name, "FIFO queues take no delay for a single message; use a standard queue")
        if name in self._topics:
            return self._topics[name]
        if len(name) <= _MAX_TOPIC_CHARACTERS:
            return check_name("queue", name)
        digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_CHARACTERS]
        return check_name("queue", f"{name[: _MAX_TOPIC_CHARACTERS - _HASH_CHARACTERS - 1]}-{digest}")

    def prepare(self, queue_url: str, **settings: Unpack[NewTopicSettings]) -> Subscription:
        """Creates a queue's topic and subscription, or finds existing ones. Can be repeated.

        | step | call | if it stops after this |
        |---|---|---|
        | 1 | `create_topic`, unless the topic exists | `send` refuses, and the next `prepare` continues |
        | 2 | `create_subscription` with the queue | done |

        Args:
            queue_url: an SQS queue that exists.
            settings: settings of a new topic, such as slot_s=60; an existing topic keeps its settings.

        Raises:
            InvalidValue: a FIFO queue, an invalid setting, or a topic that feeds other queues only.
            AlreadyExists, QueueUnavailable: as the client's `create_subscription`.
        """
        topic = self.topic(queue_url)
        found = self._subscriptions(topic)
        if found is None:
            self._tidewheel.create_topic(topic, settings=None, **settings)
        for each in found or []:
            if _same_queue(each.queue_url, queue_url):
                return each
        if found:
            others = ", ".join(each.queue_url for each in found)
            raise InvalidValue(
                "topic",
                topic,
                f"it leads to {others}, which would get the tasks too; "
                f"name another topic with topics={{{_queue_name(queue_url)!r}: ...}}",
            )
        return self._tidewheel.create_subscription(topic, SUBSCRIPTION, queue_url=queue_url, reader="plain")

    def send(
        self,
        queue_url: str,
        body: str,
        *,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Sends a message that reaches the queue when due, with body and attributes unchanged.

        The first message to a queue checks that its topic leads to the queue. Later messages rely on this check.

        Raises:
            QueueNotPrepared: the topic does not lead to the queue; nothing was sent.
            InvalidValue: SQS could not carry the message; nothing was sent.
            QueueUnavailable: SQS did not accept the message.
        """
        topic = self.topic(queue_url)
        # A worker reads its queue without Tidewheel's consumer, so a body that is stored elsewhere would be lost.
        texts = [body, *(f"{name}String{value}" for name, value in (attributes or {}).items())]
        size = sum(len(text.encode()) for text in texts)
        if size > MAX_MESSAGE_BYTES:
            advice = f"the task comes to {size} bytes; SQS takes {MAX_MESSAGE_BYTES}; send a key to its large part"
            raise InvalidValue("body", body, advice)
        self._check_prepared(topic, queue_url)
        receipt = self._tidewheel.send(topic, body, delay=delay, deliver_at=deliver_at, attributes=attributes)
        _log.info("queue %s: message %s of topic %s, due %s", queue_url, receipt.id, topic, receipt.deliver_at)
        return receipt

    def _check_prepared(self, topic: str, queue_url: str) -> None:
        if queue_url in self._prepared:
            return
        if not any(_same_queue(each.queue_url, queue_url) for each in self._subscriptions(topic) or []):
            raise QueueNotPrepared(queue_url, topic)
        self._prepared.add(queue_url)

    def _subscriptions(self, topic: str) -> list[Subscription] | None:
        """Returns a topic's subscriptions, or None if there is no such topic."""
        with suppress(UnknownTopic):
            return self._tidewheel.subscriptions(topic)
        return None


def check_threshold(threshold_s: int) -> int:
    """Checks and returns the longest delay that the framework handles itself.

    Raises:
        InvalidValue: the value is not a whole number from 0 to 900 seconds.
    """
    check_whole("threshold_s", threshold_s, 0, MAX_THRESHOLD_S, more=", SQS's most in seconds")
    return threshold_s


def _queue_name(queue: str) -> str:
    return urlsplit(queue).path.rpartition("/")[2]


def _same_queue(one: str, other: str) -> bool:
    """Returns whether two URLs name the same queue.

    SQS answers on several hosts. The path is account and name.
    """
    return urlsplit(one).path == urlsplit(other).path
