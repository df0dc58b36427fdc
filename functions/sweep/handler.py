"""Sweep function, invoked by a rule of EventBridge."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tidewheel.errors import CorruptMetadata
from tidewheel.flows.maintenance.due_checks import SweepResult
from tidewheel.flows.maintenance.health import health
from tidewheel.flows.maintenance.sweep import sweep
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.checks import Due
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry, function

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

MOST_TOLD = 20
"""Late topics that one record names, the latest first."""


@function("sweep")
def handler(telemetry: Telemetry, event: dict[str, Any], context: LambdaContext) -> None:
    """Restarts work after a crash or a lost schedule, and logs late topics."""
    swept = sweep(telemetry.service, partial(tell_health, telemetry))
    tell_failures(telemetry, swept.failures)
    for topic, held in swept.held.items():
        telemetry.logger.error("nothing is collected", topic=topic, reason=str(held))
        telemetry.add(metrics.DAMAGED, 1)
    telemetry.add(metrics.BROKEN_SUBSCRIPTIONS, len(swept.tried))
    tell(telemetry, swept)


def tell_failures(telemetry: Telemetry, failures: Mapping[str, Exception]) -> None:
    """Logs and counts topics and items skipped by the sweep."""
    damaged = {what: error for what, error in failures.items() if type(error) is CorruptMetadata}
    telemetry.unreadable(damaged)
    for what, error in failures.items():
        if what not in damaged:
            telemetry.failed("not looked after", error, what=what)


def tell_health(telemetry: Telemetry, due: Due, states: Mapping[str, TopicState]) -> None:
    """Logs and counts the health before this sweep, at once, since the sweep may still fail."""
    found = health(telemetry.service, due, states)
    for what, error in found.failures.items():
        if type(error) is not CorruptMetadata:  # the sweep reads the same item, and tells
            telemetry.failed("not readable", error, what=what)
    if found.late_ms:  # no metric names a topic, since CloudWatch bills each
        worst = sorted(found.late_ms.items(), key=itemgetter(1), reverse=True)[:MOST_TOLD]
        telemetry.logger.warning("overdue", extra={"seconds": {topic: late_ms // 1000 for topic, late_ms in worst}})
    telemetry.add(metrics.OLDEST_DUE_AGE, found.oldest_due_age_ms / 1000)
    telemetry.add(metrics.UNPLANNED_SLOTS, found.unplanned_slots)
    telemetry.add(metrics.OPEN_DELIVERIES, found.open_deliveries)
    telemetry.add(metrics.BACKLOG, found.backlog or 0)
    telemetry.flush()


def tell(telemetry: Telemetry, swept: SweepResult) -> None:
    """Logs the results of a sweep, if there are any."""
    done = {
        "dispatched": swept.dispatched,
        "collected": swept.collected,
        "merging": swept.merging,
        "deleted": swept.deleted,
        "broken": sorted(map(list, swept.tried)),
        "parts": swept.redriven,
        "parks": swept.drains,
        "orphans": 0 if swept.orphans is None else swept.orphans.objects,
        "payloads": swept.payloads,
        "left": swept.left,
    }
    did = {name: value[:20] if isinstance(value, list) else value for name, value in done.items() if value}
    if did:
        telemetry.logger.info("swept", extra=did)
