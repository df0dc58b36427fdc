"""Deploys the ingest queues, and the function that turns batches into ledgers."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.cdk.delivery import Delivery
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.functions import python_function
from tidewheel.cdk.queues import OUTAGE, read_queue, receives_through, source_queue
from tidewheel.cdk.storage import OF_TOPICS, TOMBSTONES, TOPICS, Storage
from tidewheel.cdk.timing_wheel import TimingWheel
from tidewheel.model.object_names import LEDGERS, PARKED

INGEST_TIMEOUT = Duration.seconds(60)

URGENT_VISIBILITY = Duration.seconds(120)
"""Twice the function's time-out. AWS recommends six times, and requires once.

Urgent messages may be due in seconds. A batch whose call died comes again after this time, so a crash makes its
messages late by this time. A small batch takes much less than the time-out.
"""

BULK_WINDOW = Duration.seconds(300)
"""The longest that Lambda waits for a batch to fill. A long wait makes few, large ledgers."""

BULK_VISIBILITY = Duration.seconds(6 * 60 + 300)
"""Six times the function's time-out plus the window, as AWS recommends.

The bulk queue's messages are due in half an hour or later (`tidewheel.client.sender.URGENT_MS`). A retry that waits for
the window again is still in time for a ledger.
"""


class Ingestion(Construct):
    """The ingest queues and the ingest function.

    Attributes:
        urgent_queue: For messages due soon, without a window, with quick retries.
        bulk_queue: For all other messages, collected for up to five minutes.
        topic_queues: Topic -> its own urgent and bulk queue, for the topics that the environment lists.
        ingest: The function that reads all these queues.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        environment: Environment,
        code: lambda_.Code,
        storage: Storage,
        timing_wheel: TimingWheel,
        delivery: Delivery,
    ) -> None:
        """Creates the queues and the function, which may write ledgers, create schedules and send direct."""
        super().__init__(scope, id_)
        self.urgent_queue, self.bulk_queue = _queues(self, environment)
        self.topic_queues = {
            # With a prefix, since the CDK leaves the name "Default" out of logical ids.
            topic: _queues(Construct(self, f"Topic-{topic}"), environment)
            for topic in environment.dedicated_topics
        }
        self.ingest = python_function(
            self,
            "ingest",
            description="Tidewheel: turns sent messages into ledgers, or sends them when they are due soon",
            code=code,
            environment=environment,
            timeout=INGEST_TIMEOUT,
            memory_mib=environment.ingest_memory_mib,
        )
        for urgent, bulk in self._pairs:
            self._read(urgent, bulk, environment)
        reads = ("dynamodb:GetItem", "dynamodb:Query")
        storage.grant_items(self.ingest, TOPICS, *reads, "dynamodb:UpdateItem")
        storage.grant_items(self.ingest, TOMBSTONES, *reads)
        # One transaction moves a key, puts a tombstone and checks the topic's state.
        storage.grant_items(self.ingest, OF_TOPICS, "dynamodb:ConditionCheckItem", "dynamodb:PutItem")
        storage.grant_objects(self.ingest, "s3:PutObject", "s3:DeleteObject", prefixes=(LEDGERS, PARKED))
        timing_wheel.grant_arm(self.ingest)
        delivery.grant_sends(self.ingest)

    @property
    def queues(self) -> list[sqs.Queue]:
        """All ingest queues, in the order of `ServiceSettings.own_queue_urls`."""
        return [queue for pair in self._pairs for queue in pair]

    @property
    def _pairs(self) -> list[tuple[sqs.Queue, sqs.Queue]]:
        return [(self.urgent_queue, self.bulk_queue), *self.topic_queues.values()]

    def _read(self, urgent: sqs.Queue, bulk: sqs.Queue, environment: Environment) -> None:
        """Makes the function read a pair of queues."""
        read_queue(self.ingest, urgent, batch_size=10, max_concurrency=environment.urgent_concurrency)
        read_queue(
            self.ingest,
            bulk,
            batch_size=10_000,
            max_concurrency=environment.bulk_concurrency,
            window=BULK_WINDOW,
        )


def _queues(scope: Construct, environment: Environment) -> tuple[sqs.Queue, sqs.Queue]:
    """Creates an urgent and a bulk queue."""

    def make(id_: str, visibility_timeout: Duration) -> sqs.Queue:
        return source_queue(
            scope,
            id_,
            environment,
            visibility_timeout=visibility_timeout,
            max_receive_count=receives_through(OUTAGE, visibility_timeout),
        )

    return make("UrgentQueue", URGENT_VISIBILITY), make("BulkQueue", BULK_VISIBILITY)
