"""Sends real messages to a local stack, receives the copies of every subscription, and checks each copy."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidewheel.model.message import Message
from tidewheel.shipped import EXAMPLES, shipped

if TYPE_CHECKING:
    from tidewheel.local import LocalTidewheel

Progress = Callable[[int, int], None]
"""Called with the copies delivered so far, and all that are to be delivered."""

SUBSCRIPTIONS = ("mail", "audit")
_SAMPLES = "messages.jsonl.gz"
# How long before its due time a message is sent, drawn for each message by its own hash.
_LEADS = tuple(timedelta(hours=h) for h in (1, 12, 24, 3 * 24, 7 * 24, 14 * 24, 30 * 24))
_WAVE = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Describes a message to replay, due `offset` after the start."""

    topic: str
    offset: timedelta
    payload: Any


@dataclass(slots=True, kw_only=True)
class Result:
    """Reports the results of a replay.

    Attributes:
        sent: messages, by topic.
        delivered: copies received, over all subscriptions.
        expected: copies that should arrive.
        lost, early, duplicates: copies that did not arrive, arrived before their time, arrived again.
        lateness_ms: of each copy: the time when SQS made it receivable, minus its due time.
        requests, units: requests to AWS, by operation, and units that AWS bills for the requests.
    """

    sent: Counter[str] = field(default_factory=Counter)
    delivered: int = 0
    expected: int = 0
    lost: int = 0
    early: int = 0
    duplicates: int = 0
    lateness_ms: list[int] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether every copy came exactly once, not early, and no function failed."""
        return not (self.lost or self.early or self.duplicates or self.failures) and self.delivered > 0

    def percentile_ms(self, percent: float) -> int:
        """Returns the lateness in ms not exceeded by this share of the copies."""
        ordered = sorted(self.lateness_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0


def packaged_samples() -> Path:
    """Returns the path of the sample messages, in the wheel or in a checkout.

    Raises:
        FileNotFoundError: neither has the samples.
    """
    return shipped(EXAMPLES) / _SAMPLES


def read_samples(path: Path) -> list[Sample]:
    """Reads messages from gzip-compressed JSON lines with `topic`, `offset_s` and `payload`.

    Times in the file are whole seconds. Milliseconds are added from each payload's hash, so that a replay does not use
    the fine wheel at whole seconds only.
    """
    samples = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            ms = zlib.crc32(json.dumps(row["payload"], sort_keys=True).encode()) % 1000
            offset = timedelta(seconds=row["offset_s"], milliseconds=ms)
            samples.append(Sample(topic=row["topic"], offset=offset, payload=row["payload"]))
    return samples


def replay_virtual(stack: LocalTidewheel, samples: Sequence[Sample], progress: Progress) -> Result:
    """Replays samples in virtual time, and receives all copies.

    Each message is sent an hour to thirty days before it is due. Messages are sent once a day.
    """
    account = _Account(stack, samples, progress)
    start = stack.now()
    waves: dict[int, list[Sample]] = {}
    for sample in samples:
        lead = _LEADS[zlib.crc32(str(sample.payload).encode()) % len(_LEADS)]
        waves.setdefault(max(0, (sample.offset - lead) // _WAVE), []).append(sample)
    last = max(sample.offset for sample in samples)
    days = max(last // _WAVE, *waves) + 1
    for day in range(days):
        stack.advance_to(start + day * _WAVE)
        account.receive()
        account.send(waves.get(day, []), start)
    stack.advance_to(start + days * _WAVE)
    stack.advance(minutes=5)
    account.receive()
    return account.finish()


def replay_real(stack: LocalTidewheel, samples: Sequence[Sample], seconds: float, progress: Progress) -> Result:
    """Replays samples in real time. Sends all at once, due within `seconds`."""
    account = _Account(stack, samples, progress)
    account.send(samples, stack.now())
    end = stack.now() + timedelta(seconds=seconds)
    while stack.now() < end:
        stack.advance(seconds=0.5)
        account.receive()
    grace = end + timedelta(seconds=10)
    while account.result.delivered < account.result.expected and stack.now() < grace:
        stack.advance(seconds=0.5)
        account.receive()
    return account.finish()


class _Account:
    """Counts sent and received messages."""

    def __init__(self, stack: LocalTidewheel, samples: Sequence[Sample], progress: Progress) -> None:
        self.result = Result()
        self._progress, self._copies = progress, len(samples) * len(SUBSCRIPTIONS)
        self._stack = stack
        self._client = stack.client()
        self._due_ms: dict[tuple[str, str], int] = {}
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._topics = sorted({sample.topic for sample in samples})
        for topic in self._topics:
            self._client.create_topic(topic)
            for subscription in SUBSCRIPTIONS:
                self._client.create_subscription(topic, subscription)

    def send(self, samples: Sequence[Sample], start: datetime) -> None:
        for topic in self._topics:
            mine = [sample for sample in samples if sample.topic == topic]
            messages = [Message(body=s.payload, deliver_at=start + s.offset) for s in mine]
            if not messages:
                continue
            for receipt in self._client.send_many(topic, messages):
                self._due_ms[topic, receipt.id] = receipt.deliver_at_ms
            self.result.sent[topic] += len(messages)
            self.result.expected += len(messages) * len(SUBSCRIPTIONS)

    def receive(self) -> None:
        result = self.result
        for topic in self._topics:
            for subscription in SUBSCRIPTIONS:
                for message in self._stack.receive(topic, subscription):
                    assert message.visible_at is not None
                    due_ms = self._due_ms[topic, message.id]
                    late_ms = round(message.visible_at.timestamp() * 1000) - due_ms
                    result.lateness_ms.append(late_ms)
                    result.early += late_ms < 0
                    result.delivered += 1
                    self._seen[topic, subscription, message.id] += 1
        self._progress(result.delivered, self._copies)

    def finish(self) -> Result:
        result = self.result
        result.duplicates = sum(count - 1 for count in self._seen.values())
        result.lost = sum(
            not self._seen[topic, subscription, each] for topic, each in self._due_ms for subscription in SUBSCRIPTIONS
        )
        result.requests = Counter(self._stack.requests)
        result.units = Counter(self._stack.requests.units)
        result.failures = [str(failure) for failure in self._stack.failures]
        return result
