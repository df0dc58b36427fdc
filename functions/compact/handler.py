"""Compact function: invoked for a topic whose merge is small."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel.aws.service import Service
from tidewheel.flows.merge import in_process, merge
from tidewheel.flows.ports import MergeSize
from tidewheel.settings import MAX_FUNCTION_S
from tidewheel.topic import check_name

logger = Logger(service="compact")
metrics = Metrics(namespace="Tidewheel", service="compact")
tracer = Tracer(service="compact")
service = Service.cold_start()

HALF_MS = MAX_FUNCTION_S * 1000 // 2
"""A merge takes less than half of a function's life; the next one begins only if as much is left."""


@metrics.log_metrics
@tracer.capture_lambda_handler(capture_response=False, capture_error=False)
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Merges the ledgers of the topic that the event names."""
    topic = check_name("topic", event.get("topic"))
    merged = merge(
        service,
        topic,
        in_process(service.objects),
        lease_s=MAX_FUNCTION_S,
        largest=MergeSize.SMALL,
        time_left=lambda: context.get_remaining_time_in_millis() > HALF_MS,
    )
    if merged is None:
        logger.info("nothing to merge: no such topic, or another run is at it", topic=topic)
        return
    for error in merged.skipped:
        logger.error("source left as it is", topic=topic, exc_info=error)
    metrics.add_metric("MergedLedgers", MetricUnit.Count, merged.sources)
    metrics.add_metric("MergedMessages", MetricUnit.Count, merged.rows)
    metrics.add_metric("UnreadableLedgers", MetricUnit.Count, len(merged.skipped))
