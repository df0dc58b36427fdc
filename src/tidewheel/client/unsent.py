"""Reports messages that a buffered sender could not send."""

from __future__ import annotations

from dataclasses import dataclass

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
