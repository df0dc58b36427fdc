"""When recurring messages are due."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.errors import InvalidValue
from tidewheel.model.recurrence import MAX_PERIOD_S, Rule, parse_rule

BERLIN, NEW_YORK, LORD_HOWE, KOLKATA = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"
CAIRO = "Africa/Cairo"
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def ms(text: str) -> int:
    """UTC milliseconds of an ISO time. A time without an offset is UTC."""
    time = datetime.fromisoformat(text)
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def shown(at_ms: int, zone: str) -> str:
    """The reading of a clock of the zone, with its offset from UTC."""
    return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)).strftime("%m-%d %H:%M %z")


def cron(expression: str, zone: str = "UTC", start: str = "2027-01-01") -> Rule:
    return parse_rule(expression, None, zone, start_ms=ms(start))


def due(rule: Rule, after: str, count: int) -> list[str]:
    """The first due times after a time, as shown by clocks of the rule's zone."""
    result: list[str] = []
    at_ms: int | None = ms(after)
    for _ in range(count):
        assert at_ms is not None
        at_ms = rule.next_after(at_ms)
        assert at_ms is not None
        result.append(shown(at_ms, rule.timezone))
    return result


# ---- cron


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 9 * * MON-FRI", ["01-01 09:00", "01-04 09:00", "01-05 09:00"]),
        ("*/20 8,10 * * *", ["01-01 08:00", "01-01 08:20", "01-01 08:40", "01-01 10:00"]),
        ("  30   4 1,15 * 5  ", ["01-01 04:30", "01-08 04:30", "01-15 04:30", "01-22 04:30"]),
        ("0 0 */10 * sun", ["01-31 00:00", "02-21 00:00"]),
        ("0 12 L * *", ["01-31 12:00", "02-28 12:00"]),
        ("0 12 LW * *", ["01-29 12:00", "02-26 12:00"]),
        ("0 0 * * 5L", ["01-29 00:00", "02-26 00:00"]),
        ("0 0 * * MON#2", ["01-11 00:00", "02-08 00:00"]),
        ("0 0 * jan-feb 7", ["01-03 00:00", "01-10 00:00"]),
        ("0 0 31 2,3 *", ["03-31 00:00"]),
    ],
)
def test_cron_has_debians_five_fields_with_names_and_last_days(expression: str, expected: list[str]) -> None:
    assert due(cron(expression), "2027-01-01", len(expected)) == [f"{time} +0000" for time in expected]


def test_leap_days_are_found_across_a_century_without_one() -> None:
    assert cron("0 0 29 2 *").next_after(ms("2096-02-29")) == ms("2104-02-29")
    assert cron("0 0 * 2 MON#5").next_after(ms("2044-02-29")) == ms("2072-02-29")


def test_a_rule_that_is_never_due_says_so() -> None:
    rule = Rule(cron="0 0 */28 * MON#2", start_ms=0)
    assert rule.next_after(0) is None
    assert rule.between(0, ms("2100-01-01"), 10) == []


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2027-01-05T08:59:59.999", "2027-01-05T09:00"),
        ("2027-01-05T09:00", "2027-01-06T09:00"),
        ("2027-01-05T09:00:00.001", "2027-01-06T09:00"),
        ("2020-01-01", "2027-01-01T09:00"),
        ("1970-01-01", "2027-01-01T09:00"),
    ],
)
def test_next_after_is_strictly_after_and_never_before_the_start(at: str, expected: str) -> None:
    assert cron("0 9 * * *").next_after(ms(at)) == ms(expected)


def test_the_start_itself_may_be_due() -> None:
    assert cron("0 0 * * *").between(0, ms("2027-01-02T00:00:01"), 9) == [ms("2027-01-01"), ms("2027-01-02")]
    assert Rule(cron="* * * * *", start_ms=0).between(0, 60_001, 9) == [0, 60_000]


# ---- cron when clocks change

