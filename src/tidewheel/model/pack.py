"""Encodes many messages of one topic as a pack for an ingest queue.

The SQS message's body is a line for people (`{"topic": "orders", "messages": 120}`). The pack itself is the Binary
attribute `pack`, which SQS counts without base64's third:

    byte 0..3   CRC-32 of the rest, little-endian
    byte 4      version, 1
    byte 5..    zlib stream of one JSON object, a line feed, and the bodies in UTF-8, one after the other:
                  topic   name             gen    the topic's generation
                  sent    sender's ms      ids    base64 of n x 16 bytes
                  enc     n digits, one Encoding each
                  sizes   n numbers, the bytes of each body
                  times   n numbers, when each message was sent, or absent when all were at `sent`
                  attrs   n objects, or absent when all are empty
                  purge   ms of the last purge that the sender knew, or absent when nobody tells
                  opts    n objects or nulls (`validation.Options`), or absent

The pack holds columns instead of rows. Ids and bodies are checked as one buffer each, and messages are handled one by
one only where necessary. Bodies are outside the JSON, because most are JSON themselves: as JSON's texts they need
twice the time to read.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise, repeat
from typing import Any

from tidewheel.errors import CorruptPack, InvalidValue, NewerRelease
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.duration import MAX_DELAY_MS
from tidewheel.model.message import (
    HEADER_ATTRIBUTE,
    HEADER_BYTES,
    MAX_MESSAGE_BYTES,
    TIMES_END_MS,
    Encoding,
    id_deliver_at_ms,
    id_text,
    keyed_of,
)
from tidewheel.model.received import header_extras, header_text
from tidewheel.model.topic import check_name
from tidewheel.model.untrusted import decompressed, json_object_of, whole
from tidewheel.model.validation import Options, OutgoingMessage, are_clean, check_attributes, check_characters

PACK_ATTRIBUTE = "pack"
MAX_PACK_BYTES = 1_000_000
"""Limit of the encoded pack. Below SQS's 1 MiB, with room for the body and the attribute's name and type."""
MAX_RAW_BYTES = 3 * 1_048_576
"""Limit of the decompressed pack, against decompression bombs.

