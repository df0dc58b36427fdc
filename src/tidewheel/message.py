"""What callers send and receive, and the id that names it.

A message id is a ULID: 26 characters of Crockford's base 32, 128 bits, of which the first 48 are the
*delivery time* in milliseconds and the rest is random. Ids therefore sort by due time, and an id alone tells
its slot.

    0                                48                                                          128
    +--------------------------------+------------------------------------------------------------+
    | deliver_at_ms, big-endian      | 80 random bits; + 1 for the same sender and millisecond    |
    +--------------------------------+------------------------------------------------------------+
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NewType

from tidewheel.duration import delay_ms, deliver_at_ms
from tidewheel.errors import InvalidValue

MessageId = NewType("MessageId", str)

SQS_MAX_BYTES = 1_048_576
"""SQS: a message's body and attributes together, since August 2025."""
HEADER_ATTRIBUTE = "tidewheel"
HEADER_BYTES = 256
"""Room kept for our own attribute: its name, type and value are below this."""
MAX_MESSAGE_BYTES = SQS_MAX_BYTES - HEADER_BYTES
"""A sender's body and attributes together, as SQS counts them."""
MAX_ATTRIBUTES = 9
"""SQS takes ten attributes; one is ours."""

_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})
_TO_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DIGITS = {c: i for i, c in enumerate(_ALPHABET)}
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}\Z")
# What SQS refuses: see the SendMessage reference, "Valid unicode characters".
_REFUSED = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ATTRIBUTE_NAME = re.compile(r"(?!(?i:aws|amazon)\.)(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)\Z")


class Encoding(IntEnum):
    """How a body travels: as it is, as JSON text, or as base64 of bytes."""

    TEXT = 0
    JSON = 1
    BYTES = 2


class IdSource:
    """Makes message ids; ids made for the same millisecond count up, so one sender's order is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_ms = -1
        self._last = 0
        self._process = os.getpid()

    def next(self, deliver_at: int) -> bytes:
        """Returns the 16 bytes of a new id for a delivery time in milliseconds."""
        with self._lock:
            if deliver_at == self._last_ms and self._process == os.getpid():
                self._last += 1
            else:
                # The top random bit stays free, so that counting up cannot reach the time's bits.
                self._last = int.from_bytes(os.urandom(10)) & ((1 << 79) - 1)
                self._last_ms = deliver_at
                self._process = os.getpid()  # a fork must not count on from its parent's id
            return (deliver_at << 80 | self._last).to_bytes(16)


def id_text(binary: bytes) -> MessageId:
    """Returns the 26 characters of an id's 16 bytes."""
    n = int.from_bytes(binary)
    p = _PAIRS
    return MessageId(
        p[n >> 120]
        + p[n >> 110 & 1023]
        + p[n >> 100 & 1023]
        + p[n >> 90 & 1023]
        + p[n >> 80 & 1023]
        + p[n >> 70 & 1023]
        + p[n >> 60 & 1023]
        + p[n >> 50 & 1023]
        + p[n >> 40 & 1023]
        + p[n >> 30 & 1023]
        + p[n >> 20 & 1023]
        + p[n >> 10 & 1023]
        + p[n & 1023]
    )


def id_bytes(text: str) -> bytes:
    """Returns the 16 bytes of an id.

    Raises:
        InvalidValue: it is not a message id.
    """
    if not isinstance(text, str) or not _ID.match(text):
        raise InvalidValue("message id", text, "give the 26 characters that send returned")
    n = 0
    for c in text:
        n = n << 5 | _DIGITS[c]
    return n.to_bytes(16)


def id_floor(deliver_at_ms: int) -> bytes:
    """Returns the least 16 bytes of an id that carries a delivery time: ids of earlier times sort below it."""
    return (deliver_at_ms << 80).to_bytes(16)


