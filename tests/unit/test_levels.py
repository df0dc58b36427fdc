"""Delay levels, and the backoff of retries."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.errors import InvalidValue
from tidewheel.model.duration import MAX_DELAY_MS
from tidewheel.model.levels import DEFAULT_LEVELS_S, MAX_LEVELS, Backoff, check_levels, level_delay_ms, parse_levels

ROCKETMQ = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
MAX_LEVEL_S = MAX_DELAY_MS // 1000


# ---- levels


def test_the_default_table_is_rocketmqs() -> None:
    assert parse_levels(ROCKETMQ) == DEFAULT_LEVELS_S
    assert len(DEFAULT_LEVELS_S) == 18


@pytest.mark.parametrize(
    ("level", "expected_s"), [(0, 0), (1, 1), (4, 30), (5, 60), (14, 600), (17, 3600), (18, 7200), (19, 7200)]
)
def test_level_0_is_now_and_above_the_top_is_the_top(level: int, expected_s: int) -> None:
    assert level_delay_ms(level) == expected_s * 1000


def test_a_topics_own_table_is_used_instead() -> None:
    assert [level_delay_ms(level, (7, 3)) for level in (0, 1, 2, 3, 10**100)] == [0, 7000, 3000, 3000, 3000]


@pytest.mark.parametrize("level", [-1, True, False, 1.0, "1", None, math.nan])
def test_what_is_no_level_is_refused(level: Any) -> None:
    with pytest.raises(InvalidValue, match=r"delay_level=.*whole number"):
        level_delay_ms(level)


@pytest.mark.parametrize("table", [[], (), [1] * (MAX_LEVELS + 1), "1s", {1: 2}, None, 5, {1, 2}])
def test_what_is_no_table_is_refused(table: Any) -> None:
    with pytest.raises(InvalidValue, match=r"delay_levels=.*1 to 100 delays"):
        check_levels(table)


@pytest.mark.parametrize("bad", [0, -1, 1.5, 1.0, True, "1s", None, MAX_LEVEL_S + 1, 10**30])
def test_a_bad_delay_of_a_table_is_named_by_its_level(bad: Any) -> None:
    with pytest.raises(InvalidValue, match=r"level 2=.*whole seconds"):
        check_levels([1, bad, 3])


@pytest.mark.parametrize(
    ("text", "expected"), [("1s", (1,)), ("  2h\t1d \n", (7200, 86_400)), ("30s 1m 30s", (30, 60, 30)), ("007s", (7,))]
)
def test_rocketmqs_text_is_read(text: str, expected: tuple[int, ...]) -> None:
    assert parse_levels(text) == expected


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("1s 5", "delay_levels, level 2", "5"),
        ("1s,5s", "delay_levels, level 1", "1s,5s"),
        ("1s 5x", "delay_levels, level 2", "5x"),
        ("1S", "delay_levels, level 1", "1S"),
        ("1.5s", "delay_levels, level 1", "1.5s"),
        ("-1s", "delay_levels, level 1", "-1s"),
        ("٣s", "delay_levels, level 1", "٣s"),
        ("9" * 5000 + "s", "delay_levels, level 1", "9" * 5000 + "s"),
        ("0s", "delay_levels, level 1", 0),
        ("1s 9999999d", "delay_levels, level 2", 9999999 * 86_400),
        ("", "delay_levels", []),
        (None, "delay_levels", None),
        (b"1s", "delay_levels", b"1s"),
    ],
)
def test_the_bad_part_of_rocketmqs_text_is_named(text: Any, field: str, value: object) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_levels(text)
    assert (raised.value.field, raised.value.value) == (field, value)


# ---- backoff


def test_a_backoff_grows_by_its_factor_up_to_its_maximum() -> None:
    backoff = Backoff()
    assert [backoff.delay_ms(attempt) for attempt in (1, 2, 3, 4)] == [1000, 2000, 4000, 8000]
    assert [backoff.delay_ms(attempt) for attempt in (13, 14, 100, 10**400)] == [4_096_000] + [7_200_000] * 3


def test_whole_factors_and_endless_attempts_take_no_time() -> None:
    assert Backoff(factor=3).delay_ms(10**400) == 7_200_000


@pytest.mark.parametrize(("drawn", "expected"), [(0.0, 4000), (0.5, 3600), (0.999_999, 3200)])
def test_jitter_takes_away_at_most_its_share(drawn: float, expected: int) -> None:
    assert Backoff(base="4s", jitter=0.2, random=lambda: drawn).delay_ms(1) == expected


def test_backoffs_of_the_same_numbers_are_equal_whatever_draws_for_them() -> None:
    assert Backoff(jitter=0.5, random=lambda: 0.0) == Backoff(jitter=0.5)
    assert Backoff(factor=3) != Backoff()
    with pytest.raises(dataclasses.FrozenInstanceError):
        Backoff().factor = 3  # type: ignore[misc]


@given(
    base=st.integers(1, 10**6),
    factor=st.floats(1, 1000),
    extra=st.integers(0, 10**6),
    jitter=st.floats(0, 1),
    attempt=st.integers(1, 10**6),
    drawn=st.floats(0, 1, exclude_max=True),
)
def test_a_delay_stays_between_its_bounds(
    base: int, factor: float, extra: int, jitter: float, attempt: int, drawn: float
) -> None:
    backoff = Backoff(base=base, factor=factor, maximum=base + extra, jitter=jitter, random=lambda: drawn)
    delay = backoff.delay_ms(attempt)
    assert base * 1000 * (1 - jitter) - 1 <= delay <= (base + extra) * 1000
    if not jitter:
        assert delay <= backoff.delay_ms(attempt + 1)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Backoff(base=0), "base"),
        (lambda: Backoff(base="soon"), "base"),
        (lambda: Backoff(base=-1), "base"),
        (lambda: Backoff(maximum="0.5s"), "maximum"),
        (lambda: Backoff(maximum="3654d"), "maximum"),
        (lambda: Backoff(factor=0.9), "factor"),
        (lambda: Backoff(factor=1001), "factor"),
        (lambda: Backoff(factor=10**400), "factor"),
        (lambda: Backoff(factor=math.inf), "factor"),
        (lambda: Backoff(factor=math.nan), "factor"),
        (lambda: Backoff(factor=True), "factor"),
        (lambda: Backoff(factor="2"), "factor"),  # type: ignore[arg-type]
        (lambda: Backoff(jitter=1.1), "jitter"),
        (lambda: Backoff(jitter=-0.1), "jitter"),
        (lambda: Backoff(jitter=math.nan), "jitter"),
        (lambda: Backoff(random=0.5), "random"),  # type: ignore[arg-type]
        (lambda: Backoff().delay_ms(0), "attempt"),
        (lambda: Backoff().delay_ms(True), "attempt"),
        (lambda: Backoff().delay_ms(1.0), "attempt"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_backoff_is_refused_by_name(make: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        make()
    assert raised.value.field == field
