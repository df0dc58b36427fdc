"""Evaluates CloudWatch alarms of the template on given data points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STACK = "tidewheel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Identifies a metric by namespace, name and dimensions as in the template."""

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]


Points = Mapping[Series, Sequence[float | None]]
"""Metric -> its statistic in each period, the newest last; None where it has no data."""


def series_of(metric: Mapping[str, Any]) -> Series:
    """Returns the series of an alarm or of a metric in an alarm."""
    dimensions = sorted((each["Name"], reference(each["Value"])) for each in metric.get("Dimensions", ()))
    return Series(namespace=metric["Namespace"], name=metric["MetricName"], dimensions=tuple(dimensions))


def series_in(alarm: Mapping[str, Any]) -> list[Series]:
    """Returns all series read by an alarm."""
    if "Metrics" not in alarm:
        return [series_of(alarm)]
    return [series_of(each["MetricStat"]["Metric"]) for each in alarm["Metrics"] if "MetricStat" in each]


def fires(alarm: Mapping[str, Any], points: Points) -> bool:
    """Returns whether the alarm is in the state ALARM after the last periods.

    The alarm is made before the first point: what it ignores leaves it as it was before.
    """
    state = False
    for gone in reversed(range(max(1, *(len(values) for values in _read(alarm, points).values())))):
        state = _breaches(alarm, points, gone, state)
    return state


def _breaches(alarm: Mapping[str, Any], points: Points, gone: int, before: bool) -> bool:
    """Returns whether the alarm is in the state ALARM some periods ago."""
    values = _values(alarm, points, gone, alarm["EvaluationPeriods"])
    missing = alarm["TreatMissingData"]
    if missing == "ignore" and all(value is None for value in values):
        return before
    breaching = 0
    for value in values:
        if value is None:
            breaching += missing == "breaching"
        elif alarm["ComparisonOperator"] == "LessThanThreshold":
            breaching += value < alarm["Threshold"]
        else:
            assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
            breaching += value >= alarm["Threshold"]
    return breaching >= int(alarm["DatapointsToAlarm"])


def _values(alarm: Mapping[str, Any], points: Points, gone: int, periods: int) -> list[float | None]:
    """Returns the alarm's value in some periods, or None for all periods if no metric has data."""
    read = {
        id_: [values[-1 - back] if back < len(values) else None for back in range(gone, gone + periods)]
        for id_, values in _read(alarm, points).items()
    }
    if all(value is None for values in read.values() for value in values):
        return [None] * periods
    expressions = [each["Expression"] for each in alarm.get("Metrics", ()) if "Expression" in each]
    if not expressions:
        [only] = read.values()
        return only
    [expression] = expressions
    return [
        _evaluate(expression, {id_: Value(values[back], _first(values[back:])) for id_, values in read.items()})
        for back in range(periods)
    ]


def _first(values: Sequence[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def _evaluate(expression: str, names: Mapping[str, Value]) -> float | None:
    """Evaluates an expression of CloudWatch's metric math in one period."""
    functions = {
        "METRICS": lambda: list(names.values()),
        "FILL": _fill,
        "REPEAT": None,
        "SUM": _combine(sum),
        "MAX": _combine(max),
    }
    found: Value = eval(expression, {"__builtins__": {}}, {**functions, **names})  # the template's own
    return found.value


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a period, or None, and the last known value. Arithmetic on a missing value gives a missing value."""

    value: float | None
    last: float | None = None

    def __truediv__(self, other: Value) -> Value:
        return Value(None if self.value is None or not other.value else self.value / other.value)

    def __mul__(self, other: Value) -> Value:
        return Value(None if self.value is None or other.value is None else self.value * other.value)


def _fill(filled: Value | list[Value], by: float | None) -> Any:
    if isinstance(filled, list):
        return [_fill(each, by) for each in filled]
    return Value(filled.last if by is None else by) if filled.value is None else filled


def _combine(combine: Callable[[list[float]], float]) -> Callable[[list[Value]], Value]:
    def combined(values: list[Value]) -> Value:
        known = [each.value for each in values if each.value is not None]
        return Value(combine(known) if known else None)

    return combined


def _read(alarm: Mapping[str, Any], points: Points) -> dict[str, Sequence[float | None]]:
    """Returns the points of the alarm's metrics by their names in the expression."""
    if "Metrics" not in alarm:
        return {"only": points.get(series_of(alarm), ())}
    read = {each["Id"]: each["MetricStat"]["Metric"] for each in alarm["Metrics"] if "MetricStat" in each}
    return {id_: points.get(series_of(metric), ()) for id_, metric in read.items()}


def reference(value: Any) -> str:
    """Returns a value's text, with references as the stack's name or the logical id."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return STACK if value["Ref"] == "AWS::StackName" else str(value["Ref"])
    if "Fn::GetAtt" in value:
        return ".".join(value["Fn::GetAtt"])
    return "".join(reference(part) for part in value["Fn::Join"][1])
