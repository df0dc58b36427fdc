"""Moves a dead-letter queue's messages back to their source queues, which moto's SQS cannot do.

Why: StartMessageMoveTask is how SQS redrives. Here the move is complete when the answer comes; SQS takes longer.
Messages in flight stay, and so do messages sent to the dead-letter queue by hand, as with SQS.
"""

from __future__ import annotations

import uuid
from typing import Any

from moto.core.responses import ActionResult
from moto.sqs.exceptions import InvalidParameterValue, QueueDoesNotExist
from moto.sqs.responses import SQSResponse

from tidewheel.local.emulator.patching import Patches
from tidewheel.local.emulator.queues import HeapQueue, QueuedMessage


def install(patches: Patches) -> None:
    """Adds the operation to moto."""
    patches.set(SQSResponse, "start_message_move_task", start_message_move_task)


def start_message_move_task(self: Any) -> ActionResult:
    """Answers StartMessageMoveTask.

    Raises:
        QueueDoesNotExist: a queue does not exist.
        InvalidParameterValue: the source is not a dead-letter queue.
    """
    source_arn, destination_arn = self._get_param("SourceArn"), self._get_param("DestinationArn")
    queues = {queue.queue_arn: queue for queue in self.sqs_backend.queues.values() if isinstance(queue, HeapQueue)}
    source = queues.get(source_arn)
    if source is None or (destination_arn is not None and destination_arn not in queues):
        raise QueueDoesNotExist
    if not any(queue.dead_letter_queue is source for queue in queues.values()):
        raise InvalidParameterValue("Source queue must be configured as a Dead Letter Queue.")

    def destination(message: QueuedMessage) -> HeapQueue | None:
        return queues.get(destination_arn or message.source_arn or "")

    source.move_all(destination)
    return ActionResult({"TaskHandle": str(uuid.uuid4())})