def id_deliver_at_ms(binary: bytes) -> int:
    """Returns the delivery time that an id carries."""
    return int.from_bytes(binary[:6])


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to send.

    Attributes:
        body: text, bytes, or anything that json.dumps takes. Text goes out as it is, bytes as base64.
        delay: seconds, a timedelta, or text such as "3d 4h"; 0 when neither is given.
        deliver_at: an aware datetime or Unix seconds, instead of delay.
        attributes: up to nine names with text values, delivered as SQS message attributes.
    """

    body: Any
    delay: float | timedelta | str | None = None
    deliver_at: datetime | float | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What send returns: the message's id and when it is due."""

    id: MessageId
    topic: str
    deliver_at_ms: int

    @property
    def deliver_at(self) -> datetime:
        """When it is due, UTC."""
        return datetime.fromtimestamp(self.deliver_at_ms / 1000, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMessage:
    """A checked message on its way: what a pack and a ledger hold of it.

    Attributes:
        id: 16 bytes.
        text: the body as SQS will carry it (base64 for bytes).
    """

    id: bytes
    text: str
    encoding: Encoding
    attributes: Mapping[str, str]

    @property
    def deliver_at_ms(self) -> int:
        """When it is due: what its id says."""
        return id_deliver_at_ms(self.id)


def check_message(message: Message, ids: IdSource, now_ms: int) -> CheckedMessage:
    """Checks a message, encodes its body and gives it an id.

    Raises:
        InvalidValue: anything of it cannot be delivered.
    """
    if message.delay is not None and message.deliver_at is not None:
        raise InvalidValue("delay, deliver_at", (message.delay, message.deliver_at), "give one of the two")
    if message.deliver_at is not None:
        due_ms = deliver_at_ms(message.deliver_at, now_ms)
    else:
        due_ms = now_ms + delay_ms(0 if message.delay is None else message.delay)
    text, encoding = _encode_body(message.body)
    size = len(text) if text.isascii() else len(text.encode())
    attributes: Mapping[str, str] = _NO_ATTRIBUTES
    if message.attributes:
        size += check_attributes(message.attributes)
        attributes = dict(message.attributes)
    if size > MAX_MESSAGE_BYTES:
        raise InvalidValue(
            "body",
            message.body,
            f"body and attributes come to {size} bytes; SQS takes {MAX_MESSAGE_BYTES} "
            "(bytes count as base64); keep the large part in S3 and send its key",
        )
    return CheckedMessage(id=ids.next(due_ms), text=text, encoding=encoding, attributes=attributes)


def _encode_body(body: object) -> tuple[str, Encoding]:
    if isinstance(body, str):
        text, encoding = body, Encoding.TEXT
    elif isinstance(body, (bytes, bytearray, memoryview)):
        text, encoding = base64.b64encode(bytes(body)).decode(), Encoding.BYTES
    else:
        try:
            text, encoding = _TO_JSON(body), Encoding.JSON
        except RecursionError:
            raise InvalidValue("body", type(body), "nested too deeply for JSON; send text or bytes") from None
        except (TypeError, ValueError) as error:
            how = f"give text, bytes, or what json.dumps takes ({error})"
            raise InvalidValue("body", body, how) from None
    if not text:
        raise InvalidValue("body", body, "SQS takes no empty bodies; send at least one character")
    if not text.isascii() or not text.isprintable():
        check_characters("body", text)
    return text, encoding


def check_characters(name: str, text: str) -> None:
    """Raises InvalidValue if SQS refuses a character of the text."""
    bad = _REFUSED.search(text)
    if bad is not None:
        shown = f"U+{ord(bad[0]):04X} at position {bad.start()}"
        raise InvalidValue(name, text, f"SQS refuses the character {shown}; send bytes instead")


def check_attributes(attributes: Mapping[str, str]) -> int:
    """Returns the bytes that SQS counts for the attributes.

    Raises:
        InvalidValue: too many, a bad name, or a value that is not text.
    """
    if not attributes:
        return 0
    if not isinstance(attributes, Mapping):
        raise InvalidValue("attributes", attributes, "give a mapping of names to text")
    if len(attributes) > MAX_ATTRIBUTES:
        raise InvalidValue(
            "attributes", list(attributes), f"at most {MAX_ATTRIBUTES}: SQS takes ten and one is Tidewheel's"
        )
    size = 0
    for name, value in attributes.items():
        if not isinstance(name, str) or not _ATTRIBUTE_NAME.match(name) or name == HEADER_ATTRIBUTE:
            raise InvalidValue(
                "attribute name",
                name,
                "use 1 to 256 letters, digits, '_', '-' or '.', no dot first, last or twice, "
                f"not starting with AWS. or Amazon., and not {HEADER_ATTRIBUTE!r}",
            )
        if not isinstance(value, str) or not value:
            raise InvalidValue(f"attribute {name}", value, "give text of at least one character")
        check_characters(f"attribute {name}", value)
        size += len(name) + len(value.encode()) + len("String")
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """A delivered message, decoded.

    Attributes:
        id: its stable id; every copy of a message has the same one.
        body: the body as SQS carried it (base64 for bytes).
        attributes: the sender's attributes.
        deliver_at: when it was due.
        sent_at: when its sender sent it.
        sqs_message_id, receipt_handle: SQS's own names for this copy.
        receive_count: how often SQS has handed it out.
        visible_at: when SQS made it receivable; the local runtime alone knows it.
    """

    id: MessageId
    body: str
    encoding: Encoding
    attributes: Mapping[str, str]
    deliver_at: datetime
    sent_at: datetime
    sqs_message_id: str
    receipt_handle: str
    receive_count: int = 1
    visible_at: datetime | None = None

    def json(self) -> Any:
        """Returns the body parsed as JSON."""
        return json.loads(self.body)

    def bytes(self) -> bytes:
        """Returns the bytes that were sent, or the text's UTF-8 bytes."""
        return base64.b64decode(self.body) if self.encoding is Encoding.BYTES else self.body.encode()


def header_text(message_id: MessageId, encoding: int, sent_at_ms: int) -> str:
    """Returns the value of a delivered message's `tidewheel` attribute: JSON, below HEADER_BYTES."""
    return f'{{"id":"{message_id}","enc":{encoding},"sent":{sent_at_ms}}}'


def parse_received(raw: Mapping[str, Any]) -> ReceivedMessage:
    """Decodes one message of SQS's ReceiveMessage answer, or one record of a Lambda SQS event.

    Raises:
        InvalidValue: the message was not delivered by Tidewheel.
    """
    lambda_style = "messageAttributes" in raw
    attributes = raw.get("messageAttributes") or raw.get("MessageAttributes") or {}
    key = "stringValue" if lambda_style else "StringValue"
    values = {name: value[key] for name, value in attributes.items() if key in value}
    try:
        header = json.loads(values.pop(HEADER_ATTRIBUTE))
        message_id = MessageId(header["id"])
        binary = id_bytes(message_id)
        encoding = Encoding(header["enc"])
        sent_at = datetime.fromtimestamp(header["sent"] / 1000, UTC)
        deliver_at = datetime.fromtimestamp(id_deliver_at_ms(binary) / 1000, UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError, RecursionError) as error:
        how = f"not a message that Tidewheel delivered ({error!r})"
        raise InvalidValue(f"attribute {HEADER_ATTRIBUTE}", dict(attributes), how) from None
    system = raw.get("attributes") or raw.get("Attributes") or {}
    return ReceivedMessage(
        id=message_id,
        body=raw["body"] if lambda_style else raw["Body"],
        encoding=encoding,
        attributes=values,
        deliver_at=deliver_at,
        sent_at=sent_at,
        sqs_message_id=raw["messageId"] if lambda_style else raw["MessageId"],
        receipt_handle=raw["receiptHandle"] if lambda_style else raw["ReceiptHandle"],
        receive_count=int(system.get("ApproximateReceiveCount", 1)),
    )


def bytes_of_text(text: str, encoding: Encoding) -> bytes:
    """Returns what a ledger stores of a body: raw bytes for base64 text, else UTF-8.

    Raises:
        ValueError: base64 was promised and is not there.
    """
    if encoding is Encoding.BYTES:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError(f"not base64: {error}") from None
    return text.encode()
