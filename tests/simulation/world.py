"""The state of a run, with the service in memory, time, chance, the running functions and the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.recorded_queues import RecordedService
from tests.simulation.faults import CallFailed, Faults, FaultyPorts, SkewedClock
from tests.simulation.interleaving import Died, Task
from tests.simulation.lasting import UNDOUBTED_SLOWLY_MS, LastingFaults
from tests.simulation.latency import Latency
from tests.simulation.modes import Odds
from tests.simulation.promises import Promises, Violation
from tidewheel.aws.tries import AWS_ERRORS
from tidewheel.clock import Clock, ManualClock
from tidewheel.errors import ClockDoubted, ConcurrentModification, PartLeased, QueueUnavailable, TidewheelError
from tidewheel.model.checked_clock import CheckedClock
from tidewheel.model.settings import MAX_FUNCTION_S
from tidewheel.model.triggers import SWEEP_INTERVAL_S

START_MS = 1_767_225_600_000
MAX_SKEW_MS = 100
LONGEST_MS = MAX_FUNCTION_S * 1000
"""How long anything lives that is under way; a client, too."""
CALM_MS = 60_000
"""A function takes no longer where nothing goes wrong."""
_IN_TIME_MS = 1000 + 2 * MAX_SKEW_MS
"""Of a message that nothing delays: SQS's delays are whole seconds, by clocks that may differ."""
_CALM_LATE_MS = 3 * CALM_MS + _IN_TIME_MS
"""Of a message whose ingest, dispatch and delivery each take as long as they may; less than a sweep away."""
_SWEEP_MS = SWEEP_INTERVAL_S * 1000 + CALM_MS
"""Until a sweep has come, and has started a dispatch."""
EXPECTED = (CallFailed, ClockDoubted, ConcurrentModification, PartLeased, QueueUnavailable, Died, *AWS_ERRORS)
"""What a function may end with, besides well."""

Ended = Callable[[Task], None]


@dataclass(slots=True, kw_only=True)
class Running:
    """A function or a client under way.

    Attributes:
        topic: what it works on; None: on all.
        limit_ms: how long it may live.
        administers: whether it is a call that changes a topic or its subscriptions.
        ended: told when it has ended, well or not.
    """

    task: Task
    topic: str | None
    limit_ms: int
    ended: Ended | None
    administers: bool = False


