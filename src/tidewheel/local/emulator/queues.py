"""Stores the messages of moto's SQS queues in `MemoryQueue`s.

Why: moto keeps a queue's messages in one list and walks the whole list at each send, receive and delete. At a depth of
20,000 this gives 80 messages a second. moto also cannot move dead letters back to their source queues.

moto keeps the queues themselves: names, attributes, policies and tags. `MemorySqsClient` answers the operations on
messages, as it does for `MemoryTidewheel`. FIFO queues keep moto's own code.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Condition
from typing import Any

from botocore.exceptions import ClientError
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.core.utils import camelcase_to_underscores
from moto.sqs import models
from moto.sqs.exceptions import SQSException
from moto.sqs.responses import SQSResponse

from tidewheel.clock import Clock
from tidewheel.errors import SqsError
from tidewheel.local.emulator.patching import Patches
from tidewheel.local.emulator.wire import REGION, client_has_gone
from tidewheel.memory.sqs import MemorySqs
from tidewheel.memory.sqs_client import MemorySqsClient
from tidewheel.memory.sqs_queue import RANGES, MemoryQueue, check_attribute

_ON_MESSAGES = (
    "change_message_visibility",
    "change_message_visibility_batch",
    "delete_message",
    "delete_message_batch",
    "list_message_move_tasks",
    "receive_message",
    "send_message",
    "send_message_batch",
    "start_message_move_task",
)


@contextmanager
def _told_by_moto() -> Iterator[None]:
    try:
        yield
    except SqsError as error:
        raise SQSException(error.code, error.message) from None


def _checking(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Lets an operation of moto refuse the attributes that no standard queue has."""

    def answer(response: Any) -> Any:
        params = response.params
        if not str(params.get("QueueName") or params.get("QueueUrl")).endswith(".fifo"):
            with _told_by_moto():
                for each in params.get("Attributes", {}).items():
                    check_attribute(*each)
        return own(response)

    return answer


class EmulatedQueue(models.Queue):
    """A standard queue of moto, with its messages in memory."""

    memory: MemoryQueue

    def _set_attributes(self, attributes: dict[str, Any], now: float | None = None) -> None:
        super()._set_attributes(attributes, now)
        self.copy_attributes()

    def copy_attributes(self) -> None:
        """Gives the queue in memory the attributes that concern messages."""
        values = {name: str(getattr(self, camelcase_to_underscores(name))) for name in RANGES}
        redrive = json.dumps(self.redrive_policy) if self.redrive_policy else ""
        with _told_by_moto():
            self.memory.set_attributes({**values, "RedrivePolicy": redrive})

    @property
    def approximate_number_of_messages(self) -> int:
        """Number of receivable messages."""
        return self.memory.approximate_number_of_messages

    @property
    def approximate_number_of_messages_delayed(self) -> int:
        """Number of delayed messages."""
        return self.memory.approximate_number_of_messages_delayed

    @property
    def approximate_number_of_messages_not_visible(self) -> int:
        """Number of messages in flight."""
        return self.memory.approximate_number_of_messages_not_visible


