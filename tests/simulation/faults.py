"""The ports of a running function. Each call is a step, and may fail before or after its effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa

from tests.recorded_queues import RecordedService
from tests.simulation.interleaving import Died, Task
from tests.simulation.lasting import LastingFaults
from tests.simulation.latency import Latency
from tests.simulation.modes import NO_FAULTS, Odds
from tests.simulation.trace import named
from tests.stored_ports import TABLE_PORTS
from tidewheel.clock import Clock
from tidewheel.errors import ConcurrentModification, CorruptLedger, ObjectMissing, QueueUnavailable
from tidewheel.flows.delivery.parking import parked_rows
from tidewheel.flows.ports import QueueMessage, Refusal, in_order
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.memory import MemoryService
from tidewheel.model.checked_clock import CheckedClock
from tidewheel.model.message import id_text
from tidewheel.model.pack import decode_pack, outgoing
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.buckets import Commit
from tidewheel.storage.parks import Parked


class CallFailed(Exception):
    """AWS did not answer in time, or answered with an internal error."""


FORWARDED = "forwarded"
"""The queue of a task's messages that are in the bulk queue."""
_PAGED = 0.3
"""How likely a query takes two pages."""


class SkewedClock:
    """A clock with a skew."""

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
        lasting: faults that last, if this run has any.
        right_ms: the true time, which AWS's answers tell.
        latency: the time that calls take; None: none.
        timed: the service whose calls take time.
    """

    random: Random
    odds: Callable[[], Odds]
    trace: Callable[[str], None]
    took: Callable[[str, QueueMessage, int], None] = _ignore
    refused: Callable[[Mapping[str, object]], None] = _ignore
    removed: Callable[[], None] = _ignore
    exercised: Counter[str] = field(default_factory=Counter)
    lasting: LastingFaults | None = None
    right_ms: Callable[[], int] = lambda: 0
    latency: Latency | None = None
    timed: RecordedService | None = None

    def around(self, task: Task, what: str, call: Callable[[], Any], detail: str = "", args: Sequence[Any] = ()) -> Any:
        """Makes a call with some arguments as one step of a task."""
        if self.latency is None or self.latency.over:
            task.pause()
        task.calls.append(what)
        odds = self.odds()
        before_ms = None if task.clock is None else task.clock.local.before_call_ms()
        if self.lasting is not None and self.lasting.refuses(task, what, args):
            self.exercised["fault: lasts"] += 1
            self.exercised[f"faulty: {what}"] += 1
            self.trace(f"{task.name}: {what}{detail} refused")
            if self.latency is not None:
                self.latency.refuse(what)
            raise throttled(what)
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
        try:
            answer = call()
        finally:
            if task.clock is not None and before_ms is not None:
                after_ms, aws_ms = task.clock.local.now_ms(), self.right_ms() // 1000 * 1000
                task.clock.observe(before_ms, after_ms, aws_ms)
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
    """Returns the error of a port's AWS adapter after too much throttling."""
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

            return self._faults.around(self._task, f"{self._name}.{name}", effect, named(args), args)

        setattr(self, name, call)  # the same next time, without being made again
        return call


def _by_key(each: Any) -> Any:
    key = each.key
    return key.subscription, key.generation, getattr(key, "plan", ""), getattr(key, "id", "")


class FaultyQueries(FaultyPort):
    """A port with long queries in two pages. A write between the pages is in the second page or in neither.

    Args:
        order: query -> the order of its items.
    """

    def __init__(
        self, name: str, port: Any, task: Task, faults: Faults, order: Mapping[str, Callable[[Any], Any]]
    ) -> None:
        super().__init__(name, port, task, faults)
        for query, by in order.items():
            setattr(self, query, partial(self._pages, query, by))

    def _pages(self, name: str, order: Callable[[Any], Any], topic: str, *args: Any, **kwargs: Any) -> Any:
        pages = self._each_page(name, order, lambda: getattr(self._port, name)(topic, *args, **kwargs), topic)
        found = (each for page in pages for each in page)
        if name == "in_order":
            return found  # each page when its turn comes
        return (frozenset if name == "ids" else list)(found)

    def _each_page(
        self, name: str, order: Callable[[Any], Any], read: Callable[[], Iterable[Any]], topic: str
    ) -> Iterator[list[Any]]:
        def page() -> list[Any]:
            return sorted(read(), key=order)

        first = self._faults.around(self._task, f"{self._name}.{name}", page, f" {topic}", (topic,))
        if not first or self._faults.random.random() > _PAGED:
            yield first
            return
        last = order(self._faults.random.choice(first))
        yield [each for each in first if order(each) <= last]
        second = self._faults.around(self._task, f"{self._name}.{name} page 2", page, f" {topic}", (topic,))
        yield [each for each in second if order(each) > last]


