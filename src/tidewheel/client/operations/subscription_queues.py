"""Names, creates and deletes a subscription's queue and dead-letter queue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from botocore.exceptions import ClientError

from tidewheel.errors import AlreadyExists, InvalidValue, QueueDeletedRecently, QueueUnavailable
from tidewheel.model.settings import (
    DEAD_LETTERS,
    ROLE_TAG,
    STACK_TAG,
    SUBSCRIPTION,
    SubscriptionSettings,
    TopicSettings,
)
from tidewheel.storage.table import unless_denied

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


T = TypeVar("T")

MAX_QUEUE_NAME = 80
MAX_RECEIVE_COUNT = 5
PLAIN_RECEIVE_COUNT = 10
CLAIMED_RECEIVE_COUNT = 100
"""Of a queue whose readers claim messages: the SDK's consumers count, and bury what fails."""
RETENTION_S = 14 * 86_400
"""The longest that SQS allows."""

_DEAD = "-dead"
_HASH_CHARACTERS = 8
_WAITS_S = (0.25, 0.5, 1.0, 2.0)
"""Waits for SQS to know a new queue. AWS says that a queue can be used a second after its creation."""


def reader_of(reader: str | None, carry: str | None, *, own_queue: bool) -> str | None:
    """Returns the reader of a new subscription. A queue of one's own, and a pipe, are read plainly by default."""
    return reader or ("plain" if own_queue or carry is not None else None)


def receives_of(reader: str | None, settings: TopicSettings) -> int:
    """Returns after how many receives a message of a subscription's queue becomes a dead letter."""
    if settings.claims == "none":
        return MAX_RECEIVE_COUNT
    return PLAIN_RECEIVE_COUNT if reader == "plain" else CLAIMED_RECEIVE_COUNT


