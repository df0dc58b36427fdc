"""What was sent and must come, and what came; its memory follows what waits, not what has passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.soak.outcome import Outcome
from benchmarks.soak.stack import SoakStack
from tidewheel import Message
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.model.message import MessageId

Takes = Callable[[Message], bool]
Reader = tuple[str, str]
"""A topic and one of its subscriptions."""
_BIN_MS = 100


@dataclass(slots=True)
class Lateness:
    """How much later than due copies were receivable, in bins of 100 ms.

    Attributes:
        copies: first ms of a bin -> copies in it; what is early has a negative one.
        most_ms: of the latest copy.
    """

    copies: Counter[int] = field(default_factory=Counter)
    most_ms: int = 0

    def add(self, late_ms: int) -> None:
        """Counts a copy."""
        self.copies[late_ms // _BIN_MS * _BIN_MS] += 1
        self.most_ms = max(self.most_ms, late_ms)

    def percentile_ms(self, percent: float) -> int:
        """Returns the end of the bin in which this share of the copies is reached, or the latest; 0 without any."""
        wanted, reached = sum(self.copies.values()) * percent / 100, 0
        for first_ms in sorted(self.copies):
            reached += self.copies[first_ms]
            if reached >= wanted:
                return min(first_ms + _BIN_MS, self.most_ms)
        return 0


@dataclass(slots=True, kw_only=True)
class Account:
    """Sends through one client, receives from every subscription, and compares.

    Attributes:
        sent: messages.
        expected: copies that had to come so far, those that were cancelled in time left out.
        delivered: copies that came and were awaited.
        early: of these, receivable before their time.
        unexpected: copies that nobody awaited: second ones, cancelled ones, ones that a filter leaves out.
        cancelled: messages of which a caller was told that they will not come.
        lateness: of the delivered copies.
    """

    stack: SoakStack
    client: Tidewheel
    sent: int = 0
    expected: int = 0
    delivered: int = 0
    early: int = 0
    unexpected: int = 0
    cancelled: int = 0
    lateness: Lateness = field(default_factory=Lateness)
    awaited: dict[Reader, dict[MessageId, int]] = field(default_factory=dict)
    _takes: dict[Reader, Takes | None] = field(default_factory=dict)
    _after: Callable[[Reader, str, int, int], None] | None = None

    def subscribe(
        self, topic: str, name: str, *, filter_policy: Mapping[str, object] | None = None, takes: Takes | None = None
    ) -> None:
        """Makes a subscription, whose messages are awaited from now on.

        Args:
            topic: an existing one.
            name: the subscription's.
            filter_policy: as for `create_subscription`.
            takes: what the filter lets through; None: everything.
        """
        self.client.create_subscription(topic, name, filter_policy=filter_policy)
        self.awaited[topic, name] = {}
        self._takes[topic, name] = takes

    def each_copy(self, tell: Callable[[Reader, str, int, int], None]) -> None:
        """Has every copy that comes told: to whom, its id, when it was due, and when it was receivable, in ms."""
        self._after = tell

    def send(self, topic: str, messages: Sequence[Message]) -> list[MessageId]:
        """Sends messages; returns their ids."""
        receipts = self.client.send_many(topic, messages)
        for reader, awaited in self.awaited.items():
            if reader[0] != topic:
                continue
            takes = self._takes[reader]
            its = {
                receipt.id: receipt.deliver_at_ms
                for receipt, message in zip(receipts, messages, strict=True)
                if takes is None or takes(message)
            }
            awaited.update(its)
            self.expected += len(its)
        self.sent += len(messages)
        return [receipt.id for receipt in receipts]

    def cancel(self, topic: str, ids: Iterable[MessageId]) -> None:
        """Cancels messages; those that are told to be cancelled must not come any more."""
        for result in self.client.cancel_many(topic, list(ids)):
            if not result or result.id is None:
                continue
            self.cancelled += 1
            for reader, awaited in self.awaited.items():
                if reader[0] == topic and awaited.pop(result.id, None) is not None:
                    self.expected -= 1

    def receive(self, readers: Iterable[Reader] | None = None) -> None:
        """Takes what is receivable, by default of every subscription."""
        for reader in list(self.awaited) if readers is None else readers:
            awaited = self.awaited[reader]
            for message in self.stack.receive(*reader):
                due_ms = None if message.id is None else awaited.pop(message.id, None)
                if due_ms is None:
                    self.unexpected += 1
                    continue
                assert message.visible_at is not None
                visible_ms = round(message.visible_at.timestamp() * 1000)
                self.lateness.add(visible_ms - due_ms)
                self.early += visible_ms < due_ms
                self.delivered += 1
                if self._after is not None:
                    self._after(reader, message.id, due_ms, visible_ms)

    @property
    def open(self) -> int:
        """Copies that have not come yet."""
        return sum(map(len, self.awaited.values()))

    def overdue(self, at_ms: int) -> int:
        """Copies that should be there by a time, and are not."""
        return sum(due_ms <= at_ms for awaited in self.awaited.values() for due_ms in awaited.values())

    def report(self, outcome: Outcome, *, most_late_ms: int | None) -> None:
        """Writes down the figures, and the promises: nothing lost, early or double.

        Args:
            outcome: of the scenario.
            most_late_ms: what no copy may be above; None: the scenario judges lateness itself.
        """
        outcome.figures |= {
            "messages": self.sent,
            "copies": self.delivered,
            "cancelled": self.cancelled,
            "late_p50_ms": self.lateness.percentile_ms(50),
            "late_p99_ms": self.lateness.percentile_ms(99),
            "late_most_ms": self.lateness.most_ms,
        }
        outcome.promise(self.delivered > 0, f"copies that came: {self.delivered:,}")
        outcome.exactly("copies lost", self.open, 0)
        outcome.exactly("copies early", self.early, 0)
        outcome.exactly("copies nobody awaited (double, cancelled, filtered)", self.unexpected, 0)
        if most_late_ms is not None:
            outcome.at_most("latest copy, ms", self.lateness.most_ms, most_late_ms)
