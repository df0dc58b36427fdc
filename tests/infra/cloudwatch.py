"""CloudWatch, as far as the alarms of the template need it: what an alarm says of some data points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STACK = "tidewheel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Names one metric: its namespace, its name, its dimensions as the template says them."""

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]


Points = Mapping[Series, Sequence[float | None]]
"""Metric -> its statistic in each period, the newest last; None where it has no data."""


def series_of(metric: Mapping[str, Any]) -> Series:
    """Returns the series of an alarm or of a metric in it."""
    dimensions = sorted((each["Name"], reference(each["Value"])) for each in metric.get("Dimensions", ()))
    return Series(namespace=metric["Namespace"], name=metric["MetricName"], dimensions=tuple(dimensions))


def series_in(alarm: Mapping[str, Any]) -> list[Series]:
    """Returns all series that an alarm reads."""
    if "Metrics" not in alarm:
        return [series_of(alarm)]
    return [series_of(each["MetricStat"]["Metric"]) for each in alarm["Metrics"] if "MetricStat" in each]


def fires(alarm: Mapping[str, Any], points: Points) -> bool:
    """Returns whether the alarm is in the state ALARM after its last periods."""
    periods = alarm["EvaluationPeriods"]
    breaching = 0
    for back in range(periods):
        value = _value(alarm, points, back)
        if value is None:
            breaching += alarm["TreatMissingData"] == "breaching"
        elif alarm["ComparisonOperator"] == "LessThanThreshold":
            breaching += value < alarm["Threshold"]
        else:
            assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
            breaching += value >= alarm["Threshold"]
    return breaching >= int(alarm["DatapointsToAlarm"])


def _value(alarm: Mapping[str, Any], points: Points, back: int) -> float | None:
    found = [values[-1 - back] if back < len(values) else None for values in _read(alarm, points)]
    expressions = [each["Expression"] for each in alarm.get("Metrics", ()) if "Expression" in each]
    if not expressions:
        [value] = found
        return value
    [expression] = expressions
    combine = {"SUM(FILL(METRICS(), 0))": sum, "MAX(FILL(METRICS(), 0))": max}[expression]
    return None if all(each is None for each in found) else float(combine(each or 0 for each in found))


def _read(alarm: Mapping[str, Any], points: Points) -> list[Sequence[float | None]]:
    return [points.get(series, ()) for series in series_in(alarm)]


def reference(value: Any) -> str:
    """Returns a value's text: the stack's name where the template says it, else the resource that it refers to."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return STACK if value["Ref"] == "AWS::StackName" else str(value["Ref"])
    if "Fn::GetAtt" in value:
        return ".".join(value["Fn::GetAtt"])
    return "".join(reference(part) for part in value["Fn::Join"][1])
