"""Ingestion: the queues that senders write to, and the function that turns batches into ledgers."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk.aws_lambda_event_sources import SqsEventSource
from constructs import Construct

from tidewheel.aws.s3_layout import LEDGERS, PARKED
from tidewheel.cdk.delivery import Delivery
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.functions import python_function
from tidewheel.cdk.queues import source_queue
from tidewheel.cdk.storage import Storage
from tidewheel.cdk.timing_wheel import TimingWheel

INGEST_TIMEOUT = Duration.seconds(60)

URGENT_VISIBILITY = Duration.seconds(120)
"""Twice the function's time-out, where AWS recommends six times (and demands once).

Urgent messages may be due in seconds. A call that died is repeated when this has passed, so it is the
price in lateness of a crash. A small batch is done in well under the time-out.
"""

BULK_WINDOW = Duration.seconds(300)
"""The longest that Lambda waits for a batch to fill: few, large ledgers."""

BULK_VISIBILITY = Duration.seconds(6 * 60 + 300)
"""Six times the function's time-out plus the window, as AWS recommends: nothing here is due soon."""


class Ingestion(Construct):
    """The way into the service.

    Attributes:
        urgent_queue: For what is due within the hour: no window, quick repeats.
        bulk_queue: For the rest: collected for up to five minutes.
        topic_queues: Topic -> its own urgent and bulk queue, for the topics that the environment lists.
        ingest: The function that reads all of them.
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
        """Make the queues and the function; allow it to write ledgers, arm the wheel and send directly."""
        super().__init__(scope, id_)
        self.urgent_queue, self.bulk_queue = _queues(self)
        self.topic_queues = {
            # With a prefix, for the CDK leaves a construct named "Default" out of the logical ids.
            topic: _queues(Construct(self, f"Topic-{topic}"))
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
        for urgent, bulk in ((self.urgent_queue, self.bulk_queue), *self.topic_queues.values()):
            self._read(urgent, bulk)
        storage.grant_items(self.ingest)
        storage.grant_objects(self.ingest, "s3:PutObject", "s3:DeleteObject", prefixes=(LEDGERS, PARKED))
        timing_wheel.grant_arm(self.ingest)
        delivery.grant_sends(self.ingest)

    def _read(self, urgent: sqs.Queue, bulk: sqs.Queue) -> None:
        """Have the function called with what comes through two queues."""
        self.ingest.add_event_source(SqsEventSource(urgent, batch_size=10, report_batch_item_failures=True))
        self.ingest.add_event_source(
            SqsEventSource(
                bulk,
                batch_size=10_000,
                max_batching_window=BULK_WINDOW,
                report_batch_item_failures=True,
            )
        )


def _queues(scope: Construct) -> tuple[sqs.Queue, sqs.Queue]:
    """Make an urgent and a bulk queue."""
    return (
        source_queue(scope, "UrgentQueue", visibility_timeout=URGENT_VISIBILITY),
        source_queue(scope, "BulkQueue", visibility_timeout=BULK_VISIBILITY),
    )
