"""Dispatch function: invoked by a topic's one-time schedule."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel.aws.service import Service
from tidewheel.flows.collect import collect
from tidewheel.flows.dispatch import dispatch
from tidewheel.topic import check_name

logger = Logger(service="dispatch")
metrics = Metrics(namespace="Tidewheel", service="dispatch")
tracer = Tracer(service="dispatch")
service = Service.cold_start()


@metrics.log_metrics
@tracer.capture_lambda_handler(capture_response=False, capture_error=False)
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Dispatches the topic that the schedule names, and collects it when that is due."""
    topic = check_name("topic", event.get("topic"))
    metrics.add_metric("Dispatches", MetricUnit.Count, 1)
    done = dispatch(service, topic)
    if done is None:
        logger.warning("topic is gone", topic=topic)
        return
    for failure in done.failures:
        logger.error("left to the work queue", topic=topic, exc_info=failure)
    logger.info("dispatched", topic=topic, slot=event.get("slot"), planned=done.planned_rows, next_slot=done.next_slot)
    metrics.add_metric("DispatchedMessages", MetricUnit.Count, done.messages)
    metrics.add_metric("ExpiredMessages", MetricUnit.Count, done.expired)
    metrics.add_metric("SegmentsRead", MetricUnit.Count, done.segments)
    metrics.add_metric("EnqueuedParts", MetricUnit.Count, done.enqueued_parts)
    if done.collect:
        collect(service, topic)
