"""Dispatch function, invoked by a topic's schedule, and by the sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.maintenance.collect import collect
from tidewheel.model.topic import check_name
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry, function

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@function("dispatch")
def handler(telemetry: Telemetry, event: dict[str, Any], context: LambdaContext) -> None:
    """Dispatches the named topic, and collects the topic if a collection is due."""
    service, logger = telemetry.service, telemetry.logger
    topic, slot = check_name("topic", event.get("topic")), event.get("slot")
    with telemetry.step(topic=topic, slot=slot, correlation_id=f"{topic}.{slot or 'sweep'}"):
        done = dispatch(service, topic)
        if done is None:
            logger.warning("topic is gone")
            return
        for failure in done.failures:
            telemetry.failed("not done now", failure)
        logger.info(
            "dispatched",
            planned=done.planned_rows,
            parts=done.enqueued_parts,
            sent=done.sent.messages,
            next_slot=done.next_slot,
        )
        telemetry.add(metrics.PLANNED, done.planned_rows)
        telemetry.add(metrics.CANCELLED, done.cancelled)
        telemetry.add(metrics.EXPIRED, done.sent.expired)
        telemetry.add(metrics.PARKED, done.sent.parked)
        telemetry.unread(done.sent.unread)
        for name, error in done.missed.items():
            logger.error("missed: a recurring message cannot be read", item=name, reason=str(error))
            telemetry.add(metrics.DAMAGED, 1)
    if done.collect:
        with telemetry.step(topic=topic):
            collected = collect(service, topic)
            if collected is not None and collected.held is not None:
                logger.error("nothing is collected", reason=str(collected.held))
                telemetry.add(metrics.DAMAGED, 1)
