"""A steady rate for virtual weeks. After the first days nothing grows, and at the end nothing is left."""

from __future__ import annotations

import gc
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import pytest

from tests.conftest import PROMISE_MS
from tidewheel import Message
from tidewheel.local import MemoryTidewheel

READERS = (("reminders", "mail"), ("reminders", "audit"), ("retries", "worker"))
STEPS_A_DAY = 12
LONGEST_S = 2 * 86_400
CANCELLED_EVERY = 50
SLACK = 8
"""Items by which collections and merges let a count rise and fall."""
MOST_BLOCKS = 2
"""Blocks of memory that Python may keep more for each message. Whatever is kept of a message is several.

Tombstones of some messages live for four weeks. After these, under one block a message is kept.
"""


@dataclass(kw_only=True)
class Weeks:
    """A service with two topics, its senders and its consumers.

    Attributes:
        awaited: topic, subscription, and message id -> the time at which it is due, in ms.
        samples: name -> a count of items, objects, bytes or blocks of memory, one a day.
    """

    stack: MemoryTidewheel
    random: Random = field(default_factory=lambda: Random(6))
    awaited: dict[tuple[str, str, str], int] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)
    sent: int = 0

    def begin(self) -> None:
        """Makes topics and subscriptions. The plans of `retries` go through the work queue."""
        client = self.stack.client()
        client.create_topic("reminders", max_buckets=16, retention_days=1)
        client.create_topic("retries", max_buckets=16, inline_rows=1, retention_days=1)
        for topic, name in READERS:
            client.create_subscription(topic, name)

    def day(self, messages: int) -> None:
        """Sends at even intervals, cancels a few, receives, and takes a sample."""
        for step in range(STEPS_A_DAY):
            count = messages * (step + 1) // STEPS_A_DAY - messages * step // STEPS_A_DAY
            for number, topic in enumerate(("reminders", "retries")):
                self._send(topic, (count + number) // 2)
            self.stack.advance(hours=24 / STEPS_A_DAY)
            self.receive()
        self._sample()

    def _send(self, topic: str, count: int) -> None:
        client = self.stack.client()
        delays = [min(self.random.expovariate(1 / 60_000), LONGEST_S) for _ in range(count)]
        bodies = [{"number": self.sent + i, "text": "x" * self.random.randrange(400)} for i in range(count)]
        batch = [Message(body=b, delay=timedelta(seconds=d)) for b, d in zip(bodies, delays, strict=True)]
        receipts = client.send_many(topic, batch) if batch else []
        chosen = [each.id for i, each in enumerate(receipts, self.sent) if not i % CANCELLED_EVERY]
        cancelled = {each.id for each in client.cancel_many(topic, chosen) if each} if chosen else set()
        self.sent += count
        self.awaited |= {
            (*reader, each.id): each.deliver_at_ms
            for reader in READERS
            if reader[0] == topic
            for each in receipts
            if each.id not in cancelled
        }

    def receive(self) -> None:
        """Takes all receivable messages. Each message was awaited, and is neither early nor late."""
        for reader in READERS:
            for message in self.stack.receive(*reader):
                assert message.id is not None and message.visible_at is not None
                due_ms = self.awaited.pop((*reader, message.id))
                assert 0 <= round(message.visible_at.timestamp() * 1000) - due_ms <= PROMISE_MS

    def items(self) -> Counter[str]:
        """Counts the table's items by kind, and the objects."""
        service, found = self.stack.service, Counter[str]()
        for topic in ("reminders", "retries"):
            found["buckets"] += len(service.buckets.all(topic))
            found["plans"] += len(service.plans.ranges(topic))
            found["deliveries"] += len(service.deliveries.all(topic))
            found["parks"] += len(service.parks.all(topic))
            found["trash"] += len(service.merges.trash(topic))
        objects = [each for each in service.objects.list("") if not each.name.startswith("checkpoints/")]
        return found + Counter(objects=len(objects), bytes=sum(each.size_bytes for each in objects))

    def _sample(self) -> None:
        gc.collect()
        counts = {"blocks": sys.getallocatedblocks(), "sent": self.sent, **self.items()}
        for name in ("blocks", "sent", "buckets", "plans", "deliveries", "parks", "trash", "objects", "bytes"):
            self.samples.setdefault(name, []).append(counts.get(name, 0))

    def growth(self) -> dict[str, float]:
        """Returns last quarter's means divided by second quarter's, of all figures with growth above SLACK.

        `blocks` is the number of blocks of memory that Python kept more for each message sent since the third quarter.
        Before, the tombstones of four weeks are still filling up.
        """
        messages, blocks = (
            _quarter(self.samples[name], 3) - _quarter(self.samples[name], 2) for name in ("sent", "blocks")
        )
        counts = {name: values for name, values in self.samples.items() if name not in ("sent", "blocks")}
        quarters = {name: (_quarter(values, 1), _quarter(values, 3)) for name, values in counts.items()}
        grown = {name: b / max(a, 1) for name, (a, b) in quarters.items() if b - a > SLACK}
        return grown | {"blocks": blocks / messages}


def _quarter(values: list[float], number: int) -> float:
    return statistics.fmean(values[len(values) * number // 4 : len(values) * (number + 1) // 4])


@pytest.fixture
def weeks() -> Iterator[Weeks]:
    with MemoryTidewheel(max_skew_ms=100) as stack:
        weeks = Weeks(stack=stack)
        weeks.begin()
        yield weeks


def test_at_a_steady_rate_nothing_grows_and_in_the_end_nothing_is_left(weeks: Weeks) -> None:
    for _ in range(56):  # the second half begins when the first tombstones end
        weeks.day(messages=60)
    growth = weeks.growth()
    assert growth.pop("blocks") <= MOST_BLOCKS
    assert all(ratio <= 1.1 for ratio in growth.values()), growth
    assert weeks.stack.invocations["compact"] > 0
    weeks.stack.advance(seconds=LONGEST_S)
    weeks.receive()
    weeks.stack.advance(days=3)
    assert weeks.awaited == {} and weeks.stack.failures == []
    assert +weeks.items() == Counter()
