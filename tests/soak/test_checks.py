"""Each check of the soak sees what it is there for: something is broken on purpose, and the outcome says so."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.soak import __main__ as command
from benchmarks.soak import backlog, burst, fan_out, outage, steady
from benchmarks.soak.account import Lateness
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.stack import Tamper
from benchmarks.soak.watch import Forwarding, with_ports
from tidewheel.clock import Clock
from tidewheel.flows.ports.queues import Refusal, Release
from tidewheel.memory import MemoryQueues, MemoryService
from tidewheel.model.plan import Plan

STEADY = replace(
    steady.SMALL,
    days=6,
    messages=400,
    step=dt.timedelta(hours=4),
    longest=dt.timedelta(days=1),
    cancelled_every=None,
)
BURST = burst.Scale(messages=2_600, compared=1_500, wave=1_250)
BACKLOG = backlog.Scale(hours=2, messages=400)
OUTAGE = outage.Scale(hours=3, messages=400)
FAN_OUT = replace(fan_out.SMALL, subscriptions=6, messages=100, flash=200, hours=3)

Batch = Sequence[tuple[Release, int]]


class Queues(Forwarding):
    """Queues whose batches and jobs are changed on their way."""

    def __init__(
        self,
        queues: MemoryQueues,
        *,
        send: Callable[[Batch], Iterable[Batch]] = lambda batch: [batch],
        times: int = 1,
    ) -> None:
        super().__init__(queues)
        self._send = send
        self._times = times

    def send(self, queue_url: str, batch: Batch) -> list[Refusal]:
        for each in self._send(batch):
            self._real.send(queue_url, each)
        return []

    def enqueue_parts(self, *job: Any) -> None:
        for _ in range(self._times):
            self._real.enqueue_parts(*job)

    def enqueue_parks(self, *job: Any, **options: Any) -> None:
        for _ in range(self._times):
            self._real.enqueue_parks(*job, **options)


def queues(**changes: Any) -> Tamper:
    return lambda service: with_ports(service, queues=Queues(service.queues, **changes))


class Off(Forwarding):
    """A clock that is wrong."""

    def __init__(self, clock: Clock, by_ms: int) -> None:
        super().__init__(clock)
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return int(self._real.now_ms()) + self._by_ms


def clock_off(by_ms: int) -> Tamper:
    return lambda service: with_ports(service, clock=Off(service.clock, by_ms))


class KeepsObjects(Forwarding):
    """Objects of which none is ever deleted."""

    def delete(self, names: Iterable[str]) -> None:
        pass


def no_object_is_deleted(service: MemoryService) -> MemoryService:
    return with_ports(service, objects=KeepsObjects(service.objects))


class ForgetsCancels(Forwarding):
    """Tombstones that are never found."""

    def ids(self, *of: Any) -> Any:
        return frozenset()


class CollectsNothing(Forwarding):
    """Topic states whose collection is always refused."""

    def raise_collected_until(self, *marks: Any) -> Any:
        return False


class LargeParts(Forwarding):
    """Plans cut into parts that are too large."""

    def commit(self, state: Any, plan: Plan | None, *others: Any, **options: Any) -> Any:
        return self._real.commit(state, plan and replace(plan, part_rows=4_000), *others, **options)


def broken(port: str, faulty: type[Forwarding]) -> Tamper:
    return lambda service: with_ports(service, **{port: faulty(getattr(service, port))})


class Eager(Forwarding):
    """Starts of functions that come five times."""

    def dispatch(self, topic: str) -> None:
        for _ in range(5):
            self._real.dispatch(topic)


def five_dispatches(service: MemoryService) -> MemoryService:
    return with_ports(service, runs=Eager(service.runs))


def keeping() -> Tamper:
    kept: list[Any] = []

    def keep(batch: Batch) -> Iterable[Batch]:
        kept.extend((message.header[:], [message.deliver_at_ms]) for message, _ in batch)
        return [batch]

    return queues(send=keep)


def said(outcome: Outcome, *sentences: str) -> None:
    """Each of the sentences must begin one that is broken."""
    for sentence in sentences:
        assert any(each.startswith(sentence) for each in outcome.broken), (sentence, outcome.broken)


def test_a_message_that_no_queue_gets_is_lost() -> None:
    said(
        backlog.run(BACKLOG, tamper=queues(send=lambda batch: [batch[1:]] if len(batch) > 1 else [batch])),
        "copies lost",
    )


def test_a_message_that_a_queue_gets_twice_is_seen() -> None:
    said(backlog.run(BACKLOG, tamper=queues(send=lambda batch: [batch, batch])), "copies nobody awaited")


def test_functions_whose_clock_is_ahead_make_messages_early() -> None:
    said(backlog.run(BACKLOG, tamper=clock_off(5_000)), "copies early")


def test_functions_whose_clock_is_behind_make_messages_late() -> None:
    said(backlog.run(BACKLOG, tamper=clock_off(-5_000)), "latest copy")


def test_a_part_that_is_enqueued_twice_is_seen() -> None:
    said(burst.run(BURST, tamper=queues(times=2)), "parts enqueued twice", "parts enqueued, by plans")


def test_parts_that_are_too_large_are_seen() -> None:
    said(burst.run(BURST, tamper=broken("plans", LargeParts)), "messages that one part sent")


def test_objects_that_stay_are_seen_as_growth_as_orphans_and_at_the_end() -> None:
    outcome = steady.run(STEADY, tamper=no_object_is_deleted)
    said(outcome, "growth of objects", "growth of object_bytes", "objects that nothing names", "orphans at the end")


def test_what_a_process_keeps_of_every_message_is_seen() -> None:
    said(steady.run(STEADY, tamper=keeping()), "blocks of memory kept a message")


def test_a_cancelled_message_that_comes_is_seen() -> None:
    cancelling = replace(STEADY, days=3, messages=100, cancelled_every=5)
    said(steady.run(cancelling, tamper=broken("tombstones", ForgetsCancels)), "copies nobody awaited")


def test_plans_that_are_not_collected_are_seen() -> None:
    said(steady.run(STEADY, tamper=broken("topic_states", CollectsNothing)), "growth of plans", "buckets at the end")


def test_a_catch_up_that_starts_dispatches_many_times_is_seen() -> None:
    said(outage.run(OUTAGE, tamper=five_dispatches), "dispatches to catch up")


def test_a_broken_queue_that_is_tried_too_often_is_seen() -> None:
    said(fan_out.run(FAN_OUT, tamper=queues(times=3)), "parks tried meanwhile", "drains enqueued, by parks")


def test_a_broken_queue_that_keeps_ledgers_is_seen() -> None:
    said(
        fan_out.run(FAN_OUT, tamper=broken("topic_states", CollectsNothing)),
        "collection behind beside a broken queue",
    )


def test_the_command_fails_if_a_promise_is_broken_and_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    def lossy() -> Outcome:
        return backlog.run(BACKLOG, tamper=queues(send=lambda batch: [batch[1:]] if len(batch) > 1 else [batch]))

    assert command.main(["--only", "backlog"], {"backlog": lambda: backlog.run(BACKLOG)}) == 0
    assert "broken" not in capsys.readouterr().out
    assert command.main([], {"backlog": lossy}) == 1
    assert "broken backlog: copies lost" in capsys.readouterr().out


def test_control_c_prints_the_scenarios_that_ended_and_saves_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(command.results, "save", lambda *_, **__: pytest.fail("it was saved"))

    assert command.main(["--save"], {"backlog": lambda: backlog.run(BACKLOG), "burst": interrupted}) == 130
    shown = capsys.readouterr().out
    assert "Stopped during burst" in shown
    [row] = [line for line in shown.splitlines() if "backlog" in line]
    assert "25 of 25" in row


def test_the_latest_copy_is_as_late_as_any_share_of_them_at_least() -> None:
    lateness = Lateness()
    for late_ms in (15, 150, 1_099):
        lateness.add(late_ms)

    assert [lateness.percentile_ms(percent) for percent in (1, 50, 99)] == [100, 200, 1_099]


def test_a_partial_run_is_not_saved(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--save", "--small"])
    assert "--save is for full runs" in capsys.readouterr().err