FORWARD = [
    # Berlin, 2027-03-28: 02:00 +01:00 becomes 03:00 +02:00.
    (BERLIN, "2027-03-27T12:00", "30 2 * * *", ["03-28 03:00 +0200", "03-29 02:30 +0200"]),
    (BERLIN, "2027-03-27T12:00", "0,20,40 2 * * *", ["03-28 03:00 +0200", "03-29 02:00 +0200"]),
    (BERLIN, "2027-03-27T12:00", "0,30 2,3 * * *", ["03-28 03:00 +0200", "03-28 03:30 +0200", "03-29 02:00 +0200"]),
    (BERLIN, "2027-03-28T00:45", "30 0-23 * * *", ["03-28 03:00 +0200", "03-28 03:30 +0200", "03-28 04:30 +0200"]),
    (BERLIN, "2027-03-27T12:00", "0 3 * * *", ["03-28 03:00 +0200", "03-29 03:00 +0200"]),
    (BERLIN, "2027-03-27T12:00", "*/30 2 * * *", ["03-29 02:00 +0200", "03-29 02:30 +0200"]),
    # Lord Howe, 2027-10-03: 02:00 +10:30 becomes 02:30 +11:00.
    (LORD_HOWE, "2027-10-02T00:00", "15 2 * * *", ["10-03 02:30 +1100", "10-04 02:15 +1100"]),
    (LORD_HOWE, "2027-10-02T00:00", "45 2 * * *", ["10-03 02:45 +1100", "10-04 02:45 +1100"]),
    # Cairo, 2027-04-30: midnight becomes 01:00 +03:00.
    (CAIRO, "2027-04-29T12:00", "0 0 * * FRI", ["04-30 01:00 +0300", "05-07 00:00 +0300"]),
    (CAIRO, "2027-04-29T12:00", "*/30 0 * * FRI", ["05-07 00:00 +0300", "05-07 00:30 +0300"]),
]
BACK = [
    # Berlin, 2027-10-31: 03:00 +02:00 becomes 02:00 +01:00.
    (BERLIN, "2027-10-30T12:00", "30 2 * * *", ["10-31 02:30 +0200", "11-01 02:30 +0100"]),
    (BERLIN, "2027-10-31T00:30", "30 2 * * *", ["11-01 02:30 +0100"]),
    (BERLIN, "2027-10-31T01:10", "30 2 * * *", ["11-01 02:30 +0100"]),
    (BERLIN, "2027-10-31T00:40", "10,50 2 * * *", ["10-31 02:50 +0200", "11-01 02:10 +0100"]),
    (BERLIN, "2027-10-30T22:40", "30 0-23 * * *", ["10-31 01:30 +0200", "10-31 02:30 +0200", "10-31 03:30 +0100"]),
    (
        BERLIN,
        "2027-10-31T00:20",
        "*/30 2 * * *",
        ["10-31 02:30 +0200", "10-31 02:00 +0100", "10-31 02:30 +0100", "11-01 02:00 +0100"],
    ),
    # Lord Howe, 2027-04-04: 02:00 +11:00 becomes 01:30 +10:30.
    (LORD_HOWE, "2027-04-03T00:00", "45 1 * * *", ["04-04 01:45 +1100", "04-05 01:45 +1030"]),
]


@pytest.mark.parametrize(("zone", "after", "expression", "expected"), FORWARD)
def test_in_a_gap_a_fixed_time_is_due_at_its_end_and_an_interval_left_out(
    zone: str, after: str, expression: str, expected: list[str]
) -> None:
    assert due(cron(expression, zone), after, len(expected)) == expected


@pytest.mark.parametrize(("zone", "after", "expression", "expected"), BACK)
def test_in_an_overlap_a_fixed_time_is_due_once_and_an_interval_in_both_passes(
    zone: str, after: str, expression: str, expected: list[str]
) -> None:
    assert due(cron(expression, zone), after, len(expected)) == expected


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, LORD_HOWE, CAIRO, KOLKATA])
@settings(max_examples=15)
@given(hour=st.integers(0, 23), minute=st.integers(0, 59))
def test_a_daily_time_comes_once_on_each_of_a_years_days(zone: str, hour: int, minute: int) -> None:
    rule = cron(f"{minute} {hour} * * *", zone)
    times = rule.between(ms("2027-01-02"), ms("2028-01-02"), 1000)
    days = [datetime.fromtimestamp(time / 1000, ZoneInfo(zone)).date() for time in times]
    assert days == [days[0] + timedelta(days=day) for day in range(365)]


CHANGES = {
    BERLIN: ("2027-03-28T01:00", "2027-10-31T01:00"),
    NEW_YORK: ("2027-03-14T07:00", "2027-11-07T06:00"),
    LORD_HOWE: ("2027-10-02T15:30", "2027-04-03T15:00"),
    CAIRO: ("2027-04-29T22:00", "2027-10-28T21:00"),
    KOLKATA: ("2027-03-28T01:00",),
}


