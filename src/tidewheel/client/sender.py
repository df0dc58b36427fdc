"""Checks messages, packs them together and sends the packs to ingest queues.

    messages --check--> chunk --+-- due soon ---> packs --> SendMessageBatch --> urgent queue
                                +-- due later --> packs --> SendMessageBatch --> bulk queue

A chunk ends at CHUNK_MESSAGES, at CHUNK_BYTES of text, or when its first message has waited CHUNK_WAIT_MS, so
memory use stays constant. The wait is only checked when the next message comes: an iterable that pauses holds back the
messages before the pause.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tidewheel import deadline
from tidewheel.aws.tries import AWS_ERRORS, CALL_S, classified, passes
from tidewheel.client import tracing
from tidewheel.client.core import Core
from tidewheel.errors import InvalidValue, LimitExceeded, QueueBusy, QueueUnavailable, SendFailed
from tidewheel.model.message import SQS_MAX_BYTES, Message, Receipt, id_floor, id_text
from tidewheel.model.pack import MAX_MESSAGES, PACK_ATTRIBUTE, pack_body, packs
from tidewheel.model.topic_state import TopicState
from tidewheel.model.triggers import KEYED_URGENT_MS
from tidewheel.model.validation import OutgoingMessage, check_message
from tidewheel.storage.bodies import store_body

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

URGENT_MS = 1_800_000
"""Messages due within this time go to the urgent queue. Other messages can wait for large ledgers.

The value must not be lower. A batch of the bulk queue waits for its window (300 s). If its call dies, the batch comes
again after the queue's visibility time-out (660 s), and may then take the function's whole time (60 s). With lookahead
and slot, at most 840 s, this makes less than half an hour. So even after a crash the batch's messages still go to a
ledger. After a second crash they go direct, in time.
"""
URGENT_PACK_MESSAGES = 1_000
"""Urgent messages may have to be sent at once, to every subscription. Ten such packs fit into one function call."""
CHUNK_MESSAGES = 10_000
CHUNK_BYTES = 8_000_000
CHUNK_WAIT_MS = 500
BATCH_ENTRIES = 10
ATTEMPTS = 5
_FIRST_PAUSE_S = 0.1
_BODIES = "s3"
"""The place of a topic's large bodies, beside the queues' URLs."""


class _Entry(NamedTuple):
    """An SQS message, with body, pack and the indexes of the caller's messages in the pack."""

    body: str
    pack: bytes
    indexes: list[int]

    @property
    def size(self) -> int:
        return len(self.body) + len(self.pack) + len(PACK_ATTRIBUTE) + len("Binary")


