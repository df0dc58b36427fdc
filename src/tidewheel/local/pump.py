"""Runs a local stack, event by event in the order of time.

There are five kinds of events: a schedule (once or recurring), a message that an event source mapping can receive, the
end of a batch window, the retry of a failed invocation, and the requested start of a function or job. `run_next`
handles them in order of time, and at the same time in the order just given. Everything runs on the calling thread, so
runs are repeatable.

A recurring schedule of the sweep is skipped when the table's index of checks is empty, since the sweep would find
nothing.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from moto.scheduler.models import Schedule

from tidewheel.clock import Clock
from tidewheel.local.emulator import Emulator
from tidewheel.local.emulator.starts import FunctionStart, JobStart
from tidewheel.local.event_source import EventSourceMapping
from tidewheel.local.handlers import Handler
from tidewheel.local.jobs import Jobs
from tidewheel.local.meter import Requests
from tidewheel.model.schedule_expressions import Every

_RETRY_AFTER_MS = (60_000, 120_000)
"""Delays of Lambda's retries of an asynchronous invocation."""

SWEEP = "sweep"


class PartialFailure(Exception):
    """A function reported messages of its batch as failed.

    SQS shows these messages again. The function's log has the reason (see log_level).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Records an invocation that raised or reported failures, with its function, time, event and error.

    For a job run, `function` is the job's script and `event` its arguments.
    """

    function: str
    at_ms: int
    event: Any
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class _Invocation:
    """Holds an asynchronous call of a function, and its number of retries.

    Attributes:
        caller: the origin of the call: "schedule <name>", or "lambda.Invoke".
        arn: the function's.
        event: the function's input.
        by_schedule: whether a schedule fired it.
        retries: limit of retries.
        dead_letter_arn: the queue for the event after the last retry has failed.
        role_arn: the role with which a schedule invokes the function and sends the dead letter.
        tries: retries so far.
    """

    caller: str
    arn: str
    event: Any
    by_schedule: bool
    retries: int
    dead_letter_arn: str | None = None
    role_arn: str | None = None
    tries: int = 0


Thing = tuple[int, int, Callable[[], None]]


