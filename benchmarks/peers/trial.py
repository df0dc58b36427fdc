"""Measures a server by a backlog, `kill -9`, a steady stream, and a publisher at full speed.

- Backlog: so many messages, or as many as were sent in 150 s, due in an hour to 14 days. Disk and memory are those
  above an empty server's. Filling skips flushes, where a server can: a killed program loses nothing that the operating
  system has.
- Back: from the start after `kill -9` until a new message is acknowledged and all others are counted.
- Steady: one message each 10 ms, due 1 to 6 s later at random, while the smallest backlog waits.
- Crash: the same for some seconds, due 1 to 4 s later, with `kill -9` in the middle. The consumer lives on.
- Sends: one publisher sends, waits until all is on disk, and sends again: one message, or 100.

Times and rates are medians of rounds, with quartiles.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from itertools import islice

from benchmarks.peers.server import DelayServer
from benchmarks.peers.stream import Delivery, Outcome, Timed, outcome, unordered
from benchmarks.rounds import spread_figures
from tidewheel.clock import SystemClock

RATE = 100
TICK_S = 0.01
POLL_S = 1.0
"""How often Redis and PostgreSQL are polled where they are polled seldom, as River and Oban do by default."""
SOONEST_MS = 1_000
STEADY_SPREAD_MS, CRASH_SPREAD_MS = 5_000, 3_000
FAR_MS, FAR_SPREAD_MS = 3_600_000, 14 * 86_400_000
GRACE_S = 20.0
"""How long after the last message is due one may come: longer than any server waits before it sends again."""
AGAIN_S = 6.0
"""How long after the last message one may come twice, if the server was killed: longer than NATS's `ACK_WAIT_S`."""
SETTLE_S = 3.0
_FILL = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long the parts of a trial take.

    Attributes:
        steady_s: of a steady stream.
        crash_s: of a stream with `kill -9` in the middle.
        sends_s: of a round of sends.
        rounds: of streams and of starts.
        sends_rounds: of sends.
        fill_s: after which a backlog is as large as it is.
    """

    steady_s: float = 15.0
    crash_s: float = 4.0
    sends_s: float = 1.0
    rounds: int = 5
    sends_rounds: int = 5
    fill_s: float = 150.0


FULL = Length()
QUICK = Length(steady_s=2.0, crash_s=2.0, sends_s=0.2, rounds=1, sends_rounds=1)
Figures = dict[str, object]


class Trial:
    """A measured server and the messages sent.

    Args:
        server: entered, not started.
        size: of the backlog.
    """

    def __init__(self, server: DelayServer, size: int) -> None:
        self._server = server
        self._size = size
        self._sent = self._next = 0

    def fill(self, limit_s: float) -> Figures:
        """Starts the server and sends the backlog, for so long at most. Returns the bytes of a waiting message."""
        server = self._server
        server.start(durable=False)
        time.sleep(SETTLE_S)
        empty_disk, empty_memory = server.disk_bytes(), server.program.memory_bytes()
        end_s = time.monotonic() + limit_s
        with server.program.peak() as peak:
            while self._sent < self._size and time.monotonic() < end_s:
                server.send(self._far(min(_FILL, self._size - self._sent)))
        time.sleep(SETTLE_S)
        return {
            "messages": self._sent,
            "disk_bytes_a_message": (server.disk_bytes() - empty_disk) / self._sent,
            "memory_bytes_a_message": (server.program.memory_bytes() - empty_memory) / self._sent,
            "empty_memory_mb": empty_memory / 1e6,
            "peak_memory_mb": peak.megabytes,
        }

    def restart(self, rounds: int) -> Figures:
        """Kills the server and starts it, with flushes, again and again."""
        took_s, lost = [], 0
        for _ in range(rounds):
            self._server.kill()
            began = time.monotonic()
            self._server.start()
            self._server.send(self._far(1))
            lost = self._sent - self._server.waiting()
            took_s.append(time.monotonic() - began)
        return {**spread_figures("back_s", took_s), "lost_of_backlog": lost}

    def sends(self, batch: int, length: Length) -> Figures:
        """Sends for some time, a batch at a time."""
        rates = []
        for _ in range(length.sends_rounds):
            before, began = self._sent, time.monotonic()
            while time.monotonic() < began + length.sends_s:
                self._server.send(self._far(batch))
            rates.append((self._sent - before) / (time.monotonic() - began))
        return spread_figures(f"sends_a_second_by_{batch}", rates)

    def steady(self, seconds: float, *, rounds: int, poll_s: float = TICK_S) -> Figures:
        """Runs steady streams. Returns their lateness, and the memory meanwhile."""
        with self._server.program.peak() as peak:
            found = [self._stream(seconds, STEADY_SPREAD_MS, poll_s=poll_s) for _ in range(rounds)]
        figures: Figures = {}
        for name, percent in (("p50_ms", 50.0), ("p99_ms", 99.0)):
            figures |= spread_figures(name, [float(each.percentile_ms(percent)) for each in found])
        return {
            **figures,
            "latest_ms": max(each.lateness_ms[-1] for each in found),
            "early": sum(each.early for each in found),
            "lost": sum(each.lost for each in found),
            "duplicates": sum(each.duplicates for each in found),
            "memory_mb": peak.megabytes,
        }

    def crash(self, length: Length) -> Figures:
        """Kills the server amid streams. Returns the lost messages and the copies."""
        found = [
            self._stream(length.crash_s, CRASH_SPREAD_MS, kill_after_s=length.crash_s / 2) for _ in range(length.rounds)
        ]
        return {
            "lost_after_kill": sum(each.lost for each in found),
            "duplicates_after_kill": sum(each.duplicates for each in found),
            "early_after_kill": sum(each.early for each in found),
        }

    def _stream(
        self, seconds: float, spread_ms: int, *, poll_s: float = TICK_S, kill_after_s: float | None = None
    ) -> Outcome:
        """Sends at a steady rate, and receives until all has come or must have come."""
        count = round(seconds * RATE)
        drawn = unordered(count, first_ms=0, span_ms=0, first_number=self._numbers(count))
        delay_ms = random.Random(5)
        clock, sent, arrived = SystemClock(), list[Timed](), list[Delivery]()
        began = time.monotonic()
        # What comes twice may come after all the others.
        again_s = TICK_S if kill_after_s is None else AGAIN_S
        next_take_s, end_s, ended = 0.0, None, False
        while True:
            now_s = time.monotonic() - began
            if kill_after_s is not None and now_s >= kill_after_s:
                self._server.kill()
                self._server.start()
                kill_after_s = None
            for each in islice(drawn, max(0, min(count, 1 + int(now_s * RATE)) - len(sent))):
                message = replace(each, due_ms=clock.now_ms() + SOONEST_MS + delay_ms.randrange(spread_ms))
                self._server.send([message])
                sent.append(message)
            if end_s is None and len(sent) == count:
                end_s = (max(each.due_ms for each in sent) - clock.now_ms()) / 1000 + now_s + GRACE_S
            if now_s >= next_take_s:
                arrived += self._server.take(TICK_S)
                next_take_s += poll_s * max(1, int((now_s - next_take_s) / poll_s))
            if end_s is not None and now_s > end_s:
                break
            if len(sent) == len({each.number for each in arrived}) == count and not ended:
                end_s, ended = now_s + again_s, True
            time.sleep(max(0.0, min(next_take_s, now_s + TICK_S) - (time.monotonic() - began)))
        self._sent -= count
        return outcome(sent, arrived)

    def _far(self, count: int) -> list[Timed]:
        first_ms = SystemClock().now_ms() + FAR_MS
        number = self._numbers(count)
        return list(unordered(count, first_ms=first_ms, span_ms=FAR_SPREAD_MS, first_number=number))

    def _numbers(self, count: int) -> int:
        """Returns the first of so many numbers that no message had."""
        first, self._next = self._next, self._next + count
        self._sent += count
        return first
