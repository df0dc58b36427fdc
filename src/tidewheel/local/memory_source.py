"""Invokes a function with messages of a queue in memory, under Lambda's batch limits.

The limits are batch size, batch window and 6 MB. Messages are taken when they enter the buffer, so their visibility
time-out starts then. The buffer is flushed when it is full, or when the window opened by its first message ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidewheel.clock import Clock
from tidewheel.local.memory_functions import Failed
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.memory.sqs_queue import MemoryQueue

_MAX_EVENT_BYTES = 6 * 1024 * 1024
_RECORD_BYTES = 800  # bytes of a record, except its body and the attributes' values


class MemorySource:
    """Polls a queue for a function.

    Attributes:
        function: the function's name.
        run: the function.
    """

    def __init__(
        self,
        queue: MemoryQueue,
        clock: Clock,
        *,
        function: str,
        run: Callable[[Sequence[MemoryMessage]], Failed],
        batch_size: int,
        window_ms: int = 0,
    ) -> None:
        self.function = function
        self.run = run
        self._queue = queue
        self._clock = clock
        self._batch_size = batch_size
        self._window_ms = window_ms
        self._buffer: list[MemoryMessage] = []
        self._buffer_bytes = 0
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
        """Takes messages. Returns a complete batch, or an empty list."""
        now_ms = self._clock.now_ms()
        while not self._full:
            taken = self._queue.take(1)
            if not taken:
                break
            if not self._buffer:
                self._opened_ms = now_ms
            self._buffer += taken
            self._buffer_bytes += _record_bytes(taken[0])
        if not self._buffer or not (self._full or now_ms >= self._opened_ms + self._window_ms):
            return []
        batch, self._buffer, self._buffer_bytes = self._buffer, [], 0
        return batch

    def settle(self, handled: Iterable[MemoryMessage]) -> None:
        """Deletes the handled messages. The others become receivable again after the time-out."""
        for message in handled:
            assert message.receipt_handle is not None
            self._queue.delete(message.receipt_handle)

    @property
    def _full(self) -> bool:
        if len(self._buffer) >= self._batch_size:
            return True
        following = self._queue.peek() if self._buffer else None
        return following is not None and self._buffer_bytes + _record_bytes(following) > _MAX_EVENT_BYTES


def _record_bytes(message: MemoryMessage) -> int:
    """Returns the bytes that a message adds to the event. Binary values grow by a third."""
    content = len(message.body)
    for value in message.message_attributes.values():
        data = value.get("BinaryValue")
        content += len(value["StringValue"]) if data is None else -(-len(data) // 3) * 4
    return _RECORD_BYTES + content
