"""The client for asyncio, with every method of `Tidewheel` as a coroutine."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from tidewheel.client.finding import MatchedMessage, Selected
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import Clock
from tidewheel.errors import Closed
from tidewheel.model.settings import ServiceSettings
from tidewheel.model.untrusted import check_whole
from tidewheel.storage.storage import Storage

if TYPE_CHECKING:
    import boto3
    from mypy_boto3_sqs import SQSClient

P = ParamSpec("P")
T = TypeVar("T")

MAX_THREADS = 50
"""The size of boto3's connection pool: more calls at once would wait for connections."""
_FOUND = 100
"""Messages that one turn of `find` in a thread brings."""


def _awaitable(
    method: Callable[Concatenate[Tidewheel, P], T],
) -> Callable[Concatenate[AsyncTidewheel, P], Coroutine[Any, Any, T]]:
    """Returns a coroutine method with the arguments and the documentation of a method of `Tidewheel`."""

    @functools.wraps(method)
    async def call(self: AsyncTidewheel, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # Looked up by name, so that a subclass of the client can override the method.
        bound: Callable[P, T] = getattr(self.client, method.__name__)
        return await self._in_thread(functools.partial(bound, *args, **kwargs))

    return call


class AsyncTidewheel:
    """A deployed Tidewheel service for asyncio. Every method of `Tidewheel` is awaited.

    Calls run in parallel in a few threads over one client. Cancelling a call that has begun stops the waiting, not the
    call: a message may still be sent, or received from a queue. A call that still waits for a thread is dropped. An
    iterable of messages is read in a thread.

    Example:
        >>> async with AsyncTidewheel() as tw:
        ...     await tw.send("orders", {"id": 17}, delay="3d")
    """

    def __init__(
        self,
        stack_name: str | None = None,
        *,
        session: boto3.Session | None = None,
        settings: ServiceSettings | None = None,
        clock: Clock | None = None,
        endpoint_url: str | None = None,
        storage: Storage | None = None,
        sqs: SQSClient | None = None,
        client: Tidewheel | None = None,
        max_threads: int = 16,
    ) -> None:
        """Creates a client. The first method call is the first call of AWS.

        Args:
            stack_name, session, settings, clock, endpoint_url, storage, sqs: as for `Tidewheel`.
            client: an existing client, instead of all these.
            max_threads: calls at once, 1 to 50; more calls wait. A `receive` that waits for messages takes a thread.

        Raises:
            InvalidValue: a value is not usable.
        """
        check_whole("max_threads", max_threads, 1, MAX_THREADS)
        self.client = client or Tidewheel(
            stack_name,
            session=session,
            settings=settings,
            clock=clock,
            endpoint_url=endpoint_url,
            storage=storage,
            sqs=sqs,
        )
        self._executor = ThreadPoolExecutor(max_threads, thread_name_prefix="tidewheel")
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the client and waits for the calls that have begun. Repeating is harmless."""
        self._closed = True
        await asyncio.to_thread(self._executor.shutdown)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """Runs a call in one of the threads, with the caller's context variables.

        Raises:
            Closed: `aclose` was called.
        """
        if self._closed:
            raise Closed("AsyncTidewheel", "was closed")
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: context.run(call))

    # ---- administration
    create_topic = _awaitable(Tidewheel.create_topic)
    update_topic = _awaitable(Tidewheel.update_topic)
    delete_topic = _awaitable(Tidewheel.delete_topic)
    purge = _awaitable(Tidewheel.purge)
    replay = _awaitable(Tidewheel.replay)
    redrive = _awaitable(Tidewheel.redrive)
    delete_dead_letters = _awaitable(Tidewheel.delete_dead_letters)
    dead_letters = _awaitable(Tidewheel.dead_letters)
    damaged = _awaitable(Tidewheel.damaged)
    retry_damaged = _awaitable(Tidewheel.retry_damaged)
    restore_damaged = _awaitable(Tidewheel.restore_damaged)
    give_up_damaged = _awaitable(Tidewheel.give_up_damaged)
    health = _awaitable(Tidewheel.health)
    redrive_service = _awaitable(Tidewheel.redrive_service)
    refused = _awaitable(Tidewheel.refused)

    create_subscription = _awaitable(Tidewheel.create_subscription)
    pause = _awaitable(Tidewheel.pause)
    resume = _awaitable(Tidewheel.resume)
    set_filter = _awaitable(Tidewheel.set_filter)
    delete_subscription = _awaitable(Tidewheel.delete_subscription)
    topics = _awaitable(Tidewheel.topics)
    subscriptions = _awaitable(Tidewheel.subscriptions)
    stats = _awaitable(Tidewheel.stats)
    get = _awaitable(Tidewheel.get)
    peek = _awaitable(Tidewheel.peek)
    ledgers = _awaitable(Tidewheel.ledgers)
    read_body = _awaitable(Tidewheel.read_body)

    async def find(self, topic: str, **selected: Unpack[Selected]) -> AsyncIterator[MatchedMessage]:
        """As `Tidewheel.find`."""
        found = await self._in_thread(functools.partial(self.client.find, topic, **selected))
        while page := await self._in_thread(lambda: list(islice(found, _FOUND))):
            for each in page:
                yield each

    history = _awaitable(Tidewheel.history)
    sent_by_hour = _awaitable(Tidewheel.sent_by_hour)
    estimate = _awaitable(Tidewheel.estimate)

    # ---- sending
    send = _awaitable(Tidewheel.send)
    send_many = _awaitable(Tidewheel.send_many)

    # ---- changing waiting messages
    cancel = _awaitable(Tidewheel.cancel)
    cancel_many = _awaitable(Tidewheel.cancel_many)
    reschedule = _awaitable(Tidewheel.reschedule)
    deliver_now = _awaitable(Tidewheel.deliver_now)
    cancel_where = _awaitable(Tidewheel.cancel_where)
    reschedule_where = _awaitable(Tidewheel.reschedule_where)

    # ---- recurring messages
    send_recurring = _awaitable(Tidewheel.send_recurring)
    recurring = _awaitable(Tidewheel.recurring)
    cancel_recurring = _awaitable(Tidewheel.cancel_recurring)

    # ---- receiving
    receive = _awaitable(Tidewheel.receive)
    delete = _awaitable(Tidewheel.delete)
