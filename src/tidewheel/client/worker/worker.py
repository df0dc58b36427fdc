"""Works on subscriptions: receives, calls functions, tries again, acknowledges, until told to stop."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from tidewheel.aws.tries import AWS_ERRORS, patient
from tidewheel.client import receiving
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.client.worker.handling import Around, Handling, run_now
from tidewheel.client.worker.inbox import ConsumerCounts, Inbox
from tidewheel.client.worker.interrupts import Interrupts
from tidewheel.client.worker.retries import Delay
from tidewheel.client.worker.serving import LAST_CALL_S, Station
from tidewheel.errors import AlreadyExists, InvalidValue, TemporaryFailure, TidewheelError
from tidewheel.model.levels import Backoff
from tidewheel.model.received import ReceivedMessage, parse_received

Function = TypeVar("Function", bound=Callable[..., object])

RETRY = Backoff(base="30s", factor=3, maximum="6h", jitter=0.2)
"""Seven retries over about nine hours."""
_LOOK_S = 0.2

_log = logging.getLogger(__name__)


class Worker:
    """Calls functions with the messages of subscriptions.

    Messages are received ten at a time, acknowledged ten at a time, and kept invisible while they wait and run. A
    subscription that sleeps or fails does not hold up the others: each has its own threads.

    Example:
        >>> worker = Worker()
        >>> @worker.handles("orders/closer")
        ... def close(message): print(message.json())
        >>> worker.run()

    Attributes:
        client: the client. None: the client of the environment, made at the start.
        wait_s: how long a poll waits.
    """

    def __init__(
        self, tw: Tidewheel | None = None, *, finish_s: float = 20, wait_s: int = 20, create: bool = False
    ) -> None:
        """Prepares a worker. This does not call AWS.

        Args:
            tw: the client. None: the client of the environment.
            finish_s: seconds after a signal or `stop` for begun messages. ECS and Kubernetes kill after 30 by default,
                and the last acknowledgements take up to 6.
            wait_s: how long a poll waits, 0 to 20 seconds, and no longer than `finish_s`. A poll is billed, also an
                empty one.
            create: whether to create missing topics and subscriptions, for development.

        Raises:
            InvalidValue: a value is not usable.
        """
        if type(finish_s) not in (int, float) or not finish_s >= 0:
            raise InvalidValue("finish_s", finish_s, "give seconds, 0 or more")
        receiving.check_receive(1, wait_s)
        self.client, self._finish_s, self._create = tw, finish_s, create
        self.wait_s = min(wait_s, max(1, int(finish_s)))  # a poll is not broken off
        self._handlings: dict[str, Handling] = {}
        self._arounds: list[Around] = []
        self._inboxes: dict[str, Inbox] = {}
        self._stations: list[Station] = []
        self._over = threading.Event()
        # Where coroutine functions run: the loop of `async with`, or one of this worker's own.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None

    # ---- what to do
    def handles(
        self,
        address: str,
        *,
        at_once: int = 10,
        timeout: Delay = "1h",
        max_attempts: int = 8,
        retry: Backoff | None = RETRY,
        parse: Callable[[Any], object] | None = None,
        reject: Sequence[type[Exception]] = (),
    ) -> Callable[[Function], Function]:
        """Registers a function for the messages of a subscription. Use it as a decorator.

        The function gets the message, and the result of `parse` if there is one. When it returns, the message is
        acknowledged. After an error, the message is sent again later, to this subscription only, and is a dead letter
        after the last attempt. The function may raise `RetryLater` and `Reject`.

        Args:
            address: topic/subscription.
            at_once: how many messages are handled at once, 1 to 50: a plain function in threads, a coroutine function
                in the event loop. 1: one after the other.
            timeout: how long a running message is kept from other workers, 1 s to 11 h. If it still runs, the message
                comes again beside it, and the log tells.
            max_attempts: how many attempts a message has before it is a dead letter. With `retry=None` at most 10.
            retry: the delays. None: the message comes again after its queue's visibility time-out.
            parse: is called with the body, text or bytes, such as `json.loads`, or a class of pydantic's. A
                body that it refuses is a dead letter at once.
            reject: errors of the function that make a dead letter at once.

        Raises:
            InvalidValue: a value is not usable, or the subscription has a function.
        """
        if not isinstance(address, str):  # such as the function, of a decorator without parentheses
            raise InvalidValue("handles", address, "give topic/subscription, such as orders/closer")

        made = partial(Handling, address, at_once=at_once, timeout=timeout, max_attempts=max_attempts)

        def register(function: Function) -> Function:
            if address in self._handlings:
                raise InvalidValue("handles", address, "this subscription has a function; filter by subscriptions")
            if self._stations:
                raise InvalidValue("handles", address, "register it before the worker starts")
            self._handlings[address] = made(function, retry=retry, parse=parse, reject=reject)
            return function

        return register

    def around(self, function: Function) -> Function:
        """Registers a generator function that runs around each message, in the handler's own thread or task.

        The part before its `yield` runs before the handler, the rest after. The first registered is the
        outermost. An async generator function serves coroutine functions only.

        Raises:
            InvalidValue: it is not a generator function.
        """
        if not (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
            raise InvalidValue("around", function, "give a generator function, with one yield")
        self._arounds.append(function)
        return function

    @property
    def counts(self) -> Mapping[str, ConsumerCounts]:
        """The counts so far, by topic/subscription."""
        return {address: each.counts for address, each in self._inboxes.items()}

    @property
    def addresses(self) -> Collection[str]:
        """The subscriptions that have a function."""
        return self._handlings.keys()

    @property
    def inboxes(self) -> Collection[Inbox]:
        """The queues of its subscriptions, once it is prepared."""
        return self._inboxes.values()

    # ---- work
    def run(self, *, stop: threading.Event | None = None) -> None:
        """Works until SIGTERM or Ctrl-C. In another thread than the main one, works until `stop` is set.

        The first signal ends the polls, gives back messages that were not begun, finishes those that were begun within
        `finish_s` seconds, and sends the last acknowledgements. A message that is not finished by then comes again. A
        second signal ends the program at once. A handler for these signals that the program has set itself stays: let
        it set `stop`.

        While AWS cannot be reached, throttles or answers with an error of its own, the worker goes on trying, with
        pauses of up to 20 seconds, and logs the loss and the end of it.

        Args:
            stop: when set, ends the work likewise.

        Raises:
            InvalidValue: there is no function, or a function does not fit its queue.
            UnknownTopic, UnknownSubscription: it does not exist.
            QueueUnavailable: AWS refuses, such as for want of permission, at the start, or for a minute for all
                subscriptions.
        """
        self._over.clear()
        with Interrupts() as interrupts:
            ends = [interrupts.is_caught, self._over.is_set, *(() if stop is None else (stop.is_set,))]
            while not any(each() for each in ends):
                if not self._stations:
                    self._has_started()
                time.sleep(_LOOK_S)
            _log.info("ends within %s s: the poll, and what was begun. A second signal ends at once", self._finish_s)
            self.stop()

    def _has_started(self) -> bool:
        try:
            self.start()
        except TemporaryFailure as error:
            _log.warning("cannot begin yet, trying until AWS answers: %s", error)
            time.sleep(random.uniform(0.5, 1))
        return bool(self._stations)

    def start(self) -> None:
        """Begins to work in threads, and returns. Coroutine functions run in a loop of their own.

        Raises:
            InvalidValue, UnknownTopic, UnknownSubscription: as `run`.
        """
        if self._stations:
            raise InvalidValue("start", self, "this worker has started")
        self.prepare()
        if self._loop is None and any(each.is_async for each in self._handlings.values()):
            self._loop = self._own_loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(self._loop,), name="tidewheel loop", daemon=True).start()
        self._over.clear()
        self._stations = [
            Station(each, self._inboxes[address], self._arounds, wait_s=self.wait_s, loop=self._loop, told=self._look)
            for address, each in self._handlings.items()
        ]
        for station in self._stations:
            station.start()

    def stop(self) -> None:
        """Ends the work as a signal does. Returns when the last acknowledgement is sent. Harmless when called twice.

        Raises:
            QueueUnavailable: AWS had refused for a minute. Any error that ended the worker is raised here.
        """
        stations, self._stations = self._stations, []
        end_s = time.monotonic() + self._finish_s
        for each in stations:
            each.stop()
        for each in stations:
            each.wait(end_s)
        end_s = time.monotonic() + LAST_CALL_S
        for each in stations:
            each.join(end_s)
        if self._loop is not None and self._loop is self._own_loop:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._own_loop = None
        self._loop = None
        self._over.set()
        for error in (*(each.error for each in stations), *(each.refused for each in stations)):
            if error is not None:
                raise error

    def _look(self) -> None:
        """Ends `run` if a function ended the program, or if AWS refuses everything."""
        stations = self._stations
        if any(each.error for each in stations) or all(each.refused for each in stations):
            self._over.set()

    async def __aenter__(self) -> Self:
        """Starts the worker, as soon as AWS answers. Its coroutine functions run in the running event loop."""
        self._loop = asyncio.get_running_loop()
        while not await asyncio.to_thread(self._has_started):
            pass
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the worker."""
        await asyncio.to_thread(self.stop)

    # ---- before work
    def only(self, address: str) -> None:
        """Forgets all functions but that of one subscription.

        Raises:
            InvalidValue: the subscription has no function.
        """
        if address not in self._handlings:
            raise InvalidValue("only", address, f"this worker handles {', '.join(self._handlings) or 'nothing'}")
        self._handlings = {address: self._handlings[address]}

    def prepare(self, tw: Tidewheel | None = None, *, passes: tuple[type[Exception], ...] = ()) -> None:
        """Checks all functions against their queues, and creates missing ones if the worker may. See `run`.

        Args:
            tw: the client. None: the worker's own.
            passes: errors that do not matter.
        """
        if not self._handlings:
            raise InvalidValue("worker", self, "it has no function; decorate one with @worker.handles(...)")
        if tw is None:
            tw = self.client = self.client or Tidewheel()
        asynchronous = [around for around in self._arounds if inspect.isasyncgenfunction(around)]
        inboxes = {}
        for address, each in self._handlings.items():
            if asynchronous and not each.is_async:
                how = f"{address} has a plain function; give a plain generator function"
                raise InvalidValue("around", asynchronous[0], how)
            if self._create:
                _create(tw, each)
            inbox = self._inboxes.get(address)
            if inbox is None or inbox.core is not tw.core:  # such as of the last test's stack
                inbox = Inbox(tw.core, each.topic, each.subscription, max_attempts=each.max_attempts)
            receives = None
            with suppress(*passes), patient():
                _, receives = inbox.rule
                _ = inbox.queue_url
                receiving.begin(tw.core, each.topic, each.subscription)
            if each.retry is None and receives is not None and receives < each.max_attempts:
                how = (
                    f"the queue of {address} has a dead letter after {receives} receives; give at most {receives}, or "
                    "a retry, which sends a message anew"
                )
                raise InvalidValue("max_attempts", each.max_attempts, how)
            inboxes[address] = inbox
        self._inboxes = inboxes

    # ---- elsewhere than in `run`
    def lambda_handler(self, event: Mapping[str, Any], context: object = None) -> dict[str, Any]:  # noqa: ARG002
        """Handles the messages of an SQS event source mapping with `ReportBatchItemFailures`, one after the other.

        A function with a `retry` needs the property `RecursiveLoop: Allow`.

        Returns:
            `{"batchItemFailures": [...]}`: the messages that come again.

        Raises:
            InvalidValue: the event is not from SQS.
        """
        records = event.get("Records") if isinstance(event, Mapping) else None
        if not isinstance(records, list):
            raise InvalidValue("event", event, "give the event of an SQS event source mapping, with its Records")
        failed = []
        for record in records:
            try:
                self.record_handler(record)
            except Exception:
                _log.exception("message %s was not handled; it comes again", record.get("messageId"))
                failed.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failed}

    def record_handler(self, record: Mapping[str, Any]) -> None:
        """Handles one record of such an event, for Powertools' BatchProcessor. An error fails the record."""
        if not self._inboxes:  # a message without a key needs neither the table nor the subscription
            self.prepare(passes=(TidewheelError, *AWS_ERRORS))
        handling = self._handling_of(str(record.get("eventSourceARN", "")))
        self._work(handling, parse_received(record))

    def _handling_of(self, queue_arn: str) -> Handling:
        if len(self._handlings) == 1:
            return next(iter(self._handlings.values()))
        for address, each in self._handlings.items():
            with suppress(TidewheelError, *AWS_ERRORS):
                if self._inboxes[address].queue_url.rpartition("/")[2] == queue_arn.rpartition(":")[2]:
                    return each
        raise InvalidValue("eventSourceARN", queue_arn, f"give a queue of {', '.join(self._handlings)}")

    def play(self, tw: Tidewheel, *, raises: bool) -> bool:
        """Handles the messages that are receivable now, in the calling thread, for `stack.drain`.

        Args:
            raises: whether to raise a function's error, once the message is settled. RetryLater, Reject and
                rejected errors do not count.

        Returns:
            Whether there was a message.
        """
        if asyncio._get_running_loop() is not None and any(  # noqa: SLF001
            each.is_async for each in self._handlings.values()
        ):
            how = "its coroutines run in a loop of their own: await asyncio.to_thread(stack.drain, worker)"
            raise InvalidValue("worker", self, how)
        if any(each.core is not tw.core for each in self.inboxes) or not self.inboxes:
            self.prepare(tw)
        found = False
        for address, handling in self._handlings.items():
            for message in self._inboxes[address].take(receiving.RECEIVE_BATCH, 0):
                found, handling.failure = True, None
                try:
                    self._work(handling, message)
                    self._inboxes[address].acknowledge([message])
                except Exception as error:
                    handling.failure = handling.failure or error
                if raises and handling.failure is not None:
                    raise handling.failure
        return found

    def _work(self, handling: Handling, message: ReceivedMessage) -> None:
        """Claims and handles a message. When this returns, acknowledge it."""
        inbox = self._inboxes[handling.address]
        if inbox.drops(message):
            return
        work = handling.work(inbox, message, self._arounds)
        if not handling.is_async:
            run_now(work)
            return
        if self._own_loop is None:
            self._own_loop = asyncio.new_event_loop()
        self._own_loop.run_until_complete(work)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _create(tw: Tidewheel, handling: Handling) -> None:
    with suppress(AlreadyExists):
        tw.create_topic(handling.topic)
    with suppress(AlreadyExists):
        tw.create_subscription(handling.topic, handling.subscription, reader="tidewheel")
