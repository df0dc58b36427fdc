"""A stack's usage from CloudWatch, and the price."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.e2e.cloud import Usage, resources
from tidewheel.model.prices import DOLLARS_PER_DPU_HOUR, DOLLARS_PER_GB_SECOND, cost, dollars

if TYPE_CHECKING:
    import boto3

NOT_COUNTED = "requests of S3, schedules fired, logs, empty polls, alarms and the hours of the KMS key"
"""On an account CloudWatch counts none of these, or only for a charge. They come to cents."""
MOST_DOLLARS = 3.0
"""A whole run at most, rounded up. Most of it is Glue: four runs, ten workers of which work for up to eight minutes."""
_PERIOD_S = 3_600
_QUERIES_A_CALL = 500
_METRICS = {
    "AWS::Lambda::Function": ("AWS/Lambda", "FunctionName", ("Invocations", "Errors", "Throttles", "Duration")),
    "AWS::SQS::Queue": ("AWS/SQS", "QueueName", ("NumberOfMessagesSent", "NumberOfMessagesDeleted")),
    "AWS::DynamoDB::Table": (
        "AWS/DynamoDB",
        "TableName",
        ("ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"),
    ),
}
"""By type of resource: the namespace and the dimension of its metrics, and those that are asked for."""


def usage_since(session: boto3.Session, stack_name: str, since_ms: int, now_ms: int, dpu_hours: float) -> Usage:
    """Returns the usage since a time. CloudWatch's metrics arrive some minutes late.

    Cost: $0.00001 a metric; about fifty are asked for.
    """
    found = resources(session, stack_name)
    asked = {
        (name, metric): {
            "Namespace": namespace,
            "MetricName": metric,
            "Dimensions": [{"Name": dimension, "Value": name}],
        }
        for kind, (namespace, dimension, metrics) in _METRICS.items()
        for name in (physical.rpartition("/")[2] for _, physical in found.get(kind, []))
        for metric in metrics
    }
    sums = _sums(session, asked, since_ms, now_ms)
    lambda_ = session.client("lambda")
    functions = [name for _, name in found.get("AWS::Lambda::Function", [])]
    gib = {name: lambda_.get_function_configuration(FunctionName=name)["MemorySize"] / 1024 for name in functions}

    def total(metric: str) -> float:
        return sum(count for (_, name), count in sums.items() if name == metric)

    def by_function(metric: str) -> dict[str, int]:
        return {name.removeprefix(f"{stack_name}-"): round(sums[name, metric]) for name in functions}

    return Usage(
        units={
            "lambda.invocation": total("Invocations"),
            "dynamodb.read": total("ConsumedReadCapacityUnits"),
            "dynamodb.write": total("ConsumedWriteCapacityUnits"),
            # Each message is sent, received and deleted. Packs and batches make that fewer requests.
            "sqs.request": 1.5 * (total("NumberOfMessagesSent") + total("NumberOfMessagesDeleted")),
        },
        gb_seconds=sum(gib[name] * sums[name, "Duration"] / 1000 for name in functions),
        dpu_hours=dpu_hours,
        invocations=by_function("Invocations"),
        errors=by_function("Errors"),
        throttles=by_function("Throttles"),
    )


def price(usage: Usage) -> dict[str, float]:
    """Returns dollars by service, with assumed function time if not measured."""
    spent = cost(usage.units)
    if usage.gb_seconds is not None:
        spent["Lambda"] = dollars("lambda.invocation", usage.units.get("lambda.invocation", 0))
        spent["Lambda"] += usage.gb_seconds * DOLLARS_PER_GB_SECOND
    spent["Glue"] += usage.dpu_hours * DOLLARS_PER_DPU_HOUR
    return spent


def _sums(
    session: boto3.Session, asked: Mapping[tuple[str, str], dict[str, Any]], since_ms: int, now_ms: int
) -> dict[tuple[str, str], float]:
    cloudwatch = session.client("cloudwatch")
    keys = list(asked)
    sums = dict.fromkeys(keys, 0.0)
    # The sum of a period stands at its beginning, so the range begins with a whole period.
    start = datetime.fromtimestamp(since_ms // 1000 // _PERIOD_S * _PERIOD_S, UTC)
    for first in range(0, len(keys), _QUERIES_A_CALL):
        queries: Any = [
            {"Id": f"m{i}", "MetricStat": {"Metric": asked[keys[i]], "Period": _PERIOD_S, "Stat": "Sum"}}
            for i in range(first, min(first + _QUERIES_A_CALL, len(keys)))
        ]
        pages = cloudwatch.get_paginator("get_metric_data").paginate(
            MetricDataQueries=queries, StartTime=start, EndTime=datetime.fromtimestamp(now_ms / 1000, UTC)
        )
        for page in pages:
            for result in page["MetricDataResults"]:
                sums[keys[int(result["Id"][1:])]] += sum(result["Values"])
    return sums
