"""Receives and handles messages until told to stop, whatever becomes of the connection to AWS.

    received --> rest --> in hand --function--> done --DeleteMessage--> gone
                  |          +-- failed: comes again after its visibility time-out
                  +-- told to stop, or the connection was lost: visible again at once

Each thread of a run is a `Worker`. One more thread, of `Run`, looks after them: when they are to stop, it gives back
what they have not begun, and waits for the rest.

A worker acknowledges what is done before it receives more. So a lost connection makes one copy at most of each message
in hand, if it lasts beyond the visibility time-out.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from math import inf

from tidewheel import deadline
from tidewheel.aws.tries import AWS_ERRORS, passes
from tidewheel.client import receiving
from tidewheel.client.interrupts import Interrupts
from tidewheel.errors import ClaimFailed, InvalidValue, QueueUnavailable
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.setting import is_whole

REFUSED_S = 60
"""How long a worker that has received before tries what AWS refuses: a policy or a queue may be made anew just now."""
LAST_CALL_S = 6
"""How long a run that ends tries to acknowledge, and to give back: a try that hangs, or some that are refused."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 20.0
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
        drops: says whether a message is to be acknowledged and not handled. ClaimFailed: it must wait for AWS.
        handle: handles a message, which is acknowledged if no error is raised.
        acknowledge: deletes messages from the queue.
        give_back: makes messages visible at once.
        hold: keeps messages invisible for at least another minute.
    """

    name: str
    take: Callable[[int, int], list[ReceivedMessage]]
    drops: Callable[[ReceivedMessage], bool]
    handle: Callable[[ReceivedMessage], object]
    acknowledge: Callable[[list[ReceivedMessage]], None]
    give_back: Callable[[list[ReceivedMessage]], None]
    hold: Callable[[list[ReceivedMessage]], None]


@dataclass
class Run:
    """The state shared by the workers of a run.

    Attributes:
        steps: what is done with messages.
        stop, wait_s, batch, at_once, finish_s: as for `Consumer.run`.
        interrupts: notes a signal.
        interrupt: ends what is being handled, when it is too late.
        late: whether the time to finish what was begun is over.
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
    ended: Future[None] = field(default_factory=Future)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _lost: bool = False
    _worked: bool = False
    _refused_s: float = inf
    _claimed: bool = False
    _claims_refused_s: float = inf

    def __post_init__(self) -> None:
        if not is_whole(self.at_once) or not 1 <= self.at_once <= _MOST_AT_ONCE:
            raise InvalidValue("at_once", self.at_once, f"give a whole number from 1 to {_MOST_AT_ONCE}")
        if type(self.finish_s) not in (int, float) or not self.finish_s >= 0:
            raise InvalidValue("finish_s", self.finish_s, "give seconds, 0 or more")
        # A worker handles its batch one by one: a larger one would keep messages from the other workers.
        self.most = (receiving.RECEIVE_BATCH if self.at_once == 1 else 1) if self.batch is None else self.batch
        receiving.check_receive(self.most, self.wait_s, "batch")
        self.ended.set_running_or_notify_cancel()  # nobody can cancel it
        self.workers = [Worker(self) for _ in range(self.at_once)]

    @property
    def stopping(self) -> bool:
        """Whether the workers begin nothing more."""
        return self.stop.is_set() or self.interrupts.caught or any(each.ended.done() for each in self.workers)

    def start(self, workers: list[Worker]) -> None:
        """Starts the thread of the run, and one for each of these workers."""
        for work in [self._look_after, *(each.work for each in workers)]:
            threading.Thread(target=work, name="tidewheel-worker", daemon=True).start()

    def reached(self) -> None:
        """Notes that a request of AWS succeeded."""
        with self._lock:
            if self._lost:
                _log.warning("%s: connected again", self.steps.name)
            self._lost, self._worked, self._refused_s = False, True, inf

    def claimed(self) -> None:
        """Notes that a message may be handled."""
        self._claimed, self._claims_refused_s = True, inf

    def failed(self, error: Exception) -> None:
        """Notes that a request of AWS failed.

        Raises:
            QueueUnavailable: AWS refuses, and did so at the start or for REFUSED_S.
        """
        with self._lock:
            now_s = time.monotonic()
            if isinstance(error, ClaimFailed):  # an empty poll of another worker says nothing about claims
                self._claims_refused_s = min(self._claims_refused_s, now_s if error.refused else inf)
                ends = error.refused and (not self._claimed or now_s - self._claims_refused_s >= REFUSED_S)
            else:
                self._refused_s = min(self._refused_s, inf if passes(error) else now_s)
                ends = not passes(error) and (not self._worked or now_s - self._refused_s >= REFUSED_S)
            if ends:
                raise QueueUnavailable(self.steps.name, str(error), "gives no messages") from None
            if not self._lost:
                _log.warning("%s: connection lost, trying until it is back: %s", self.steps.name, error)
            self._lost = True

    def _look_after(self) -> None:
        working = [each.ended for each in self.workers]
        while not self.stopping:
            wait(working, _LOOK_S, FIRST_COMPLETED)
        if self.interrupts.caught:
            self.stop.set()
        self._leave(Worker.give_back)
        end_s = time.monotonic() + self.finish_s
        while wait(working, _LOOK_S).not_done and not self.late:
            if self.interrupts.caught and time.monotonic() >= end_s:
                if left := sum(each.left for each in self.workers):
                    _log.warning("%s: no time is left for %d messages in hand; they come again", self.steps.name, left)
                self.late = True
                self.interrupt()
        self._leave(Worker.settle)
        errors = [error for each in working if each.done() and (error := each.exception())]
        self.ended.set_exception(errors[0] if errors else None)

    def _leave(self, step: Callable[[Worker], None]) -> None:
        """Does a last step of all workers. Messages for which it fails come again after their time-out."""
        with deadline.within(LAST_CALL_S):
            for each in self.workers:
                try:
                    step(each)
                except Exception as error:
                    _log.warning("%s: messages come again after their visibility time-out: %s", self.steps.name, error)


