"""Reads the synthesized template like CloudFormation and Lambda."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ACCOUNT = "123456789012"
REGION = "eu-central-1"
DEFAULT_TIMEOUT_S = 3
DEFAULT_MEMORY_MB = 128
DEFAULT_ASYNC_RETRIES = 2
DEFAULT_EVENT_AGE_S = 6 * 3600


class TemplateRefused(Exception):
    """The template asks for something Lambda would refuse or could not run. The message names the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpec:
    """A function as described in the template.

    Attributes:
        folder: The name of the handler's folder, such as "ingest".
        async_retries: How often Lambda repeats an asynchronous call that failed.
        event_age_s: How long it keeps such a call.
        on_failure_arn: The queue for calls that were given up.
    """

    name: str
    handler: str
    memory_mb: int
    timeout_s: int
    environment: Mapping[str, str]
    async_retries: int
    event_age_s: int
    on_failure_arn: str | None

    @property
    def arn(self) -> str:
        """The function's ARN."""
        return function_arn(self.name)

    @property
    def folder(self) -> str:
        """The folder of the handler."""
        return self.handler.split(".")[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSpec:
    """An event source mapping as described in the template."""

    queue_arn: str
    function_name: str
    batch_size: int
    window_ms: int
    reports_failures: bool


def function_arn(name: str) -> str:
    """Returns a function's ARN."""
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"


class Template:
    """A template with all references resolved.

    Args:
        document: The template in JSON, as the CDK writes it.
        stack_name: The name that the stack gets.
    """

    def __init__(self, document: dict[str, Any], stack_name: str = "tidewheel") -> None:
        self.stack_name = stack_name
        self._resources: dict[str, Any] = document["Resources"]
        self.refs: dict[str, str] = {
            "AWS::AccountId": ACCOUNT,
            "AWS::Region": REGION,
            "AWS::Partition": "aws",
            "AWS::StackName": stack_name,
            "AWS::URLSuffix": "amazonaws.com",
        }
        self.attributes: dict[tuple[str, str], str] = {}

    def of_type(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields logical ids and resolved properties of a type's resources."""
        for name, resource in self._resources.items():
            if resource["Type"] == kind:
                yield name, self.resolve(resource.get("Properties", {}))

    def names_of_type(self, kind: str) -> list[str]:
        """Returns the logical ids of a type's resources."""
        return [name for name, resource in self._resources.items() if resource["Type"] == kind]

    def physical_name(self, logical_id: str) -> str:
        """Returns a generated name for a resource without a name."""
        return f"{self.stack_name}-{logical_id}"

    def resolve(self, value: Any) -> Any:
        """Replaces the intrinsic functions in a value.

        Raises:
            TemplateRefused: A function is unknown, or names a resource that does not exist.
        """
        if isinstance(value, list):
            return [self.resolve(each) for each in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(name, argument)] = value.items()
            if name == "Ref":
                return self._ref(argument)
            if name.startswith("Fn::"):
                return self._intrinsic(name, argument)
        return {key: self.resolve(each) for key, each in value.items()}

    def _ref(self, name: str) -> str:
        if name in self.refs:
            return self.refs[name]
        if name not in self._resources:
            raise TemplateRefused(f"The template refers to {name}, which it does not have.")
        return self.physical_name(name)

    def _intrinsic(self, name: str, argument: Any) -> Any:
        match name:
            case "Fn::Join":
                separator, parts = argument
                return separator.join(map(str, self.resolve(parts)))
            case "Fn::GetAtt":
                return self._attribute(*argument)
            case "Fn::Split":
                separator, text = argument
                return self.resolve(text).split(separator)
            case "Fn::Select":
                place, among = argument
                return self.resolve(among)[int(place)]
            case "Fn::Sub" if isinstance(argument, str):
                return re.sub(r"\$\{([\w:]+)\}", lambda found: self._ref(found[1]), argument)
        raise TemplateRefused(f"The template uses {name} of {json.dumps(argument)}, which this harness cannot resolve.")

    def _attribute(self, logical_id: str, attribute: str) -> str:
        known = self.attributes.get((logical_id, attribute))
        if known is not None:
            return known
        if logical_id not in self._resources:
            raise TemplateRefused(f"The template refers to {logical_id}, which it does not have.")
        kind = self._resources[logical_id]["Type"]
        if attribute == "Arn" and kind == "AWS::Lambda::Function":
            return function_arn(self.resolve(self._resources[logical_id]["Properties"]["FunctionName"]))
        service = kind.split("::")[1].lower()
        return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{self.physical_name(logical_id)}"

    def functions(self) -> list[FunctionSpec]:
        """Returns all functions."""
        asynchronous = {each["FunctionName"]: each for _, each in self.of_type("AWS::Lambda::EventInvokeConfig")}
        specs = []
        for logical_id, properties in self.of_type("AWS::Lambda::Function"):
            name = properties.get("FunctionName") or self.physical_name(logical_id)
            configured = asynchronous.get(name) or asynchronous.get(self.physical_name(logical_id), {})
            destination = configured.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
            specs.append(
                FunctionSpec(
                    name=name,
                    handler=properties["Handler"],
                    memory_mb=int(properties.get("MemorySize", DEFAULT_MEMORY_MB)),
                    timeout_s=int(properties.get("Timeout", DEFAULT_TIMEOUT_S)),
                    environment=properties.get("Environment", {}).get("Variables", {}),
                    async_retries=int(configured.get("MaximumRetryAttempts", DEFAULT_ASYNC_RETRIES)),
                    event_age_s=int(configured.get("MaximumEventAgeInSeconds", DEFAULT_EVENT_AGE_S)),
                    on_failure_arn=destination,
                )
            )
        return specs

    def mappings(self) -> list[MappingSpec]:
        """Returns all event source mappings."""
        return [
            MappingSpec(
                queue_arn=each["EventSourceArn"],
                function_name=each["FunctionName"].rpartition(":")[2],
                batch_size=int(each.get("BatchSize", 10)),
                window_ms=1000 * int(each.get("MaximumBatchingWindowInSeconds", 0)),
                reports_failures="ReportBatchItemFailures" in each.get("FunctionResponseTypes", []),
            )
            for _, each in self.of_type("AWS::Lambda::EventSourceMapping")
        ]
