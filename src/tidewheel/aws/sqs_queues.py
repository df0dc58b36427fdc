"""Sends to the subscriptions' SQS queues, the work queue and the queue of refused messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidewheel import deadline
from tidewheel.errors import QueueUnavailable
from tidewheel.flows.ports import QueueMessage, Refusal
from tidewheel.model.marks import across_items
from tidewheel.model.message import HEADER_ATTRIBUTE, SQS_MAX_BYTES
from tidewheel.model.pack import PACK_ATTRIBUTE, pack_body
from tidewheel.model.park import ParkKey
from tidewheel.model.settings import ServiceSettings
from tidewheel.model.subscription_state import DeliveryKey
from tidewheel.model.task import CatchUpTask, DrainTask, PartTask, Task, task_body, topic_of

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef as Entry

BATCH = 10
ATTEMPTS = 4
_BACKOFF_S = 0.1

# The last part of a code's dotted name. KMS has its own exceptions for every problem with a key.
# A queue of the wrong type (FIFO) does not take our messages either.
_UNAVAILABLE = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "InvalidAddress",
        "InvalidSecurity",
        "MissingParameter",
        "NonExistentQueue",
        "QueueDeletedRecently",
        "QueueDoesNotExist",
        "UnsupportedOperation",
    }
)
_MESSAGE_FAULTS = frozenset(
    {
        "BatchRequestTooLong",
        "InvalidAttributeName",
        "InvalidAttributeValue",
        "InvalidMessageContents",
        "InvalidParameterCombination",
        "InvalidParameterValue",
        "InvalidParameterValueException",
        "MessageTooLong",
        "SerializationException",
        "ValidationError",
        "ValidationException",
    }
)


@dataclass(eq=False)
class SqsQueues:
    """Implements the port `Queues` on SQS. Safe for use by several threads.

    Attributes:
        client: boto3's SQS client.
        work_queue_url: the queue of delivery parts.
        refused_queue_url: the queue of messages that SQS refused permanently.
        ingest_queues: returns the URLs of a topic's urgent and bulk ingest queue.
        sleep: waits for some seconds between tries.
    """

    client: SQSClient
    _: KW_ONLY
    work_queue_url: str
    refused_queue_url: str
    ingest_queues: Callable[[str], tuple[str, str]]
    sleep: Callable[[float], None] = deadline.sleep

    @classmethod
    def of(cls, client: SQSClient, settings: ServiceSettings) -> SqsQueues:
        """Makes the port from a deployment's settings."""
        return cls(
            client,
            work_queue_url=settings.work_queue_url,
            refused_queue_url=settings.refused_queue_url,
            ingest_queues=settings.ingest_queues,
        )

    def send(self, queue_url: str, batch: Sequence[tuple[QueueMessage, int]]) -> list[Refusal]:
        """Sends a batch with a single request.

        If SQS refuses the whole batch, sends each message in its own request, to find the bad message.

        Raises:
            QueueUnavailable: the queue does not exist, or the queue or its key denies access. Nothing was taken.
        """
        if len(batch) > BATCH:
            raise ValueError(f"a batch has at most {BATCH} messages, not {len(batch)}")
        entries: list[Entry] = [
            {
                "Id": str(i),
                "MessageBody": message.text,
                "DelaySeconds": delay_s,
                "MessageAttributes": _attributes(message),
            }
            for i, (message, delay_s) in enumerate(batch)
        ]
        for entry, (message, _) in zip(entries, batch, strict=True):
            if message.group is not None:
                entry["MessageGroupId"] = message.group
        return self._send(queue_url, entries)

    def _send(self, queue_url: str, entries: list[Entry]) -> list[Refusal]:
        try:
            answer = self.client.send_message_batch(QueueUrl=queue_url, Entries=entries)
        except ClientError as error:
            return self._refused_whole(queue_url, entries, error)
        refusals = [_refusal(entry) for entry in answer.get("Failed") or ()]
        if len(refusals) == len(entries) and all(_unavailable(each.code) for each in refusals):
            raise QueueUnavailable(queue_url, f"{refusals[0].code}: {refusals[0].reason}")
        return refusals

    def _refused_whole(self, queue_url: str, entries: list[Entry], error: ClientError) -> list[Refusal]:
        code, reason = error.response["Error"]["Code"], error.response["Error"]["Message"]
        if _unavailable(code):
            raise QueueUnavailable(queue_url, f"{code}: {reason}") from error
        fault = _last_part(code) in _MESSAGE_FAULTS
        if fault and len(entries) > 1:
            return self._sent_alone(queue_url, entries)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
        if fault or status >= 500 or status == 429 or _throttled(code):
            # The request failed as a whole, so no single message is the reason.
            return [Refusal(int(entry["Id"]), fault, code, reason) for entry in entries]
        raise error

    def _sent_alone(self, queue_url: str, entries: list[Entry]) -> list[Refusal]:
        """Sends each entry in a request of its own. An error refuses only this entry, so taken entries are known."""
        refusals = []
        for entry in entries:
            try:
                refusals += self._send(queue_url, [entry])
            except Exception as error:
                refusals.append(Refusal(int(entry["Id"]), False, type(error).__name__, str(error)))
        return refusals

    def enqueue_parts(self, key: DeliveryKey, parts: Sequence[int]) -> None:
        """Sends parts to the work queue, ten in each request. The items with their marks take turns.

        Retries parts that SQS did not take.

        Raises:
            QueueUnavailable: some parts were not taken after all tries.
        """
        self._enqueue([PartTask(key=key, part=part) for part in across_items(parts)])

    def enqueue_parks(self, keys: Sequence[ParkKey], *, delay_s: int = 0) -> None:
        """Sends parks to the work queue to be drained, as `enqueue_parts` does."""
        self._enqueue([DrainTask(key=key) for key in keys], delay_s)

    def enqueue_catch_up(self, topic: str, subscription: str, generation: str) -> None:
        """Sends a resumed subscription's task to the work queue, as `enqueue_parts` does."""
        self._enqueue([CatchUpTask(topic=topic, subscription=subscription, generation=generation)])

    def _enqueue(self, tasks: Sequence[Task], delay_s: int = 0) -> None:
        for start in range(0, len(tasks), BATCH):
            entries: list[Entry] = [
                # SQS's fair queues: a topic with many parts does not keep other topics' parts waiting.
                {"Id": str(i), "MessageBody": task_body(task), "MessageGroupId": topic_of(task)}
                for i, task in enumerate(tasks[start : start + BATCH])
            ]
            if delay_s:
                for entry in entries:
                    entry["DelaySeconds"] = delay_s
            for attempt in range(ATTEMPTS):
                if attempt:
                    self.sleep(_BACKOFF_S * 2**attempt)
                refusals = self._send(self.work_queue_url, entries)
                if not refusals:
                    break
                refused = {refusal.index for refusal in refusals}
                entries = [entry for entry in entries if int(entry["Id"]) in refused]
            else:
                reason = f"{len(entries)} tasks were not taken in {ATTEMPTS} tries: {refusals[0].reason}"
                raise QueueUnavailable(self.work_queue_url, reason)

    def forward(self, topic: str, messages: int, pack: bytes, *, urgent: bool = False) -> None:
        """Sends a pack to an ingest queue with a single request, as the client does."""
        attribute: Any = {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": pack}}
        self.client.send_message(
            QueueUrl=self.ingest_queues(topic)[not urgent],
            MessageBody=pack_body(topic, messages),
            MessageAttributes=attribute,
            MessageGroupId=topic,
        )

    def delete(self, topic: str, receipt_handles: Sequence[str], *, urgent: bool) -> None:
        """Deletes messages of an ingest queue, ten with a single request."""
        for start in range(0, len(receipt_handles), BATCH):
            some = enumerate(receipt_handles[start : start + BATCH])
            entries: Any = [{"Id": str(i), "ReceiptHandle": each} for i, each in some]
            self.client.delete_message_batch(QueueUrl=self.ingest_queues(topic)[not urgent], Entries=entries)

    def refuse(self, document: Mapping[str, object]) -> None:
        """Sends a document as JSON with a single request. An oversized field is cut and named in the document."""
        self.client.send_message(QueueUrl=self.refused_queue_url, MessageBody=refused_body(document))


def _attributes(message: QueueMessage) -> dict[str, Any]:
    values = {HEADER_ATTRIBUTE: message.header, **(message.attributes or {})}
    return {name: {"DataType": "String", "StringValue": value} for name, value in values.items()}


def _last_part(code: str) -> str:
    return code.rpartition(".")[2]


def _throttled(code: str) -> bool:
    return "Throttl" in code or _last_part(code) == "OverLimit"


def _unavailable(code: str) -> bool:
    return _last_part(code) in _UNAVAILABLE or (code.lower().startswith("kms") and not _throttled(code))


def _refusal(entry: Mapping[str, Any]) -> Refusal:
    code, reason = str(entry["Code"]), str(entry.get("Message", ""))
    alike = _throttled(code) or _unavailable(code)
    return Refusal(int(entry["Id"]), bool(entry["SenderFault"]) and not alike, code, reason)


def refused_body(document: Mapping[str, object]) -> str:
    """Returns a document as JSON in ASCII, so that SQS accepts any text.

    If the document is too large for SQS, its longest field is cut. `cut` then names the field and its length in
    characters.
    """
    kept = dict(document)
    lengths: dict[str, int] = {}
    while len(text := json.dumps({**kept, "cut": lengths} if lengths else kept)) > SQS_MAX_BYTES:
        longest = max(kept, key=lambda name: len(json.dumps(kept[name])))
        value = kept[longest]
        whole = value if isinstance(value, str) else json.dumps(value)
        lengths.setdefault(longest, len(whole))
        kept[longest] = whole[: len(whole) // 2]
    return text
