"""Sends ledger rows to a queue, each held back by the fine wheel until its second."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter

import pyarrow as pa

from tidewheel import deadline
from tidewheel.deadline import TRY_S
from tidewheel.errors import ClockDoubted, DelayTooLong, OutOfTime, QueueUnavailable
from tidewheel.flows.ports import Ports, QueueMessage
from tidewheel.model.message import HEADER_ATTRIBUTE, HEADER_BYTES, SQS_MAX_BYTES, Encoding, carried, id_text
from tidewheel.model.received import header_text
from tidewheel.model.settings import TopicSettings
from tidewheel.model.wheel import fine_delay_s

BATCH_MESSAGES = 10
_ATTEMPTS = 3
_MOST_FAILED = 2
"""Batches in a row that take nothing, after which the queue gets no more of this call."""
_PARKING_S = 4 * TRY_S
"""Kept to park messages that no queue takes."""
_QUEUE_MS = 20_000
"""How long one call sends to one queue: a third of a delivering function's time."""
_REFERENCE = '"ref":'
"""In a header's extras. JSON escapes quotation marks inside a text, so no text contains this."""


def attributes_of(rows: pa.Table) -> tuple[list[dict[str, str] | None], list[str | None]]:
    """Returns each row's attributes as sent, and its header's extras, which a ledger keeps among the attributes."""
    attributes = rows.column("attributes")
    if attributes.null_count == rows.num_rows:
        return [None] * rows.num_rows, [None] * rows.num_rows
    sent = [dict(pairs) if pairs else None for pairs in attributes.to_pylist()]
    return sent, [None if each is None else each.pop(HEADER_ATTRIBUTE, None) for each in sent]


def texts_of(rows: pa.Table, extras: Sequence[str | None]) -> list[str]:
    """Returns each row's body as SQS carries it."""
    encodings, payloads = rows.column("encoding").to_pylist(), rows.column("payload")
    if Encoding.BYTES not in encodings:
        with suppress(pa.ArrowInvalid):  # not text: sent with replacement characters, so that it delays no others
            texts: list[str] = payloads.cast(pa.string()).to_pylist()
            return texts
    return [
        # The reference to a body in S3 is text, even if the body is not.
        base64.b64encode(payload).decode()
        if encoding == Encoding.BYTES and _REFERENCE not in (more or "")
        else payload.decode("utf-8", "replace")
        for payload, encoding, more in zip(payloads.to_pylist(), encodings, extras, strict=True)
    ]


def queue_messages(
    rows: pa.Table, settings: TopicSettings, *, carry: str | None = None, claim: str | None = None
) -> list[QueueMessage]:
    """Returns ledger rows as messages to send, in the rows' order.

    Args:
        rows: in a ledger's columns.
        settings: the topic's.
        carry: the subscription's setting.
        claim: the subscription's generation, for which consumers claim messages. None: no row is claimed.
    """
    sent_attributes, extras = attributes_of(rows)
    # to_pylist is slow on fixed_size_binary.
    ids = rows.column("message_id").cast(pa.binary()).to_pylist()
    messages = [
        _queue_message(
            due,
            text,
            attrs,
            header_text(
                id_text(binary),
                encoding,
                sent,
                key=key,
                expires_at_ms=exp,
                group=group,
                claim=claim if settings.claims_id(binary) else None,
                extras=more,
            ),
            group,
        )
        for due, text, attrs, binary, encoding, sent, key, exp, more, group in zip(
            rows.column("deliver_at_ms").to_pylist(),
            texts_of(rows, extras),
            sent_attributes,
            ids,
            rows.column("encoding").to_pylist(),
            rows.column("sent_at_ms").to_pylist(),
            rows.column("key").to_pylist(),
            rows.column("expires_at_ms").to_pylist(),
            extras,
            rows.column("message_group").to_pylist(),
            strict=True,
        )
    ]
    return messages if carry is None else [_carrying(each) for each in messages]


def _carrying(plain: QueueMessage) -> QueueMessage:
    header, attributes, id_ = carried(plain.header, plain.attributes or {})
    return _queue_message(plain.deliver_at_ms, plain.text, attributes, header, plain.group or id_)


def _queue_message(
    due: int, text: str, attributes: dict[str, str] | None, header: str, group: str | None
) -> QueueMessage:
    size = (len(text) if text.isascii() else len(text.encode())) + _size(attributes)
    # Includes the name and the type of our own attribute.
    return QueueMessage(due, text, attributes, header, size + max(HEADER_BYTES, len(header.encode()) + 32), group)


def _size(attributes: dict[str, str] | None) -> int:
    if not attributes:
        return 0
    return sum(len(name.encode()) + len(value.encode()) + len("String") for name, value in attributes.items())


