"""What costs money as long as a stack exists, by environment, as data; tests compare it with the templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

POLLERS = 5
"""Pollers with which Lambda begins on each queue, and which it keeps while the queue is empty.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What an environment has.

    Attributes:
        alarms: metrics that alarms look at.
        dashboards: CloudWatch dashboards.
        metrics: whether the functions emit metrics of their own.
        polled_queues: queues that Lambda polls; two more for each dedicated topic.
        keys: KMS keys.
        sweep_interval_s: between two sweeps.
        traced: whether X-Ray samples the functions' calls.
        deleted_object_days: days for which S3 keeps what was deleted.
    """

    alarms: int
    dashboards: int
    metrics: bool
    polled_queues: int = 3
    keys: int = 0
    sweep_interval_s: int = 300
    traced: bool = True
    deleted_object_days: int = 0


ENVIRONMENTS: Mapping[str, Deployed] = {
    "development": Deployed(alarms=0, dashboards=0, metrics=True),
    "production": Deployed(alarms=32, dashboards=1, metrics=True, deleted_object_days=7),
}
