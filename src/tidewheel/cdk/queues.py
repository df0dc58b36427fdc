"""The service's own queues: how one with a dead-letter queue is made, and how a function reads it."""

from __future__ import annotations

import math
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.cdk.encryption import DATA_KEY_REUSE, key_of
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.nag_suppressions import acknowledge

RETENTION = Duration.days(14)
"""The longest that SQS keeps a message. A tombstone outlives two such stays (28 days)."""

OUTAGE = Duration.hours(4)
"""An outage of S3, DynamoDB or Lambda of this length heals by itself: packs are tried again until then.

Later they are dead letters, which people redrive. It is no longer, since a pack that is damaged, or for a topic that is
gone, is told of only when it is a dead letter.
"""

READS = ("sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
"""What Lambda needs to read a queue for a function; it leaves messages that failed to their visibility time-out."""


def receives_through(outage: Duration, visibility_timeout: Duration) -> int:
    """Return the receives after which a message that always fails has been tried for this long."""
    return math.ceil(outage.to_seconds() / visibility_timeout.to_seconds())


def terminal_queue(scope: Construct, id_: str, environment: Environment, *, why: str | None = None) -> sqs.Queue:
    """Make a queue that only people read: dead letters, refused messages.

    Args:
        scope: The construct that it belongs to.
        id_: Its name there.
        environment: Decides whether it stays when the stack is deleted.
        why: Why it has no dead-letter queue, if it is none itself in the eyes of SQS.
    """
    queue = sqs.Queue(
        scope,
        id_,
        retention_period=RETENTION,
        removal_policy=environment.removal_policy,
        enforce_ssl=True,
        **queue_encryption(key_of(scope)),
    )
    if why is not None:
        acknowledge(queue, "AwsSolutions-SQS3", why)
    return queue


def source_queue(
    scope: Construct,
    id_: str,
    environment: Environment,
    *,
    visibility_timeout: Duration,
    max_receive_count: int,
) -> sqs.Queue:
    """Make a queue that a function reads, and its dead-letter queue `<id>DeadLetters`."""
    dead_letters = terminal_queue(scope, f"{id_}DeadLetters", environment)
    return sqs.Queue(
        scope,
        id_,
        visibility_timeout=visibility_timeout,
        retention_period=RETENTION,
        removal_policy=environment.removal_policy,
        enforce_ssl=True,
        dead_letter_queue=sqs.DeadLetterQueue(max_receive_count=max_receive_count, queue=dead_letters),
        **queue_encryption(key_of(scope)),
    )


def read_queue(
    function: lambda_.Function,
    queue: sqs.Queue,
    *,
    batch_size: int,
    max_concurrency: int,
    window: Duration | None = None,
) -> None:
    """Have a function called with what comes through a queue.

    Args:
        function: Reports what failed of a batch, which comes again after the queue's visibility time-out.
        queue: What it reads.
        batch_size: The most SQS messages of one call.
        max_concurrency: The most calls at one time. Beyond it messages wait, and no receive is counted.
        window: The longest that Lambda waits for a batch to fill.
    """
    grantee = function.grant_principal
    grantee.add_to_principal_policy(iam.PolicyStatement(actions=list(READS), resources=[queue.queue_arn]))
    lambda_.EventSourceMapping(
        queue,
        "Reader",
        target=function,
        event_source_arn=queue.queue_arn,
        batch_size=batch_size,
        max_batching_window=window,
        max_concurrency=max_concurrency,
        report_batch_item_failures=True,
    )


def grant_queue_sends(grantee: iam.IGrantable, *queues: sqs.IQueue) -> None:
    """Allow to send to queues of the service. `grant_send_messages` would allow more, and all of an encryption key."""
    arns = [queue.queue_arn for queue in queues]
    grantee.grant_principal.add_to_principal_policy(iam.PolicyStatement(actions=["sqs:SendMessage"], resources=arns))


def queue_encryption(key: kms.IKey | None) -> dict[str, Any]:
    """Return how a queue is encrypted: with a key, or by SQS itself."""
    if key is None:
        return {"encryption": sqs.QueueEncryption.SQS_MANAGED}
    return {"encryption_master_key": key, "data_key_reuse": DATA_KEY_REUSE}