@given(
    where=st.sampled_from([(zone, change) for zone, changes in CHANGES.items() for change in changes]),
    minutes=st.one_of(st.just("*"), st.integers(1, 59).map("*/{}".format), st.integers(0, 59).map(str)),
    hours=st.one_of(st.just("*"), st.integers(1, 12).map("*/{}".format)),
    offset_min=st.integers(-300, 120),
)
def test_an_interval_is_due_at_each_minute_of_real_time_whose_clock_matches(
    where: tuple[str, str], minutes: str, hours: str, offset_min: int
) -> None:
    def has(field: str, value: int) -> bool:
        if field.startswith("*"):
            return value % int(field[2:] or 1) == 0
        return int(field) == value

    zone, change = where
    from_ms = ms(change) + offset_min * MINUTE_MS
    expected = []
    for at_ms in range(from_ms, from_ms + 6 * HOUR_MS, MINUTE_MS):
        clock = datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone))
        if has(minutes, clock.minute) and has(hours, clock.hour):
            expected.append(at_ms)
    assert cron(f"{minutes} {hours} * * *", zone).between(from_ms, from_ms + 6 * HOUR_MS, 1000) == expected


# ---- a fixed rate


@pytest.mark.parametrize(("every", "period_s"), [(60, 60), (timedelta(days=1), 86_400), ("3653d", MAX_PERIOD_S)])
def test_a_fixed_rate_is_written_as_a_delay_is(every: Any, period_s: int) -> None:
    assert parse_rule(None, every, start_ms=0) == Rule(period_s=period_s, start_ms=0)


@given(st.integers(60, MAX_PERIOD_S), st.integers(0, 4 * 10**9), st.integers(0, 8 * 10**12))
def test_a_fixed_rate_has_no_drift(period_s: int, start_s: int, at_ms: int) -> None:
    rule = Rule(period_s=period_s, start_ms=start_s * 1000)
    next_ms = rule.next_after(at_ms)
    assert next_ms is not None
    assert (next_ms - rule.start_ms) % (period_s * 1000) == 0
    assert next_ms > at_ms
    assert next_ms == rule.start_ms or next_ms - period_s * 1000 <= at_ms


# ---- any rule

RULES = st.one_of(
    st.builds(
        lambda period_s, start_s: Rule(period_s=period_s, start_ms=start_s * 1000),
        st.integers(60, 10**6),
        st.integers(17 * 10**8, 19 * 10**8),
    ),
    st.builds(
        lambda expression, zone, start_s: Rule(cron=expression, timezone=zone, start_ms=start_s * 1000),
        st.sampled_from(["* * * * *", "*/7 */3 * * *", "30 2 * * *", "15 0-4 * * SUN", "0 0 29 2 *", "59 23 L * *"]),
        st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, KOLKATA, CAIRO, "UTC"]),
        st.integers(17 * 10**8, 19 * 10**8),
    ),
)
TIMES_MS = st.one_of(
    st.integers(17 * 10**11, 19 * 10**11),
    st.builds(
        lambda change, offset_ms: ms(change) + offset_ms,
        st.sampled_from([change for changes in CHANGES.values() for change in changes]),
        st.integers(-3 * HOUR_MS, 3 * HOUR_MS),
    ),
)


@given(RULES, TIMES_MS, st.integers(0, 30 * 86_400_000))
def test_next_after_is_monotonic_and_skips_nothing(rule: Rule, at_ms: int, more_ms: int) -> None:
    first = rule.next_after(at_ms)
    later = rule.next_after(at_ms + more_ms)
    assert first is not None
    assert later is not None
    assert at_ms < first <= later
    assert first % 1000 == 0
    if at_ms + more_ms < first:
        assert later == first


@given(RULES)
def test_a_rule_is_read_back_from_its_json(rule: Rule) -> None:
    again = Rule.from_json(rule.to_json())
    assert again == rule
    assert again.to_json() == rule.to_json()


def test_a_rules_json_names_only_what_it_has() -> None:
    assert cron("0  9 * * *", BERLIN, "1970-01-02").to_json() == (
        '{"cron":"0 9 * * *","start_ms":86400000,"timezone":"Europe/Berlin"}'
    )
    assert parse_rule(None, 60, start_ms=0).to_json() == '{"period_s":60,"start_ms":0,"timezone":"UTC"}'


# ---- every shape of a field, beside the words of Debian's crontab(5)

RANGES = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}
NAMES = {
    "month": ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    "weekday": ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
}


