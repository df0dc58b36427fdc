"""Offers boto3's SQS client over `tidewheel.memory.sqs`, without AWS, HTTP or moto.

Calls, answers and errors are boto3's. The client has the operations that Tidewheel and its consumers use, on standard
queues. Argument types are not checked. Long polls answer at once, since the clock stands still during a call.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar

from botocore.exceptions import ClientError

from tidewheel.errors import SqsError
from tidewheel.memory.sqs import MemorySqs
from tidewheel.memory.sqs_message import Attributes, MemoryMessage, bad_parameter, message_bytes
from tidewheel.memory.sqs_queue import ACCOUNT, RANGES, MemoryQueue
from tidewheel.model.message import SQS_MAX_BYTES

MAX_BATCH = 10
_ENTRY_ID = re.compile(r"[\w-]{1,80}\Z")
_SAME = (
    *("BatchEntryIdsNotDistinct", "BatchRequestTooLong", "EmptyBatchRequest", "InvalidBatchEntryId"),
    *("QueueDeletedRecently", "TooManyEntriesInBatchRequest"),
)
_CODES = {
    **{name: f"AWS.SimpleQueueService.{name}" for name in _SAME},
    "QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue",
    "QueueNameExists": "QueueAlreadyExists",
    "ReceiptHandleIsInvalid": "ReceiptHandleIsInvalid",
}
"""boto3's name of an exception -> SQS's code."""
_EXCEPTIONS = {name: type(name, (ClientError,), {"__doc__": code}) for name, code in _CODES.items()}
_BY_CODE = {code: _EXCEPTIONS[name] for name, code in _CODES.items()}

P = ParamSpec("P")
T = TypeVar("T")


def _operation(method: Callable[P, T]) -> Callable[P, T]:
    """Makes a method raise boto3's exception for an error code, or ClientError."""
    operation = method.__name__.title().replace("_", "")

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except SqsError as error:
            response: Any = {
                "Error": {"Type": "Sender", "Code": error.code, "Message": error.message},
                "ResponseMetadata": {"HTTPStatusCode": 400},
            }
            raise _BY_CODE.get(error.code, ClientError)(response, operation) from None

    return call


