"""Deliver function, called by the event source mapping of the work queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidewheel.errors import HeldTooLong, InvalidValue, PartLeased
from tidewheel.flows.delivery.deliver import Delivered
from tidewheel.flows.delivery.refusing import refuse
from tidewheel.flows.delivery.work import do_job, job_in
from tidewheel.model.job import DrainJob, Job, PartJob, SetAsideJob
from tidewheel.model.refused import QueuedMessage
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry, function

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@function("deliver")
def handler(telemetry: Telemetry, event: dict[str, Any], context: LambdaContext) -> None:
    """Runs the jobs of a batch. Failed jobs are reported and come again."""
    for record in event["Records"]:
        message = QueuedMessage.of_record(record)
        try:
            work(telemetry, message)
        except Exception as error:
            telemetry.leave([message.id], error)


def work(telemetry: Telemetry, message: QueuedMessage) -> None:
    """Runs the job of a message of the work queue. Refuses malformed messages, and messages that were held too long."""
    service, logger = telemetry.service, telemetry.logger
    try:
        job = job_in(message.body)
    except InvalidValue as error:
        telemetry.failed("not a job: refused", error, sqs_message_id=message.id)
        refuse(service, message, f"not a job: {error.field}: {error.advice}")
        return
    topic, keys = log_keys(job)
    due = isinstance(job, PartJob) and job.key.replay is None
    with telemetry.step(topic=topic, due=due, correlation_id=message.id, **keys):
        try:
            done = do_job(service, job)
        except PartLeased:
            logger.info("another worker has it")
            raise
        except HeldTooLong as error:
            telemetry.failed("held too long: refused", error, sqs_message_id=message.id)
            refuse(service, message, str(error))
            return
        except Exception as error:
            telemetry.failed("job not done", error)
            raise
        if done is None:
            logger.info("nothing to do")
            return
        tell(telemetry, done)


def tell(telemetry: Telemetry, done: Delivered) -> None:
    """Logs and counts the results of a job."""
    logger = telemetry.logger
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
        case SetAsideJob(key=item):
            return item.topic, {"subscription": item.subscription}
        case _:
            return job.topic, {"subscription": job.subscription}