Attributes of 1 MiB take 2 MiB if JSON escapes every character.
"""
MAX_MESSAGES = 10_000
_TARGET_RAW_BYTES = 1_500_000
_OPTIONS_BYTES = 150
"""Approximate size of options as JSON."""
_LEVEL = 4
_VERSION = 1
PLAIN = ""
"""The generation of a pack of plain messages, before ingest has read the topic state."""
_MOST_HEADER_BYTES = 4096
"""Limit of our own attribute: two keys of 256 characters of four bytes, and its other fields."""
_GENERATION = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_END_OF_HEAD = b"\n"
_NO_ATTRIBUTES: dict[str, str] = {}
_CLOCK_TOLERANCE_MS = 86_400_000

SENDER_SKEW_MS = 300_000
"""How far a sender's clock may be off SQS's. AWS refuses requests of a clock that is five minutes off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """How SQS handed out a pack.

    Attributes:
        name: of the pack's progress. A pack that is redriven keeps its name, and not its SQS message id.
        retried: whether an earlier try may have sent messages.
        taken_ms: when SQS took the pack from its sender, by SQS's clock. 0 for a pack that was redriven.
    """

    name: str
    retried: bool
    taken_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """A plain message to cancel a key.

    Attributes:
        sent_at_ms, seq: its version. Stops nothing newer, however late or often it comes.
    """

    key: str
    sent_at_ms: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Messages of a topic, as columns of equal length.

    Attributes:
        ids: 16 bytes a message, concatenated.
        attributes, options: None when no message has any.
        own_sent_ms: when each message was sent. None: all at sent_at_ms.
        cancellations: of plain messages.
        known_purge_ms: the last purge that the sender knew. None: nobody tells.
        raw_bytes: size of the decompressed pack. The pack takes a few times as much memory.
        arrival: None if the pack did not come from a queue.
    """

    topic: str
    generation: str
    sent_at_ms: int
    ids: bytes
    encodings: Sequence[int]
    texts: Sequence[str]
    attributes: Sequence[Mapping[str, str]] | None
    options: Sequence[Options | None] | None = None
    own_sent_ms: Sequence[int] | None = None
    raw_bytes: int = 0
    cancellations: Sequence[Cancellation] = ()
    arrival: Arrival | None = None
    known_purge_ms: int | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def affects_others(self) -> bool:
        """Whether the ingestion of a message can affect another message."""
        return any(each is not None and each.affects_others for each in self.options or ())

    def sent_ms(self, place: int) -> int:
        """Returns when a message was sent."""
        return self.sent_at_ms if self.own_sent_ms is None else self.own_sent_ms[place]


def packs(
    topic: str,
    generation: str,
    sent_at_ms: int,
    messages: Sequence[OutgoingMessage],
    *,
    max_messages: int = MAX_MESSAGES,
    known_purge_ms: int | None = None,
) -> Iterator[tuple[list[int], bytes]]:
    """Encodes messages as packs for SQS, each of at most max_messages.

    Yields:
        The indexes of the messages in a pack, and the pack's bytes. A pack has at most MAX_PACK_BYTES, except a pack of
            one large message that does not compress. SQS takes that pack too.
    """
    encode = partial(_encode, topic, generation, sent_at_ms, known_purge_ms)
    group: list[int] = []
    raw = 0
    for index, message in enumerate(messages):
        size = len(message.text) + 30  # its id and punctuation; wide characters show in _split
        if message.attributes:
            size += sum(len(name) + len(value) + 6 for name, value in message.attributes.items())
        if message.options is not None:
            size += _OPTIONS_BYTES + len(message.options.key or "")
        if group and (raw + size > _TARGET_RAW_BYTES or len(group) == max_messages):
            yield from _split(encode, messages, group)
            group, raw = [], 0
        group.append(index)
        raw += size
    if group:
        yield from _split(encode, messages, group)


def _split(
    encode: Callable[[Sequence[OutgoingMessage]], bytes], messages: Sequence[OutgoingMessage], group: list[int]
) -> Iterator[tuple[list[int], bytes]]:
    some = [messages[i] for i in group]
    raw = encode(some)
    if len(raw) <= MAX_RAW_BYTES or len(group) == 1:
        data = _compressed(raw)
        if len(data) <= MAX_PACK_BYTES or len(group) == 1:
            yield group, data
            return
    middle = len(group) // 2
    yield from _split(encode, messages, group[:middle])
    yield from _split(encode, messages, group[middle:])


def select(pack: Pack, places: Sequence[int]) -> Pack:
    """Returns some messages of a pack."""

    def chosen(column: Sequence[Any] | None) -> list[Any] | None:
        return None if column is None else [column[place] for place in places]

    return replace(
        pack,
        ids=b"".join(pack.ids[16 * place : 16 * place + 16] for place in places),
        encodings=[pack.encodings[place] for place in places],
        texts=[pack.texts[place] for place in places],
        attributes=chosen(pack.attributes),
        options=chosen(pack.options),
        own_sent_ms=chosen(pack.own_sent_ms),
    )


def with_messages(pack: Pack, messages: Sequence[OutgoingMessage]) -> Pack:
    """Returns the pack with other messages."""
    attributes = [each.attributes for each in messages]
    options = [each.options for each in messages]
    return replace(
        pack,
        ids=b"".join(each.id for each in messages),
        encodings=[each.encoding for each in messages],
        texts=[each.text for each in messages],
        attributes=attributes if any(attributes) else None,
        options=None if all(each is None for each in options) else options,
        own_sent_ms=_own_sent_ms(pack.sent_at_ms, messages),
    )


def _own_sent_ms(sent_at_ms: int, messages: Sequence[OutgoingMessage]) -> list[int] | None:
    """Returns when each message was sent, or None if all were sent with the pack."""
    if all(each.sent_at_ms is None for each in messages):
        return None
    return [sent_at_ms if each.sent_at_ms is None else each.sent_at_ms for each in messages]


def outgoing(pack: Pack) -> list[OutgoingMessage]:
    """Returns the messages of a pack, each by itself."""
    none = [None] * len(pack)
    sent, attributes_of, options_of = pack.own_sent_ms or none, pack.attributes or none, pack.options or none
    columns = zip(pack.texts, pack.encodings, attributes_of, options_of, sent, strict=True)
    return [
        OutgoingMessage(
            id=pack.ids[16 * i : 16 * i + 16],
            text=text,
            encoding=Encoding(encoding),
            attributes=attributes or _NO_ATTRIBUTES,
            options=options,
            sent_at_ms=sent_at_ms,
        )
        for i, (text, encoding, attributes, options, sent_at_ms) in enumerate(columns)
    ]


def pack_body(topic: str, messages: int) -> str:
    """Returns the body of a pack's SQS message, a line for people."""
    return json.dumps({"topic": topic, "messages": messages})


def _compressed(raw: bytes) -> bytes:
    return sealed(bytes([_VERSION]) + zlib.compress(raw, _LEVEL))


