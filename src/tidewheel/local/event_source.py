"""Invokes functions with the messages of their queues, as event source mappings do.

| waiting | becomes |
|---|---|
| no batch window | an invocation once a message is receivable, with all receivable messages up to the batch size |
| a batch window | a buffer, opened by its first message; flushed when the window ends, or batch or 6 MB are full |

Messages are received when they enter the buffer, as by Lambda's pollers, so their visibility time-out starts then.
Messages of a failed function stay in flight: SQS shows the messages again after the time-out. Handled messages are
deleted.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidewheel.clock import Clock
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.memory.sqs_queue import MemoryQueue

_MAX_EVENT_BYTES = 6 * 1024 * 1024
_RECORD_BYTES = 800  # bytes of a record, except its body and the attributes' values

Failed = Mapping[str, Exception | None]
"""Failed messages of a batch, as SQS message id -> reason, if known. The other messages are handled."""

Run = Callable[[Sequence[MemoryMessage]], Failed]


class EventSource:
    """Polls a queue for a function.

    Attributes:
        function: the function's name.
        run: calls the function with a batch.
    """

    def __init__(
        self, queue: MemoryQueue, clock: Clock, *, function: str, run: Run, batch_size: int, window_ms: int = 0
    ) -> None:
        self.function = function
        self.run, self._queue, self._clock, self._batch_size, self._window_ms = run, queue, clock, batch_size, window_ms
        self._buffer: list[MemoryMessage] = []
        self._buffer_bytes = 0
        self._full = False
        self._opened_ms = 0

    def next_ms(self) -> int | None:
        """Time of the next receive or flush. None if there is none."""
        if self._full:
            return self._opened_ms
        ready_ms = self._queue.next_ready_ms()
        if not self._buffer:
            return ready_ms
        flush_ms = self._opened_ms + self._window_ms
        return flush_ms if ready_ms is None else min(ready_ms, flush_ms)

    def poll(self) -> list[MemoryMessage]:
        """Receives messages. Returns a complete batch, or an empty list."""
        now_ms = self._clock.now_ms()
        if not self._full:
            if not self._buffer:
                self._opened_ms = now_ms
            self._buffer += self._queue.take(self._batch_size - len(self._buffer), fits=self._fits)
            self._full = self._full or len(self._buffer) >= self._batch_size
        if not self._buffer or not (self._full or now_ms >= self._opened_ms + self._window_ms):
            return []
        batch, self._buffer, self._buffer_bytes, self._full = self._buffer, [], 0, False
        return batch

    def settle(self, batch: Sequence[MemoryMessage], failed: Failed) -> int:
        """Deletes the handled messages. Returns their number.

        The other messages become receivable again after the visibility time-out.
        """
        handled = [message for message in batch if message.id not in failed]
        for message in handled:
            assert message.receipt_handle is not None
            self._queue.delete(message.receipt_handle)
        return len(handled)

    def _fits(self, message: MemoryMessage) -> bool:
        record_bytes = _record_bytes(message)
        self._full = 0 < self._buffer_bytes > _MAX_EVENT_BYTES - record_bytes
        self._buffer_bytes += 0 if self._full else record_bytes
        return not self._full


def record_of(message: MemoryMessage, queue_arn: str) -> dict[str, Any]:
    """Returns a message as a record of the event."""
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": message.system_attributes,
        "messageAttributes": {
            name: {
                "stringValue": value.get("StringValue"),
                "binaryValue": base64.b64encode(value["BinaryValue"]).decode() if "BinaryValue" in value else None,
                "stringListValues": [],
                "binaryListValues": [],
                "dataType": value["DataType"],
            }
            for name, value in message.message_attributes.items()
        },
        "md5OfBody": hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": queue_arn.split(":")[3],
    }


def _record_bytes(message: MemoryMessage) -> int:
    """Returns the bytes that a message adds to the event, which is JSON. Binary values grow by a third."""
    content = len(json.dumps(message.body))
    for value in message.message_attributes.values():
        data = value.get("BinaryValue")
        content += len(json.dumps(value["StringValue"])) if data is None else -(-len(data) // 3) * 4
    return _RECORD_BYTES + content
