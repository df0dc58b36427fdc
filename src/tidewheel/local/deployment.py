"""What of a deployed stack the runtime must run: functions, event source mappings, the table that the sweep reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidewheel.clock import Clock
from tidewheel.local.emulator import Emulator
from tidewheel.local.emulator import resources as deployed
from tidewheel.local.event_source import EventSourceMapping, MappingSpec
from tidewheel.local.handlers import FunctionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The parts of a stack that do something."""

    functions: list[FunctionSpec]
    mappings: list[MappingSpec]
    table_name: str | None


def read(resources: Iterable[deployed.Resource]) -> Deployment:
    """Picks functions and mappings out of a stack's resources."""
    resources = list(resources)
    functions = [_function(resource) for resource in resources if isinstance(resource, deployed.Function)]
    mappings = [_mapping(resource) for resource in resources if isinstance(resource, deployed.EventSourceMapping)]
    tables = {spec.environment["TIDEWHEEL_TABLE"] for spec in functions if "TIDEWHEEL_TABLE" in spec.environment}
    return Deployment(functions=functions, mappings=mappings, table_name=min(tables, default=None))


def mapping(spec: MappingSpec, emulator: Emulator, clock: Clock) -> EventSourceMapping:
    """Connects a mapping to its queue."""
    return EventSourceMapping(spec, emulator.queue(spec.queue_arn), clock)


def _function(resource: deployed.Function) -> FunctionSpec:
    properties = resource.properties
    variables = properties.get("Environment", {}).get("Variables", {})
    return FunctionSpec(
        function_name=resource.name,
        arn=resource.arn,
        handler=properties["Handler"],
        environment={name: str(value) for name, value in variables.items()},
        timeout_ms=int(properties.get("Timeout", 3)) * 1000,
        memory_mb=int(properties.get("MemorySize", 128)),
    )


def _mapping(resource: deployed.EventSourceMapping) -> MappingSpec:
    properties = resource.properties
    name = str(properties["FunctionName"])
    arn_format = deployed.Function.arn_format
    arn = arn_format.format(name=name.split(":")[-1], account=resource.account_id, region=resource.region)
    return MappingSpec(
        queue_arn=properties["EventSourceArn"],
        function_arn=arn,
        batch_size=int(properties.get("BatchSize", 10)),
        window_ms=int(properties.get("MaximumBatchingWindowInSeconds", 0)) * 1000,
        reports_failures="ReportBatchItemFailures" in properties.get("FunctionResponseTypes", []),
    )
