"""The service's own queues: how one with a dead-letter queue is made."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

RETENTION = Duration.days(14)
"""The longest that SQS keeps a message. A tombstone outlives two such stays (28 days)."""

MAX_RECEIVE_COUNT = 5


def terminal_queue(scope: Construct, id_: str) -> sqs.Queue:
    """Make a queue that only people read: dead letters, refused messages."""
    return sqs.Queue(scope, id_, retention_period=RETENTION)


def source_queue(scope: Construct, id_: str, *, visibility_timeout: Duration) -> sqs.Queue:
    """Make a queue that a function reads, and its dead-letter queue `<id>DeadLetters`."""
    return sqs.Queue(
        scope,
        id_,
        visibility_timeout=visibility_timeout,
        retention_period=RETENTION,
        dead_letter_queue=sqs.DeadLetterQueue(
            max_receive_count=MAX_RECEIVE_COUNT, queue=terminal_queue(scope, f"{id_}DeadLetters")
        ),
    )
