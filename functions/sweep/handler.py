"""Sweep function: invoked by a rule of EventBridge."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tidewheel.storage.checks import Due

from tidewheel.errors import CorruptMetadata
from tidewheel.flows.upkeep.health import health
from tidewheel.flows.upkeep.sweep import sweep
from tidewheel.flows.upkeep.sweep_result import SweepResult
from tidewheel.model.topic_state import TopicState
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

telemetry = Telemetry("sweep")
logger, service = telemetry.logger, telemetry.service
MOST_TOLD = 20
"""Late topics that one record names, the latest first."""
_told: set[str] = set()
"""What the last sweep of this process could not read. `tidewheel damaged list` lists it, so it is logged once."""


@telemetry.handler
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Starts again what a crash or a lost schedule left behind, and tells what was late."""
    swept = sweep(service, tell_health)
    tell_failures(swept.failures)
    for topic, held in swept.held.items():
        logger.error("nothing is collected", topic=topic, reason=str(held))
        telemetry.add(metrics.DAMAGED, 1)
    telemetry.add(metrics.BROKEN_SUBSCRIPTIONS, len(swept.tried))
    tell(swept)


def tell_failures(failures: Mapping[str, Exception]) -> None:
    """Logs and counts what the sweep could not look after."""
    damaged = {what for what, error in failures.items() if type(error) is CorruptMetadata}
    telemetry.add(metrics.DAMAGED, len(damaged))
    for what, error in failures.items():
        if what not in damaged:
            telemetry.failed("not looked after", error, what=what)
        elif what not in _told:
            logger.error("not readable", extra={"what": what, "reason": str(error)})
    _told.clear()
    _told.update(damaged)


def tell_health(due: Due, states: Mapping[str, TopicState]) -> None:
    """Tells how the service was before this sweep, at once, whatever becomes of the rest of the sweep."""
    found = health(service, due, states)
    for what, error in found.failures.items():
        if type(error) is not CorruptMetadata:  # the sweep reads the same item, and tells
            telemetry.failed("not readable", error, what=what)
    if found.late_ms:  # no metric names a topic, since CloudWatch bills each
        worst = sorted(found.late_ms.items(), key=itemgetter(1), reverse=True)[:MOST_TOLD]
        logger.warning("overdue", extra={"seconds": {topic: late_ms // 1000 for topic, late_ms in worst}})
    telemetry.add(metrics.OLDEST_DUE_AGE, found.oldest_due_age_ms / 1000)
    telemetry.add(metrics.UNPLANNED_SLOTS, found.unplanned_slots)
    telemetry.add(metrics.OPEN_DELIVERIES, found.open_deliveries)
    telemetry.add(metrics.BACKLOG, found.backlog or 0)
    telemetry.flush()


def tell(swept: SweepResult) -> None:
    """Logs what the sweep did, if it did anything."""
    done = {
        "dispatched": swept.dispatched,
        "collected": swept.collected,
        "merging": swept.merging,
        "deleted": swept.deleted,
        "broken": sorted(map(list, swept.tried)),
        "parts": swept.redriven,
        "parks": swept.drains,
        "set_aside": swept.tries,
        "orphans": 0 if swept.orphans is None else swept.orphans.objects,
        "payloads": swept.payloads,
        "left": swept.left,
    }
    did = {name: value[:20] if isinstance(value, list) else value for name, value in done.items() if value}
    if did:
        logger.info("swept", extra=did)
