"""A scenario with real messages and every operation of a user, on any service.

It needs a client, a clock that can be waited on, and a way to take messages. So it runs on the artifact in moved time,
on the local stack and on an account, where the plan says how much there is time for.
"""

from __future__ import annotations

import heapq
import itertools
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from tests.artifact.oracle import Arrival, Oracle, Reader, Verdict
from tidewheel.local.replay import Sample
from tidewheel.model.message import Message, Receipt

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

COMMITS, MERGED, POISON = "commits", "merged", "poison"
ALL: Reader = (COMMITS, "all")
SMALL: Reader = (COMMITS, "small")
PAUSED: Reader = (COMMITS, "paused")
REPORTS: Reader = (MERGED, "reports")
WORKER: Reader = (POISON, "worker")
READERS = (ALL, SMALL, PAUSED, REPORTS, WORKER)
ZONE = "Europe/Zurich"
_INGESTED_MS = 12 * MINUTE_MS
"""The bulk queue's window and more: after that, what was sent waits in a ledger."""
_MAX_RECEIVES = 10
"""A subscription's queue keeps a message as a dead letter when it was received so often."""
_LARGE_CHARACTERS = 1_200_000
"""More than SQS takes."""


class Service(Protocol):
    """A deployed service with real or simulated time."""

    @property
    def client(self) -> Any:
        """The SDK's client."""
        ...

    def now_ms(self) -> int:
        """Returns the service's time."""
        ...

    def wait_until(self, at_ms: int) -> None:
        """Waits until a time while the service works."""
        ...

    def take(self, topic: str, subscription: str) -> list[Arrival]:
        """Receives and deletes all available messages."""
        ...

    def lose_next_schedule(self) -> None:
        """Lets the next one-time schedule vanish instead of firing, if the service supports this."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is done, and in which time.

    Attributes:
        samples: The real messages.
        hours: From the first message to the last one that is due.
        clusters: Bursts, in equal distances over that time, that the messages are due in.
        waves: How often messages are sent.
        wave_minutes: Minutes from a wave to the next one.
        large_bodies: Messages larger than SQS takes.
        lost_schedules: Schedules that never fire.
    """

    samples: Sequence[Sample]
    hours: float
    clusters: int
    waves: int
    wave_minutes: float
    large_bodies: int = 2
    lost_schedules: int = 2

    @property
    def span_ms(self) -> int:
        """The time in milliseconds."""
        return round(self.hours * HOUR_MS)


