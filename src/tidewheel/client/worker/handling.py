"""Handles the messages of one subscription with a function, and settles each.

the function returns                              --> acknowledged
RetryLater                                        --> sent again as it says, acknowledged
an error, and attempts are left                   --> sent again after the delay of `retry`, acknowledged
Reject, an error of `reject` or `parse`, or no attempt is left  --> dead letter, acknowledged
an error, with retry=None, and receives are left  --> comes again after its queue's visibility time-out
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from tidewheel.client import tracing
from tidewheel.client.receiving import MAX_RECEIVES
from tidewheel.client.worker.inbox import Inbox
from tidewheel.errors import InvalidValue, Reject, RetryLater
from tidewheel.model.duration import delay_ms
from tidewheel.model.levels import Backoff
from tidewheel.model.message import Encoding
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.untrusted import check_whole

T = TypeVar("T")
Around = Callable[[ReceivedMessage], Any]
Blocking = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Awaits a function that waits for AWS, without blocking the event loop."""

_MOST_AT_ONCE = 50
_MOST_TIMEOUT_MS = 11 * 3_600_000
"""SQS hides a message for 12 hours at most."""
_UNAWAITED = "its function returned work that nobody does; give a function that returns None, or `async def`"
_WAITED = "a plain function's work waited for an event loop"
_CANCELLED = "it awaited something that was cancelled"

_log = logging.getLogger(__name__)


async def at_once(call: Callable[[], T]) -> T:
    """Calls a function, and waits for it."""
    return call()


def run_now(work: Coroutine[Any, Any, object]) -> None:
    """Runs a coroutine that never waits for an event loop."""
    with suppress(StopIteration):
        work.send(None)
        raise RuntimeError(_WAITED)


class _BadBody(Exception):
    """`parse` raised an error, the cause."""


