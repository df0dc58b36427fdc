"""Reads plain messages: SQS messages of any program, without a pack.

    attributes   body         the message's own, opaque
                 attributes   tidewheel.topic, .delay or .deliver_at, .key, .replace, .expires_in, .window, .max_wait,
                              .cancel; all others are the message's own
    envelope     body         {"tidewheel": {"topic": "orders", "delay": "3d"}, "body": ..., "attributes": {...}}, or
                              {"tidewheel": {...}, "messages": [{"body": ..., "delay": "1h", "key": "a"}, ...]}

A message with an attribute `tidewheel.*` is read by its attributes. On a topic's own queue, the topic may be missing.
Times count from when SQS took the message. The id is made of the due time and

    the first 10 bytes of SHA-256("1\\n<topic>\\n<SQS's message id>\\n<place in the envelope, or 0>"), of which the
    first bit is cleared, and the second bit is 1 if the message has a key, and 0 otherwise

so that each delivery of the SQS message makes the same id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidewheel.errors import BadMessage, InvalidValue
from tidewheel.model.duration import at_ms, read_time
from tidewheel.model.message import HEADER_ATTRIBUTE, MAX_ATTRIBUTES, RANDOM_BITS, Message, id_of, shift_ms
from tidewheel.model.pack import MAX_MESSAGES, PLAIN, Arrival, Cancellation, Pack, with_messages
from tidewheel.model.received import X_RAY, QueuedMessage
from tidewheel.model.topic import check_name
from tidewheel.model.untrusted import Number, exact_json_of, json_text
from tidewheel.model.validation import OutgoingMessage, check_key, check_message

PREFIX = HEADER_ATTRIBUTE + "."
_TIMES = ("delay", "deliver_at")
_OPTIONS = (*_TIMES, "key", "replace", "expires_in", "window", "max_wait", "cancel")
_ENVELOPE_OPTIONS = {*_OPTIONS, "group"}
_DROPPED = "_datadog"
"""The Binary attribute of a tracing library, which no consumer needs."""
_PARTS = {"body", "attributes"}
_NUMBER = re.compile(r"\d{1,16}(\.\d{1,9})?\Z", re.ASCII)
_MARK = "\ufeff"
MAX_KEYS = 1_000
"""Messages with keys and cancels in an envelope. Each takes several requests, within a function's time."""
_OPTION_CHARACTERS = 1024
_SHARED_BYTES = 4 * 1_048_576
_ZONE = "give a time with a zone, such as 2027-01-31T09:00:00Z, or Unix seconds"
_LEAST_UNIX_S = 100_000_000
"""In 1973. Smaller numbers, such as 20270131, are other forms of a time."""
_MESSAGE_BYTES = 200
"""Approximate size of a message without its body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadPart:
    """A bad message of an envelope.

    Attributes:
        place: in the envelope.
        given: the message as sent, for `json_text`.
    """

    place: int
    given: object
    error: InvalidValue


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainMessages:
    """The content of an SQS message without a pack.

    Attributes:
        sent_at_ms: when SQS took the message, by SQS's clock.
        messages: in the order of the envelope, without the bad ones.
        cancellations: the keys to cancel.
        bad: what is refused, while all others are taken.
    """

    topic: str
    sent_at_ms: int
    messages: Sequence[OutgoingMessage]
    cancellations: Sequence[Cancellation]
    bad: Sequence[BadPart] = ()

    def pack(self, arrival: Arrival | None) -> Pack:
        """Returns the messages as a pack of no generation, as SQS handed them out."""
        pack = Pack(
            topic=self.topic,
            generation=PLAIN,
            sent_at_ms=self.sent_at_ms,
            ids=b"",
            encodings=(),
            texts=(),
            attributes=None,
            raw_bytes=sum(each.size + _MESSAGE_BYTES for each in self.messages),
            cancellations=self.cancellations,
            arrival=arrival,
        )
        return with_messages(pack, self.messages)


@dataclass(frozen=True, slots=True)
class _Ids:
    """Makes the id and the version of a plain message, in place of an `IdSource`."""

    topic: str
    sqs_message_id: str
    place: int

    def next(self, deliver_at: int, *, keyed: bool = False) -> bytes:
        return id_of(deliver_at, self._bits(), keyed=keyed)

    def next_in_window(self, deliver_at: int, window_ms: int, *, topic: str, key: str | None) -> bytes:
        low_64 = self._bits() & ((1 << 64) - 1)
        due_ms = deliver_at + shift_ms(window_ms, topic=topic, key=key, random_bits=low_64)
        return self.next(due_ms, keyed=key is not None)

    def sequence(self) -> int:
        """Returns 38 bits of the SQS message, and the place in its envelope: all below 2**52."""
        digest = hashlib.sha256(self.sqs_message_id.encode()).digest()
        return ((int.from_bytes(digest[:5]) >> 2) << 14) | self.place

    def _bits(self) -> int:
        digest = hashlib.sha256(f"1\n{self.topic}\n{self.sqs_message_id}\n{self.place}".encode()).digest()
        return int.from_bytes(digest[:10]) & RANDOM_BITS


def read_plain(message: QueuedMessage, own_topic: str | None) -> PlainMessages:
    """Reads an SQS message without a pack.

    Args:
        message: as SQS handed it out.
        own_topic: the topic of the queue. None: the queue is shared.

    Raises:
        BadMessage: an option, an attribute or the envelope is not valid. No retry helps.
    """
    try:
        given = {name: value for name, value in message.attributes.items() if name != _DROPPED}
        _check_names(given)
        if any(name.startswith(PREFIX) for name in given):
            return _of_attributes(message, given, own_topic)
        envelope = _envelope_of(message.body)
        if envelope is not None:
            texts = {name: value["StringValue"] for name, value in given.items()}
            return _of_envelope(message, envelope, texts, own_topic)
        return _of_attributes(message, given, own_topic)
    except InvalidValue as error:
        raise BadMessage(str(error)) from error


def _check_names(given: Mapping[str, Mapping[str, Any]]) -> None:
    seen: dict[str, str] = {}
    for name, value in given.items():
        known = name.removeprefix(PREFIX) in (*_OPTIONS, "topic")
        if name.lower() == HEADER_ATTRIBUTE:
            raise InvalidValue("attribute name", name, "use another name, since deliveries have an attribute like this")
        if name.lower().startswith(PREFIX) and not (name.startswith(PREFIX) and known):
            names = ", ".join(PREFIX + each for each in ("topic", *_OPTIONS))
            raise InvalidValue("attribute name", name, f"use one of {names}")
        if seen.setdefault(name.lower(), name) != name:
            raise InvalidValue("attribute name", name, f"use names that differ from {seen[name.lower()]!r} by more")
        if value.get("StringValue") is None:
            raise InvalidValue(f"attribute {name}", value.get("DataType"), "send text, since Binary is not delivered")


def _of_attributes(
    message: QueuedMessage, given: Mapping[str, Mapping[str, Any]], own_topic: str | None
) -> PlainMessages:
    texts = {name: value["StringValue"] for name, value in given.items()}
    options = {name.removeprefix(PREFIX): texts.pop(name) for name in given if name.startswith(PREFIX)}
    topic = _topic(options.pop("topic", None), own_topic)
    read = _read(message, topic, 0, options, message.body, texts, message.group)
    return _plain(topic, message, [read])


def _envelope_of(body: str) -> dict[str, Any] | None:
    """Returns the body as an envelope. None: the body is something else.

    Raises:
        InvalidValue: the body is a notification of SNS, or has an envelope but is not its JSON.
    """
    text = body.lstrip(f"{_MARK} \t\r\n")
    if text[:1] not in ("{", '"'):
        return None
    try:
        found = exact_json_of(text)
    except ValueError as error:
        if text[0] == "{" and f'"{HEADER_ATTRIBUTE}"' in text:
            raise InvalidValue("body", body, f"give an envelope in JSON ({error})") from None
        return None
    wrong = "behind a byte order mark (U+FEFF): leave the mark out" if _MARK in body[: -len(text)] else None
    if isinstance(found, str):
        found, wrong = _envelope_of(found) or {}, "JSON inside a JSON string: encode it once"
    if HEADER_ATTRIBUTE in found:
        if wrong is not None:
            raise InvalidValue("body", body, f"the envelope is {wrong}")
        # Null means absent, except for the options, and for the body of a single message.
        kept = {HEADER_ATTRIBUTE} | ({"body"} if found.get("messages") is None else set())
        return {name: value for name, value in found.items() if value is not None or name in kept}
    if found.get("Type") == "Notification" and "TopicArn" in found:
        raise InvalidValue("body", body, "set RawMessageDelivery of the SNS subscription to true")
    return None


def _of_envelope(
    message: QueuedMessage, envelope: Mapping[str, Any], texts: Mapping[str, str], own_topic: str | None
) -> PlainMessages:
    shared = {} if envelope[HEADER_ATTRIBUTE] is None else envelope[HEADER_ATTRIBUTE]
    if not isinstance(shared, dict):
        raise InvalidValue(HEADER_ATTRIBUTE, shared, 'give an object, such as {"topic": "orders", "delay": "3d"}')
    topic = _topic(shared.get("topic"), own_topic)
    shared = _options_of({name: value for name, value in shared.items() if name != "topic"})
    single = "messages" not in envelope
    _check_keys(envelope, {HEADER_ATTRIBUTE, *(_PARTS if single else ["messages"])}, "the envelope")
    if single:
        return _plain(topic, message, [_read_part(message, topic, 0, shared, envelope, texts)])
    some = envelope["messages"]
    if not isinstance(some, list) or not 1 <= len(some) <= MAX_MESSAGES:
        raise InvalidValue("messages", some, f"give a list of 1 to {MAX_MESSAGES} messages")
    if len(some) * sum(len(name) + len(value) for name, value in texts.items()) > _SHARED_BYTES:
        raise InvalidValue("attributes", [*texts], "put long attributes into the messages: each would have a copy")
    read: list[OutgoingMessage | Cancellation] = []
    bad: list[BadPart] = []
    keyed = 0
    for place, each in enumerate(some):
        try:
            if not isinstance(each, dict):
                raise InvalidValue(f"messages[{place}]", each, 'give an object, such as {"body": "...", "delay": "1h"}')
            own = _options_of({name: value for name, value in each.items() if name not in _PARTS})
            part = _read_part(message, topic, place, _inherited(shared, own) | own, each, texts)
            key = part.key if isinstance(part, Cancellation) else part.options and part.options.key
            keyed += key is not None
            if key is not None and keyed > MAX_KEYS:
                raise InvalidValue("key", key, f"send at most {MAX_KEYS} messages with keys in an envelope")
            read.append(part)
        except InvalidValue as error:
            bad.append(BadPart(place=place, given=each, error=error.with_traceback(None)))
    if not read:
        first = bad[0].error
        raise BadMessage(f"none of {len(bad)} messages can be taken: messages[0]: {first}") from first
    return replace(_plain(topic, message, read), bad=bad)


def _inherited(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the shared options that apply to a message of an envelope.

    The message's own delay or time replaces both shared ones. A cancel takes the key alone.
    """
    both = {**shared, **own}
    if _flag("cancel", both.get("cancel")):
        meant = {"key", "cancel"}
    else:
        meant = _ENVELOPE_OPTIONS - (set() if own.keys().isdisjoint(_TIMES) else {*_TIMES})
        meant -= {"replace", "max_wait"} if both.get("key") is None else set()
    return {name: value for name, value in shared.items() if name in meant}


