"""Runs the service in memory, event by event in the order of time.

Events due at the same time have this order, as in the local stack's pump:

    schedules -> the sweep -> urgent, bulk and work queue -> retries -> requested merges

A function that fails is invoked again as on Lambda. Messages from a queue come again after the queue's visibility
time-out and go to the dead-letter queue after five receives. A schedule's invocation is retried after one minute, then
after two.

The sweep is skipped when it would find nothing to check.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tidewheel.clock import ManualClock
from tidewheel.local.memory_functions import Failed, Failure, MemoryFunctions
from tidewheel.local.memory_source import MemorySource
from tidewheel.memory import MemoryService

SWEEP_MS = 300_000
"""The deployed sweep's interval."""
_RETRY_AFTER_MS = (60_000, 120_000)

Thing = tuple[int, int, Callable[[], None]]


class PartialFailure(Exception):
    """A function reported messages of its batch as failed.

    SQS shows these messages again. The cause is the first message's reason.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Invocation:
    """Holds an invocation that only this pump would retry, and its number of retries."""

    function: str
    event: Any
    call: Callable[[], None]
    retries: int
    tries: int = 0


class MemoryPump:
    """Runs functions when their triggers fall due.

    Attributes:
        drop_schedules: whether one-time schedules vanish instead of firing.
        failures: the invocations that raised or reported failures, oldest first.
        invocations: number of invocations of each function.
    """

    def __init__(
        self, service: MemoryService, clock: ManualClock, functions: MemoryFunctions, sources: Sequence[MemorySource]
    ) -> None:
        self._service = service
        self._clock = clock
        self._functions = functions
        self._sources = sources
        self._created_ms = clock.now_ms()
        self._next_tick = 1
        self._fire_from_ms = 0
        self._dispatches = 0
        self._merges = 0
        self._retries: list[tuple[int, int, _Invocation]] = []
        self._numbers = itertools.count()
        self.drop_schedules = False
        self.failures: list[Failure] = []
        self.invocations = dict.fromkeys(("ingest", "dispatch", "deliver", "sweep", "compact"), 0)

    def run_next(self, until_ms: int) -> bool:
        """Handles the next event if due by until_ms. Returns whether it did.

        Moves the clock to the event's time.
        """
        following = min(self._things(), key=lambda thing: thing[:2], default=None)
        if following is not None and following[0] > until_ms:
            following = None
        tick_ms = self._sweep_ms(until_ms if following is None else following[0])
        if tick_ms is not None and (following is None or (tick_ms, 1) < following[:2]):
            following = (tick_ms, 1, partial(self._sweep, tick_ms))
        if following is None:
            return False
        self._clock.set_ms(max(following[0], self._clock.now_ms()))
        following[2]()
        return True

    def _things(self) -> Iterator[Thing]:
        schedules = self._service.wheel.schedules.values()
        if schedules:
            # EventBridge Scheduler uses whole seconds in the future.
            fires_at_ms = -(-min(each for _, _, each in schedules) // 1000) * 1000
            yield max(fires_at_ms, self._fire_from_ms), 0, self._fire
        order = 2
        for order, source in enumerate(self._sources, start=2):
            at_ms = source.next_ms()
            if at_ms is not None:
                yield at_ms, order, partial(self._poll, source)
        if self._retries:
            yield self._retries[0][0], order + 1, self._retry
        if self._dispatches < len(self._service.runs.dispatches):
            yield self._clock.now_ms(), order + 2, self._dispatch
        if self._merges < len(self._service.runs.merges):
            yield self._clock.now_ms(), order + 3, self._merge

    # ---- due events
    def _fire(self) -> None:
        self._fire_from_ms = (self._clock.now_ms() // 1000 + 1) * 1000
        for topic, _, _ in self._service.wheel.take_due(self._clock.now_ms()):
            if not self.drop_schedules:
                self._start_dispatch(topic)

    def _sweep_ms(self, until_ms: int) -> int | None:
        """Returns the next tick of the sweep, up to until_ms, with work to find. Returns None if there is none.

        As long as nothing changes, an item due for a check stays due, so the tick is found by binary search.
        """

        def finds_something(tick: int) -> bool:
            return any(self._service.topics.due_for_look(self._created_ms + tick * SWEEP_MS))

        # Earlier ticks without work stay without work.
        first = max(self._next_tick, -(-(self._clock.now_ms() - self._created_ms) // SWEEP_MS))
        last = (until_ms - self._created_ms) // SWEEP_MS
        if last < first or not finds_something(last):
            return None
        found = bisect.bisect_left(range(first, last), True, key=finds_something)
        return self._created_ms + (first + found) * SWEEP_MS

    def _sweep(self, tick_ms: int) -> None:
        self._next_tick = (tick_ms - self._created_ms) // SWEEP_MS + 1
        self._start("sweep", {}, self._functions.sweep)

    def _dispatch(self) -> None:
        topic = self._service.runs.dispatches[self._dispatches]
        self._dispatches += 1
        self._start_dispatch(topic)

    def _start_dispatch(self, topic: str) -> None:
        self._start("dispatch", {"topic": topic}, partial(self._functions.dispatch, topic))

    def _merge(self) -> None:
        topic, size = self._service.runs.merges[self._merges]
        self._merges += 1
        event = {"topic": topic, "size": size.value}
        self._start("compact", event, partial(self._functions.compact, topic, size), retries=0)

    def _poll(self, source: MemorySource) -> None:
        batch = source.poll()
        if not batch:
            return
        event = {"messages": len(batch)}
        failed: Failed = {}

        def run() -> None:
            failed.update(source.run(batch))

        if not self._ended_well(source.function, event, run):
            return
        source.settle(message for message in batch if message.id not in failed)
        if failed:
            partly = PartialFailure(f"{len(failed)} of {len(batch)} messages reported as failed")
            partly.__cause__ = next(iter(failed.values()))
            self._note(source.function, event, partly)

    # ---- invocations
    def _start(self, function: str, event: Any, call: Callable[[], None], *, retries: int = 2) -> None:
        self._try(_Invocation(function=function, event=event, call=call, retries=retries))

    def _retry(self) -> None:
        self._try(heapq.heappop(self._retries)[2])

    def _try(self, invocation: _Invocation) -> None:
        if self._ended_well(invocation.function, invocation.event, invocation.call):
            return
        if invocation.tries < invocation.retries:
            at_ms = self._clock.now_ms() + _RETRY_AFTER_MS[invocation.tries]
            again = replace(invocation, tries=invocation.tries + 1)
            heapq.heappush(self._retries, (at_ms, next(self._numbers), again))

    def _ended_well(self, function: str, event: Any, call: Callable[[], None]) -> bool:
        self.invocations[function] += 1
        try:
            call()
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # ports wrapped for a test fail with errors that no handler catches
            self._note(function, event, error)
            return False
        return True

    def _note(self, function: str, event: Any, error: BaseException) -> None:
        self.failures.append(Failure(function=function, at_ms=self._clock.now_ms(), event=event, error=error))