@dataclass(eq=False)
class Sender:
    """Sends to a topic, for a single call of the client.

    Attributes:
        broken: the errors of queues and of S3, which are not tried again. Calls may share it.
        call_s: how long each of them is waited for, as of `deadline.patience`.
        trace_context: what messages carry of the span that sends them.
    """

    core: Core
    state: TopicState
    pause: Callable[[float], None] = deadline.sleep
    broken: dict[str, Exception] = field(default_factory=dict)
    call_s: float | Callable[[], float] = CALL_S
    trace_context: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sqs: SQSClient = self.core.connection.sqs
        self._urgent_url, self._bulk_url = self.core.connection.settings.ingest_queues(self.state.topic)
        self._failures: dict[int, Exception] = {}

    def send(self, messages: Iterable[Message]) -> list[Receipt]:
        """Sends messages.

        Returns:
            One receipt a message, in order.

        Raises:
            SendFailed: some messages were not accepted, or the iterable raised; has the receipts of all others.
            InvalidValue: `messages` is empty or not an iterable.
        """
        if isinstance(messages, (Message, str, bytes, Mapping)) or not isinstance(messages, Iterable):
            raise InvalidValue("messages", messages, "give an iterable of Message(body=..., ...)")
        receipts: list[Receipt | None] = []
        for indexes, chunk in self._chunks(messages, receipts):
            self._send_chunk(indexes, chunk)
            for index, message in zip(indexes, chunk, strict=True):
                if index not in self._failures:
                    receipts[index] = receipt_of(self.state, message)
        if not receipts:
            raise InvalidValue("messages", messages, "give at least one message")
        if self._failures:
            raise SendFailed(dict(sorted(self._failures.items())), cast("list[object]", receipts))
        return cast("list[Receipt]", receipts)

    def _chunks(
        self, messages: Iterable[Message], receipts: list[Receipt | None]
    ) -> Iterator[tuple[list[int], list[OutgoingMessage]]]:
        """Checks messages and gathers valid messages in chunks. Each message gets a place among the receipts."""
        indexes: list[int] = []
        chunk: list[OutgoingMessage] = []
        size = 0
        began_ms = 0
        topic, levels = self.state.topic, self.state.settings.delay_levels
        stream = iter(messages)
        while True:
            index = len(receipts)
            try:
                message = next(stream)
            except StopIteration:
                break
            except Exception as error:  # the messages before the error are sent, and the caller gets their receipts
                receipts.append(None)
                self._failures[index] = error
                break
            receipts.append(None)
            now_ms = self.core.clock.now_ms()
            try:
                if not isinstance(message, Message):
                    raise InvalidValue(f"messages[{index}]", message, "give a Message")
                checked = check_message(message, self.core.ids, now_ms, topic=topic, levels=levels, large=True)
                self.core.cache.check_replaceable(self.state, message, checked.deliver_at_ms)
                self.core.cache.admit(self.state)
                checked = self._without_large_body(tracing.carrying(checked, self.trace_context))
            except (InvalidValue, LimitExceeded, *AWS_ERRORS) as error:
                self._failures[index] = error
                continue
            began_ms = began_ms if chunk else now_ms
            indexes.append(index)
            chunk.append(checked)
            size += len(checked.text)
            if len(chunk) == CHUNK_MESSAGES or size >= CHUNK_BYTES or now_ms - began_ms >= CHUNK_WAIT_MS:
                yield indexes, chunk
                indexes, chunk, size = [], [], 0
        if chunk:
            yield indexes, chunk

    def send_checked(self, messages: Sequence[OutgoingMessage]) -> list[Receipt]:
        """Sends checked messages.

        Raises:
            QueueUnavailable: SQS did not accept all messages.
        """
        for failure in self.try_checked(messages).values():
            raise failure
        return [receipt_of(self.state, each) for each in messages]

    def try_checked(self, messages: Sequence[OutgoingMessage]) -> dict[int, Exception]:
        """Sends checked messages. Returns index -> error for each refused message."""
        indexes: list[int] = []
        chunk: list[OutgoingMessage] = []
        for index, message in enumerate(messages):
            try:
                chunk.append(self._without_large_body(message))
            except AWS_ERRORS as error:
                self._failures[index] = error
            else:
                indexes.append(index)
        self._send_chunk(indexes, chunk)
        return self._failures

    def _without_large_body(self, message: OutgoingMessage) -> OutgoingMessage:
        """Stores a body too large for SQS in S3, before the message is sent.

        If the process stops after the PUT, no message names the object. The object is deleted 28 days after the message
        would have been due.
        """
        if not message.too_large:
            return message
        place = f"{_BODIES} {self.state.topic}"  # policies are by topic
        if place in self.broken:
            raise self.broken[place]
        try:
            with classified(), deadline.patience(self.call_s):
                bucket = self.core.connection.settings.s3_bucket
                return store_body(self.core.connection.objects, bucket, self.state.topic, message)
        except AWS_ERRORS as error:
            self.broken[place] = error
            raise

    def _send_chunk(self, indexes: list[int], chunk: list[OutgoingMessage]) -> None:
        now_ms = self.state.sent_at_ms(self.core.clock.now_ms())
        first_bulk_id, first_keyed_id = id_floor(now_ms + URGENT_MS + 1), id_floor(now_ms + KEYED_URGENT_MS + 1)
        urgent, bulk = list[int](), list[int]()
        for i, message in enumerate(chunk):
            affects_others = message.options is not None and message.options.affects_others
            soon = message.id < (first_keyed_id if affects_others else first_bulk_id)
            (urgent if soon else bulk).append(i)
        ways = ((self._urgent_url, urgent, URGENT_PACK_MESSAGES), (self._bulk_url, bulk, MAX_MESSAGES))
        for queue_url, places, most in ways:
            entries = self._entries([indexes[i] for i in places], [chunk[i] for i in places], now_ms, most)
            for batch in _batches(entries):
                with deadline.patience(self.call_s):
                    self._send_batch(queue_url, batch)

    def _entries(self, indexes: list[int], messages: list[OutgoingMessage], now_ms: int, most: int) -> Iterator[_Entry]:
        topic, known_ms = self.state.topic, self.state.sent_at_ms(0)
        for places, data in packs(
            topic, self.state.generation, now_ms, messages, max_messages=most, known_purge_ms=known_ms
        ):
            body = pack_body(topic, len(places))
            yield _Entry(body, data, [indexes[i] for i in places])

    def _send_batch(self, queue_url: str, batch: list[_Entry]) -> None:
        """Sends a batch, with up to ATTEMPTS attempts for entries refused by SQS's own fault."""
        reason = self.broken.get(queue_url)
        for attempt in range(ATTEMPTS):
            if reason is not None or not batch:
                break
            if attempt:
                self.pause(_FIRST_PAUSE_S * 2**attempt * random.uniform(0.5, 1))
            batch, reason = self._try(queue_url, batch, last=attempt == ATTEMPTS - 1)
        if reason is not None:
            self._fail(batch, reason)

    def _try(self, queue_url: str, batch: list[_Entry], *, last: bool) -> tuple[list[_Entry], Exception | None]:
        """Sends a batch once. Returns the entries to retry, or all entries and an error if SQS is unavailable."""
        try:
            answer = self._sqs.send_message_batch(
                QueueUrl=queue_url, Entries=[_request(i, entry, self.state.topic) for i, entry in enumerate(batch)]
            )
        except AWS_ERRORS as error:  # the SQS client has already retried
            failure = (QueueBusy if passes(error) else QueueUnavailable)(queue_url, str(error))
            failure.__cause__ = error
            self.broken[queue_url] = failure
            return batch, failure
        taken = {int(each["Id"]) for each in answer.get("Successful", [])}
        refused = {int(each["Id"]): each for each in answer.get("Failed", [])}
        left: list[_Entry] = []
        for i, entry in enumerate(batch):
            if i in taken:
                continue
            refusal = refused.get(i)
            theirs = refusal is not None and refusal["SenderFault"]
            if last or theirs:
                shown = "no answer" if refusal is None else f"{refusal['Code']}: {refusal.get('Message', '')}"
                self._fail([entry], (QueueUnavailable if theirs else QueueBusy)(queue_url, shown))
            else:
                left.append(entry)
        return left, None

    def _fail(self, entries: list[_Entry], error: Exception) -> None:
        for entry in entries:
            self._failures.update(dict.fromkeys(entry.indexes, error))


def receipt_of(state: TopicState, message: OutgoingMessage) -> Receipt:
    """Returns the receipt of a message that SQS has taken."""
    until_ms, due_ms = state.cancellable_until_ms(message.id), message.deliver_at_ms
    return Receipt(id=id_text(message.id), topic=state.topic, deliver_at_ms=due_ms, cancellable_until_ms=until_ms)


def _batches(entries: Iterable[_Entry]) -> Iterator[list[_Entry]]:
    """Groups SQS messages by the limits of a call, ten messages and 1 MiB."""
    batch: list[_Entry] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) == BATCH_ENTRIES or size + entry.size > SQS_MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch


def _request(index: int, entry: _Entry, topic: str) -> Any:
    return {
        "Id": str(index),
        "MessageBody": entry.body,
        # SQS's fair queues: a topic that sends much does not keep other topics' packs waiting.
        "MessageGroupId": topic,
        "MessageAttributes": {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": entry.pack}},
    }
