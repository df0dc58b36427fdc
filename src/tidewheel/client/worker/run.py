"""Receives and handles messages until told to stop, whatever becomes of the connection to AWS.

    received --> buffer --> in hand --function--> gathered --DeleteMessageBatch--> gone
                   |           +-- failed: comes again after its visibility time-out
                   +-- told to stop, or waited too long: visible again at once

Each thread of a run is a `Worker`. A worker without a message receives for all of them. A receive asks for

- a message for each free worker, and more, up to ten, if all of them can begin within BUFFERED_S, by the slowest of the
  last calls
- but no more than the run has begun before, beside those for the free workers

So few messages come back unbegun from a run that ended. Messages with more receives begin first.

Acknowledgements gather until there are ten, for GATHERED_S, until no message is in hand or in the buffer, or until a
visibility time-out could end. One more thread, of `Run`, sends them, and gives back messages that wait too long in the
buffer.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from tidewheel import deadline
from tidewheel.aws.tries import AWS_ERRORS, passes
from tidewheel.client import receiving
from tidewheel.client.worker.interrupts import Interrupts
from tidewheel.errors import ClaimFailed, InvalidValue, QueueUnavailable
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.untrusted import check_whole

REFUSED_S = 60
"""How long a worker that has received before tries what AWS refuses: a policy or a queue may be made anew just now."""
LAST_CALL_S = 6
"""How long `tend` may take, also when the run ends: one try that hangs, or several refused tries."""
BUFFERED_S = 5.0
"""How long a received message may wait for a worker."""
GATHERED_S = 1.0
"""How long a handled message may wait for others to be acknowledged with."""
_HELD_S = 60
"""The least time for which a message that waits for its claim stays invisible. A longer visibility time-out wins."""
_SPARE_S = 2.0
"""How long before the end of its visibility time-out a message is acknowledged at the latest."""
_FORGOTTEN = 0.9
"""How much the time of a slow call counts after each later call."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 20.0
_EMPTY_S = 0.1
"""The least time from an empty receive to the next, for `wait_s=0` and for emulators that do not wait."""
_LOOK_S = 0.2
_NOT_HANDLED = "message %s was not handled; it comes again %s: %r"
_MOST_AT_ONCE = 50

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of a run with the messages of a subscription.

    Attributes:
        name: the topic's and the subscription's, for logs.
        take: receives at most so many messages, and waits so many seconds for the first.
        hidden_s: returns the queue's visibility time-out.
        drops: says whether a message is to be acknowledged and not handled. ClaimFailed: it must wait for AWS.
        handle: handles a message, which is acknowledged if no error is raised.
        acknowledge: deletes messages from the queue.
        give_back: makes messages visible after so many seconds.
    """

    name: str
    take: Callable[[int, int], list[ReceivedMessage]]
    hidden_s: Callable[[], int]
    drops: Callable[[ReceivedMessage], bool]
    handle: Callable[[ReceivedMessage], object]
    acknowledge: Callable[[list[ReceivedMessage]], None]
    give_back: Callable[[list[ReceivedMessage], int], None]


@dataclass(slots=True, eq=False)
class _Taken:
    """A message that was received, or held, at a time of the monotonic clock."""

    message: ReceivedMessage
    since_s: float


@dataclass
class Run:
    """The state shared by the workers of a run.

    Attributes:
        steps: what is done with messages.
        stop, wait_s, batch, at_once, finish_s: as for `Consumer.run`.
        interrupts: notes a signal.
        interrupt: ends what is being handled, when it is too late.
        late: whether the time to finish what was begun is over.
        over: whether a worker has ended.
        ended: done when all workers have ended, or when it is too late for them. Its exception ended the run.
    """

    steps: Steps
    interrupts: Interrupts
    interrupt: Callable[[], object]
    stop: threading.Event
    wait_s: int
    batch: int | None
    at_once: int
    finish_s: float
    late: bool = False
    over: bool = False
    ended: Future[None] = field(default_factory=Future)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _buffer: list[_Taken] = field(default_factory=list)
    # SQS's id of a handled message -> when it must be acknowledged, and the message.
    _gathered: dict[str, tuple[float, ReceivedMessage]] = field(default_factory=dict)
    _receiving: bool = False
    _begun: int = 0
    _slowest_s: float = 0.0
    _hidden_s: float = inf
    _tends_at_s: float = 0.0
    _pause_s: float = _FIRST_PAUSE_S
    _lost: bool = False
    _claims_wait: bool = False
    # Whether it is a claim -> when AWS began to refuse it. inf: AWS accepts it. -inf: AWS has not accepted it yet.
    _refused_s: dict[bool, float] = field(default_factory=lambda: dict.fromkeys((False, True), -inf))

    def __post_init__(self) -> None:
        check_whole("at_once", self.at_once, 1, _MOST_AT_ONCE)
        if type(self.finish_s) not in (int, float) or not self.finish_s >= 0:
            raise InvalidValue("finish_s", self.finish_s, "give seconds, 0 or more")
        self.most = receiving.RECEIVE_BATCH if self.batch is None else self.batch
        receiving.check_receive(self.most, self.wait_s, "batch")
        self.ended.set_running_or_notify_cancel()  # nobody can cancel it
        self.workers = [Worker(self) for _ in range(self.at_once)]

    @property
    def stopping(self) -> bool:
        """Whether the workers begin nothing more."""
        return self.over or self.stop.is_set() or self.interrupts.caught

    def start(self, workers: list[Worker]) -> None:
        """Starts the thread of the run, and one for each of these workers."""
        for work in [self._look_after, *(each.work for each in workers)]:
            threading.Thread(target=work, name="tidewheel-worker", daemon=True).start()

    # ---- messages
    def next(self, worker: Worker) -> bool:
        """Gives a worker the next message, receives some, or waits while another worker does.

        Returns:
            Whether the worker has a message, or reached AWS.
        """
        self._acknowledge()
        with self._changed:
            if receives := not (self._buffer or self._receiving or (self._claims_wait and self._in_hand)):
                self._receiving, most = True, self._most()
            elif not self._buffer:
                self._changed.wait(1)  # a signal does not end a longer wait on Windows
        if receives:
            self._receive(most)
        with self._changed:
            if self._buffer and not self.stopping:
                worker.in_hand = self._buffer.pop(0)
        return receives or worker.in_hand is not None

    def handled(self, worker: Worker, begun_s: float, *, done: bool) -> None:
        """Takes a message out of a worker's hand. A handled message is acknowledged, a failed message comes again."""
        now_s = time.monotonic()
        with self._changed:
            taken, worker.in_hand = worker.in_hand, None
            self._begun += 1
            self._claims_wait, self._refused_s[True] = False, inf
            self._slowest_s = max(now_s - begun_s, self._slowest_s * _FORGOTTEN)
            if taken is not None and done:
                end_s = taken.since_s + self._hidden_s - min(_SPARE_S, self._hidden_s / 2)
                self._gathered[taken.message.sqs_message_id] = min(end_s, now_s + GATHERED_S), taken.message
            elif taken is not None and self.late:
                self._buffer.append(taken)

    def put_back(self, worker: Worker) -> None:
        """Puts a message whose claim gets no answer in front of the buffer."""
        with self._changed:
            if worker.in_hand is not None:
                self._buffer.insert(0, worker.in_hand)
                worker.in_hand, self._claims_wait = None, True

    @property
    def _in_hand(self) -> int:
        return sum(each.in_hand is not None for each in self.workers)

    def _most(self) -> int:
        """Returns how many messages to receive."""
        soon = self._soon_s * self.at_once / self._slowest_s if self._slowest_s else inf
        return int(min(self.most, max(self.at_once - self._in_hand, min(self._begun, soon))))

    @property
    def _soon_s(self) -> float:
        return min(BUFFERED_S, self._hidden_s / 2)

    def _receive(self, most: int) -> None:
        found, begun_s = list[_Taken](), time.monotonic()
        try:
            messages = self.steps.take(most, self.wait_s)
            messages.sort(key=lambda each: -each.receive_count)
            found = [_Taken(each, time.monotonic()) for each in messages]
            with self._changed:
                if self._lost:
                    _log.warning("%s: connected again", self.steps.name)
                self._lost, self._refused_s[False] = False, inf
            if not found:
                self.stop.wait(max(0.0, begun_s + _EMPTY_S - time.monotonic()))
            elif self._hidden_s == inf:
                self._hidden_s = self.steps.hidden_s()
        finally:
            with self._changed:
                self._buffer += found
                self._receiving = False
                self._changed.notify_all()

    def _acknowledge(self, *, everything: bool = False) -> None:
        """Sends the gathered acknowledgements that are due."""
        while batch := self._due(everything):
            try:
                self.steps.acknowledge([message for _, message in batch.values()])
            except BaseException:
                with self._changed:
                    self._gathered = batch | self._gathered
                raise

    def _due(self, everything: bool) -> dict[str, tuple[float, ReceivedMessage]]:
        with self._changed:
            found, ten, now_s = list(self._gathered.items()), receiving.RECEIVE_BATCH, time.monotonic()
            idle = not self._buffer and not self._in_hand
            if not (everything or idle or len(found) >= ten or any(due_s <= now_s for _, (due_s, _) in found)):
                return {}
            self._gathered = dict(found[ten:])
            return dict(found[:ten])

    # ---- the connection
    def failed(self, error: Exception) -> None:
        """Notes that a request of AWS failed.

        Raises:
            QueueUnavailable: AWS refuses, and did so at the start or for REFUSED_S.
        """
        with self._changed:
            now_s, claims = time.monotonic(), isinstance(error, ClaimFailed)  # a poll says nothing about claims
            if error.refused if isinstance(error, ClaimFailed) else not passes(error):
                self._refused_s[claims] = min(self._refused_s[claims], now_s)
                if now_s - self._refused_s[claims] >= REFUSED_S:
                    raise QueueUnavailable(self.steps.name, str(error), "gives no messages") from None
            if not self._lost:
                _log.warning("%s: connection lost, trying until it is back: %s", self.steps.name, error)
            self._lost = True

    # ---- the thread of the run
    def _look_after(self) -> None:
        working = [each.ended for each in self.workers]
        while not self.stopping:
            wait(working, _LOOK_S, FIRST_COMPLETED)
            self.tend()
        if self.interrupts.caught:
            self.stop.set()
        end_s = time.monotonic() + self.finish_s
        self.tend()
        while wait(working, _LOOK_S).not_done and not self.late:
            self.tend()
            if self.interrupts.caught and time.monotonic() >= end_s:
                if left := self._in_hand:
                    _log.warning("%s: no time is left for %d messages in hand; they come again", self.steps.name, left)
                self.late = True
                self.interrupt()
        with self._changed:
            self._buffer += [each.in_hand for each in self.workers if each.in_hand and each.ended.done()]
        self.tend(everything=True)
        errors = [error for each in working if each.done() and (error := each.exception())]
        self.ended.set_exception(errors[0] if errors else None)

    def tend(self, *, everything: bool = False) -> None:
        """Sends acknowledgements in time. Gives back messages that wait too long, or holds messages without a claim.

        After a failure, pauses before the next try.
        """
        if time.monotonic() < self._tends_at_s and not everything:
            return
        try:
            with deadline.within(LAST_CALL_S):
                self._acknowledge(everything=everything)
                now_s = time.monotonic()
                with self._changed:
                    waits = [e for e in self._buffer if self.stopping or now_s - e.since_s >= self._soon_s]
                    if gives := self.stopping or not self._claims_wait:
                        self._buffer = [each for each in self._buffer if each not in waits]
                if waits:
                    after_s = 0 if gives else max(_HELD_S, int(self._hidden_s))
                    self.steps.give_back([each.message for each in waits], after_s)
                for each in waits:
                    each.since_s = now_s
            self._pause_s = _FIRST_PAUSE_S
        except Exception as error:
            self._tends_at_s = time.monotonic() + self._pause_s
            self._pause_s = min(_MAX_PAUSE_S, 2 * self._pause_s)
            if self.stopping:
                _log.warning("%s: messages come again after their visibility time-out: %s", self.steps.name, error)
                return
            with suppress(QueueUnavailable):  # the next request of a worker meets and raises it
                self.failed(error)


