"""Runs a local stack, event by event in the order of time.

There are five kinds of events: a one-time schedule, a recurring schedule, a message that an event source can receive
(or the end of a batch window), the retry of a failed invocation, and the requested start of a function or job.
`run_next` handles them in order of time, and at the same time in the order just given. Everything runs on the calling
thread, so runs are repeatable.

A function that fails is invoked again as on Lambda. Messages from a queue come again after the queue's visibility
time-out, and go to the dead-letter queue after the queue's number of receives. An asynchronous invocation is retried
after one minute, then after two, unless the function has fewer retries.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Any, Protocol

from tidewheel.clock import Clock
from tidewheel.local.event_source import EventSource, Failed

_RETRY_AFTER_MS = (60_000, 120_000)
"""Delays of Lambda's retries of an asynchronous invocation."""

FUNCTIONS = ("ingest", "dispatch", "deliver", "sweep", "compact")


class PartialFailure(Exception):
    """A function reported messages of its batch as failed.

    SQS shows these messages again. The cause is the first message's reason, or the function's log has the reason (see
    log_level).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Records an invocation that raised or reported failures, with its function, time, event and error.

    For a batch of messages, `event` has their number. For a job run, `function` is the job's script and `event` its
    arguments.
    """

    function: str
    at_ms: int
    event: Any
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """Holds an asynchronous call of a function or job, and its number of retries.

    Attributes:
        function: the function's name.
        event: the function's input.
        call: runs the function.
        begin: counts the call. Raises PermissionError or LookupError if the call cannot begin.
        retries: limit of Lambda's retries of a call that failed.
        bury: stores the event after the last retry has failed, with the error.
        tries: retries so far.
    """

    function: str
    event: Any
    call: Callable[[], object]
    begin: Callable[[], None] = lambda: None
    retries: int = 0
    bury: Callable[[BaseException], None] | None = None
    tries: int = 0


class Kind(IntEnum):
    """The kinds of events, in the order of events at the same time."""

    ONCE = 0
    RECURRING = 1
    SOURCE = 2
    RETRY = 3
    START = 4


Trigger = tuple[int, Kind, Callable[[], Iterable[Invocation]]]
"""The time of an event, its kind, and a function that removes the event and returns its invocations."""


class Triggers(Protocol):
    """Schedules and requested starts, in memory or in moto."""

    def waiting(self) -> Iterable[Trigger]:
        """Returns the next event of each schedule and start."""
        ...


class Pump:
    """Runs functions when their triggers fall due.

    Args:
        clock: the stack's time.
        triggers: schedules and requested starts.
        sources: the event sources.
        count_poll: called after a batch, with the bytes of each message and the number of deleted messages.
        commit: called after each event, when all its effects are there.

    Attributes:
        commit: keeps all effects so far.
        drop_schedules: whether one-time schedules vanish instead of firing.
        failures: the invocations that raised or reported failures, oldest first.
        invocations: number of invocations of each function.
    """

    def __init__(
        self,
        clock: Clock,
        triggers: Triggers,
        sources: Sequence[EventSource],
        functions: Iterable[str],
        count_poll: Callable[[Sequence[int], int], None] = lambda _, __: None,
        commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._triggers, self._sources, self._count_poll, self.commit = triggers, sources, count_poll, commit
        self._retries: list[tuple[int, int, Invocation]] = []
        self._numbers = itertools.count()
        self.drop_schedules = False
        self.failures: list[Failure] = []
        self.invocations = dict.fromkeys(functions, 0)

    def next_ms(self, after_ms: int = -1) -> int | None:
        """Time of the next event (after a time), possibly in the past. None if nothing will fall due."""
        return min((at_ms for at_ms, _, _ in self._waiting() if at_ms > after_ms), default=None)

    def call_again(self, at_ms: int, invocation: Invocation) -> None:
        """Calls a function or job at a time."""
        heapq.heappush(self._retries, (at_ms, next(self._numbers), invocation))

    def run_next(self, until_ms: int, move_to: Callable[[int], None]) -> int | None:
        """Handles the next event if due by until_ms. Returns its time, or None if there was none.

        All earlier events were handled before.

        Args:
            until_ms: the latest time of the event.
            move_to: called with the event's time before the event is handled, if that time is in the future.
        """
        following = min(self._waiting(), key=lambda each: each[:2], default=None)
        if following is None or following[0] > until_ms:
            return None
        at_ms, kind, take = following
        if at_ms > self._clock.now_ms():
            move_to(at_ms)
        for invocation in take():
            if kind is not Kind.ONCE or not self.drop_schedules:
                self._try(invocation)
        self.commit()
        return at_ms

    def _waiting(self) -> Iterator[Trigger]:
        yield from self._triggers.waiting()
        for source in self._sources:
            at_ms = source.next_ms()
            if at_ms is not None:
                yield at_ms, Kind.SOURCE, partial(self._poll, source)
        if self._retries:
            yield self._retries[0][0], Kind.RETRY, lambda: [heapq.heappop(self._retries)[2]]

    def _poll(self, source: EventSource) -> Iterable[Invocation]:
        batch = source.poll()
        if not batch:
            return ()
        event = {"messages": len(batch)}
        failed: dict[str, Exception | None] = {}
        error = self._run(source.function, event, lambda: failed.update(source.run(batch)))
        deleted = source.settle(batch, failed) if error is None else 0
        if failed:
            self._note(source.function, event, _partial_failure(failed, len(batch)))
        self._count_poll([message.size_bytes for message in batch], deleted)
        return ()

    def _try(self, invocation: Invocation) -> None:
        error: BaseException | None
        try:
            invocation.begin()
        except Exception as refused:
            error = refused
            self._note(invocation.function, invocation.event, refused)
        else:
            error = self._run(invocation.function, invocation.event, invocation.call)
        if error is not None and invocation.tries < min(len(_RETRY_AFTER_MS), invocation.retries):
            at_ms = self._clock.now_ms() + _RETRY_AFTER_MS[invocation.tries]
            self.call_again(at_ms, replace(invocation, tries=invocation.tries + 1))
            return
        if error is not None and invocation.bury is not None:
            try:
                invocation.bury(error)
            except Exception as failed:  # such as a dead-letter queue that was deleted
                self._note(invocation.function, invocation.event, failed)

    def _run(self, function: str, event: Any, call: Callable[[], object]) -> BaseException | None:
        """Calls a function. Returns the error, if any."""
        if function in self.invocations:
            self.invocations[function] += 1
        try:
            call()
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # ports wrapped for a test fail with errors that no handler catches
            self._note(function, event, error)
            return error
        return None

    def _note(self, function: str, event: Any, error: BaseException) -> None:
        self.failures.append(Failure(function=function, at_ms=self._clock.now_ms(), event=event, error=error))


def _partial_failure(failed: Failed, messages: int) -> PartialFailure:
    partly = PartialFailure(f"{len(failed)} of {messages} messages reported as failed")
    partly.__cause__ = next(iter(failed.values()))
    return partly
