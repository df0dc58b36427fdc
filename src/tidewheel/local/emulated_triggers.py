"""Makes invocations of moto's schedules, of rules at a rate, and of requested starts of functions and jobs.

A rule's start of the sweep is skipped when the table's index of checks is empty and no daily work is due, since the
sweep would find nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from moto.scheduler.models import Schedule

from tidewheel.clock import Clock
from tidewheel.local.deployment import Rule
from tidewheel.local.emulator import Emulator
from tidewheel.local.emulator.starts import Call
from tidewheel.local.handlers import Handler
from tidewheel.local.jobs import Jobs
from tidewheel.local.meter import Requests
from tidewheel.local.pump import Invocation, Kind, Trigger
from tidewheel.local.sweep_work import SweepWork
from tidewheel.memory.dynamodb import MemoryDynamoDBClient
from tidewheel.storage.checks import Checks
from tidewheel.storage.table import Table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_SWEEP = "sweep"


class EmulatedTriggers:
    """Implements `Triggers` on moto.

    Args:
        emulator: holds the schedules and the requested starts.
        clock: the stack's time.
        handlers: the functions, by ARN.
        jobs: the stack's jobs.
        rules: start functions at a rate.
        table_name: the table with the index of checks.
        requests: counts the invocations.
    """

    def __init__(
        self,
        emulator: Emulator,
        clock: Clock,
        handlers: Mapping[str, Handler],
        jobs: Jobs,
        rules: Sequence[Rule],
        table_name: str | None,
        requests: Requests,
    ) -> None:
        self._emulator = emulator
        self._clock = clock
        self._handlers = handlers
        self._jobs, self._rules, self._table_name, self._requests = jobs, rules, table_name, requests
        self._last_tick_ms: dict[Rule, int] = {}
        self._told_ms: dict[Rule, int] = {}
        self._created_ms = clock.now_ms()
        self._work = SweepWork()

    def waiting(self) -> list[Trigger]:
        """Returns the next event of each schedule and start."""
        with self._emulator.lock:
            return list(self._waiting())

    def _waiting(self) -> Iterator[Trigger]:
        due = self._emulator.schedules.next_due()
        if due is not None:
            yield due[0], Kind.ONCE, partial(self._fire_once, due[1])
        for rule in self._rules:
            at_ms = self._next_tick_ms(rule)
            if at_ms is not None:
                yield at_ms, Kind.RECURRING, partial(self._tick, rule, at_ms)
        started_ms = self._emulator.starts.next_ms()
        if started_ms is not None:
            yield started_ms, Kind.START, self._start

    def _next_tick_ms(self, rule: Rule) -> int | None:
        handler = self._handlers.get(rule.function_arn)
        if handler is None:
            return None
        from_ms = self._last_tick_ms.get(rule, self._created_ms) + 1
        stored = self._stored()
        if handler.spec.folder == _SWEEP and stored is not None:
            now_ms = self._clock.now_ms()
            work_ms = self._work.next_ms(stored, now_ms)
            checks = Checks(Table(cast("DynamoDBClient", stored), str(self._table_name)))
            self._work.beat(checks, rule.every, self._created_ms, now_ms)
            told_ms = self._told_ms.pop(rule, now_ms)
            if work_ms is None:
                return None
            # Earlier ticks without work stay without work. In real time, the pump comes late to a tick it was told of.
            from_ms = max(from_ms, work_ms, min(now_ms, told_ms))
            self._told_ms[rule] = rule.every.first_at_or_after_ms(self._created_ms, from_ms)
        return rule.every.first_at_or_after_ms(self._created_ms, from_ms)

    def _stored(self) -> MemoryDynamoDBClient | None:
        return None if self._table_name is None else self._emulator.table(self._table_name)

    def ticks(self) -> list[Invocation]:
        """Returns a call of each rule, which is due at once: the sweep finds what an earlier process left."""
        return [self._invocation(self._tick_call(rule)) for rule in self._rules]

    def _fire_once(self, schedule: Schedule) -> list[Invocation]:
        with self._emulator.lock:
            self._emulator.schedules.fired(schedule)
            return [self._invocation(self._scheduled(schedule))]

    def _tick(self, rule: Rule, at_ms: int) -> list[Invocation]:
        self._last_tick_ms[rule] = max(at_ms, self._clock.now_ms())  # none of hours in which the machine slept
        with self._emulator.lock:
            if (stored := self._stored()) is not None:
                self._work.expire(stored, self._clock.now_ms())
            return [self._invocation(self._tick_call(rule))]

    def _tick_call(self, rule: Rule) -> Call:
        at_ms = self._clock.now_ms()
        return Call(at_ms=at_ms, target=rule.function_arn, event=rule.event, caller=f"rule {rule.name}")

    def _scheduled(self, schedule: Schedule) -> Call:
        target = schedule.target
        return Call(
            at_ms=self._clock.now_ms(),
            target=target["Arn"],
            event=json.loads(target.get("Input") or "{}"),
            caller=f"schedule {schedule.name}",
            role_arn=target.get("RoleArn"),
            by_schedule=True,
            dead_letter_arn=target.get("DeadLetterConfig", {}).get("Arn"),
        )

    def _start(self) -> list[Invocation]:
        with self._emulator.lock:
            return [self._invocation(self._emulator.starts.take())]

    def _invocation(self, call: Call) -> Invocation:
        if call.is_job:
            return Invocation(
                function=self._jobs.script(call),
                event=call.event,
                call=partial(self._jobs.run, call),
                begin=self._requests.ran_job,
            )
        handler = self._handlers.get(call.target)

        def begin() -> None:
            if handler is None:
                raise LookupError(f"{call.caller}: no function {call.target}")
            self._emulator.require(call.role_arn, call.target, "lambda:InvokeFunction")
            self._requests.invoked(by_schedule=call.by_schedule)

        def invoke() -> None:
            assert handler is not None  # checked by begin
            handler.invoke(call.event)

        return Invocation(
            function=call.target if handler is None else handler.spec.folder,
            event=call.event,
            call=invoke,
            begin=begin,
            retries=0 if handler is None else handler.spec.async_retries,
            bury=None if call.dead_letter_arn is None else partial(self._bury, call),
        )

    def _bury(self, call: Call, error: BaseException) -> None:
        """Sends the event of a permanently failed invocation to its dead-letter queue.

        The schedule's role must allow the send.
        """
        assert call.dead_letter_arn is not None  # checked by the caller
        attributes = {"ERROR_CODE": type(error).__name__, "ERROR_MESSAGE": str(error)[:1000] or "none"}
        with suppress(PermissionError):
            self._emulator.send(call.dead_letter_arn, json.dumps(call.event), attributes, role_arn=call.role_arn)
