"""Sweep function: invoked by the recurring schedule."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel.aws.service import Service
from tidewheel.flows.sweep import sweep

logger = Logger(service="sweep")
metrics = Metrics(namespace="Tidewheel", service="sweep")
tracer = Tracer(service="sweep")
service = Service.cold_start()


@metrics.log_metrics
@tracer.capture_lambda_handler(capture_response=False, capture_error=False)
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Starts again what a crash or a lost schedule left behind."""
    swept = sweep(service)
    for what, error in swept.failures.items():
        logger.error("not looked after", what=what, exc_info=error)
    metrics.add_metric("HealedTopics", MetricUnit.Count, len(swept.dispatched))
    metrics.add_metric("DispatchedMessages", MetricUnit.Count, swept.messages)
    metrics.add_metric("ExpiredMessages", MetricUnit.Count, swept.expired)
    metrics.add_metric("RedrivenParts", MetricUnit.Count, swept.redriven)
    metrics.add_metric("EnqueuedParks", MetricUnit.Count, swept.drains)
    metrics.add_metric("BrokenSubscriptions", MetricUnit.Count, len(swept.tried))
    metrics.add_metric("MergesStarted", MetricUnit.Count, len(swept.merging))
    metrics.add_metric("OrphansDeleted", MetricUnit.Count, 0 if swept.orphans is None else swept.orphans.objects)
    metrics.add_metric("SweepFailures", MetricUnit.Count, len(swept.failures))
