"""Records the messages sent, the schedules refused and the requests to AWS of a call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from tidewheel.clock import Clock
from tidewheel.flows.ports import QueueMessage, Queues, Refusal, Wheel

if TYPE_CHECKING:
    from botocore.hooks import BaseEventHooks


@dataclass(slots=True, kw_only=True)
class Sent:
    """The messages sent since the last `take_account`.

    Attributes:
        late_ms: for each message that a subscription's queue took, the time from its due time until SQS makes it
            visible.
        late_by_nature: number of other messages taken, which are late whatever the service does.
        refused: ids of messages that SQS refused permanently, with SQS's code, which contains nothing of the messages.
    """

    late_ms: list[int] = field(default_factory=list)
    late_by_nature: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def messages(self) -> int:
        """Number of messages taken by subscriptions' queues."""
        return len(self.late_ms) + self.late_by_nature


class WatchedQueues:
    """Forwards to a port `Queues` and records the sends. Safe for several threads.

    SQS makes a message visible when its delay is over, counted from when SQS took the message. SQS took the message
    before its answer came, so the real lateness is at most the recorded lateness.

    Attributes:
        due: whether messages sent now are due now. Messages that were sent again or parked are late whatever the
            service does.
    """

    def __init__(self, queues: Queues, clock: Clock) -> None:
        self._queues, self._clock = queues, clock
        self._sent = Sent()
        self._lock = Lock()
        self.due = True

    def __getattr__(self, name: str) -> Any:
        """Forwards all other calls."""
        return getattr(self._queues, name)

    def take_account(self) -> Sent:
        """Returns the record and begins a new record."""
        with self._lock:
            taken, self._sent = self._sent, Sent()
        return taken

    def send(self, queue_url: str, batch: Sequence[tuple[QueueMessage, int]]) -> list[Refusal]:
        """Forwards the batch and records the messages taken."""
        refusals = self._queues.send(queue_url, batch)
        now_ms = self._clock.now_ms()
        left = {refusal.index for refusal in refusals}
        late_ms = [
            max(0, now_ms + delay_s * 1000 - message.deliver_at_ms)
            for place, (message, delay_s) in enumerate(batch)
            if place not in left
        ]
        with self._lock:
            if self.due:
                self._sent.late_ms += late_ms
            else:
                self._sent.late_by_nature += len(late_ms)
        return refusals

    def refuse(self, document: Mapping[str, object]) -> None:
        """Forwards the document and records the message's id and SQS's code, if SQS refused the message."""
        self._queues.refuse(document)
        if "header" not in document:
            return
        header = json.loads(str(document["header"]))
        with self._lock:
            self._sent.refused.append((str(header["id"]), str(document["code"])))


class WatchedWheel:
    """Forwards to a port `Wheel`, and tells the refusals, which the flows survive in silence.

    Args:
        wheel: the port.
        refused: told the topic, the slot and the error of each refusal.
    """

    def __init__(self, wheel: Wheel, refused: Callable[[str, int, Exception], None]) -> None:
        self._wheel, self._refused = wheel, refused

    def schedule(self, topic: str, slot: int, fires_at_ms: int) -> None:
        """Creates the schedule of a topic's slot. Tells and raises the error of a refusal."""
        try:
            self._wheel.schedule(topic, slot, fires_at_ms)
        except Exception as error:
            self._refused(topic, slot, error)
            raise

    def unschedule(self, topic: str) -> None:
        """Deletes all schedules of a topic."""
        self._wheel.unschedule(topic)


class RequestCount:
    """Counts requests since the last `take`, by "service.Operation".

    Counts requests of clients made later with these events. A request that botocore repeats counts once. The cost is
    one Python call per request.
    """

    def __init__(self, events: BaseEventHooks) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = Lock()
        events.register("after-call", self._count)

    def take(self) -> Counter[str]:
        """Returns the counts and begins at zero."""
        with self._lock:
            taken, self._counts = self._counts, Counter()
        return taken

    def _count(self, event_name: str = "", **_: Any) -> None:
        # after-call.<service>.<operation>
        with self._lock:
            self._counts[event_name.partition(".")[2]] += 1
