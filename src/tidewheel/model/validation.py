"""Checks and encodes messages before sending."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Self

from tidewheel.errors import InvalidValue
from tidewheel.model.duration import MAX_DELAY_MS, delay_ms, deliver_at_ms, window_ms
from tidewheel.model.levels import level_delay_ms
from tidewheel.model.message import (
    HEADER_ATTRIBUTE,
    MAX_ATTRIBUTES,
    MAX_MESSAGE_BYTES,
    TIMES_END_MS,
    Encoding,
    Ids,
    Message,
    MessageId,
    id_bytes,
    id_deliver_at_ms,
    id_text,
    is_keyed,
)
from tidewheel.model.object_names import payload_topic
from tidewheel.model.topic import check_name
from tidewheel.model.untrusted import json_text

MAX_KEY_CHARACTERS = 256
MAX_PAYLOAD_BYTES = 100 * 1024 * 1024
"""Limit of a body that is kept in S3. The sender and the consumer hold the whole body in memory."""

_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})
# Characters that SQS refuses: see the SendMessage reference, "Valid unicode characters".
_REFUSED = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REFUSED_ASCII = bytes({*range(32)} - set(b"\t\n\r"))
GROUP = r"\A[!-~]{1,128}\z"
"""A group, in the alphabet of SQS's MessageGroupId: the visible ASCII characters. In Arrow's syntax."""
_GROUP = re.compile(r"[!-~]{1,128}\Z")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
ATTRIBUTE_NAME = re.compile(r"(?!(?i:aws|amazon)\.)(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Rare options of a message, beside body and attributes.

    Attributes:
        key, replace: the sender's.
        seq: the sender's own count. With the sending time, the version of a message with a key.
        expires_at_ms: from this time on the message is no longer handed out.
        moves: the message that this message replaces, if the old message's slot was not sealed yet. Otherwise this
            message is dropped.
        attempt: how often the message's work was tried before, for `retry_later`.
        original_id: the first message's id, if this message was sent again.
        payload: the S3 object with the body, if the body is too large for SQS.
        payload_sha256, payload_bytes: the object's hash in hexadecimal and its length.
        recurring: the recurring message's name, if this message is an occurrence. Consumers see the name as the key.
        only: the only subscription that gets the message. Its filter is not applied.
        first_version: key, sending time in ms, and seq of the first message, if this message was sent again. This
            message then has no key of its own, so that it does not duplicate the first message or supersede a later
            one.
        group: the sender's.
        max_wait_ms: how long after the sending newer messages with the key may put off the delivery.
        settled: whether ingest has sent this message, which its key names already.
        traceparent, tracestate: the sender's trace context, if the attributes have no room for it.
    """

    key: str | None = None
    replace: bool = False
    seq: int | None = None
    expires_at_ms: int | None = None
    moves: MessageId | None = None
    attempt: int | None = None
    original_id: MessageId | None = None
    payload: str | None = None
    payload_sha256: str | None = None
    payload_bytes: int | None = None
    recurring: str | None = None
    only: str | None = None
    first_version: tuple[str, int, int] | None = None
    group: str | None = None
    max_wait_ms: int | None = None
    settled: bool = False
    traceparent: str | None = None
    tracestate: str | None = None

    @property
    def affects_others(self) -> bool:
        """Whether the ingestion of the message can affect another message."""
        return self.key is not None or self.moves is not None

    def document(self) -> dict[str, Any]:
        """Returns the given options, as JSON values."""
        found = {name: getattr(self, name) for name in _OPTION_READERS}
        return {name: value for name, value in found.items() if value is not None and value is not False}

    @classmethod
    def of_document(cls, document: object, topic: str, deliver_at_ms: int) -> Self:
        """Reads the untrusted result of `document`.

        Raises:
            ValueError: the document is not valid.
        """
        if not isinstance(document, dict) or not document.keys() <= _OPTION_READERS.keys():
            raise ValueError("the options are not an object, or have an unknown name")
        given = {name: value for name, value in document.items() if value is not None or name == "replace"}
        options = cls(**{name: _OPTION_READERS[name](value) for name, value in given.items()})
        options._check_together(topic, deliver_at_ms)
        return options

    def _check_together(self, topic: str, deliver_at_ms: int) -> None:
        """Raises ValueError if options do not fit each other, the topic or the due time."""
        if (self.key is None) != (self.seq is None):
            raise ValueError("a key has no seq, or a seq has no key")
        if self.expires_at_ms is not None and self.expires_at_ms <= deliver_at_ms:
            raise ValueError("the message expires before its due time")
        # A reader of this topic's bodies gets the object of this name, so the object must be a body of the topic.
        if self.payload is not None and payload_topic(self.payload) != topic:
            raise ValueError("the option payload does not name a body of the topic")
        about = {each is None for each in (self.payload, self.payload_sha256, self.payload_bytes)}
        if len(about) > 1:
            raise ValueError("the name, hash and length of a body in S3 do not come together")
        if self.first_version is not None and self.key is not None:
            raise ValueError("a message that is sent again has no key")
        if self.max_wait_ms is not None and not self.replace:
            raise ValueError("max_wait_ms is for messages that replace another")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A checked message for packs and ledgers.

    Attributes:
        id: 16 bytes.
        text: the body as SQS will carry it (base64 for bytes).
        options: None for most messages.
        sent_at_ms: when the message was sent, if it was sent before its pack.
    """

    id: bytes
    text: str
    encoding: Encoding
    attributes: Mapping[str, str]
    options: Options | None = None
    sent_at_ms: int | None = None

    @property
    def deliver_at_ms(self) -> int:
        """The due time, which is part of the id."""
        return id_deliver_at_ms(self.id)

    @property
    def size(self) -> int:
        """SQS's size in bytes, without the fixed part of our own attribute."""
        size = len(self.text) if self.text.isascii() else len(self.text.encode())
        if self.attributes:
            size += sum(len(n) + len(v.encode()) + len("String") for n, v in self.attributes.items())
        if self.options is not None:
            keys = (self.options.key, None if self.options.first_version is None else self.options.first_version[0])
            size += sum(len(json_text(key).encode()) for key in (*keys, self.options.group) if key is not None)
        return size

    @property
    def too_large(self) -> bool:
        """Whether the body and attributes are too large for SQS."""
        return self.size > MAX_MESSAGE_BYTES

    def with_payload(self, name: str, pointer: str, data: bytes) -> OutgoingMessage:
        """Returns the message with a pointer as text, and the body's bytes in an S3 object."""
        options = replace(
            self.options or Options(),
            payload=name,
            payload_sha256=hashlib.sha256(data).hexdigest(),
            payload_bytes=len(data),
        )
        return replace(self, text=pointer, options=options)