class Pump:
    """Runs functions when their triggers fall due."""

    def __init__(
        self,
        emulator: Emulator,
        clock: Clock,
        handlers: dict[str, Handler],
        mappings: list[EventSourceMapping],
        jobs: Jobs,
        table_name: str | None,
        requests: Requests,
    ) -> None:
        self._emulator = emulator
        self._clock = clock
        self._handlers = handlers
        self._mappings = mappings
        self._jobs = jobs
        self._table_name = table_name
        self._requests = requests
        self._retries: list[tuple[int, int, _Invocation]] = []
        self._numbers = itertools.count()
        self._last_tick_ms: dict[int, int] = {}
        self._created_ms = clock.now_ms()
        self.drop_schedules = False
        self.failures: list[Failure] = []
        self.invocations: dict[str, int] = {handler.spec.folder: 0 for handler in handlers.values()}

    def next_ms(self) -> int | None:
        """Time of the next event, possibly in the past. None if nothing will fall due."""
        with self._emulator.lock:
            return min((at_ms for at_ms, _, _ in self._things()), default=None)

    def run_next(self, until_ms: int, move_to: Callable[[int], None]) -> bool:
        """Handles the next event if due by until_ms. Returns whether it did.

        Args:
            until_ms: the latest time of the event.
            move_to: called with the event's time before the event is handled, if that time is in the future.
        """
        with self._emulator.lock:
            following = min(self._things(), key=lambda thing: thing[:2], default=None)
        if following is None or following[0] > until_ms:
            return False
        if following[0] > self._clock.now_ms():
            move_to(following[0])
        following[2]()
        return True

    def _things(self) -> Iterator[Thing]:
        due = self._emulator.schedules.next_due()
        if due is not None:
            yield due.at_ms, 0, lambda: self._fire_once(due.schedule)
        for schedule, every in self._emulator.schedules.recurring:
            at_ms = self._next_tick_ms(schedule, every)
            if at_ms is not None:
                yield at_ms, 1, lambda schedule=schedule, at_ms=at_ms: self._fire_again(schedule, at_ms)  # type: ignore[misc]
        for order, mapping in enumerate(self._mappings):
            at_ms = mapping.next_ms()
            if at_ms is not None:
                yield at_ms, 2 + order, lambda mapping=mapping: self._poll(mapping)  # type: ignore[misc]
        if self._retries:
            yield self._retries[0][0], 2 + len(self._mappings), self._retry
        started_ms = self._emulator.starts.next_ms()
        if started_ms is not None:
            yield started_ms, 3 + len(self._mappings), self._start

    def _next_tick_ms(self, schedule: Schedule, every: Every) -> int | None:
        handler = self._handlers.get(schedule.target["Arn"])
        if handler is None:
            return None
        from_ms = self._last_tick_ms.get(id(schedule), self._created_ms) + 1
        if handler.spec.folder == SWEEP and self._table_name is not None:
            next_check_ms = self._emulator.least_look_at_ms(self._table_name)
            if next_check_ms is None:
                return None
            from_ms = max(from_ms, next_check_ms)
            # Earlier ticks without work stay without work.
            from_ms = max(from_ms, self._clock.now_ms())
        return every.first_at_or_after_ms(self._created_ms, from_ms)

    def _fire_once(self, schedule: Schedule) -> None:
        self._emulator.schedules.fired(schedule)
        if not self.drop_schedules:
            self._fire(schedule)

    def _fire_again(self, schedule: Schedule, at_ms: int) -> None:
        self._last_tick_ms[id(schedule)] = at_ms
        self._fire(schedule)

    def _fire(self, schedule: Schedule) -> None:
        target = schedule.target
        invocation = _Invocation(
            caller=f"schedule {schedule.name}",
            arn=target["Arn"],
            event=json.loads(target.get("Input") or "{}"),
            by_schedule=True,
            retries=target.get("RetryPolicy", {}).get("MaximumRetryAttempts", 185),
            dead_letter_arn=target.get("DeadLetterConfig", {}).get("Arn"),
            role_arn=target.get("RoleArn"),
        )
        self._try(invocation)

    def _start(self) -> None:
        with self._emulator.lock:
            start = self._emulator.starts.take()
        if isinstance(start, JobStart):
            self._run_job(start)
        else:
            self._try(self._invocation(start))

    def _invocation(self, start: FunctionStart) -> _Invocation:
        handler = self._handlers.get(start.arn)
        retries = 0 if handler is None else handler.spec.async_retries
        return _Invocation(caller="lambda.Invoke", arn=start.arn, event=start.event, by_schedule=False, retries=retries)

    def _run_job(self, start: JobStart) -> None:
        self._requests.ran_job()
        try:
            self._jobs.run(start)
        except Exception as error:
            self._note_failure(self._jobs.script(start), start.arguments, error)

    def _retry(self) -> None:
        self._try(heapq.heappop(self._retries)[2])

    def _try(self, invocation: _Invocation) -> None:
        handler = self._handlers.get(invocation.arn)
        error: BaseException
        if handler is None:
            error = LookupError(f"{invocation.caller}: no function {invocation.arn}")
            self._note_failure(invocation.arn, invocation.event, error)
        else:
            failure = self._call(handler, invocation)
            if failure is None:
                return
            error = failure
        if invocation.tries < min(len(_RETRY_AFTER_MS), invocation.retries):
            at_ms = self._clock.now_ms() + _RETRY_AFTER_MS[invocation.tries]
            again = replace(invocation, tries=invocation.tries + 1)
            heapq.heappush(self._retries, (at_ms, next(self._numbers), again))
        elif invocation.dead_letter_arn is not None:
            attributes = {"ERROR_CODE": type(error).__name__, "ERROR_MESSAGE": str(error)[:1000] or "none"}
            self._bury(invocation, attributes)

    def _call(self, handler: Handler, invocation: _Invocation) -> BaseException | None:
        """Invokes a function if the caller may. Returns the refusal or the error, if any."""
        try:
            self._emulator.check_invocation(invocation.role_arn, invocation.arn)
        except PermissionError as refused:
            self._failed(handler, invocation.event, refused)
            return refused
        self._requests.invoked(by_schedule=invocation.by_schedule)
        _, failure = self._invoke(handler, invocation.event)
        return failure

    def _bury(self, invocation: _Invocation, attributes: dict[str, str]) -> None:
        """Sends the event of a permanently failed invocation to its dead-letter queue.

        The schedule's role must allow the send.
        """
        assert invocation.dead_letter_arn is not None
        with suppress(PermissionError):
            self._emulator.send(
                invocation.dead_letter_arn, json.dumps(invocation.event), attributes, role_arn=invocation.role_arn
            )

    def _poll(self, mapping: EventSourceMapping) -> None:
        with self._emulator.lock:
            batch = mapping.poll()
        handler = self._handlers.get(mapping.spec.function_arn)
        if not batch or handler is None:
            return
        received = [message.payload_bytes for message in batch]
        answer, error = self._invoke(handler, mapping.event(batch))
        deleted = 0
        if error is None:
            try:
                with self._emulator.lock:
                    deleted = mapping.settle(batch, answer)
            except ValueError as odd:
                self._failed(handler, {"messages": len(batch)}, odd)
            else:
                if deleted < len(batch):
                    partly = PartialFailure(f"{len(batch) - deleted} of {len(batch)} messages reported as failed")
                    self._failed(handler, {"messages": len(batch)}, partly)
        self._requests.invoked(received=received, deleted=deleted)

    def _invoke(self, handler: Handler, event: Any) -> tuple[Any, BaseException | None]:
        self.invocations[handler.spec.folder] += 1
        try:
            return handler.invoke(event), None
        except Exception as error:
            self._failed(handler, event, error)
            return None, error

    def _failed(self, handler: Handler, event: Any, error: BaseException) -> None:
        self._note_failure(handler.spec.folder, event, error)

    def _note_failure(self, function: str, event: Any, error: BaseException) -> None:
        at_ms = self._clock.now_ms()
        self.failures.append(Failure(function=function, at_ms=at_ms, event=event, error=error))
