"""Limits a query to a range of delivery times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from tidewheel.ledger.rows import Int64s, times_of
from tidewheel.model.plan import Segment

_TIME = ("deliver_at_ms",)
_FIRST_MS, _END_MS = -(2**63), 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """Holds the delivery times first_ms <= t < end_ms, in milliseconds since the Unix epoch."""

    first_ms: int = _FIRST_MS
    end_ms: int = _END_MS

    def meets(self, segment: Segment) -> bool:
        """Returns whether a segment may hold a row in this range."""
        return segment.first_deliver_at_ms < self.end_ms and segment.last_deliver_at_ms >= self.first_ms

    def holds(self, segment: Segment) -> bool:
        """Returns whether all rows of a segment are in this range."""
        return self.first_ms <= segment.first_deliver_at_ms and segment.last_deliver_at_ms < self.end_ms

    def rows_of(self, table: pa.Table) -> pa.Table:
        """Returns the rows in this range from a table sorted by deliver_at_ms."""
        times = times_of(table)
        start, end = _place(times, self.first_ms), _place(times, self.end_ms)
        return table.slice(start, max(0, end - start))

    def within(self, other: TimeRange) -> TimeRange:
        """Returns the intersection of both ranges."""
        return TimeRange(first_ms=max(self.first_ms, other.first_ms), end_ms=min(self.end_ms, other.end_ms))

    def narrowed(self, filters: Iterable[Filter]) -> tuple[TimeRange, list[Filter]]:
        """Narrows the range to Spark's filters. Returns the filters not fully covered by the range."""
        left = self
        others = []
        for each in filters:
            wanted, exact = _range_of(each)
            left = left.within(wanted)
            if not exact:
                others.append(each)
        return left, others


def _place(times: Int64s, time_ms: int) -> int:
    """Returns how many times precede a time, which int64 may not hold."""
    if time_ms <= _FIRST_MS:
        return 0
    return len(times) if time_ms >= _END_MS else int(np.searchsorted(times, time_ms))


_COMPARED: Mapping[type[Filter], Callable[[int], TimeRange]] = {
    EqualTo: lambda time_ms: TimeRange(first_ms=time_ms, end_ms=time_ms + 1),
    EqualNullSafe: lambda time_ms: TimeRange(first_ms=time_ms, end_ms=time_ms + 1),
    GreaterThan: lambda time_ms: TimeRange(first_ms=time_ms + 1),
    GreaterThanOrEqual: lambda time_ms: TimeRange(first_ms=time_ms),
    LessThan: lambda time_ms: TimeRange(end_ms=time_ms),
    LessThanOrEqual: lambda time_ms: TimeRange(end_ms=time_ms + 1),
}
"""Comparison -> the range of times that pass it."""


def _range_of(wanted: Filter) -> tuple[TimeRange, bool]:
    """Returns the range of times that pass a filter, and whether the range is exact."""
    everything = TimeRange()
    if getattr(wanted, "attribute", None) != _TIME:
        return everything, False
    value = getattr(wanted, "value", None)
    if isinstance(wanted, In) and value and all(type(each) is int for each in value):
        return TimeRange(first_ms=min(value), end_ms=max(value) + 1), False
    compared = _COMPARED.get(type(wanted))
    if compared is not None and type(value) is int:
        return compared(value), True
    return everything, isinstance(wanted, IsNotNull)