def _encode(
    topic: str, generation: str, sent_at_ms: int, known_purge_ms: int | None, messages: Sequence[OutgoingMessage]
) -> bytes:
    bodies = [m.text.encode() for m in messages]
    document: dict[str, Any] = {
        "topic": topic,
        "gen": generation,
        "sent": sent_at_ms,
        "ids": base64.b64encode(b"".join([m.id for m in messages])).decode(),
        "enc": bytes([48 + m.encoding for m in messages]).decode(),
        "sizes": [len(body) for body in bodies],
    }
    if known_purge_ms is not None:
        document["purge"] = known_purge_ms
    times = _own_sent_ms(sent_at_ms, messages)
    if times is not None:
        document["times"] = times
    if any(m.attributes for m in messages):
        document["attrs"] = [dict(m.attributes) if m.attributes else _NO_ATTRIBUTES for m in messages]
    if any(m.options is not None for m in messages):
        document["opts"] = list(_documents(m.options for m in messages))
    head = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return b"".join((head, _END_OF_HEAD, *bodies))


def _documents(options: Iterable[Options | None]) -> Iterator[dict[str, Any] | None]:
    """Yields the options of each message as JSON. Messages of one plain message share their options."""
    last, document = None, None
    for each in options:
        if each is not last:
            last, document = each, None if each is None else each.document()
        yield document


def decode_pack(data: bytes, now_ms: int) -> Pack:
    """Reads an untrusted pack. Accepts only messages valid for a sender.

    Args:
        data: the attribute's bytes.
        now_ms: when SQS took the pack. Delivery times more than ten years after it are refused.

    Raises:
        CorruptPack: the data is not a pack, is too large, has columns that do not match, or has a message that cannot
            be delivered.
        NewerRelease: the pack has a newer version.
    """
    raw = _decompressed(data)
    head, _, bodies = raw.partition(_END_OF_HEAD)
    document = _document(head)
    try:
        topic = check_name("topic", document["topic"])
        generation, sent_at_ms, sizes = document["gen"], document["sent"], document["sizes"]
        known_purge_ms = whole(document["purge"]) if "purge" in document else None
        ids = base64.b64decode(document["ids"], validate=True)
        encodings = _encodings(document["enc"])
        times = [whole(each) for each in document["times"]] if "times" in document else None
        attributes = document.get("attrs")
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptPack(f"bad field ({_fault(error)})") from None
    n = len(sizes) if isinstance(sizes, list) else 0
    if not 0 < n <= MAX_MESSAGES or len(ids) != 16 * n or len(encodings) != n:
        raise CorruptPack("columns of different lengths, no messages, or too many")
    if not isinstance(generation, str) or not _GENERATION.match(generation):
        raise CorruptPack("bad generation")
    if type(sent_at_ms) is not int or not 0 <= sent_at_ms < TIMES_END_MS:
        raise CorruptPack("bad sending time")
    # A message that was sent after its pack would win its key for ever.
    if times is not None and (len(times) != n or max(times) > now_ms + SENDER_SKEW_MS):
        raise CorruptPack("sending times do not fit the bodies, or are later than the pack")
    if attributes is not None and (not isinstance(attributes, list) or len(attributes) != n):
        raise CorruptPack("attributes do not fit the bodies")
    _check_times(ids, now_ms)
    try:
        texts = _texts(bodies, sizes)
        options = _options(document.get("opts"), ids, topic)
        _check_keyed(ids, options)
        _check_messages(bodies, texts, encodings, options)
        _check_sizes(sizes, attributes, options, ids, sent_at_ms)
    except (TypeError, ValueError) as error:
        raise CorruptPack(f"a message that cannot be delivered ({_fault(error)})") from None
    return Pack(
        topic=topic,
        generation=generation,
        sent_at_ms=sent_at_ms,
        ids=ids,
        encodings=encodings,
        texts=texts,
        attributes=attributes,
        options=options,
        own_sent_ms=times,
        raw_bytes=len(raw),
        known_purge_ms=known_purge_ms,
    )


def _fault(error: Exception) -> str:
    """Returns an error's text without the value.

    The text goes into logs, and the value may be a body or a key.
    """
    if isinstance(error, InvalidValue):
        return f"{error.field}: {error.advice}"
    return str(error)


def _decompressed(data: bytes) -> bytes:
    try:
        rest = opened(data)
        if rest[0] > _VERSION:
            raise NewerRelease(f"pack version {rest[0]}; this release reads version {_VERSION}: upgrade Tidewheel")
        if rest[0] < _VERSION:
            raise CorruptPack(f"version {rest[0]}; this release reads version {_VERSION}")
        return decompressed(rest[1:], MAX_RAW_BYTES)
    except ValueError as error:
        raise CorruptPack(str(error)) from None


def _document(raw: bytes) -> dict[str, Any]:
    try:
        return json_object_of(raw.decode())
    except ValueError as error:
        raise CorruptPack(str(error)) from None


