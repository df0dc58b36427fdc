"""Simulates Lambda with environments on demand, asynchronous calls and retries."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from threading import Condition
from typing import Any

from tests.artifact.execution import Execution, FunctionFailed, Place
from tests.artifact.moved_clock import MovedClock
from tests.artifact.template import FunctionSpec

MAX_ENVIRONMENTS = 2
"""Environments of a function at one time: as many as the machine has cores."""
_RETRY_AFTER_MS = (60_000, 120_000)
"""When Lambda repeats an asynchronous call that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed call, with function, time and reason."""

    function: str
    at_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A waiting asynchronous call."""

    spec: FunctionSpec
    event: Any
    asked_ms: int
    tries: int = 0


class Functions:
    """All functions of a stack, each in separate processes.

    Args:
        give_up: Called with the queue's ARN and the event of an asynchronous call that was given up.

    Attributes:
        specs: The functions, by name.
        failures: Each call that failed.
        calls: How often each function was called, by the folder of its handler.
    """

    def __init__(self, clock: MovedClock, give_up: Callable[[str, Any], None]) -> None:
        self.specs: dict[str, FunctionSpec] = {}
        self.failures: list[Failure] = []
        self.calls: Counter[str] = Counter()
        self._clock, self._give_up = clock, give_up
        self._endpoints: Mapping[str, str] = {}
        self._changed = Condition()
        self._free: defaultdict[str, deque[Execution]] = defaultdict(deque)
        self._started: Counter[str] = Counter()
        self._alive: Counter[str] = Counter()
        self._later: list[tuple[int, int, Call]] = []
        self._numbers = itertools.count()

    def deploy(self, specs: Iterable[FunctionSpec], place: Place, endpoints: Mapping[str, str]) -> None:
        """Takes the functions of a template.

        Args:
            specs: The functions.
            place: Where environments run.
            endpoints: URLs of AWS's services, by their names in environment variables.
        """
        self.specs = {spec.name: spec for spec in specs}
        self._place, self._endpoints = place, endpoints

    def call(self, name: str, event: Any) -> Any:
        """Calls a function in a free or new environment, and returns the answer.

        Raises:
            FunctionFailed: As `Execution`.
        """
        spec = self.specs[name]
        self.calls[spec.folder] += 1
        try:
            environment = self._take(spec)
            try:
                return environment.call(event)
            finally:
                self._give_back(environment)
        except FunctionFailed as error:
            self._failed(spec, str(error))
            raise

    def partly_failed(self, name: str, failed: int, messages: int) -> None:
        """Records that a function reported messages of its batch as failed."""
        self._failed(self.specs[name], f"{failed} of {messages} messages reported as failed")

    def call_later(self, name: str, event: Any) -> None:
        """Takes an asynchronous call. Unknown names raise KeyError."""
        now_ms = self._clock.now_ms()
        self._wait(Call(spec=self.specs[name], event=event, asked_ms=now_ms), now_ms)

    def next_ms(self) -> int | None:
        """The time of the next asynchronous call, or None without any."""
        with self._changed:
            return self._later[0][0] if self._later else None

    def take_due(self) -> list[Call]:
        """Takes all due asynchronous calls."""
        now_ms = self._clock.now_ms()
        due = []
        with self._changed:
            while self._later and self._later[0][0] <= now_ms:
                due.append(heapq.heappop(self._later)[2])
        return due

    def run(self, call: Call) -> None:
        """Runs an asynchronous call. A failed call is retried, or goes to the queue of failures."""
        try:
            self.call(call.spec.name, call.event)
        except FunctionFailed:
            at_ms = self._clock.now_ms() + _RETRY_AFTER_MS[min(call.tries, 1)]
            in_time = at_ms <= call.asked_ms + call.spec.event_age_s * 1000
            if call.tries < call.spec.async_retries and in_time:
                self._wait(replace(call, tries=call.tries + 1), at_ms)
            elif call.spec.on_failure_arn is not None:
                self._give_up(call.spec.on_failure_arn, call.event)

    def close(self) -> None:
        """Ends all environments."""
        for free in self._free.values():
            while free:
                free.popleft().stop()

    def _failed(self, spec: FunctionSpec, reason: str) -> None:
        self.failures.append(Failure(function=spec.folder, at_ms=self._clock.now_ms(), reason=reason))

    def _wait(self, call: Call, at_ms: int) -> None:
        with self._changed:
            heapq.heappush(self._later, (at_ms, next(self._numbers), call))

    def _take(self, spec: FunctionSpec) -> Execution:
        with self._changed:
            while True:
                free = self._free[spec.name]
                if free:
                    return free.popleft()
                if self._alive[spec.name] < MAX_ENVIRONMENTS:
                    self._alive[spec.name] += 1
                    number = self._started[spec.name]
                    self._started[spec.name] += 1
                    break
                self._changed.wait()
        try:
            return Execution(spec, self._place, self._clock, self._endpoints, number)
        except BaseException:
            with self._changed:
                self._alive[spec.name] -= 1
                self._changed.notify()
            raise

    def _give_back(self, environment: Execution) -> None:
        with self._changed:
            if environment.over:
                self._alive[environment.spec.name] -= 1
            else:
                self._free[environment.spec.name].append(environment)
            self._changed.notify()
        if environment.over:
            environment.stop()