def check_message(
    message: Message,
    ids: Ids,
    now_ms: int,
    *,
    topic: str = "",
    levels: Sequence[int] | None = None,
    large: bool = False,
    resend: Options | None = None,
) -> OutgoingMessage:
    """Checks a message, encodes the body and creates an id.

    Args:
        message: the caller's message.
        ids: the source of the id.
        now_ms: the sender's time.
        topic: the topic. With the message's key, it decides the shift by a window.
        levels: seconds of the topic's delay levels. None: RocketMQ's.
        large: whether the caller keeps bodies in S3 that are too large for SQS. Such bodies then pass the check.
        resend: options of the message that this message repeats or moves, if any.

    Raises:
        InvalidValue: the message cannot be delivered.
    """
    due_ms = due_at_ms(
        now_ms, delay=message.delay, deliver_at=message.deliver_at, delay_level=message.delay_level, levels=levels
    )
    if message.max_wait is not None:
        _check_max_wait(message, message.max_wait, due_ms - now_ms)
    if message.window is None:
        id = ids.next(due_ms, keyed=message.key is not None)
    else:
        id = _id_in_window(message, message.window, ids, now_ms, due_ms, topic)
        due_ms = id_deliver_at_ms(id)
    text, encoding = _encode_body(message.body)
    attributes: Mapping[str, str] = _NO_ATTRIBUTES
    if message.attributes:
        check_attributes(message.attributes)
        attributes = dict(message.attributes)
    options = resend
    if message.key is not None or message.replace or message.expires_in is not None or message.group is not None:
        options = _options(message, ids, due_ms, resend or Options())
    checked = OutgoingMessage(id=id, text=text, encoding=encoding, attributes=attributes, options=options)
    size, most = checked.size, MAX_PAYLOAD_BYTES if large else MAX_MESSAGE_BYTES
    if size > most:
        who, how = ("Tidewheel", "Split the body") if large else ("SQS", "Keep the body in S3 and send its name")
        raise InvalidValue(
            "body",
            message.body,
            f"body, attributes and key have {size} bytes, and {who} takes {most}. Bytes count as base64. {how}",
        )
    if size > MAX_MESSAGE_BYTES and size - len(text.encode()) > MAX_MESSAGE_BYTES // 2:
        how = "SQS takes no attributes of this size. Put them into the body"
        raise InvalidValue("attributes", list(attributes), how)
    return checked


