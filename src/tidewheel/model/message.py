"""Defines messages to send, and message ids.

A message id is a ULID: 26 characters of Crockford's base 32, 128 bits, of which the first 48 are the
*delivery time* in milliseconds and the rest is random. Ids therefore sort by due time, and an id alone tells
its slot.

    0                                48                                                          128
    +--------------------------------+------------------------------------------------------------+
    | deliver_at_ms, big-endian      | 0, k, 78 random bits; counted up for the same sender and ms |
    +--------------------------------+------------------------------------------------------------+

The first bit behind the time is 1 in the ids of occurrences of recurring messages: see `recurring.py`. The second bit,
k, is 1 if the message has a key.

A message with a window is due at its time plus `shift_ms`. The id then has the shifted time, so all copies of the
message have the same due time.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
import json
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, NewType, Protocol

from tidewheel.errors import InvalidValue

MessageId = NewType("MessageId", str)

SQS_MAX_BYTES = 1_048_576
"""SQS's limit for a message's body and attributes together, since August 2025."""
HEADER_ATTRIBUTE = "tidewheel"
HEADER_BYTES = 256
"""Room kept for our own attribute. Its name, type and value are smaller, without a key or a payload's name."""
MAX_MESSAGE_BYTES = SQS_MAX_BYTES - HEADER_BYTES
"""Limit for a sender's body and attributes together, as SQS counts them."""
TIMES_END_MS = 253_402_300_800_000
"""The year 10000. A consumer's clock cannot show this time or a later one."""
MAX_ATTRIBUTES = 9
"""SQS takes ten attributes, and one is ours."""
ID_ATTRIBUTE = "tidewheel_id"
"""The message id, in the copies of a subscription with `carry`. EventBridge Pipes reads no name with a dot."""

ID_TAIL_BITS = 80
"""Of an id, behind the delivery time."""
_KEYED = 1 << 78
_KEYED_IN_BYTE = 0x40
RANDOM_BITS = _KEYED - 1
_LOW_64 = (1 << 64) - 1
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DIGITS = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
"""To the digits that `int` knows."""
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_SHIFTS = range(120, -1, -10)
"""Of the pairs of digits in an id's number."""
_CHARACTERS = 26
_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}\Z")


class Encoding(IntEnum):
    """How a body is encoded: as text, as JSON text, or as base64 of bytes."""

    TEXT = 0
    JSON = 1
    BYTES = 2


class Ids(Protocol):
    """Makes the ids and versions of messages. See `IdSource`."""

    def next(self, deliver_at: int, *, keyed: bool = False) -> bytes:
        """Returns an id's 16 bytes, for a time in ms."""
        ...

    def next_in_window(self, deliver_at: int, window_ms: int, *, topic: str, key: str | None) -> bytes:
        """Returns an id's 16 bytes, for a time in the window."""
        ...

    def sequence(self) -> int:
        """Returns the count of a message with a key, which orders versions of the same ms."""
        ...


class IdSource:
    """Makes message ids in the order of sending.

    Ids made for the same millisecond count up, by random steps, so that no id tells another. All of a process share the
    count of senders, so that of two clients' changes in one millisecond the later one counts.
    """

    _sequence = itertools.count(1)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_ms = -1
        self._last = 0
        self._process = os.getpid()

    def next(self, deliver_at: int, *, keyed: bool = False) -> bytes:
        """Returns the 16 bytes of a new id for a delivery time in milliseconds."""
        with self._lock:
            if deliver_at == self._last_ms and self._process == os.getpid():
                self._last += 1 + int.from_bytes(os.urandom(5))
            else:
                self._last = _random_bits()
                self._last_ms = deliver_at
                self._process = os.getpid()  # a fork must not count on from its parent's id
            return id_of(deliver_at, self._last, keyed=keyed)

    def next_in_window(self, deliver_at: int, window_ms: int, *, topic: str, key: str | None) -> bytes:
        """Returns the 16 bytes of a new id for a time in [deliver_at, deliver_at + window_ms), in milliseconds."""
        drawn = _random_bits()
        due_ms = deliver_at + shift_ms(window_ms, topic=topic, key=key, random_bits=drawn & _LOW_64)
        return id_of(due_ms, drawn, keyed=key is not None)

    def sequence(self) -> int:
        """Returns the next number of this sender's count."""
        return next(self._sequence)


def _random_bits() -> int:
    # The top random bit stays free, so that counting up does not reach the next bit.
    return int.from_bytes(os.urandom(10)) & (RANDOM_BITS >> 1)


def id_of(deliver_at_ms: int, random_bits: int, *, keyed: bool) -> bytes:
    """Returns an id's 16 bytes.

    Args:
        deliver_at_ms: the delivery time.
        random_bits: at most 78 bits.
        keyed: whether the message has a key.
    """
    return (deliver_at_ms << ID_TAIL_BITS | keyed * _KEYED | random_bits).to_bytes(16)


def is_keyed(binary: bytes) -> bool:
    """Returns whether an id is of a message with a key."""
    return bool(binary[6] & _KEYED_IN_BYTE)


def keyed_of(ids: bytes) -> list[bool]:
    """Returns for each of some ids, of 16 bytes each, whether it is of a message with a key."""
    return [bool(byte & _KEYED_IN_BYTE) for byte in ids[6::16]]


