"""Queues whose sends are watched: how many messages went, how late, and which were refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from tidewheel.clock import Clock
from tidewheel.flows.ports import Queues, Refusal, Release
from tidewheel.model.park import ParkKey
from tidewheel.model.subscription import DeliveryKey


@dataclass(slots=True, kw_only=True)
class Sent:
    """What went through since it was last asked.

    Attributes:
        late_ms: of each message that a subscription's queue took, how long after it was due SQS makes it visible.
        late_by_nature: how many more were taken that are late whatever the service does.
        refused: ids of messages that SQS refused for good, with its code, which says nothing of what they hold.
    """

    late_ms: list[int] = field(default_factory=list)
    late_by_nature: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def messages(self) -> int:
        """Messages that subscriptions' queues took."""
        return len(self.late_ms) + self.late_by_nature


class WatchedQueues:
    """The port `Queues`, passed on, with an account of it; several threads may use it.

    SQS makes a message visible when its delay is over, counted from when it took it. That was before its answer came,
    so the lateness is at most what is noted here.

    Attributes:
        due: whether what is sent is due now. What is sent again, or was put aside, is late whatever the service does.
    """

    def __init__(self, queues: Queues, clock: Clock) -> None:
        self._queues = queues
        self._clock = clock
        self._sent = Sent()
        self._lock = Lock()
        self.due = True

    def take_account(self) -> Sent:
        """Returns what went through, and begins anew."""
        with self._lock:
            taken, self._sent = self._sent, Sent()
        return taken

    def send(self, queue_url: str, batch: Sequence[tuple[Release, int]]) -> list[Refusal]:
        """Passes on, and notes what was taken."""
        refusals = self._queues.send(queue_url, batch)
        now_ms = self._clock.now_ms()
        left = {refusal.index for refusal in refusals}
        late_ms = [
            max(0, now_ms + delay_s * 1000 - release.deliver_at_ms)
            for place, (release, delay_s) in enumerate(batch)
            if place not in left
        ]
        with self._lock:
            if self.due:
                self._sent.late_ms += late_ms
            else:
                self._sent.late_by_nature += len(late_ms)
        return refusals

    def enqueue_parts(self, key: DeliveryKey, parts: Sequence[int]) -> None:
        """Passes on."""
        self._queues.enqueue_parts(key, parts)

    def enqueue_parks(self, keys: Sequence[ParkKey]) -> None:
        """Passes on."""
        self._queues.enqueue_parks(keys)

    def enqueue_catch_up(self, topic: str, subscription: str, generation: str) -> None:
        """Passes on."""
        self._queues.enqueue_catch_up(topic, subscription, generation)

    def refuse(self, document: Mapping[str, object]) -> None:
        """Passes on, and notes the message's id and SQS's code."""
        self._queues.refuse(document)
        header = json.loads(str(document["header"]))
        with self._lock:
            self._sent.refused.append((str(header["id"]), str(document["code"])))
