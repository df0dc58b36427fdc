"""Sweep function: invoked by the recurring schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidewheel.flows.ports.checks import Due
from tidewheel.flows.upkeep.health import health
from tidewheel.flows.upkeep.sweep import SweepResult, sweep
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

telemetry = Telemetry("sweep")
logger, service = telemetry.logger, telemetry.service


@telemetry.handler
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Tells what is late, then starts again what a crash or a lost schedule left behind."""
    # Read once for both: it is the only cost of a sweep that finds nothing.
    due = service.checks.due(service.clock.now_ms())
    # Before the sweep, which mends what it finds; and told at once, whatever becomes of the sweep.
    tell_health(due)
    swept = sweep(service, due)
    for what, error in swept.failures.items():
        telemetry.failed("not looked after", error, what=what)
    telemetry.add(metrics.BROKEN_SUBSCRIPTIONS, len(swept.tried))
    tell(swept)


def tell_health(due: Due) -> None:
    """Tells how the service is, of which this is due for a look."""
    found = health(service, due)
    for what, error in found.failures.items():
        telemetry.failed("not readable", error, what=what)
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
        "orphans": 0 if swept.orphans is None else swept.orphans.objects,
        "payloads": swept.payloads,
        "left": swept.left,
    }
    did = {name: value[:20] if isinstance(value, list) else value for name, value in done.items() if value}
    if did:
        logger.info("swept", extra=did)
