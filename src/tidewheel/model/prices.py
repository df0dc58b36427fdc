"""Lists AWS's prices and converts counted units to dollars.

Everything is in US dollars for us-east-1, on demand, as listed on `LISTED`, without discounts. Each
constant or group names its source page. The units are those of `tidewheel.local.meter`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

LISTED = "2026-11-21"
"""Date of the last comparison with AWS's pages."""

REGION = "us-east-1"

DAYS_A_MONTH = 30

DOLLARS_PER_MILLION = {
    "sqs.request": 0.40,
    "sqs.fair": 0.10,
    "dynamodb.write": 0.625,
    "dynamodb.read": 0.125,
    "s3.put": 5.00,
    "s3.get": 0.40,
    "lambda.invocation": 0.20,
    "scheduler.invocation": 1.00,
    "kms.request": 3.00,
    "stepfunctions.transition": 25.00,
}
"""Dollars for a million of each unit.

- sqs.request: standard queues, the first 100 billion; each 64 KiB is a request. https://aws.amazon.com/sqs/pricing/
- sqs.fair: added to each request of messages with a MessageGroupId, which makes a queue fair. One source lists this
  price, of March 2026. AWS's page could not be read here. https://cloudburn.io/blog/amazon-sqs-pricing
- dynamodb.write, dynamodb.read: request units of 1 KB and 4 KB, Standard tables.
  https://aws.amazon.com/dynamodb/pricing/on-demand/
- s3.put: PUT, COPY, POST, LIST; s3.get: GET and all others; S3 Standard. https://aws.amazon.com/s3/pricing/
- lambda.invocation: https://aws.amazon.com/lambda/pricing/
- scheduler.invocation: EventBridge Scheduler. https://aws.amazon.com/eventbridge/pricing/
- kms.request: https://aws.amazon.com/kms/pricing/
- stepfunctions.transition: Standard workflows. https://aws.amazon.com/step-functions/pricing/
"""

DOLLARS_PER_GB_SECOND = 0.0000133334
"""Lambda on Arm, the first 7.5 billion GB-seconds. https://aws.amazon.com/lambda/pricing/"""

DOLLARS_PER_DPU_HOUR = 0.29
"""Glue Spark jobs with flexible execution, billed by the second with a minimum of a minute. A G.1X worker is a DPU.
https://aws.amazon.com/glue/pricing/
"""

ASSUMED_GLUE_RUN_DPU_HOURS = 2 * 2 / 60
"""A run of the merge job with 2 workers G.1X for 2 minutes. An assumption, since Glue cannot be measured here."""

DEAR_GLUE_RUN_DPU_HOURS = 10 * 8 / 60
"""The same with all 10 workers for 8 minutes, the dear end of the range."""

S3_GB_MONTH = 0.023
"""S3 Standard, the first 50 TB. https://aws.amazon.com/s3/pricing/"""

TABLE_GB_MONTH = 0.25
"""DynamoDB Standard. https://aws.amazon.com/dynamodb/pricing/on-demand/"""

RECOVERY_GB_MONTH = 0.20
"""Point-in-time recovery, by the table's size. https://aws.amazon.com/dynamodb/pricing/on-demand/"""

LOGS_GB = 0.50
"""CloudWatch Logs, ingestion into the Standard class. https://aws.amazon.com/cloudwatch/pricing/"""

LOGS_GB_MONTH = 0.03
"""CloudWatch Logs, storage, of compressed bytes. https://aws.amazon.com/cloudwatch/pricing/"""

ALARM_MONTH = 0.10
"""A standard-resolution alarm, for each of its metrics. https://aws.amazon.com/cloudwatch/pricing/"""

FREE_UNITS = {
    "sqs.request": 1e6,
    "lambda.invocation": 1e6,
    "scheduler.invocation": 14e6,
    "stepfunctions.transition": 4_000,
}
"""Units that each account gets free every month. https://aws.amazon.com/free/"""
FREE_GB_SECONDS, FREE_LOGS_GB, FREE_ALARMS = 400_000, 5, 10
"""The same of Lambda's time, CloudWatch's logs and alarms. https://aws.amazon.com/cloudwatch/pricing/"""

ASSUMED_GB_SECONDS = 0.1
"""Assumed function time of an invocation with counted requests only: 100 ms at 1 GiB."""

SERVICES = {
    "sqs": "SQS",
    "dynamodb": "DynamoDB",
    "s3": "S3",
    "lambda": "Lambda",
    "scheduler": "EventBridge Scheduler",
    "glue": "Glue",
}
"""Services with usage counted by the local runtime."""


def dollars(unit: str, count: float) -> float:
    """Returns the cost of a number of counted units. A "glue.run" is a run of the merge job.

    Raises:
        KeyError: the unit has no price.
    """
    if unit == "glue.run":
        return count * ASSUMED_GLUE_RUN_DPU_HOURS * DOLLARS_PER_DPU_HOUR
    return count * DOLLARS_PER_MILLION[unit] / 1_000_000


def free_dollars(unit: str, count: float = math.inf) -> float:
    """Returns the part of `dollars` that a month's free tier pays, by default the whole free tier."""
    return dollars(unit, min(count, FREE_UNITS.get(unit, 0)))


def cost(units: Mapping[str, float]) -> dict[str, float]:
    """Returns dollars by service for counted units, with function time as assumed in `ASSUMED_GB_SECONDS`.

    Raises:
        KeyError: a unit has no price.
    """
    by_service = dict.fromkeys(SERVICES.values(), 0.0)
    for unit, count in units.items():
        by_service[SERVICES[unit.split(".")[0]]] += dollars(unit, count)
    by_service["Lambda"] += units.get("lambda.invocation", 0) * ASSUMED_GB_SECONDS * DOLLARS_PER_GB_SECOND
    return by_service
