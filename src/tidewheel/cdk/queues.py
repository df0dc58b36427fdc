"""Creates the service's own queues, and connects functions to queues."""

from __future__ import annotations

from typing import Any

from aws_cdk import Duration, Tags
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.cdk.encryption import DATA_KEY_REUSE, key_of
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.nag_suppressions import acknowledge
from tidewheel.cdk.statements import allow
from tidewheel.model.settings import ROLE_TAG, SERVICE
from tidewheel.model.triggers import RETENTION_S, SourceQueue

RETENTION = Duration.seconds(RETENTION_S)

READS = ("sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
"""The actions that Lambda needs to read a queue for a function. Failed messages keep their visibility time-out."""


def terminal_queue(scope: Construct, id_: str, environment: Environment, *, why: str | None = None) -> sqs.Queue:
    """Creates a queue that only people read, for dead letters or refused messages.

    Args:
        scope: The construct that the queue belongs to.
        id_: The queue's name in the scope.
        environment: Decides whether the queue stays when the stack is deleted.
        why: Why the queue has no dead-letter queue, if SQS does not know it as a dead-letter queue itself.
    """
    queue = _queue(scope, id_, environment)
    if why is not None:
        acknowledge(queue, "AwsSolutions-SQS3", why)
    return queue


def source_queue(scope: Construct, id_: str, environment: Environment, settings: SourceQueue) -> sqs.Queue:
    """Creates a queue for a function, with its dead-letter queue `<id>DeadLetters`."""
    dead_letters = terminal_queue(scope, f"{id_}DeadLetters", environment)
    return _queue(
        scope,
        id_,
        environment,
        visibility_timeout=Duration.seconds(settings.visibility_s),
        dead_letter_queue=sqs.DeadLetterQueue(max_receive_count=settings.receives, queue=dead_letters),
    )


def _queue(scope: Construct, id_: str, environment: Environment, **properties: Any) -> sqs.Queue:
    """Creates a queue of the service, tagged as such."""
    policy = environment.removal_policy_once_created
    made = encrypted_queue(scope, id_, key_of(scope), removal_policy=policy, **properties)
    Tags.of(made).add(ROLE_TAG, SERVICE)
    return made


def encrypted_queue(scope: Construct, id_: str, key: kms.IKey | None, **properties: Any) -> sqs.Queue:
    """Creates a queue with a retention of 14 days, encrypted with a key or with SQS's own key."""
    encryption: dict[str, Any] = {"encryption": sqs.QueueEncryption.SQS_MANAGED}
    if key is not None:
        encryption = {"encryption_master_key": key, "data_key_reuse": DATA_KEY_REUSE}
    return sqs.Queue(scope, id_, retention_period=RETENTION, enforce_ssl=True, **encryption, **properties)


def read_queue(
    function: lambda_.Function, queue: sqs.Queue, settings: SourceQueue, *, max_concurrency: int | None
) -> None:
    """Makes a function read a queue.

    Args:
        function: Reports the failed messages of a batch, which come again after the queue's visibility time-out.
        queue: The queue to read.
        settings: The queue's settings.
        max_concurrency: The most calls at one time. Further messages wait, and no receive is counted. None: no limit.
    """
    allow(function, READS, [queue.queue_arn])
    lambda_.EventSourceMapping(
        queue,
        "Reader",
        target=function,
        event_source_arn=queue.queue_arn,
        batch_size=settings.batch_size,
        max_batching_window=Duration.seconds(settings.window_s) if settings.window_s else None,
        max_concurrency=max_concurrency,
        report_batch_item_failures=True,
    )


def grant_queue_sends(grantee: iam.IGrantable, *queues: sqs.IQueue) -> None:
    """Allows to send to queues of the service.

    CDK's `grant_send_messages` would allow more actions, and all uses of an encryption key.
    """
    allow(grantee, ["sqs:SendMessage"], [queue.queue_arn for queue in queues])
