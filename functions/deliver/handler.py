"""Deliver function, called by the event source mapping of the work queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidewheel.errors import InvalidValue, PartLeased
from tidewheel.flows.delivery.refusing import refuse
from tidewheel.flows.delivery.work import do_task
from tidewheel.model.received import QueuedMessage
from tidewheel.model.subscription_state import Delivered
from tidewheel.model.task import DrainTask, PartTask, Task, task_of
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry, function

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@function("deliver")
def handler(telemetry: Telemetry, event: dict[str, Any], context: LambdaContext) -> None:
    """Runs the tasks of a batch. Failed tasks are reported and come again. Refuses malformed messages."""
    for record in event["Records"]:
        message = QueuedMessage.of_record(record)
        try:
            task = task_of(message.body)
        except InvalidValue as error:
            telemetry.failed("not a task: refused", error, sqs_message_id=message.id)
            refuse(telemetry.service, message, f"not a task: {error.field}: {error.advice}")
            continue
        topic, keys = log_keys(task)
        due = isinstance(task, PartTask) and task.key.replay is None
        with telemetry.step(topic=topic, due=due, correlation_id=message.id, **keys):
            try:
                tell(telemetry, do_task(telemetry.service, task))
            except Exception as error:
                left(telemetry, message, error)


def left(telemetry: Telemetry, message: QueuedMessage, error: Exception) -> None:
    """Leaves a task in the queue. Logs and counts the failure, unless another worker has the task."""
    if isinstance(error, PartLeased):
        telemetry.logger.info("another worker has it")
    else:
        telemetry.failed("task not done", error)
    telemetry.leave([message.id], error)


def tell(telemetry: Telemetry, done: Delivered | None) -> None:
    """Logs and counts the results of a task. None: there was nothing to do."""
    logger = telemetry.logger
    if done is None:
        logger.info("nothing to do")
        return
    for failure in done.failures:
        telemetry.failed("not done now", failure)
    if done.parked:
        logger.warning("the queue refuses: parked", messages=done.parked)
    logger.info("delivered", messages=done.messages, segments=done.segments)
    telemetry.add(metrics.PARKED, done.parked)
    telemetry.add(metrics.EXPIRED, done.expired)
    telemetry.unread(done.unread)


def log_keys(task: Task) -> tuple[str, dict[str, object]]:
    """Returns a task's topic, and the other keys of the task's log records."""
    match task:
        case PartTask(key=key, part=part):
            return key.topic, {"subscription": key.subscription, "slot": key.plan, "part": part, "replay": key.replay}
        case DrainTask(key=park):
            return park.topic, {"subscription": park.subscription, "park": park.id}
        case _:
            return task.topic, {"subscription": task.subscription}
