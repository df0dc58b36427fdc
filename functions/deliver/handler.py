"""Deliver function: SQS event source mapping of the work queue."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel.aws.service import Service
from tidewheel.aws.sqs_queues import part_of
from tidewheel.errors import PartLeased
from tidewheel.flows.deliver import deliver_part

logger = Logger(service="deliver")
metrics = Metrics(namespace="Tidewheel", service="deliver")
tracer = Tracer(service="deliver")
service = Service.cold_start()


def deliver(record: SQSRecord) -> None:
    """Delivers the part that a record of the work queue names."""
    metrics.add_metric("Parts", MetricUnit.Count, 1)
    key, part = part_of(record.body)
    try:
        done = deliver_part(service, key, part)
    except PartLeased as error:
        logger.info(str(error), topic=key.topic, plan=key.plan, part=part)
        raise
    except Exception:
        logger.exception("part not delivered", topic=key.topic, subscription=key.subscription, plan=key.plan, part=part)
        raise
    if done is None:
        logger.info("part is done", topic=key.topic, plan=key.plan, part=part)
        return
    metrics.add_metric("DeliveredMessages", MetricUnit.Count, done.messages)
    metrics.add_metric("SegmentsRead", MetricUnit.Count, done.segments)


@metrics.log_metrics
@tracer.capture_lambda_handler(capture_response=False, capture_error=False)
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Delivers the parts of a batch; those that failed are reported and come again."""
    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(event=event, record_handler=deliver, processor=processor, context=context)