def shift_ms(window_ms: int, *, topic: str, key: str | None, random_bits: int) -> int:
    """Returns by how much a window shifts a due time, from 0 to below `window_ms`.

    Messages of a topic with the same key and window have the same shift.

    Args:
        window_ms: the window, at least 1.
        topic: the topic.
        key: the message's key, or the name of a recurring message. None: the message has no key.
        random_bits: the low 64 bits of the message's id, which decide if there is no key.
    """
    if key is not None:
        random_bits = int.from_bytes(hashlib.sha256(f"{topic}\n{key}".encode()).digest()[:8])
    return random_bits % window_ms


def id_text(binary: bytes) -> MessageId:
    """Returns the 26 characters of an id's 16 bytes."""
    n = int.from_bytes(binary)
    return MessageId("".join([_PAIRS[n >> shift & 1023] for shift in _SHIFTS]))


def looks_like_id(text: str) -> bool:
    """Returns whether somebody who typed this text meant an id, perhaps a wrong one, and not a time or a key."""
    return len(text) == _CHARACTERS and text.isalnum()


def id_bytes(text: str) -> bytes:
    """Returns the 16 bytes of an id.

    Raises:
        InvalidValue: the text is not a message id.
    """
    if not isinstance(text, str) or not _ID.match(text):
        raise InvalidValue("message id", text, "give the id of a receipt, which has 26 characters")
    return int(text.translate(_DIGITS), 32).to_bytes(16)


def id_floor(deliver_at_ms: int) -> bytes:
    """Returns the lowest 16-byte id for a delivery time.

    Ids of earlier delivery times sort below this id.
    """
    return (deliver_at_ms << ID_TAIL_BITS).to_bytes(16)


def id_tail(binary: bytes) -> int:
    """Returns the bits of an id behind the delivery time."""
    return int.from_bytes(binary[6:])


def id_at(message_id: MessageId, deliver_at_ms: int) -> MessageId:
    """Returns a message's id for another delivery time."""
    return id_text(deliver_at_ms.to_bytes(6) + id_bytes(message_id)[6:])


def id_deliver_at_ms(binary: bytes) -> int:
    """Returns the delivery time in an id."""
    return int.from_bytes(binary[:6])


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to send.

    Attributes:
        body: text, bytes, or any value that json.dumps takes. Text is sent unchanged, bytes as base64.
        delay: seconds, a timedelta, or text such as "3d 4h". 0 if delay, deliver_at and delay_level are all missing.
        deliver_at: an aware datetime or Unix seconds, instead of delay.
        delay_level: the number of a delay level of the topic's table, instead of delay. 0 is now.
        attributes: up to nine names with text values, delivered as SQS message attributes.
        key: cancels, replaces or deduplicates the message by this name. 1 to 256 characters.
        replace: with a key: this message replaces an earlier message that waits. Without replace, this message is
            dropped while another message with the key waits.
        expires_in: seconds, a timedelta or text, counted from the due time. A message not handed out by then is
            dropped.
        group: the group of the message in a subscription's queue, SQS's MessageGroupId. 1 to 128 characters.
        max_wait: with replace: seconds, a timedelta or text. From this time after the sending on, no newer message with
            the key puts the delivery off any more. More than the delay and window.
        window: seconds, a timedelta or text, 1 s to 7 days. The message is due at a time in the window, which begins at
            the given time. The time is random without a key, and the same for each message with the same key.
    """

    body: Any
    delay: float | timedelta | str | None = None
    deliver_at: datetime | float | None = None
    delay_level: int | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    replace: bool = False
    expires_in: float | timedelta | str | None = None
    group: str | None = None
    window: float | timedelta | str | None = None
    max_wait: float | timedelta | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The result of send, with the message's id and due time.

    Attributes:
        cancellable_until_ms: until when the message can surely be cancelled, moved or replaced, in Unix ms. None: until
            a consumer has it.
    """

    id: MessageId
    topic: str
    deliver_at_ms: int
    cancellable_until_ms: int | None = None

    @property
    def deliver_at(self) -> datetime:
        """The due time, UTC."""
        return datetime.fromtimestamp(self.deliver_at_ms / 1000, UTC)

    @property
    def cancellable_until(self) -> datetime | None:
        """Until when the message can surely be cancelled, moved or replaced, UTC. None: until a consumer has it.

        None needs subscriptions with `reader="tidewheel"`. A time before now means that a cancel may come too late.
        """
        until_ms = self.cancellable_until_ms
        return None if until_ms is None else datetime.fromtimestamp(until_ms / 1000, UTC)


def carried(header: str, attributes: Mapping[str, str]) -> tuple[str, dict[str, str], MessageId]:
    """Returns a copy's header, its attributes with the message id, and the id.

    SQS takes ten attributes. Of nine, the last by name goes into the header, as does a sender's own `tidewheel_id`.
    """
    fields, sent = json.loads(header), dict(attributes)
    moved = {ID_ATTRIBUTE: sent.pop(ID_ATTRIBUTE)} if ID_ATTRIBUTE in sent else {}
    if len(sent) == MAX_ATTRIBUTES:
        last = max(sent)
        moved[last] = sent.pop(last)
    if moved:
        header = json.dumps({**fields, "attributes": moved}, ensure_ascii=False)
    return header, {**sent, ID_ATTRIBUTE: fields["id"]}, fields["id"]


def bytes_of_text(text: str, encoding: Encoding) -> bytes:
    """Returns a body's bytes for a ledger.

    These are the raw bytes of base64 text, and UTF-8 of other text.

    Raises:
        ValueError: the encoding is base64, but the text is not.
    """
    if encoding is Encoding.BYTES:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError(f"not base64: {error}") from None
    return text.encode()
