"""What the functions tell: their records of metrics and of logs, as CloudWatch would take them, and the traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidewheel.telemetry.metrics import NAMESPACE

TELLING = {"POWERTOOLS_METRICS_DISABLED": "false"}
"""Switches metrics on in the local stack's functions: they go to standard output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One metric of one record."""

    name: str
    unit: str
    dimensions: tuple[tuple[str, str], ...]
    values: tuple[float, ...]
    function: str


def points(output: str) -> list[Point]:
    """Reads the metrics out of a function's standard output, as CloudWatch does by the embedded metric format."""
    return [point for record in documents(output) if "_aws" in record for point in _points(record)]


def documents(output: str) -> list[dict[str, Any]]:
    """Reads the lines that are JSON objects."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def total(found: list[Point], name: str) -> float:
    """Adds up a metric."""
    return sum(sum(point.values) for point in found if point.name == name)


def _points(record: dict[str, Any]) -> Iterator[Point]:
    for directive in record["_aws"]["CloudWatchMetrics"]:
        assert directive["Namespace"] == NAMESPACE
        [names] = directive["Dimensions"]
        dimensions = tuple((name, record[name]) for name in names)
        for metric in directive["Metrics"]:
            values = record[metric["Name"]]
            yield Point(
                name=metric["Name"],
                unit=metric["Unit"],
                dimensions=dimensions,
                values=tuple(values if isinstance(values, list) else [values]),
                function=record["function"],
            )
