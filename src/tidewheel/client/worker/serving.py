"""Serves one subscription for a worker, whatever becomes of the connection to AWS.

Three kinds of threads share a `Holding`:

    receiver   receives as many messages as there is room for
    handlers   one for each message at once; or coroutines in the worker's event loop
    keeper     acknowledges, keeps messages invisible, gives back. The keeper ends last, after all is acknowledged

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
from functools import partial
from math import inf
from typing import TypeVar

from tidewheel import deadline
from tidewheel.aws.tries import AWS_ERRORS, passes
from tidewheel.client.worker.handling import Around, Handling, at_once, run_now
from tidewheel.client.worker.holding import Held, Holding
from tidewheel.client.worker.inbox import Inbox
from tidewheel.errors import ClaimFailed, QueueUnavailable

T = TypeVar("T")

REFUSED_S = 60
"""How long a worker that has received before tries what AWS refuses: a policy or a queue may be made anew just now."""
LAST_CALL_S = 6
"""How long the keeper's last round may take. A round before has as long for each of its three calls."""
_LAST_POLL_S = 1.5
"""How long a poll, which waits a second at least, may outlive the keeper."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 20.0
_EMPTY_S = 0.1
"""The least time from an empty receive to the next, for `wait_s=0` and for emulators that do not wait."""
_LOOK_S = 0.2
_USUAL_VISIBILITY_S = 30
"""SQS's default, if AWS does not tell the queue's."""

_POLLS, _CLAIMS, _DELETES, _VISIBILITY = "polls", "claims", "acknowledgements", "changes of visibility"
"""Kinds of requests: AWS may refuse one while it accepts all others."""

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
        self._late = self._waking = False
        self._idle = 0  # handlers without work
        self._gives_back: list[Held] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost = set[str]()  # kinds of requests that fail now
        self._keeps_at_s = 0.0
        # When AWS began to refuse them. inf: AWS accepts them. -inf: AWS has not accepted one yet.
        self._refused_s = {_POLLS: -inf, _CLAIMS: -inf}
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
        """Waits for the last acknowledgements and the last poll until a time of the monotonic clock."""
        for each, most_s in ((self._keeper, LAST_CALL_S), (self._receiver, _LAST_POLL_S)):
            each.join(min(most_s, max(0.0, end_s - time.monotonic())))

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
                self._reached(_POLLS)
                if messages and self._stop.is_set():  # perhaps what the keeper gave back, before it ended
                    self._inbox.hide(messages, 0)
                    break
            except Exception as error:  # whatever it is: without a receiver, the worker would sleep for ever
                pause_s = self._failed(error, _POLLS, pause_s)
                continue
            pause_s = _FIRST_PAUSE_S
            with self._lock:
                self._holding.take(messages, time.monotonic())
                self._wake()
            if messages and self._loop is not None and not self._stop.is_set():
                self._loop.call_soon_threadsafe(self._begin_tasks)
            elif not messages:
                self._stop.wait(max(0.0, begun_s + _EMPTY_S - time.monotonic()))
        self._soon.set()

    # ---- the handlers
    def _handle(self) -> None:
        while (held := self._next()) is not None:
            run_now(self._run(held))

    async def _run(self, held: Held) -> None:
        try:
            asking = self._blocking if self._inbox.asks(held.message) else at_once
            if await asking(partial(self._claimed, held)):
                await self._handling.work(self._inbox, held.message, self._arounds, self._blocking)
        except BaseException as error:
            self._end(held, error)
        else:
            self._end(held)
        if self._loop is not None:
            self._begin_tasks()

    def _next(self) -> Held | None:
        with self._lock:
            while not self._stop.is_set():
                if (held := self._holding.begin(time.monotonic())) is not None:
                    self._wake()
                    return held
                self._idle += 1
                self._work.wait()
                self._idle, self._waking = self._idle - 1, False
        return None

    def _wake(self) -> None:
        """Wakes one more handler, if there is work. Quick messages wake few: a handler that is awake takes the next."""
        if self._holding.buffered and self._idle and not self._waking:
            self._waking = True
            self._work.notify()

    def _begin_tasks(self) -> None:
        """Begins as many coroutines as may run. Is called in the event loop."""
        assert self._loop is not None
        while not self._stop.is_set():
            with self._lock:
                held = self._holding.begin(time.monotonic())
            if held is None:
                return
            task = self._loop.create_task(self._run(held))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _blocking(self, call: Callable[[], T]) -> T:
        """Calls a function that waits for AWS: for a coroutine in a thread, which holds up neither loop nor program."""
        if self._loop is None:
            return call()
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
                    pause_s = self._failed(error, _CLAIMS, pause_s)
                    if self._stop.is_set():
                        raise _Stopped from None
                else:
                    if held.message.claim is not None:
                        self._reached(_CLAIMS)
                    return not dropped
        finally:
            self._holding.waits.discard(held)

    def _end(self, held: Held, error: BaseException | None = None) -> None:
        """Takes a message out of a handler's hand. The message is acknowledged, or comes again after an error."""
        back = isinstance(error, (_Stopped, asyncio.CancelledError))
        with self._lock:
            self._holding.end(held, time.monotonic(), done=error is None)
            if back:
                self._gives_back.append(held)
            if self._holding.room():
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
            _log.error("message %s ended the worker of %s, whose stop() raises %r", held.message.id, self._name, error)
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
                pause_s = self._round(last, pause_s)
            if last and canceled:
                return

    def _round(self, last: bool, pause_s: float) -> float:
        """Acknowledges, gives back and extends messages in time. Returns the next pause after a failure.

        A refusal of one kind of request is no obstacle to the other.
        """
        next_s = _FIRST_PAUSE_S
        with deadline.within(LAST_CALL_S if last else 3 * LAST_CALL_S):
            for kind, call in ((_DELETES, self._acknowledge), (_VISIBILITY, self._keep_hidden)):
                try:
                    if call(last):
                        self._reached(kind)
                except Exception as error:
                    if last:
                        _log.warning("%s: messages come again after their visibility time-out: %s", self._name, error)
                    self._note(error, kind)
                    self._keeps_at_s, next_s = time.monotonic() + pause_s, min(_MAX_PAUSE_S, 2 * pause_s)
        return next_s

    def _keep_hidden(self, last: bool) -> bool:
        """Gives back and extends messages. Returns whether there were any."""
        now_s = time.monotonic()
        with self._lock:
            back = self._holding.unbegun(now_s, everything=self._stop.is_set()) + self._gives_back
            self._gives_back = []
            outlasting, fading = self._holding.outlasting(now_s), [] if last else self._holding.fading(now_s)
        for each in outlasting:
            text = "message %s of %s has run for over %g s, its timeout: it comes again beside this run"
            _log.error(text, each.message.id, self._name, self._handling.timeout_s)
        if back:
            self._inbox.hide([each.message for each in back], 0)
        if fading:
            self._extend(fading)
        return bool(back or fading)

    def _extend(self, fading: list[Held]) -> None:
        now_s, hidden_s = time.monotonic(), self._holding.hidden_s
        refused = self._inbox.hide([each.message for each in fading], int(hidden_s))
        for each in fading:
            each.visible_s = now_s + hidden_s
            if each.message.receipt_handle in refused:  # it was late, and another may have it: nothing more to keep
                each.visible_s = inf
                _log.warning("message %s of %s was not kept in time; it may come again", each.message.id, self._name)

    def _acknowledge(self, everything: bool) -> bool:
        """Acknowledges up to ten messages, or everything. Returns whether there were any."""
        some = False
        while True:
            with self._lock:
                batch = self._holding.handled(time.monotonic(), everything=everything)
            if not batch:
                return some
            try:
                self._inbox.acknowledge([each.message for each in batch])
            except BaseException:
                with self._lock:
                    self._holding.unacknowledged(batch)
                raise
            some = True
            with self._lock:
                self._room.notify()

    # ---- the connection
    def _reached(self, kind: str) -> None:
        if kind in self._lost or self._refused_s.get(kind, inf) != inf:
            with self._lock:
                if kind in self._lost:
                    _log.warning("%s: %s work again", self._name, kind)
                    self._keeps_at_s = 0.0
                self._lost.discard(kind)
                if kind in self._refused_s:
                    self._refused_s[kind], self.refused = inf, None

    def _failed(self, error: Exception, kind: str, pause_s: float) -> float:
        """Notes that a request failed, and pauses. Returns the next pause."""
        self._note(error, kind)
        self._stop.wait(random.uniform(0.5, 1) * pause_s)
        return min(_MAX_PAUSE_S, 2 * pause_s)

    def _note(self, error: Exception, kind: str) -> None:
        refused = error.refused if isinstance(error, ClaimFailed) else not passes(error)
        with self._lock:
            if kind not in self._lost:
                _log.warning("%s: %s fail, trying until they work: %s", self._name, kind, error)
            self._lost.add(kind)
            if refused and kind in self._refused_s:
                now_s = time.monotonic()
                self._refused_s[kind] = min(self._refused_s[kind], now_s)
                if now_s - self._refused_s[kind] >= REFUSED_S and self.refused is None:
                    self.refused = QueueUnavailable(self._name, str(error), "gives no messages")
                    _log.error("%s", self.refused)
        if self.refused is not None:
            self._told()
