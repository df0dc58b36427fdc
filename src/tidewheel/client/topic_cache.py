"""Caches a client's topic states and subscriptions, and applies the topics' limits on waiting messages and send rate.

`max_waiting` limits the sum of two counts: the messages in ledgers, from a topic state read at most FRESH_MS ago, and
the messages that this client has sent since then. The limit can be exceeded by the messages that other clients send and
the messages that are still in an ingest queue. `max_send_rate` applies to each client alone: a token bucket that holds
the messages of BURST_S seconds.
"""

from __future__ import annotations

import logging
import threading

from tidewheel.aws.tries import passes
from tidewheel.client.connection import Connection
from tidewheel.clock import Clock
from tidewheel.errors import InvalidValue, LimitExceeded, UnknownSubscription, UnknownTopic
from tidewheel.model.message import Message
from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.model.topic import check_name
from tidewheel.model.topic_state import TopicState

CACHE_MS = 60_000
"""How long a topic state and a subscription are cached."""
FRESH_MS = 5_000
BURST_S = 10

_log = logging.getLogger(__name__)


class TopicCache:
    """The topics that a client knows. Several threads may use the same cache."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection, self._clock = connection, clock
        self._lock = threading.Lock()
        self._warned: set[str] = set()  # topics about whose plain readers the client was warned
        self._limits: dict[str, Limits] = {}
        self._states: dict[str, tuple[int, TopicState]] = {}
        self._subscriptions: dict[tuple[str, str], tuple[int, SubscriptionState]] = {}

    def state(self, topic: str) -> TopicState:
        """Returns a topic state, read at most CACHE_MS ago.

        Raises:
            InvalidValue: the name is not valid.
            UnknownTopic: the topic does not exist.
        """
        check_name("topic", topic)
        with self._lock:
            known = self._states.get(topic)
        if known is not None and self._clock.now_ms() - known[0] < CACHE_MS:
            return known[1]
        return self.read(topic)

    def read(self, topic: str) -> TopicState:
        """Reads a topic state.

        Raises:
            InvalidValue: the name is not valid.
            UnknownTopic: the topic does not exist.
        """
        check_name("topic", topic)
        state = self._connection.storage.topic_states.read(topic)
        if state is None:
            raise UnknownTopic(topic)
        self.remember(state)
        return state

    def remember(self, state: TopicState) -> None:
        """Keeps a topic state that was read or written just now."""
        with self._lock:
            self._states[state.topic] = (self._clock.now_ms(), state)

    def forget(self, topic: str) -> None:
        """Drops a topic with its subscriptions and counts."""
        with self._lock:
            self._states.pop(topic, None)
            self._limits.pop(topic, None)
            for known in [each for each in self._subscriptions if each[0] == topic]:
                del self._subscriptions[known]

    def subscription(self, topic: str, name: str) -> SubscriptionState:
        """Returns a subscription's state, read at most CACHE_MS ago, or before if the table cannot be reached.

        Raises:
            InvalidValue: a name is not valid.
            UnknownTopic, UnknownSubscription: it does not exist.
        """
        check_name("topic", topic)
        check_name("subscription", name)
        now_ms = self._clock.now_ms()
        with self._lock:
            known = self._subscriptions.get((topic, name))
        if known is not None and now_ms - known[0] < CACHE_MS:
            return known[1]
        try:
            found = self._connection.storage.subscriptions.read(topic, name)
        except Exception as error:
            if known is None or not passes(error):
                raise
            found = known[1]
        if found is None:
            self.state(topic)
            raise UnknownSubscription(topic, name)
        with self._lock:
            self._subscriptions[topic, name] = (now_ms, found)
        return found

    def forget_subscription(self, topic: str, name: str) -> None:
        """Drops a subscription."""
        with self._lock:
            self._subscriptions.pop((topic, name), None)

    def check_replaceable(self, state: TopicState, message: Message, due_ms: int) -> None:
        """Refuses a message that newer messages of its key are to put off, but could not replace in time.

        If plain readers are the reason, warns instead. A message with `deliver_at` and without `max_wait` passes: it
        may bring forward what waits for longer.

        Args:
            state: the topic state.
            message: the message.
            due_ms: when the message is due.

        Raises:
            InvalidValue: the topic has claims="none", and the message is due too soon.
        """
        if message.max_wait is None and not (message.replace and message.deliver_at is None):
            return
        settings, plain, now_ms = state.settings, state.plain_readers, self._clock.now_ms()
        least_s = settings.slot_s + settings.lookahead_s
        if not now_ms < due_ms < now_ms + least_s * 1000:
            return
        until = f"until {settings.lookahead_s} to {least_s} s before it is due"
        if settings.claims == "none":
            how = f"give at least {least_s} s: with claims='none', a newer message replaces it only {until}"
            name = next((each for each in ("deliver_at", "delay_level") if getattr(message, each) is not None), "delay")
            raise InvalidValue(name, getattr(message, name), how)
        if plain and state.topic not in self._warned:
            self._warned.add(state.topic)
            _log.warning(
                "topic %s: plain readers (%s) get a message that is replaced later than %s. "
                "Give a delay of at least %d s, or read with consumers of the SDK",
                *(state.topic, ", ".join(plain), until.removeprefix("until "), least_s),
            )

    def admit(self, state: TopicState) -> None:
        """Counts a message against the topic's limits.

        `max_waiting` is compared with a count that was read at most FRESH_MS ago.

        Raises:
            LimitExceeded: a limit is reached; the message was not counted.
        """
        now_ms = self._clock.now_ms()
        read_at_ms, known = self._states.get(state.topic, (0, state))
        if known.settings.max_waiting is None and known.settings.max_send_rate is None:
            return
        if known.settings.max_waiting is not None and now_ms - read_at_ms >= FRESH_MS:
            current = self._connection.storage.topic_states.read(state.topic)
            if current is not None:
                self.remember(current)
                read_at_ms, known = now_ms, current
        with self._lock:
            limits = self._limits.setdefault(state.topic, Limits())
        limits.take(known, read_at_ms, now_ms)


class Limits:
    """Counts the messages from a client to a topic. Several threads may use the same object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted_at_ms = -1
        self._since = 0
        self._tokens: float | None = None
        self._filled_at_ms = 0

    def take(self, state: TopicState, read_at_ms: int, now_ms: int) -> None:
        """Counts a message.

        Args:
            state: the topic state, read at `read_at_ms`.

        Raises:
            LimitExceeded: a limit is reached; the message was not counted.
        """
        settings = state.settings
        with self._lock:
            if read_at_ms != self._counted_at_ms:
                self._counted_at_ms, self._since = read_at_ms, 0
            waiting = state.waiting + self._since
            if settings.max_waiting is not None and waiting >= settings.max_waiting:
                how = "send less, or raise it with update_topic(max_waiting=...)"
                raise LimitExceeded(state.topic, "max_waiting", settings.max_waiting, f"{waiting} wait", how)
            if settings.max_send_rate is not None:
                self._take_token(state.topic, settings.max_send_rate, now_ms)
            self._since += 1

    def _take_token(self, topic: str, rate: int, now_ms: int) -> None:
        most = float(rate * BURST_S)
        if self._tokens is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + (now_ms - self._filled_at_ms) * rate / 1000)
        self._filled_at_ms = now_ms
        if self._tokens < 1:
            wait_s = (1 - self._tokens) / rate
            how = f"try again in {wait_s:.2f} s, or raise it with update_topic(max_send_rate=...)"
            raise LimitExceeded(topic, "max_send_rate", rate, f"sent over {rate * BURST_S} at once", how)
        self._tokens -= 1