@dataclass(slots=True)
class Outcome:
    """The result of sending messages to one queue.

    Attributes:
        messages: how many there were.
        untaken: the places of messages that the queue did not take, or that were not tried.
        refused: how many messages went to the queue of refused messages.
        unavailable: whether the queue is gone or denies access.
        error: a failure of a call, if any.
    """

    messages: int
    untaken: set[int] = field(default_factory=set)
    refused: int = 0
    unavailable: bool = False
    error: Exception | None = None

    @property
    def taken(self) -> int:
        """How many messages are settled: sent, or kept in the queue of refused messages."""
        return self.messages - len(self.untaken)

    @property
    def sent(self) -> int:
        """How many messages the queue took."""
        return self.taken - self.refused

    @property
    def places(self) -> list[int]:
        """The places of the messages that the queue did not take, in order."""
        return sorted(self.untaken)

    @property
    def down(self) -> bool:
        """Whether the queue takes nothing: it is gone, or took none of a whole batch at least."""
        if isinstance(self.error, ClockDoubted | DelayTooLong | OutOfTime):  # the queue is not at fault
            return False
        return self.unavailable or (not self.taken and self.messages >= BATCH_MESSAGES)

    @property
    def failures(self) -> tuple[Exception, ...]:
        """The error for the log, if a call got no answer or none that says more."""
        return () if self.error is None or self.unavailable else (self.error,)


class _Sending:
    """The sending of messages to one queue. Gives up early, so that the queue holds no call."""

    def __init__(self, ports: Ports, queue_url: str, messages: Sequence[QueueMessage]) -> None:
        self._ports = ports
        self._queue_url = queue_url
        self.batches = _batches(messages)
        self._starts = list(accumulate(map(len, self.batches), initial=0))
        self._ends_ms: int | None = None
        self._failed_in_a_row = 0
        self.outcome = Outcome(len(messages))

    def send(self, index: int) -> None:
        """Sends a batch, unless the queue was given up. Raises nothing."""
        start, batch = self._starts[index], self.batches[index]
        waiting = list(range(len(batch)))
        if self._goes_on():
            # A queue that took nothing of a batch is not asked three times for the next.
            for _ in range(1 if self._failed_in_a_row else _ATTEMPTS):
                if not waiting or not self._try(batch, waiting):
                    break
            self._failed_in_a_row = self._failed_in_a_row + 1 if len(waiting) == len(batch) else 0
        self.outcome.untaken.update(start + place for place in waiting)

    def _goes_on(self) -> bool:
        """Whether the queue gets another batch. A machine whose clock is doubted sends none."""
        try:
            now_ms = self._ports.clock.now_ms()
        except ClockDoubted as error:
            self.outcome.error = error
            return False
        self._ends_ms = self._ends_ms or now_ms + _QUEUE_MS
        in_time = now_ms < self._ends_ms and deadline.left_s() > 0
        return self._failed_in_a_row < _MOST_FAILED and in_time and not self.outcome.unavailable

    def _try(self, batch: Sequence[QueueMessage], waiting: list[int]) -> bool:
        """Sends the waiting messages of a batch once. Returns whether another try may help."""
        ports, places = self._ports, [*waiting]
        try:
            now_ms = ports.clock.now_ms()
            delays = [fine_delay_s(batch[place].deliver_at_ms, now_ms, ports.max_skew_ms) for place in places]
            entries = [(batch[place], delay) for place, delay in zip(places, delays, strict=True)]
            refusals = {places[each.index]: each for each in ports.queues.send(self._queue_url, entries)}
            waiting[:] = sorted(refusals)
            for place, refusal in refusals.items():
                if refusal.permanent:
                    refuse(ports, self._queue_url, batch[place], refusal.code, refusal.reason)
                    waiting.remove(place)
                    self.outcome.refused += 1
        except Exception as error:  # no answer, or none that says which messages were taken
            self.outcome.error = error
            self.outcome.unavailable |= isinstance(error, QueueUnavailable) and len(waiting) == len(batch)
            return False
        return True


def send(ports: Ports, queue_url: str, messages: Sequence[QueueMessage]) -> Outcome:
    """Sends messages to one queue. See `send_all`."""
    [outcome] = send_all(ports, [(queue_url, messages)])
    return outcome


def send_all(ports: Ports, sendings: Sequence[tuple[str, Sequence[QueueMessage]]]) -> list[Outcome]:
    """Sends messages to queues, side by side. Returns the outcome of each queue. Raises nothing.

    The batches of all queues take turns, so a slow queue holds no other. A queue is given up once _MOST_FAILED batches
    in a row took nothing, or after _QUEUE_MS. The delay is computed just before each attempt. A message that SQS
    refuses for its own fault is kept in the queue of refused messages and stops nothing. If it stops half-way, a
    repetition sends copies of the sent messages with the same message ids.
    """
    queues = [_Sending(ports, queue_url, messages) for queue_url, messages in sendings]
    turns = [(number, queue) for queue in queues for number in range(len(queue.batches))]
    if len(queues) > 1:
        turns.sort(key=itemgetter(0))

    with deadline.reserve(_PARKING_S):
        ports.parallel(lambda turn: turn[1].send(turn[0]), turns)
    return [queue.outcome for queue in queues]


def _batches(messages: Sequence[QueueMessage]) -> list[Sequence[QueueMessage]]:
    batches: list[Sequence[QueueMessage]] = []
    start = size = 0
    for i, message in enumerate(messages):
        if i - start == BATCH_MESSAGES or (i > start and size + message.size > SQS_MAX_BYTES):
            batches.append(messages[start:i])
            start, size = i, 0
        size += message.size
    if start < len(messages):
        batches.append(messages[start:])
    return batches


def refuse(ports: Ports, queue_url: str, message: QueueMessage, code: str, reason: str) -> None:
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
