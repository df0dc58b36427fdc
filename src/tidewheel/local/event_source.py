"""Invokes functions with the messages of their queues, as event source mappings do.

| waiting | becomes |
|---|---|
| no batch window | an invocation as soon as a message is receivable, with all receivable messages up to the batch size
|
| a batch window | a buffer, opened by its first message; flushed when the window ends, or batch or 6 MB are full |

Messages are received when they enter the buffer, as by Lambda's pollers, so their visibility time-out starts then.
Messages of a failed handler stay in flight: SQS shows the messages again after the time-out. Handled messages are
deleted.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from tidewheel.clock import Clock
from tidewheel.local.emulator import REGION, HeapQueue, QueuedMessage

_MAX_EVENT_BYTES = 6 * 1024 * 1024
_RECORD_BYTES = 800  # bytes of a record, except its body and the attributes' values


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSpec:
    """Describes a mapping in the template."""

    queue_arn: str
    function_arn: str
    batch_size: int
    window_ms: int
    reports_failures: bool


class EventSourceMapping:
    """Polls a queue for a function."""

    def __init__(self, spec: MappingSpec, queue: HeapQueue, clock: Clock) -> None:
        self.spec = spec
        self._queue = queue
        self._clock = clock
        self._buffer: list[QueuedMessage] = []
        self._buffer_bytes = 0
        self._full = False
        self._opened_ms = 0

    def next_ms(self) -> int | None:
        """Time of this mapping's next receive or flush."""
        if self._full:
            return self._opened_ms
        ready_ms = self._queue.next_ready_ms()
        if not self._buffer:
            return ready_ms
        flush_ms = self._opened_ms + self.spec.window_ms
        return flush_ms if ready_ms is None else min(ready_ms, flush_ms)

    def poll(self) -> list[QueuedMessage]:
        """Receives messages. Returns a complete batch, or an empty list."""
        now_ms = self._clock.now_ms()
        if not self._full:
            self._fill(now_ms)
        if not self._buffer or not (self._full or now_ms >= self._opened_ms + self.spec.window_ms):
            return []
        batch, self._buffer = self._buffer, []
        self._buffer_bytes = 0
        self._full = False
        return batch

    def event(self, batch: list[QueuedMessage]) -> dict[str, Any]:
        """Returns the function's event for a batch."""
        return {"Records": [_record(message, self.spec.queue_arn) for message in batch]}

    def settle(self, batch: list[QueuedMessage], answer: Any) -> int:
        """Deletes the handled messages. Returns their number.

        The other messages become visible again after the visibility time-out.

        Raises:
            ValueError: the answer names failures in a way that Lambda does not understand: nothing is deleted then.
        """
        failed = _failed_ids(answer, {message.id for message in batch}) if self.spec.reports_failures else set()
        handled = [message for message in batch if message.id not in failed]
        for message in handled:
            assert message.receipt_handle is not None
            self._queue.delete_message(message.receipt_handle)
        return len(handled)

    def _fill(self, now_ms: int) -> None:
        room = self.spec.batch_size - len(self._buffer)
        visibility_s = int(self._queue.visibility_timeout)  # type: ignore[attr-defined]
        taking = self._queue.take(room, visibility_s)
        for message in taking:
            if not self._buffer:
                self._opened_ms = now_ms
            self._buffer.append(message.__copy__())
            self._buffer_bytes += _record_bytes(message)
            following = self._queue.peek()
            if following is not None and self._buffer_bytes + _record_bytes(following) > _MAX_EVENT_BYTES:
                self._full = True
                break
        taking.close()
        self._full = self._full or len(self._buffer) >= self.spec.batch_size


def _record_bytes(message: QueuedMessage) -> int:
    """Returns the bytes that a message adds to the event, computed once per message."""
    if message.event_bytes is None:
        content = len(json.dumps(message.body))
        for value in message.message_attributes.values():
            binary = value.get("BinaryValue")
            content += len(json.dumps(value["StringValue"])) if binary is None else -(-len(binary) // 3) * 4
        message.event_bytes = _RECORD_BYTES + content
    return message.event_bytes


def _record(message: QueuedMessage, queue_arn: str) -> dict[str, Any]:
    attributes = {
        "ApproximateReceiveCount": str(message.approximate_receive_count),
        "SentTimestamp": str(message.sent_timestamp),
        "SenderId": message.sender_id,
        "ApproximateFirstReceiveTimestamp": str(message.approximate_first_receive_timestamp),
    }
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": attributes,
        "messageAttributes": {
            name: {
                "stringValue": value.get("StringValue"),
                "binaryValue": _base64(value.get("BinaryValue")),
                "stringListValues": [],
                "binaryListValues": [],
                "dataType": value["DataType"],
            }
            for name, value in message.message_attributes.items()
        },
        "md5OfBody": message.body_md5,
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    }


def _base64(value: bytes | str | None) -> str | None:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _failed_ids(answer: Any, known: set[str]) -> set[str]:
    """Reads a partial batch answer as Lambda does.

    No answer means success. A malformed answer means failure of all messages.
    """
    if answer is None or answer == {}:
        return set()
    if not isinstance(answer, dict):
        raise ValueError(f"a partial batch answer is an object, not {answer!r}")
    failures = answer.get("batchItemFailures")
    if failures is None:
        return set()
    ids: set[Any] = {failure.get("itemIdentifier") if isinstance(failure, dict) else None for failure in failures}
    if not ids <= known:
        raise ValueError(f"a partial batch answer names messages that were not in the batch: {ids - known}")
    return ids
