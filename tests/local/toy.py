"""A small stack for tests of the local engine, with a queue's function and a function for schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidewheel.local import LocalTidewheel

RECORDER = """
import json, os
import boto3
from tidewheel.clock import current

sqs = boto3.client("sqs")
clock = current()
calls = []
answers = []

def handler(event, context):
    calls.append((clock.now_ms(), event, context))
    answer = answers.pop(0) if answers else None
    if isinstance(answer, Exception):
        raise answer
    return answer
"""


def template(**mapping: Any) -> dict[str, Any]:
    """A template with queue `work` -> function `worker`, function `timer`, group `group`, table `table`, a job."""
    queue = {"Fn::GetAtt": ["Work", "Arn"]}
    return {
        "Resources": {
            "Dead": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "dead"}},
            "ScheduleDead": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "schedule-dead"}},
            "Work": {
                "Type": "AWS::SQS::Queue",
                "Properties": {
                    "QueueName": "work",
                    "VisibilityTimeout": 60,
                    "RedrivePolicy": {"deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]}, "maxReceiveCount": 2},
                },
            },
            "Table": {
                "Type": "AWS::DynamoDB::Table",
                "Properties": {
                    "TableName": "table",
                    "BillingMode": "PAY_PER_REQUEST",
                    "AttributeDefinitions": [
                        {"AttributeName": "pk", "AttributeType": "S"},
                        {"AttributeName": "sk", "AttributeType": "S"},
                        {"AttributeName": "check_shard", "AttributeType": "S"},
                        {"AttributeName": "next_check_ms", "AttributeType": "N"},
                    ],
                    "KeySchema": [
                        {"AttributeName": "pk", "KeyType": "HASH"},
                        {"AttributeName": "sk", "KeyType": "RANGE"},
                    ],
                    "GlobalSecondaryIndexes": [
                        {
                            "IndexName": "checks",
                            "KeySchema": [
                                {"AttributeName": "check_shard", "KeyType": "HASH"},
                                {"AttributeName": "next_check_ms", "KeyType": "RANGE"},
                            ],
                            "Projection": {"ProjectionType": "KEYS_ONLY"},
                        }
                    ],
                },
            },
            "Group": {"Type": "AWS::Scheduler::ScheduleGroup", "Properties": {"Name": "group"}},
            "Alarm": {"Type": "AWS::CloudWatch::CompositeAlarm", "Properties": {"AlarmRule": "FALSE"}},
            **{name.title(): _function(name) for name in ("worker", "timer", "sweep")},
            "MergeJob": {
                "Type": "AWS::Glue::Job",
                "Properties": {
                    "Name": "toy-merge",
                    "Role": "arn:aws:iam::1:role/r",
                    "Command": {"Name": "glueetl", "ScriptLocation": "s3://assets/asset.py"},
                    "DefaultArguments": {
                        "--tidewheel-job": "merge_buckets",
                        "--stack": {"Ref": "AWS::StackName"},
                        "--level": "1",
                    },
                },
            },
            "Mapping": {
                "Type": "AWS::Lambda::EventSourceMapping",
                "Properties": {
                    "EventSourceArn": queue,
                    "FunctionName": {"Ref": "Worker"},
                    "BatchSize": 10,
                    "FunctionResponseTypes": ["ReportBatchItemFailures"],
                    **mapping,
                },
            },
            "SweepRule": {
                "Type": "AWS::Events::Rule",
                "Properties": {
                    "Name": "toy-sweep",
                    "ScheduleExpression": "rate(5 minutes)",
                    "Targets": [{"Id": "Target0", "Arn": {"Fn::GetAtt": ["Sweep", "Arn"]}, "Input": "{}"}],
                },
            },
        }
    }


def _function(name: str) -> dict[str, Any]:
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "FunctionName": f"toy-{name}",
            "Handler": f"functions.{name}.handler.handler",
            "Timeout": 30,
            "MemorySize": 512,
            "Environment": {"Variables": {"TIDEWHEEL_TABLE": {"Ref": "Table"}, "TOY_QUEUE": {"Ref": "Work"}}},
        },
    }


class Toy:
    """A running stack of the template above, with helpers for tests."""

    def __init__(
        self,
        folder: Path,
        handler: str = RECORDER,
        *,
        mapping: dict[str, Any] | None = None,
        resources: dict[str, Any] | None = None,
        **kwargs: Any,
    ):
        for name in ("worker", "timer", "sweep"):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "handler.py").write_text(handler)
        made = template(**(mapping or {}))
        made["Resources"] |= resources or {}
        self.stack = LocalTidewheel(template=made, functions=folder, stack_name="toy", **kwargs)

    def __enter__(self) -> Toy:
        self.stack.open()
        self.sqs = self.stack.session.client("sqs")
        self.scheduler = self.stack.session.client("scheduler")
        self.table = self.stack.session.client("dynamodb")
        self.url = self.sqs.get_queue_url(QueueName="work")["QueueUrl"]
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def module(self, name: str) -> Any:
        """The module of a function's handler."""
        [handler] = [each for each in self.stack._handlers if each.spec.folder == name]
        return vars(handler.module)

    def calls(self, name: str) -> list[Any]:
        """(time, event, context) of each call so far."""
        return list(self.module(name)["calls"])

    def times(self, name: str) -> list[float]:
        """Seconds since the start, of each call so far."""
        return [(at_ms - 1767225600000) / 1000 for at_ms, _, _ in self.calls(name)]

    def bodies(self) -> list[list[str]]:
        """The bodies of each batch passed to the worker."""
        return [[record["body"] for record in event["Records"]] for _, event, _ in self.calls("worker")]

    def answer(self, name: str, *answers: Any) -> None:
        """Queues a function's next answers. An exception is raised."""
        self.module(name)["answers"].extend(answers)

    def send(self, *bodies: str, delay_s: int = 0, queue: str = "") -> None:
        """Sends messages to the work queue."""
        for body in bodies:
            self.sqs.send_message(QueueUrl=queue or self.url, MessageBody=body, DelaySeconds=delay_s)

    def count(self, queue: str = "work") -> tuple[int, int, int]:
        """Returns the numbers of visible, delayed and in-flight messages of a queue."""
        url = self.sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        found: Any = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        suffixes = ("", "Delayed", "NotVisible")
        visible, delayed, in_flight = (int(found[f"ApproximateNumberOfMessages{suffix}"]) for suffix in suffixes)
        return visible, delayed, in_flight

    def schedule(self, name: str, expression: str, **changes: Any) -> None:
        """Creates a schedule with the timer as target."""
        arn = "arn:aws:lambda:us-east-1:123456789012:function:toy-timer"
        dead = "arn:aws:sqs:us-east-1:123456789012:schedule-dead"
        self.scheduler.create_schedule(
            Name=name,
            **{
                "GroupName": "group",
                "ScheduleExpression": expression,
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "ActionAfterCompletion": "DELETE",
                "Target": {
                    "Arn": arn,
                    "RoleArn": "arn:aws:iam::123456789012:role/scheduler",
                    "Input": '{"topic": "t"}',
                    "DeadLetterConfig": {"Arn": dead},
                },
                **changes,
            },
        )

    def schedules(self) -> list[str]:
        """Names of the group's schedules."""
        return [each["Name"] for each in self.scheduler.list_schedules(GroupName="group")["Schedules"]]
