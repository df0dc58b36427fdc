"""An in-memory world with the real flows, a manual clock, and triggers that fire on time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from tests.recorded_queues import recorded_service
from tests.stored_ports import STORED_PORTS
from tidewheel.clock import ManualClock
from tidewheel.errors import PartLeased, UnknownTopic
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.ingest import Ingested, ingest
from tidewheel.flows.delivery.work import do_task
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.due_checks import SweepResult
from tidewheel.flows.maintenance.sweep import sweep
from tidewheel.memory import MemoryService
from tidewheel.model.message import IdSource, Message, id_bytes, id_deliver_at_ms, id_text
from tidewheel.model.pack import Pack, decode_pack, packs
from tidewheel.model.settings import StoredSettings, TopicSettings
from tidewheel.model.subscription_state import DeliveryKey
from tidewheel.model.task import PartTask
from tidewheel.model.topic_state import TopicState
from tidewheel.model.validation import check_message
from tidewheel.storage.items import next_at_ms_of
from tidewheel.storage.table_keys import SERVICE

START_MS = 1_767_225_600_000
TOPIC = "orders"
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
DEATHS = pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.nightly)])
"""Of a test in which a flow dies after one call after another. Only the night tries more than every seventh call.

A death before a call leaves AWS as a death after the call before it.
"""


def seeds(count: int, few: int) -> list[Any]:
    """Returns seeds of a test with random events. Only the night runs more than the first few."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(few, count))]


class World:
    """A service with helpers for tests.

    Attributes:
        may_fail: whether a sweep may fail in part.
    """

    may_fail = False

    def __init__(
        self,
        *subscriptions: str,
        subscribe: bool = True,
        wrap: Callable[[Any], Any] = lambda ports: ports,
        **settings: Any,
    ) -> None:
        self.clock = ManualClock(START_MS)
        self.service = recorded_service(self.clock)
        self.ports = wrap(self.service)
        self.ids = IdSource()
        self.hidden: list[tuple[int, DeliveryKey, int]] = []
        self.dispatches = self.collections = 0
        create_topic(self.service, self.clock, TOPIC, TopicSettings(**{"retention_days": 0} | settings))
        for name in subscriptions or (("billing",) if subscribe else ()):
            self.subscribe(name)

    @property
    def state(self) -> TopicState:
        state = self.service.topic_states.read(TOPIC)
        assert state is not None
        return state

    def subscribe(self, name: str) -> None:
        create_subscription(
            self.service, self.clock, TOPIC, name, f"queue-{name}", settings=StoredSettings(reader="tidewheel")
        )

    def pack(self, *delays_ms: int, body: str = "hello", **message: Any) -> Pack:
        """Packs a message per delay, as the SDK does."""
        now = self.clock.now_ms()
        checked = [
            check_message(Message(body=body, delay=delay / 1000, **message), self.ids, now) for delay in delays_ms
        ]
        [(_, data)] = packs(TOPIC, self.state.generation, now, checked)
        return decode_pack(data, now)

    def send(self, *delays_ms: int, **message: Any) -> list[str]:
        """Sends a message per delay through ingest. Returns the ids."""
        pack = self.pack(*delays_ms, **message)
        self.ingest(pack)
        return ids_of(pack)

    def ingest(self, *batch: Pack) -> Ingested:
        return ingest(self.ports, TOPIC, batch)

    def work(self) -> None:
        """Empties the work queue."""
        while jobs := self.service.queues.take_jobs():
            for job in jobs:
                try:
                    do_task(self.ports, job)
                except PartLeased:  # SQS shows it again after its visibility time-out
                    assert isinstance(job, PartTask)
                    self.hidden.append((self.clock.now_ms() + 12 * MINUTE, job.key, job.part))

    def run(
        self, duration_ms: int, *, sweeps: bool = False, schedules: bool = True, every_ms: int = 5 * MINUTE
    ) -> None:
        """Advances time. Schedules fire on time, sweeps run every five minutes, and workers at once."""
        end = self.clock.now_ms() + duration_ms
        next_sweep = self.clock.now_ms() + every_ms if sweeps else None
        while True:
            times = [fires for _, _, fires in self.service.wheel.schedules.values()]
            times += [at for at, _, _ in self.hidden]
            if next_sweep is not None:
                times.append(next_sweep)
            at = min(times, default=end + 1)
            if at > end:
                break
            self.clock.set_ms(max(at, self.clock.now_ms()))
            for topic, _, _ in self.service.wheel.take_due(self.clock.now_ms()):
                if schedules:
                    self._dispatch(topic)
            visible = [each for each in self.hidden if each[0] <= self.clock.now_ms()]
            self.hidden = [each for each in self.hidden if each not in visible]
            for _, key, part in visible:
                self.service.queues.enqueue_parts(key, [part])
            self.work()
            if next_sweep is not None and next_sweep <= self.clock.now_ms():
                next_sweep += every_ms
                if self._sweep_has_work():
                    self.sweep()
                else:
                    self.dispatch_started()
        self.clock.set_ms(end)

    def received_after(self, duration_ms: int, **options: Any) -> Counter[str]:
        """Advances time. Counts the copies of each id in the queue of billing."""
        self.run(duration_ms, **options)
        return self.received()

    def dispatch_at(self, delay_ms: int) -> None:
        """Sets the clock to some time after the start, and dispatches without any schedule."""
        self.clock.set_ms(START_MS + delay_ms)
        dispatch(self.ports, TOPIC)

    def run_on(self, duration_ms: int) -> None:
        """Advances time, with sweeps as deployed for six hours, and then every hour. Days take a sixth of the time."""
        soon_ms = min(duration_ms, 6 * HOUR)
        self.run(soon_ms, sweeps=True)
        self.run(duration_ms - soon_ms, sweeps=True, every_ms=HOUR)

    def _sweep_has_work(self) -> bool:
        """Whether a check or a daily work is due. Days take half the time without the other sweeps."""
        stored, now_ms = self.service.dynamodb, self.clock.now_ms()
        first_ms = stored.first_indexed()
        daily = [next_at_ms_of(each) for each in stored.items(SERVICE) if "next_at_ms" in each]
        return min(daily, default=0) <= now_ms or (first_ms is not None and first_ms <= now_ms)

    def sweep(self) -> SweepResult:
        swept = sweep(self.ports)
        assert self.may_fail or not swept.failures, swept.failures
        self.collections += len(swept.collected)
        self.dispatch_started()
        self.work()
        return swept

    def dispatch_started(self) -> None:
        """Runs the dispatches started by sweeps."""
        started = self.service.runs.dispatches
        while started:
            self._dispatch(started.pop(0))

    def _dispatch(self, topic: str) -> None:
        self.dispatches += 1
        dispatch(self.ports, topic)

    def collect(self) -> None:
        collect(self.ports, TOPIC)

    def received(self, name: str = "billing") -> Counter[str]:
        """Counts the copies of each id in a subscription's queue."""
        return Counter(message.id for message in self.service.queues.sent(f"queue-{name}"))

    def assert_in_time(self) -> None:
        """Asserts that no copy is received early, or later than a second plus the skew after the due time in the id."""
        for message in self.service.queues.sent():
            late = message.visible_at_ms - id_deliver_at_ms(id_bytes(message.id))
            assert 0 <= late <= 1000 + self.service.max_skew_ms, (message, late)


