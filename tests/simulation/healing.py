"""Healing of a small world. Running work ends, by the sweep or by schedules alone, and time passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.recorded_queues import RecordedService
from tests.simulation.actors import EXPECTED, Actor, Violation
from tests.stored import stored
from tidewheel.clock import ManualClock
from tidewheel.flows.administration.pause import resume
from tidewheel.flows.delivery.work import do_task
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.flows.maintenance.sweep import sweep
from tidewheel.local import MemoryTidewheel
from tidewheel.local.memory_functions import MemoryFunctions
from tidewheel.model.subscription_state import State
from tidewheel.model.task import Task

START_MS = 1_767_225_600_000
TOPIC = "orders"
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
SLOT_S = 60
"""Of slots, and of the lookahead: what is due in slot n is dispatched at the beginning of slot n - 1."""
_SETTINGS = MemoryTidewheel()._settings
_SWEEP_MS = 5 * MINUTE
_AGAIN_MS = 3 * MINUTE
"""When a queue shows again what was not acknowledged."""
_LEASE_S = 300
_ALARM_LATE_MS = 59_000
"""EventBridge Scheduler may be a minute late."""


class Healing:
    """The part of a small world after its actors have ended.

    Attributes:
        alarms: whether only schedules bring work, and no sweep runs.
        before_days: done when all is delivered, before days pass in which what is left goes.
    """

    clock: ManualClock
    service: RecordedService
    actors: list[Actor]
    alarms: bool
    before_days: list[Callable[[], None]]
    _last_due_ms: int

    def watch(self) -> None:
        """Checks the state after every step. A world overrides this."""
        raise NotImplementedError

    def run(self) -> None:
        """Runs all waiting work, but no work of a later time."""
        for _ in range(100):
            if not self._work([]):
                return
        raise Violation("work brings work for ever")

    def heal(self) -> None:
        """Runs all triggered work."""
        waiting = [(self.clock.now_ms() + _AGAIN_MS, self._again(actor)) for actor in self.actors if _failed(actor)]
        self._until(max(self._last_due_ms, self.clock.now_ms()) + HOUR, waiting)
        for queue in sorted(self.service.queues.gone):
            self.service.queues.restore(queue)
        for each in self.service.subscriptions.all(TOPIC) if self.service.topic_states.read(TOPIC) else ():
            if each.state is not State.ACTIVE:
                resume(self.service, self.service.queues, self.clock, TOPIC, each.name)
        self._until(self.clock.now_ms() + HOUR, waiting)
        for act in self.before_days:
            act()
        if not self.alarms:
            for days in (1, 1, 28, 1, 1):
                self.clock.advance_ms(days * DAY)
                self._until(self.clock.now_ms() + HOUR, waiting)

    def lasts(self, duration_ms: int) -> None:
        """Lets time pass, with all work of the passing time."""
        self._until(self.clock.now_ms() + duration_ms, [])

    def _again(self, actor: Actor) -> Callable[[], object]:
        return lambda: actor.call(self.service)

    def _until(self, end_ms: int, waiting: list[tuple[int, Callable[[], object]]]) -> None:
        next_sweep_ms = begun_ms = self.clock.now_ms()
        while True:
            while self._work(waiting):
                pass
            times = [at_ms for at_ms, _ in waiting]
            if self.alarms:
                fires = (fires_ms for _, _, fires_ms in self.service.wheel.schedules.values())
                times += [max(fires_ms, begun_ms) + _ALARM_LATE_MS for fires_ms in fires]
            else:
                looks = self._looks()
                times += [max(next_sweep_ms, looks)] if looks is not None else []
            at_ms = max(min(times, default=end_ms + 1), self.clock.now_ms())
            if at_ms > end_ms:
                break
            self.clock.set_ms(at_ms)
            if self.alarms:
                self.service.runs.dispatches += [
                    topic for topic, _, _ in self.service.wheel.take_due(at_ms - _ALARM_LATE_MS)
                ]
            elif at_ms >= next_sweep_ms:
                self._sweep()
                next_sweep_ms = at_ms + _SWEEP_MS
        self.clock.set_ms(max(end_ms, self.clock.now_ms()))
        if not self.alarms:
            self._sweep()
            while self._work(waiting):
                pass

    def _looks(self) -> int | None:
        """When the next sweep finds anything."""
        items = stored(self.service).topics().values()
        looks = [each.next_check_ms for of in items for each in of.deliveries.values()]
        looks += [each.next_check_ms for of in items for each in of.parks.values()]
        looks += [of.state.next_check_ms for of in items if of.state is not None and of.state.next_check_ms is not None]
        return min(looks, default=None)

    def _sweep(self) -> None:
        failures = [each for each in sweep(self.service).failures.values() if not isinstance(each, EXPECTED)]
        if failures:
            raise Violation(f"a sweep failed: {failures[0]!r}") from failures[0]

    def _work(self, waiting: list[tuple[int, Callable[[], object]]]) -> bool:
        """Runs the work possible now. Returns False if there was none."""
        now_ms = self.clock.now_ms()
        runs = self.service.runs
        calls: list[Callable[[], object]] = [call for at_ms, call in waiting if at_ms <= now_ms]
        waiting[:] = [each for each in waiting if each[0] > now_ms]
        calls += [self._dispatch(topic) for topic in runs.dispatches]
        calls += [self._merge(topic) for topic, _ in runs.merges]
        calls += [self._job(job) for job in self.service.queues.take_jobs()]
        runs.dispatches.clear()
        runs.merges.clear()
        for call in calls:
            try:
                call()
            except EXPECTED:
                waiting.append((now_ms + _AGAIN_MS, call))
            except Exception as error:
                raise Violation(f"what heals ended with {error!r}") from error
            self.watch()
        return bool(calls)

    def _dispatch(self, topic: str) -> Callable[[], object]:
        return lambda: dispatch_as_function(self.service, topic)

    def _merge(self, topic: str) -> Callable[[], object]:
        return lambda: merge(self.service, topic, in_process(self.service.objects), lease_s=_LEASE_S)

    def _job(self, job: Task) -> Callable[[], object]:
        return lambda: do_task(self.service, job)


def _failed(actor: Actor) -> bool:
    return actor.again and (actor.task.error is not None or actor.task.dead)


def dispatch_as_function(ports: Any, topic: str = TOPIC) -> None:
    """Dispatches by the deployed handler."""
    MemoryFunctions(ports, _SETTINGS).call("dispatch", {"topic": topic})
