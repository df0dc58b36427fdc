"""Moves refused messages of the service's own queues back to their queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
