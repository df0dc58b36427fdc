"""Serves one subscription for a worker, whatever becomes of the connection to AWS.

Three kinds of threads share a `Holding`:

    receiver   receives as many messages as there is room for
    handlers   one for each message at once; or coroutines in the worker's event loop
    keeper     acknowledges, keeps messages invisible, gives back. It ends last, after all is acknowledged

If the process is killed, all messages come again within a visibility time-out.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from math import inf
from typing import TypeVar

from tidewheel import deadline
from tidewheel.aws.tries import AWS_ERRORS, passes
from tidewheel.client.worker.handling import Around, Handling
from tidewheel.client.worker.holding import Held, Holding
from tidewheel.client.worker.inbox import Inbox
from tidewheel.errors import ClaimFailed, QueueUnavailable

T = TypeVar("T")

REFUSED_S = 60
"""How long a worker that has received before tries what AWS refuses: a policy or a queue may be made anew just now."""
LAST_CALL_S = 6
"""How long the keeper's last round may take. A round before has as long for each of its three calls."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 20.0
_EMPTY_S = 0.1
"""The least time from an empty receive to the next, for `wait_s=0` and for emulators that do not wait."""
_LOOK_S = 0.2
_USUAL_VISIBILITY_S = 30
"""SQS's default, if AWS does not tell the queue's."""

_log = logging.getLogger(__name__)


class _Stopped(Exception):
    """The worker stopped before a message was claimed."""