def due_at_ms(
    now_ms: int,
    *,
    delay: float | timedelta | str | None = None,
    deliver_at: datetime | float | None = None,
    delay_level: int | None = None,
    levels: Sequence[int] | None = None,
) -> int:
    """Returns the due time from a delay, a time or a delay level.

    Without any of the three, the due time is now.

    Raises:
        InvalidValue: more than one is given, or the given value cannot be used.
    """
    if (delay is None) + (deliver_at is None) + (delay_level is None) < 2:
        ways = {"delay": delay, "deliver_at": deliver_at, "delay_level": delay_level}
        given = {name: value for name, value in ways.items() if value is not None}
        raise InvalidValue(", ".join(given), tuple(given.values()), "give only one of these arguments")
    if deliver_at is not None:
        return deliver_at_ms(deliver_at, now_ms)
    if delay_level is not None:
        return now_ms + level_delay_ms(delay_level, levels)
    return now_ms + (0 if delay is None else delay_ms(delay))


def _id_in_window(
    message: Message, window: float | timedelta | str, ids: Ids, now_ms: int, due_ms: int, topic: str
) -> bytes:
    length_ms = window_ms(window)
    # The whole window is compared, so that the answer does not depend on random bits.
    if due_ms + length_ms > now_ms + MAX_DELAY_MS:
        raise InvalidValue("window", window, "the window must end within ten years (3653 days); give an earlier time")
    key = None if message.key is None else check_key(message.key)
    return ids.next_in_window(due_ms, length_ms, topic=topic, key=key)


def _options(message: Message, ids: Ids, due_ms: int, options: Options) -> Options:
    if not isinstance(message.replace, bool):
        raise InvalidValue("replace", message.replace, "give True or False")
    if message.key is not None:
        options = replace(options, key=check_key(message.key), replace=message.replace, seq=ids.sequence())
    elif message.replace:
        how = "give key=... too, since only a message with a key replaces another message"
        raise InvalidValue("replace", message.replace, how)
    if message.max_wait is not None:
        options = replace(options, max_wait_ms=delay_ms(message.max_wait, "max_wait"))
    if message.expires_in is not None:
        after_ms = delay_ms(message.expires_in, "expires_in")
        if after_ms == 0:
            raise InvalidValue("expires_in", message.expires_in, "give more than 0, counted from the due time")
        options = replace(options, expires_at_ms=due_ms + min(after_ms, MAX_DELAY_MS))
    if message.group is not None:
        options = replace(options, group=check_group(message.group))
    return options


def _check_max_wait(message: Message, max_wait: float | timedelta | str, waits_ms: int) -> None:
    """Raises InvalidValue for a maximum too short for an older message or a window."""
    if not message.replace:
        raise InvalidValue("max_wait", max_wait, "give replace=True and a key too: newer messages put off older ones")
    waits_ms += 0 if message.window is None else window_ms(message.window)
    if delay_ms(max_wait, "max_wait") <= waits_ms:
        what = "the delay" if message.window is None else "the delay and the window"
        raise InvalidValue("max_wait", max_wait, f"give more than {what}, {waits_ms / 1000:.15g} s")


def check_key(key: object) -> str:
    """Returns a valid message key.

    Raises:
        InvalidValue: the key is not text of 1 to 256 characters, or has control characters or others that SQS refuses.
    """
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY_CHARACTERS or _CONTROL.search(key):
        raise InvalidValue("key", key, f"give text of 1 to {MAX_KEY_CHARACTERS} characters, without control characters")
    return key


def check_group(group: object) -> str:
    """Returns a valid group of a message.

    Raises:
        InvalidValue: the group is not text of 1 to 128 characters of SQS's alphabet for MessageGroupId.
    """
    if not isinstance(group, str) or not _GROUP.match(group):
        raise InvalidValue("group", group, "give 1 to 128 ASCII letters, digits and punctuation, without spaces")
    return group


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("the option replace or settled is not true or false")
    return value


def _whole(name: str, end: int, value: object) -> int:
    if type(value) is not int or not 0 <= value < end:
        raise ValueError(f"the option {name} is not a whole number in its range")
    return value