class Worker:
    """One thread of a run.

    Attributes:
        ended: done when the thread has ended, with its error.
    """

    def __init__(self, run: Run) -> None:
        self.ended: Future[None] = Future()
        self._run = run
        self._lock = threading.Lock()
        self._rest: list[ReceivedMessage] = []
        self._in_hand: list[ReceivedMessage] = []
        self._done: list[ReceivedMessage] = []

    @property
    def left(self) -> int:
        """Messages that are in hand, or done and not acknowledged."""
        return len(self._in_hand + self._done)

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
                self._in_hand = []
        finally:
            self.ended.set_exception(error)

    def give_back(self) -> None:
        """Makes the rest visible at once. The run's thread may do this while the worker has a message in hand."""
        with self._lock:
            rest, self._rest = self._rest, []
        if rest:
            self._run.steps.give_back(rest)

    def settle(self) -> None:
        """Acknowledges and gives back what a worker that has ended left, also what was interrupted."""
        if self.ended.done():
            self._acknowledge()
            self._rest += self._in_hand
            self.give_back()

    def _work(self) -> None:
        run, pause_s, waits = self._run, _FIRST_PAUSE_S, False
        while not run.stopping:
            try:
                self._acknowledge()
                if self._rest and waits:  # given back, it would be received again, and its queue counts that
                    run.steps.hold(self._rest)
                else:
                    self.give_back()
                    rest = run.steps.take(run.most, run.wait_s)
                    with self._lock:
                        self._rest = rest
                    run.reached()
                waits = False
                pause_s = _FIRST_PAUSE_S
                while self._begins():
                    if self._handles(self._in_hand[0]):
                        self._done, self._in_hand = self._in_hand, []
                        self._acknowledge()
            except (*AWS_ERRORS, ClaimFailed) as error:
                if waits := isinstance(error, ClaimFailed):
                    with self._lock:
                        self._rest, self._in_hand = self._in_hand + self._rest, []
                run.failed(error)
                run.stop.wait(random.uniform(0.5, 1) * pause_s)
                pause_s = min(_MAX_PAUSE_S, 2 * pause_s)

    def _handles(self, message: ReceivedMessage) -> bool:
        """Handles a message. Returns whether to acknowledge it."""
        claiming = True
        try:
            if self._run.steps.drops(message):
                return True
            claiming = False
            self._run.claimed()
            self._run.steps.handle(message)
        except Exception as error:
            if claiming and isinstance(error, ClaimFailed):
                raise
            level, when = logging.ERROR, "after its visibility time-out"
            if self._run.late:
                self._rest, when = self._in_hand, "at once"
                level = logging.INFO if isinstance(error, CancelledError) else logging.ERROR
            told = passes(error) or isinstance(error, (CancelledError, QueueUnavailable))
            _log.log(level, _NOT_HANDLED, message.id, when, error, exc_info=not told)
            return False
        return True

    def _begins(self) -> bool:
        """Takes the next message in hand. Returns whether there is one."""
        with self._lock:
            self._in_hand = [] if self._run.stopping else self._rest[:1]
            self._rest = self._rest[len(self._in_hand) :]
            return bool(self._in_hand)

    def _acknowledge(self) -> None:
        if self._done:
            self._run.steps.acknowledge(self._done)
            self._done = []
