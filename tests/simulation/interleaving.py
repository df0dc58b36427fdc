"""Runs several functions one step at a time. The caller chooses the next function, which makes every run repeatable.

Each function runs in a greenlet of its own: a stack, but no thread, so nothing but the scheduler decides who moves. It
gives the turn back whenever it calls `pause`, and when it ends.
"""

from __future__ import annotations

from collections.abc import Callable

from greenlet import getcurrent, greenlet

from tidewheel.model.checked_clock import CheckedClock


class Died(BaseException):
    """The function was killed. Nothing after this has an effect."""


_at_work: list[Task] = []


def at_work() -> Task | None:
    """Returns the function that runs now, or None where the scheduler does."""
    return _at_work[-1] if _at_work else None


class Task:
    """A function under way.

    It is stepped by one scheduler, from the greenlet that made it.

    Attributes:
        name: what it is, for the trace.
        started_ms: when it began.
        error: what it ended with; None while it runs, or if it ended well.
        over: whether it has ended.
        dead: whether it was killed.
        sent: what queues took from it: (queue, message id).
        troubled: whether AWS refused to keep what it has done.
        clock: its clock, if AWS's answers check it.
        calls: of ports that it has made.
        ready_ms: when its present call is answered.
        side_by_side: whether it makes several calls at once.
    """

    def __init__(self, name: str, call: Callable[[Task], None], started_ms: int) -> None:
        self.name = name
        self.started_ms = started_ms
        self.error: BaseException | None = None
        self.over = False
        self.dead = False
        self.sent: list[tuple[str, str]] = []
        self.troubled = False
        self.clock: CheckedClock | None = None
        self.calls: list[str] = []
        self.ready_ms = 0
        self.side_by_side = False
        self._call = call
        self._greenlet = greenlet(self._run)

    def step(self) -> None:
        """Runs the function until it pauses or ends."""
        if not self.over:
            _at_work.append(self)
            try:
                self._greenlet.switch()
            finally:
                _at_work.pop()

    def kill(self) -> None:
        """Ends the function at once and without notice, as Lambda does after a timeout."""
        self.dead = True
        if not self._greenlet:  # it has not begun
            self.over = True
        while not self.over:
            self.step()

    def pause(self) -> None:
        """Lets other functions run. The function itself calls this.

        Raises:
            Died: it was killed meanwhile.
        """
        if not self.dead:
            parent = getcurrent().parent
            assert parent is not None
            parent.switch()
        if self.dead:
            raise Died

    def takes(self, duration_ms: int, now_ms: Callable[[], int]) -> None:
        """Lets other functions run until some time has passed. The function itself calls this.

        Raises:
            Died: it was killed meanwhile.
        """
        self.ready_ms = now_ms() + duration_ms
        self.pause()

    def _run(self) -> None:
        try:
            self._call(self)
        except KeyboardInterrupt:  # of whoever waits for the scheduler, which it reaches
            self.over = True
            raise
        except BaseException as error:  # the scheduler decides what it means
            self.error = error
        self.over = True
