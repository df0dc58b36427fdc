"""Moves dead letters back to their queues with SQS's own redrive. See `service_redrive` for the service's queues."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidewheel.client.subscription_queues import dead_letter_url_of
from tidewheel.errors import InvalidValue, QueueUnavailable
from tidewheel.model.settings import ServiceSettings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

NO_DEAD_LETTERS = "the queue has no dead-letter queue; give it a RedrivePolicy"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveResult:
    """The move of a queue's dead letters back to the queue.

    Attributes:
        queue_url: the queue that the messages go to.
        dead_letter_arn: the dead-letter queue.
        messages: SQS's approximate number of messages; each becomes a new SQS message with a receive count of 0.
        task: SQS's handle of the move, for `aws sqs cancel-message-move-task`; None if there was nothing to move, and
            for the service's own queues, whose messages are moved when the call returns.
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
        found = attributes_of(sqs, queue_url, "RedrivePolicy", "QueueArn")
        policy = found.get("RedrivePolicy")
        if not policy:
            raise InvalidValue("queue_url", queue_url, NO_DEAD_LETTERS)
        arn = str(json.loads(policy)["deadLetterTargetArn"])
        dead_url = dead_letter_url_of(queue_url, policy)
        messages = depth(sqs, dead_url)
        task = _move(sqs, arn, dead_url, found["QueueArn"]) if messages else None
    except ClientError as error:
        answer = error.response["Error"]
        raise QueueUnavailable(queue_url, f"its dead letters stay: {answer['Code']}: {answer['Message']}") from error
    return RedriveResult(queue_url=queue_url, dead_letter_arn=arn, messages=messages, task=task)


def service_dead_letters(sqs: SQSClient, settings: ServiceSettings) -> list[str]:
    """Returns the ARNs of the dead-letter queues of the service's own queues."""
    policies = (attributes_of(sqs, url, "RedrivePolicy").get("RedrivePolicy") for url in settings.own_queue_urls)
    return list(dict.fromkeys(str(json.loads(each)["deadLetterTargetArn"]) for each in policies if each is not None))


def _move(sqs: SQSClient, dead_arn: str, dead_url: str, queue_arn: str) -> str:
    """Starts the move, to the queue by name if no other queue has this dead-letter queue.

    SQS knows the source queue only of messages that SQS itself moved to the dead-letter queue. It does not know the
    source of messages that `retry_later` sent there.
    """
    sources = sqs.list_dead_letter_source_queues(QueueUrl=dead_url).get("queueUrls", [])
    if len(sources) == 1:
        return sqs.start_message_move_task(SourceArn=dead_arn, DestinationArn=queue_arn)["TaskHandle"]
    return sqs.start_message_move_task(SourceArn=dead_arn)["TaskHandle"]


def attributes_of(sqs: SQSClient, url: str, *names: str) -> dict[str, str]:
    """Returns those of a queue's attributes that the queue has."""
    wanted: Any = names
    found: dict[Any, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=wanted).get("Attributes", {})
    return found


def depth(sqs: SQSClient, url: str) -> int:
    """Returns SQS's approximate number of receivable messages in a queue."""
    return int(attributes_of(sqs, url, "ApproximateNumberOfMessages")["ApproximateNumberOfMessages"])
