"""The functions' telemetry, with metric records and logs as CloudWatch would read them, and traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidewheel.telemetry.metrics import BY_NAME, DIMENSION, NAMESPACE

TELLING = {"POWERTOOLS_METRICS_DISABLED": "false"}
"""Switches metrics on in the local stack's functions: they go to standard output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A metric of a record, or a field without a CloudWatch metric."""

    name: str
    unit: str
    dimensions: tuple[tuple[str, str], ...]
    values: tuple[float, ...]
    function: str
    billed: bool


def points(output: str) -> list[Point]:
    """Reads the records out of a function's standard output, as CloudWatch does by the embedded metric format."""
    return [point for record in documents(output) if "requests" in record for point in _points(record)]


def documents(output: str) -> list[dict[str, Any]]:
    """Reads the lines with JSON objects."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def total(found: list[Point], name: str) -> float:
    """Adds up a metric."""
    return sum(sum(point.values) for point in found if point.name == name)


def _points(record: dict[str, Any]) -> Iterator[Point]:
    billed: dict[str, str] = {}
    for directive in record.get("_aws", {}).get("CloudWatchMetrics", ()):
        assert (directive["Namespace"], directive["Dimensions"]) == (NAMESPACE, [[DIMENSION]])
        billed |= {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]}
    assert set(billed) <= set(record)
    for name in record.keys() - {"_aws", "requests", "function", DIMENSION}:
        yield Point(
            name=name,
            unit=billed.get(name, BY_NAME[name].unit),
            dimensions=((DIMENSION, record[DIMENSION]),),
            values=(record[name],),
            function=record["function"],
            billed=name in billed,
        )