@contextmanager
def failing_reads(world: World, errors: Mapping[str, Exception]) -> Iterator[None]:
    """Lets reads of some objects raise their errors within the block."""
    get_range = world.service.objects.get_range

    def failing(name: str, *place: int) -> bytes:
        if name in errors:
            raise errors[name]
        return get_range(name, *place)

    with patch.object(world.service.objects, "get_range", failing):
        yield


def ids_of(pack: Pack) -> list[str]:
    return [id_text(pack.ids[i : i + 16]) for i in range(0, len(pack.ids), 16)]


def once(ids: Sequence[str]) -> Counter[str]:
    """Returns counts of one for each id."""
    return Counter(ids)


class Crash(BaseException):
    """The function died here."""


class CrashingPort:
    """Passes calls on, and dies before or after the call of a given number."""

    def __init__(self, port: Any, plan: CrashPlan) -> None:
        self._port, self._plan = port, plan

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._plan.before()
            result = method(*args, **kwargs)
            self._plan.after()
            return result

        return call


class CrashPlan:
    """Counts port calls and crashes at a chosen call."""

    def __init__(self) -> None:
        self.calls = 0
        self.at: int | None = None
        self.when = "before"

    def schedule(self, at: int, when: str) -> None:
        self.calls, self.at, self.when = 0, at, when

    def disarm(self) -> None:
        self.at = None

    def before(self) -> None:
        self.calls += 1
        if self.calls == self.at and self.when == "before":
            raise Crash

    def after(self) -> None:
        if self.calls == self.at and self.when == "after":
            raise Crash


@dataclass
class Death:
    """The death of a flow after one of its calls.

    Attributes:
        died: whether the flow came so far.
    """

    at: int
    died: bool = False

    @contextmanager
    def of(self, world: World) -> Iterator[None]:
        """Lets what the block does die."""
        world.ports.plan.schedule(self.at, "after")
        try:
            yield
        except Crash:
            self.died = True
        finally:
            world.ports.plan.disarm()


def deaths(every: int = 1, *, least: int = 5) -> Iterator[Death]:
    """Yields deaths after calls of a flow, until the flow ends before its death."""
    for at in range(every, 1000, every):
        death = Death(at)
        yield death
        if not death.died:
            assert at > least, "the flow makes fewer calls than it should"
            return
    raise AssertionError("the flow makes more calls than were tried")


class CrashingPorts:
    """All ports of a service, crashing by a shared plan."""

    def __init__(self, service: MemoryService) -> None:
        self.plan = CrashPlan()
        for name in (*STORED_PORTS, "queues", "wheel", "runs"):
            setattr(self, name, CrashingPort(getattr(service, name), self.plan))
        self.clock, self.parallel, self.max_skew_ms = service.clock, service.parallel, service.max_skew_ms


__all__ = ["Crash", "CrashingPorts", "UnknownTopic", "World", "collect", "dispatch", "ids_of", "once"]