def _encodings(column: object) -> list[int]:
    if not isinstance(column, str) or column.strip("012"):
        raise ValueError("enc is not a text of the digits 0, 1 and 2")
    return [byte - 48 for byte in column.encode()]


def _texts(bodies: bytes, sizes: Sequence[object]) -> list[str]:
    """Returns the bodies as text, each of which has at least one character."""
    ends = list(accumulate(whole(size, 1) for size in sizes))
    if ends[-1] != len(bodies):
        raise ValueError("the sizes are not those of the bodies")
    try:
        return [bodies[start:end].decode() for start, end in pairwise((0, *ends))]
    except UnicodeDecodeError:
        raise ValueError("a body is not UTF-8") from None


def _options(column: object, ids: bytes, topic: str) -> list[Options | None] | None:
    if column is None:
        return None
    if not isinstance(column, list) or len(column) * 16 != len(ids):
        raise ValueError("options do not fit the bodies")
    found: list[Options | None] = []
    for place, each in enumerate(column):
        # Messages of one plain message share their options. Only an expiry depends on the due time.
        if place and each == column[place - 1] and "expires_at_ms" not in (each or ()):
            found.append(found[-1])
        elif each is None:
            found.append(None)
        else:
            found.append(Options.of_document(each, topic, id_deliver_at_ms(ids[16 * place : 16 * place + 6])))
    return found


def _check_keyed(ids: bytes, options: Sequence[Options | None] | None) -> None:
    """Raises ValueError if an id says of its message that it has a key, or has none, and it is not so."""
    for is_keyed, given in zip(keyed_of(ids), options or repeat(None), strict=False):
        if given is not None and given.recurring is not None:
            continue  # an occurrence, or an imported row with a key, which nothing settles
        if is_keyed is (given is None or given.key is None):
            raise ValueError("an id whose second bit behind the time does not say whether the message has a key")


def _check_times(ids: bytes, now_ms: int) -> None:
    latest = now_ms + MAX_DELAY_MS + _CLOCK_TOLERANCE_MS
    halves = array("Q", ids)
    if sys.byteorder == "little":
        halves.byteswap()
    if id_deliver_at_ms(max(halves[::2]).to_bytes(8)) > latest:
        raise CorruptPack("a delivery time is more than ten years ahead")


def _check_messages(
    bodies: bytes,
    texts: Sequence[str],
    encodings: Sequence[int],
    options: Sequence[Options | None] | None,
) -> None:
    """Raises ValueError for the first body that SQS or a ledger would refuse.

    InvalidValue is a ValueError.
    """
    if not are_clean(texts, bodies):
        for text in texts:
            check_characters("body", text)
    if Encoding.BYTES in encodings:
        for text, encoding, given in zip(texts, encodings, options or [None] * len(texts), strict=True):
            # The reference to a body in S3 is text, even if the body is not.
            if encoding == Encoding.BYTES and not (given is not None and given.payload is not None):
                binascii.a2b_base64(text, strict_mode=True)


def _check_sizes(
    sizes: Sequence[int],
    attributes: Sequence[Mapping[str, str]] | None,
    options: Sequence[Options | None] | None,
    ids: bytes,
    sent_at_ms: int,
) -> None:
    """Raises ValueError if SQS would refuse a message's attributes, or the message with a header is too large."""
    if attributes is None and options is None and max(sizes) <= MAX_MESSAGE_BYTES:
        return
    for i, body_bytes in enumerate(sizes):
        size = body_bytes
        given = None if options is None else options[i]
        if attributes is not None:
            if not isinstance(attributes[i], dict):
                raise ValueError("attributes are not an object")
            size += check_attributes(attributes[i])
        # Only a message of nearly the largest size can be too large with its header.
        if given is not None and size > MAX_MESSAGE_BYTES - _MOST_HEADER_BYTES:
            size += max(0, _header_bytes(ids[16 * i : 16 * i + 16], sent_at_ms, given) - HEADER_BYTES)
        if size > MAX_MESSAGE_BYTES:
            raise ValueError(f"body, attributes and header come to {size} bytes")


def _header_bytes(binary: bytes, sent_at_ms: int, given: Options) -> int:
    """Returns the size of a message's header, as SQS counts bytes.

    The attribute's name and type are included.
    """
    header = header_text(
        id_text(binary),
        Encoding.TEXT,
        sent_at_ms,
        key=given.key or given.recurring,
        expires_at_ms=given.expires_at_ms,
        group=given.group,
        extras=header_extras(given),
    )
    return len(header.encode()) + len(HEADER_ATTRIBUTE) + len("String")
