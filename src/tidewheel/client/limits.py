"""Enforces a topic's limits on waiting messages and on the send rate, in each client.

`max_waiting` limits the sum of two counts: the messages in ledgers, from a topic state read at most FRESH_MS ago, and
the messages that this client has sent since then. The limit can be exceeded by the messages that other clients send and
the messages that are still in an ingest queue. `max_send_rate` applies to each client alone: a token bucket that holds
the messages of BURST_S seconds.
"""

from __future__ import annotations

import threading

from tidewheel.errors import LimitExceeded
from tidewheel.model.topic_state import TopicState

FRESH_MS = 5_000
BURST_S = 10


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
