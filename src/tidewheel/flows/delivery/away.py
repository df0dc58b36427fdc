"""Notes since when a topic is away, because a rebuild has deleted its state for a while."""

from __future__ import annotations

from tidewheel.flows.ports import Ports
from tidewheel.model.triggers import UNKNOWN_WAIT_S

_NAME = "away"


def away_since_s(ports: Ports, topic: str) -> int:
    """Returns when the last rebuild of a topic began, in seconds of Unix time, or 0."""
    note = ports.notes.read(topic, _NAME)
    return 0 if note is None else note.number


def note_away(ports: Ports, topic: str) -> None:
    """Notes that a rebuild of a topic begins. The note outlives the wait for the topic."""
    now_s = ports.clock.now_ms() // 1000
    ports.notes.put(topic, _NAME, now_s, now_s + 2 * UNKNOWN_WAIT_S)