class Station:
    """Serves one subscription.

    Args:
        handling: the function and its rules.
        inbox: the subscription's queue.
        arounds: generator functions that run around the function.
        wait_s: how long a poll waits, 0 to 20 seconds.
        loop: runs coroutine functions.
        told: called after `error` or `refused` has changed.

    Attributes:
        error: ends the worker.
        refused: the refusal of AWS, at the start or for REFUSED_S. None again once AWS accepts it.
    """

    def __init__(
        self,
        handling: Handling,
        inbox: Inbox,
        arounds: Sequence[Around],
        *,
        wait_s: int,
        loop: asyncio.AbstractEventLoop | None,
        told: Callable[[], None],
    ) -> None:
        self.error: BaseException | None = None
        self.refused: QueueUnavailable | None = None
        self._handling, self._inbox, self._arounds = handling, inbox, arounds
        self._wait_s, self._told, self._name = wait_s, told, handling.address
        self._loop = loop if handling.is_async else None
        hidden_s, _ = inbox.rule
        usual_s = _USUAL_VISIBILITY_S if hidden_s is None else hidden_s
        self._holding = Holding(handling.at_once, usual_s, handling.timeout_s)
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._work = threading.Condition(self._lock)
        self._stop, self._soon = threading.Event(), threading.Event()
        self._late = False
        self._gives_back: list[Held] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost = False
        self._keeps_at_s = 0.0
        # Whether it is a claim -> when AWS began to refuse it. inf: AWS accepts it. -inf: AWS has not accepted it yet.
        self._refused_s = dict.fromkeys((False, True), -inf)
        self._receiver, self._keeper = self._thread(self._receive), self._thread(self._keep)
        handlers = 0 if handling.is_async else handling.at_once
        self._threads = [self._receiver, self._keeper, *(self._thread(self._handle) for _ in range(handlers))]

    def _thread(self, target: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=target, name=f"tidewheel {self._name}", daemon=True)

    def start(self) -> None:
        """Begins to receive."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Begins nothing more. The buffer goes back at once, the poll and running messages are finished."""
        self._stop.set()
        with self._lock:
            self._room.notify_all()
            self._work.notify_all()
        self._soon.set()

    def wait(self, end_s: float) -> None:
        """Waits for running messages until a time of the monotonic clock, then lets go of them."""
        while self._keeper.is_alive() and (left_s := end_s - time.monotonic()) > 0:
            self._keeper.join(min(_LOOK_S, left_s))
        if self._keeper.is_alive() and self._unfinished:
            with self._lock:
                left, self._late = self._holding.running, True
            if left:
                _log.warning("%s: no time is left for %d messages in hand; they come again", self._name, left)
            if self._loop is not None:
                self._loop.call_soon_threadsafe(lambda: [each.cancel() for each in self._tasks])

    def join(self, end_s: float) -> None:
        """Waits for the last acknowledgements until a time of the monotonic clock."""
        self._keeper.join(max(0.0, end_s - time.monotonic()))

    @property
    def _unfinished(self) -> bool:
        return self._receiver.is_alive() or self._holding.running > 0

    # ---- the receiver
    def _receive(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set():
            with self._lock:
                if not (most := self._holding.room()):
                    self._room.wait(1)
                    continue
            begun_s = time.monotonic()
            try:
                messages = self._inbox.take(most, self._wait_s)
                self._reached(claims=False)
            except Exception as error:  # whatever it is: without a receiver, the worker would sleep for ever
                pause_s = self._failed(error, pause_s)
                continue
            pause_s = _FIRST_PAUSE_S
            with self._lock:
                self._holding.take(messages, time.monotonic())
                self._work.notify(len(messages))
            if messages and self._loop is not None and not self._stop.is_set():
                self._loop.call_soon_threadsafe(self._begin_tasks)
            elif not messages:
                self._stop.wait(max(0.0, begun_s + _EMPTY_S - time.monotonic()))
        self._soon.set()

    # ---- the handlers
    def _handle(self) -> None:
        while (held := self._next()) is not None:
            try:
                if self._claimed(held):
                    self._handling.work(self._inbox, held.message, self._arounds)
            except BaseException as error:
                self._end(held, error)
            else:
                self._end(held)

    def _next(self) -> Held | None:
        with self._lock:
            while not self._stop.is_set():
                if (held := self._holding.begin(time.monotonic())) is not None:
                    return held
                self._work.wait()
        return None

    def _begin_tasks(self) -> None:
        """Begins as many coroutines as may run. Is called in the event loop."""
        assert self._loop is not None
        while not self._stop.is_set():
            with self._lock:
                held = self._holding.begin(time.monotonic())
            if held is None:
                return
            task = self._loop.create_task(self._handle_async(held))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _handle_async(self, held: Held) -> None:
        try:
            asks = self._inbox.asks(held.message)
            if await self._blocking(lambda: self._claimed(held)) if asks else self._claimed(held):
                await self._handling.work_async(self._inbox, held.message, self._arounds, self._blocking)
        except BaseException as error:
            self._end(held, error)
        else:
            self._end(held)
        self._begin_tasks()

    async def _blocking(self, call: Callable[[], T]) -> T:
        """Calls a function that waits for AWS in a thread, which does not hold up the end of the program."""
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()

        def run() -> None:
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name=f"tidewheel {self._name}", daemon=True).start()
        return await asyncio.wrap_future(done)

    def _claimed(self, held: Held) -> bool:
        """Returns whether to handle a message. False: it is dropped. Waits while AWS gives no answer.

        Raises:
            _Stopped: the message goes back.
        """
        pause_s = _FIRST_PAUSE_S
        try:
            while True:
                try:
                    dropped = self._inbox.drops(held.message)
                except (*AWS_ERRORS, ClaimFailed) as error:
                    self._holding.waits.add(held)
                    pause_s = self._failed(error, pause_s)
                    if self._stop.is_set():
                        raise _Stopped from None
                else:
                    if held.message.claim is not None:
                        self._reached(claims=True)
                    return not dropped
        finally:
            self._holding.waits.discard(held)

    def _end(self, held: Held, error: BaseException | None = None) -> None:
        """Takes a message out of a handler's hand. It is acknowledged, or comes again after an error."""
        back = isinstance(error, (_Stopped, asyncio.CancelledError))
        with self._lock:
            self._holding.end(held, time.monotonic(), done=error is None)
            if back:
                self._gives_back.append(held)
            self._room.notify()
            soon = back or self._holding.acknowledges or self._stop.is_set()
        if soon:
            self._soon.set()
        if error is not None and (back or isinstance(error, Exception)):
            told = back or isinstance(error, QueueUnavailable) or passes(error)
            level, when = (logging.INFO, "at once") if back else (logging.ERROR, "after its visibility time-out")
            text = "message %s was not handled; it comes again %s: %r"
            _log.log(level, text, held.message.id, when, error, exc_info=None if told else error)
        elif error is not None:  # such as SystemExit
            self.error = error
            self._stop.set()
            self._told()

    # ---- the keeper
    def _keep(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            self._soon.wait(_LOOK_S)
            self._soon.clear()
            last = self._stop.is_set() and (self._late or not self._unfinished)
            canceled = not self._tasks
            if last or time.monotonic() >= self._keeps_at_s:
                try:
                    with deadline.within(LAST_CALL_S if last else 3 * LAST_CALL_S):
                        self._round(last)
                    pause_s = _FIRST_PAUSE_S
                except Exception as error:
                    if last:
                        _log.warning("%s: messages come again after their visibility time-out: %s", self._name, error)
                    self._note(error)
                    self._keeps_at_s, pause_s = time.monotonic() + pause_s, min(_MAX_PAUSE_S, 2 * pause_s)
            if last and canceled:
                return

    def _round(self, last: bool) -> None:
        """Acknowledges, gives back and extends messages in time. A refusal of one call is no obstacle to the others."""
        try:
            while self._acknowledge(last) and last:
                pass
        finally:
            self._keep_hidden(last)

    def _keep_hidden(self, last: bool) -> None:
        now_s = time.monotonic()
        with self._lock:
            back = self._holding.unbegun(now_s, everything=self._stop.is_set()) + self._gives_back
            self._gives_back = []
            outlasting, fading = self._holding.outlasting(now_s), self._holding.fading(now_s)
        for each in outlasting:
            text = "message %s of %s has run for over %g s, its timeout: it comes again beside this run"
            _log.error(text, each.message.id, self._name, self._handling.timeout_s)
        if back:
            self._inbox.hide([each.message for each in back], 0)
        if fading and not last:
            self._extend(fading)

    def _extend(self, fading: list[Held]) -> None:
        now_s, hidden_s = time.monotonic(), self._holding.hidden_s
        refused = self._inbox.hide([each.message for each in fading], int(hidden_s))
        for each in fading:
            each.visible_s = now_s + hidden_s
            if each.message.receipt_handle in refused:  # it was late, and another may have it: nothing more to keep
                each.visible_s = inf
                _log.warning("message %s of %s was not kept in time; it may come again", each.message.id, self._name)

    def _acknowledge(self, everything: bool) -> bool:
        """Acknowledges up to ten messages. Returns whether there was one."""
        with self._lock:
            batch = self._holding.handled(time.monotonic(), everything=everything)
        if batch:
            try:
                self._inbox.acknowledge([each.message for each in batch])
            except BaseException:
                with self._lock:
                    self._holding.unacknowledged(batch)
                raise
            with self._lock:
                self._room.notify()
                if self._holding.acknowledges:
                    self._soon.set()
        return bool(batch)

    # ---- the connection
    def _reached(self, *, claims: bool) -> None:
        if self._lost or self._refused_s[claims] != inf:
            with self._lock:
                if self._lost:
                    _log.warning("%s: connected again", self._name)
                    self._keeps_at_s = 0.0
                self._lost, self._refused_s[claims], self.refused = False, inf, None

    def _failed(self, error: Exception, pause_s: float) -> float:
        """Notes that a request failed, and pauses. Returns the next pause."""
        self._note(error)
        self._stop.wait(random.uniform(0.5, 1) * pause_s)
        return min(_MAX_PAUSE_S, 2 * pause_s)

    def _note(self, error: Exception) -> None:
        claims = isinstance(error, ClaimFailed)  # a poll says nothing about claims
        refused = error.refused if isinstance(error, ClaimFailed) else not passes(error)
        with self._lock:
            if not self._lost:
                _log.warning("%s: connection lost, trying until it is back: %s", self._name, error)
            self._lost = True
            if refused:
                now_s = time.monotonic()
                self._refused_s[claims] = min(self._refused_s[claims], now_s)
                if now_s - self._refused_s[claims] >= REFUSED_S and self.refused is None:
                    self.refused = QueueUnavailable(self._name, str(error), "gives no messages")
                    _log.error("%s", self.refused)
        if self.refused is not None:
            self._told()
