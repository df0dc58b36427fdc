"""Checks the times of schedules in moto's EventBridge Scheduler, and finds the due schedules.

Why: moto stores any schedule (past and malformed `at()`; a group that does not exist is a 500) and never fires one. The
pump fires schedules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from threading import Condition
from typing import Any
from weakref import WeakKeyDictionary

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.scheduler.exceptions import ValidationException
from moto.scheduler.models import EventBridgeSchedulerBackend, Schedule, ScheduleGroup, scheduler_backends

from tidewheel.clock import Clock
from tidewheel.local.emulator.patching import Patches
from tidewheel.model.schedule_expressions import Once, parse


class ScheduleBook:
    """The enabled one-time schedules of the account. Recurring schedules never fire.

    Attributes:
        fired_ms: for which time a schedule has fired.
    """

    def __init__(self, clock: Clock, changed: Condition) -> None:
        self._clock, self._changed = clock, changed
        self.fired_ms: WeakKeyDictionary[Schedule, int] = WeakKeyDictionary()

    def install(self, patches: Patches) -> None:
        """Checks every schedule that is created or changed from now on."""
        backend = EventBridgeSchedulerBackend
        for name in ("create_schedule", "update_schedule"):
            patches.set(backend, name, self._checking(getattr(backend, name)))

    def _checking(self, store: Callable[..., Schedule]) -> Callable[..., Schedule]:
        @wraps(store)
        def checked(backend: EventBridgeSchedulerBackend, **kwargs: Any) -> Schedule:
            self._check(kwargs)
            backend.get_schedule_group(kwargs.get("group_name"))
            schedule = store(backend, **kwargs)
            schedule.state = schedule.state or "ENABLED"
            with self._changed:
                self._changed.notify_all()
            return schedule

        return checked

    def next_due(self) -> tuple[int, Schedule] | None:
        """Returns the time of the earliest schedule that has not fired, and the schedule."""
        enabled = [each for group in _groups() for each in group.schedules.values() if each.state == "ENABLED"]
        times = ((_at_ms(each.schedule_expression, each.schedule_expression_timezone), each) for each in enabled)
        waiting = ((at_ms, each) for at_ms, each in times if at_ms is not None and self.fired_ms.get(each) != at_ms)
        return min(waiting, key=lambda due: due[0], default=None)

    def fired(self, schedule: Schedule) -> None:
        """Notes that a schedule has fired. Deletes it if configured so."""
        at_ms = _at_ms(schedule.schedule_expression, schedule.schedule_expression_timezone)
        if at_ms is not None:
            self.fired_ms[schedule] = at_ms
        if schedule.action_after_completion == "DELETE":
            for group in _groups():
                if group.schedules.get(schedule.name) is schedule:
                    group.delete_schedule(schedule.name)

    def _check(self, asked: dict[str, Any]) -> None:
        try:
            expression = parse(asked["schedule_expression"], asked.get("schedule_expression_timezone"))
        except ValueError as error:
            raise ValidationException(f"Invalid Schedule Expression: {error}") from None
        if isinstance(expression, Once) and expression.at_ms < self._clock.now_ms():
            raise ValidationException(
                f"Invalid Schedule Expression {asked['schedule_expression']}: the time is in the past"
            )


def _groups() -> list[ScheduleGroup]:
    backends = scheduler_backends[DEFAULT_ACCOUNT_ID].values()
    return [group for backend in backends for group in backend.schedule_groups.values()]


@lru_cache(maxsize=10_000)
def _at_ms(expression: str, timezone: str) -> int | None:
    """Returns when a schedule fires. None for a rate."""
    parsed = parse(expression, timezone)
    return parsed.at_ms if isinstance(parsed, Once) else None
