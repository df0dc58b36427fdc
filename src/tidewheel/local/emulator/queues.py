"""Makes SQS queues as fast as the demo needs.

Why: moto keeps a queue's messages in one list and walks the whole list at each send, receive and delete (sending
evaluates every queue attribute, and so counts the messages). At a depth of 20,000 this gives 80 messages a second.
Here a queue is a heap ordered by the time at which a message becomes receivable, and a dict by id. A receipt handle
names its message, so a delete needs no search. FIFO queues keep moto's own code.

Kept from moto: delay, visibility time-out, receive count, redrive, retention, purge, attributes. Changed, after the
SQS documentation: a stale receipt handle deletes nothing (moto deletes), and a message is receivable at the very
millisecond at which its delay or time-out ends (moto: one later).
"""

from __future__ import annotations

import copy
import heapq
import itertools
import uuid
from collections.abc import Callable, Generator
from typing import Any

from moto.sqs import models
from moto.sqs.constants import MAXIMUM_MESSAGE_LENGTH
from moto.sqs.exceptions import (
    InvalidParameterValue,
    ReceiptHandleIsInvalid,
)

_SECOND_MS = 1000
_MAX_DELAY_S = models.MAXIMUM_MESSAGE_DELAY
_MAX_VISIBILITY_MS = 43_200 * _SECOND_MS
_arrivals = itertools.count()


def time_ms() -> int:
    """Returns moto's current time."""
    return int(models.unix_time_millis())  # type: ignore[attr-defined]


class QueuedMessage(models.Message):
    """A message with the time at which it becomes receivable.

    `ready_at_ms` moves with each receive; `visible_at_ms` stays the value of the send.
    """

    def __new__(cls, *_: Any, **__: Any) -> QueuedMessage:
        """Makes the object."""
        # moto's version keeps every instance ever made in a list.
        return object.__new__(cls)

    def __init__(self, message_id: str, body: str, system_attributes: dict[str, Any] | None, ready_at_ms: int) -> None:
        super().__init__(message_id, body, system_attributes)
        self.arrival = next(_arrivals)
        self.sent_timestamp: int = time_ms()  # type: ignore[assignment]
        self.ready_at_ms = ready_at_ms
        self.visible_at_ms = ready_at_ms
        self.in_flight = False
        self.event_bytes: int | None = None
        self.source_arn: str | None = None
        self.payload_bytes = len(body) if body.isascii() else len(body.encode())

    def __copy__(self) -> QueuedMessage:
        twin = object.__new__(QueuedMessage)
        twin.__dict__.update(self.__dict__)
        return twin


