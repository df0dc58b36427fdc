"""Reads the times of an import's input, by column.

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

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.jobs.importing.texts import Int64s, decoded, is_any, is_bytes, is_text, none_of, true_of, valid_text
from tidewheel.jobs.importing.work import Mask
from tidewheel.model.message import TIMES_END_MS

ACCEPTED = "times are timestamps, dates, text or numbers"

_LEAST_MS = 100_000_000_000
"""Read as seconds, this is the year 5138; as milliseconds, the year 1973."""
_MOST_MS = 10**15
_YEAR_1_MS = -62_135_596_800_000
_NUMBER = r"^[+-]?\d{1,18}(\.\d*)?([Ee][+-]?\d{1,2})?$"
_USUAL = (
    r"^[12]\d{3}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]0\d:[0-5]\d)$"
)
"""Arrow reads texts of this form in a twentieth of the time. Of other days, it takes some that do not exist."""
_TEXT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ]((?:[01]\d|2[0-3]):\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)\.(\d{1,40}))?"
    r"(?: *(Z|UTC|GMT|[+-](?:0\d|1[0-8])(?::?[0-5]\d)?))?)?",
    re.ASCII | re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Times:
    """A column of times.

    Attributes:
        ms: milliseconds since the Unix epoch; 0 where there is no time.
        known: rows with a time.
        not_a_time, no_zone: rows with a value that is wrong. Empty text is no value.
    """

    ms: Int64s
    known: Mask
    not_a_time: Mask
    no_zone: Mask


def takes(type_: pa.DataType) -> bool:
    """Returns whether a column of this type can hold times."""
    return is_text(type_) or is_any(type_, "timestamp", "date", "integer", "floating", "decimal", "null")


def read_times(column: pa.Array, time_zone: str | None) -> Times:
    """Reads a column of a type that `takes` accepts, or of text in bytes."""
    column = decoded(column)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())
    there = column.is_valid().to_numpy(zero_copy_only=False)
    if is_text(column.type) or is_bytes(column.type):
        return _of_text(column, time_zone)
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return _checked(_of_units(column), there)
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        ms = _of_units(column)
        if time_zone is None:
            return Times(np.zeros_like(ms), none_of(len(ms)), none_of(len(ms)), there)
        near = pa.array((ms >= _YEAR_1_MS) & (ms < TIMES_END_MS))  # Arrow writes other years wrong
        return _of_text(pc.if_else(near, column.cast(pa.string()), "far"), time_zone)
    if pa.types.is_null(column.type):
        return _checked(np.zeros(len(column), np.int64), there)
    return _checked(_of_number(column), there)


def _checked(ms: Int64s, there: Mask) -> Times:
    known = there & _within(ms, _MOST_MS)
    return Times(np.where(known, ms, 0), known, there & ~known, none_of(len(ms)))


def _within(numbers: Int64s, most: int) -> Mask:
    # The least integer has no absolute value.
    return (numbers > -most) & (numbers < most)


def _of_units(column: pa.Array) -> Int64s:
    """Returns timestamps and dates in milliseconds, rounded up. Far times become a number out of range."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
    raw: Int64s = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if column.type.unit == "s":
        return np.where(_within(raw, _MOST_MS // 1000), raw, _MOST_MS // 1000) * 1000
    step = {"ms": 1, "us": 1_000, "ns": 1_000_000}[column.type.unit]
    return raw // step + (raw % step > 0)


def _of_number(column: pa.Array) -> Int64s:
    if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
        whole: Int64s = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return whole * np.where(_within(whole, _LEAST_MS), 1000, 1)
    return _of_floats(column.cast(pa.float64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False))


def _of_floats(numbers: npt.NDArray[np.float64]) -> Int64s:
    with np.errstate(invalid="ignore", over="ignore"):
        ms = np.where(np.abs(numbers) < _LEAST_MS, numbers * 1000, numbers)
        ms = np.where(np.abs(ms) < _MOST_MS, ms, float(_MOST_MS))  # also what is not a number
        # 1767225600.123 * 1000 is not a whole number: what is below half a thousandth is an error of the arithmetic.
        down = np.floor(ms)
        return (down + (ms - down >= 0.0005)).astype(np.int64)


def _of_text(column: pa.Array, time_zone: str | None) -> Times:
    text, bad = valid_text(column)
    text = pc.ascii_trim_whitespace(text.fill_null(""))
    ms, there = np.full(len(text), _MOST_MS, np.int64), bad | true_of(pc.not_equal(text, ""))
    numbers, no_zone = true_of(pc.match_substring_regex(text, _NUMBER)), none_of(len(text))
    found = pc.replace_substring_regex(text.filter(pa.array(numbers)), r"^\+", "").cast(pa.float64())
    ms[numbers] = _of_floats(found.to_numpy(zero_copy_only=False))
    usual = true_of(pc.match_substring_regex(text, _USUAL))
    instants = text.filter(pa.array(usual)).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    ms[usual] = -(-instants.to_numpy(zero_copy_only=False) // 1000)
    others = there & ~bad & ~numbers & ~usual
    read = [_read(each, time_zone) for each in text.filter(pa.array(others)).to_pylist()]
    ms[others] = [_MOST_MS if each is None else each for each in read]
    no_zone[others] = [each is None for each in read]
    known = there & _within(ms, _MOST_MS)
    return Times(np.where(known, ms, 0), known, there & ~known & ~no_zone, no_zone)


def _read(text: str, time_zone: str | None) -> int | None:
    """Returns a time in milliseconds, rounded up. Returns _MOST_MS for no time, None if it has no zone."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return _MOST_MS
    day, clock, fraction, zone = found.groups()
    offset = "" if zone is None else "Z" if zone[0].isalpha() else zone
    try:
        at = datetime.fromisoformat(f"{day}T{clock or '00:00'}{offset}")
        if zone is None:
            if time_zone is None:
                return None
            at = at.replace(tzinfo=ZoneInfo(time_zone))
        whole = (at - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return _MOST_MS
    return whole if fraction is None else whole - (-1000 * int(fraction) // 10 ** len(fraction))