@st.composite
def fields(draw: st.DrawFn, name: str) -> tuple[str, frozenset[int]]:
    """Draws a field and its values. A term is a number, a name or a range, with or without a step."""
    least, most = RANGES[name]

    def text(value: int) -> str:
        names = dict(enumerate(NAMES.get(name, []), least))
        return draw(st.sampled_from([str(value), f"{value:02}", *([names[value]] if value in names else [])]))

    terms, values = [], set[int]()
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(least, most))
        last = draw(st.one_of(st.just(first), st.integers(first, most)))
        step = draw(st.one_of(st.none(), st.integers(1, most + 10)))
        shape = draw(st.sampled_from(["*", "a", "a-b"]))
        term = {"*": "*", "a": text(first), "a-b": f"{text(first)}-{text(last)}"}[shape]
        found = {"*": range(least, most + 1), "a": [first], "a-b": range(first, last + 1)}[shape]
        if step is not None:
            term += f"/{step}"
            found = range(first, most + 1)[::step] if shape == "a" else found[::step]  # type: ignore[index]
        terms.append(term)
        values |= set(found)
    return ",".join(terms), frozenset(values)


@settings(max_examples=50)
@given(fields("minute"), fields("hour"))
def test_each_shape_of_minutes_and_hours_has_its_values(
    minute: tuple[str, frozenset[int]], hour: tuple[str, frozenset[int]]
) -> None:
    found = cron(f"{minute[0]} {hour[0]} * * *").between(ms("2027-01-01"), ms("2027-01-02"), 1440)
    midnight = ms("2027-01-01")
    assert found == [midnight + h * HOUR_MS + m * MINUTE_MS for h in sorted(hour[1]) for m in sorted(minute[1])]


@given(fields("day"), fields("month"), fields("weekday"))
def test_each_shape_of_days_months_and_weekdays_has_its_values(
    day: tuple[str, frozenset[int]], month: tuple[str, frozenset[int]], weekday: tuple[str, frozenset[int]]
) -> None:
    both = day[0].startswith("*") or weekday[0].startswith("*")
    start, noon = "2027-12-20", datetime(2027, 12, 20, 12)
    days = [noon + timedelta(days=number) for number in range(440)]  # with 29 February
    sundays = {each % 7 for each in weekday[1]}

    def matches(each: datetime) -> bool:
        of_day, of_week = each.day in day[1], each.isoweekday() % 7 in sundays
        return each.month in month[1] and (of_day and of_week if both else of_day or of_week)

    try:
        rule = cron(f"0 12 {day[0]} {month[0]} {weekday[0]}", start=start)
    except InvalidValue as error:
        assert "never due" in str(error)
        assert not any(map(matches, days))
        return
    assert rule.between(ms(start), ms(days[-1].isoformat()) + 1, 1000) == [
        ms(each.isoformat()) for each in days if matches(each)
    ]


# ---- what is refused


@pytest.mark.parametrize(
    ("expression", "advice"),
    [
        ("60 * * * *", "minute field '60' is wrong; use 0-59"),
        ("*/0 * * * *", "minute field '\\*/0'"),
        ("70-70/2 * * * *", "minute field '70-70/2'"),
        ("* 24 * * *", "hour field '24'"),
        ("* * 5-1 * *", "day-of-month field '5-1'"),
        ("* * * MAY-JAN *", "month field 'MAY-JAN'"),
        ("* * * * MONDAY", "day-of-week field 'MONDAY'"),
        ("* * * * ?", "day-of-week field '\\?'"),
        ("1,,2 * * * *", "minute field '1,,2'"),
        ("* * * *", "it has 4 fields"),
        ("", "it has 0 fields"),
        ("0 0 30 2 *", "never due"),
        ("0 0 */28 * MON#2", "never due in the next fifty years"),
        ("\u0665 * * * *", "five fields"),
        ("0 0 * * " + "1," * 100 + "1", "five fields"),
        (5, "five fields"),
    ],
)
def test_a_bad_expression_is_refused_by_its_field(expression: Any, advice: str) -> None:
    with pytest.raises(InvalidValue, match=advice) as raised:
        parse_rule(expression, None, start_ms=ms("2027-01-01"))
    assert raised.value.field == "cron"


