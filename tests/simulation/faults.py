"""The ports of one running function. Each call is a step, and may fail before or after its effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from random import Random
from typing import Any

from tests.simulation.interleaving import Died, Task
from tests.simulation.naming import named
from tests.stored_ports import TABLE_PORTS
from tidewheel.clock import Clock
from tidewheel.errors import ConcurrentModification, QueueUnavailable
from tidewheel.flows.ports.parallel import in_order
from tidewheel.flows.ports.queues import Refusal, Release
from tidewheel.memory import MemoryService


class CallFailed(Exception):
    """AWS did not answer in time, or answered with an internal error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How likely a call is to go wrong, each as a probability.

    Attributes:
        fails_before, fails_after: the call raises; it took no effect, or it did.
        dies_before, dies_after: the function dies likewise.
        throttled: the call is refused, as often as the adapter tries: what it raises then.
        half_sent: of a batch for a queue, each message is not taken for now.
    """

    fails_before: float = 0.0
    fails_after: float = 0.0
    dies_before: float = 0.0
    dies_after: float = 0.0
    throttled: float = 0.0
    half_sent: float = 0.0

    @property
    def none(self) -> bool:
        """Whether nothing goes wrong."""
        return self == NO_FAULTS


NO_FAULTS = Odds()
FAULTS = Odds(fails_before=0.01, fails_after=0.01, dies_before=0.005, dies_after=0.005, throttled=0.005, half_sent=0.02)
MODES: dict[str, tuple[Odds, bool]] = {"calm": (NO_FAULTS, False), "late": (NO_FAULTS, True), "faults": (FAULTS, True)}
"""Name -> the odds, and whether triggers are unreliable."""
_PAGED = 0.3
"""How likely a query takes two pages."""


class SkewedClock:
    """A clock with a constant skew."""

    def __init__(self, clock: Clock, skew_ms: int) -> None:
        self._clock = clock
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        """Returns the time of this machine's clock."""
        return self._clock.now_ms() + self._skew_ms


def _ignore(*_: object) -> None:
    """Watches nothing."""


@dataclass(slots=True)
class Faults:
    """Decides the fate of each call.

    Args:
        random: the simulation's source of chance.
        odds: asked at each call, since they change when everything is healed.
        trace: told each call and what became of it.
        took: told each message that a queue took: the queue, the message, its delay in seconds.
        refused: told each message that a queue refused for good: the document that is kept.
        removed: told after each call that deletes objects or items.
        exercised: how often each call was made, with which answer, and each fault injected.
    """

    random: Random
    odds: Callable[[], Odds]
    trace: Callable[[str], None]
    took: Callable[[str, Release, int], None] = _ignore
    refused: Callable[[Mapping[str, object]], None] = _ignore
    removed: Callable[[], None] = _ignore
    exercised: Counter[str] = field(default_factory=Counter)

    def around(self, task: Task, what: str, call: Callable[[], Any], detail: str = "") -> Any:
        """Makes a call as one step of a task."""
        task.pause()
        odds = self.odds()
        if odds is not NO_FAULTS:
            chance = self.random.random()
            for likely, effect, kind, fault in (
                (odds.fails_before, False, CallFailed, "fails before"),
                (odds.fails_after, True, CallFailed, "fails after"),
                (odds.dies_before, False, Died, "dies before"),
                (odds.dies_after, True, Died, "dies after"),
                (odds.throttled, False, None, "throttled"),
            ):
                if chance < likely:
                    self._inject(task, what, call, detail, effect, kind, fault)
                chance -= likely
        answer = call()
        self.exercised[what + _answer(answer)] += 1
        self.trace(f"{task.name}: {what}{detail}{_answer(answer)}")
        return answer

    def _inject(
        self,
        task: Task,
        what: str,
        call: Callable[[], Any],
        detail: str,
        effect: bool,
        kind: type[BaseException] | None,
        fault: str,
    ) -> None:
        self.exercised[f"fault: {fault}"] += 1
        self.exercised[f"faulty: {what}"] += 1
        self.trace(f"{task.name}: {what}{detail} {fault}")
        if effect:
            call()
        if kind is Died:
            task.dead = True
        if kind is None:
            raise throttled(what)
        raise kind(what)


def throttled(what: str) -> Exception:
    """Returns what the AWS adapter of a port raises when it is throttled for too long."""
    if what.partition(".")[0] in TABLE_PORTS:
        return ConcurrentModification(what, "simulated", 1)
    if what.startswith("queues.enqueue"):
        return QueueUnavailable("work", "throttled")
    return CallFailed(f"{what}: throttled")


def _answer(answer: object) -> str:
    if isinstance(answer, Enum):
        return f" -> {answer.value}"
    return f" -> {'yes' if answer else 'no'}" if isinstance(answer, bool) else ""


class FaultyPort:
    """A port whose every call is a step of a task."""

    def __init__(self, name: str, port: Any, task: Task, faults: Faults) -> None:
        self._name, self._port, self._task, self._faults = name, port, task, faults

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name.startswith("new_"):  # a name is made without asking anybody
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            def effect() -> Any:
                answer = method(*args, **kwargs)
                if name.startswith("delete"):
                    self._faults.removed()
                return answer

            return self._faults.around(self._task, f"{self._name}.{name}", effect, named(args))

        setattr(self, name, call)  # the same next time, without being made again
        return call


