"""What a client knows: its connection, and the fences and subscriptions that it has read."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tidewheel.client.connection import Connection
from tidewheel.client.limits import FRESH_MS, Limits
from tidewheel.client.sender import Sender
from tidewheel.errors import UnknownSubscription, UnknownTopic
from tidewheel.model.message import IdSource, Message
from tidewheel.model.subscription import Subscription
from tidewheel.model.topic import check_name
from tidewheel.model.topic_state import Fence
from tidewheel.model.validation import CheckedMessage, check_message

if TYPE_CHECKING:
    from tidewheel.clock import Clock

CACHE_MS = 60_000
"""How long a topic's fence and a subscription's queue are taken as known."""


class Known:
    """The common ground of all that a client can do; several threads may use it."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._ids = IdSource()
        self._lock = threading.Lock()
        self._limits: dict[str, Limits] = {}
        self._fences: dict[str, tuple[int, Fence]] = {}
        self._subscriptions: dict[tuple[str, str], tuple[int, Subscription]] = {}

    def _sender(self, fence: Fence) -> Sender:
        return Sender(self._connection, fence, self._clock, self._ids, admit=lambda: self._admit(fence))

    def _admit(self, fence: Fence) -> None:
        """Counts a message against its topic's limits, or raises LimitExceeded."""
        with self._lock:
            limits = self._limits.setdefault(fence.topic, Limits())
        current, read_at_ms = self._fresh(fence)
        limits.take(current, read_at_ms, self._clock.now_ms())

    def _check(self, topic: str, message: Message) -> tuple[Fence, CheckedMessage]:
        """Does all of `send` but the sending."""
        fence = self._fence(topic)
        levels = fence.settings.delay_levels
        checked = check_message(message, self._ids, self._clock.now_ms(), levels=levels, large=True)
        self._admit(fence)
        return fence, checked

    def _fresh(self, fence: Fence) -> tuple[Fence, int]:
        """Returns a topic's fence and when it was read: lately, if it has a limit of what may wait."""
        read_at_ms, known = self._fences.get(fence.topic, (0, fence))
        now_ms = self._clock.now_ms()
        if known.settings.max_waiting is not None and now_ms - read_at_ms >= FRESH_MS:
            current = self._connection.topics.fence(fence.topic)
            if current is not None:
                self._remember_fence(current)
                return current, now_ms
        return known, read_at_ms

    def _fence(self, topic: str) -> Fence:
        check_name("topic", topic)
        now_ms = self._clock.now_ms()
        with self._lock:
            known = self._fences.get(topic)
        if known is not None and now_ms - known[0] < CACHE_MS:
            return known[1]
        fence = self._connection.topics.fence(topic)
        if fence is None:
            raise UnknownTopic(topic)
        self._remember_fence(fence)
        return fence

    def _forget(self, topic: str) -> None:
        with self._lock:
            self._fences.pop(topic, None)
            self._limits.pop(topic, None)
            for known in [each for each in self._subscriptions if each[0] == topic]:
                del self._subscriptions[known]

    def _read_fence(self, topic: str) -> Fence:
        check_name("topic", topic)
        fence = self._connection.topics.fence(topic)
        if fence is None:
            raise UnknownTopic(topic)
        self._remember_fence(fence)
        return fence

    def _remember_fence(self, fence: Fence) -> None:
        with self._lock:
            self._fences[fence.topic] = (self._clock.now_ms(), fence)

    def _subscription(self, topic: str, name: str) -> Subscription:
        check_name("topic", topic)
        check_name("subscription", name)
        now_ms = self._clock.now_ms()
        with self._lock:
            known = self._subscriptions.get((topic, name))
        if known is not None and now_ms - known[0] < CACHE_MS:
            return known[1]
        found = self._connection.topics.subscription(topic, name)
        if found is None:
            self._fence(topic)
            raise UnknownSubscription(topic, name)
        with self._lock:
            self._subscriptions[topic, name] = (now_ms, found)
        return found
