"""Deploys the ingest queues, and the function that turns batches into ledgers."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.cdk.delivery import Delivery
from tidewheel.cdk.encryption import grant_key
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.functions import Foundation, python_function
from tidewheel.cdk.queues import grant_queue_sends, read_queue, source_queue
from tidewheel.cdk.storage import CLAIMS, KEYS, OF_PACKS, OF_TOPICS, TOMBSTONES, TOPICS
from tidewheel.cdk.timing_wheel import TimingWheel
from tidewheel.model.object_names import LEDGERS, PARKED, PAYLOADS, REFUSED
from tidewheel.model.triggers import INGEST_TIMEOUT_S, URGENT_QUEUE, bulk_queue


class Ingestion(Construct):
    """The ingest queues and the ingest function.

    Attributes:
        urgent_queue: For messages due soon, without a window, with quick retries.
        bulk_queue: For all other messages, collected for up to five minutes.
        topic_queues: Topic -> its own urgent and bulk queue, for the topics that the environment lists.
        ingest: The function that reads all these queues.
    """

    def __init__(
        self, scope: Construct, id_: str, foundation: Foundation, timing_wheel: TimingWheel, delivery: Delivery
    ) -> None:
        """Creates the queues and the function, which may write ledgers, create schedules and send direct."""
        super().__init__(scope, id_)
        environment, storage = foundation.environment, foundation.storage
        self.urgent_queue, self.bulk_queue = _queues(self, environment)
        self.topic_queues = {
            # With a prefix, since the CDK leaves the name "Default" out of logical ids.
            topic: _queues(Construct(self, f"Topic-{topic}"), environment)
            for topic in environment.dedicated_topics
        }
        does = "turns sent messages into ledgers, or sends them when they are due soon"
        self.ingest = python_function(self, "ingest", foundation, Duration.seconds(INGEST_TIMEOUT_S), does)
        for urgent, bulk in self._pairs:
            read_queue(self.ingest, urgent, URGENT_QUEUE, max_concurrency=environment.urgent_concurrency)
            read_queue(self.ingest, bulk, bulk_queue(), max_concurrency=environment.bulk_concurrency)
        reads = ("dynamodb:GetItem", "dynamodb:Query")
        storage.grant_items(self.ingest, TOPICS, *reads)
        storage.grant_items(self.ingest, TOMBSTONES, *reads)
        storage.grant_items(self.ingest, OF_PACKS, "dynamodb:GetItem")
        storage.grant_items(self.ingest, KEYS, "dynamodb:GetItem")  # for a plain cancel
        # Of messages whose slot is sealed, for plain cancels, replacements and moves.
        storage.grant_items(self.ingest, CLAIMS, "dynamodb:GetItem")
        # One transaction moves a key, cancels its message's claim, puts a tombstone and checks the topic's state.
        storage.grant_items(
            self.ingest, OF_TOPICS, "dynamodb:ConditionCheckItem", "dynamodb:PutItem", "dynamodb:UpdateItem"
        )
        storage.grant_objects(self.ingest, "s3:PutObject", "s3:DeleteObject", prefixes=(LEDGERS, PARKED))
        storage.grant_objects(self.ingest, "s3:PutObject", prefixes=(PAYLOADS, REFUSED))
        timing_wheel.grant_schedule(self.ingest)
        delivery.grant_sends(self.ingest)
        # The work queue has the drains of parks of direct messages.
        grant_queue_sends(self.ingest, delivery.work_queue)
        for queue in self.queues:
            # Plain messages that may wait are gathered in the bulk queue. See `flows.delivery.keys` for the other.
            grant_queue_sends(self.ingest, queue)

    @property
    def queues(self) -> list[sqs.Queue]:
        """All ingest queues, in the order of `ServiceSettings.own_queue_urls`."""
        return [queue for pair in self._pairs for queue in pair]

    def grant_urgent_sends(self, grantee: iam.IGrantable) -> None:
        """Allows to send packs of messages that are due soon."""
        grant_queue_sends(grantee, *(urgent for urgent, _ in self._pairs))
        grant_key(grantee, self, "sqs")

    @property
    def _pairs(self) -> list[tuple[sqs.Queue, sqs.Queue]]:
        return [(self.urgent_queue, self.bulk_queue), *self.topic_queues.values()]


def _queues(scope: Construct, environment: Environment) -> tuple[sqs.Queue, sqs.Queue]:
    """Creates an urgent and a bulk queue."""
    urgent = source_queue(scope, "UrgentQueue", environment, URGENT_QUEUE)
    return urgent, source_queue(scope, "BulkQueue", environment, bulk_queue())
