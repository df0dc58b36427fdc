"""Makes messages of EventBridge Scheduler's schedules, from the output of `aws scheduler get-schedule`.

All that a target gets is its Input, so a schedule is taken whatever its target is, unless other parameters would be
lost. docs/from-eventbridge-scheduler.md tells what becomes of each field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from tidewheel.clock import utc
from tidewheel.errors import InvalidValue
from tidewheel.model.duration import at_ms, read_time
from tidewheel.model.message import IdSource, Message
from tidewheel.model.recurrence import parse_rule
from tidewheel.model.schedule_expressions import Once, parse
from tidewheel.model.untrusted import json_of
from tidewheel.model.validation import check_message

_HOW = "give the output of `aws scheduler get-schedule`"
_CARRIED = ("Arn", "RoleArn", "Input", "RetryPolicy", "DeadLetterConfig", "SqsParameters")
_SEND_MESSAGE = ("QueueUrl", "MessageBody", "MessageGroupId")
_CONTEXT = re.compile(r"<aws\.scheduler\.[a-z-]+>")
_DEFAULT_AGE_S = 86_400
"""MaximumEventAgeInSeconds of a schedule that does not set it, and the most that EventBridge takes."""
_Kind = TypeVar("_Kind")
_VALUE = re.compile(r"\S")
_WITH_YEAR = 6
"""Fields of a cron expression. The last is optional."""
_WEEKDAY = re.compile(r"(?<![#\d])\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledMessage:
    """What a schedule becomes.

    Attributes:
        key: `<GroupName>/<Name>`.
        target: the ARN of the schedule's target.
        message: the message; of a one-time schedule, with key and due time.
        recurring: the arguments of `send_recurring` for its times; None: the schedule is one-time.
    """

    key: str
    target: str
    message: Message
    recurring: Mapping[str, Any] | None

    def document(self) -> dict[str, Any]:
        """Returns key, target, and the times and the group that the schedule gives."""
        options = {name: getattr(self.message, name) for name in ("deliver_at", "window", "expires_in", "group")}
        given = {name: value for name, value in {**(self.recurring or {}), **options}.items() if value is not None}
        return {"key": self.key, "target": self.target, **given}

    def __str__(self) -> str:
        """Returns key, times and target, separated by tabs."""
        shown = [f"{name} {value}" for name, value in self.document().items() if name not in ("key", "target")]
        return f"{self.key}\t{', '.join(shown)}\t{self.target}"


def schedules_in(text: str) -> Iterator[Any]:
    """Yields the schedules of a text: JSON objects one after the other, or lists of these.

    Raises:
        ValueError, RecursionError: the rest of the text is not JSON.
    """
    decoder, at = json.JSONDecoder(), 0
    while begin := _VALUE.search(text, at):
        found, at = decoder.raw_decode(text, begin.start())
        yield from found if isinstance(found, list) else [found]


def key_of(schedule: Any) -> str:
    """Returns the message key of a schedule.

    Raises:
        InvalidValue: it is no schedule.
    """
    if not isinstance(schedule, dict):
        raise InvalidValue("schedule", schedule, _HOW)
    return f"{_get(schedule, 'GroupName', str, 'default')}/{_get(schedule, 'Name', str)}"


def scheduled_message(schedule: Any, now_ms: int, from_ms: int | None = None) -> ScheduledMessage:
    """Returns what a schedule becomes.

    Args:
        schedule: the output of get-schedule.
        now_ms: the current time.
        from_ms: take only what is due from this time on; None: from now on.

    Raises:
        InvalidValue, ValueError: the schedule cannot be taken.
    """
    if (state := schedule.get("State") or "ENABLED") != "ENABLED":
        raise InvalidValue("State", state, "only enabled schedules are taken")
    key, target = key_of(schedule), _get(schedule, "Target", dict)
    body, group = _content(target)
    age_s = _get(_get(target, "RetryPolicy", dict, {}), "MaximumEventAgeInSeconds", int, _DEFAULT_AGE_S)
    expires_in = age_s if age_s < _DEFAULT_AGE_S else None
    minutes = _get(_get(schedule, "FlexibleTimeWindow", dict, {}), "MaximumWindowInMinutes", int, 0)
    message = Message(body=body, group=group, expires_in=expires_in, window=f"{minutes}m" if minutes else None)
    times = _times(schedule, now_ms, from_ms)
    if isinstance(times, datetime):
        message = replace(message, deliver_at=times, key=key)
    check_message(message, IdSource(), now_ms, large=True)
    recurring = None if isinstance(times, datetime) else times
    return ScheduledMessage(key=key, target=target["Arn"], message=message, recurring=recurring)


def _content(target: dict[str, Any]) -> tuple[str, str | None]:
    """Returns the body and the group."""
    _check_carried("Target", target, _CARRIED)
    text, group = _get(target, "Input", str), _get(target, "SqsParameters", dict, {}).get("MessageGroupId")
    if found := _CONTEXT.search(text):
        raise InvalidValue("Input", found[0], "only EventBridge replaces this; let the consumer read the due time")
    call = _get(target, "Arn", str).partition(":aws-sdk:")[2]
    if not call:
        return text, group
    if call != "sqs:sendMessage":
        raise InvalidValue("Target", call, "of API calls only sqs:sendMessage is taken")
    try:
        sent = json_of(text)
    except ValueError:
        sent = text
    _check_carried("Input", _get({"Input": sent}, "Input", dict), _SEND_MESSAGE)
    return _get(sent, "MessageBody", str), sent.get("MessageGroupId")


def _check_carried(field: str, given: dict[str, Any], carried: tuple[str, ...]) -> None:
    if others := [name for name in given if name not in carried]:
        raise InvalidValue(field, ", ".join(others), "a message does not carry this")


# ---- times


def _times(schedule: dict[str, Any], now_ms: int, from_ms: int | None) -> datetime | dict[str, Any]:
    """Returns the due time, or the times of a recurring message as arguments of `send_recurring`."""
    expression = _get(schedule, "ScheduleExpression", str)
    zone = _get(schedule, "ScheduleExpressionTimezone", str, "UTC")
    begin_ms = _date_ms(schedule, "StartDate")
    if expression.startswith("cron("):
        given: dict[str, Any] = {"cron": _cron(expression), "timezone": zone}
        start_ms = max((each for each in (begin_ms, from_ms) if each is not None), default=None)
    else:
        times = parse(expression, zone)
        if isinstance(times, Once):
            return _due(expression, zone, times.at_ms, max(now_ms + 1, from_ms or 0))
        given = {"every": times.interval_ms // 1000}
        anchor_ms = begin_ms or _date_ms(schedule, "CreationDate") or 0
        start_ms = times.first_at_or_after_ms(anchor_ms - times.interval_ms, max(anchor_ms, from_ms or 0))
    if (end := schedule.get("EndDate")) is not None:
        raise InvalidValue("EndDate", end, "a recurring message has no end. Create one yourself, and cancel it by then")
    parse_rule(given.get("cron"), given.get("every"), zone, start_ms=now_ms if start_ms is None else start_ms)
    return given if start_ms is None else {**given, "start": utc(start_ms)}


def _due(expression: str, zone: str, due_ms: int, from_ms: int) -> datetime:
    due = utc(due_ms)
    if f"at({due.astimezone(ZoneInfo(zone)):%Y-%m-%dT%H:%M:%S})" != expression:
        raise InvalidValue("ScheduleExpression", expression, f"the clocks of {zone} skip this time")
    if due_ms < from_ms:
        how = f"it is due before {utc(from_ms).isoformat(timespec='seconds')}"
        raise InvalidValue("ScheduleExpression", expression, how)
    return due


def _cron(expression: str) -> str:
    """Returns the five fields of Debian's cron. EventBridge's weekdays begin with 1 on Sunday."""
    fields = expression.removeprefix("cron(").removesuffix(")").split()
    if len(fields) == _WITH_YEAR and fields.pop() != "*":
        raise InvalidValue("ScheduleExpression", expression, "a recurring message has no years")
    if len(fields) != _WITH_YEAR - 1 or (fields[2] == "?") == (fields[4] == "?") or "/" in fields[4]:
        raise InvalidValue("ScheduleExpression", expression, "it is not a cron expression of EventBridge")
    fields[4] = _WEEKDAY.sub(lambda number: str(int(number[0]) - 1), fields[4])
    return " ".join(fields).replace("?", "*")


def _date_ms(schedule: dict[str, Any], name: str) -> int | None:
    """Returns a date of get-schedule: ISO 8601 text, or Unix seconds."""
    given: Any = schedule.get(name)
    given = read_time(given) or given if isinstance(given, str) else given
    return None if given is None else at_ms(name, given)


def _get(fields: dict[str, Any], name: str, kind: type[_Kind], default: _Kind | None = None) -> _Kind:
    found = default if fields.get(name) is None else fields[name]
    if not isinstance(found, kind):
        raise InvalidValue(name, found, _HOW)
    return found