@pytest.mark.parametrize(
    "zone",
    [
        "Europe/Nowhere", "europe/berlin?", "", "Europe", "../UTC", "/etc/localtime", "right/Europe/Berlin",
        "posix/Europe/Berlin", "posixrules", "localtime", "CEST", "+02:00", "a\0b", "x" * 5000, "\ud800", None, 2,
    ],
    ids=lambda zone: repr(zone)[:20],
)  # fmt: skip
def test_an_unknown_zone_is_refused(zone: Any) -> None:
    for expression, every in (("0 9 * * *", None), (None, 60)):
        with pytest.raises(InvalidValue, match="IANA time zone") as raised:
            parse_rule(expression, every, zone, start_ms=0)
        assert raised.value.field == "timezone"


@pytest.mark.parametrize("every", [0, 59, 59.5, 60.5, "90.5s", "1ms", -60, "3654d", "often", True, math.nan, [60]])
def test_what_is_no_rate_is_refused(every: Any) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_rule(None, every, start_ms=0)
    assert raised.value.field == "every"


@pytest.mark.parametrize(("expression", "every"), [(None, None), ("* * * * *", 60), ("", 0)])
def test_exactly_one_of_cron_and_every_is_given(expression: str | None, every: int | None) -> None:
    with pytest.raises(InvalidValue, match="exactly one of the two"):
        parse_rule(expression, every, start_ms=0)
    with pytest.raises(InvalidValue, match="exactly one of the two"):
        Rule(cron=expression, period_s=every, start_ms=0)


@given(
    st.sampled_from(["0 9 * * *", "*/15 * * * *", "30 2 * * *", None]),
    st.integers(1, 604_799_999),
    st.integers(ms("2027-03-27"), ms("2027-04-05")),
)
def test_a_shift_moves_each_time_by_the_same_and_loses_none(expression: str | None, shift_ms: int, at_ms: int) -> None:
    every = "7m" if expression is None else None
    rule = parse_rule(expression, every, BERLIN, start_ms=ms("2027-03-26"))
    shifted = dataclasses.replace(rule, shift_ms=shift_ms)
    assert shifted.next_after(at_ms + shift_ms) == (rule.next_after(at_ms) or 0) + shift_ms
    expected = [each + shift_ms for each in rule.between(at_ms, at_ms + 3_600_000, 100)]
    assert shifted.between(at_ms + shift_ms, at_ms + shift_ms + 3_600_000, 100) == expected
    assert shifted.next_after(0) == (rule.next_after(0) or 0) + shift_ms
    assert shifted.to_json() == rule.to_json()


@pytest.mark.parametrize("bad", [-1, 1.5, True, None, "0", ms("2027-01-01") * 1000, 10**400])
def test_what_is_no_time_is_refused(bad: Any) -> None:
    for ask in (lambda: parse_rule("0 9 * * *", None, start_ms=bad), lambda: Rule(cron="0 9 * * *", start_ms=bad)):
        with pytest.raises(InvalidValue, match="UTC milliseconds"):
            ask()


def test_a_rule_starts_on_a_whole_second_and_has_a_whole_period() -> None:
    with pytest.raises(InvalidValue, match="whole second"):
        Rule(cron="0 9 * * *", start_ms=1)
    for period_s in (59, MAX_PERIOD_S + 1, 60.0, True):
        with pytest.raises(InvalidValue, match="every="):
            Rule(period_s=period_s, start_ms=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "null", "[" * 100_000, '{"cron":"* * * * *"}', '{"cron":"* * * * *","start_ms":0,"x":1}',
        '{"cron":"* * * * *","start_ms":0.5}', '{"period_s":"60","start_ms":0}', '{"cron":5,"start_ms":0}',
        '{"period_s":60,"start_ms":0,"timezone":null}',
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_what_is_no_rules_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        Rule.from_json(text)


FIELD = st.one_of(
    st.sampled_from(
        ["*", "L", "LW", "5L", "MON#2", "*/15", "1-5", "MON-FRI", "JAN,FEB", "29", "30", "31", "L/2", "5/9"]
    ),
    st.text("0123456789*/,-#LWMON ²", max_size=6),
)


@given(st.one_of(st.lists(FIELD, min_size=5, max_size=5).map(" ".join), st.text(max_size=20)))
def test_any_expression_is_either_a_rule_that_is_due_or_refused(expression: str) -> None:
    try:
        rule = parse_rule(expression, None, BERLIN, start_ms=ms("2027-03-28"))
    except InvalidValue as error:
        assert error.field == "cron"
        return
    assert rule.next_after(rule.start_ms) is not None
