"""Gathers messages in a buffer and sends them together from a background thread.

add --> buffer --by count, bytes or age--> batch --Sender--> ingest queues
 |                                           |
 +-- waits while max_pending messages, or max_pending_bytes, are in both
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self, TypedDict, Unpack

from tidewheel.aws.tries import CALL_S
from tidewheel.client import tracing
from tidewheel.client.sender import Sender, receipt_of
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.errors import BufferFull, Closed, FlushFailed, InvalidValue
from tidewheel.model.message import Message, Receipt
from tidewheel.model.topic_state import TopicState
from tidewheel.model.untrusted import check_whole
from tidewheel.model.validation import OutgoingMessage

CLOSE_S = 8
"""How long a closed sender waits for each queue, and for S3: a program that was told to end has half a minute."""

_log = logging.getLogger(__name__)


class SendOptions(TypedDict, total=False):
    """The options of a message, as for `Tidewheel.send`."""

    delay: float | timedelta | str | None
    deliver_at: datetime | float | None
    delay_level: int | None
    attributes: Mapping[str, str] | None
    key: str | None
    replace: bool
    expires_in: float | timedelta | str | None
    group: str | None
    window: float | timedelta | str | None
    max_wait: float | timedelta | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedMessage:
    """A message that was added and could not be sent.

    Attributes:
        index: the message's place among all added messages, from 0.
        message: the message as added; its delay counted from the time of adding.
        receipt: the id and the due time that the message would have had.
        error: the reason.
    """

    index: int
    message: Message
    receipt: Receipt
    error: Exception


@dataclass(frozen=True, slots=True)
class _Entry:
    """A message in the buffer."""

    index: int
    added_s: float
    state: TopicState
    checked: OutgoingMessage
    message: Message
    future: Future[Receipt]

    @property
    def receipt(self) -> Receipt:
        return receipt_of(self.state, self.checked)


class BufferedSender:
    """Sends messages in the background. Several threads may add to the same sender.

    A message is durable when its future has a receipt, not when `add` returns: messages in the buffer are lost if the
    process is killed. The buffer is flushed when the block ends, and when the program ends. A child process of
    `os.fork` cannot use its parent's sender and must create its own.

    Example:
        >>> with BufferedSender(tw) as sender:
        ...     for order in orders:
        ...         sender.add("orders", order, delay="3d")
    """

    def __init__(
        self,
        tw: Tidewheel,
        *,
        max_messages: int = 1000,
        max_bytes: int = 4_000_000,
        max_age_s: float = 1.0,
        max_pending: int = 10_000,
        max_pending_bytes: int = 64_000_000,
        max_wait_s: float | None = None,
        on_failure: Callable[[FailedMessage], object] | None = None,
    ) -> None:
        """Prepares a sender. Its thread starts with the first message.

        Args:
            tw: the client.
            max_messages: the buffer is sent when it holds this many messages.
            max_bytes: the buffer is sent when its bodies have this many bytes.
            max_age_s: the buffer is sent when its oldest message has waited this long.
            max_pending: `add` waits while this many messages are unsent.
            max_pending_bytes: likewise for bytes; a larger message is accepted when no other message is unsent.
            max_wait_s: how long `add` waits at most; None: without limit.
            on_failure: called, in the sender's thread, with each message that could not be sent; then `flush` and
                `close` do not raise. None: `flush` and `close` raise, and an error is logged.

        Raises:
            InvalidValue: a value is not usable.
        """
        whole = {"max_messages": max_messages, "max_bytes": max_bytes}
        whole |= {"max_pending": max_pending, "max_pending_bytes": max_pending_bytes}
        for name, number in whole.items():
            check_whole(name, number, 1)
        for name, seconds in (("max_age_s", max_age_s), ("max_wait_s", 0 if max_wait_s is None else max_wait_s)):
            if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds < 1e6:
                raise InvalidValue(name, seconds, "give seconds, at least 0")
        if on_failure is not None and not callable(on_failure):
            raise InvalidValue("on_failure", on_failure, "give a function that takes a FailedMessage")
        self._core = tw.core
        self._max_messages, self._max_bytes, self._max_age_s = max_messages, max_bytes, max_age_s
        self._max_pending, self._max_pending_bytes, self._max_wait_s = max_pending, max_pending_bytes, max_wait_s
        self._on_failure = on_failure
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._buffer: list[_Entry] = []
        self._buffer_bytes = 0
        self._pending = self._pending_bytes = 0  # in the buffer, and on their way
        self._added = self._flush_to = 0
        self._closed = False
        self._failures: list[FailedMessage] = []
        self._failed = 0

    # ---- adding
    def add(self, topic: str, body: Any, **options: Unpack[SendOptions]) -> Future[Receipt]:
        """Checks a message and puts it into the buffer. A delay counts from now.

        Args:
            topic, body: as for `Tidewheel.send`.
            **options: the other arguments of `Tidewheel.send`.

        Returns:
            A future. Its result is the receipt, once SQS has stored the message; its exception says why the message was
            not sent. `cancel()` removes the message while it is still in the buffer.

        Raises:
            InvalidValue, UnknownTopic, LimitExceeded: as for `Tidewheel.send`; the message was not added.
            BufferFull: the message was not added.
            Closed: the sender was closed, or belongs to another process.
        """
        self._check_open()
        given: dict[str, Any] = {**options, "attributes": options.get("attributes") or {}}
        message = Message(body=body, **given)
        state, checked = self._core.check(topic, message)
        future: Future[Receipt] = Future()
        checked = tracing.buffered(state.topic, checked, future)
        size = checked.size
        with self._changed:
            self._wait_for_room(size)
            self._buffer.append(_Entry(self._added, time.monotonic(), state, checked, message, future))
            self._added += 1
            self._buffer_bytes += size
            self._pending += 1
            self._pending_bytes += size
            self._start()
            if len(self._buffer) == 1 or self._is_due():
                self._changed.notify_all()
        return future

    @property
    def pending(self) -> int:
        """The number of messages in the buffer or being sent."""
        return self._pending

    def flush(self) -> None:
        """Sends all messages added before this call, and waits until they are sent.

        Raises:
            FlushFailed: messages were not sent since the last `flush`; not raised if there is an `on_failure`.
            Closed: the sender belongs to another process.
        """
        self._check_process()
        self._check_thread("flush")
        with self._changed:
            target = self._flush_to = self._added
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._added - self._pending >= target)
            failures, failed = self._failures, self._failed
            self._failures, self._failed = [], 0
        if failed:
            raise FlushFailed(failures, failed)

    def close(self) -> None:
        """Flushes the buffer and ends the thread. `add` then raises Closed. Repeating is harmless.

        A queue that gives no useful answer for 8 seconds is given up, and so is S3.

        Raises:
            FlushFailed: as for `flush`.
        """
        if self._process != os.getpid():
            return
        self._check_thread("close")
        with self._changed:
            self._closed = True
        try:
            self.flush()
        finally:
            with self._changed:
                self._changed.notify_all()
            if self._thread is not None:
                self._thread.join()
                atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self.close()
        except FlushFailed as failed:
            if error is None:
                raise
            error.add_note(str(failed))  # the caller must see the error that ended the block

    # ---- inside, with the lock held
    def _wait_for_room(self, size: int) -> None:
        def has_room() -> bool:
            within = self._pending < self._max_pending and self._pending_bytes + size <= self._max_pending_bytes
            return within or not self._pending or self._closed

        # A callback that calls `add` runs in the sender's thread, so waiting would never end.
        longest = 0.0 if threading.current_thread() is self._thread else self._max_wait_s
        if not self._changed.wait_for(has_room, longest):
            raise BufferFull(self._pending, self._pending_bytes, longest or 0.0)
        self._check_open()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tidewheel-sender", daemon=True)
            self._thread.start()
            atexit.register(self.close)

    def _is_due(self) -> bool:
        return len(self._buffer) >= self._max_messages or self._buffer_bytes >= self._max_bytes or self._wait_s() == 0

    def _wait_s(self) -> float | None:
        """Returns the seconds until the oldest message must be sent. None if the buffer is empty."""
        if not self._buffer:
            return None
        oldest = self._buffer[0]
        if self._closed or oldest.index < self._flush_to:
            return 0
        return max(0.0, oldest.added_s + self._max_age_s - time.monotonic())

    def _check_open(self) -> None:
        self._check_process()
        if self._closed:
            raise Closed("BufferedSender", "was closed")

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise Closed("BufferedSender", f"belongs to process {self._process}, which sends what is in it")

    def _check_thread(self, call: str) -> None:
        if threading.current_thread() is self._thread:
            raise InvalidValue(call, "in the sender's own thread", "call it from another: it would wait for itself")

    # ---- the thread
    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._is_due():
                    if self._closed and not self._buffer:
                        return
                    self._changed.wait(self._wait_s())
                batch, self._buffer, self._buffer_bytes = self._buffer, [], 0
            self._send([entry for entry in batch if entry.future.set_running_or_notify_cancel()])
            with self._changed:
                self._pending -= len(batch)
                self._pending_bytes -= sum(entry.checked.size for entry in batch)
                self._changed.notify_all()

    def _send(self, batch: list[_Entry]) -> None:
        """Sends a batch topic by topic, and sets each message's future."""
        by_topic: dict[str, list[_Entry]] = {}
        for entry in batch:
            by_topic.setdefault(entry.state.topic, []).append(entry)
        broken: dict[str, Exception] = {}
        for entries in by_topic.values():
            try:
                sender = Sender(self._core, entries[-1].state, broken=broken, call_s=self._call_s)
                errors = sender.try_checked([entry.checked for entry in entries])
            except Exception as error:  # no error may end the thread
                errors = dict.fromkeys(range(len(entries)), error)
            for i, entry in enumerate(entries):
                if i in errors:
                    self._fail(entry, errors[i])
                else:
                    entry.future.set_result(entry.receipt)

    def _call_s(self) -> float:
        return CLOSE_S if self._closed else CALL_S

    def _fail(self, entry: _Entry, error: Exception) -> None:
        failed = FailedMessage(index=entry.index, message=entry.message, receipt=entry.receipt, error=error)
        if self._on_failure is None:
            _log.error("message %s of topic %s was not sent: %s", failed.receipt.id, failed.receipt.topic, error)
            with self._changed:
                self._failed += 1
                if len(self._failures) < self._max_pending:
                    self._failures.append(failed)
        else:
            try:
                self._on_failure(failed)
            except Exception:
                _log.exception("on_failure raised for message %s", failed.receipt.id)
        entry.future.set_exception(error)