class MemorySqsClient:
    """Behaves as `boto3.client("sqs")`. Safe for several threads.

    Attributes:
        sqs: the queues.
        exceptions: the exception classes of boto3's client, such as QueueDoesNotExist.
    """

    def __init__(self, sqs: MemorySqs) -> None:
        self.sqs = sqs
        self._moves: list[dict[str, Any]] = []
        self.exceptions = SimpleNamespace(ClientError=ClientError, **_EXCEPTIONS)

    # ---- queues
    @_operation
    def create_queue(
        self, *, QueueName: str, Attributes: Mapping[str, str] | None = None, tags: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Makes a queue, or returns an existing queue with this name and these attributes."""
        return {"QueueUrl": self.sqs.create_queue(QueueName, Attributes, tags).url}

    @_operation
    def get_queue_url(self, *, QueueName: str, QueueOwnerAWSAccountId: str = ACCOUNT) -> dict[str, Any]:
        """Finds a queue by name, in the only account."""
        if QueueOwnerAWSAccountId != ACCOUNT:
            raise SqsError(_CODES["QueueDoesNotExist"], "The specified queue does not exist.")
        return {"QueueUrl": self.sqs.queue(QueueName).url}

    @_operation
    def list_queues(self, *, QueueNamePrefix: str = "") -> dict[str, Any]:
        """Lists queues by name. As with SQS, the answer has no list if there is no queue."""
        urls = [queue.url for queue in self.sqs.queues(QueueNamePrefix)]
        return {"QueueUrls": urls} if urls else {}

    @_operation
    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: Iterable[str] = ()) -> dict[str, Any]:
        """Returns a queue's attributes and counts, all as text."""
        queue = self.sqs.queue(QueueUrl)
        names = set(AttributeNames)
        everything = _queue_attributes(queue)
        return {"Attributes": {name: value for name, value in everything.items() if {name, "All"} & names}}

    @_operation
    def set_queue_attributes(self, *, QueueUrl: str, Attributes: Mapping[str, str]) -> dict[str, Any]:
        """Changes attributes. An empty text removes an attribute."""
        self.sqs.queue(QueueUrl).set_attributes(Attributes)
        return {}

    @_operation
    def list_queue_tags(self, *, QueueUrl: str) -> dict[str, Any]:
        """Returns a queue's tags. The answer has no field `Tags` if there are no tags."""
        tags = self.sqs.queue(QueueUrl).tags
        return {"Tags": dict(tags)} if tags else {}

    @_operation
    def tag_queue(self, *, QueueUrl: str, Tags: Mapping[str, str]) -> dict[str, Any]:
        """Adds or replaces tags."""
        self.sqs.queue(QueueUrl).tags.update(Tags)
        return {}

    @_operation
    def delete_queue(self, *, QueueUrl: str) -> dict[str, Any]:
        """Deletes a queue and all messages immediately."""
        self.sqs.delete_queue(QueueUrl)
        return {}

    @_operation
    def purge_queue(self, *, QueueUrl: str) -> dict[str, Any]:
        """Deletes a queue's messages immediately."""
        self.sqs.queue(QueueUrl).purge()
        return {}

    # ---- sending
    @_operation
    def send_message(self, *, QueueUrl: str, **entry: Any) -> dict[str, Any]:
        """Sends a message, with the arguments of boto3."""
        return _send(self.sqs.queue(QueueUrl), entry)

    @_operation
    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Sends up to ten messages. Reports each refused message by the entry's Id."""
        queue = self.sqs.queue(QueueUrl)
        total = sum(message_bytes(each["MessageBody"], each.get("MessageAttributes") or {}) for each in Entries)
        if total > SQS_MAX_BYTES:
            reason = f"Batch requests cannot be longer than {SQS_MAX_BYTES} bytes. You have sent {total} bytes."
            raise SqsError(_CODES["BatchRequestTooLong"], reason)
        return _each(Entries, partial(_send, queue))

    # ---- receiving
    @_operation
    def receive_message(
        self,
        *,
        QueueUrl: str,
        MaxNumberOfMessages: int = 1,
        VisibilityTimeout: int | None = None,
        WaitTimeSeconds: int | None = None,
        MessageAttributeNames: Sequence[str] = (),
        MessageSystemAttributeNames: Sequence[str] = (),
        AttributeNames: Sequence[str] = (),
        ReceiveRequestAttemptId: str | None = None,
    ) -> dict[str, Any]:
        """Takes messages. The answer has no field `Messages` if there are none."""
        _check_standard("ReceiveRequestAttemptId", ReceiveRequestAttemptId)
        for name, number, (least, most) in (
            ("MaxNumberOfMessages", MaxNumberOfMessages, (1, MAX_BATCH)),
            ("VisibilityTimeout", VisibilityTimeout, RANGES["VisibilityTimeout"]),
            ("WaitTimeSeconds", WaitTimeSeconds, RANGES["ReceiveMessageWaitTimeSeconds"]),
        ):
            if number is not None and not least <= number <= most:
                raise bad_parameter(name, number, f"Must be >= {least} and <= {most}.")
        taken = self.sqs.queue(QueueUrl).take(MaxNumberOfMessages, VisibilityTimeout)
        system = {*MessageSystemAttributeNames, *AttributeNames}
        messages = [_received(message, MessageAttributeNames, system) for message in taken]
        return {"Messages": messages} if messages else {}

    @_operation
    def delete_message(self, *, QueueUrl: str, ReceiptHandle: str) -> dict[str, Any]:
        """Deletes a message. A stale handle succeeds and deletes nothing."""
        self.sqs.queue(QueueUrl).delete(ReceiptHandle)
        return {}

    @_operation
    def delete_message_batch(self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Deletes up to ten messages."""
        queue = self.sqs.queue(QueueUrl)
        return _each(Entries, lambda entry: queue.delete(entry["ReceiptHandle"]))

    @_operation
    def change_message_visibility(self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int) -> dict[str, Any]:
        """Sets the time until a message in flight is receivable again."""
        self.sqs.queue(QueueUrl).change_visibility(ReceiptHandle, VisibilityTimeout)
        return {}

    @_operation
    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Sets the time until up to ten messages in flight are receivable again."""
        queue = self.sqs.queue(QueueUrl)
        return _each(Entries, lambda entry: queue.change_visibility(entry["ReceiptHandle"], entry["VisibilityTimeout"]))

    # ---- dead letters
    @_operation
    def list_dead_letter_source_queues(self, *, QueueUrl: str) -> dict[str, Any]:
        """Lists the queues with this dead-letter queue."""
        return {"queueUrls": [queue.url for queue in self.sqs.dead_letter_sources(QueueUrl)]}

    @_operation
    def start_message_move_task(
        self,
        *,
        SourceArn: str,
        DestinationArn: str | None = None,
        MaxNumberOfMessagesPerSecond: int | None = None,  # noqa: ARG002  # all messages move at once
    ) -> dict[str, Any]:
        """Moves a dead-letter queue's messages to their source queues, or to another queue.

        The move is complete when this method returns.
        """
        moved = self.sqs.move_dead_letters(SourceArn, DestinationArn)
        task = {
            "Status": "COMPLETED",
            "SourceArn": SourceArn,
            "ApproximateNumberOfMessagesMoved": moved,
            "ApproximateNumberOfMessagesToMove": moved,
        }
        self._moves.append(task if DestinationArn is None else {**task, "DestinationArn": DestinationArn})
        return {"TaskHandle": f"{SourceArn}/{len(self._moves)}"}

    @_operation
    def list_message_move_tasks(self, *, SourceArn: str, MaxResults: int = 1) -> dict[str, Any]:
        """Lists a dead-letter queue's moves, the newest first."""
        self.sqs.queue(SourceArn)
        return {"Results": [task for task in reversed(self._moves) if task["SourceArn"] == SourceArn][:MaxResults]}


def _send(queue: MemoryQueue, entry: Mapping[str, Any]) -> dict[str, Any]:
    _check_standard("MessageDeduplicationId", entry.get("MessageDeduplicationId"))
    body, attributes = entry["MessageBody"], entry.get("MessageAttributes") or {}
    system = {name: value["StringValue"] for name, value in (entry.get("MessageSystemAttributes") or {}).items()}
    if entry.get("MessageGroupId") is not None:
        system["MessageGroupId"] = entry["MessageGroupId"]
    message = queue.put(body, attributes, entry.get("DelaySeconds"), system)
    return {"MessageId": message.id, "MD5OfMessageBody": _md5(body), **_attributes_md5(attributes)}


def _check_standard(name: str, value: str | None) -> None:
    """Raises SqsError for a parameter of FIFO queues."""
    if value is not None:
        raise bad_parameter(name, value, "The request includes a parameter that is not valid for this queue type.")


def _queue_attributes(queue: MemoryQueue) -> dict[str, str]:
    created_s = str(queue.created_at_ms // 1000)
    return {
        **queue.attributes,
        "QueueArn": queue.arn,
        "CreatedTimestamp": created_s,
        "LastModifiedTimestamp": created_s,
        "ApproximateNumberOfMessages": str(queue.approximate_number_of_messages),
        "ApproximateNumberOfMessagesDelayed": str(queue.approximate_number_of_messages_delayed),
        "ApproximateNumberOfMessagesNotVisible": str(queue.approximate_number_of_messages_not_visible),
    }


def _received(message: MemoryMessage, names: Sequence[str], system: set[str]) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": message.receipt_handle,
        "MD5OfBody": _md5(message.body),
        "Body": message.body,
    }
    wanted = {name: value for name, value in message.system_attributes.items() if {name, "All"} & system}
    if wanted:
        answer["Attributes"] = wanted
    attributes = {name: dict(value) for name, value in message.message_attributes.items() if _is_wanted(name, names)}
    if attributes:
        answer |= {"MessageAttributes": attributes, **_attributes_md5(attributes)}
    return answer


def _is_wanted(name: str, patterns: Iterable[str]) -> bool:
    """Returns whether a name is requested by "All", ".*", itself, or a prefix ending in ".*"."""
    for pattern in patterns:
        if pattern in ("All", name) or (pattern.endswith(".*") and name.startswith(pattern[:-2])):
            return True
    return False


def _each(entries: Sequence[Mapping[str, Any]], action: Callable[[Mapping[str, Any]], Any]) -> dict[str, Any]:
    """Answers a batch, entry by entry.

    Raises:
        SqsError: the whole batch is refused; nothing was done.
    """
    ids = [str(entry["Id"]) for entry in entries]
    if not ids:
        raise SqsError(_CODES["EmptyBatchRequest"], "There should be at least one entry in the request.")
    if len(ids) > MAX_BATCH:
        reason = f"Maximum number of entries per request are {MAX_BATCH}. You have sent {len(ids)}."
        raise SqsError(_CODES["TooManyEntriesInBatchRequest"], reason)
    if len(set(ids)) < len(ids):
        twice = next(each for each in ids if ids.count(each) > 1)
        raise SqsError(_CODES["BatchEntryIdsNotDistinct"], f"Id {twice} repeated.")
    if not all(map(_ENTRY_ID.match, ids)):
        reason = "A batch entry id can only contain alphanumeric characters, hyphens and underscores."
        raise SqsError(_CODES["InvalidBatchEntryId"], reason)
    answer: dict[str, Any] = {"Successful": []}
    for entry_id, entry in zip(ids, entries, strict=True):
        try:
            answer["Successful"].append({"Id": entry_id, **(action(entry) or {})})
        except SqsError as error:
            failure = {"Id": entry_id, "SenderFault": True, "Code": error.code, "Message": error.message}
            answer.setdefault("Failed", []).append(failure)
    return answer


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def _attributes_md5(attributes: Attributes) -> dict[str, str]:
    """Returns the digest of a message's attributes, by which SDKs of some languages check an answer."""
    if not attributes:
        return {}
    digest = hashlib.md5(usedforsecurity=False)
    for name, value in sorted(attributes.items()):
        data = value.get("BinaryValue")
        kind, content = (b"\1", value["StringValue"].encode()) if data is None else (b"\2", data)
        for part, mark in ((name.encode(), b""), (value["DataType"].encode(), kind), (content, b"")):
            digest.update(len(part).to_bytes(4) + part + mark)
    return {"MD5OfMessageAttributes": digest.hexdigest()}
