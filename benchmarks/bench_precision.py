"""Measures lateness in real time, while other messages are sent, ingested and dispatched.

    python -m benchmarks precision

The local stack with the real clock: the deployed functions on an emulated AWS, in this process, with slots of 1 s and a
lookahead of 4 s. A sender sends a pack every half second; messages are due 1 to 10 s later, drawn at random, so that
some go direct and others through ledgers. Two subscriptions take them. What counts is when a queue makes a message
receivable, which is up to AWS's SQS in a deployed stack; here it is `DelaySeconds` after the send.

`sender_behind_ms` says by how much the sender itself was behind at most: above half a second, the machine could not
keep up with the rate, and the figures are those of a machine that is full.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import timedelta
from typing import Any

from benchmarks.bench_ledger import DATA
from tidewheel.local import LocalTidewheel
from tidewheel.local.replay import read_samples
from tidewheel.model.message import Message

RATES = (20, 100, 300)
SECONDS = 15.0
EVERY_S = 0.5
SOONEST_S, LATEST_S = 1.0, 10.0
TOPIC = "orders"
SUBSCRIPTIONS = ("mail", "audit")
PERCENTS = (1, 10, 50, 90, 99, 99.9)
# As deployed: the local runtime has one clock and would leave no room for skew.
SKEW = {"TIDEWHEEL_MAX_SKEW_MS": "100"}


class Load:
    """A stream of messages, with all deliveries.

    Attributes:
        lateness_ms: of each copy: when it was receivable, less when it was due.
        behind_ms: how much later than planned the sender sent, at most.
    """

    def __init__(self, stack: LocalTidewheel, rate: int) -> None:
        self._stack = stack
        self._rate = rate
        self._random = random.Random(17)
        self._bodies = [sample.payload for sample in read_samples(DATA)]
        self._client = stack.client()
        self._client.create_topic(TOPIC)
        for name in SUBSCRIPTIONS:
            self._client.create_subscription(TOPIC, name)
        self._due_ms: dict[str, int] = {}
        self._copies: Counter[tuple[str, str]] = Counter()
        self.lateness_ms: list[int] = []
        self.behind_ms = 0.0

    def run(self, seconds: float) -> None:
        """Sends for so long, and receives until all must have come."""
        began = time.monotonic()
        for number in range(round(seconds / EVERY_S)):
            planned = began + number * EVERY_S
            time.sleep(max(0.0, planned - time.monotonic()))
            self.behind_ms = max(self.behind_ms, (time.monotonic() - planned) * 1000)
            self._send(round(self._rate * EVERY_S))
            self._receive()
        last = time.monotonic() + LATEST_S + 10
        while len(self._copies) < len(SUBSCRIPTIONS) * len(self._due_ms) and time.monotonic() < last:
            self._stack.advance(seconds=EVERY_S)
            self._receive()
        # A copy too many would have come by now.
        self._stack.advance(seconds=2)
        self._receive()

    def figures(self) -> dict[str, Any]:
        """Returns percentiles, and counts of copies that came wrong."""
        ordered = sorted(self.lateness_ms)
        if not ordered:
            raise RuntimeError(f"nothing came: {self._stack.failures[:1]}")
        expected = [(name, each) for name in SUBSCRIPTIONS for each in self._due_ms]
        at = {
            f"p{percent:g}_ms".replace(".", "_"): ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
            for percent in PERCENTS
        }
        return {
            "messages_a_second": self._rate,
            "copies": len(ordered),
            **at,
            "max_ms": ordered[-1],
            "early": sum(late_ms < 0 for late_ms in ordered),
            "lost": sum(not self._copies[each] for each in expected),
            "duplicates": sum(count - 1 for count in self._copies.values()),
            "failed_calls": len(self._stack.failures),
            "ledgers": self._stack.requests["s3.PutObject"],
            "sender_behind_ms": self.behind_ms,
        }

    def _send(self, count: int) -> None:
        now = self._stack.now()
        messages = [
            Message(
                body=self._random.choice(self._bodies),
                deliver_at=now + timedelta(seconds=self._random.uniform(SOONEST_S, LATEST_S)),
            )
            for _ in range(count)
        ]
        self._due_ms |= {receipt.id: receipt.deliver_at_ms for receipt in self._client.send_many(TOPIC, messages)}

    def _receive(self) -> None:
        for name in SUBSCRIPTIONS:
            for message in self._stack.receive(TOPIC, name):
                assert message.visible_at is not None
                self.lateness_ms.append(round(message.visible_at.timestamp() * 1000) - self._due_ms[message.id])
                self._copies[name, message.id] += 1


def at_rate(rate: int, seconds: float) -> dict[str, Any]:
    """Runs a stack of its own under a load."""
    with LocalTidewheel(clock="real", slot_s=1, lookahead_s=4, environment=SKEW) as stack:
        load = Load(stack, rate)
        load.run(seconds)
        return load.figures()


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Runs each rate."""
    rates, seconds = (RATES[:1], 3.0) if quick else (RATES, SECONDS)
    found = [at_rate(rate, seconds) for rate in rates]
    return {
        **{f"p99_at_{each['messages_a_second']}_ms": each["p99_ms"] for each in found},
        **{name: sum(each[name] for each in found) for name in ("early", "lost", "duplicates")},
        "rates": found,
    }
