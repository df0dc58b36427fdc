"""Release: rows of ledgers become messages in a queue, each held back by the fine wheel until its second."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pyarrow as pa

from tidewheel.errors import NotTaken
from tidewheel.flows.ports import Ports, Release
from tidewheel.message import HEADER_BYTES, SQS_MAX_BYTES, Encoding, header_text, id_text
from tidewheel.wheel import fine_delay_s

BATCH_MESSAGES = 10
_ATTEMPTS = 3


def releases(rows: pa.Table) -> list[Release]:
    """Returns ledger rows as messages to send, in the rows' order."""
    encodings = rows.column("encoding").to_pylist()
    payloads = rows.column("payload")
    texts: list[str]
    if Encoding.BYTES in encodings:
        texts = [
            base64.b64encode(payload).decode() if encoding == Encoding.BYTES else payload.decode("utf-8", "replace")
            for payload, encoding in zip(payloads.to_pylist(), encodings, strict=True)
        ]
    else:
        texts = payloads.cast(pa.string()).to_pylist()
    attributes = rows.column("attributes")
    if attributes.null_count == rows.num_rows:
        sent_attributes: list[dict[str, str] | None] = [None] * rows.num_rows
    else:
        sent_attributes = [dict(pairs) if pairs else None for pairs in attributes.to_pylist()]
    # to_pylist is slow on fixed_size_binary.
    ids = rows.column("message_id").cast(pa.binary()).to_pylist()
    return [
        Release(
            due,
            text,
            attrs,
            header_text(id_text(binary), encoding, sent),
            (len(text) if text.isascii() else len(text.encode())) + HEADER_BYTES + _size(attrs),
        )
        for due, text, attrs, binary, encoding, sent in zip(
            rows.column("deliver_at_ms").to_pylist(),
            texts,
            sent_attributes,
            ids,
            encodings,
            rows.column("sent_at_ms").to_pylist(),
            strict=True,
        )
    ]


def _size(attributes: dict[str, str] | None) -> int:
    if not attributes:
        return 0
    return sum(len(name.encode()) + len(value.encode()) + len("String") for name, value in attributes.items())


def send(ports: Ports, queue_url: str, messages: Sequence[Release]) -> int:
    """Sends messages to one queue; returns how many batches that took.

    The delay is computed anew at each attempt, just before it. A message that SQS refuses for a fault of its own is
    kept in the queue of refused messages and stops nothing. If this stops half-way, what was sent was sent: a
    repetition sends copies with the same message ids.

    Raises:
        QueueUnavailable: the queue is gone or refuses everything.
        NotTaken: some messages were not taken after three tries.
        DelayTooLong: a message is due too far ahead; nothing of its batch was sent.
    """
    batches = _batches(messages)

    def send_batch(index: int) -> None:
        _send_batch(ports, queue_url, batches[index])

    for _ in ports.parallel(send_batch, range(len(batches))):
        pass
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


def refuse_all(ports: Ports, queue_url: str, messages: Sequence[Release], code: str, reason: str) -> None:
    """Refuses messages side by side."""

    def refuse_one(index: int) -> None:
        refuse(ports, queue_url, messages[index], code, reason)

    for _ in ports.parallel(refuse_one, range(len(messages))):
        pass


def refuse(ports: Ports, queue_url: str, message: Release, code: str, reason: str) -> None:
    """Keeps a message that cannot be delivered, with the reason, in the queue of refused messages."""
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
