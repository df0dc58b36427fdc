"""What a trial sent, and what arrived: filled by the scenario and by the listeners side by side."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smoke.skew import Skew
    from tidewheel.message import Receipt
    from tidewheel.received import ReceivedMessage

Reader = tuple[str, str]
"""A topic and a subscription."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message that was sent, and who must get it; nobody else may.

    Attributes:
        readers: the subscriptions of its topic that get it; none if it was cancelled in time.
        group: with which others its precision is measured; None: it is late on purpose.
    """

    topic: str
    message_id: str
    deliver_at_ms: int
    body: str
    readers: frozenset[str]
    group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message that was received.

    Attributes:
        received_ms: when ReceiveMessage answered, by the receiver's clock.
    """

    reader: Reader
    message_id: str
    body: str
    deliver_at_ms: int
    received_ms: int


class Record:
    """Everything sent and received in one trial; any thread may add to it.

    Attributes:
        late_readers: subscriptions that get their messages late on purpose, since they are paused or broken.
        skew: this machine's clock against SQS's, once it is measured.
    """

    def __init__(self) -> None:
        self.late_readers: set[Reader] = set()
        self.skew: Skew | None = None
        self._lock = threading.Lock()
        self._sent: dict[str, Sent] = {}
        self._arrivals: list[Arrival] = []
        self._troubles: Counter[str] = Counter()

    def sent(self, receipt: Receipt, body: str, *, readers: tuple[str, ...], group: str | None) -> None:
        """Notes a message that the service took."""
        with self._lock:
            self._sent[receipt.id] = Sent(
                topic=receipt.topic,
                message_id=receipt.id,
                deliver_at_ms=receipt.deliver_at_ms,
                body=body,
                readers=frozenset(readers),
                group=group,
            )

    def withdrawn(self, message_id: str) -> Sent:
        """Notes that nobody may get a message any more; returns what it was."""
        with self._lock:
            before = self._sent[message_id]
            self._sent[message_id] = Sent(
                topic=before.topic,
                message_id=message_id,
                deliver_at_ms=before.deliver_at_ms,
                body=before.body,
                readers=frozenset(),
                group=None,
            )
        return before

    def arrived(self, reader: Reader, message: ReceivedMessage, received_ms: int) -> None:
        """Notes a message that a subscription received."""
        arrival = Arrival(
            reader=reader,
            message_id=message.id,
            body=message.body,
            deliver_at_ms=round(message.deliver_at.timestamp() * 1000),
            received_ms=received_ms,
        )
        with self._lock:
            self._arrivals.append(arrival)

    def trouble(self, what: str) -> None:
        """Notes that receiving failed; the listener goes on."""
        with self._lock:
            self._troubles[what] += 1

    def all_sent(self) -> list[Sent]:
        """What was sent so far."""
        with self._lock:
            return list(self._sent.values())

    def arrivals(self) -> list[Arrival]:
        """What arrived so far."""
        with self._lock:
            return list(self._arrivals)

    def troubles(self) -> dict[str, int]:
        """What went wrong while receiving, and how often."""
        with self._lock:
            return dict(self._troubles)

    def outstanding(self) -> list[tuple[Sent, str]]:
        """What somebody must get and has not got yet, with that subscription."""
        with self._lock:
            arrived = {(each.reader, each.message_id) for each in self._arrivals}
            return [
                (each, reader)
                for each in self._sent.values()
                for reader in sorted(each.readers)
                if ((each.topic, reader), each.message_id) not in arrived
            ]