class HeapQueue(models.Queue):
    """A standard queue. moto creates the object, then `adopt` changes its class."""

    _by_id: dict[str, QueuedMessage]
    _heap: list[tuple[int, int, QueuedMessage]]
    on_arrival: Callable[[], None]

    @staticmethod
    def adopt(queue: models.Queue, on_arrival: Callable[[], None]) -> None:
        """Turns a new queue of moto into a `HeapQueue`."""
        queue.__class__ = HeapQueue  # type: ignore[type-abstract]
        assert isinstance(queue, HeapQueue)
        queue._by_id = {}
        queue._heap = []
        queue.on_arrival = on_arrival

    def put(self, message: QueuedMessage) -> None:
        """Adds a message, or moves a message whose `ready_at_ms` changed."""
        self._by_id[message.id] = message
        heapq.heappush(self._heap, (message.ready_at_ms, message.arrival, message))

    def add_message(self, message: models.Message) -> None:
        """Takes a message from moto's own code (redrive, SNS)."""
        if not isinstance(message, QueuedMessage):
            made = QueuedMessage(message.id, message.body, message.system_attributes, time_ms())
            made.message_attributes = message.message_attributes
            message = made
        self.put(message)
        self.on_arrival()

    def next_ready_ms(self) -> int | None:
        """Returns when the next message becomes receivable, possibly in the past. Returns None for an empty queue."""
        heap = self._heap
        while heap:
            ready_at_ms, _, message = heap[0]
            if self._by_id.get(message.id) is message and message.ready_at_ms == ready_at_ms:
                return ready_at_ms
            heapq.heappop(heap)
        return None

    def visible_at_ms(self, message_id: str) -> int | None:
        """Returns when SQS first made a message receivable (the send time plus the delay). Returns None if deleted."""
        message = self._by_id.get(message_id)
        return message.visible_at_ms if message is not None else None

    def peek(self) -> QueuedMessage | None:
        """Returns the next message for `take`, if a message is receivable now."""
        ready_at_ms = self.next_ready_ms()
        return self._heap[0][2] if ready_at_ms is not None and ready_at_ms <= time_ms() else None

    def take(self, count: int, visibility_timeout_s: int) -> Generator[QueuedMessage]:
        """Yields up to count receivable messages, oldest first, and puts them in flight.

        Messages received too often go to the dead-letter queue.
        """
        now_ms = time_ms()
        oldest_ms = now_ms - self.message_retention_period * _SECOND_MS  # type: ignore[attr-defined]
        limit = self.redrive_policy["maxReceiveCount"] if self.dead_letter_queue and self.redrive_policy else None
        taken: list[QueuedMessage] = []
        try:
            while len(taken) < count:
                ready_at_ms = self.next_ready_ms()
                if ready_at_ms is None or ready_at_ms > now_ms:
                    return
                message = heapq.heappop(self._heap)[2]
                if message.sent_timestamp <= oldest_ms:
                    del self._by_id[message.id]
                    continue
                if limit is not None and message.approximate_receive_count >= limit:
                    del self._by_id[message.id]
                    message.in_flight = False
                    message.ready_at_ms = now_ms
                    message.source_arn = self.queue_arn
                    self.dead_letter_queue.add_message(message)  # type: ignore[union-attr]
                    continue
                taken.append(message)
                self._mark_received(message, now_ms, visibility_timeout_s)
                yield message
        finally:
            # Only now: otherwise a visibility time-out of 0 would give a message twice in one call.
            for message in taken:
                if self._by_id.get(message.id) is message:
                    heapq.heappush(self._heap, (message.ready_at_ms, message.arrival, message))

    def _mark_received(self, message: QueuedMessage, now_ms: int, visibility_timeout_s: int) -> None:
        message.approximate_receive_count += 1
        message.approximate_first_receive_timestamp = message.approximate_first_receive_timestamp or now_ms
        message.in_flight = visibility_timeout_s > 0
        message.ready_at_ms = now_ms + visibility_timeout_s * _SECOND_MS
        message.receipt_handle = f"{self.name}/{message.id}/{message.approximate_receive_count}"

    def _by_handle(self, receipt_handle: str) -> QueuedMessage | None:
        """Returns the message of its newest handle. Returns None if deleted, moved or received again."""
        parts = receipt_handle.split("/")
        if len(parts) != 3 or parts[0] != self.name:
            raise ReceiptHandleIsInvalid
        message_id = parts[1]
        message = self._by_id.get(message_id)
        return message if message is not None and message.receipt_handle == receipt_handle else None

    def delete_message(self, receipt_handle: str) -> None:
        """Deletes a message by handle. A stale handle deletes nothing.

        The SQS documentation says that such a delete succeeds.
        """
        message = self._by_handle(receipt_handle)
        if message is not None:
            del self._by_id[message.id]

    def change_visibility(self, receipt_handle: str, visibility_timeout_s: int) -> None:
        """Changes the visibility time-out of a message in flight."""
        message = self._by_handle(receipt_handle)
        if message is None:
            raise ReceiptHandleIsInvalid
        now_ms = time_ms()
        ready_at_ms = now_ms + visibility_timeout_s * _SECOND_MS
        if ready_at_ms - message.sent_timestamp > _MAX_VISIBILITY_MS:
            raise InvalidParameterValue(
                f"Value {visibility_timeout_s} for parameter VisibilityTimeout is invalid. Reason: Total "
                "VisibilityTimeout for the message is beyond the limit [43200 seconds]"
            )
        message.ready_at_ms = ready_at_ms
        message.in_flight = visibility_timeout_s > 0
        self.put(message)
        self.on_arrival()

    def move_all(self, destination: Callable[[QueuedMessage], HeapQueue | None]) -> int:
        """Moves all receivable messages as new messages. Returns their number.

        Args:
            destination: returns the message's new queue; None: the message stays.
        """
        moved = 0
        now_ms = time_ms()
        for message in sorted(self._live(), key=lambda each: (each.ready_at_ms, each.arrival)):
            to = None if message.ready_at_ms > now_ms else destination(message)
            if to is not None:
                del self._by_id[message.id]
                again = QueuedMessage(str(uuid.uuid4()), message.body, message.system_attributes, now_ms)
                again.message_attributes = message.message_attributes
                again.payload_bytes = message.payload_bytes
                to.add_message(again)
                moved += 1
        return moved

    def purge(self) -> None:
        """Deletes all messages."""
        self._by_id.clear()
        self._heap.clear()

    def _live(self) -> list[QueuedMessage]:
        oldest_ms = time_ms() - self.message_retention_period * _SECOND_MS  # type: ignore[attr-defined]
        return [message for message in self._by_id.values() if message.sent_timestamp > oldest_ms]

    @property
    def messages(self) -> list[models.Message]:
        """The receivable messages."""
        now_ms = time_ms()
        return [message for message in self._live() if message.ready_at_ms <= now_ms]

    @property
    def approximate_number_of_messages(self) -> int:
        """Number of receivable messages."""
        return len(self.messages)

    @property
    def approximate_number_of_messages_delayed(self) -> int:
        """Number of delayed messages."""
        now_ms = time_ms()
        return sum(not message.in_flight and message.ready_at_ms > now_ms for message in self._live())

    @property
    def approximate_number_of_messages_not_visible(self) -> int:
        """Number of messages in flight."""
        now_ms = time_ms()
        return sum(message.in_flight and message.ready_at_ms > now_ms for message in self._live())