@dataclass(slots=True, kw_only=True)
class World:
    """The world of a run.

    Attributes:
        odds, unreliable: as the simulation was asked for; healed, nothing goes wrong any more.
        lasting: faults that last; None: there are none in this run.
        latency: the time that calls take; None: none.
        excused: (queue, message) -> functions that sent the message, and died or could not note that they had.
        skews_ms: the least and the most that a clock is off; SQS's own is right.
        step: grows with each call and each event.
        running: who is under way, in the order in which they get their turn.
        healed_ms: when everything was healed; from then on nothing takes any time but the wheel; None: not yet.
        broken: promises that were broken inside a function, which may not notice.
        deleted: names of topics that somebody ever began to delete: their functions may find nothing.
        at_rest: topics that are being rebuilt, or whose rebuild died: there is no topic state.
        rested_ms: topic -> when its last rebuild ended.
    """

    odds: Odds
    unreliable: bool
    random: Random
    clock: ManualClock
    service: RecordedService
    lasting: LastingFaults | None = None
    latency: Latency | None = None
    excused: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: Faults = field(init=False)
    promises: Promises = field(default_factory=Promises)
    skews_ms: tuple[int, int] = (-MAX_SKEW_MS // 2, MAX_SKEW_MS // 2)
    step: int = 0
    names: int = 0
    running: list[Running] = field(default_factory=list)
    healed_ms: int | None = None
    broken: list[Violation] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    at_rest: set[str] = field(default_factory=set)
    rested_ms: dict[str, int] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.faults = Faults(
            self.random, lambda: self.odds, self.note, lasting=self.lasting, right_ms=self.clock.now_ms
        )
        if self.latency is not None:
            self.faults.latency, self.faults.timed = self.latency, self.latency.service(self.service)
            self.latency.count = self.count

    @property
    def exercised(self) -> Counter[str]:
        """The counts of events."""
        return self.faults.exercised

    @property
    def calm(self) -> bool:
        """Whether nothing goes wrong."""
        return self.brisk and self.lasting is None

    @property
    def brisk(self) -> bool:
        """Whether functions take little time, and all triggers come in time."""
        return self.odds.none and not self.unreliable

    def most_late_ms(self, due_ms: int) -> int:
        """Returns the maximum lateness of a message without a fault of its own."""
        if self.lasting is not None:
            return _CALM_LATE_MS + (_SWEEP_MS if self.lasting.family == "wheel" else 0)
        return _IN_TIME_MS if self.healed_ms is not None and due_ms > self.healed_ms else _CALM_LATE_MS

    @property
    def most_early_ms(self) -> int:
        """The maximum earliness of a message, which is the largest unnoticed error of a clock."""
        if self.lasting is None or self.latency is None:
            return 0 if self.lasting is None else self.lasting.undoubted_ms
        return UNDOUBTED_SLOWLY_MS if self.lasting.undoubted_ms else 0

    @property
    def now_ms(self) -> int:
        """The true time, which is SQS's."""
        return self.clock.now_ms()

    def note(self, line: str) -> None:
        """Adds a line to the trace."""
        self.step += 1
        self.trace.append(f"{self.clock.now_ms() - START_MS:>11,} {line}")

    def count(self, what: str) -> None:
        """Counts an event."""
        self.exercised[what] += 1

    def happens(self, likely: float) -> bool:
        """Whether an unreliable trigger goes wrong."""
        return self.unreliable and self.random.random() < likely

    # ---- functions and clients
    def start(
        self,
        name: str,
        call: Callable[[FaultyPorts], Any],
        *,
        topic: str | None = None,
        limit_ms: int | None = None,
        ended: Ended | None = None,
        administers: bool = False,
    ) -> None:
        """Begins a function or client with its own clock, stopped before its first call.

        Args:
            limit_ms: how long the function lives; None: it is a client.
        """
        self.names += 1
        skew_ms = self.random.randint(*self.skews_ms)
        clock: Clock = SkewedClock(self.clock, skew_ms)
        if self.lasting is not None and limit_ms is not None:
            clock = CheckedClock(self.lasting.clock(self.clock, skew_ms))

        def run(task: Task) -> None:
            with nullcontext() if self.latency is None else self.latency.budget(task, limit_ms):
                call(FaultyPorts(self.service, task, self.faults, clock))

        task = Task(f"{name} {self.names}", run, self.now_ms)
        self.note(f"{task.name}: begins")
        longest_ms = LONGEST_MS if limit_ms is None else limit_ms
        running = Running(task=task, topic=topic, limit_ms=longest_ms, ended=ended, administers=administers)
        self.running.insert(self.random.randint(0, len(self.running)), running)

    def start_client(
        self, kind: str, topic: str, call: Callable[[FaultyPorts], Any], ended: Ended | None = None
    ) -> None:
        """Begins an administrator's call, which is counted."""

        def run(ports: FaultyPorts) -> None:
            with self.unanswered(kind):
                call(ports)

        self.start(f"{kind} of {topic}", run, topic=topic, ended=ended, administers=True)

    def advance(self, running: Running) -> None:
        """Runs a function's next step, or kills the function.

        Raises:
            Violation: it ended with what it must not end with, or has broken a promise.
        """
        task = running.task
        overdue = self.now_ms - task.started_ms >= running.limit_ms + (self.latency is None)
        if overdue or (self.unreliable and self.random.random() < 0.002):
            self.count("fault: timed out" if overdue else "fault: killed")
            self.note(f"{task.name}: {'timed out' if overdue else 'killed'}")
            task.kill()
        else:
            task.step()
        if task.over:
            self.running.remove(running)
            if task.dead:
                self.count("function died")
            if isinstance(task.error, ClockDoubted):
                self.count("fault: clock doubted")
            at_rest = task.error is not None and running.topic is not None and self.was_at_rest(running.topic)
            if task.dead or task.troubled or at_rest or isinstance(task.error, ClockDoubted):
                self.excused.update(set(task.sent))
            self._judge(running)
            if running.ended is not None:
                running.ended(task)
        if self.broken:
            raise self.broken[0]

    def _judge(self, running: Running) -> None:
        error = running.task.error
        if error is not None and not self.tolerates(error, running.topic):
            if isinstance(error, Violation):
                raise error
            about = () if running.topic is None else (running.topic,)
            raise Violation(f"{running.task.name} ended with {error!r}", *about, running.task.name) from error

    def tolerates(self, error: BaseException, topic: str | None) -> bool:
        """Whether a function may end with an error."""
        if isinstance(error, EXPECTED):
            return True
        some = self.deleted or self.at_rest or self.rested_ms
        gone = topic in self.deleted or self.was_at_rest(topic) if topic is not None else bool(some)
        return isinstance(error, TidewheelError) and gone

    def was_at_rest(self, topic: str) -> bool:
        """Whether a topic has no topic state, or had none during the reads of a running function."""
        rested_ms = self.rested_ms.get(topic)
        return topic in self.at_rest or (rested_ms is not None and self.now_ms - rested_ms <= LONGEST_MS)

    def administered(self, topic: str) -> bool:
        """Whether an administrator is changing a topic or its subscriptions."""
        return any(each.administers and each.topic == topic for each in self.running)

    def wait_for_others(self, task: Task, topic: str) -> None:
        """Stops a function until the end of all functions at work on a topic."""
        others = [each.task for each in self.running if each.task is not task and each.topic in (None, topic)]
        while not all(each.over for each in others):
            self.running.sort(key=lambda each: each.task is task)  # the last in line
            task.takes(0 if self.latency is None else 100, lambda: self.now_ms)

    def end_all(self) -> None:
        """Kills all running functions."""
        for running in self.running:
            running.task.kill()
        self.running.clear()

    # ---- time
    def ready(self) -> list[Running]:
        """Returns the functions and clients that can make a step, as their calls are answered or their time is over."""
        now_ms = self.now_ms
        return [
            each
            for each in self.running
            if each.task.ready_ms <= now_ms or now_ms - each.task.started_ms >= each.limit_ms
        ]

    def next_ms(self) -> int:
        """Returns when the next of them can make a step."""
        return min(min(each.task.ready_ms, each.task.started_ms + each.limit_ms) for each in self.running)

    def oldest_ms(self) -> int | None:
        """Returns the start of the longest running function."""
        return min((each.task.started_ms for each in self.running), default=None)

    @contextmanager
    def unanswered(self, kind: str) -> Iterator[None]:
        """Counts a client's call by its outcome."""
        self.count(f"client: {kind}")
        try:
            yield
        except BaseException as error:
            answer = "contended" if isinstance(error, ConcurrentModification) else "refused"
            self.count(f"{answer if isinstance(error, TidewheelError) else 'unanswered'}: {kind}")
            raise
