"""A pack: many messages of one topic in one message of an ingest queue.

The SQS message's body is a line for people (`{"topic": "orders", "messages": 120}`); the pack itself is the Binary
attribute `pack`, which SQS counts without base64's third:

    byte 0      version (1)
    byte 1..    zlib stream of one JSON object, UTF-8:
                  topic   name             gen    the topic's generation
                  sent    sender's ms      ids    base64 of n x 16 bytes
                  enc     n digits, one Encoding each
                  bodies  n texts          attrs  n objects, or absent when all are empty

Columns, not rows: ids decode to one buffer, and nothing is looked at a message at a time before it must be.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidewheel.duration import MAX_DELAY_MS
from tidewheel.errors import CorruptPack, InvalidValue
from tidewheel.message import CheckedMessage, Encoding, id_deliver_at_ms
from tidewheel.topic import check_name

PACK_ATTRIBUTE = "pack"
MAX_PACK_BYTES = 1_000_000
"""Encoded; below SQS's 1 MiB with room for the body and the attribute's name and type."""
MAX_RAW_BYTES = 5 * 1_048_576
"""Decoded JSON: one message of 1 MiB whose every character JSON escapes, with attributes; the bound for bombs."""
MAX_MESSAGES = 10_000
_TARGET_RAW_BYTES = 1_500_000
_VERSION = 1
_CLOCK_TOLERANCE_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Messages of one topic, as columns of equal length.

    Attributes:
        ids: 16 bytes a message, one after the other.
        attributes: None when no message has any.
    """

    topic: str
    generation: str
    sent_at_ms: int
    ids: bytes
    encodings: Sequence[int]
    texts: Sequence[str]
    attributes: Sequence[Mapping[str, str]] | None

    def __len__(self) -> int:
        return len(self.texts)


def packs(
    topic: str, generation: str, sent_at_ms: int, messages: Sequence[CheckedMessage]
) -> Iterator[tuple[list[int], bytes]]:
    """Encodes messages as packs that SQS takes.

    Yields:
        The indexes of the messages in a pack, and its bytes (at most MAX_PACK_BYTES).
    """
    group: list[int] = []
    raw = 0
    for index, message in enumerate(messages):
        size = 2 * len(message.text) if len(message.text) > 100_000 else len(message.text.encode()) + 40
        size += sum(len(k) + len(v) + 8 for k, v in message.attributes.items())
        if group and (raw + size > _TARGET_RAW_BYTES or len(group) == MAX_MESSAGES):
            yield from _split(topic, generation, sent_at_ms, messages, group)
            group, raw = [], 0
        group.append(index)
        raw += size
    if group:
        yield from _split(topic, generation, sent_at_ms, messages, group)


def _split(
    topic: str, generation: str, sent_at_ms: int, messages: Sequence[CheckedMessage], group: list[int]
) -> Iterator[tuple[list[int], bytes]]:
    data = _encode(topic, generation, sent_at_ms, [messages[i] for i in group])
    if len(data) <= MAX_PACK_BYTES or len(group) == 1:
        yield group, data
        return
    middle = len(group) // 2
    yield from _split(topic, generation, sent_at_ms, messages, group[:middle])
    yield from _split(topic, generation, sent_at_ms, messages, group[middle:])


def _encode(topic: str, generation: str, sent_at_ms: int, messages: Sequence[CheckedMessage]) -> bytes:
    document: dict[str, Any] = {
        "topic": topic,
        "gen": generation,
        "sent": sent_at_ms,
        "ids": base64.b64encode(b"".join(m.id for m in messages)).decode(),
        "enc": "".join(str(int(m.encoding)) for m in messages),
        "bodies": [m.text for m in messages],
    }
    if any(m.attributes for m in messages):
        document["attrs"] = [dict(m.attributes) for m in messages]
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return bytes([_VERSION]) + zlib.compress(text.encode(), 4)


def decode_pack(data: bytes, now_ms: int) -> Pack:
    """Reads a pack that anybody may have written.

    Args:
        data: the attribute's bytes.
        now_ms: ingest's time; a delivery time more than ten years after it is refused.

    Raises:
        CorruptPack: it is not a pack, is too large, or a column does not fit the others.
    """
    document = _document(data)
    try:
        topic = check_name("topic", document["topic"])
        generation, sent_at_ms, texts = document["gen"], document["sent"], document["bodies"]
        ids = base64.b64decode(document["ids"], validate=True)
        encodings = [int(Encoding(int(digit))) for digit in document["enc"]]
        attributes = document.get("attrs")
    except (KeyError, TypeError, ValueError, InvalidValue) as error:
        raise CorruptPack(f"bad field ({error})") from None
    n = len(texts) if isinstance(texts, list) else 0
    if not 0 < n <= MAX_MESSAGES or len(ids) != 16 * n or len(encodings) != n:
        raise CorruptPack("columns of different lengths, or no messages")
    if not isinstance(generation, str) or not isinstance(sent_at_ms, int) or not 0 <= sent_at_ms < 1 << 48:
        raise CorruptPack("bad generation or sending time")
    if not all(isinstance(text, str) and text for text in texts):
        raise CorruptPack("a body is not text, or is empty")
    if attributes is not None:
        _check_attributes(attributes, n)
    _check_times(ids, now_ms)
    _check_texts(texts, encodings)
    return Pack(
        topic=topic,
        generation=generation,
        sent_at_ms=sent_at_ms,
        ids=ids,
        encodings=encodings,
        texts=texts,
        attributes=attributes,
    )


def _document(data: bytes) -> dict[str, Any]:
    if not data or data[0] != _VERSION:
        raise CorruptPack(f"version {data[0] if data else 'missing'}; this release reads version {_VERSION}")
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(data[1:], MAX_RAW_BYTES)
        if not unpacker.eof:
            raise CorruptPack(f"over {MAX_RAW_BYTES} bytes decompressed, or cut short")
        document = json.loads(raw)
    except (zlib.error, ValueError, RecursionError) as error:
        raise CorruptPack(str(error)) from None
    if not isinstance(document, dict):
        raise CorruptPack("not a JSON object")
    return document


def _check_attributes(attributes: object, n: int) -> None:
    if not isinstance(attributes, list) or len(attributes) != n:
        raise CorruptPack("attributes do not fit the bodies")
    for each in attributes:
        if not isinstance(each, dict) or not all(isinstance(value, str) for value in each.values()):
            raise CorruptPack("attributes are not text")


def _check_times(ids: bytes, now_ms: int) -> None:
    latest = now_ms + MAX_DELAY_MS + _CLOCK_TOLERANCE_MS
    last = max(ids[i : i + 6] for i in range(0, len(ids), 16))
    if id_deliver_at_ms(last) > latest:
        raise CorruptPack("a delivery time is more than ten years ahead")


def _check_texts(texts: Sequence[str], encodings: Sequence[int]) -> None:
    for text, encoding in zip(texts, encodings, strict=True):
        try:
            if encoding == Encoding.BYTES:
                binascii.a2b_base64(text, strict_mode=True)
            else:
                text.encode()
        except ValueError as error:
            raise CorruptPack(f"a body is not what its encoding says ({error})") from None
