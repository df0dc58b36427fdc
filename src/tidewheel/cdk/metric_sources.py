"""Provides the metrics of a service's parts for alarms and the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from tidewheel.cdk.spark_jobs import SparkJob
from tidewheel.storage.table_keys import CHECK_INDEX
from tidewheel.telemetry.metrics import DIMENSION, NAMESPACE, Metric

PERIOD = Duration.minutes(5)
"""The sweep's longest interval, so that every period has the sweep's gauges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The monitored parts of a service.

    Attributes:
        service_name: the value of the only dimension of the service's own metrics.
        functions: the functions by name: ingest, dispatch, deliver, sweep, compact.
        sources: the queues that functions read, by name, including topics' own queues.
        dead_letters: the dead-letter queues.
        refused: the queue of messages that SQS refused.
        table: the table.
        jobs: the Glue jobs; none without Spark.
        schedule_group: the group's name.
    """

    service_name: str
    functions: Mapping[str, lambda_.Function]
    sources: Mapping[str, sqs.Queue]
    dead_letters: tuple[sqs.IQueue, ...]
    refused: sqs.Queue
    table: dynamodb.Table
    jobs: tuple[SparkJob, ...]
    schedule_group: str

    def own(self, metric: Metric) -> cloudwatch.Metric:
        """Returns one of the service's own metrics that alarms read: an amount's sum or a gauge's maximum."""
        statistic = "Maximum" if metric.gauge else "Sum"
        return _metric(NAMESPACE, metric.name, {DIMENSION: self.service_name}, statistic=statistic)

    def of_function(self, name: str, metric_name: str, statistic: str = "Sum") -> cloudwatch.Metric:
        """Returns a Lambda metric of a function."""
        return self.functions[name].metric(metric_name, statistic=statistic, period=PERIOD, label=name)

    def of_table(self, metric_name: str) -> cloudwatch.Metric:
        """Returns a DynamoDB count of the table without the indexes."""
        return self.table.metric(metric_name, statistic="Sum", period=PERIOD, label=metric_name)

    def of_check_index(self, metric_name: str) -> cloudwatch.Metric:
        """Returns a DynamoDB count of the table's index."""
        index = {"TableName": self.table.table_name, "GlobalSecondaryIndexName": CHECK_INDEX}
        return _metric("AWS/DynamoDB", metric_name, index, label=f"{CHECK_INDEX} {metric_name}")

    def of_scheduler(self, metric_name: str) -> cloudwatch.Metric:
        """Returns an EventBridge Scheduler count for the group."""
        return _metric("AWS/Scheduler", metric_name, {"ScheduleGroup": self.schedule_group})


def oldest_age(queue: sqs.IQueue, label: str | None = None) -> cloudwatch.Metric:
    """Returns the age of a queue's oldest message, in seconds."""
    return queue.metric_approximate_age_of_oldest_message(statistic="Maximum", period=PERIOD, label=label)


def visible(queue: sqs.IQueue, label: str | None = None) -> cloudwatch.Metric:
    """Returns the number of a queue's visible messages."""
    return queue.metric_approximate_number_of_messages_visible(statistic="Maximum", period=PERIOD, label=label)


def _metric(
    namespace: str, name: str, dimensions: Mapping[str, str], *, statistic: str = "Sum", label: str | None = None
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dimensions,
        statistic=statistic,
        period=PERIOD,
        label=label or name,
    )
