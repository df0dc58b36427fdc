"""Holds a client's connection, and caches topic states and subscriptions."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tidewheel.client.connection import Connection
from tidewheel.client.limits import FRESH_MS, Limits
from tidewheel.client.sender import Sender
from tidewheel.errors import UnknownSubscription, UnknownTopic
from tidewheel.model.message import IdSource, Message
from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.model.topic import check_name
from tidewheel.model.topic_state import TopicState
from tidewheel.model.validation import OutgoingMessage, check_message

if TYPE_CHECKING:
    from tidewheel.clock import Clock

CACHE_MS = 60_000
"""How long a topic state and a subscription are cached."""


class Known:
    """The common base class of the client's parts. Several threads may use the same client."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._ids = IdSource()
        self._lock = threading.Lock()
        self._limits: dict[str, Limits] = {}
        self._states: dict[str, tuple[int, TopicState]] = {}
        self._subscriptions: dict[tuple[str, str], tuple[int, SubscriptionState]] = {}

    def _sender(self, state: TopicState) -> Sender:
        return Sender(self._connection, state, self._clock, self._ids, admit=lambda: self._admit(state))

    def _admit(self, state: TopicState) -> None:
        """Counts a message against its topic's limits, or raises LimitExceeded."""
        with self._lock:
            limits = self._limits.setdefault(state.topic, Limits())
        current, read_at_ms = self._fresh(state)
        limits.take(current, read_at_ms, self._clock.now_ms())

    def _check(self, topic: str, message: Message) -> tuple[TopicState, OutgoingMessage]:
        """Does all steps of `send` before the sending."""
        state = self._state(topic)
        levels = state.settings.delay_levels
        checked = check_message(message, self._ids, self._clock.now_ms(), levels=levels, large=True)
        self._admit(state)
        return state, checked

    def _fresh(self, state: TopicState) -> tuple[TopicState, int]:
        """Returns a topic state and its read time, at most FRESH_MS ago if the topic has `max_waiting`."""
        read_at_ms, known = self._states.get(state.topic, (0, state))
        now_ms = self._clock.now_ms()
        if known.settings.max_waiting is not None and now_ms - read_at_ms >= FRESH_MS:
            current = self._connection.topics.state(state.topic)
            if current is not None:
                self._remember_state(current)
                return current, now_ms
        return known, read_at_ms

    def _state(self, topic: str) -> TopicState:
        check_name("topic", topic)
        now_ms = self._clock.now_ms()
        with self._lock:
            known = self._states.get(topic)
        if known is not None and now_ms - known[0] < CACHE_MS:
            return known[1]
        state = self._connection.topics.state(topic)
        if state is None:
            raise UnknownTopic(topic)
        self._remember_state(state)
        return state

    def _forget(self, topic: str) -> None:
        with self._lock:
            self._states.pop(topic, None)
            self._limits.pop(topic, None)
            for known in [each for each in self._subscriptions if each[0] == topic]:
                del self._subscriptions[known]

    def _read_topic_state(self, topic: str) -> TopicState:
        check_name("topic", topic)
        state = self._connection.topics.state(topic)
        if state is None:
            raise UnknownTopic(topic)
        self._remember_state(state)
        return state

    def _remember_state(self, state: TopicState) -> None:
        with self._lock:
            self._states[state.topic] = (self._clock.now_ms(), state)

    def _subscription(self, topic: str, name: str) -> SubscriptionState:
        check_name("topic", topic)
        check_name("subscription", name)
        now_ms = self._clock.now_ms()
        with self._lock:
            known = self._subscriptions.get((topic, name))
        if known is not None and now_ms - known[0] < CACHE_MS:
            return known[1]
        found = self._connection.topics.subscription(topic, name)
        if found is None:
            self._state(topic)
            raise UnknownSubscription(topic, name)
        with self._lock:
            self._subscriptions[topic, name] = (now_ms, found)
        return found
