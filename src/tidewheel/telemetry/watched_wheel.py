"""Counts the schedules that the scheduler refused."""

from __future__ import annotations

from collections.abc import Callable

from tidewheel.flows.ports.wheel import Wheel


class WatchedWheel:
    """Forwards to a port `Wheel`, and tells the refusals, which the flows survive in silence.

    Args:
        wheel: the port.
        refused: told the topic, the slot and the error of each refusal.
    """

    def __init__(self, wheel: Wheel, refused: Callable[[str, int, Exception], None]) -> None:
        self._wheel = wheel
        self._refused = refused

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