def _read_part(
    message: QueuedMessage,
    topic: str,
    place: int,
    options: Mapping[str, Any],
    part: Mapping[str, Any],
    texts: Mapping[str, str],
) -> OutgoingMessage | Cancellation:
    """Reads a message of an envelope, with the attributes of the SQS message and of the message."""
    attributes = part.get("attributes")
    if not isinstance(attributes, dict | None):
        raise InvalidValue("attributes", attributes, "give an object of names and texts")
    if attributes:
        own = {name: _text_of(value) for name, value in attributes.items() if value is not None}
        if any(name.startswith(PREFIX) for name in own):
            raise InvalidValue("attributes", [*own], f"put {PREFIX}* without the prefix beside the body")
        texts = {**texts, **own}
        _check_names({name: {"StringValue": value} for name, value in texts.items()})
    options = dict(options)
    if _flag("cancel", options.get("cancel")):
        if part.get("body") is not None:
            raise InvalidValue("body", part["body"], "leave it out of a cancel, or leave out cancel")
        return _read(message, topic, place, options, None, texts, None)
    if "body" not in part:
        raise InvalidValue("body", None, "give each message a body")
    group = options.pop("group", message.group)
    return _read(message, topic, place, options, part["body"], texts, group)


def _options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Checks options. Returns those that are not null."""
    _check_keys(given, _ENVELOPE_OPTIONS, "the options")
    options = {name: float(value.text) if isinstance(value, Number) else value for name, value in given.items()}
    for name, value in options.items():
        # Shared options are read for each message, and an error quotes the value.
        if not isinstance(value, str | int | float | None) or len(str(value)) > _OPTION_CHARACTERS:
            raise InvalidValue(name, value, f"give a text of at most {_OPTION_CHARACTERS} characters, or a number")
    return {name: value for name, value in options.items() if value is not None}


def _check_keys(given: Mapping[str, Any], known: set[str], where: str) -> None:
    if not given.keys() <= known:
        name = next(each for each in given if each not in known)
        raise InvalidValue("name", name, f"use one of {', '.join(sorted(known))} in {where}")


def _text_of(value: object) -> Any:
    """Returns a number as text; other values are as they are, for the check of attributes."""
    number = isinstance(value, int | float | Number) and not isinstance(value, bool)
    return json_text(value) if number else value


def _topic(given: object, own: str | None) -> str:
    if given is None and own is None:
        raise InvalidValue(PREFIX + "topic", None, "name the topic, in an attribute of the message or in its envelope")
    topic = check_name("topic", own if given is None else given)
    if own is not None and topic != own:
        raise InvalidValue(PREFIX + "topic", topic, f"send here for topic {own!r} only, since the queue is its own")
    return topic


def _plain(topic: str, message: QueuedMessage, read: Sequence[OutgoingMessage | Cancellation]) -> PlainMessages:
    return PlainMessages(
        topic=topic,
        sent_at_ms=message.sent_at_ms,
        messages=[each for each in read if isinstance(each, OutgoingMessage)],
        cancellations=[each for each in read if isinstance(each, Cancellation)],
    )


def _read(
    message: QueuedMessage,
    topic: str,
    place: int,
    options: Mapping[str, Any],
    body: object,
    attributes: Mapping[str, str],
    group: str | None,
) -> OutgoingMessage | Cancellation:
    """Reads a message, or the cancel of a key."""
    ids = _Ids(topic, message.id, place)
    key = options.get("key")
    if _flag("cancel", options.get("cancel")):
        if len(options) > 2 or key is None:
            raise InvalidValue("cancel", sorted(options), "give a key, and no other option, with a cancel")
        return Cancellation(key=check_key(key), sent_at_ms=message.sent_at_ms, seq=ids.sequence())
    if options.keys() >= {*_TIMES}:
        raise InvalidValue(", ".join(_TIMES), tuple(map(options.get, _TIMES)), "give only one of these options")
    if message.trace is not None and len(attributes) < MAX_ATTRIBUTES and X_RAY not in attributes:
        attributes = {**attributes, X_RAY: message.trace}
    given = Message(
        body=body,
        delay=_duration(options.get("delay")),
        deliver_at=_time(options.get("deliver_at")),
        key=key,
        replace=_flag("replace", options.get("replace")),
        expires_in=_duration(options.get("expires_in")),
        window=_duration(options.get("window")),
        max_wait=_duration(options.get("max_wait")),
        group=group,
        attributes=attributes,
    )
    # A past time stays in the id, so that a sender can compute the id from the given time and SQS's message id.
    now_ms = message.sent_at_ms
    if given.deliver_at is not None:
        now_ms = max(0, min(now_ms, at_ms("deliver_at", given.deliver_at)))
    checked = check_message(given, ids, now_ms, topic=topic, large=True)
    late_ms, own = message.sent_at_ms - checked.deliver_at_ms, checked.options
    if late_ms > 0 and own is not None and own.expires_at_ms is not None:
        # As in the SDK, an expiry counts from the sending if the message was due before.
        return replace(checked, options=replace(own, expires_at_ms=own.expires_at_ms + late_ms))
    return checked


def _flag(name: str, value: object) -> bool:
    if value is None or value is False or value == "false":
        return False
    if value is True or value == "true":
        return True
    raise InvalidValue(name, value, "give true or false")


def _duration(value: Any) -> Any:
    """Returns a text of digits as seconds; other values are as they are, for the check."""
    return float(value) if isinstance(value, str) and _NUMBER.match(value) else value


def _time(value: Any) -> Any:
    """Returns a text as a time or Unix seconds; other values are as they are, for the check."""
    given = _duration(value)
    found = read_time(given) if isinstance(given, str) else given
    is_number = isinstance(given, int | float)
    if (isinstance(given, str) and (found is None or found.tzinfo is None)) or (is_number and given < _LEAST_UNIX_S):
        raise InvalidValue("deliver_at", value, _ZONE)
    return found
