"""Runs the pump in real time, on a separate thread."""

from __future__ import annotations

import time
from threading import Condition, Thread

from tidewheel.clock import MovedClock
from tidewheel.local.pump import Pump

_LONGEST_SLEEP_S = 60.0
_PATIENCE_S = 10.0


class BackgroundPump:
    """Sleeps until the next event is due or something changes, handles the event, and repeats until stopped.

    While time is skipped, it does not sleep: it moves the clock from event to event. Senders may bring events faster
    than it handles them. So it waits for no time longer than for _PATIENCE_S, and at each following time for half as
    long. Then the clock moves on, and the events are late.
    """

    def __init__(self, pump: Pump, changed: Condition, clock: MovedClock) -> None:
        self._pump, self._changed, self._clock = pump, changed, clock
        self._stopping = False
        self._skip_to_ms = 0
        self._done_to_ms = 0
        self._patience_s = _PATIENCE_S
        self._moved_s = 0.0
        self._broken: BaseException | None = None
        self._thread = Thread(target=self._run, name="tidewheel-pump", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stops after the current invocation, if any."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def skip(self, duration_ms: int) -> None:
        """Moves time forward, with all events due on the way. Skips at the same time are added.

        Raises:
            RuntimeError: the pump failed; the pump's own error is the cause.
        """
        with self._changed:
            self._patience_s, self._moved_s = _PATIENCE_S, time.monotonic()
            until_ms = self._skip_to_ms = max(self._skip_to_ms, self._clock.now_ms()) + duration_ms
            self._changed.notify_all()
        self.wait_until(until_ms)

    def wait_until(self, until_ms: int) -> None:
        """Waits until a time has come and all work due by then is done.

        Raises:
            RuntimeError: the stack was closed meanwhile, or the pump failed; the pump's own error is the cause.
        """
        with self._changed:
            while not self._stopping:
                self.check()
                left_ms = until_ms - self._clock.now_ms()
                if left_ms <= 0 and self._done_to_ms >= until_ms:
                    return
                if left_ms <= 0:
                    self._changed.notify_all()  # wakes the pump, which must see this time too
                self._changed.wait(max(0.001, left_ms / 1000) if left_ms > 0 else 0.05)
        raise RuntimeError("the local stack was closed before this time had come")

    def check(self) -> None:
        """Raises RuntimeError if the pump failed; the pump's own error is the cause."""
        if self._broken is not None:
            raise RuntimeError("the local runtime itself failed") from self._broken

    def _run(self) -> None:
        try:
            self._pump_until_stopped()
        except BaseException as error:  # the pump records handlers' errors: this error is the pump's own
            with self._changed:
                self._broken = error
                self._changed.notify_all()

    def _move_to(self, at_ms: int) -> None:
        self._clock.set_ms(at_ms)
        self._moved_s = time.monotonic()

    def _pump_until_stopped(self) -> None:
        while not self._stopping:
            now_ms = self._clock.now_ms()
            until_ms = max(now_ms, self._skip_to_ms)
            if until_ms > now_ms and time.monotonic() - self._moved_s > self._patience_s:
                self._move_to(min(until_ms, self._pump.next_ms(now_ms) or until_ms))
                self._patience_s /= 2
            handled_ms = self._pump.run_next(until_ms, self._move_to)
            if handled_ms is not None:
                self._done_to_ms = max(self._done_to_ms, handled_ms - 1)
                continue
            with self._changed:
                self._clock.set_ms(until_ms)
                self._pump.commit()
                self._done_to_ms = until_ms
                self._changed.notify_all()
                next_ms = self._pump.next_ms()
                left_s = _LONGEST_SLEEP_S if next_ms is None else (next_ms - self._clock.now_ms()) / 1000
                skips = self._skip_to_ms > self._clock.now_ms()
                if left_s > 0 and not skips and not self._stopping:
                    self._changed.wait(min(left_s, _LONGEST_SLEEP_S))
