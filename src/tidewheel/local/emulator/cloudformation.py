"""Creates the resources of a template, as CloudFormation does, and tells about them.

Why: moto's CloudFormation imports forty services of moto in a second, needs packages of a hundred megabytes, and gives
random names. Here the models of moto make the few types that need moto, our own `resources` make all others, and names
depend on the stack and the logical id alone.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from importlib import import_module
from typing import Any
from xml.sax.saxutils import escape

from moto.core.models import DEFAULT_ACCOUNT_ID

from tidewheel.errors import InvalidValue
from tidewheel.local.emulator.resources import CUSTOM, OURS, Custom, Resource
from tidewheel.local.emulator.wire import REGION, Answer

_OF_MOTO: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "AWS::DynamoDB::Table": ("moto.dynamodb.models.table", "Table", {"Arn": "table_arn"}),
    "AWS::IAM::ManagedPolicy": ("moto.iam.models", "ManagedPolicy", {"PolicyArn": "arn"}),
    "AWS::IAM::Policy": ("moto.iam.models", "InlinePolicy", {}),
    "AWS::IAM::Role": ("moto.iam.models", "Role", {"Arn": "arn", "RoleId": "id"}),
    "AWS::KMS::Alias": ("moto.kms.models", "Alias", {}),
    "AWS::KMS::Key": ("moto.kms.models", "Key", {"Arn": "arn", "KeyId": "id"}),
    "AWS::S3::Bucket": ("moto.s3.models", "FakeBucket", {"Arn": "arn", "RegionalDomainName": "regional_domain_name"}),
    "AWS::SQS::Queue": ("moto.sqs.models", "Queue", {"Arn": "queue_arn", "QueueName": "name"}),
    "AWS::SSM::Parameter": ("tidewheel.local.emulator.ssm", "Parameter", {"Value": "value"}),
}
"""Type -> module and name of moto's model, and attributes, since `get_cfn_attribute` imports moto's CloudFormation."""
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Fn::And": lambda *holds: all(holds),
    "Fn::Base64": lambda text: base64.b64encode(text.encode()).decode(),
    "Fn::Equals": lambda one, other: one == other,
    "Fn::Join": lambda separator, parts: separator.join(map(str, parts)),
    "Fn::Not": lambda holds: not holds,
    "Fn::Or": lambda *holds: any(holds),
    "Fn::Select": lambda index, parts: parts[int(index)],
    "Fn::Split": lambda separator, text: text.split(separator),
    "Fn::ToJsonString": json.dumps,
}
_ONE_ARGUMENT = ("Fn::Base64", "Fn::ToJsonString")
_VARIABLE = re.compile(r"\$\{(!?)([^}]*)\}")
"""A variable of Fn::Sub, or a literal that begins with an exclamation mark."""
_MOST_BUCKET, _MOST_NAME = 63, 80


class Stack:
    """The resources of a template. Each is created when it is first referred to.

    A null stands for AWS::NoValue: a template has no other.

    Raises:
        InvalidValue: the template refers to what it does not have, or uses a function that is not emulated.
    """

    def __init__(self, name: str, template: Mapping[str, Any], created: datetime) -> None:
        self.name = name
        self._id = (
            f"arn:aws:cloudformation:{REGION}:{DEFAULT_ACCOUNT_ID}:stack/{name}/{uuid.uuid5(uuid.NAMESPACE_URL, name)}"
        )
        self._created, self._template = created, template
        self._resources: dict[str, Any] = {}
        self._values = {
            **{name: each.get("Default") for name, each in template.get("Parameters", {}).items()},
            "AWS::AccountId": DEFAULT_ACCOUNT_ID,
            "AWS::NoValue": None,
            "AWS::NotificationARNs": [],
            "AWS::Partition": "aws",
            "AWS::Region": REGION,
            "AWS::StackId": self._id,
            "AWS::StackName": name,
            "AWS::URLSuffix": "amazonaws.com",
        }
        self.operations: dict[tuple[str, str], Callable[[dict[str, Any]], Answer | None]] = {
            ("cloudformation", "DescribeStacks"): self._describe,
            ("cloudformation", "ListStackResources"): self._list_resources,
        }

    def create(self) -> list[Resource]:
        """Creates all resources. Returns those that the runtime must run."""
        made = [self._resource(logical_id) for logical_id in self._template["Resources"]]
        return [each for each in made if isinstance(each, Resource)]

    def _resource(self, logical_id: str) -> Any:
        """Returns a resource of our own or of moto. None: its condition does not hold."""
        if logical_id not in self._resources:
            declared = self._template["Resources"].get(logical_id)
            if declared is None:
                raise InvalidValue("template", logical_id, "the template has no resource or parameter of this name")
            holds = "Condition" not in declared or self._holds(declared["Condition"])
            self._resources[logical_id] = self._create(logical_id, declared["Type"], declared) if holds else None
        return self._resources[logical_id]

    def _create(self, logical_id: str, kind: str, declared: Mapping[str, Any]) -> Any:
        properties = self._resolve(declared.get("Properties", {}))
        if kind.startswith(CUSTOM):
            return Custom(logical_id, properties, stack_id=self._id, resource_type=kind)
        name = f"{self.name}-{logical_id}"
        suffix = "-" + sha256(f"{self.name}/{logical_id}".encode()).hexdigest()[:12]
        if kind in _OF_MOTO:
            if kind == "AWS::SQS::Queue" and properties.get("FifoQueue"):
                suffix += ".fifo"
            if kind != "AWS::SQS::Queue":  # moto expects the tags of keys and parameters in another form
                properties.pop("Tags", None)
            name = name[: _MOST_NAME - len(suffix)] + suffix
            if kind == "AWS::S3::Bucket":
                name = (name[: _MOST_BUCKET - len(suffix)] + suffix).lower()
            module, model_name, _ = _OF_MOTO[kind]
            model = getattr(import_module(module), model_name)
            name = properties.get(model.cloudformation_name_type(), name)
            created = {"Type": kind, "Properties": properties}
            return model.create_from_cloudformation_json(name, created, DEFAULT_ACCOUNT_ID, REGION)
        ours, name_property = OURS.get(kind, (Resource, ""))
        return ours(properties.get(name_property, name + suffix), properties)

    # ---- functions
    def _resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            return [each for each in map(self._resolve, value) if each is not None]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(name, given)] = value.items()
            if name == "Ref":
                return self._ref(given)
            if name == "Condition" and isinstance(given, str):
                return self._holds(given)
            if name.startswith("Fn::"):
                return self._call(name, given)
        resolved = ((name, self._resolve(each)) for name, each in value.items())
        return {name: each for name, each in resolved if each is not None}

    def _call(self, function: str, given: Any) -> Any:
        if function == "Fn::If":
            condition, then, otherwise = given
            return self._resolve(then if self._holds(condition) else otherwise)
        if function == "Fn::GetAtt":
            return self._attribute(*(given.split(".", 1) if isinstance(given, str) else given))
        if function == "Fn::Sub":
            return self._substitute(*([given] if isinstance(given, str) else given))
        arguments = self._resolve(given)
        if function == "Fn::FindInMap":
            name, first, second = arguments
            return self._template["Mappings"][name][first][second]
        if function not in _FUNCTIONS:
            raise InvalidValue("template", function, "this function is not emulated")
        call = _FUNCTIONS[function]
        return call(arguments) if function in _ONE_ARGUMENT else call(*arguments)

    def _ref(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        resource = self._resource(name)
        return None if resource is None else resource.physical_resource_id

    def _attribute(self, logical_id: str, attribute: str) -> Any:
        resource = self._resource(logical_id)
        if isinstance(resource, Resource):
            return resource.get_cfn_attribute(attribute)
        attributes = {} if resource is None else _OF_MOTO[self._template["Resources"][logical_id]["Type"]][2]
        if attribute not in attributes:
            raise InvalidValue("template", f"{logical_id}.{attribute}", "this attribute is not emulated")
        return getattr(resource, attributes[attribute])

    def _substitute(self, text: str, given: Mapping[str, Any] | None = None) -> str:
        values = self._resolve(given or {})

        def value(found: re.Match[str]) -> str:
            literal, name = found[1], found[2].strip()
            if literal:
                return "${" + name + "}"
            if name in values:
                return str(values[name])
            logical_id, dot, attribute = name.partition(".")
            return str(self._attribute(logical_id, attribute) if dot else self._ref(name))

        return _VARIABLE.sub(value, text)

    def _holds(self, condition: str) -> bool:
        return bool(self._resolve(self._template["Conditions"][condition]))

    # ---- answers to clients
    def _describe(self, params: Mapping[str, Any]) -> Answer:
        outputs = self._template.get("Outputs", {})
        shown = [
            {"OutputKey": name, "OutputValue": self._resolve(each["Value"])}
            for name, each in outputs.items()
            if "Condition" not in each or self._holds(each["Condition"])
        ]
        stack = {"StackName": self.name, "StackId": self._id, "StackStatus": "CREATE_COMPLETE", "Outputs": shown}
        return self._answer(params, {"Stacks": [{**stack, "CreationTime": self._created.isoformat()}]})

    def _list_resources(self, params: Mapping[str, Any]) -> Answer:
        shown = [
            {
                "LogicalResourceId": logical_id,
                "PhysicalResourceId": made.physical_resource_id,
                "ResourceType": self._template["Resources"][logical_id]["Type"],
                "ResourceStatus": "CREATE_COMPLETE",
                "Timestamp": self._created.isoformat(),
            }
            for logical_id, made in self._resources.items()
            if made is not None
        ]
        return self._answer(params, {"StackResourceSummaries": shown})

    def _answer(self, params: Mapping[str, Any], result: Mapping[str, Any]) -> Answer:
        asked, operation = params["body"].get("StackName"), params["body"]["Action"]
        headers = {"Content-Type": "text/xml"}
        if asked not in (None, self.name, self._id):
            message = escape(f"Stack with id {asked} does not exist")
            error = f"<Error><Code>ValidationError</Code><Message>{message}</Message></Error>"
            return 400, headers, f"<ErrorResponse>{error}</ErrorResponse>".encode()
        answer = {f"{operation}Response": {f"{operation}Result": result}}
        return 200, headers, _xml(answer).encode()


def _xml(value: Any) -> str:
    if isinstance(value, list):
        return "".join(f"<member>{_xml(each)}</member>" for each in value)
    if isinstance(value, Mapping):
        return "".join(f"<{name}>{_xml(each)}</{name}>" for name, each in value.items())
    return escape(str(value))
