"""Simulates the work queue, deliver's calls and DynamoDB's limits, for many messages that are due in one second.

Time is virtual. A part is a list of steps that were counted in the real flows (`bench_herd`). AWS's rules:

- Lambda's pollers of a queue begin with 5 calls at one time, and add 300 a minute, up to the environment's bound.
  https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
- A partition key takes 1,000 write units and 3,000 read units a second, saved up for BURST_S. DynamoDB may save up
  more, and does not promise it. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/burst-adaptive-capacity.html
- A write costs a unit for each KB of the item, and so does a refused condition.
- A task that failed is visible again after the queue's visibility time-out.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tidewheel.cost.figures import ASSUMED, FUNCTIONS, LATENCY_MS
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.triggers import WORK_QUEUE
from tidewheel.storage import table

WRITES_A_SECOND, READS_A_SECOND, BURST_S = 1_000.0, 3_000.0, 1.0
TABLE_WRITES_A_SECOND = 40_000.0
FIRST_CALLS, MORE_CALLS_A_SECOND = 5, 5.0
TIMEOUT_S = 60.0
FIRST_SWEEP_S, NEXT_SWEEPS_S = 300.0, 1_800.0
"""A sweep enqueues the open parts of a delivery 150 to 450 s after the hand-out, and then after each `redrive_s`."""
_BOTO_TRIES, _BOTO_WAIT_S = 2, 1.0
_PERSISTENT = 4
"""Tries of `flows.ports.persistently`."""
Wait = Iterator[float]


@dataclass(slots=True, kw_only=True)
class Marks:
    """The item with the marks of some parts.

    Attributes:
        partition: its partition key.
        fixed, done, leased: bytes of the item without marks, and of each mark.
    """

    partition: str
    fixed: float
    done: float
    leased: float
    parts_done: int = 0
    leases: int = 0

    def units(self, more: float = 0.0) -> int:
        """Returns the write units of a change that adds some bytes."""
        return math.ceil((self.fixed + self.done * self.parts_done + self.leased * self.leases + more) / 1024)


@dataclass(slots=True, kw_only=True)
class Part:
    """A part of a delivery, with its state in the simulation.

    Attributes:
        marks: the item with its marks.
        plan: the plan's name. A warm environment may keep it.
        partition: the topic's partition key.
        comes_s: when its task is in the work queue.
        rows: how many messages it sends.
    """

    marks: Marks
    plan: str
    partition: str
    comes_s: float
    rows: int
    leased_s: float | None = None
    done: bool = False
    sent_s: float | None = None
    copies: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a call needs, as the real flows were counted.

    Attributes:
        state_reads, plan_reads: read units of the topic state, and of the plan in a call that does not know it.
        known_reads: of the plan in a call that does.
        plan_gets, known_gets: reads of S3 for the plan.
        decode_s, known_s: CPU time for the plan, on Lambda.
    """

    state_reads: float
    plan_reads: float
    known_reads: float
    plan_gets: int
    known_gets: int
    decode_s: float
    known_s: float


class _Bucket:
    """Units of a partition or of the table."""

    def __init__(self, a_second: float) -> None:
        self.a_second, self.left, self.at_s = a_second, a_second * BURST_S, 0.0

    def refill(self, now_s: float) -> float:
        self.left = min(self.a_second * BURST_S, self.left + (now_s - self.at_s) * self.a_second)
        self.at_s = now_s
        return self.left


@dataclass(slots=True)
class _Environment:
    plans: set[str] = field(default_factory=set)
    warm: bool = False


class _Throttled(Exception):
    """DynamoDB refused each try."""