def spread(samples: Sequence[Sample], count: int) -> list[Sample]:
    """Returns so many of the samples, in equal distances."""
    return [samples[place * len(samples) // count] for place in range(count)]


class Scenario:
    """A run of the scenario. `run` does everything and returns the verdict."""

    def __init__(self, service: Service, plan: Plan) -> None:
        self._service, self._plan = service, plan
        self._client = service.client
        self._start_ms = service.now_ms()
        self._end_ms = self._start_ms + plan.span_ms
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.oracle = Oracle()

    def run(self) -> Verdict:
        """Does every step on time. Returns the verdict when all messages must have arrived."""
        self._prepare()
        waves = self._waves()
        for number, samples in enumerate(waves):
            at_ms = self._start_ms + round(number * self._plan.wave_minutes * MINUTE_MS)
            self._at(at_ms, lambda number=number, samples=samples: self._wave(number, samples))
        self._pause_and_resume()
        self._poison()
        self._recur()
        while self._agenda:
            at_ms, _, act = heapq.heappop(self._agenda)
            self._service.wait_until(at_ms)
            act()
        self._service.wait_until(self._end_ms + 30 * MINUTE_MS)
        self._collect()
        return self.oracle.verdict()

    def _at(self, at_ms: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (at_ms, next(self._numbers), act))

    def _prepare(self) -> None:
        tw = self._client
        tw.create_topic(COMMITS)
        tw.create_topic(MERGED, max_buckets=7)
        tw.create_topic(POISON)
        tw.create_subscription(*ALL)
        tw.create_subscription(*SMALL, filter_policy={"size": ["small"]})
        tw.create_subscription(*PAUSED)
        tw.create_subscription(*REPORTS)
        tw.create_subscription(*WORKER)

    # Sending.

    def _waves(self) -> list[list[tuple[int, Sample]]]:
        """Returns each sample's due time by sending wave, with the samples' real bursts in the run's time."""
        plan = self._plan
        waves: list[list[tuple[int, Sample]]] = [[] for _ in range(plan.waves)]
        for place, sample in enumerate(plan.samples):
            cluster = place * plan.clusters // len(plan.samples)
            within_ms = round(sample.offset / timedelta(milliseconds=1)) % (20 * MINUTE_MS)
            due_ms = self._start_ms + cluster * plan.span_ms // plan.clusters + 5 * MINUTE_MS + within_ms
            # Sent at any wave that is two minutes before, drawn by the message's own hash.
            last = (due_ms - self._start_ms - 2 * MINUTE_MS) / (plan.wave_minutes * MINUTE_MS)
            possible = min(plan.waves, int(last) + 1)
            wave = zlib.crc32(json.dumps(sample.payload).encode()) % possible
            waves[wave].append((due_ms, sample))
        return waves

    def _wave(self, number: int, samples: list[tuple[int, Sample]]) -> None:
        self._collect()
        messages = [
            Message(body=sample.payload, deliver_at=due_ms / 1000, attributes={"size": _size(sample.payload)})
            for due_ms, sample in samples
        ]
        if messages:
            for message, receipt in zip(messages, self._client.send_many(COMMITS, messages), strict=True):
                self._sent(receipt, _json(message.body), small=message.attributes["size"] == "small")
        for i in range(3):
            body = f"report {number} {i}"
            due_ms = self._end_ms - (i + 1) * 7 * MINUTE_MS
            receipt = self._client.send(MERGED, body, deliver_at=due_ms / 1000)
            self.oracle.expect([REPORTS], receipt.id, body, receipt.deliver_at_ms)
        if number == 1:
            self._send_large()
        if number in range(2, 2 + self._plan.lost_schedules):
            self._service.lose_next_schedule()
        self._change_later(number)

    def _send_large(self) -> None:
        for i in range(self._plan.large_bodies):
            body = f"{i}" + "tide" * (_LARGE_CHARACTERS // 4)
            due_ms = self._end_ms - (i + 1) * 11 * MINUTE_MS
            self._sent(self._client.send(COMMITS, body, deliver_at=due_ms / 1000), body)

    def _sent(self, receipt: Receipt, body: str, *, small: bool = False) -> None:
        readers = (ALL, SMALL, PAUSED) if small else (ALL, PAUSED)
        self.oracle.expect(readers, receipt.id, body, receipt.deliver_at_ms)

    # Changing what waits.

    def _change_later(self, number: int) -> None:
        """Sends messages to be cancelled, replaced or moved once stored in a ledger."""
        now_ms = self._service.now_ms()
        due_ms = now_ms + (self._end_ms - now_ms) // 2 + HOUR_MS // 2
        change_ms = now_ms + _INGESTED_MS
        if due_ms < change_ms + 40 * MINUTE_MS or due_ms > self._end_ms:
            return

        def send(body: str, **options: Any) -> Receipt:
            receipt = self._client.send(COMMITS, body, deliver_at=due_ms / 1000, **options)
            self._sent(receipt, body)
            return receipt

        withdrawn = [send(f"cancelled {number} {i}") for i in range(4)]
        by_key = send(f"cancelled by key {number}", key=f"cancelled-{number}")
        old = send(f"old {number}", key=f"replaced-{number}")
        send(f"first {number}", key=f"once-{number}")
        moved = send(f"moved {number}")
        self._at(change_ms, lambda: self._change(number, withdrawn, by_key, old, moved, due_ms))

    def _change(
        self, number: int, withdrawn: list[Receipt], by_key: Receipt, old: Receipt, moved: Receipt, due_ms: int
    ) -> None:
        tw = self._client
        results = [tw.cancel(COMMITS, withdrawn[0].id), tw.cancel(COMMITS, key=f"cancelled-{number}")]
        results += tw.cancel_many(COMMITS, [each.id for each in withdrawn[1:]])
        assert all(map(bool, results)), f"what waits in a ledger was not cancelled: {results}"
        replacement = tw.send(
            COMMITS, f"new {number}", deliver_at=due_ms / 1000 + 60, key=f"replaced-{number}", replace=True
        )
        self._sent(replacement, f"new {number}")
        tw.send(COMMITS, f"second {number}", deliver_at=due_ms / 1000 + 60, key=f"once-{number}")
        rescheduled = tw.reschedule(COMMITS, moved.id, deliver_at=due_ms / 1000 + 120)
        assert rescheduled, f"what waits in a ledger was not moved: {rescheduled}"
        self._sent(rescheduled.receipt, f"moved {number}")
        for each in (*withdrawn, by_key, old, moved):
            self.oracle.withdraw(each.id)

    # What users do besides.

    def _pause_and_resume(self) -> None:
        pause_ms = self._start_ms + self._plan.span_ms * 35 // 100
        resume_ms = self._start_ms + self._plan.span_ms * 60 // 100
        self._at(pause_ms, lambda: self._client.pause(*PAUSED) and None)
        self._at(resume_ms, lambda: self._resume(pause_ms))

    def _resume(self, paused_ms: int) -> None:
        self._client.resume(*PAUSED)
        # What is handed out before a pause is delivered; the rest comes with the next dispatch or sweep.
        end_ms = self._service.now_ms() + 10 * MINUTE_MS
        self._at(end_ms, lambda: self.oracle.may_be_late(PAUSED, paused_ms, end_ms))

    def _poison(self) -> None:
        """Lets a consumer fail on a message until it becomes a dead letter, and redrives it."""
        due_ms = self._start_ms + 40 * MINUTE_MS
        receipt = self._client.send(POISON, "poison", deliver_at=due_ms / 1000)
        self.oracle.expect([WORKER], receipt.id, "poison", receipt.deliver_at_ms)
        for times in range(_MAX_RECEIVES + 1):
            # The visibility time-out is a minute.
            self._at(due_ms + (2 + 2 * times) * MINUTE_MS, lambda times=times: self._fail(times))
        self._at(due_ms + (4 + 2 * _MAX_RECEIVES) * MINUTE_MS, self._redrive)

    def _fail(self, times: int) -> None:
        taken = self._client.receive(*WORKER)
        assert len(taken) == (times < _MAX_RECEIVES), f"received for the {times + 1}th time: {taken}"

    def _redrive(self) -> None:
        redriven = self._client.redrive(*WORKER)
        assert redriven.messages == 1, f"no dead letter was brought back: {redriven}"

    def _recur(self) -> None:
        start_ms = -(-self._start_ms // MINUTE_MS) * MINUTE_MS + HOUR_MS
        start = datetime.fromtimestamp(start_ms / 1000, UTC)
        end = datetime.fromtimestamp(self._end_ms / 1000, UTC) + timedelta(minutes=20)
        self._client.send_recurring(*(MERGED, "tick", "tick"), every="3h", start=start)
        ticks = range(start_ms, round(end.timestamp() * 1000), 3 * HOUR_MS)
        self.oracle.expect_recurring(REPORTS, "tick", list(ticks))
        self._client.send_recurring(MERGED, "morning", "morning", cron="30 8 * * *", timezone=ZONE, start=start)
        self.oracle.expect_recurring(REPORTS, "morning", _mornings(start, end))

    def _collect(self) -> None:
        for reader in READERS:
            if reader == WORKER and self._service.now_ms() < self._start_ms + 70 * MINUTE_MS:
                continue  # its consumer is the one that fails
            self.oracle.arrived(reader, self._service.take(*reader))


def _mornings(start: datetime, end: datetime) -> list[int]:
    """Returns the times of half past eight in Zurich, in milliseconds."""
    first = start.astimezone(ZoneInfo(ZONE)).replace(hour=8, minute=30, second=0, microsecond=0)
    days = (first + timedelta(days=day) for day in range((end - start).days + 3))
    return [round(each.timestamp() * 1000) for each in days if start <= each < end]


def _size(payload: Any) -> str:
    return "small" if payload["insertions"] + payload["deletions"] <= 10 else "large"


def _json(payload: Any) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
