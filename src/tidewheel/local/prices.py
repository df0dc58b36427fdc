"""What AWS bills for the units that `tidewheel.local.meter` counts.

Prices of us-east-1 in US dollars, as listed in November 2026 on each service's pricing page (SQS standard queues,
DynamoDB on-demand, S3 Standard requests, EventBridge Scheduler, Lambda on Arm), without free tiers.
"""

from __future__ import annotations

from collections.abc import Mapping

ASSUMED_GLUE_RUN_DOLLARS = 0.03
"""One run of a Glue job: 2 workers G.1X (a DPU each) for 2 minutes at $0.44 a DPU-hour, billed by the second from one
minute on. An assumption: nor can it measure Glue."""

DOLLARS_PER_MILLION = {
    "sqs.request": 0.40,
    "dynamodb.write": 0.625,
    "dynamodb.read": 0.125,
    "s3.put": 5.00,
    "s3.get": 0.40,
    "lambda.invocation": 0.20,
    "scheduler.invocation": 1.00,
    "glue.run": ASSUMED_GLUE_RUN_DOLLARS * 1_000_000,
}
DOLLARS_PER_GB_SECOND = 0.0000133334
ASSUMED_GB_SECONDS = 0.1
"""Function time of one invocation: 100 ms at 1 GiB. An assumption: an emulator cannot measure Lambda."""

SERVICES = {
    "sqs": "SQS",
    "dynamodb": "DynamoDB",
    "s3": "S3",
    "lambda": "Lambda",
    "scheduler": "EventBridge Scheduler",
    "glue": "Glue",
}


def cost(units: Mapping[str, float]) -> dict[str, float]:
    """Returns dollars by service for counted units.

    Raises:
        KeyError: a unit has no price.
    """
    dollars = dict.fromkeys(SERVICES.values(), 0.0)
    for unit, count in units.items():
        dollars[SERVICES[unit.split(".")[0]]] += count * DOLLARS_PER_MILLION[unit] / 1_000_000
    dollars["Lambda"] += units.get("lambda.invocation", 0) * ASSUMED_GB_SECONDS * DOLLARS_PER_GB_SECOND
    return dollars