class Herd:
    """A simulation of the parts of deliveries.

    Args:
        parts: in the order of `comes_s`.
        costs: of a call.
        at_one_time: the most calls of deliver at one time.
    """

    def __init__(self, parts: list[Part], costs: Costs, at_one_time: int) -> None:
        self.parts, self.costs, self.at_one_time = parts, costs, at_one_time
        self.now_s, self._open = 0.0, len(parts)
        self.write_units = 0
        self.throttled = 0
        self._random = random.Random(17)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._waiting: deque[Part] = deque()
        self._receives: Counter[int] = Counter()
        self._idle: list[_Environment] = []
        self._busy = 0
        self._units: dict[tuple[str, str], _Bucket] = {}
        its = FUNCTIONS["deliver"]
        self._slower = ASSUMED["arm_factor"] / min(1.0, its["memory_mib"] / ASSUMED["vcpu_mib"])
        self._call_s, self._message_s = (its[name] * self._slower / 1000 for name in ("call_ms", "message_ms"))
        self._start_s = its["start_ms"] * ASSUMED["arm_factor"] / 1000  # a start has a whole CPU

    def run(self) -> None:
        """Runs until all parts are done."""
        for part in self.parts:
            self._at(part.comes_s, lambda part=part: self._comes(part))  # type: ignore[misc]
        self._at(FIRST_SWEEP_S, self._sweep)
        for second in range(self.at_one_time):
            self._at(float(second), self._receive)
        while self._open:
            self.now_s, _, event = heapq.heappop(self._events)
            event()

    def _at(self, at_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at_s, next(self._numbers), event))

    def _sweep(self) -> None:
        for part in self.parts:
            if not part.done:
                self._receives[id(part)] = 0
                self._waiting.append(part)
        self._at(self.now_s + NEXT_SWEEPS_S, self._sweep)
        self._receive()

    def _comes(self, part: Part) -> None:
        self._waiting.append(part)
        self._receive()

    def _receive(self) -> None:
        most = min(self.at_one_time, FIRST_CALLS + int(MORE_CALLS_A_SECOND * self.now_s))
        while self._waiting and self._busy < most:
            part = self._waiting.popleft()
            self._receives[id(part)] += 1
            if self._receives[id(part)] > WORK_QUEUE.receives:
                continue  # a dead letter; the sweep enqueues it
            self._busy += 1
            environment = self._idle.pop() if self._idle else _Environment()
            self._go_on(self._call(part, environment), part, environment, self.now_s)

    def _go_on(self, call: Iterator[float], part: Part, environment: _Environment, begun_s: float) -> None:
        """Runs a call to its next wait."""
        failed = False
        try:
            wait_s = next(call)
            if self.now_s + wait_s - begun_s < TIMEOUT_S:
                self._at(self.now_s + wait_s, lambda: self._go_on(call, part, environment, begun_s))
                return
            failed = True
        except StopIteration:
            pass
        except _Throttled:
            failed = True
        if failed:
            self._at(max(self.now_s, begun_s + WORK_QUEUE.visibility_s), lambda: self._comes(part))
        self._busy -= 1
        self._idle.append(environment)
        self._receive()

    def _call(self, part: Part, environment: _Environment) -> Wait:
        costs = self.costs
        if not environment.warm:
            environment.warm = True
            yield self._start_s
        yield self._call_s
        yield from self._read(part.partition, costs.state_reads)
        marks = part.marks
        yield from self._write(marks, lambda: marks.units(marks.leased))
        if part.done:
            yield from self._read(marks.partition, marks.units() / 4)
            return
        if part.leased_s is not None and part.leased_s > self.now_s - LEASE_MS / 1000:
            yield from self._read(marks.partition, marks.units() / 4)
            raise _Throttled  # leased: the task stays in the queue
        marks.leases += part.leased_s is None
        part.leased_s = self.now_s
        try:
            yield from self._deliver(part, environment)
        except _Throttled:
            yield from self._write(marks, marks.units)
            marks.leases -= part.leased_s is not None
            part.leased_s = None
            raise
        for tries in range(_PERSISTENT):
            try:
                yield from self._write(marks, marks.units)
                break
            except _Throttled:
                if tries == _PERSISTENT - 1:
                    raise
        if not part.done:
            marks.leases, marks.parts_done, part.done = marks.leases - 1, marks.parts_done + 1, True
            self._open -= 1

    def _deliver(self, part: Part, environment: _Environment) -> Wait:
        costs, known = self.costs, part.plan in environment.plans
        yield from self._read(part.partition, costs.known_reads if known else costs.plan_reads)
        yield (costs.known_gets if known else costs.plan_gets) * LATENCY_MS["s3.GetObject"] / 1000
        yield costs.known_s if known else costs.decode_s
        environment.plans = {part.plan}
        yield LATENCY_MS["s3.GetObject"] / 1000
        threads, send_s, cpu_s = ASSUMED["send_threads"], LATENCY_MS["sqs.SendMessageBatch"] / 1000, self._message_s
        yield max(cpu_s * part.rows + send_s, part.rows / 10 * (send_s + 10 * cpu_s) / threads)
        part.copies += part.sent_s is not None
        part.sent_s = self.now_s if part.sent_s is None else part.sent_s

    def _read(self, partition: str, units: float) -> Wait:
        if units:
            yield from self._ask("reads", READS_A_SECOND, partition, lambda: units, LATENCY_MS["dynamodb.GetItem"])

    def _write(self, marks: Marks, units: Callable[[], float]) -> Wait:
        yield from self._ask("writes", WRITES_A_SECOND, marks.partition, units, LATENCY_MS["dynamodb.UpdateItem"])

    def _ask(self, kind: str, a_second: float, partition: str, units: Callable[[], float], latency_ms: float) -> Wait:
        """Makes a request as the adapter does, with its tries and waits."""
        limits = [self._units.setdefault((kind, partition), _Bucket(a_second))]
        if kind == "writes":
            limits.append(self._units.setdefault((kind, ""), _Bucket(TABLE_WRITES_A_SECOND)))
        for attempt in range(1, table.THROTTLED_ATTEMPTS + 1):
            for boto in range(_BOTO_TRIES):
                yield latency_ms / 1000
                needed = units()
                if all(limit.refill(self.now_s) >= min(needed, limit.a_second) for limit in limits):
                    for limit in limits:
                        limit.left -= needed
                    self.write_units += math.ceil(needed) * (kind == "writes")
                    return
                self.throttled += 1
                if boto < _BOTO_TRIES - 1:
                    yield self._random.uniform(0, _BOTO_WAIT_S)
            if attempt < table.THROTTLED_ATTEMPTS:
                yield self._random.uniform(0, table._THROTTLED_BACKOFF_S * 2**attempt)
        raise _Throttled
