"""Filters of Spark as a range of times."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark

from tidewheel.model.plan import Segment
from tidewheel.spark.time_range import TimeRange

TIME = ("deliver_at_ms",)
COMPARISONS: dict[type[Any], Any] = {
    spark.EqualTo: int.__eq__,
    spark.EqualNullSafe: int.__eq__,
    spark.GreaterThan: int.__gt__,
    spark.GreaterThanOrEqual: int.__ge__,
    spark.LessThan: int.__lt__,
    spark.LessThanOrEqual: int.__le__,
}
times = st.integers(0, 12) | st.sampled_from([-(2**63), 2**63 - 1])


@given(st.lists(st.tuples(st.sampled_from(list(COMPARISONS)), times), max_size=4), st.lists(times, min_size=1))
def test_a_range_selects_the_rows_that_the_filters_do(wanted: list[tuple[Any, int]], rows: list[int]) -> None:
    rows.sort()
    left, others = TimeRange().narrowed([kind(TIME, time) for kind, time in wanted])
    assert others == []
    table = pa.table({"deliver_at_ms": pa.array(rows, pa.int64())})
    expected = [row for row in rows if all(COMPARISONS[kind](row, time) for kind, time in wanted)]
    assert left.rows_of(table).column(0).to_pylist() == expected
    segment = Segment(
        offset=4, length=9, rows=len(rows), raw_bytes=1, first_deliver_at_ms=rows[0], last_deliver_at_ms=rows[-1]
    )
    assert left.meets(segment) or not expected
    assert not left.holds(segment) or expected == rows


def test_a_list_of_times_narrows_the_range_and_is_left_to_spark() -> None:
    wanted = spark.In(TIME, (7, 3, 5))
    assert TimeRange().narrowed([wanted]) == (TimeRange(first_ms=3, end_ms=8), [wanted])


@pytest.mark.parametrize(
    "other",
    [
        spark.EqualTo(("key",), "a"),
        spark.GreaterThan(("sent_at_ms",), 3),
        spark.GreaterThan(TIME, 3.5),
        spark.IsNull(TIME),
        spark.IsNotNull(("key",)),
        spark.Not(spark.EqualTo(TIME, 3)),
        spark.In(TIME, ()),
        spark.In(TIME, (1, None)),
        spark.EqualNullSafe(TIME, None),
    ],
)
def test_other_filters_are_left_to_spark(other: spark.Filter) -> None:
    assert TimeRange().narrowed([other, spark.IsNotNull(TIME)]) == (TimeRange(), [other])
