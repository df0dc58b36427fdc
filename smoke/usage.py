"""What a stack used, as CloudWatch counts it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from smoke.cloud import Usage, resources

if TYPE_CHECKING:
    import boto3

_PERIOD_S = 3_600
_QUERIES_A_CALL = 500
_UNKNOWN = ("S3 requests (AWS counts them only for a charge)", "schedules fired", "log bytes", "empty polls")


def usage_since(session: boto3.Session, stack_name: str, since_ms: int, now_ms: int) -> Usage:
    """Asks CloudWatch for the sums since a time; it knows them some minutes late.

    Cost: a `GetMetricData` metric is $0.00001; about fifty are asked for.
    """
    found = resources(session, stack_name)
    functions = [name for _, name in found.get("AWS::Lambda::Function", [])]
    queues = [url.rpartition("/")[2] for _, url in found.get("AWS::SQS::Queue", [])]
    tables = [name for _, name in found.get("AWS::DynamoDB::Table", [])]
    asked = {
        **_metrics("AWS/Lambda", "FunctionName", functions, ("Invocations", "Errors", "Throttles", "Duration")),
        **_metrics("AWS/SQS", "QueueName", queues, ("NumberOfMessagesSent", "NumberOfMessagesDeleted")),
        **_metrics("AWS/DynamoDB", "TableName", tables, ("ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits")),
    }
    sums = _sums(session, asked, since_ms, now_ms)
    memory = _memory_gib(session, functions)
    # Each message is sent, received and deleted; packs and batches make that fewer requests than this.
    messages = sum(
        sums[name, metric] for name in queues for metric in ("NumberOfMessagesSent", "NumberOfMessagesDeleted")
    )
    return Usage(
        units={
            "lambda.invocation": sum(sums[name, "Invocations"] for name in functions),
            "dynamodb.read": sum(sums[name, "ConsumedReadCapacityUnits"] for name in tables),
            "dynamodb.write": sum(sums[name, "ConsumedWriteCapacityUnits"] for name in tables),
            "sqs.request": messages * 1.5,
        },
        gb_seconds=sum(memory[name] * sums[name, "Duration"] / 1000 for name in functions),
        invocations=_by_function(stack_name, sums, functions, "Invocations"),
        errors=_by_function(stack_name, sums, functions, "Errors"),
        throttles=_by_function(stack_name, sums, functions, "Throttles"),
        unknown=_UNKNOWN,
    )


def _metrics(
    namespace: str, dimension: str, names: list[str], metrics: tuple[str, ...]
) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (name, metric): {
            "Namespace": namespace,
            "MetricName": metric,
            "Dimensions": [{"Name": dimension, "Value": name}],
        }
        for name in names
        for metric in metrics
    }


def _sums(
    session: boto3.Session, asked: Mapping[tuple[str, str], dict[str, Any]], since_ms: int, now_ms: int
) -> dict[tuple[str, str], float]:
    cloudwatch = session.client("cloudwatch")
    keys = list(asked)
    sums = dict.fromkeys(keys, 0.0)
    # A period's sum stands at its beginning, so the range begins with a whole period.
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


def _memory_gib(session: boto3.Session, functions: list[str]) -> dict[str, float]:
    lambda_ = session.client("lambda")
    return {name: lambda_.get_function_configuration(FunctionName=name)["MemorySize"] / 1024 for name in functions}


def _by_function(
    stack_name: str, sums: Mapping[tuple[str, str], float], functions: list[str], metric: str
) -> dict[str, int]:
    return {name.removeprefix(f"{stack_name}-"): round(sums[name, metric]) for name in functions}
