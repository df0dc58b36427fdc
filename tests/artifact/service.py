"""The artifact as the scenario's service."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.artifact.cloud import Cloud
from tests.artifact.oracle import Arrival

_ALL_AT_ONCE = 1_000_000


class ArtifactService:
    """A cloud and its client in a separate process. Reports when SQS made received messages visible."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._queue_names: dict[tuple[str, str], str] = {}
        self._taken: Counter[tuple[str, str]] = Counter()

    @property
    def client(self) -> Any:
        """The client."""
        return self._cloud.sdk

    def now_ms(self) -> int:
        """Returns the moved time."""
        return self._cloud.clock.now_ms()

    def wait_until(self, at_ms: int) -> None:
        """Moves to a time."""
        self._cloud.advance_to(at_ms)

    def lose_next_schedule(self) -> None:
        """Lets the next one-time schedule vanish."""
        self._cloud.schedules.to_lose += 1

    def take(self, topic: str, subscription: str) -> list[Arrival]:
        """Receives and deletes all available messages."""
        messages = self.client.receive(topic, subscription, max_messages=_ALL_AT_ONCE)
        if not messages:
            return []
        self.client.delete(topic, subscription, messages)
        name = self._queue_name(topic, subscription)
        return [self._arrival(name, message) for message in messages]

    def _arrival(self, queue_name: str, message: Any) -> Arrival:
        sights = self._cloud.watch.sights[queue_name, message.id]
        # Of several copies, the first one that is taken is the first one that was sent.
        place = min(self._taken[queue_name, message.id], len(sights) - 1)
        self._taken[queue_name, message.id] += 1
        return Arrival(
            id=message.id,
            body=message.body,
            due_ms=round(message.deliver_at.timestamp() * 1000),
            earliest_ms=sights[place].earliest_ms,
            latest_ms=sights[place].latest_ms,
        )

    def _queue_name(self, topic: str, subscription: str) -> str:
        if (topic, subscription) not in self._queue_names:
            for each in self.client.subscriptions(topic):
                self._queue_names[topic, each.name] = each.queue_url.rpartition("/")[2]
        return self._queue_names[topic, subscription]
