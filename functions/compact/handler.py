"""Compact function, invoked for a topic with a small merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.flows.ports import MergeSize
from tidewheel.model.settings import MAX_FUNCTION_S
from tidewheel.model.topic import check_name
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry, function

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

HALF_MS = MAX_FUNCTION_S * 1000 // 2
"""Half of the function's time-out. A merge takes less, and begins only if this time is left."""


@function("compact")
def handler(telemetry: Telemetry, event: dict[str, Any], context: LambdaContext) -> None:
    """Merges the ledgers of the named topic."""
    service, logger = telemetry.service, telemetry.logger
    topic = check_name("topic", event.get("topic"))
    with telemetry.step(topic=topic, correlation_id=context.aws_request_id):
        merged = merge(
            service,
            topic,
            in_process(service.objects, service.read_threads),
            lease_s=MAX_FUNCTION_S,
            pause=telemetry.pause,
            largest=MergeSize.SMALL,
            time_left=lambda: context.get_remaining_time_in_millis() > HALF_MS,
        )
        if merged is None:
            logger.info("nothing to merge: no such topic, or another run is at it")
            return
        telemetry.add(metrics.DAMAGED, len(merged.skipped))
        for error in merged.skipped:
            telemetry.failed("source left as it is", error, ledger=error.object_name)
        logger.info(
            "merged",
            sources=merged.sources,
            outputs=merged.outputs,
            messages=merged.rows,
            handed_over=merged.handed_over,
        )
