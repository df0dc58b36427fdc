"""The triggers of functions, such as queues, schedules and the sweep. Each may come late, twice or never."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Protocol

from tests.simulation.faults import FaultyPorts
from tests.simulation.interleaving import Task
from tests.simulation.promises import Violation
from tests.simulation.world import START_MS, World
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.ingest_batch import pack_of
from tidewheel.flows.delivery.work import do_task
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.due_checks import SweepResult
from tidewheel.flows.maintenance.merge import Merged, in_process, merge
from tidewheel.flows.maintenance.sweep import sweep
from tidewheel.flows.ports import Item, MergeSize, Result
from tidewheel.local import MemoryTidewheel
from tidewheel.local.event_source import record_of
from tidewheel.model.message import id_text
from tidewheel.model.pack import Pack
from tidewheel.model.received import QueuedMessage
from tidewheel.model.subscription_state import Delivered
from tidewheel.model.task import task_of
from tidewheel.model.triggers import BULK_WINDOW_S, SWEEP_INTERVAL_S, URGENT_QUEUE, WORK_QUEUE, bulk_queue

BULK_URL = MemoryTidewheel().queue("tidewheel_bulk").url
SWEEP_MS = SWEEP_INTERVAL_S * 1000
INGEST_MS, DELIVER_MS, DISPATCH_MS, SWEEP_LIFE_MS, MERGE_MS = 60_000, 60_000, 120_000, 240_000, 300_000
"""How long each function lives: infra/environments.py."""
URGENT_VISIBILITY_MS = URGENT_QUEUE.visibility_s * 1000
WORK_VISIBILITY_MS = WORK_QUEUE.visibility_s * 1000
MOST_RECEIVES = WORK_QUEUE.receives
"""Of a job, before the work queue gives it up."""
_DAY_MS = 86_400_000
_MOST_PACKS = 10
_MOST_DAYS_ASIDE = 27
"""A pack is kept for 14 days in its queue and 14 in its dead-letter queue, from which somebody moves it back."""
PACKS_OF_NOBODY = 3
"""Receives after which a pack of a topic that is no more is given up here; SQS does after some hours."""
START_TAKES_MS = 500
"""How long a schedule takes to start a function, at most, when all is well."""
RETRY_MS = (60_000, 120_000)
"""When Lambda repeats an asynchronous call that failed."""


@dataclass(slots=True, kw_only=True, eq=False)
class Queued:
    """A pack in the ingest queue, or a job in the work queue.

    Attributes:
        bulk: whether a plain message was forwarded as this pack.
    """

    content: Any
    visible_ms: int
    received: int = 0
    id: str = ""
    bulk: bool = False

    @property
    def pack(self) -> Pack:
        """The pack as received from SQS."""
        pack: Pack = self.content
        assert pack.arrival is not None
        return replace(pack, arrival=replace(pack.arrival, name=self.id, retried=self.received > 1))


class Source(Protocol):
    """Messages for the handler of a function."""

    @property
    def waiting(self) -> Sequence[Any]:
        """The messages, each with its `visible_ms`."""
        ...

    def starts(self, limit_ms: int) -> list[Callable[[], None]]:
        """Returns the starts of functions for the receivable messages."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """An asynchronous call of dispatch.

    Attributes:
        tried: how often it has failed.
    """

    topic: str
    at_ms: int
    tried: int = 0


@dataclass(frozen=True, slots=True)
class AnyOrder:
    """Runs tasks in an order drawn at random, some twice, and all before the first result comes.

    So the outputs of many merges are there while none is swapped.
    """

    random: Random

    @property
    def side_by_side(self) -> int:
        """The number of tasks run at once."""
        return 1000

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Generator[tuple[int, Result], None, None]:
        """Yields the last result of each task."""
        order = [place for place in range(len(items)) for _ in range(1 + (self.random.random() < 0.2))]
        self.random.shuffle(order)
        yield from {place: task(items[place]) for place in order}.items()


def _ids(queued: Sequence[Queued]) -> list[str]:
    return [id_text(each.pack.ids[i : i + 16]) for each in queued for i in range(0, len(each.pack.ids), 16)]


class Triggers:
    """All triggers of a world.

    Args:
        sweep_ms: how often the sweep comes.

    Attributes:
        packs: the ingest queue.
        jobs: the work queue.
        calls: asynchronous calls of dispatch that are to come.
        sources: all that bring messages to the functions' handlers.
        next_sweep_ms: when the sweep's schedule fires.
        sweep_asked: whether somebody relies on the next sweep.
    """

    def __init__(self, world: World, sweep_ms: int = SWEEP_MS) -> None:
        self.world = world
        self.packs: list[Queued] = []
        self.jobs: list[Queued] = []
        self.calls: list[Call] = []
        self.sources: list[Source] = []
        self._sweep_ms = sweep_ms
        self.next_sweep_ms = START_MS + sweep_ms
        self.sweep_asked = False

    def sweep_in_time(self) -> None:
        """Makes the next sweep as soon as in the service, for work without another trigger."""
        self.next_sweep_ms = min(self.next_sweep_ms, self.world.now_ms + SWEEP_MS)
        self.sweep_asked = True

    # ---- what comes
    def next_ms(self) -> int:
        """The time of the next event."""
        times = [self.next_sweep_ms]
        times += [each.visible_ms for each in (*self.packs, *self.jobs)]
        times += [each.at_ms for each in self.calls]
        times += [each.visible_ms for source in self.sources for each in source.waiting]
        times += [fires_ms for _, _, fires_ms in self.world.service.wheel.schedules.values()]
        return min(times)

    def start_one(self) -> bool:
        """Starts one of the due functions. Returns False if none is due."""
        self._take()
        now_ms, service = self.world.now_ms, self.world.service
        starts: list[Callable[[], None]] = []
        if packs := [each for each in self.packs if each.visible_ms <= now_ms]:
            starts.append(partial(self._ingest, packs))
        if jobs := [each for each in self.jobs if each.visible_ms <= now_ms]:
            starts.append(lambda: self._deliver(self.world.random.choice(jobs)))
        if calls := [each for each in self.calls if each.at_ms <= now_ms]:
            starts.append(lambda: self._dispatch(self.world.random.choice(calls)))
        if self.next_sweep_ms <= now_ms:
            starts.append(self._sweep)
        if service.runs.merges:
            starts.append(self._merge)
        starts += [start for source in self.sources for start in source.starts(INGEST_MS)]
        if not starts:
            return False
        self.world.random.choice(starts)()
        return True

    def _take(self) -> None:
        """Takes the triggers from the work queue, the schedules and the functions."""
        world, service, now_ms = self.world, self.world.service, self.world.now_ms
        if waiting := service.queues.work_queue.everything:
            self.jobs += (Queued(content=task_of(each.body), visible_ms=each.visible_at_ms) for each in waiting)
            service.queues.work_queue.purge()
        self._take_forwarded()
        for topic, _, _ in service.wheel.take_due(now_ms):
            if self._goes_wrong("schedule lost", 0.1):
                continue
            most_ms = 60_000 if self._goes_wrong("schedule late", 0.5) else START_TAKES_MS
            late_ms = world.random.randint(1, most_ms)
            self.calls.append(Call(topic=topic, at_ms=now_ms + late_ms))
            if self._goes_wrong("schedule twice", 0.1):
                self.calls.append(Call(topic=topic, at_ms=now_ms + world.random.randint(0, 60_000)))
        started, service.runs.dispatches[:] = [*service.runs.dispatches], []
        for topic in started:
            if not self._goes_wrong("dispatch call lost", 0.1):
                self.calls.append(Call(topic=topic, at_ms=now_ms))

    def _take_forwarded(self) -> None:
        """Takes the packs that ingest has put into the bulk queue."""
        bulk = self.world.service.queues.sqs.queue(BULK_URL)
        for each in bulk.everything:
            pack = pack_of(QueuedMessage.of_record(record_of(each, bulk.arn)))
            self.packs.append(Queued(content=pack, visible_ms=self.bulk_ms(), id=each.id, bulk=True))
        bulk.purge()

    def bulk_ms(self, *, again: bool = False) -> int:
        """Returns when ingest gets a message of the bulk queue, which waits in the window each time."""
        waits_s = again * bulk_queue().visibility_s + self.world.random.randint(0, int(BULK_WINDOW_S))
        return self.world.now_ms + waits_s * 1000

    def _goes_wrong(self, what: str, likely: float) -> bool:
        if not self.world.happens(likely):
            return False
        self.world.count(f"trigger: {what}")
        return True

    # ---- ingest
    def comes_ms(self, pack: Pack, *, again: bool = False) -> int:
        """Returns when ingest gets a pack, sent now or received now without an acknowledgement."""
        return self.world.now_ms + again * URGENT_VISIBILITY_MS

    def _ingest(self, due: list[Queued]) -> None:
        first: Pack = self.world.random.choice(due).content
        alike = [
            each for each in due if (each.content.topic, each.content.generation) == (first.topic, first.generation)
        ]
        batch = alike[: self.world.random.randint(1, _MOST_PACKS)]
        aside_ms = 0
        if self._goes_wrong("packs to dead letters", 0.02):
            aside_ms = self.world.random.randint(1, _MOST_DAYS_ASIDE) * _DAY_MS
        for each in batch:
            again_ms = self.bulk_ms(again=True) if each.bulk else self.comes_ms(each.pack, again=True)
            each.visible_ms = self.world.now_ms + aside_ms if aside_ms else again_ms
            each.received += 1
        if aside_ms:
            return
        packs = [each.pack for each in batch]
        self.world.promises.tried(_ids(batch))

        def call(ports: FaultyPorts) -> None:
            done = ingest(ports, first.topic, packs)
            for name in ("superseded", "cancelled", "expired", "parked", "ledger_rows", "direct_rows"):
                self.world.exercised[f"ingest: {name}"] += getattr(done, name)
            ingested = [each for place, each in enumerate(batch) if place not in done.pending]
            self.packs = [each for each in self.packs if each not in ingested]
            state = self.world.service.topic_states.read(first.topic)
            if state is not None and state.generation == first.generation:
                self.world.promises.ingested(_ids(ingested), state.sealed)

        def ended(_: Task) -> None:
            if first.topic in self.world.at_rest:
                return
            if self.world.service.topic_states.read(first.topic) is None or self._is_nobodys(first):
                self.packs = [each for each in self.packs if each not in batch or each.received < PACKS_OF_NOBODY]

        start = partial(self.world.start, topic=first.topic, limit_ms=INGEST_MS, ended=ended)
        start("ingest", call)
        self.world.note(f"ingest {self.world.names}: packs of {first.topic} with {', '.join(_ids(batch))}")
        if self._goes_wrong("packs twice", 0.1):
            start("ingest again", call)

    def _is_nobodys(self, pack: Pack) -> bool:
        state = self.world.service.topic_states.read(pack.topic)
        return state is None or state.generation != pack.generation

    # ---- deliver
    def _deliver(self, queued: Queued) -> None:
        queued.visible_ms = self.world.now_ms + WORK_VISIBILITY_MS
        queued.received += 1
        if queued.received > MOST_RECEIVES:
            self.world.count("trigger: job given up")
            self.jobs.remove(queued)
            return
        job = queued.content
        topic = job.topic if hasattr(job, "topic") else job.key.topic

        def call(ports: FaultyPorts) -> None:
            done = do_task(ports, job)
            self._count(done, topic)
            # As the handler does: what the job left to the work queue is in there as jobs of its own.
            self.jobs = [each for each in self.jobs if each is not queued]

        start = partial(self.world.start, topic=topic, limit_ms=DELIVER_MS)
        kind = type(job).__name__.removesuffix("Task").lower()
        start(f"deliver {kind}", call)
        if self._goes_wrong("job twice", 0.1):
            start(f"deliver {kind} again", call)

    def _count(self, done: Delivered | None, topic: str) -> None:
        if done is None:
            return
        self.world.exercised["deliver: messages"] += done.messages
        self.world.exercised["deliver: parked"] += done.parked
        self.world.exercised["deliver: expired"] += done.expired
        self._only_expected(done.failures, topic)

    def _only_expected(self, failures: Any, topic: str | None) -> None:
        for error in failures:
            if not self.world.tolerates(error, topic):
                raise Violation(f"a function reports {error!r}", topic or "") from error

    # ---- dispatch
    def dispatch_now(self, topic: str) -> None:
        """Starts a dispatch, as any caller may at any time."""
        self.calls.append(Call(topic=topic, at_ms=self.world.now_ms))

    def _dispatch(self, called: Call) -> None:
        self.calls.remove(called)
        topic = called.topic

        def call(ports: FaultyPorts) -> None:
            done = dispatch(ports, topic)
            if done is None:
                return
            self.world.exercised["dispatch: messages"] += done.sent.messages
            self.world.exercised["dispatch: parts left to the work queue"] += done.enqueued_parts
            self._only_expected(done.failures, topic)
            if done.collect:
                collect(ports, topic)

        def ended(task: Task) -> None:
            if (task.error is not None or task.dead) and called.tried < len(RETRY_MS):
                self.world.count("trigger: dispatch repeated")
                again_ms = self.world.now_ms + RETRY_MS[called.tried]
                self.calls.append(Call(topic=topic, at_ms=again_ms, tried=called.tried + 1))

        self.world.start("dispatch", call, topic=topic, limit_ms=DISPATCH_MS, ended=ended)

    # ---- sweep
    def _sweep(self) -> None:
        self.next_sweep_ms = self.world.now_ms + self._sweep_ms
        self.sweep_asked = False
        if not self._goes_wrong("sweep lost", 0.1):
            self.world.start("sweep", lambda ports: self._swept(sweep(ports)), limit_ms=SWEEP_LIFE_MS)

    def _swept(self, swept: SweepResult) -> None:
        self.world.exercised["sweep: dispatches started"] += len(swept.dispatched)
        self.world.exercised["sweep: parts enqueued again"] += swept.redriven
        self.world.exercised["sweep: parks enqueued"] += swept.drains
        self.world.exercised["sweep: topics deleted"] += len(swept.deleted)
        self.world.exercised["sweep: orphans deleted"] += 0 if swept.orphans is None else swept.orphans.objects
        self.world.exercised["sweep: payloads deleted"] += swept.payloads
        self._only_expected(swept.failures.values(), None)

    # ---- merge
    def _merge(self) -> None:
        topic, size = self.world.service.runs.merges.pop(0)
        self.merge(topic, size, everything=False)

    def merge(self, topic: str, size: MergeSize, *, everything: bool) -> None:
        """Starts a merge, unless its call is lost."""
        if self._goes_wrong("merge lost", 0.2):
            return

        def call(ports: FaultyPorts) -> None:
            lease_s = MERGE_MS // 1000
            writer = in_process(ports.objects)
            if size is MergeSize.LARGE:
                writer = replace(writer, tasks=lambda _: AnyOrder(self.world.random))
            done = merge(ports, topic, writer, lease_s=lease_s, largest=size, everything=everything)
            self._merged(done, topic)

        self.world.start("merge", call, topic=topic, limit_ms=MERGE_MS)

    def _merged(self, done: Merged | None, topic: str) -> None:
        if done is not None:
            self.world.exercised["merge: swaps"] += done.merges
            self.world.exercised["merge: ledgers rewritten alone"] += 0 < done.merges == done.sources
            self.world.exercised["merge: refused"] += done.refused
            self._only_expected(done.skipped, topic)