class FaultyPlans(FaultyQueries):
    """The port of plans, with commits named by their way."""

    def commit(
        self, state: Any, plan: Any, b: int, hand_outs: Any = (), next_work: Any = None, *, rows: int = 0
    ) -> bool:
        """Plans, either in one transaction or as the first of single steps."""
        way = "plans.commit in single steps" if next_work is None else "plans.commit in one transaction"

        def call() -> Any:
            return self._port.commit(state, plan, b, hand_outs, next_work, rows=rows)

        args = (state, plan, b, hand_outs, next_work)
        done: bool = self._faults.around(self._task, way, call, named(args), args)
        return done


class FaultyParks(FaultyQueries):
    """The port of parks. A parked message counts as sent by its parker, since some drain sends the message."""

    def __init__(self, service: MemoryService, task: Task, faults: Faults, parks: Any) -> None:
        super().__init__("parks", parks, task, faults, QUERIES["parks"])
        self._service = service

    def put(self, park: Park, state: Any) -> Parked:
        """Parks messages."""

        def call() -> Parked:
            answer: Parked = self._port.put(park, state)
            if answer is Parked.PARKED:
                note_sent(self._service, self._task, park)
            return answer

        args = (park, state)
        done: Parked = self._faults.around(self._task, "parks.put", call, named(args), args)
        return done


def note_sent(service: MemoryService, task: Task, park: Park) -> None:
    """Counts the messages of a park as sent to its subscription by a task."""
    owner = service.subscriptions.read(park.key.topic, park.key.subscription)
    if owner is not None:
        with suppress(ObjectMissing, CorruptLedger):  # damaged meanwhile, which the function does not see
            ids = parked_rows(service.objects, park).column("message_id").cast(pa.binary()).to_pylist()
            task.sent += [(owner.queue_url, id_text(each)) for each in ids]


class _AsItems:
    """Buckets as items of the table. The index of a large bucket is in its ledger alone.

    The messages of a ledger count as sent by whoever commits it, since some dispatch sends them.
    """

    def __init__(self, service: MemoryService, task: Task, buckets: Any) -> None:
        self._service, self._task, self._buckets = service, task, buckets

    def commit(self, state: TopicState, bucket: Bucket, *args: Any, **options: Any) -> Commit:
        """Commits a ledger."""
        answer = self._buckets.commit(state, bucket, *args, **options)
        if answer is Commit.COMMITTED:
            name, size_bytes = bucket.object_name, bucket.size_bytes
            for each in self._service.subscriptions.all(state.topic):
                key = ParkKey(topic=state.topic, subscription=each.name, generation=each.generation, id="")
                park = Park(key=key, rows=0, size_bytes=size_bytes, next_check_ms=0, object_name=name)
                note_sent(self._service, self._task, park)
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._buckets, name)

    def all(self, topic: str, unreadable: object = None) -> list[Bucket]:
        """Reads all buckets."""
        return [each.without_tail() for each in self._buckets.all(topic)]

    def in_order(self, topic: str, unreadable: object = None, **kwargs: Any) -> Iterator[Bucket]:
        """Reads buckets in order."""
        return (each.without_tail() for each in self._buckets.in_order(topic, **kwargs))

    def read(self, topic: str, bucket_id: BucketId) -> Bucket | None:
        """Reads a bucket."""
        found = self._buckets.read(topic, bucket_id)
        return None if found is None else found.without_tail()


QUERIES: dict[str, dict[str, Callable[[Any], Any]]] = {
    "buckets": dict.fromkeys(("all", "in_order"), lambda each: each.id),
    "subscriptions": {"all": lambda each: each.name},
    "deliveries": {"all": lambda each: (*_by_key(each), each.key.replay or "")},
    "parks": {"all": _by_key},
    "merges": {"trash": lambda each: (each.dead_from, each.id)},
    "plans": {"ranges": lambda each: each},
    "recurring": {"all": lambda each: each.name},
    "tombstones": {"ids": lambda each: each},  # ids sort as slots do
}
"""Port -> its queries that take pages, with the order of their items."""