class Worker:
    """One thread of a run.

    Attributes:
        ended: done when the thread has ended, with its error.
        in_hand: the message that it handles.
    """

    def __init__(self, run: Run) -> None:
        self.ended: Future[None] = Future()
        self.in_hand: _Taken | None = None
        self._run = run

    def work(self) -> None:
        """Works until the run stops."""
        error: BaseException | None = None
        try:
            self._work()
        except KeyboardInterrupt:
            if not self._run.late:
                raise  # the second Ctrl-C does not wait
        except BaseException as raised:
            error = raised
            if isinstance(raised, SystemExit):  # given back, the message would end the next worker at once
                self.in_hand = None
        finally:
            self._run.over = True
            self.ended.set_exception(error)

    def _work(self) -> None:
        run, pause_s = self._run, _FIRST_PAUSE_S
        while not run.stopping:
            try:
                reached = run.next(self)
                if self.in_hand is not None:
                    self._handle(self.in_hand.message)
                if reached:
                    pause_s = _FIRST_PAUSE_S
            except (*AWS_ERRORS, ClaimFailed) as error:
                run.put_back(self)
                run.failed(error)
                run.stop.wait(random.uniform(0.5, 1) * pause_s)
                pause_s = min(_MAX_PAUSE_S, 2 * pause_s)
        if run.late:
            run.tend(everything=True)

    def _handle(self, message: ReceivedMessage) -> None:
        """Handles a message. Raises ClaimFailed, with the message in hand, if it must wait."""
        begun_s, done, claiming = time.monotonic(), False, True
        try:
            if not self._run.steps.drops(message):
                claiming = False
                self._run.steps.handle(message)
            done = True
        except Exception as error:
            if claiming and isinstance(error, ClaimFailed):
                raise
            level, when = logging.ERROR, "after its visibility time-out"
            if self._run.late:
                when = "at once"
                level = logging.INFO if isinstance(error, CancelledError) else logging.ERROR
            told = passes(error) or isinstance(error, (CancelledError, QueueUnavailable))
            _log.log(level, _NOT_HANDLED, message.id, when, error, exc_info=not told)
        self._run.handled(self, begun_s, done=done)
