"""Reports messages that a buffered sender could not send."""

from __future__ import annotations

from dataclasses import dataclass

from tidewheel.errors import TidewheelError
from tidewheel.model.message import Message, Receipt


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


class FlushFailed(TidewheelError):
    """Some messages were added and could not be sent. Each is listed with its reason; all others were sent.

    Attributes:
        failures: the messages, in the order in which they were added; at most `max_pending`.
        count: the number of all failed messages, listed or not.
    """

    def __init__(self, failures: list[FailedMessage], count: int) -> None:
        self.failures = failures
        self.count = count
        first = failures[0]
        super().__init__(
            f"{count} messages were added and not sent; first message {first.index} of topic "
            f"{first.receipt.topic!r}: {first.error}; send those of .failures again"
        )


class BufferFull(TidewheelError):
    """The buffer stayed full for too long. This message was not added. Send less, or wait longer."""

    def __init__(self, pending: int, pending_bytes: int, waited_s: float) -> None:
        super().__init__(
            f"{pending} messages of {pending_bytes} bytes wait to be sent, and none went within {waited_s:g} s: "
            "send less, raise max_pending or max_pending_bytes, or wait longer with max_wait_s"
        )
