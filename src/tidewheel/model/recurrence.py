"""Computes the due times of recurring messages from a cron expression or a fixed rate.

**cron** has five fields, read in a time zone: minute, hour, day of month, month, day of week. They are the fields of
Debian's cron, with names (`MON-FRI`, `JAN`), ranges, steps and lists, and also `L` and `LW` (last day, last weekday of
the month), `5L` (last Friday) and `MON#2` (second Monday). If day of month or day of week starts with `*`, both must
match. Otherwise either of them must match. Clock changes are handled as in Debian's cron, and the result depends on the
form of the expression:

| expression | when clocks go forward (a gap) | when clocks go back (an overlap) |
|---|---|---|
| fixed: minute and hour do not start with `*` | times in the gap are due once, all at its end | due in the first pass |
| interval: minute or hour starts with `*` | times in the gap are left out | due in both passes |

So `30 2 * * *` is due once every day, and `*/15 * * * *` or `30 * * * *` follow real time. (Where clocks change by half
an hour, as on Lord Howe Island, `15 * * * *` has no 02:15 on the day of the gap.) In the overlap a fixed `30 0-23 * *
*` is not due for an hour. For every hour write `30 * * * *`.

**every** is a fixed rate from an anchor: anchor + k * period, without drift, whatever clocks do.

All times are UTC in milliseconds. They fall on whole seconds, but a window shifts all times of a recurring message by
the same milliseconds (`rule_of`). No time is before the rule's start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from cronsim.cronsim import Field

from tidewheel.errors import InvalidValue
from tidewheel.model.duration import MAX_DELAY_MS, delay_ms
from tidewheel.model.message import shift_ms
from tidewheel.model.recurring import Recurring
from tidewheel.model.untrusted import is_whole

MIN_PERIOD_S = 60
"""Cron's granularity, and the shortest period of a fixed rate."""
MAX_PERIOD_S = MAX_DELAY_MS // 1000

