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

from calendar import isleap
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.jobs.importing.texts import Int64s, decoded, is_any, is_bytes, is_text, none_of, valid_text
from tidewheel.jobs.importing.work import Mask

ACCEPTED = "times are timestamps, dates, text or numbers"
NOT_A_TIME = "is not a time"
NO_ZONE = "has no time zone; add one, or give --time-zone"

_LEAST_MS = 100_000_000_000
"""Read as seconds, this is the year 5138; as milliseconds, the year 1973."""
_MOST_MS = 10**15
_DAY = r"^\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|[12]\d))"
_CLOCK = r"[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?"
_NUMBER = r"^[+-]?\d{1,18}(\.\d*)?(E[+-]?\d{1,2})?$"
_LOCAL = rf"{_DAY}(?:{_CLOCK})?$"
_ZONED = rf"{_DAY}{_CLOCK} *(?:Z|UTC|GMT|[+-](?:0\d|1[0-8])(?::?[0-5]\d)?)$"
_SHAPED_LIKE_LOCAL = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?$"
_LEAP_DAY = r"^\d{4}-02-29"
_QUARTER_US = 15 * 60 * 1_000_000
_EPOCH = datetime(1970, 1, 1)


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
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
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
        near = _within(ms, _MOST_MS)
        return _checked(np.where(near, -(-_utc(np.where(near, ms, 0) * 1000, time_zone) // 1000), ms), there)
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
    match column.type.unit:
        case "s":
            return np.where(_within(raw, _MOST_MS // 1000), raw, _MOST_MS // 1000) * 1000
        case "ms":
            return raw
        case "us":
            return raw // 1000 + (raw % 1000 > 0)
        case _:
            return raw // 1_000_000 + (raw % 1_000_000 > 0)


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
    text = pc.ascii_upper(pc.ascii_trim_whitespace(text.fill_null("")))
    rows = len(text)
    ms, left = np.full(rows, _MOST_MS, np.int64), ~bad & _mask(pc.not_equal(text, ""))
    there = left | bad
    no_zone = none_of(rows)
    for pattern, read in ((_ZONED, _instants), (_NUMBER, _numbers)):
        if left.any():
            found = left & _mask(pc.match_substring_regex(text, pattern))
            if found.any():
                ms[found] = read(text if found.all() else text.filter(pa.array(found)))
                left &= ~found
    if left.any():
        if time_zone is None:
            no_zone = left & _mask(pc.match_substring_regex(text, _SHAPED_LIKE_LOCAL))
        else:
            found = left & _mask(pc.match_substring_regex(text, _LOCAL))
            if found.any():
                ms[found] = _locals(text.filter(pa.array(found)), time_zone)
    known = there & _within(ms, _MOST_MS)
    return Times(np.where(known, ms, 0), known, there & ~known & ~no_zone, no_zone)


def _mask(found: pa.BooleanArray) -> Mask:
    mask: Mask = found.to_numpy(zero_copy_only=False)
    return mask


def _numbers(text: pa.StringArray) -> Int64s:
    return _of_floats(pc.replace_substring_regex(text, r"^\+", "").cast(pa.float64()).to_numpy(zero_copy_only=False))


def _instants(text: pa.StringArray) -> Int64s:
    return -(-_microseconds(text, pa.timestamp("us", "UTC")) // 1000)


def _locals(text: pa.StringArray, time_zone: str) -> Int64s:
    us = _microseconds(text, pa.timestamp("us"))
    real = us != _MOST_MS * 1000
    return np.where(real, -(-_utc(np.where(real, us, 0), time_zone) // 1000), _MOST_MS)


def _microseconds(text: pa.StringArray, type_: pa.DataType) -> Int64s:
    """Returns texts that match a pattern in microseconds, rounded up. No such day: a number out of range."""
    unreal = _unreal_days(text)
    if unreal.any():
        text = pc.if_else(pa.array(unreal), "1970-01-01T00:00Z" if type_.tz else "1970-01-01", text)
    more = np.zeros(len(text), np.int64)
    try:
        us = text.cast(type_)
    except pa.ArrowInvalid:  # a form that Arrow does not read, or more than six digits
        more = _mask(pc.match_substring_regex(text, r"\.\d{6}\d*[1-9]")).astype(np.int64)
        for pattern, to in ((r"(\.\d{6})\d+", r"\1"), (r" *(?:UTC|GMT|Z)$", "Z"), (r" *([+-]\d\d(?::?\d\d)?)$", r"\1")):
            text = pc.replace_substring_regex(text, pattern, to) if type_.tz or "d{6}" in pattern else text
        us = text.cast(type_)
    found: Int64s = us.cast(pa.int64()).to_numpy(zero_copy_only=False) + more
    return np.where(unreal, _MOST_MS * 1000, found)


def _unreal_days(text: pa.StringArray) -> Mask:
    leap = _mask(pc.match_substring_regex(text, _LEAP_DAY))
    unreal = none_of(len(text))
    for row in np.flatnonzero(leap):
        unreal[row] = not isleap(int(text[int(row)].as_py()[:4]))
    return unreal


def _utc(us: Int64s, time_zone: str) -> Int64s:
    """Returns local times as UTC, in microseconds. Zones change their offset at quarters of an hour at most."""
    quarters, places = np.unique(us // _QUARTER_US, return_inverse=True)
    offsets = np.fromiter((_offset_us(time_zone, int(each)) for each in quarters), np.int64, len(quarters))
    return us - offsets[places]


def _offset_us(time_zone: str, quarter: int) -> int:
    try:
        local = _EPOCH + timedelta(minutes=15 * quarter)
    except OverflowError:
        return 0  # far outside of every limit
    offset = local.replace(tzinfo=ZoneInfo(time_zone)).utcoffset()
    return 0 if offset is None else offset // timedelta(microseconds=1)
