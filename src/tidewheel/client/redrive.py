"""Redrive: dead letters go back to the queues that they came from, by SQS's own means."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidewheel.errors import InvalidValue, QueueUnavailable
from tidewheel.model.settings import ServiceSettings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveResult:
    """A dead-letter queue that is being emptied.

    Attributes:
        queue_url: where its messages go.
        dead_letter_arn: where they were.
        messages: how many, by SQS's approximate count; each is a new SQS message that was not received yet.
        task: SQS's handle of the move, for `aws sqs cancel-message-move-task`; None if there was nothing to move.
    """

    queue_url: str
    dead_letter_arn: str
    messages: int
    task: str | None


def redrive_queue(sqs: SQSClient, queue_url: str) -> RedriveResult:
    """Starts to move what is in a queue's dead-letter queue back; attributes and bodies stay as they are.

    If it stops: the move goes on in SQS.

    Raises:
        InvalidValue: the queue has no dead-letter queue.
        QueueUnavailable: a queue is gone, access is denied, or a move of it is under way already.
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


def redrive_service_queues(sqs: SQSClient, settings: ServiceSettings) -> list[RedriveResult]:
    """Does the same for the service's own queues: all ingest queues and the work queue.

    Raises:
        InvalidValue, QueueUnavailable: as `redrive_queue`; those before are being emptied.
    """
    return [redrive_queue(sqs, url) for url in settings.own_queue_urls]


def service_dead_letters(sqs: SQSClient, settings: ServiceSettings) -> list[str]:
    """Returns the ARNs of the dead-letter queues of the service's own queues."""
    found: dict[str, None] = {}
    for url in settings.own_queue_urls:
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"]).get("Attributes", {})
        if "RedrivePolicy" in attributes:
            found[str(json.loads(attributes["RedrivePolicy"])["deadLetterTargetArn"])] = None
    return list(found)


def _move(sqs: SQSClient, dead_arn: str, dead_url: str, queue_arn: str) -> str:
    """Starts the move; to the queue by name if it is the only one that has these dead letters.

    SQS knows where a message came from only if it put it there itself, which `retry_later` does in its place.
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
