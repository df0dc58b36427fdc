"""Tests delays and times in the callers' notation."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.errors import InvalidValue
from tidewheel.model.duration import MAX_DELAY_MS, delay_ms, deliver_at_ms, read_time

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (0, 0),
        (90, 90_000),
        (1.5, 1500),
        (0.0001, 1),
        (0.1 + 0.2, 300),
        (timedelta(days=3), 3 * 86_400_000),
        (timedelta(microseconds=1), 1),
        ("90s", 90_000),
        (" 3d 4h ", (3 * 24 + 4) * 3_600_000),
        ("1.5h", 5_400_000),
        ("1w2d3h4m5s6ms", 788_645_006),
        ("0.1ms", 1),
        (3653 * 86_400, MAX_DELAY_MS),
    ],
)
def test_a_delay_is_read_to_the_millisecond_above(delay: object, expected: int) -> None:
    assert delay_ms(delay) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "delay",
    [
        True, False, math.nan, math.inf, -math.inf, -1, -0.001, "-5s", "5", "", "  ", "5 minutes", "1h extra", "٣s",
        "9" * 400 + "s", timedelta(milliseconds=-1), timedelta.max, timedelta.min, 10**400, -(10**400),
        pytest.param(10**5000, id="5001 digits"), 1e308, -1e308, 3653 * 86_400 + 0.001, "3654d", None, [1], b"5s",
    ],
)  # fmt: skip
def test_what_is_no_delay_is_refused_with_advice(delay: object) -> None:
    with pytest.raises(InvalidValue, match="delay="):
        delay_ms(delay)  # type: ignore[arg-type]


@given(st.floats(min_value=0, max_value=MAX_DELAY_MS / 1000))
def test_a_delay_in_seconds_is_never_cut_by_more_than_half_a_microsecond(seconds: float) -> None:
    result = delay_ms(min(seconds, 3653 * 86_400))
    assert seconds * 1000 - 0.0006 <= result < seconds * 1000 + 1.001


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=3653)))
def test_a_timedelta_is_rounded_up_exactly(delay: timedelta) -> None:
    assert timedelta(milliseconds=delay_ms(delay) - 1) < delay <= timedelta(milliseconds=delay_ms(delay))


@given(st.one_of(st.text(), st.floats(), st.integers(), st.timedeltas(), st.binary()))
def test_any_delay_is_either_read_within_the_limits_or_refused(delay: object) -> None:
    try:
        assert 0 <= delay_ms(delay) <= MAX_DELAY_MS  # type: ignore[arg-type]
    except InvalidValue as error:
        assert error.field == "delay"


@pytest.mark.parametrize(
    ("deliver_at", "expected"),
    [
        (datetime(2027, 1, 15, 8, 0, 0, tzinfo=UTC), NOW_MS),
        (datetime(2027, 1, 15, 8, 0, 0, 1, tzinfo=UTC), NOW_MS + 1),
        (datetime(2027, 1, 15, 10, 0, 1, tzinfo=timezone(timedelta(hours=2))), NOW_MS + 1000),
        (1_800_000_000.5, NOW_MS + 500),
        (0, NOW_MS),
        (-1e308, NOW_MS),
        (datetime.min.replace(tzinfo=UTC), NOW_MS),
    ],
)
def test_a_time_is_read_and_a_past_one_means_now(deliver_at: datetime | float, expected: int) -> None:
    assert deliver_at_ms(deliver_at, NOW_MS) == expected


@pytest.mark.parametrize(
    "deliver_at",
    [
        datetime(2027, 1, 15, 8), True, math.nan, math.inf, 10**400, pytest.param(10**5000, id="5001 digits"), 1e308,
        1_800_000_000_000, "2027-01-15T08:00:00Z", None, datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))),
    ],
)  # fmt: skip
def test_naive_endless_and_far_times_are_refused(deliver_at: object) -> None:
    with pytest.raises(InvalidValue, match="deliver_at="):
        deliver_at_ms(deliver_at, NOW_MS)  # type: ignore[arg-type]


@given(st.datetimes(timezones=st.timezones()))
def test_an_aware_time_is_never_early(deliver_at: datetime) -> None:
    try:
        result = deliver_at_ms(deliver_at, NOW_MS)
    except InvalidValue:
        return
    assert NOW_MS <= result <= NOW_MS + MAX_DELAY_MS
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert timedelta(milliseconds=result) >= deliver_at - epoch


@pytest.mark.parametrize(
    "day", ["2027-01-31T09:00", "2027-01-31 09:00:00", "2027-01-31t09:00:00.000000000", "20270131T0900"]
)
@pytest.mark.parametrize("zone", ["Z", "z", " UTC", " GMT", "+00:00", " +0000", "+00", "-00:00"])
def test_a_time_is_read_in_each_form_that_programs_write(day: str, zone: str) -> None:
    at = datetime(2027, 1, 31, 9)
    assert (read_time(day), read_time(f" {day}{zone}")) == (at, at.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    ["", "soon", "1801386000000", "2027-02-30T09:00Z", "2027-01-31x09:00Z", "2027-01-31T09:00+25:00", "9" * 5000],
)
def test_another_text_is_no_time(text: str) -> None:
    assert read_time(text) is None
