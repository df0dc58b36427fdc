"""Lists the fixed-cost resources of a stack by environment. Tests compare this list with the templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidewheel.model.triggers import SWEEP_INTERVAL_S
from tidewheel.telemetry.metrics import METRICS

POLLERS = 5
"""Lambda's initial pollers of each queue, which stay while the queue is empty.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """Fixed-cost resources of an environment.

    Attributes:
        alarms: metrics with alarms.
        polled_queues: queues that Lambda polls; two more for each dedicated topic.
        sweep_interval_s: time between two sweeps.
        deleted_object_days: days for which S3 keeps deleted objects.
    """

    alarms: int
    polled_queues: int = 3
    sweep_interval_s: int = SWEEP_INTERVAL_S
    deleted_object_days: int = 0


_ALARMS = 18 + sum(metric.alarm is not None for metric in METRICS)
"""The metrics that alarms read: of AWS, and the service's own."""
ENVIRONMENTS: Mapping[str, Deployed] = {
    "development": Deployed(alarms=0),
    "production": Deployed(alarms=_ALARMS, deleted_object_days=7),
}
