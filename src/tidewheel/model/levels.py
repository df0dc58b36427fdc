"""Defines delay levels (RocketMQ's numbers for delays) and retry backoff."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from tidewheel.errors import InvalidValue
from tidewheel.model.duration import MAX_DELAY_MS, delay_ms
from tidewheel.model.untrusted import check_whole, is_whole

DEFAULT_LEVELS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""RocketMQ's `messageDelayLevel`: 1s 5s 10s 30s, 1m to 10m, 20m 30m 1h 2h."""

MAX_LEVELS = 100
_MAX_LEVEL_S = MAX_DELAY_MS // 1000
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PART = re.compile(r"(\d{1,12})([smhd])", re.ASCII)
_MAX_FACTOR = 1000
_MOST_STEPS = 1 << 52
"""Higher attempts make no difference to the delay, but overflow a float."""


def level_delay_ms(level: int, table: Sequence[int] | None = None) -> int:
    """Returns the delay of a level in milliseconds.

    Args:
        level: 0 is now. From 1 on, a place in the table. A level above the table means the last place, as in RocketMQ.
        table: seconds of level 1, 2, ... None: RocketMQ's eighteen levels.

    Raises:
        InvalidValue: the level is negative or not a whole number.
    """
    if not is_whole(level) or level < 0:
        how = "give a whole number: 0 is now, 1 the first level of the topic's table"
        raise InvalidValue("delay_level", level, how)
    if level == 0:
        return 0
    levels = DEFAULT_LEVELS_S if table is None else table
    return levels[min(level, len(levels)) - 1] * 1000


def check_levels(table: Sequence[int], field: str = "delay_levels") -> tuple[int, ...]:
    """Returns a topic's own valid table of levels.

    The delays need not rise. RocketMQ takes them in any order, and a level's meaning is its place alone.

    Args:
        table: 1 to 100 delays in whole seconds, each above 0 and at most ten years.
        field: the argument's name for the error.

    Raises:
        InvalidValue: the table is empty, too long, or holds an invalid delay.
    """
    if not isinstance(table, (list, tuple)) or not 1 <= len(table) <= MAX_LEVELS:
        raise InvalidValue(field, table, f"give a list of 1 to {MAX_LEVELS} delays in whole seconds")
    for number, delay_s in enumerate(table, 1):
        if not is_whole(delay_s) or not 0 < delay_s <= _MAX_LEVEL_S:
            advice = f"give whole seconds above 0, at most ten years ({_MAX_LEVEL_S}); 0 is the level of no delay"
            raise InvalidValue(f"{field}, level {number}", delay_s, advice)
    return tuple(table)


def parse_levels(text: str, field: str = "delay_levels") -> tuple[int, ...]:
    """Returns the seconds of each level from RocketMQ's text, such as "1s 5s 10s".

    Args:
        text: a RocketMQ broker's `messageDelayLevel`, numbers with the unit s, m, h or d.
        field: the argument's name for the error.

    Raises:
        InvalidValue: the text has another form, or check_levels refuses the table.
    """
    if not isinstance(text, str):
        raise InvalidValue(field, text, "give text such as '1s 5s 10s 30s 1m 2m 1h'")
    table: list[int] = []
    for part in text.split():
        match = _PART.fullmatch(part)
        if match is None:
            advice = "give whole numbers with the unit s, m, h or d, such as '30s', with spaces between"
            raise InvalidValue(f"{field}, level {len(table) + 1}", part, advice)
        table.append(int(match[1]) * _UNITS_S[match[2]])
    return check_levels(table, field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Computes retry delays, growing by a factor.

    Attempt n waits `base * factor ** (n - 1)`, at most `maximum`. Jitter then subtracts a random share, so that work
    that failed together is not retried together. No delay is above `maximum` or below `1 - jitter` of its full length.

    Attributes:
        base: delay of the first retry: seconds, a timedelta, or text such as "1s". Above 0.
        factor: each delay is this many times the delay before, 1 to 1000.
        maximum: the longest delay, in the same forms as base.
        jitter: the share of a delay that may be subtracted, 0 to 1.
        random: returns a float from 0 to below 1.

    Raises:
        InvalidValue: one of the values cannot be used.
    """

    base: float | timedelta | str = "1s"
    factor: float = 2.0
    maximum: float | timedelta | str = "2h"
    jitter: float = 0.0
    random: Callable[[], float] = field(default=random.random, compare=False, repr=False)

    def __post_init__(self) -> None:
        base_ms = delay_ms(self.base, "base")
        if base_ms == 0:
            raise InvalidValue("base", self.base, "give a delay above 0; to retry at once use level 0")
        if delay_ms(self.maximum, "maximum") < base_ms:
            raise InvalidValue("maximum", self.maximum, f"give at least base, {self.base!r}")
        if not _is_number(self.factor) or not 1 <= self.factor <= _MAX_FACTOR:
            raise InvalidValue("factor", self.factor, f"give a number from 1 to {_MAX_FACTOR}, such as 2")
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise InvalidValue("jitter", self.jitter, "give a share from 0 to 1, such as 0.2")
        if not callable(self.random):
            raise InvalidValue("random", self.random, "give a function that returns a float from 0 to below 1")

    def delay_ms(self, attempt: int) -> int:
        """Returns the wait before a retry, in milliseconds.

        Args:
            attempt: 1 for the first retry.

        Raises:
            InvalidValue: attempt is not a whole number of at least 1.
        """
        check_whole("attempt", attempt, 1)
        longest = float(delay_ms(self.maximum))
        with suppress(OverflowError):
            longest = min(longest, delay_ms(self.base) * float(self.factor) ** min(attempt - 1, _MOST_STEPS))
        if self.jitter:
            longest -= longest * self.jitter * self.random()
        return round(longest)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