def _text(what: str, pattern: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise ValueError(f"{what} does not match {pattern}")
    return value


def _first_version(value: object) -> tuple[str, int, int]:
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        raise ValueError("first_version is not a key and two numbers")
    key, *numbers = value
    if not all(type(number) is int and 0 <= number < 1 << 53 for number in numbers):
        raise ValueError("first_version has a number that is not whole, negative or too large")
    if numbers[0] >= TIMES_END_MS:
        raise ValueError("first_version has an impossible time")
    return check_key(key), numbers[0], numbers[1]


_trace_context = partial(_text, "a trace context", "[ -~]{1,512}")
_OPTION_READERS: Mapping[str, Callable[[Any], Any]] = {
    "key": check_key,
    "replace": _flag,
    "seq": partial(_whole, "seq", 1 << 53),
    "expires_at_ms": partial(_whole, "expires_at_ms", TIMES_END_MS),
    "moves": lambda value: id_text(id_bytes(value)),
    "attempt": partial(_whole, "attempt", 1 << 53),
    "original_id": lambda value: id_text(id_bytes(value)),
    "payload": lambda value: value,  # checked against the topic
    "payload_sha256": partial(_text, "the option payload_sha256", "[0-9a-f]{64}"),
    "payload_bytes": partial(_whole, "payload_bytes", MAX_PAYLOAD_BYTES + 1),
    "recurring": check_key,
    "only": partial(check_name, "only"),
    "first_version": _first_version,
    "group": check_group,
    "max_wait_ms": partial(_whole, "max_wait_ms", MAX_DELAY_MS + 1),
    "settled": _flag,
    "traceparent": _trace_context,
    "tracestate": _trace_context,
}
"""The reader of each option: it checks a value of `Options.document`, and returns the option."""


def at_its_latest(message: OutgoingMessage, message_id: MessageId, sent_ms: int) -> OutgoingMessage:
    """Returns a message under the id of an earlier time, which its key names already."""
    options = replace(message.options or Options(), replace=False, max_wait_ms=None, settled=True)
    return replace(_at(message, id_bytes(message_id), options), sent_at_ms=sent_ms)


def moved(message: OutgoingMessage, ids: Ids, due_ms: int, old: bytes) -> OutgoingMessage:
    """Returns the replacement of `old` for another due time.

    The expiry moves with the due time.
    """
    options = message.options or Options()
    if options.key is not None:
        options = replace(options, replace=True, seq=ids.sequence())
    id = ids.next(due_ms, keyed=is_keyed(old))
    return _at(message, id, replace(options, moves=id_text(old), max_wait_ms=None))


def _at(message: OutgoingMessage, id: bytes, options: Options) -> OutgoingMessage:
    """Returns a message under the id of another due time, with which its expiry moves."""
    if options.expires_at_ms is not None:
        moved_ms = id_deliver_at_ms(id) - message.deliver_at_ms
        options = replace(options, expires_at_ms=options.expires_at_ms + moved_ms)
    return replace(message, id=id, options=options)


def _encode_body(body: object) -> tuple[str, Encoding]:
    if isinstance(body, str):
        text, encoding = body, Encoding.TEXT
    elif isinstance(body, (bytes, bytearray, memoryview)):
        text, encoding = base64.b64encode(bytes(body)).decode(), Encoding.BYTES
    else:
        try:
            text, encoding = json_text(body), Encoding.JSON
        except RecursionError:
            how = "give text or bytes, since the value is nested too deeply for JSON"
            raise InvalidValue("body", type(body), how) from None
        except (TypeError, ValueError) as error:
            how = f"give text, bytes, or a value that json.dumps takes ({error})"
            raise InvalidValue("body", body, how) from None
    if not text:
        raise InvalidValue("body", body, "give at least one character, since SQS takes no empty body")
    check_characters("body", text)
    return text, encoding


def are_clean(texts: Iterable[str], encoded: bytes) -> bool:
    """Returns whether SQS takes all characters of texts.

    Args:
        texts: each without surrogates.
        encoded: all of them in UTF-8, one after the other. One search for control characters is enough for all.
    """
    return _has_no_controls(encoded) and all(map(_has_only_characters, texts))


def _has_no_controls(encoded: bytes) -> bool:
    return len(encoded.translate(None, _REFUSED_ASCII)) == len(encoded)


def _has_only_characters(text: str) -> bool:
    return text.isascii() or not ("\ufffe" in text or "\uffff" in text)


def check_characters(name: str, text: str) -> None:
    """Raises InvalidValue if SQS refuses a character of the text."""
    # This takes half a microsecond for 280 characters. The search below takes 7.
    try:
        if _has_no_controls(text.encode()) and _has_only_characters(text):
            return
    except UnicodeEncodeError:  # a surrogate, which the search names
        pass
    bad = _REFUSED.search(text)
    if bad is not None:
        shown = f"U+{ord(bad[0]):04X} at position {bad.start()}"
        raise InvalidValue(name, text, f"give bytes instead, since SQS refuses the character {shown}")


def check_attributes(attributes: Mapping[str, str]) -> int:
    """Returns SQS's size of the attributes, in bytes.

    Raises:
        InvalidValue: too many attributes, a bad name, or a value that is not text.
    """
    if not attributes:
        return 0
    if not isinstance(attributes, Mapping):
        raise InvalidValue("attributes", attributes, "give a mapping of names to text")
    if len(attributes) > MAX_ATTRIBUTES:
        how = f"give at most {MAX_ATTRIBUTES}. SQS takes ten, and Tidewheel uses one"
        raise InvalidValue("attributes", list(attributes), how)
    size = 0
    for name, value in attributes.items():
        if not isinstance(name, str) or not ATTRIBUTE_NAME.match(name) or name == HEADER_ATTRIBUTE:
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