class Handling:
    """A function for the messages of one subscription, with its rules.

    Attributes:
        topic, subscription: whose messages it gets.
        is_async: whether the function is a coroutine function.
        at_once, timeout_s, max_attempts: as for `Worker.handles`, in whole seconds.
        retry: None: SQS's own rule.
        rejects: errors that make a dead letter at once.
        failure: the function's last error that counts as one.
    """

    def __init__(
        self,
        address: str,
        function: Callable[..., object],
        *,
        at_once: int,
        timeout: Any,
        max_attempts: int,
        retry: Backoff | None,
        parse: Callable[[Any], object] | None,
        reject: Sequence[type[Exception]],
    ) -> None:
        self.topic, _, self.subscription = address.partition("/")
        if not (self.topic and self.subscription) or "/" in self.subscription:
            raise InvalidValue("handles", address, "give topic/subscription, such as orders/closer")
        check_whole("at_once", at_once, 1, _MOST_AT_ONCE)
        check_whole("max_attempts", max_attempts, 1)
        if retry is not None and not isinstance(retry, Backoff):
            raise InvalidValue("retry", retry, "give a Backoff, or None for the queue's own rule")
        if retry is None and max_attempts > MAX_RECEIVES:
            how = f"give at most {MAX_RECEIVES}: with retry=None an attempt is a receive"
            raise InvalidValue("max_attempts", max_attempts, how)
        timeout_ms = delay_ms(timeout, "timeout")
        if not 1000 <= timeout_ms <= _MOST_TIMEOUT_MS:
            raise InvalidValue("timeout", timeout, "give 1s to 11h: SQS hides a message for 12 hours at most")
        if not all(isinstance(each, type) and issubclass(each, Exception) for each in reject):
            raise InvalidValue("reject", reject, "give classes of errors, such as (Gone,)")
        try:
            inspect.signature(function).bind(*((None,) if parse is None else (None, None)))
        except ValueError:  # a compiled function does not tell
            pass
        except TypeError as error:
            how = f"give a function of the message{'' if parse is None else ', and of what parse returns'} ({error})"
            raise InvalidValue("function", function, how) from None
        self.address, self.at_once, self.timeout_s = address, at_once, timeout_ms / 1000
        self.max_attempts, self.retry = max_attempts, retry
        self.is_async = is_coroutine_function(function)
        self._function, self._parse = function, parse
        self.rejects: tuple[type[Exception], ...] = (Reject, _BadBody, *reject)
        self.failure: Exception | None = None

    # ---- one message
    async def work(
        self, inbox: Inbox, message: ReceivedMessage, arounds: Sequence[Around] = (), blocking: Blocking = at_once
    ) -> None:
        """Handles a message. When this returns, acknowledge the message. Otherwise it comes again.

        For a plain function, this never waits for an event loop: see `run_now`.

        Raises:
            Exception: the function's own error, or AWS's.
        """
        with inbox.in_hand(message):
            whole = message if message.payload is None else await blocking(partial(inbox.whole, message))
            try:
                with tracing.processing(self.topic, self.subscription, message):
                    try:
                        async with AsyncExitStack() as stack:
                            for each in arounds:
                                if inspect.isasyncgenfunction(each):
                                    await stack.enter_async_context(asynccontextmanager(each)(whole))
                                else:
                                    stack.enter_context(contextmanager(each)(whole))
                            result = self._function(*self._arguments(whole))
                            self._check_done(await result if self.is_async and inspect.isawaitable(result) else result)
                    except RetryLater as later:
                        await blocking(partial(self._later, inbox, whole, later))
                        return
                    except asyncio.CancelledError as error:
                        if self.is_async and (task := asyncio.current_task()) and task.cancelling():
                            raise  # the worker stops, or its event loop
                        raise RuntimeError(_CANCELLED) from error
            except Exception as error:
                await blocking(partial(self._failed, inbox, whole, error))
                return
        inbox.count("handled")

    def _arguments(self, message: ReceivedMessage) -> tuple[Any, ...]:
        if self._parse is None:
            return (message,)
        try:
            return message, self._parse(message.bytes() if message.encoding is Encoding.BYTES else message.body)
        except Exception as error:
            raise _BadBody from error

    def _check_done(self, result: object) -> None:
        """Raises InvalidValue for a result that is unfinished work: its message must not be acknowledged."""
        if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
            getattr(result, "close", lambda: None)()  # otherwise Python warns of a coroutine
            raise InvalidValue("function", self._function, _UNAWAITED)

    # ---- after an error
    def _later(self, inbox: Inbox, message: ReceivedMessage, later: RetryLater) -> None:
        given = later.level is not None or later.delay is not None or later.backoff is not None
        inbox.send_again(message, later if given else RetryLater(backoff=self.retry, counts=later.counts), later)

    def _failed(self, inbox: Inbox, message: ReceivedMessage, error: Exception) -> None:
        """Sends a failed message again, or buries it. Otherwise raises the error: the message comes again."""
        if isinstance(error, self.rejects):
            reason = error.__cause__ if isinstance(error, _BadBody) and error.__cause__ else error
            inbox.bury(message, reason)
            _log.error("message %s of %s is a dead letter: %r", message.id, self.address, reason)
            return
        self.failure = error
        if self.retry is not None:
            receipt = inbox.send_again(message, RetryLater(backoff=self.retry), error)
            when = "is given up" if receipt is None else f"is tried again at {receipt.deliver_at:%F %TZ}"
            level = logging.ERROR if receipt is None else logging.WARNING
            name, attempt = f"message {message.id} of {self.address}", f"attempt {message.attempt + 1}"
            _log.log(level, "%s failed (%s of %d) and %s", name, attempt, self.max_attempts, when, exc_info=error)
        else:
            if message.receive_count >= self.max_attempts:
                with suppress(InvalidValue):  # without a dead-letter queue, the message comes again
                    inbox.bury(message, error)
                    _log.error("message %s of %s is a dead letter", message.id, self.address, exc_info=error)
                    return
            inbox.count("failed")
            raise error


def is_coroutine_function(function: object) -> bool:
    """Returns whether calling a function makes a coroutine, through partials, decorators and callable objects."""
    while isinstance(function, partial):
        function = function.func
    call = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inspect.unwrap(call))  # type: ignore[arg-type]