def queue_name(stack: str, topic: str, subscription: str, *, hashed: bool = False) -> str:
    """Returns `<stack>-<topic>-<subscription>`, with room for `-dead` after it in SQS's 80 characters.

    Args:
        hashed: whether to always end the name in a hash of the three names; otherwise only too long names have it.
    """
    plain = f"{stack}-{topic}-{subscription}"
    limit = MAX_QUEUE_NAME - len(_DEAD)
    if len(plain) <= limit and not hashed:
        return plain
    # Names cannot hold "/", so no two subscriptions have the same text to hash.
    digest = hashlib.sha256(f"{stack}/{topic}/{subscription}".encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{plain[: limit - _HASH_CHARACTERS - 1]}-{digest}"


def make_queue(
    sqs: SQSClient,
    stack: str,
    topic: str,
    subscription: str,
    settings: SubscriptionSettings,
    receives: int = MAX_RECEIVE_COUNT,
) -> str:
    """Creates a subscription's queue and dead-letter queue, or finds the existing queues.

    Subscription "c" of topic "a-b" and "b-c" of "a" would have queues of the same name. So each queue is tagged with
    its subscription, and the second subscription gets a hash in its queue's name.

    Each queue is created even if SQS knows its name: for 60 s, SQS also answers for queues that were deleted.

    If it stops between the two queues, the next call finds the dead-letter queue by its tags.

    Args:
        receives: after so many, a message is a dead letter.

    Returns:
        The queue's URL. SQS knows the queue.

    Raises:
        AlreadyExists: queues of both names belong to other subscriptions.
        QueueDeletedRecently: a queue of this name was deleted less than 60 s ago.
    """
    owner = _owner_tags(stack, topic, subscription)
    tags = {**owner, ROLE_TAG: SUBSCRIPTION}
    dead_tags = {**owner, ROLE_TAG: DEAD_LETTERS}
    for hashed in (False, True):
        name = queue_name(stack, topic, subscription, hashed=hashed)
        if _is_anothers(sqs, name, tags) or _is_anothers(sqs, name + _DEAD, dead_tags):
            continue
        dead_url = _create(sqs, name + _DEAD, {}, dead_tags)
        redrive = {"deadLetterTargetArn": _arn(sqs, dead_url), "maxReceiveCount": receives}
        attributes = {"VisibilityTimeout": str(settings.visibility_timeout_s), "RedrivePolicy": json.dumps(redrive)}
        url = _create(sqs, name, attributes, tags)
        if _has_tags(sqs, url, tags):  # another caller may have created it meanwhile
            return url
    raise AlreadyExists("queue", queue_name(stack, topic, subscription, hashed=True), "tags of another owner")


class DeadLetterQueue(NamedTuple):
    """The queue of another queue's dead letters. SQS requires both in the same account and Region.

    Attributes:
        receives: how often SQS hands a message out before the message is a dead letter.
    """

    arn: str
    url: str
    receives: int


def dead_letter_queue(queue_url: str, attributes: Mapping[str, str]) -> DeadLetterQueue | None:
    """Returns a queue's dead-letter queue, by the queue's attribute RedrivePolicy. None: there is none."""
    policy = json.loads(attributes.get("RedrivePolicy") or "{}")
    if not policy:
        return None
    arn = str(policy["deadLetterTargetArn"])
    url = f"{queue_url.rpartition('/')[0]}/{arn.rpartition(':')[2]}"
    return DeadLetterQueue(arn, url, int(policy["maxReceiveCount"]))


def _owner_tags(stack: str, topic: str, subscription: str) -> dict[str, str]:
    return {STACK_TAG: stack, "tidewheel:topic": topic, "tidewheel:subscription": subscription}


def _is_anothers(sqs: SQSClient, name: str, tags: dict[str, str]) -> bool:
    """Returns whether a queue of this name exists with other tags."""
    try:
        return not _has_tags(sqs, sqs.get_queue_url(QueueName=name)["QueueUrl"], tags)
    except sqs.exceptions.QueueDoesNotExist:
        return False


def _has_tags(sqs: SQSClient, url: str, tags: dict[str, str]) -> bool:
    found = _once_known(lambda: sqs.list_queue_tags(QueueUrl=url)).get("Tags", {})
    return all(found.get(key) == value for key, value in tags.items())


def _arn(sqs: SQSClient, url: str) -> str:
    found = _once_known(lambda: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"]))
    return found["Attributes"]["QueueArn"]


def _create(sqs: SQSClient, name: str, attributes: dict[str, str], tags: dict[str, str]) -> str:
    """Creates a queue. An existing queue of this name keeps its attributes and tags."""
    everything: Any = {"MessageRetentionPeriod": str(RETENTION_S), **attributes}
    try:
        return _once_known(lambda: sqs.create_queue(QueueName=name, Attributes=everything, tags=tags))["QueueUrl"]
    except sqs.exceptions.QueueNameExists:  # with other attributes or tags
        return _once_known(lambda: sqs.get_queue_url(QueueName=name))["QueueUrl"]
    except sqs.exceptions.QueueDeletedRecently:
        raise QueueDeletedRecently(name) from None


def _once_known(call: Callable[[], T]) -> T:
    """Calls SQS, and again while SQS does not know a new queue yet. Raises SQS's error after about 4 s."""
    for wait_s in _WAITS_S:
        try:
            return call()
        except ClientError as error:  # also of a dead-letter queue that a new queue names: "... target does not exist."
            if "does not exist" not in error.response["Error"]["Message"]:
                raise
        sleep(wait_s)
    return call()


def delete_queues(sqs: SQSClient, stack: str, topic: str, subscription: str, queue_url: str) -> None:
    """Deletes a subscription's queue and dead-letter queue, if their tags are from Tidewheel.

    If the process stops between the two, the dead-letter queue stays. A new subscription of this name finds it.
    """
    owner = _owner_tags(stack, topic, subscription)
    name = queue_url.rpartition("/")[2]
    for queue, role in ((name, SUBSCRIPTION), (name + _DEAD, DEAD_LETTERS)):
        with suppress(sqs.exceptions.QueueDoesNotExist):
            url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
            if _has_tags(sqs, url, {**owner, ROLE_TAG: role}):
                sqs.delete_queue(QueueUrl=url)


def check_given_queue(sqs: SQSClient, queue_url: str) -> str:
    """Checks a caller's own queue and returns the URL.

    Raises:
        InvalidValue: the value is not a URL, or the queue is a FIFO queue.
        QueueUnavailable: the queue does not exist, and did not appear within about 4 s.
    """
    if not isinstance(queue_url, str) or not queue_url.startswith(("https://", "http://")):
        raise InvalidValue("queue_url", queue_url, "give the queue's URL, which starts with https://")
    if queue_url.endswith(".fifo"):
        advice = "FIFO queues take no delay for a single message; use a standard queue"
        raise InvalidValue("queue_url", queue_url, advice)
    try:
        with unless_denied():  # a queue of another account may accept messages and still deny to read its attributes
            _arn(sqs, queue_url)
    except sqs.exceptions.QueueDoesNotExist as error:
        raise QueueUnavailable(queue_url, error.response["Error"]["Code"]) from None
    return queue_url
