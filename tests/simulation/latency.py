"""Gives each client call of a running function or client a time, by the clock of the world.

    |--- on its way ---|--- the answer ---|
    other functions run here, and also here; the effect is between. A function whose time-out comes first ends here

A call takes some milliseconds, rarely seconds. In an unreliable world some calls are throttled, and some hang for their
whole time-out, with an effect or without. For spells of minutes, most calls of one service do. The client tries again
as boto3's does with `tidewheel.aws.tries`, and `Table` after it. Each try asks the deadline of its function. Some calls
outlast the function, whose machine stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from copy import copy
from functools import partial
from random import Random
from typing import Any, TypeVar

from botocore.exceptions import ClientError, ReadTimeoutError
from greenlet import greenlet

from tests.recorded_queues import RecordedService
from tests.simulation.interleaving import Died, Task, at_work
from tidewheel import deadline
from tidewheel.aws.tries import FUNCTION
from tidewheel.errors import OutOfTime
from tidewheel.flows.ports import Parallel, in_order
from tidewheel.memory.service import TABLE
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import Table

_T = TypeVar("_T")

REPORT_S = 3
"""Kept at the end of a function: tidewheel.telemetry.function."""
_SLOW = 0.01
_THROTTLED = 0.004
_HANGS = 0.004
_FREEZES = 0.001
_MS = (1, 15)
_SLOW_MS = (200, 2_000)
_FROZEN_MS = (20_000, 300_000)
_SPELLS = (*[""] * 3, "dynamodb", "dynamodb", "sqs", "s3", "wheel")
"""Services whose calls are slow for some minutes, or none."""
_SPELL_MS = (20_000, 600_000)
_IN_A_SPELL = (0.05, 0.3, 0.8)
"""How likely a call then hangs, and likewise is throttled."""
_WINDOW_MS = 600_000
"""While a lasting fault hangs, or refuses at once."""
_THREADS = 8
"""Calls of a function side by side."""


class Latency:
    """The time that calls take.

    Args:
        random: apart from the run's own chance.
        now_ms: the true time.
        unreliable: whether calls are throttled or hang.

    Attributes:
        over: whether calls take no time any more.
        count: told what happens.
    """

    def __init__(self, random: Random, now_ms: Callable[[], int], *, unreliable: bool) -> None:
        self._random = random
        self._now_ms = now_ms
        self._unreliable = unreliable
        self.over = False
        self._spell, self._spell_ends_ms, self._likely = "", 0, 0.0
        self.count: Callable[[str], None] = lambda _: None

    def service(self, service: RecordedService) -> RecordedService:
        """Returns a copy of a service whose client calls take time. Both have the same contents."""
        timed = copy(service)
        table = Table(_Timed(self, service.dynamodb, "dynamodb"), TABLE, sleep=self.sleep)  # type: ignore[arg-type]
        timed.__dict__ |= Storage(table, _TimedObjects(self, service.objects)).__dict__  # type: ignore[arg-type]
        timed.queues = copy(service.queues)
        timed.queues.client = _Timed(self, service.queues.client, "sqs")  # type: ignore[assignment]
        timed.queues.sleep = self.sleep
        timed.wheel = _Timed(self, service.wheel, "wheel")  # type: ignore[assignment]
        timed.runs = _Timed(self, service.runs, "runs")  # type: ignore[assignment]
        return timed

    def budget(self, task: Task, limit_ms: int | None) -> AbstractContextManager[None]:
        """Begins a function's deadline, as its handler does. A client, without a limit, has none."""
        if limit_ms is None:
            return nullcontext()
        return deadline.ends_in(lambda: (task.started_ms + limit_ms - self._now_ms()) / 1000 - REPORT_S)

    def parallel(self, task: Task) -> Parallel:
        """Returns a mapper that runs calls of a task side by side."""
        return partial(self._side_by_side, task)

    # ---- the time of one call
    def call(self, what: str, call: Callable[[], _T]) -> _T:
        """Makes a client call."""
        task = at_work()
        if task is None or self.over:
            return call()
        chance, hangs, throttled = 1.0, 0.0, 0.0
        if self._unreliable:
            chance, (hangs, throttled) = self._random.random(), self._odds(what)
        if chance < hangs:
            return self._hang(task, what, call)
        for attempt in range(FUNCTION.refused):
            self._check(task, what)
            self._take(task)
            if chance >= hangs + throttled or (attempt and self._random.random() < 0.5):
                return self._answer(task, call)
            self.count(f"latency: {what} throttled")
            self._take(task)
            if attempt + 1 < FUNCTION.refused:
                self.sleep(0.1 * 2**attempt)
        raise _throttled(what)

    def refuse(self, what: str) -> None:
        """Takes the time of a call that a lasting fault refuses: of its tries, or of its time-outs."""
        task = at_work()
        if task is None or self.over:
            return
        hangs = Random(f"{what.partition('.')[0]} {self._now_ms() // _WINDOW_MS}").random() < 0.5
        for _ in range(FUNCTION.silent):
            self._check(task, what)
            task.takes(round(FUNCTION.try_s * 1000) if hangs else self._random.randint(100, 1_500), self._now_ms)

    def sleep(self, seconds: float) -> None:
        """Waits as `deadline.sleep` does."""
        task = at_work()
        if task is not None and not self.over:
            task.takes(round(1000 * max(0.0, min(seconds, deadline.left_s()))), self._now_ms)

    def _odds(self, what: str) -> tuple[float, float]:
        """Returns how likely a call hangs, and how likely it is throttled."""
        now_ms, random = self._now_ms(), self._random
        if now_ms >= self._spell_ends_ms:
            self._spell, self._likely = random.choice(_SPELLS), random.choice(_IN_A_SPELL)
            self._spell_ends_ms = now_ms + random.randint(*_SPELL_MS)
        likely = self._likely if self._spell == what.partition(".")[0] else 0.0
        return max(_HANGS, likely / 2), max(_THROTTLED, likely / 2)

    def _hang(self, task: Task, what: str, call: Callable[[], _T]) -> _T:
        """Waits for an answer that does not come, or comes to a second try. A queue takes nothing without an answer."""
        for attempt in range(FUNCTION.silent):
            if attempt and self._random.random() < 0.5:
                return self._answer(task, call)
            self._check(task, what)
            self.count(f"latency: {what} hangs")
            if self._random.random() < 0.5 and not what.startswith("sqs"):
                self._take(task)
                with suppress(ClientError):
                    call()
            task.takes(round(FUNCTION.try_s * 1000), self._now_ms)
        raise ReadTimeoutError(endpoint_url=what)

    def _answer(self, task: Task, call: Callable[[], _T]) -> _T:
        try:
            return call()
        finally:
            self._take(task)

    def _take(self, task: Task) -> None:
        chance = self._random.random()
        range_ms = _SLOW_MS if chance < _SLOW else _MS
        if self._unreliable and chance < _FREEZES:
            range_ms = _FROZEN_MS
            self.count("latency: a machine stands still")
        task.takes(self._random.randint(*range_ms), self._now_ms)

    def _check(self, task: Task, what: str) -> None:
        try:
            deadline.check(what=what)
        except OutOfTime:
            self.count("latency: out of time")
            # It may have sent messages whose note it cannot write.
            task.troubled = True
            raise

    # ---- side by side
    def _side_by_side(self, task: Task, call: Callable[[_T], object], arguments: Iterable[_T]) -> None:
        """Runs calls on greenlets below the task's own. The first of which a call is answered goes on first."""
        if self.over or task.side_by_side:
            in_order(call, arguments)
            return
        waiting = [greenlet(partial(call, each)) for each in arguments]
        for each in waiting:
            each.gr_context = copy_context()
        under_way: list[tuple[int, greenlet]] = []
        errors: list[Exception] = []
        task.side_by_side = True
        try:
            while waiting or under_way:
                while waiting and len(under_way) < _THREADS:
                    under_way.append((0, waiting.pop(0)))
                under_way.sort(key=lambda each: each[0])
                ready_ms, first = under_way.pop(0)
                if ready_ms > self._now_ms() and not self.over:
                    task.ready_ms = ready_ms
                    task.pause()
                try:
                    first.switch()
                except Exception as error:
                    errors.append(error)
                if not first.dead:
                    under_way.append((task.ready_ms, first))
        finally:
            task.side_by_side = False
            for _, each in under_way:
                if not each.dead:
                    each.throw(Died)
        if errors:
            raise errors[0]


class _Timed:
    """A client whose calls take time."""

    def __init__(self, latency: Latency, client: Any, name: str) -> None:
        self._latency, self._client, self._name = latency, client, name

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not callable(method) or name.startswith(("new_", "names", "take_due")):
            return method
        what = f"{self._name}.{name}"
        return lambda *args, **kwargs: self._latency.call(what, lambda: method(*args, **kwargs))


class _TimedObjects(_Timed):
    """The objects, with a listing in one call. An object written in pieces exists after the last piece."""

    def __init__(self, latency: Latency, objects: Any) -> None:
        super().__init__(latency, objects, "s3")

    def list(self, *args: Any) -> Iterator[Any]:
        return iter(self._latency.call("s3.list", lambda: [*self._client.list(*args)]))

    @contextmanager
    def create(self, name: str) -> Iterator[Any]:
        with self._client.create(name) as sink:
            yield sink
            self._latency.call("s3.create", lambda: None)


def _throttled(what: str) -> ClientError:
    response: Any = {
        "Error": {"Code": "ThrottlingException", "Message": "simulated"},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    return ClientError(response, what)
