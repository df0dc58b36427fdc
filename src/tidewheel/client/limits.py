"""A topic's limits, as far as a sender can keep them: messages that wait, and messages a second.

`max_waiting` is compared with the topic state's count of messages in ledgers, read at most FRESH_MS ago, and what this
client has sent since then. Several clients, and messages that are still in an ingest queue, can overshoot it by that
much. `max_send_rate` is each client's own: a token bucket that holds BURST_S seconds' worth.
"""

from __future__ import annotations

import threading

from tidewheel.errors import LimitExceeded
from tidewheel.model.topic_state import TopicState

FRESH_MS = 5_000
BURST_S = 10


class Limits:
    """What one client has sent to one topic; several threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted_at_ms = -1
        self._since = 0
        self._tokens: float | None = None
        self._filled_at_ms = 0

    def take(self, state: TopicState, read_at_ms: int, now_ms: int) -> None:
        """Counts one message.

        Args:
            state: as read at `read_at_ms`.

        Raises:
            LimitExceeded: it is one too many; it was not counted.
        """
        settings = state.settings
        if settings.max_waiting is None and settings.max_send_rate is None:
            return
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
