"""The aftermath of a recording. Time goes on, users act, and each subscription gets its messages."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from botocore.exceptions import ClientError

from tests.compatibility.recording import Recording, take
from tidewheel.errors import UnknownTopic
from tidewheel.local import LocalTidewheel
from tidewheel.model.object_names import topic_prefixes
from tidewheel.model.received import ReceivedMessage
from tidewheel.storage.layout import partitions

_RETENTION = timedelta(days=13)
"""A day less than a subscription's queue keeps a message."""

Received = dict[str, list[ReceivedMessage]]


def digest(body: str) -> str:
    """Returns the digest of a received body for a recording."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _create_queue(stack: LocalTidewheel, name: str) -> None:
    stack.session.client("sqs").create_queue(QueueName=name)


VERBS: dict[str, Callable[..., object]] = {
    "resume": lambda stack, topic, subscription: stack.client().resume(topic, subscription),
    "cancel": lambda stack, topic, id: stack.client().cancel(topic, id),
    "cancel_key": lambda stack, topic, key: stack.client().cancel(topic, key=key),
    "cancel_recurring": lambda stack, topic, key: stack.client().cancel_recurring(topic, key),
    "create_queue": _create_queue,
}
"""What users do after the recording. A verb stays as long as a recording uses it."""


def live_on(stack: LocalTidewheel, recording: Recording) -> Received:
    """Runs a restored stack until all expected messages are due. Returns the received messages of each subscription."""
    received: Received = {whom: [] for whom in recording.story.expected}
    for at_ms, verb, *arguments in recording.story.steps:
        _receive_until(stack, _utc(at_ms), received)
        VERBS[verb](stack, *arguments)
    due_ms = max(due for each in recording.story.expected.values() for due, _ in each)
    _receive_until(stack, _utc(due_ms) + timedelta(days=1), received)
    return received


def _receive_until(stack: LocalTidewheel, end: datetime, received: Received) -> None:
    while stack.now() < end:
        stack.advance_to(min(end, stack.now() + _RETENTION))
        for whom, messages in received.items():
            messages.extend(taken(stack, whom))


def taken(stack: LocalTidewheel, whom: str) -> list[ReceivedMessage]:
    """Takes all receivable messages of "<topic>/<subscription>", or none if the topic or the queue is gone."""
    topic, _, subscription = whom.partition("/")
    try:
        return stack.receive(topic, subscription)
    except UnknownTopic:
        return []
    except ClientError as error:
        if error.response["Error"]["Code"] != "AWS.SimpleQueueService.NonExistentQueue":
            raise
        return []


def check(recording: Recording, received: Received) -> None:
    """Asserts that exactly the expected messages came, each once, and none early."""
    for whom, expected in recording.story.expected.items():
        came = received[whom]
        assert counted(came) == Counter(expected), whom
        assert len({each.id for each in came}) == len(came), whom
        for each in came:
            assert each.visible_at is not None and each.visible_at >= each.deliver_at, each


def counted(messages: Iterable[ReceivedMessage]) -> Counter[tuple[int, str]]:
    """Counts messages by due time and digest, as in a recording."""
    return Counter((round(each.deliver_at.timestamp() * 1000), digest(each.body)) for each in messages)


def nothing_is_left(stack: LocalTidewheel, recording: Recording) -> None:
    """Asserts that no items or objects of the deleted topics are left, but the notes of their deletions."""
    left = take(stack, release=recording.release, layout=recording.layout, story=recording.story)
    for topic in recording.story.gone:
        items = [item for item in left.items if item["pk"]["S"] in partitions(topic)]
        assert [item["sk"]["S"] for item in items] == ["deleted"], topic
        assert not [name for name in left.objects if name.startswith(topic_prefixes(topic))], topic


def _utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
