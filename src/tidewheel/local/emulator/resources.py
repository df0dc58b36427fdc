"""Defines CloudFormation types that moto lacks or would run with Docker.

Why: moto skips an unknown type, and then `GetAtt` on the resource fails. Lambda functions and event source mappings are
entirely ours: moto's would look for Docker, and its queues would call the function themselves. Policies of S3 buckets
are not applied: with `aws:SecureTransport` moto answers 403 to every request. Policies of queues are kept with the
queues, for `access`. Rules and the alarms' topic are bare: moto would deliver events to targets, but the local runtime
sends none. moto's names of resources are random. Here they depend on the stack and the logical id alone, so that a
stack finds its state again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, ClassVar

from moto.cloudformation import parsing
from moto.scheduler.models import scheduler_backends
from moto.sqs.models import sqs_backends

from tidewheel.local.emulator.patching import Patches


class Resource:
    """A resource that only answers Ref and GetAtt. moto's models are not its base, since they register themselves."""

    arn_format: ClassVar[str] = ""

    def __init__(self, name: str, properties: dict[str, Any], account_id: str, region: str) -> None:
        self.name = name
        self.properties = properties
        self.account_id = account_id
        self.region = region
        self.arn = self.arn_format.format(name=name, account=account_id, region=region)
        self.create()

    def create(self) -> None:
        """Creates the resource in moto's backends."""

    @property
    def physical_resource_id(self) -> str:
        """Value of Ref."""
        return self.name

    def get_cfn_attribute(self, attribute_name: str) -> str:
        """Returns the value of GetAtt, an ARN or else a name made from the resource and attribute."""
        return self.arn if attribute_name == "Arn" and self.arn else f"{self.name}.{attribute_name}"

    @classmethod
    def has_cfn_attr(cls, _: str) -> bool:
        """Returns True, since any attribute can be an output."""
        return True

    def is_created(self) -> bool:
        """Returns True, since a resource is created at once."""
        return True

    def delete(self, _account_id: str, _region: str) -> None:
        """Does nothing. moto calls this when the stack is deleted."""

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
    ) -> Resource:
        """Makes the resource. moto calls this."""
        return cls(resource_name, cloudformation_json.get("Properties", {}), account_id, region_name)


class Function(Resource):
    """AWS::Lambda::Function. The runtime reads its environment."""

    arn_format = "arn:aws:lambda:{region}:{account}:function:{name}"


class Alias(Resource):
    """AWS::Lambda::Alias and Version. Both name the function."""

    @property
    def physical_resource_id(self) -> str:
        """Value of Ref, the ARN."""
        function = str(self.properties["FunctionName"])
        if function.startswith("arn:"):
            return function
        return Function.arn_format.format(name=function, account=self.account_id, region=self.region)


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


class Database(Resource):
    """AWS::Glue::Database. Its name is inside its DatabaseInput.

    Only Ref and the tables below the database need the name.
    """

    @property
    def physical_resource_id(self) -> str:
        """Value of Ref, the name."""
        return str(self.properties["DatabaseInput"].get("Name", self.name)).lower()


class Custom(Resource):
    """A custom resource of ours. The runtime calls its function to create it.

    moto's custom resource would look for Docker.

    Attributes:
        stack_id, logical_id, resource_type: sent to the function by CloudFormation.
    """

    stack_id = ""
    logical_id = ""
    resource_type = ""

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **told: Any
    ) -> Custom:
        """Makes the resource. moto calls this with the references of its properties resolved."""
        made = cls(resource_name, cloudformation_json.get("Properties", {}), account_id, region_name)
        made.stack_id, made.logical_id, made.resource_type = told["StackId"], told["LogicalId"], told["ResourceType"]
        return made


class ApiDestination(Resource):
    """AWS::Events::ApiDestination, the target of a pipe."""

    arn_format = "arn:aws:events:{region}:{account}:api-destination/{name}/local"


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
        queues = sqs_backends[self.account_id][self.region].queues
        for url in self.properties["Queues"]:
            queues[url.rpartition("/")[2]].policy = json.dumps(self.properties["PolicyDocument"])


class ScheduleGroup(Resource):
    """AWS::Scheduler::ScheduleGroup."""

    arn_format = "arn:aws:scheduler:{region}:{account}:schedule-group/{name}"

    def create(self) -> None:
        """Creates the group."""
        scheduler_backends[self.account_id][self.region].create_schedule_group(self.name, [])

    def delete(self, account_id: str, region: str) -> None:
        """Deletes the group with all its schedules."""
        scheduler_backends[account_id][region].delete_schedule_group(self.name)


_OUR_CUSTOM = "Custom::Tidewheel"

_OURS: dict[str, tuple[type[Resource], str]] = {
    "AWS::CloudWatch::Alarm": (Resource, "AlarmName"),
    "AWS::Events::ApiDestination": (ApiDestination, "Name"),
    "AWS::Events::Rule": (Rule, "Name"),
    "AWS::Glue::Database": (Database, ""),
    "AWS::Glue::Job": (Job, "Name"),
    "AWS::Lambda::Alias": (Alias, ""),
    "AWS::Lambda::EventInvokeConfig": (EventInvokeConfig, ""),
    "AWS::Lambda::EventSourceMapping": (EventSourceMapping, ""),
    "AWS::Lambda::Function": (Function, "FunctionName"),
    "AWS::Lambda::LayerVersion": (Resource, ""),
    "AWS::Lambda::Permission": (Resource, ""),
    "AWS::Lambda::Version": (Alias, ""),
    "AWS::SNS::Topic": (Topic, "TopicName"),
    "AWS::SQS::QueuePolicy": (QueuePolicy, ""),
    "AWS::Scheduler::ScheduleGroup": (ScheduleGroup, "Name"),
}


def install(patches: Patches) -> None:
    """Makes moto's CloudFormation use our types, and a bare `Resource` for unknown types."""
    class_of: Callable[[str], Any] = parsing.resource_class_from_type
    name_of: Callable[[str], str | None] = parsing.resource_name_property_from_type

    def resource_class_from_type(resource_type: str) -> Any:
        if resource_type in _OURS:
            return _OURS[resource_type][0]
        if resource_type.startswith(_OUR_CUSTOM):
            return Custom
        known = resource_type in parsing.get_model_map() or resource_type.startswith("Custom::")
        return class_of(resource_type) if known or resource_type in parsing.NULL_MODELS else Resource

    def resource_name_property_from_type(resource_type: str) -> str | None:
        return _OURS[resource_type][1] or None if resource_type in _OURS else name_of(resource_type)

    def generate_resource_name(resource_type: str, stack_name: str, logical_id: str) -> str:
        suffix = hashlib.sha256(f"{stack_name}/{logical_id}".encode()).hexdigest()[:12]
        if resource_type == "AWS::S3::Bucket":
            return f"{stack_name[: 63 - len(logical_id) - 14]}-{logical_id}-{suffix}".lower()
        return f"{stack_name}-{logical_id}-{suffix.upper()}"

    patches.set(parsing, "generate_resource_name", generate_resource_name)
    patches.set(parsing, "resource_class_from_type", resource_class_from_type)
    patches.set(parsing, "resource_name_property_from_type", resource_name_property_from_type)