def new_message(
    queue: HeapQueue,
    body: str,
    delay_s: int | None,
    attributes: dict[str, Any] | None = None,
    system_attributes: dict[str, Any] | None = None,
) -> QueuedMessage:
    """Checks and makes a message for a queue. The caller puts the message into the queue.

    Raises:
        InvalidParameterValue: the delay is not 0 to 900 s, or the message is too long.
    """
    delay_s = int(queue.delay_seconds if delay_s is None else delay_s)  # type: ignore[attr-defined]
    if not 0 <= delay_s <= _MAX_DELAY_S:
        raise InvalidParameterValue(
            f"Value {delay_s} for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
        )
    message = QueuedMessage(str(uuid.uuid4()), body, system_attributes, time_ms() + delay_s * _SECOND_MS)
    longest = min(queue.maximum_message_size, MAXIMUM_MESSAGE_LENGTH)  # type: ignore[attr-defined]
    message.payload_bytes += attribute_bytes(attributes)
    if message.payload_bytes > longest:
        raise InvalidParameterValue(
            f"One or more parameters are invalid. Reason: Message must be shorter than {longest} bytes."
        )
    if attributes:
        message.message_attributes = attributes
    return message


def attribute_bytes(attributes: dict[str, Any] | None) -> int:
    """Returns the size of message attributes as SQS counts (names, types and values)."""
    total = 0
    for name, value in (attributes or {}).items():
        content = value.get("StringValue") or value.get("BinaryValue") or ""
        total += len(name) + len(value.get("DataType", "")) + len(content)
    return total


def received_copy(message: QueuedMessage, attribute_names: list[str]) -> QueuedMessage:
    """Returns a copy for the receiver, with only the requested attributes."""
    twin = copy.copy(message)
    if message.message_attributes:
        models._filter_message_attributes(twin, attribute_names)
    return twin