def _by_key(each: Any) -> Any:
    key = each.key
    return key.subscription, key.generation, getattr(key, "plan", ""), getattr(key, "id", "")


class FaultyQueries(FaultyPort):
    """Long queries come page by page: what is written in between is in the later page, or in neither.

    Args:
        order: query -> the order of its items.
    """

    def __init__(
        self, name: str, port: Any, task: Task, faults: Faults, order: Mapping[str, Callable[[Any], Any]]
    ) -> None:
        super().__init__(name, port, task, faults)
        for query, by in order.items():
            setattr(self, query, partial(self._pages, query, by))

    def _pages(self, name: str, order: Callable[[Any], Any], topic: str, *args: Any) -> Any:
        def page() -> list[Any]:
            return sorted(getattr(self._port, name)(topic, *args), key=order)

        kind = frozenset if name == "ids" else list
        first = self._faults.around(self._task, f"{self._name}.{name}", page, f" {topic}")
        if not first or self._faults.random.random() > _PAGED:
            return kind(first)
        last = order(self._faults.random.choice(first))
        second = self._faults.around(self._task, f"{self._name}.{name} page 2", page, f" {topic}")
        return kind([each for each in first if order(each) <= last] + [each for each in second if order(each) > last])


class FaultyPlans(FaultyQueries):
    """Plans whose commits are told apart by their way."""

    def commit(self, state: Any, plan: Any, b: int, hand_outs: Any = (), next_work: Any = None) -> bool:
        """Plans, either in one transaction or as the first of single steps."""
        way = "plans.commit in single steps" if next_work is None else "plans.commit in one transaction"

        def call() -> Any:
            return self._port.commit(state, plan, b, hand_outs, next_work)

        done: bool = self._faults.around(self._task, way, call, named((state, plan, b, hand_outs, next_work)))
        return done


QUERIES: dict[str, dict[str, Callable[[Any], Any]]] = {
    "buckets": {"all": lambda each: each.id},
    "subscriptions": {"all": lambda each: each.name},
    "deliveries": {"all": lambda each: (*_by_key(each), each.key.replay or "")},
    "parks": {"all": _by_key},
    "merges": {"trash": lambda each: (each.sealed, each.id)},
    "plans": {"ranges": lambda each: each},
    "recurring": {"all": lambda each: each.name},
    "tombstones": {"ids": lambda each: each},  # ids sort as slots do
}
"""Port -> its queries that take pages, with the order of their items."""


class FaultyObjects(FaultyPort):
    """Returns a listing in one step. An object that is written in pieces exists after the last piece."""

    def list(self, *args: Any) -> Iterator[Any]:
        """Lists in one step."""
        found = self._faults.around(self._task, "objects.list", lambda: [*self._port.list(*args)], f" {args[0]}")
        return iter(found)

    @contextmanager
    def create(self, name: str) -> Iterator[Any]:
        """Opens an object. Closing the object is a step."""
        with self._port.create(name) as sink:
            yield sink
            self._faults.around(self._task, "objects.create", lambda: None, f" {name}")


class FaultyQueues(FaultyPort):
    """Batches of which some messages are not taken for now."""

    def send(self, queue_url: str, batch: Sequence[tuple[Release, int]]) -> list[Refusal]:
        """Sends the messages that the queue takes."""
        likely = self._faults.odds().half_sent
        refused = [i for i in range(len(batch)) if likely and self._faults.random.random() < likely]
        taken = [i for i in range(len(batch)) if i not in refused]
        if refused:
            self._faults.exercised["fault: half sent"] += 1

        def call() -> list[Refusal]:
            some = [batch[i] for i in taken]
            found = self._port.send(queue_url, some) if some else []
            not_taken = {each.index for each in found}
            for place, (release, delay_s) in enumerate(some):
                if place not in not_taken:
                    self._faults.took(queue_url, release, delay_s)
            return [Refusal(taken[each.index], each.permanent, each.code, each.reason) for each in found] + [
                Refusal(i, False, "ServiceUnavailable", "not now") for i in refused
            ]

        detail = f" to {queue_url}: {', '.join(each.header[7:33] for each, _ in batch)}"
        answer: list[Refusal] = self._faults.around(self._task, "queues.send", call, detail)
        return answer

    def refuse(self, document: Mapping[str, object]) -> None:
        """Keeps a message that SQS refuses."""

        def call() -> None:
            self._port.refuse(document)
            self._faults.refused(document)

        self._faults.around(self._task, "queues.refuse", call, f" {document['header']}")


class FaultyPorts:
    """All ports of a service for one task, with the task's own clock and failures."""

    def __init__(self, service: MemoryService, task: Task, faults: Faults, skew_ms: int) -> None:
        self.task, self.faults = task, faults
        for name in TABLE_PORTS:
            queries = FaultyPlans if name == "plans" else FaultyQueries
            setattr(self, name, queries(name, getattr(service, name), task, faults, QUERIES.get(name, {})))
        self.objects: Any = FaultyObjects("objects", service.objects, task, faults)
        self.queues: Any = FaultyQueues("queues", service.queues, task, faults)
        self.wheel: Any = FaultyPort("wheel", service.wheel, task, faults)
        self.runs: Any = FaultyPort("runs", service.runs, task, faults)
        self.clock = SkewedClock(service.clock, skew_ms)
        self.parallel, self.max_skew_ms = in_order, service.max_skew_ms
