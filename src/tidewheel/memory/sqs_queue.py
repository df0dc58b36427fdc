"""Implements a standard queue in memory.

    put --delay--> receivable --take--> in flight --visibility time-out--> receivable
                       |                    +------ delete ------> gone
                       +-- taken maxReceiveCount times already: to the dead-letter queue
                       +-- older than the retention period: gone

Messages are received in the order in which they become receivable, then in the order of arrival. Their groups, which
make a queue of SQS fair, do not change the order.
"""

from __future__ import annotations

import copy
import heapq
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tidewheel.errors import SqsError
from tidewheel.memory.sqs_message import Attributes, MemoryMessage, bad_parameter, check_message
from tidewheel.model.message import SQS_MAX_BYTES
from tidewheel.model.settings import SQS_MAX_DELAY_S

if TYPE_CHECKING:
    from tidewheel.memory.sqs import MemorySqs

REGION = "us-east-1"
ACCOUNT = "123456789012"
MAX_VISIBILITY_S = 43_200
DEFAULTS: Mapping[str, str] = {
    "DelaySeconds": "0",
    "MaximumMessageSize": str(SQS_MAX_BYTES),
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "30",
}
"""A new queue's attributes, with SQS's names."""
RANGES = {
    "DelaySeconds": (0, SQS_MAX_DELAY_S),
    "MaximumMessageSize": (1024, SQS_MAX_BYTES),
    "MessageRetentionPeriod": (60, 14 * 86_400),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "VisibilityTimeout": (0, MAX_VISIBILITY_S),
}
_KEPT = ("KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "Policy", "RedriveAllowPolicy", "RedrivePolicy")


class MemoryQueue:
    """A standard queue. Safe for use by several threads.

    Attributes:
        name, url, arn: `MemorySqs.queue` finds the queue by any of these.
        tags: the queue's cost allocation tags.
        created_at_ms: when the queue was created.
    """

    def __init__(self, sqs: MemorySqs, name: str, tags: Mapping[str, str]) -> None:
        self.name = name
        self.url = f"https://sqs.{sqs.region}.amazonaws.com/{sqs.account_id}/{name}"
        self.arn = f"arn:aws:sqs:{sqs.region}:{sqs.account_id}:{name}"
        self.tags = dict(tags)
        self.created_at_ms = sqs.clock.now_ms()
        self._sqs = sqs
        self._attributes = dict(DEFAULTS)
        self._redrive: tuple[str, int] | None = None
        self._by_id: dict[str, MemoryMessage] = {}
        self._heap: list[tuple[int, int, MemoryMessage]] = []

    # ---- attributes
    @property
    def attributes(self) -> dict[str, str]:
        """A copy of all attributes, set or by default."""
        with self._sqs.lock:
            return dict(self._attributes)

    def set_attributes(self, attributes: Mapping[str, str]) -> None:
        """Changes attributes. An empty text removes the attribute.

        Raises:
            SqsError: SQS has no such attribute, or does not accept the value; nothing was changed.
        """
        redrive = self._redrive
        for name, value in attributes.items():
            check_attribute(name, value)
            if name == "RedrivePolicy":
                redrive = _redrive_policy(value) if value else None
        with self._sqs.lock:
            for name, value in attributes.items():
                if value:
                    self._attributes[name] = value
                else:
                    self._attributes.pop(name, None)
            self._redrive = redrive

    @property
    def dead_letters(self) -> MemoryQueue | None:
        """The dead-letter queue, or None."""
        return None if self._redrive is None else self._sqs.known.get(name_of(self._redrive[0]))

    def number(self, attribute: str) -> int:
        """Returns an attribute's value in SQS's unit (seconds, bytes)."""
        return int(self._attributes[attribute])

    # ---- messages
    def put(
        self,
        body: str,
        attributes: Attributes | None = None,
        delay_s: int | None = None,
        system_attributes: Mapping[str, str] | None = None,
    ) -> MemoryMessage:
        """Accepts a message.

        Args:
            body: the message's text.
            attributes: at most ten.
            delay_s: from 0 to 900; None: the queue's own delay.
            system_attributes: returned with the message, such as AWSTraceHeader.

        Raises:
            SqsError: SQS would refuse the message.
        """
        attributes = attributes or {}
        delay_s = self.number("DelaySeconds") if delay_s is None else delay_s
        size = check_message(body, attributes, delay_s, self.number("MaximumMessageSize"))
        with self._sqs.lock:
            now_ms = self._sqs.clock.now_ms()
            number = next(self._sqs.numbers)
            message = MemoryMessage(
                id=f"00000000-0000-4000-8000-{number:012x}",
                body=body,
                message_attributes=attributes,
                size_bytes=size,
                arrival=number,
                sent_at_ms=now_ms,
                ready_at_ms=now_ms + delay_s * 1000,
                visible_at_ms=now_ms + delay_s * 1000,
                sent_system_attributes=system_attributes or {},
            )
            self._add(message)
            return message

    def take(
        self, count: int = 1, visibility_s: int | None = None, *, fits: Callable[[MemoryMessage], bool] | None = None
    ) -> list[MemoryMessage]:
        """Receives up to `count` messages in their order, and returns copies.

        Messages received maxReceiveCount times already go to the dead-letter queue. Messages older than the retention
        period are deleted.

        Args:
            count: maximum number of messages.
            visibility_s: how long the messages are hidden from other receivers; None: the queue's own time.
            fits: decides whether the next message is taken; None: always. The first False ends the receive.
        """
        visibility_s = self.number("VisibilityTimeout") if visibility_s is None else visibility_s
        taken: list[MemoryMessage] = []
        with self._sqs.lock:
            now_ms = self._sqs.clock.now_ms()
            dead_letters, limit = self.dead_letters, 0 if self._redrive is None else self._redrive[1]
            while len(taken) < count:
                if not self._prune() or self._heap[0][0] > now_ms:
                    break
                message = self._heap[0][2]
                if message.sent_at_ms <= self._expired_ms(now_ms):
                    self._remove(message)
                elif dead_letters is not None and message.receive_count >= limit:
                    self._remove(message)
                    dead_letters.bury(message, self.arn, now_ms)
                elif fits is None or fits(message):
                    heapq.heappop(self._heap)
                    self._mark_taken(message, now_ms, visibility_s)
                    taken.append(message)
                else:
                    break
            # After the loop, so that a visibility time-out of 0 does not return a message twice in the same call.
            for message in taken:
                if visibility_s == 0:  # behind the others that are receivable now
                    message.arrival = next(self._sqs.numbers)
                heapq.heappush(self._heap, (message.ready_at_ms, message.arrival, message))
                self._sqs.touched(self.name, message.id)
            return [copy.copy(message) for message in taken]

    def delete(self, receipt_handle: str) -> None:
        """Deletes a message. A stale handle deletes nothing and is no error, as SQS documents.

        Raises:
            SqsError: the handle is not from this queue.
        """
        with self._sqs.lock:
            message = self._by_handle(receipt_handle)
            if message is not None:
                self._remove(message)

    def change_visibility(self, receipt_handle: str, visibility_s: int) -> None:
        """Makes a message in flight receivable after a number of seconds.

        Raises:
            SqsError: the handle is not of the last receive, or SQS does not accept the time.
        """
        if not 0 <= visibility_s <= MAX_VISIBILITY_S:
            reason = f"VisibilityTimeout must be >= 0 and <= {MAX_VISIBILITY_S}."
            raise bad_parameter("VisibilityTimeout", visibility_s, reason)
        with self._sqs.lock:
            message = self._by_handle(receipt_handle)
            now_ms = self._sqs.clock.now_ms()
            if message is None or not message.in_flight or message.ready_at_ms <= now_ms:
                reason = "Message does not exist or is not available for visibility timeout change."
                raise bad_parameter("ReceiptHandle", receipt_handle, reason)
            message.in_flight = visibility_s > 0
            ready_at_ms = now_ms + visibility_s * 1000
            if ready_at_ms != message.ready_at_ms:
                message.ready_at_ms = ready_at_ms
                self._keep(message)
            self._sqs.touched(self.name, message.id)

    def end_receives(self) -> None:
        """Makes all messages in flight receivable, since their receiver is gone."""
        with self._sqs.lock:
            now_ms = self._sqs.clock.now_ms()
            for message in [each for each in self._by_id.values() if each.in_flight and each.ready_at_ms > now_ms]:
                message.in_flight, message.ready_at_ms = False, now_ms
                self._keep(message)
                self._sqs.touched(self.name, message.id)

    def purge(self) -> None:
        """Deletes all messages."""
        with self._sqs.lock:
            for message in list(self._by_id.values()):
                self._remove(message)
            self._heap.clear()

    def move_all(self, destination: Callable[[MemoryMessage], MemoryQueue | None]) -> int:
        """Moves all messages not in flight, as new messages. Returns the number.

        Args:
            destination: returns the target queue of a message; None: the message stays.
        """
        with self._sqs.lock:
            now_ms = self._sqs.clock.now_ms()
            moved = 0
            for message in sorted(self._live(now_ms), key=lambda each: (each.ready_at_ms, each.arrival)):
                to = None if message.ready_at_ms > now_ms else destination(message)
                if to is not None:
                    self._remove(message)
                    to.put(message.body, message.message_attributes, 0, message.sent_system_attributes)
                    moved += 1
            return moved

    # ---- looking at it
    def next_ready_ms(self) -> int | None:
        """When the next message can be received (maybe long ago), or None if the queue is empty."""
        with self._sqs.lock:
            return self._heap[0][0] if self._prune() else None

    def find(self, message_id: str) -> MemoryMessage | None:
        """Returns the message with an id, or None."""
        return self._by_id.get(message_id)

    def restore(self, message: MemoryMessage) -> None:
        """Puts a message of an earlier process back unchanged."""
        with self._sqs.lock:
            self._keep(message)

    def visible_at_ms(self, message_id: str) -> int | None:
        """When SQS made a message receivable for the first time, or None if the message is gone.

        This time is the sending time plus the delay.
        """
        with self._sqs.lock:
            message = self._by_id.get(message_id)
            return None if message is None else message.visible_at_ms

    @property
    def everything(self) -> list[MemoryMessage]:
        """Copies of all messages in order of arrival, with delayed messages and messages in flight."""
        with self._sqs.lock:
            live = self._live(self._sqs.clock.now_ms())
            return [copy.copy(message) for message in sorted(live, key=lambda each: each.arrival)]

    @property
    def messages(self) -> list[MemoryMessage]:
        """Copies of the receivable messages, oldest first."""
        now_ms = self._sqs.clock.now_ms()
        ready = [message for message in self.everything if message.ready_at_ms <= now_ms]
        return sorted(ready, key=lambda each: (each.ready_at_ms, each.arrival))

    @property
    def approximate_number_of_messages(self) -> int:
        """The exact number of receivable messages."""
        return self._count(lambda message, now_ms: message.ready_at_ms <= now_ms)

    @property
    def approximate_number_of_messages_delayed(self) -> int:
        """The number of messages whose delay has not ended."""
        return self._count(lambda message, now_ms: message.ready_at_ms > now_ms and not message.in_flight)

    @property
    def approximate_number_of_messages_not_visible(self) -> int:
        """The number of messages in flight."""
        return self._count(lambda message, now_ms: message.ready_at_ms > now_ms and message.in_flight)

    def _count(self, applies: Callable[[MemoryMessage, int], bool]) -> int:
        with self._sqs.lock:
            now_ms = self._sqs.clock.now_ms()
            return sum(applies(message, now_ms) for message in self._live(now_ms))

    # ---- inside
    def _live(self, now_ms: int) -> list[MemoryMessage]:
        expired_ms = self._expired_ms(now_ms)
        return [message for message in self._by_id.values() if message.sent_at_ms > expired_ms]

    def _expired_ms(self, now_ms: int) -> int:
        """Returns the sending time of the latest expired message."""
        return now_ms - self.number("MessageRetentionPeriod") * 1000

    def _add(self, message: MemoryMessage) -> None:
        self._keep(message)
        self._sqs.touched(self.name, message.id)

    def _remove(self, message: MemoryMessage) -> None:
        del self._by_id[message.id]
        self._sqs.touched(self.name, message.id)

    def _keep(self, message: MemoryMessage) -> None:
        self._by_id[message.id] = message
        heapq.heappush(self._heap, (message.ready_at_ms, message.arrival, message))
        self._sqs.lock.notify_all()

    def _prune(self) -> bool:
        """Removes entries of moved and deleted messages from the heap's front. Returns whether an entry is left."""
        while self._heap:
            ready_at_ms, _, message = self._heap[0]
            if self._by_id.get(message.id) is message and message.ready_at_ms == ready_at_ms:
                return True
            heapq.heappop(self._heap)
        return False

    def _mark_taken(self, message: MemoryMessage, now_ms: int, visibility_s: int) -> None:
        message.receive_count += 1
        if message.first_received_at_ms is None:
            message.first_received_at_ms = now_ms
        message.in_flight = visibility_s > 0
        message.ready_at_ms = now_ms + visibility_s * 1000
        message.receipt_handle = f"{self.name}/{message.id}/{message.receive_count}"

    def bury(self, message: MemoryMessage, source_arn: str, now_ms: int) -> None:
        message.source_arn = source_arn
        message.in_flight = False
        message.ready_at_ms = now_ms
        self._add(message)

    def _by_handle(self, receipt_handle: str) -> MemoryMessage | None:
        name, _, rest = receipt_handle.partition("/")
        if name != self.name or "/" not in rest:
            raise SqsError("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
        message = self._by_id.get(rest.partition("/")[0])
        return message if message is not None and message.receipt_handle == receipt_handle else None


def name_of(url: str) -> str:
    """Returns the name in a queue's URL or ARN. A name is returned unchanged."""
    return url.rpartition(":")[2] if url.startswith("arn:") else url.rpartition("/")[2]


def check_attribute(name: str, value: str) -> None:
    """Raises SqsError if a queue has no such attribute, or SQS does not accept its value."""
    if name in RANGES:
        least, most = RANGES[name]
        if not value.isdecimal() or not least <= int(value) <= most:
            raise SqsError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
    elif name not in _KEPT and name not in DEFAULTS:
        raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")


def _redrive_policy(text: str) -> tuple[str, int]:
    """Returns the dead-letter queue's ARN and the maximum receive count."""
    try:
        policy = json.loads(text)
        return str(policy["deadLetterTargetArn"]), int(policy["maxReceiveCount"])
    except (ValueError, KeyError, TypeError):
        raise bad_parameter("RedrivePolicy", text, "give deadLetterTargetArn and maxReceiveCount as JSON.") from None
