"""Moves dead letters back to their queues with SQS's own redrive, and refused messages of the service's own queues."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidewheel.errors import InvalidValue, QueueUnavailable
from tidewheel.model.pack import PACK_ATTRIBUTE
from tidewheel.model.refused import REDRIVEN, read_document, restored
from tidewheel.model.settings import ServiceSettings
from tidewheel.model.untrusted import text
from tidewheel.storage.objects import Objects

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_HIDDEN_S = 120
_BATCH = 10
_MOST_BYTES = 16 * 1024 * 1024
"""Over the document of the largest SQS message: JSON escapes a character with up to twelve bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveResult:
    """The move of a queue's dead letters back to the queue.

    Attributes:
        queue_url: the queue that the messages go to.
        dead_letter_arn: the dead-letter queue.
        messages: SQS's approximate number of messages; each becomes a new SQS message with a receive count of 0.
        task: SQS's handle of the move, for `aws sqs cancel-message-move-task`; None if there was nothing to move.
    """

    queue_url: str
    dead_letter_arn: str
    messages: int
    task: str | None


def redrive_queue(sqs: SQSClient, queue_url: str) -> RedriveResult:
    """Starts to move a queue's dead letters, unchanged, back to the queue.

    If the caller stops, the move goes on in SQS.

    Raises:
        InvalidValue: the queue has no dead-letter queue.
        QueueUnavailable: a queue is gone, access is denied, or a move is already under way.
    """
    try:
        names: Any = ["RedrivePolicy", "QueueArn"]
        found = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=names).get("Attributes", {})
        policy = found.get("RedrivePolicy")
        if not policy:
            raise InvalidValue("queue_url", queue_url, "the queue has no dead-letter queue; give it a RedrivePolicy")
        arn = str(json.loads(policy)["deadLetterTargetArn"])
        dead_url = _url(sqs, arn)
        messages = _depth(sqs, dead_url)
        task = _move(sqs, arn, dead_url, str(found["QueueArn"])) if messages else None
    except ClientError as error:
        answer = error.response["Error"]
        raise QueueUnavailable(queue_url, f"its dead letters stay: {answer['Code']}: {answer['Message']}") from error
    return RedriveResult(queue_url=queue_url, dead_letter_arn=arn, messages=messages, task=task)


def redrive_service_queues(sqs: SQSClient, objects: Objects, settings: ServiceSettings) -> list[RedriveResult]:
    """Starts to move the dead letters of the service's ingest queues and work queue back. Restores refused messages.

    Raises:
        InvalidValue, QueueUnavailable: as for `redrive_queue`; the moves of the queues before this queue go on.
        ObjectMissing: the object of a refused message was deleted.
    """
    moves = [redrive_queue(sqs, url) for url in settings.own_queue_urls]
    refused_url = settings.refused_queue_url
    try:
        moved, arn = restore_refused(sqs, objects, settings)
    except ClientError as error:
        answer = error.response["Error"]
        raise QueueUnavailable(refused_url, f"refused messages stay: {answer['Code']}: {answer['Message']}") from error
    return moves + [
        RedriveResult(queue_url=url, dead_letter_arn=arn, messages=messages, task=None)
        for url, messages in moved.items()
    ]


def service_dead_letters(sqs: SQSClient, settings: ServiceSettings) -> list[str]:
    """Returns the ARNs of the dead-letter queues of the service's own queues."""
    found: dict[str, None] = {}
    for url in settings.own_queue_urls:
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"]).get("Attributes", {})
        if "RedrivePolicy" in attributes:
            found[str(json.loads(attributes["RedrivePolicy"])["deadLetterTargetArn"])] = None
    return list(found)


def _move(sqs: SQSClient, dead_arn: str, dead_url: str, queue_arn: str) -> str:
    """Starts the move, to the queue by name if no other queue has this dead-letter queue.

    SQS knows the source queue only of messages that SQS itself moved to the dead-letter queue. It does not know the
    source of messages that `retry_later` sent there.
    """
    sources = sqs.list_dead_letter_source_queues(QueueUrl=dead_url).get("queueUrls", [])
    if len(sources) == 1:
        return sqs.start_message_move_task(SourceArn=dead_arn, DestinationArn=queue_arn)["TaskHandle"]
    return sqs.start_message_move_task(SourceArn=dead_arn)["TaskHandle"]


def _url(sqs: SQSClient, arn: str) -> str:
    name, account = arn.split(":")[5], arn.split(":")[4]
    return sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)["QueueUrl"]


def _depth(sqs: SQSClient, url: str) -> int:
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])["Attributes"]
    return int(found["ApproximateNumberOfMessages"])


def restore_refused(sqs: SQSClient, objects: Objects, settings: ServiceSettings) -> tuple[Mapping[str, int], str]:
    """Sends refused messages, with their bodies and attributes, back to the service's queues.

    Messages that SQS refused for a subscription's queue stay. If the caller stops after a message is sent, the message
    is in both queues, and the next call sends it again: ingest makes copies with the same ids.

    Returns:
        The number of messages for each queue's URL, and the ARN of the queue of refused messages.

    Raises:
        ObjectMissing: a message's object was deleted; the message stays.
    """
    refused_url = settings.refused_queue_url
    names: Any = ["QueueArn", "ApproximateNumberOfMessages"]
    attributes = sqs.get_queue_attributes(QueueUrl=refused_url, AttributeNames=names)["Attributes"]
    left = int(attributes["ApproximateNumberOfMessages"])
    moved: Counter[str] = Counter()
    # A message that is refused again meanwhile is behind the first `left` messages.
    while left > 0:
        answer = sqs.receive_message(
            QueueUrl=refused_url, MaxNumberOfMessages=_BATCH, VisibilityTimeout=_HIDDEN_S, WaitTimeSeconds=1
        )
        messages = answer.get("Messages", [])
        if not messages:
            break
        left -= len(messages)
        for message in messages:
            target = _restore(sqs, objects, settings, message["Body"])
            if target is not None:
                sqs.delete_message(QueueUrl=refused_url, ReceiptHandle=message["ReceiptHandle"])
                moved[target] += 1
    return moved, attributes["QueueArn"]


def _restore(sqs: SQSClient, objects: Objects, settings: ServiceSettings, body: str) -> str | None:
    """Sends a refused message to its queue. Returns the queue's URL, or None for a message of no own queue."""
    try:
        document = read_document(body)
        url = _own_queue(settings, text(document.get("queue_arn")))
        if url is None:
            return None
        if "object_name" in document:
            document = read_document(objects.get_range(text(document["object_name"]), 0, _MOST_BYTES))
        given, attributes = restored(document)
    except ValueError:
        return None
    if PACK_ATTRIBUTE in attributes:
        attributes[REDRIVEN] = {"DataType": "String", "StringValue": "yes"}
    sqs.send_message(QueueUrl=url, MessageBody=given, MessageAttributes=attributes)  # type: ignore[arg-type]
    return url


def _own_queue(settings: ServiceSettings, queue_arn: str) -> str | None:
    name = queue_arn.rpartition(":")[2]
    return next((url for url in settings.own_queue_urls if url.rpartition("/")[2] == name), None)
