"""Reads the times of an import's input, with Spark expressions that never throw.

| column | is read as |
|---|---|
| timestamp | itself |
| number | below 100,000,000,000: seconds since 1970, else milliseconds |
| text of a number | the same |
| text such as `2026-01-31T09:00:00+01:00` or `2026-01-31 08:00Z` | ISO 8601 |
| date, timestamp or text without a zone | in the zone of `--time-zone`, else rejected |

Fractions of a millisecond are rounded up, so that no message is early.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from tidewheel.errors import InvalidValue

_LEAST_MS = 1e11
"""Read as seconds, this is the year 5138; as milliseconds, the year 1973."""
_MOST_MS = 1e15
_NUMBER = r"^[+-]?\d{1,18}(\.\d*)?(E[+-]?\d{1,2})?$"
_LOCAL = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?$"
_ZONED = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)? *(Z|UTC|GMT|[+-]\d\d(:?\d\d)?)$"
NOT_A_TIME = "is not a time"
NO_ZONE = "has no time zone; add one, or give --time-zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """Holds the expressions for a column's time.

    Attributes:
        ms: milliseconds since the Unix epoch; null if there is no time. The expression is long: name it to use it
            twice.
        problem: takes the column with `ms` and returns the error, or null. Empty text means no time, not a wrong time.
    """

    ms: Column
    problem: Callable[[Column], Column]


def time_of(name: str, data_type: DataType, time_zone: str | None) -> Time:
    """Returns the time in a column.

    Raises:
        InvalidValue: a column of this type cannot hold times.
    """
    column = F.col(f"`{name}`")
    no_zone = F.lit(None if time_zone else NO_ZONE)
    match data_type:
        case TimestampType():
            return Time(ms=_of_timestamp(column), problem=lambda _: F.lit(None).cast("string"))
        case TimestampNTZType() | DateType():
            local = column.cast("timestamp_ntz")
            return Time(ms=_of_local(local, time_zone), problem=lambda _: F.when(column.isNotNull(), no_zone))
        case NumericType():
            return Time(
                ms=_of_number(column.cast("double")),
                problem=lambda ms: F.when(column.isNotNull() & ms.isNull(), F.lit(NOT_A_TIME)),
            )
        case StringType():
            return _of_text(column, time_zone)
        case _:
            advice = f"it is a {data_type.simpleString()}; times are timestamps, text or numbers"
            raise InvalidValue("column", name, advice)


def _of_text(column: Column, time_zone: str | None) -> Time:
    text = F.upper(F.trim(column))
    number = F.when(text.rlike(_NUMBER), _of_number(text.try_cast("double")))
    instant = F.when(text.rlike(_ZONED), _of_timestamp(_as_spark_writes(text).try_cast("timestamp")))
    is_local = text.rlike(_LOCAL)
    local = F.when(is_local, _of_local(text.try_cast("timestamp_ntz"), time_zone))
    wrong = F.lit(NOT_A_TIME) if time_zone else F.when(is_local, F.lit(NO_ZONE)).otherwise(F.lit(NOT_A_TIME))
    return Time(ms=F.coalesce(number, instant, local), problem=lambda ms: F.when(ms.isNull() & (text != ""), wrong))


def _as_spark_writes(text: Column) -> Column:
    """Returns ISO 8601 text in Spark's form (with seconds, and a zone of Z or with minutes)."""
    for pattern, replacement in (
        (" *(UTC|GMT|Z)$", "Z"),
        (r" *([+-]\d\d)$", "$1:00"),
        (r" *([+-]\d\d):?(\d\d)$", "$1:$2"),
        (r"^(.{10}[T ]\d\d:\d\d)(?!:)", "$1:00"),
    ):
        text = F.regexp_replace(text, pattern, replacement)
    return text


def _of_number(number: Column) -> Column:
    ms = F.when(F.abs(number) < _LEAST_MS, number * 1000).otherwise(number)
    # Rounded first: 1767225600.123 * 1000 is not a whole number.
    return F.when(F.abs(ms) < _MOST_MS, F.ceil(F.round(ms, 3)))


def _of_timestamp(timestamp: Column) -> Column:
    return F.ceil(F.unix_micros(timestamp).cast("decimal(20, 0)") / 1000).cast("bigint")


def _of_local(local: Column, time_zone: str | None) -> Column:
    if time_zone is None:
        return F.lit(None).cast("bigint")
    utc = F.convert_timezone(F.lit(time_zone), F.lit("UTC"), local)
    return _of_timestamp(utc.cast("timestamp"))
