"""Releases ledger rows to a queue, each held back by the fine wheel until its second."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa

from tidewheel.errors import NotTaken, QueueUnavailable
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.queues import Release
from tidewheel.model.message import HEADER_ATTRIBUTE, HEADER_BYTES, SQS_MAX_BYTES, Encoding, id_text
from tidewheel.model.received import header_text
from tidewheel.model.wheel import fine_delay_s

BATCH_MESSAGES = 10
_ATTEMPTS = 3
_REFERENCE = '"ref":'
"""In a header's extras. JSON escapes quotation marks inside a text, so no text contains this."""


def releases(rows: pa.Table) -> list[Release]:
    """Returns ledger rows as messages to send, in the rows' order."""
    encodings = rows.column("encoding").to_pylist()
    payloads = rows.column("payload")
    texts: list[str]
    extras: list[str | None] = [None] * rows.num_rows
    attributes = rows.column("attributes")
    if attributes.null_count == rows.num_rows:
        sent_attributes: list[dict[str, str] | None] = [None] * rows.num_rows
    else:
        sent_attributes = [dict(pairs) if pairs else None for pairs in attributes.to_pylist()]
        extras = [None if each is None else each.pop(HEADER_ATTRIBUTE, None) for each in sent_attributes]
    if Encoding.BYTES in encodings:
        texts = [
            # The reference to a body in S3 is text, even if the body is not.
            base64.b64encode(payload).decode()
            if encoding == Encoding.BYTES and _REFERENCE not in (more or "")
            else payload.decode("utf-8", "replace")
            for payload, encoding, more in zip(payloads.to_pylist(), encodings, extras, strict=True)
        ]
    else:
        try:
            texts = payloads.cast(pa.string()).to_pylist()
        except pa.ArrowInvalid:  # not text: sent with replacement characters, so that it delays no others
            texts = [payload.decode("utf-8", "replace") for payload in payloads.to_pylist()]
    # to_pylist is slow on fixed_size_binary.
    ids = rows.column("message_id").cast(pa.binary()).to_pylist()
    return [
        _release(
            due, text, attrs, header_text(id_text(binary), encoding, sent, key=key, expires_at_ms=exp, extras=more)
        )
        for due, text, attrs, binary, encoding, sent, key, exp, more in zip(
            rows.column("deliver_at_ms").to_pylist(),
            texts,
            sent_attributes,
            ids,
            encodings,
            rows.column("sent_at_ms").to_pylist(),
            rows.column("key").to_pylist(),
            rows.column("expires_at_ms").to_pylist(),
            extras,
            strict=True,
        )
    ]


def _release(due: int, text: str, attributes: dict[str, str] | None, header: str) -> Release:
    size = (len(text) if text.isascii() else len(text.encode())) + _size(attributes)
    # Includes the name and the type of our own attribute.
    return Release(due, text, attributes, header, size + max(HEADER_BYTES, len(header.encode()) + 32))


def _size(attributes: dict[str, str] | None) -> int:
    if not attributes:
        return 0
    return sum(len(name.encode()) + len(value.encode()) + len("String") for name, value in attributes.items())


def send(ports: Ports, queue_url: str, messages: Sequence[Release]) -> int:
    """Sends messages to one queue. Returns the number of batches.

    The delay is computed just before each attempt. A message that SQS refuses for its own fault is kept in the queue of
    refused messages and stops nothing. If it stops half-way, a repetition sends copies of the sent messages with the
    same message ids.

    Raises:
        QueueUnavailable: the queue is gone or refuses everything; `unsent` lists the messages that were not taken.
        NotTaken: some messages were not taken after three tries.
        DelayTooLong: a message is due too far ahead; nothing of its batch was sent.
    """
    batches = _batches(messages)

    refused: list[int] = []
    errors: list[QueueUnavailable] = []

    def send_batch(index: int) -> None:
        try:
            if not errors:  # once one batch finds no queue, the others are not tried
                _send_batch(ports, queue_url, batches[index])
                return
        except QueueUnavailable as error:
            errors.append(error)
        refused.append(index)

    for _ in ports.parallel(send_batch, range(len(batches))):
        pass
    if refused:
        starts = list(accumulate(map(len, batches), initial=0))
        unsent = [place for index in sorted(refused) for place in range(starts[index], starts[index + 1])]
        raise QueueUnavailable(queue_url, errors[0].reason, unsent)
    return len(batches)


def _batches(messages: Sequence[Release]) -> list[Sequence[Release]]:
    found: list[Sequence[Release]] = []
    start = size = 0
    for i, message in enumerate(messages):
        if i - start == BATCH_MESSAGES or (i > start and size + message.size > SQS_MAX_BYTES):
            found.append(messages[start:i])
            start, size = i, 0
        size += message.size
    if start < len(messages):
        found.append(messages[start:])
    return found


def _send_batch(ports: Ports, queue_url: str, batch: Sequence[Release]) -> None:
    waiting = list(batch)
    for _ in range(_ATTEMPTS):
        now_ms = ports.clock.now_ms()
        delays = [fine_delay_s(message.deliver_at_ms, now_ms, ports.max_skew_ms) for message in waiting]
        refusals = ports.queues.send(queue_url, list(zip(waiting, delays, strict=True)))
        if not refusals:
            return
        for refusal in refusals:
            if refusal.permanent:
                refuse(ports, queue_url, waiting[refusal.index], refusal.code, refusal.reason)
        waiting = [waiting[refusal.index] for refusal in refusals if not refusal.permanent]
        if not waiting:
            return
    raise NotTaken(queue_url, len(waiting), _ATTEMPTS, refusals[-1].reason)


def refuse(ports: Ports, queue_url: str, message: Release, code: str, reason: str) -> None:
    """Keeps an undeliverable message, with the reason, in the queue of refused messages."""
    ports.queues.refuse(
        {
            "queue_url": queue_url,
            "code": code,
            "reason": reason,
            "header": message.header,
            "attributes": dict(message.attributes or {}),
            "body": message.text,
        }
    )
