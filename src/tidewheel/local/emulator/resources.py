"""Defines the resources that the local runtime runs or only names, by their CloudFormation types.

Why: moto's models look for Docker to run Lambda functions, and its queues would call them themselves. Policies of S3
buckets are not applied: with `aws:SecureTransport` moto answers 403 to every request. Policies of queues are kept with
the queues, for `access`. Rules and the alarms' topic are bare: moto would deliver events to targets, but the local
runtime sends none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.scheduler.models import scheduler_backends
from moto.sqs.models import sqs_backends

from tidewheel.local.emulator.wire import REGION


class Resource:
    """A resource that only answers Ref and GetAtt."""

    arn_format: ClassVar[str] = ""

    def __init__(self, name: str, properties: dict[str, Any]) -> None:
        self.name, self.properties = name, properties
        self.arn = self.arn_of(name)
        self.create()

    @classmethod
    def arn_of(cls, name: str) -> str:
        """Returns the ARN of the resource with a name."""
        return cls.arn_format.format(name=name, account=DEFAULT_ACCOUNT_ID, region=REGION)

    def create(self) -> None:
        """Creates the resource in moto's backends."""

    @property
    def physical_resource_id(self) -> str:
        """Value of Ref."""
        return self.name

    def get_cfn_attribute(self, attribute_name: str) -> str:
        """Returns the value of GetAtt, an ARN or else a name made from the resource and attribute."""
        return self.arn if attribute_name == "Arn" and self.arn else f"{self.name}.{attribute_name}"


class Function(Resource):
    """AWS::Lambda::Function. The runtime reads its environment."""

    arn_format = "arn:aws:lambda:{region}:{account}:function:{name}"


class Alias(Resource):
    """AWS::Lambda::Alias and Version. Both name the function."""

    @property
    def physical_resource_id(self) -> str:
        """Value of Ref, the ARN."""
        function = str(self.properties["FunctionName"])
        return function if function.startswith("arn:") else Function.arn_of(function)


class EventSourceMapping(Resource):
    """AWS::Lambda::EventSourceMapping. The runtime polls the queue."""

    arn_format = "arn:aws:lambda:{region}:{account}:event-source-mapping:{name}"


class Rule(Resource):
    """A rule of EventBridge."""


class EventInvokeConfig(Resource):
    """AWS::Lambda::EventInvokeConfig. Sets the retries of asynchronous invocations."""


class Job(Resource):
    """AWS::Glue::Job. Ref is the job's name. The runtime runs the job."""

    arn_format = "arn:aws:glue:{region}:{account}:job/{name}"


class LogGroup(Resource):
    """AWS::Logs::LogGroup. Nothing is written to it."""

    arn_format = "arn:aws:logs:{region}:{account}:log-group:{name}:*"


class Custom(Resource):
    """A custom resource of ours. The runtime calls its function to create it.

    Attributes:
        stack_id, resource_type: sent to the function by CloudFormation. Its logical id there is `name`.
    """

    def __init__(self, logical_id: str, properties: dict[str, Any], *, stack_id: str, resource_type: str) -> None:
        super().__init__(logical_id, properties)
        self.logical_id, self.stack_id, self.resource_type = logical_id, stack_id, resource_type


class Topic(Resource):
    """AWS::SNS::Topic, the target of alarms. Ref is its ARN."""

    arn_format = "arn:aws:sns:{region}:{account}:{name}"

    @property
    def physical_resource_id(self) -> str:
        """Value of Ref, the ARN."""
        return self.arn


class QueuePolicy(Resource):
    """AWS::SQS::QueuePolicy, with the permitted senders."""

    def create(self) -> None:
        """Keeps the policy with the queues."""
        queues = sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues
        for url in self.properties["Queues"]:
            queues[url.rpartition("/")[2]].policy = json.dumps(self.properties["PolicyDocument"])


class ScheduleGroup(Resource):
    """AWS::Scheduler::ScheduleGroup."""

    arn_format = "arn:aws:scheduler:{region}:{account}:schedule-group/{name}"

    def create(self) -> None:
        """Creates the group."""
        scheduler_backends[DEFAULT_ACCOUNT_ID][REGION].create_schedule_group(self.name, [])


CUSTOM = "Custom::Tidewheel"
"""How the types of our custom resources begin."""

OURS: Mapping[str, tuple[type[Resource], str]] = {
    "AWS::CloudWatch::Alarm": (Resource, "AlarmName"),
    "AWS::Events::ApiDestination": (Resource, "Name"),
    "AWS::Events::Rule": (Rule, "Name"),
    "AWS::Glue::Job": (Job, "Name"),
    "AWS::Lambda::Alias": (Alias, ""),
    "AWS::Lambda::EventInvokeConfig": (EventInvokeConfig, ""),
    "AWS::Lambda::EventSourceMapping": (EventSourceMapping, ""),
    "AWS::Lambda::Function": (Function, "FunctionName"),
    "AWS::Lambda::LayerVersion": (Resource, ""),
    "AWS::Lambda::Permission": (Resource, ""),
    "AWS::Lambda::Version": (Alias, ""),
    "AWS::Logs::LogGroup": (LogGroup, "LogGroupName"),
    "AWS::SNS::Topic": (Topic, "TopicName"),
    "AWS::SQS::QueuePolicy": (QueuePolicy, ""),
    "AWS::Scheduler::ScheduleGroup": (ScheduleGroup, "Name"),
}
"""Type -> its class, and the property that names the resource. All other types are a bare `Resource`."""
