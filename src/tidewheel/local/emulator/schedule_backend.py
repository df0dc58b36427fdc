"""Adds AWS's checks, and the order of due schedules, to moto's EventBridge Scheduler.

Why: moto stores any schedule (past and malformed `at()`, names of any length; a group that does not exist is a 500)
and never fires one. The pump fires schedules. This module keeps one-time schedules ordered by time.
"""

from __future__ import annotations

import heapq
import itertools
import re
from threading import Condition
from typing import Any

from moto.scheduler.exceptions import ValidationException
from moto.scheduler.models import EventBridgeSchedulerBackend, Schedule, ScheduleGroup

from tidewheel.clock import Clock
from tidewheel.local.emulator.patching import Patches
from tidewheel.model.schedule_expressions import Every, Once, parse

_NAME = re.compile(r"[0-9a-zA-Z-_.]{1,64}\Z")
_MAX_INPUT_BYTES = 256 * 1024


class ScheduleBook:
    """Holds all enabled schedules of the account, by time. Recurring schedules never fire."""

    def __init__(self, clock: Clock, changed: Condition) -> None:
        self._clock = clock
        self._changed = changed
        self._numbers = itertools.count()
        self._heap: list[tuple[int, int, Schedule]] = []
        self._at_ms: dict[int, int] = {}  # by id() of waiting schedules
        self._groups: dict[str, ScheduleGroup] = {}

    def install(self, patches: Patches) -> None:
        """Checks and records every schedule that is created, changed or deleted from now on."""
        backend = EventBridgeSchedulerBackend
        create, update, delete = backend.create_schedule, backend.update_schedule, backend.delete_schedule

        def create_schedule(self_: EventBridgeSchedulerBackend, **kwargs: Any) -> Schedule:
            expression = self._checked(kwargs)
            group = self_.get_schedule_group(kwargs.get("group_name"))
            schedule = create(self_, **kwargs)
            self._note(group, schedule, expression)
            return schedule

        def update_schedule(self_: EventBridgeSchedulerBackend, **kwargs: Any) -> Schedule:
            expression = self._checked(kwargs)
            group = self_.get_schedule_group(kwargs.get("group_name"))
            schedule = update(self_, **kwargs)
            schedule.state = schedule.state or "ENABLED"
            self._forget(schedule)
            self._note(group, schedule, expression)
            return schedule

        def delete_schedule(self_: EventBridgeSchedulerBackend, group_name: str | None, name: str) -> None:
            schedule = self_.get_schedule(group_name, name)
            delete(self_, group_name, name)
            self._forget(schedule)

        patches.set(backend, "create_schedule", create_schedule)
        patches.set(backend, "update_schedule", update_schedule)
        patches.set(backend, "delete_schedule", delete_schedule)

    def next_due(self) -> tuple[int, Schedule] | None:
        """Returns the time and the last version of the earliest one-time schedule that still waits."""
        while self._heap:
            at_ms, _, schedule = self._heap[0]
            if self._at_ms.get(id(schedule)) == at_ms:
                return at_ms, schedule
            heapq.heappop(self._heap)
        return None

    def fired(self, schedule: Schedule) -> None:
        """Removes a one-time schedule from the book. Deletes it if configured so."""
        self._forget(schedule)
        if schedule.action_after_completion == "DELETE":
            group = self._groups[schedule.group_name]
            if group.schedules.get(schedule.name) is schedule:
                group.delete_schedule(schedule.name)

    def _checked(self, asked: dict[str, Any]) -> Once | Every:
        name = asked["name"]
        if not _NAME.match(name):
            raise ValidationException(
                f"1 validation error detected: Value '{name}' at 'name' failed to satisfy constraint: "
                "Member must have length less than or equal to 64 and match [0-9a-zA-Z-_.]+"
            )
        try:
            expression = parse(asked["schedule_expression"], asked.get("schedule_expression_timezone"))
        except ValueError as error:
            raise ValidationException(f"Invalid Schedule Expression: {error}") from None
        if isinstance(expression, Once) and expression.at_ms < self._clock.now_ms():
            raise ValidationException(
                f"Invalid Schedule Expression {asked['schedule_expression']}: the time is in the past"
            )
        if len((asked["target"] or {}).get("Input") or "") > _MAX_INPUT_BYTES:
            raise ValidationException("Target.Input is longer than 256 KiB")
        return expression

    def _note(self, group: ScheduleGroup, schedule: Schedule, expression: Once | Every) -> None:
        if schedule.state != "ENABLED":
            return
        self._groups[group.name] = group
        if isinstance(expression, Once):
            self._at_ms[id(schedule)] = expression.at_ms
            heapq.heappush(self._heap, (expression.at_ms, next(self._numbers), schedule))
        with self._changed:
            self._changed.notify_all()

    def _forget(self, schedule: Schedule) -> None:
        self._at_ms.pop(id(schedule), None)
