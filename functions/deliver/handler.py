"""Deliver function: SQS event source mapping of the work queue."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel.aws.service import Service
from tidewheel.errors import PartLeased
from tidewheel.flows.work import do_job
from tidewheel.job import job_of

logger = Logger(service="deliver")
metrics = Metrics(namespace="Tidewheel", service="deliver")
tracer = Tracer(service="deliver")
service = Service.cold_start()


def work(record: SQSRecord) -> None:
    """Does the job that a record of the work queue names."""
    job = job_of(record.body)
    metrics.add_metric("Jobs", MetricUnit.Count, 1)
    try:
        done = do_job(service, job)
    except PartLeased as error:
        logger.info(str(error), job=asdict(job))
        raise
    except Exception:
        logger.exception("job not done", job=asdict(job))
        raise
    if done is None:
        logger.info("nothing to do", job=asdict(job))
        return
    for failure in done.failures:
        logger.error("left to the work queue", job=asdict(job), exc_info=failure)
    if done.parked:
        logger.error("the queue refuses: parked", job=asdict(job), messages=done.parked)
    metrics.add_metric("DeliveredMessages", MetricUnit.Count, done.messages)
    metrics.add_metric("ParkedMessages", MetricUnit.Count, done.parked)
    metrics.add_metric("ExpiredMessages", MetricUnit.Count, done.expired)
    metrics.add_metric("SegmentsRead", MetricUnit.Count, done.segments)


@metrics.log_metrics
@tracer.capture_lambda_handler(capture_response=False, capture_error=False)
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Does the jobs of a batch; those that failed are reported and come again."""
    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(event=event, record_handler=work, processor=processor, context=context)
