"""Makes invocations of schedules, sweeps and requested starts in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tidewheel.clock import Clock
from tidewheel.flows.ports import MergeSize
from tidewheel.local.memory_functions import MemoryFunctions
from tidewheel.local.pump import Invocation, Kind, Trigger
from tidewheel.local.sweep_work import SweepWork
from tidewheel.memory import MemoryService
from tidewheel.model.schedule_expressions import Every
from tidewheel.model.triggers import RETRIES, SWEEP_INTERVAL_S

_SWEEP = Every(interval_ms=SWEEP_INTERVAL_S * 1000)


class MemoryTriggers:
    """Implements `Triggers` on the ports in memory. The sweep is skipped when it would find nothing to do."""

    def __init__(self, service: MemoryService, clock: Clock, functions: MemoryFunctions) -> None:
        self._service, self._clock, self._functions = service, clock, functions
        self._created_ms = self._last_tick_ms = clock.now_ms()
        self._work = SweepWork()
        self._fire_from_ms = 0
        self._dispatches = 0
        self._merges = 0

    def waiting(self) -> Iterator[Trigger]:
        """Returns the next event of each schedule and start."""
        schedules, now_ms = self._service.wheel.schedules.values(), self._clock.now_ms()
        if schedules:
            # EventBridge Scheduler uses whole seconds in the future.
            fires_at_ms = -(-min(each for _, _, each in schedules) // 1000) * 1000
            yield max(fires_at_ms, self._fire_from_ms), Kind.ONCE, self._fire
        work_ms = self._work.next_ms(self._service.dynamodb, now_ms)
        self._work.beat(self._service.checks, _SWEEP, self._created_ms, now_ms)
        if work_ms is not None:
            # Earlier ticks without work stay without work.
            from_ms = max(self._last_tick_ms + 1, work_ms, now_ms)
            tick_ms = _SWEEP.first_at_or_after_ms(self._created_ms, from_ms)
            yield tick_ms, Kind.RECURRING, partial(self._sweep, tick_ms)
        if self._dispatches < len(self._service.runs.dispatches):
            yield now_ms, Kind.START, self._start_dispatch
        elif self._merges < len(self._service.runs.merges):
            yield now_ms, Kind.START, self._start_merge

    def _fire(self) -> list[Invocation]:
        now_ms = self._clock.now_ms()
        self._fire_from_ms = (now_ms // 1000 + 1) * 1000
        return [self._dispatch(topic) for topic, _, _ in self._service.wheel.take_due(now_ms)]

    def _sweep(self, tick_ms: int) -> list[Invocation]:
        self._last_tick_ms = tick_ms
        self._work.expire(self._service.dynamodb, self._clock.now_ms())
        return [self._invocation("sweep", {})]

    def _start_dispatch(self) -> list[Invocation]:
        self._dispatches += 1
        return [self._dispatch(self._service.runs.dispatches[self._dispatches - 1])]

    def _dispatch(self, topic: str) -> Invocation:
        return self._invocation("dispatch", {"topic": topic})

    def _start_merge(self) -> list[Invocation]:
        topic, size = self._service.runs.merges[self._merges]
        self._merges += 1
        found = self._invocation("compact", {"topic": topic})
        if size is MergeSize.LARGE:
            found = replace(found, call=partial(self._functions.merge, topic))
        return [found]

    def _invocation(self, function: str, event: dict[str, Any]) -> Invocation:
        call = partial(self._functions.call, function, event)
        return Invocation(function=function, event=event, call=call, retries=RETRIES[function])