_MAX_CRON_CHARACTERS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END_MS = (datetime(9000, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
"""datetime ends with the year 9999, and cron looks ahead from this time."""
_FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L or LW",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 (0 and 7 are Sunday), SUN-SAT, 5L or MON#2",
}
_HOW_CRON = "give five fields: minute hour day-of-month month day-of-week, such as '0 9 * * MON-FRI'"
_HOW_TIME = "give UTC milliseconds since 1970 as a whole number"
_NOT_ZONES = ("posix", "right/", "localtime", "Factory")
"""Files beside the zones: copies, zones that count leap seconds, and this machine's own setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A checked rule of due times, with either cron or period_s.

    `parse_rule` makes a rule from a caller's arguments.

    Attributes:
        cron: five fields, in the rule's time zone.
        period_s: the fixed rate, in seconds.
        timezone: IANA name of the zone of cron's fields. A fixed rate does not use a zone.
        start_ms: no time is due before the start. Also the anchor of a fixed rate, and so its first time. A whole
            second.
        shift_ms: added to each time. Not in the JSON.

    Raises:
        InvalidValue: any of the values cannot be used.
    """

    cron: str | None = None
    period_s: int | None = None
    timezone: str = "UTC"
    start_ms: int
    shift_ms: int = 0

    def __post_init__(self) -> None:
        if (self.cron is None) == (self.period_s is None):
            raise InvalidValue("cron, every", (self.cron, self.period_s), "give exactly one of the two")
        _check_ms("start_ms", self.start_ms)
        _check_ms("shift_ms", self.shift_ms)
        if self.start_ms % 1000:
            raise InvalidValue("start_ms", self.start_ms, "give a whole second")
        _zone(self.timezone)
        if self.cron is not None:
            _check_cron(self.cron)
        elif type(self.period_s) is not int or not MIN_PERIOD_S <= self.period_s <= MAX_PERIOD_S:
            raise InvalidValue("every", self.period_s, "give whole seconds from 60 to ten years (3653 days)")

    def next_after(self, at_ms: int) -> int | None:
        """Returns the first due time strictly after at_ms.

        Returns None if no time is due within fifty years.
        """
        after_ms = max(at_ms - self.shift_ms, self.start_ms - 1)
        if self.period_s is not None:
            period_ms = self.period_s * 1000
            return self.start_ms + ((after_ms - self.start_ms) // period_ms + 1) * period_ms + self.shift_ms
        assert self.cron is not None
        next_s = _next_fixed_s if _is_fixed(self.cron) else _next_interval_s
        due_s = next_s(self.cron, _zone(self.timezone), after_ms // 1000)
        return None if due_s is None else due_s * 1000 + self.shift_ms

    def between(self, from_ms: int, until_ms: int, limit: int) -> list[int]:
        """Returns at most `limit` due times from from_ms until before until_ms."""
        return list(islice(self.times(from_ms, until_ms), limit))

    def times(self, from_ms: int, until_ms: int) -> Iterator[int]:
        """Yields the due times from from_ms until before until_ms."""
        due_ms = self.next_after(from_ms - 1)
        while due_ms is not None and due_ms < until_ms:
            yield due_ms
            due_ms = self.next_after(due_ms)

    def to_json(self) -> str:
        """Returns the rule as JSON, equal for equal rules."""
        present = {name: value for name, value in asdict(self).items() if value is not None and name != "shift_ms"}
        return json.dumps(present, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Rule:
        """Reads the result of to_json.

        Raises:
            InvalidValue: the text is not such JSON, or this machine does not know the zone.
        """
        try:
            fields = json.loads(text)
            return cls(**fields)
        except InvalidValue:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValue("recurrence", text, f"not what Rule.to_json writes ({error})") from None


def rule_of(recurring: Recurring) -> Rule:
    """Returns a recurring message's rule, shifted within its window by a hash of topic and name.

    Raises:
        InvalidValue: the rule or the window cannot be used.
    """
    rule = Rule.from_json(recurring.rule)
    if not recurring.window_ms:
        return rule
    shifted_ms = shift_ms(recurring.window_ms, topic=recurring.topic, key=recurring.name, random_bits=0)
    return replace(rule, shift_ms=shifted_ms)


def parse_rule(
    cron: str | None, every: float | timedelta | str | None, timezone: str = "UTC", *, start_ms: int
) -> Rule:
    """Returns the rule for a caller's arguments.

    Args:
        cron: five fields, such as "0 9 * * MON-FRI"; or None.
        every: a fixed rate instead: seconds, a timedelta, or text such as "1h 30m". Whole seconds, from a minute to ten
            years.
        timezone: IANA name of the zone of cron's fields.
        start_ms: the first time that may be due, and the anchor of a fixed rate. Rounded up to a whole second.

    Raises:
        InvalidValue: both or none of cron and every, an unknown zone, a bad expression, or an expression that is never
            due.
    """
    if (cron is None) == (every is None):
        raise InvalidValue("cron, every", (cron, every), "give exactly one of the two")
    start_ms = -(-_check_ms("start_ms", start_ms) // 1000) * 1000
    if every is not None:
        period_ms = delay_ms(every, "every")
        if period_ms % 1000 or period_ms < MIN_PERIOD_S * 1000:
            raise InvalidValue("every", every, f"give whole seconds, at least {MIN_PERIOD_S}")
        return Rule(period_s=period_ms // 1000, timezone=timezone, start_ms=start_ms)
    if isinstance(cron, str):
        cron = " ".join(cron.split())
    rule = Rule(cron=cron, timezone=timezone, start_ms=start_ms)
    if rule.next_after(start_ms) is None:
        raise InvalidValue("cron", cron, "never due in the next fifty years; correct its days or months")
    return rule


# ---- checks


def _check_ms(field: str, value: int) -> int:
    if not is_whole(value) or not 0 <= value <= _END_MS:
        raise InvalidValue(field, value, _HOW_TIME)
    return value


def _zone(name: str) -> ZoneInfo:
    how = "give an IANA time zone such as 'Europe/Berlin', 'America/New_York' or 'UTC'"
    if not isinstance(name, str) or name.startswith(_NOT_ZONES):
        raise InvalidValue("timezone", name, how)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidValue("timezone", name, f"not known; {how}") from None


def _check_cron(cron: object) -> None:
    if not isinstance(cron, str) or not cron.isascii() or len(cron) > _MAX_CRON_CHARACTERS:
        raise InvalidValue("cron", cron, _HOW_CRON)
    parts = cron.split()
    if len(parts) != len(_FIELDS):
        raise InvalidValue("cron", cron, f"it has {len(parts)} fields; {_HOW_CRON}")
    try:
        _simulate(cron)
    except CronSimError:
        for (name, values), part, alone in zip(_FIELDS.items(), parts, _each_alone(parts), strict=True):
            try:
                _simulate(alone)
            except CronSimError:
                advice = (
                    f"the {name} field {part!r} is wrong; use {values}, or *, lists (1,2), ranges (1-5), steps (*/2)"
                )
                raise InvalidValue("cron", cron, advice) from None
        raise InvalidValue("cron", cron, "never due: none of its months has such a day") from None


def _each_alone(parts: list[str]) -> list[str]:
    """Returns for each field an expression with * in all other fields."""
    return [" ".join(part if j == i else "*" for j in range(len(parts))) for i, part in enumerate(parts)]


# ---- cron in a time zone
#
# CronSim is asked about wall clocks only, without a zone. Its own treatment of zones gives times in the past when it
# starts inside an overlap, and loses times where clocks change by half an hour.


def _is_fixed(cron: str) -> bool:
    minute, hour = cron.split()[:2]
    return not minute.startswith("*") and not hour.startswith("*")


def _simulate(cron: str, after: datetime = datetime(2000, 1, 1)) -> CronSim:
    fields = zip(islice(Field, 1, None), cron.upper().split(), strict=True)
    return CronSim(" ".join(",".join(_term(field, each) for each in part.split(",")) for field, part in fields), after)


def _term(field: Field, term: str) -> str:
    """Returns a term of a field in CronSim's syntax, where `a/n` is written `a-a/n`."""
    values, _, step = term.partition("/")
    first, dash, last = values.partition("-")
    single = dash and step.isdigit() and int(step) and field.int(first) == field.int(last)
    return first if single else term


def _next_fixed_s(cron: str, zone: ZoneInfo, after_s: int) -> int | None:
    for wall in _simulate(cron, _wall(after_s, zone).replace(tzinfo=None)):
        instants = _instants_s(wall, zone)
        due_s = instants[0] if instants else _gap_end_s(wall, zone)
        if due_s > after_s:
            return due_s
    return None


def _next_interval_s(cron: str, zone: ZoneInfo, after_s: int) -> int | None:
    now = _wall(after_s, zone)
    # In the first pass of an overlap, clocks will show all times since the overlap's start again.
    shown_again = _offset(now) - _offset(now.replace(fold=1)) if not now.fold else timedelta(0)
    now = now.replace(tzinfo=None)
    best_s: int | None = None
    for wall in _simulate(cron, now - shown_again):
        later = [due_s for due_s in _instants_s(wall, zone) if due_s > after_s]
        best_s = min([*later, best_s] if best_s is not None else later, default=None)
        if best_s is not None and wall > now:
            break
    return best_s


def _wall(at_s: int, zone: ZoneInfo) -> datetime:
    return (_EPOCH + timedelta(seconds=at_s)).astimezone(zone)


def _offset(wall: datetime) -> timedelta:
    offset = wall.utcoffset()
    assert offset is not None
    return offset


def _offsets(wall: datetime, zone: ZoneInfo) -> tuple[timedelta, timedelta]:
    """Returns the zone's offsets for both readings of a wall clock.

    In a gap the first offset is the smaller.
    """
    return _offset(wall.replace(tzinfo=zone, fold=0)), _offset(wall.replace(tzinfo=zone, fold=1))


def _since_epoch_s(wall: datetime, offset: timedelta) -> int:
    return (wall.replace(tzinfo=UTC) - offset - _EPOCH) // timedelta(seconds=1)


def _instants_s(wall: datetime, zone: ZoneInfo) -> list[int]:
    """Returns when clocks show this wall time, in seconds since 1970.

    Once; twice in an overlap; never in a gap.
    """
    first, second = _offsets(wall, zone)
    if first < second:
        return []
    return sorted({_since_epoch_s(wall, first), _since_epoch_s(wall, second)})


def _gap_end_s(wall: datetime, zone: ZoneInfo) -> int:
    """Returns when the gap around a wall time ends, in seconds since 1970."""
    first, second = _offsets(wall, zone)
    before_s, end_s = _since_epoch_s(wall, second), _since_epoch_s(wall, first)
    while end_s - before_s > 1:
        middle_s = (before_s + end_s) // 2
        if _offset(_wall(middle_s, zone)) == second:
            end_s = middle_s
        else:
            before_s = middle_s
    return end_s