class EmulatedSqs:
    """Holds the queues in memory of each account and Region.

    Args:
        clock: the queues' time.
        changed: notified when a message arrives; long polls wait on this condition, which releases its lock meanwhile.
        virtual: with a clock that stands still, long polls answer at once (they would never end).

    Attributes:
        touched: called with the queue and id of each message that changes.
    """

    def __init__(self, clock: Clock, changed: Condition, *, virtual: bool) -> None:
        self._clock, self._changed, self._virtual = clock, changed, virtual
        self._clients: dict[tuple[str, str], MemorySqsClient] = {}
        self._number = 0
        self.touched: Callable[[str, str], None] = lambda *_: None

    def number_from(self, first: int) -> None:
        """Sets the number of the next message. Numbers are in the messages' ids."""
        self._number = first

    def _numbers(self) -> Iterator[int]:
        while True:
            self._number += 1
            yield self._number - 1

    def _touch(self, queue: str, message: str) -> None:
        self.touched(queue, message)

    def at(self, account_id: str = DEFAULT_ACCOUNT_ID, region: str = REGION) -> MemorySqsClient:
        """Returns the client of an account's queues."""
        key = account_id, region
        if key not in self._clients:
            sqs = MemorySqs(
                self._clock,
                changed=self._changed,
                account_id=account_id,
                region=region,
                numbers=self._numbers(),
                touched=self._touch,
            )
            self._clients[key] = MemorySqsClient(sqs)
        return self._clients[key]

    def install(self, patches: Patches) -> None:
        """Replaces moto's operations on messages."""
        patches.set(models, "unix_time", lambda: self._clock.now_ms() // 1000)
        self._adopt_queues(patches)
        for name in ("create_queue", "set_queue_attributes"):
            patches.set(SQSResponse, name, _checking(getattr(SQSResponse, name)))
        for name in _ON_MESSAGES:
            own: Any = getattr(SQSResponse, name, None)
            patches.set(SQSResponse, name, self._answering(name, own))

    def _adopt_queues(self, patches: Patches) -> None:
        backend = models.SQSBackend
        create, delete = backend.create_queue, backend.delete_queue
        purge, send = backend.purge_queue, backend.send_message

        def create_queue(self_: Any, name: str, tags: dict[str, str] | None = None, **attributes: Any) -> models.Queue:
            known = name in self_.queues
            queue = create(self_, name, tags, **attributes)
            if not known and not queue.fifo_queue:
                queue.__class__ = EmulatedQueue  # type: ignore[type-abstract]
                assert isinstance(queue, EmulatedQueue)
                queue.memory = self.at(self_.account_id, self_.region_name).sqs.create_queue(name)
                queue.copy_attributes()
            return queue

        def delete_queue(self_: Any, queue_name: str) -> None:
            queue = self_.get_queue(queue_name)
            delete(self_, queue_name)
            if isinstance(queue, EmulatedQueue):
                self.at(self_.account_id, self_.region_name).sqs.delete_queue(queue_name)

        def purge_queue(self_: Any, queue_name: str) -> None:
            queue = self_.get_queue(queue_name)
            purge(self_, queue_name)
            if isinstance(queue, EmulatedQueue):
                queue.memory.purge()

        def send_message(self_: Any, queue_name: str, message_body: str, **options: Any) -> Any:
            # Other services of moto (SNS, EventBridge) send by this.
            queue = self_.get_queue(queue_name)
            if not isinstance(queue, EmulatedQueue):
                return send(self_, queue_name, message_body, **options)
            return queue.memory.put(message_body, options.get("message_attributes"), options.get("delay_seconds"))

        patches.set(backend, "create_queue", create_queue)
        patches.set(backend, "delete_queue", delete_queue)
        patches.set(backend, "purge_queue", purge_queue)
        patches.set(backend, "send_message", send_message)

    def _answering(self, name: str, own: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
        """Returns the method of moto's SQS that answers an operation on messages."""

        def answer(response: Any) -> Any:
            request = dict(response.params)
            if own is not None:
                request["QueueUrl"] = response._get_queue_name()  # noqa: SLF001  # moto has no other
                if not isinstance(response.sqs_backend.get_queue(request["QueueUrl"]), EmulatedQueue):
                    return own(response)
            client = self.at(response.current_account, response.region)
            ask = partial(getattr(client, name), **request)
            try:
                return ActionResult(self._waiting(client, request, ask) if name == "receive_message" else ask())
            except ClientError as error:
                raise SQSException(error.response["Error"]["Code"], error.response["Error"]["Message"]) from None

        return answer

    def _waiting(self, client: MemorySqsClient, request: dict[str, Any], ask: Callable[[], Any]) -> Any:
        """Receives messages by a long poll. A client that has gone takes nothing."""
        own_s = client.sqs.queue(request["QueueUrl"]).number("ReceiveMessageWaitTimeSeconds")
        wait_s = 0 if self._virtual else request.get("WaitTimeSeconds", own_s)
        deadline = time.monotonic() + wait_s
        while True:
            if client_has_gone():
                return {}
            answer, left_s = ask(), deadline - time.monotonic()
            if answer or left_s <= 0:
                return answer
            ready_ms = client.sqs.queue(request["QueueUrl"]).next_ready_ms()
            if ready_ms is not None:
                left_s = min(left_s, max(0.001, (ready_ms - self._clock.now_ms()) / 1000))
            with self._changed:
                self._changed.wait(left_s)
