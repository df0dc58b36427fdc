"""Simulates EventBridge Scheduler. Keeps schedules, validates requests and returns due schedules."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.artifact.http_service import JSON, Request, Response
from tests.artifact.moved_clock import MovedClock
from tidewheel.model.schedule_expressions import Every, Once, parse

PRECISION_MS = 60_000
"""EventBridge Scheduler calls a target within a minute after its time."""
_NAME = re.compile(r"[0-9a-zA-Z-_.]{1,64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule with target function, event and time."""

    group: str
    name: str
    expression: Once | Every
    created_ms: int
    target_arn: str
    event: Any
    document: Mapping[str, Any]

    def first_ms(self, after_ms: int) -> int:
        """Returns the first firing after a time. A one-time schedule fires up to a minute late."""
        if isinstance(self.expression, Every):
            return self.expression.first_at_or_after_ms(self.created_ms, after_ms + 1)
        return self.expression.at_ms + zlib.crc32(self.name.encode()) % PRECISION_MS


class Refused(Exception):
    """A request was refused. The arguments are the error's code, the HTTP status and the message."""


class Schedules:
    """All schedules of the account.

    Attributes:
        to_lose: How many of the next one-time schedules vanish instead of firing.
        lost: Those that vanished.
    """

    def __init__(self, clock: MovedClock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._schedules: dict[tuple[str, str], Schedule] = {}
        self._groups = {"default"}
        self._fires_ms: dict[tuple[str, str], int] = {}
        self.to_lose = 0
        self.lost: list[Schedule] = []

    def create_group(self, name: str) -> None:
        """Makes a schedule group."""
        with self._lock:
            self._groups.add(name)

    def create(self, name: str, document: Mapping[str, Any]) -> None:
        """Makes a schedule.

        Raises:
            Refused: The name is taken or not a name, the group is unknown, or the expression is none or in the past.
        """
        group = document.get("GroupName", "default")
        now_ms = self._clock.now_ms()
        target = document["Target"]
        if not _NAME.match(name):
            raise Refused("ValidationException", 400, f"{name!r} is not a name of a schedule")
        try:
            expression = parse(document["ScheduleExpression"], document.get("ScheduleExpressionTimezone"))
        except ValueError as error:
            raise Refused("ValidationException", 400, str(error)) from None
        if isinstance(expression, Once) and expression.at_ms < now_ms:
            raise Refused("ValidationException", 400, f"{document['ScheduleExpression']} is in the past")
        schedule = Schedule(
            group=group,
            name=name,
            expression=expression,
            created_ms=now_ms,
            target_arn=target["Arn"],
            event=json.loads(target.get("Input") or "{}"),
            document=document,
        )
        with self._lock:
            if group not in self._groups:
                raise Refused("ResourceNotFoundException", 404, f"there is no schedule group {group}")
            if (group, name) in self._schedules:
                raise Refused("ConflictException", 409, f"schedule {name} exists")
            self._schedules[group, name] = schedule
            self._fires_ms[group, name] = schedule.first_ms(now_ms)

    def next_ms(self) -> int | None:
        """The time when the next schedule fires, or None without any."""
        with self._lock:
            return min(self._fires_ms.values(), default=None)

    def take_due(self) -> list[Schedule]:
        """Takes all due schedules. A recurring schedule fires again, and a one-time schedule is deleted."""
        now_ms = self._clock.now_ms()
        fired = []
        with self._lock:
            for key in sorted((key for key, at_ms in self._fires_ms.items() if at_ms <= now_ms), key=str):
                schedule = self._schedules[key]
                if isinstance(schedule.expression, Every):
                    self._fires_ms[key] = schedule.first_ms(now_ms)
                else:
                    del self._fires_ms[key], self._schedules[key]
                    if self.to_lose > 0:
                        self.to_lose -= 1
                        self.lost.append(schedule)
                        continue
                fired.append(schedule)
        return fired

    def answer(self, request: Request) -> Response:
        """Answers a request of the service's API."""
        try:
            return Response(headers=JSON, body=json.dumps(self._answer(request)).encode())
        except Refused as refused:
            code, status, message = refused.args
            body = json.dumps({"Message": message}).encode()
            return Response(status=status, headers={**JSON, "x-amzn-ErrorType": code}, body=body)

    def _answer(self, request: Request) -> dict[str, Any]:
        url = urlsplit(request.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        name = unquote(url.path.removeprefix("/schedules").removeprefix("/"))
        if request.method == "POST":
            self.create(name, json.loads(request.body))
            return {"ScheduleArn": f"arn:aws:scheduler:::schedule/{name}"}
        if request.method == "DELETE":
            return self._delete((asked.get("groupName", "default"), name))
        if request.method == "GET" and not name:
            return self._list(asked)
        raise Refused("ValidationException", 400, f"{request.method} {request.path} is not served here")

    def _delete(self, key: tuple[str, str]) -> dict[str, Any]:
        with self._lock:
            if self._schedules.pop(key, None) is None:
                raise Refused("ResourceNotFoundException", 404, f"there is no schedule {key[1]}")
            del self._fires_ms[key]
        return {}

    def _list(self, asked: Mapping[str, str]) -> dict[str, Any]:
        with self._lock:
            found = [
                {"Name": each.name, "GroupName": each.group, "State": "ENABLED"}
                for each in self._schedules.values()
                if each.group == asked.get("ScheduleGroup", each.group)
                and each.name.startswith(asked.get("NamePrefix", ""))
            ]
        return {"Schedules": found}
