"""Deliver function, called by the event source mapping of the work queue."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel.errors import HeldTooLong, InvalidValue, PartLeased
from tidewheel.flows.delivery.deliver import Delivered
from tidewheel.flows.delivery.refusing import refuse
from tidewheel.flows.delivery.work import do_job, job_in
from tidewheel.model.job import DrainJob, Job, PartJob
from tidewheel.model.refused import QueuedMessage
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry

telemetry = Telemetry("deliver")
logger, service = telemetry.logger, telemetry.service


def work(record: SQSRecord) -> None:
    """Runs the job of a record of the work queue. Refuses malformed records, and records that were held too long."""
    try:
        job = job_in(record.body)
    except InvalidValue as error:
        telemetry.failed("not a job: refused", error, sqs_message_id=record.message_id)
        refuse(service, QueuedMessage.of_record(record.raw_event), f"not a job: {error.field}: {error.advice}")
        return
    topic, keys = log_keys(job)
    due = isinstance(job, PartJob) and job.key.replay is None
    with telemetry.step(topic=topic, due=due, correlation_id=record.message_id, **keys):
        try:
            done = do_job(service, job)
        except PartLeased:
            logger.info("another worker has it")
            raise
        except HeldTooLong as error:
            telemetry.failed("held too long: refused", error, sqs_message_id=record.message_id)
            refuse(service, QueuedMessage.of_record(record.raw_event), str(error))
            return
        except Exception as error:
            telemetry.failed("job not done", error)
            raise
        if done is None:
            logger.info("nothing to do")
            return
        tell(done)


def tell(done: Delivered) -> None:
    """Logs and counts the results of a job."""
    for failure in done.failures:
        telemetry.failed("not done now", failure)
    if done.parked:
        logger.warning("the queue refuses: parked", messages=done.parked)
    logger.info("delivered", messages=done.messages, segments=done.segments)
    telemetry.add(metrics.PARKED, done.parked)
    telemetry.add(metrics.EXPIRED, done.expired)
    if done.set_aside:
        logger.warning("set aside what could not be read", parts=done.set_aside)
    if done.damaged:
        logger.error("damaged: see `tidewheel damaged list`")
        telemetry.add(metrics.DAMAGED, done.damaged)


def log_keys(job: Job) -> tuple[str, dict[str, object]]:
    """Returns a job's topic, and the other keys of the job's log records."""
    match job:
        case PartJob(key=key, part=part):
            return key.topic, {"subscription": key.subscription, "slot": key.plan, "part": part, "replay": key.replay}
        case DrainJob(key=park):
            return park.topic, {"subscription": park.subscription, "park": park.id}
        case _:
            return job.topic, {"subscription": job.subscription}


@telemetry.handler
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Runs the jobs of a batch. Failed jobs are reported and come again."""
    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(event=event, record_handler=work, processor=processor, context=context)
