"""Tests the servers measured beside Tidewheel. Each keeps messages over `kill -9`, and no message comes early."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.peers import servers, trial
from benchmarks.peers.nats_schedules import NatsSchedules
from benchmarks.peers.postgres import Postgres
from benchmarks.peers.program import Program
from benchmarks.peers.rabbitmq import DelayLevels, OneQueue
from benchmarks.peers.redis_poller import Redis
from benchmarks.peers.server import DelayServer
from benchmarks.peers.stream import Delivery, Timed
from benchmarks.peers.trial import Length, Trial
from benchmarks.process_memory import Peak, is_running, tree
from tidewheel.clock import SystemClock

FAR_MS = 3_600_000
REAL = [
    pytest.param(
        each,
        id=each.name,
        marks=[
            pytest.mark.skipif(each.missing() is not None, reason=f"{each.name}: {each.missing()}"),
            *([pytest.mark.long] if each is DelayLevels else []),
        ],
    )
    for each in servers.SERVERS
]


@pytest.mark.parametrize("server", REAL)
def test_a_server_has_all_acknowledged_messages_after_kill_9(server: type[DelayServer]) -> None:
    due_ms = SystemClock().now_ms() + FAR_MS
    with server() as running:
        running.start()
        running.send([Timed(number=number, due_ms=due_ms, body=f"{number} {{}}") for number in range(150)])
        running.kill()
        running.start()
        assert running.waiting() == 150
        assert running.take(0.01) == []
        assert running.disk_bytes() > 0 and running.program.memory_bytes() > 0


def test_a_server_that_this_machine_lacks_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (Redis, Postgres, DelayLevels, OneQueue, NatsSchedules):
        monkeypatch.setattr(each, "missing", classmethod(lambda cls: "get it"))
    assert servers.found_here() == ([], {each.name: "install it: get it" for each in (*servers.SERVERS, OneQueue)})


def test_a_program_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    program = Program(["sh", "-c", "sleep 600 & exec sleep 600"], log=tmp_path / "log")
    while len(processes := tree(program.pid)) < 2:
        program.check()
    program.kill()
    assert not any(is_running(process) for process in processes)
    with pytest.raises(RuntimeError, match="ended with -9"):
        program.check()


class Time:
    """A clock moved by sleeps and by the fake's work."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += max(seconds, 0.0001)  # time passes

    def now_ms(self) -> int:
        return int(self.now_s * 1000)


class Fake(DelayServer):
    """Delivers 20 ms late, and takes 2 ms a send. A kill loses one message, doubles three, and takes 3 s."""

    name = "fake"

    def __init__(self, time: Time) -> None:
        self.time = time
        self.kept: list[Timed] = []
        self.sent = 0
        self.flushes: list[bool] = []

    @classmethod
    def missing(cls) -> str | None:
        return None

    def _start(self, *, durable: bool) -> Program:
        raise NotImplementedError

    _connect = _disconnect = _start  # type: ignore[assignment]

    @property
    def program(self) -> Fake:  # type: ignore[override]
        return self

    @contextmanager
    def peak(self) -> Iterator[Peak]:
        yield Peak(megabytes=7.0)

    def memory_bytes(self) -> int:
        return 1_000 + 10 * self.waiting()

    def disk_bytes(self) -> int:
        return 5_000 + 30 * self.waiting()

    def start(self, *, durable: bool = True) -> None:
        self.flushes.append(durable)
        self.time.sleep(3)

    def kill(self) -> None:
        _lost, *others = sorted(self.kept, key=lambda message: message.due_ms)
        self.kept = [*others[:3], *others]

    def send(self, messages: Sequence[Timed]) -> None:
        self.time.sleep(0.002)
        self.kept += messages
        self.sent += len(messages)

    def take(self, wait_s: float) -> list[Delivery]:
        now_ms = self.time.now_ms()
        due = [each for each in self.kept if each.due_ms + 20 <= now_ms]
        self.kept = [each for each in self.kept if each not in due]
        return [Delivery(number=each.number, at_ms=now_ms) for each in due]

    def waiting(self) -> int:
        return len(self.kept)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    moved = Time()
    monkeypatch.setattr(trial, "time", moved)
    monkeypatch.setattr(trial, "SystemClock", lambda: moved)
    return Fake(moved)


def test_a_backlog_is_measured_above_an_empty_server_and_filled_without_flushes(fake: Fake) -> None:
    found = Trial(fake, 2_500).fill(60)
    assert (found["messages"], found["disk_bytes_a_message"], found["memory_bytes_a_message"]) == (2_500, 30, 10)
    assert fake.flushes == [False]


def test_a_backlog_that_takes_too_long_is_as_large_as_it_is(fake: Fake) -> None:
    found = Trial(fake, 1_000_000).fill(0.199)
    assert found["messages"] == fake.sent == 100_000
    assert found["disk_bytes_a_message"] == 30


def test_a_restart_counts_what_is_gone_and_flushes_from_then_on(fake: Fake) -> None:
    measured = Trial(fake, 1_000)
    measured.fill(60)
    fake.kept = fake.kept[:-6]  # the fake doubles two more than it loses
    found = measured.restart(1)
    assert found["lost_of_backlog"] == 4 and found["back_s"] == pytest.approx(3.002)
    assert fake.flushes == [False, True]


def test_a_steady_stream_has_the_lateness_of_the_server_and_nothing_wrong(fake: Fake) -> None:
    found = Trial(fake, 0).steady(2.0, rounds=2)
    assert 20 <= found["p50_ms"] <= found["p99_ms"] <= found["latest_ms"] <= 20 + 2 * 1000 * trial.TICK_S  # type: ignore[operator]
    assert (found["early"], found["lost"], found["duplicates"], fake.sent) == (0, 0, 0, 400)


def test_a_poller_that_looks_seldom_is_late_by_its_interval(fake: Fake) -> None:
    found = Trial(fake, 0).steady(5.0, rounds=1, poll_s=1.0)
    assert 300 <= found["p50_ms"] <= 720 and 900 <= found["p99_ms"] <= 1_050  # type: ignore[operator]


def test_a_crash_counts_what_was_lost_and_what_came_twice(fake: Fake) -> None:
    found = Trial(fake, 0).crash(Length(crash_s=2.0, rounds=2))
    assert found == {"lost_after_kill": 2, "duplicates_after_kill": 6, "early_after_kill": 0}


def test_sends_are_counted_by_what_one_publisher_gets_acknowledged(fake: Fake) -> None:
    found = Trial(fake, 0).sends(100, Length(sends_s=1.0, sends_rounds=3))
    assert found["sends_a_second_by_100"] == pytest.approx(50_000)
