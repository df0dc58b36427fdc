"""Reads the template of a local stack, and selects the parts of the deployed stack that the local runtime must run.

These are functions, mappings, jobs, custom resources and the table that the sweep reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from tidewheel.client.operations.declared import TOPIC_TYPE
from tidewheel.errors import InvalidValue
from tidewheel.local.emulator import resources as deployed
from tidewheel.local.handlers import ASYNC_RETRIES, FunctionSpec, MappingSpec
from tidewheel.local.jobs import JOB_ARGUMENT, JobSpec
from tidewheel.model.schedule_expressions import Every, parse

PACKAGED = Path(__file__).with_name("template.json")

_BOOTSTRAP_VERSION = "BootstrapVersion"
_BOOTSTRAP_RULE = "CheckBootstrapVersion"
"""Rule of the CDK's default synthesizer that checks the bootstrap version. The emulator lacks its SSM parameter."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """Describes a target of an EventBridge rule that starts functions at a rate."""

    name: str
    every: Every
    function_arn: str
    event: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Holds the parts of a stack that run."""

    functions: list[FunctionSpec]
    mappings: list[MappingSpec]
    jobs: list[JobSpec]
    custom: list[deployed.Custom]
    rules: list[Rule]
    table_name: str | None


def template_of(given: dict[str, Any] | str | Path | None) -> dict[str, Any]:
    """Reads a template, without the parts for the CDK's bootstrapping.

    Args:
        given: the template, the path of its JSON file (such as `cdk.out/<stack>.template.json`), or None for the
            packaged template.

    Raises:
        InvalidValue: there is no such file, or it is not a template in JSON.
    """
    template = given if isinstance(given, dict) else _read(Path(given or PACKAGED))
    left_out = (("Parameters", _BOOTSTRAP_VERSION), ("Rules", _BOOTSTRAP_RULE))
    return {**template, **{section: _without(template, section, name) for section, name in left_out}}


def _without(template: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    return {key: value for key, value in template.get(section, {}).items() if key != name}


def _read(path: Path) -> dict[str, Any]:
    advice = "give a template, or the path of one in JSON, such as cdk.out/<stack>.template.json"
    try:
        template = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidValue("template", str(path), f"{error}: {advice}") from error
    if not isinstance(template, dict) or "Resources" not in template:
        raise InvalidValue("template", str(path), f"it has no Resources: {advice}")
    return template


def read(resources: Iterable[deployed.Resource]) -> Deployment:
    """Selects functions, mappings, jobs and custom resources from a stack's resources.

    Functions outside the service, and the mappings of such functions, are ignored.
    """
    resources = list(resources)
    retries = _async_retries(resources)
    functions = [_function(resource, retries) for resource in resources if _is_ours(resource)]
    known = {function.arn for function in functions}
    mappings = [_mapping(resource) for resource in resources if isinstance(resource, deployed.EventSourceMapping)]
    mappings = [each for each in mappings if each.function_arn in known]
    # A subscription comes after its topic.
    custom = [resource for resource in resources if isinstance(resource, deployed.Custom)]
    custom.sort(key=lambda resource: resource.resource_type != TOPIC_TYPE)
    jobs = [_job(resource) for resource in resources if isinstance(resource, deployed.Job)]
    tables = {spec.environment["TIDEWHEEL_TABLE"] for spec in functions if "TIDEWHEEL_TABLE" in spec.environment}
    table_name = min(tables, default=None)
    rules = [rule for resource in resources if isinstance(resource, deployed.Rule) for rule in _rules(resource)]
    return Deployment(
        functions=functions, mappings=mappings, jobs=jobs, custom=custom, rules=rules, table_name=table_name
    )


def _is_ours(resource: deployed.Resource) -> TypeGuard[deployed.Function]:
    """Returns whether a resource is a function of the service, with its handler in the folder of handlers."""
    return isinstance(resource, deployed.Function) and str(resource.properties.get("Handler")).startswith("functions.")


def _function(resource: deployed.Function, retries: dict[str, int]) -> FunctionSpec:
    properties = resource.properties
    variables = properties.get("Environment", {}).get("Variables", {})
    return FunctionSpec(
        function_name=resource.name,
        arn=resource.arn,
        handler=properties["Handler"],
        environment={name: str(value) for name, value in variables.items()},
        timeout_ms=int(properties.get("Timeout", 3)) * 1000,
        memory_mb=int(properties.get("MemorySize", 128)),
        role_arn=properties.get("Role"),
        async_retries=retries.get(resource.name, ASYNC_RETRIES),
    )


def _async_retries(resources: list[deployed.Resource]) -> dict[str, int]:
    """Returns the number of retries by function name, for functions with this setting in the template."""
    return {
        str(resource.properties["FunctionName"]).split(":")[-1]: int(
            resource.properties.get("MaximumRetryAttempts", ASYNC_RETRIES)
        )
        for resource in resources
        if isinstance(resource, deployed.EventInvokeConfig)
    }


def _rules(resource: deployed.Rule) -> Iterator[Rule]:
    """Yields the targets of a rule at a rate. A rule that waits for events has none here."""
    expression = resource.properties.get("ScheduleExpression")
    if expression is not None:
        every = parse(expression)
        assert isinstance(every, Every), "a rule has a rate, never one time"
        for target in resource.properties["Targets"]:
            event = json.loads(target.get("Input", "{}"))
            yield Rule(name=resource.name, every=every, function_arn=target["Arn"], event=event)


def _job(resource: deployed.Job) -> JobSpec:
    """Reads a job. Without a script argument, the job's own name is the script."""
    given = resource.properties.get("DefaultArguments", {})
    arguments = {name: str(value) for name, value in given.items()}
    script = arguments.get(JOB_ARGUMENT, resource.name)
    return JobSpec(job_name=resource.name, script=script, arguments=arguments, role_arn=resource.properties.get("Role"))


def _mapping(resource: deployed.EventSourceMapping) -> MappingSpec:
    properties = resource.properties
    name = str(properties["FunctionName"])
    arn = deployed.Function.arn_of(name.split(":")[-1])
    return MappingSpec(
        queue_arn=properties["EventSourceArn"],
        function_arn=arn,
        batch_size=int(properties.get("BatchSize", 10)),
        window_ms=int(properties.get("MaximumBatchingWindowInSeconds", 0)) * 1000,
        reports_failures="ReportBatchItemFailures" in properties.get("FunctionResponseTypes", []),
    )