class FaultyObjects(FaultyPort):
    """The port of objects, with a listing in one step. An object written in pieces exists after the last piece."""

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
    """The port of queues. Some messages of a batch may be refused for now."""

    def __init__(self, service: MemoryService, task: Task, faults: Faults, queues: Any) -> None:
        super().__init__("queues", queues, task, faults)
        self._service = service

    def send(self, queue_url: str, batch: Sequence[tuple[QueueMessage, int]]) -> list[Refusal]:
        """Sends the messages that the queue takes."""
        likely, lasting = self._faults.odds().half_sent, self._faults.lasting
        refused = [i for i in range(len(batch)) if likely and self._faults.random.random() < likely]
        if lasting is not None:
            refused = [i for i in range(len(batch)) if lasting.refuses_message(queue_url)]
        taken = [i for i in range(len(batch)) if i not in refused]
        if refused:
            self._faults.exercised["fault: half sent"] += 1

        def call() -> list[Refusal]:
            if lasting is not None and lasting.denies(queue_url):
                raise QueueUnavailable(queue_url, "KMS.DisabledException: the key is disabled")
            some = [batch[i] for i in taken]
            found = self._send(queue_url, some) if some else []
            return [Refusal(taken[each.index], each.permanent, each.code, each.reason) for each in found] + [
                Refusal(i, False, "ServiceUnavailable", "not now") for i in refused
            ]

        detail = f" to {queue_url}: {', '.join(each.header[7:33] for each, _ in batch)}"
        answer: list[Refusal] = self._faults.around(self._task, "queues.send", call, detail)
        return answer

    def _send(self, queue_url: str, batch: Sequence[tuple[QueueMessage, int]]) -> list[Refusal]:
        """Sends messages, and notes which the queue took."""
        found: list[Refusal] = self._port.send(queue_url, batch)
        not_taken = {each.index for each in found}
        for place, (release, delay_s) in enumerate(batch):
            if place not in not_taken:
                self._task.sent.append((queue_url, release.header[7:33]))
                self._faults.took(queue_url, release, delay_s)
        return found

    def forward(self, topic: str, messages: int, pack: bytes, *, urgent: bool = False) -> None:
        """Puts a pack into an ingest queue. Its messages count as sent, since some ingest sends them."""
        ids = [id_text(each.id) for each in outgoing(decode_pack(pack, self._faults.right_ms()))]

        def call() -> None:
            self._port.forward(topic, messages, pack, urgent=urgent)
            readers = [each.queue_url for each in self._service.subscriptions.all(topic)]
            self._task.sent += [(reader, id) for reader in (*readers, FORWARDED) for id in ids]

        self._faults.around(self._task, "queues.forward", call, f" {', '.join(ids)} of {topic}")

    def refuse(self, document: Mapping[str, object]) -> None:
        """Keeps a message after SQS refused the message."""

        def call() -> None:
            self._port.refuse(document)
            self._faults.refused(document)

        self._faults.around(self._task, "queues.refuse", call, f" {document.get('header', document.get('reason'))}")


class FaultyPorts:
    """All ports of a service for a task, with the task's own clock and failures."""

    def __init__(self, service: MemoryService, task: Task, faults: Faults, clock: Clock) -> None:
        self.task, self.faults, self.clock = task, faults, clock
        ports = service if faults.timed is None else faults.timed
        for name in TABLE_PORTS:
            queries = FaultyPlans if name == "plans" else FaultyQueries
            port = _AsItems(service, task, ports.buckets) if name == "buckets" else getattr(ports, name)
            setattr(self, name, queries(name, port, task, faults, QUERIES.get(name, {})))
        self.objects: Any = FaultyObjects("objects", ports.objects, task, faults)
        self.parks: Any = FaultyParks(service, task, faults, ports.parks)
        self.queues: Any = FaultyQueues(service, task, faults, ports.queues)
        self.wheel: Any = FaultyPort("wheel", ports.wheel, task, faults)
        self.runs: Any = FaultyPort("runs", ports.runs, task, faults)
        if isinstance(clock, CheckedClock):
            task.clock, clock.ask = clock, lambda: self.topic_states.read("")  # type: ignore[attr-defined]
        self.parallel = in_order if faults.latency is None else faults.latency.parallel(task)
        self.max_skew_ms = service.max_skew_ms
