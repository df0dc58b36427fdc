"""Simulates event source mappings, which receive messages, call the function and delete processed messages."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from tests.artifact.execution import FunctionFailed
from tests.artifact.functions import MAX_ENVIRONMENTS, Functions
from tests.artifact.moved_clock import MovedClock
from tests.artifact.queue_watch import QueueWatch
from tests.artifact.template import REGION, MappingSpec

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_MAX_EVENT_BYTES = 6 * 1024 * 1024
_MAX_RECORD_BYTES = 1024 * 1024 * 4 // 3 + 2048
"""The longest message that SQS takes, with binary values as base64 text."""

Raw = dict[str, Any]


class EventSource:
    """Polls one queue for a function."""

    def __init__(
        self, spec: MappingSpec, sqs: SQSClient, functions: Functions, watch: QueueWatch, clock: MovedClock
    ) -> None:
        self.spec = spec
        self._sqs, self._functions, self._watch, self._clock = sqs, functions, watch, clock
        self._queue_name = spec.queue_arn.rpartition(":")[2]
        self._url = sqs.get_queue_url(QueueName=self._queue_name)["QueueUrl"]
        names: Any = ["VisibilityTimeout"]
        attributes = sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=names)["Attributes"]
        self._visibility_ms = 1000 * int(attributes["VisibilityTimeout"])
        self._buffer: list[Raw] = []
        self._buffer_bytes = 0
        self._opened_ms = 0

    def next_ms(self) -> int | None:
        """The time when a message becomes visible or the batch window ends, or None."""
        visible_ms = self._watch.next_visible_ms(self._queue_name)
        if not self._buffer:
            return visible_ms
        flush_ms = self._opened_ms + self.spec.window_ms
        return flush_ms if visible_ms is None else min(visible_ms, flush_ms)

    def poll(self) -> list[list[Raw]]:
        """Receives visible messages and returns a few complete batches."""
        batches = []
        while len(batches) < MAX_ENVIRONMENTS:
            full = self._fill()
            window_over = self._clock.now_ms() >= self._opened_ms + self.spec.window_ms
            if not self._buffer or not (full or window_over):
                break
            batches.append(self._buffer)
            self._buffer, self._buffer_bytes = [], 0
        return batches

    def run(self, batch: list[Raw]) -> None:
        """Calls the function with a batch and deletes processed messages. The rest becomes visible again later."""
        try:
            answer = self._functions.call(self.spec.function_name, self._event(batch))
            failed = self._failed(answer, {each["MessageId"] for each in batch})
            if failed:
                self._functions.partly_failed(self.spec.function_name, len(failed), len(batch))
        except FunctionFailed:
            failed = {each["MessageId"] for each in batch}
        for each in batch:
            if each["MessageId"] in failed:
                self._watch.comes_back(self._queue_name, each["_received_ms"] + self._visibility_ms)
        done = [each for each in batch if each["MessageId"] not in failed]
        for first in range(0, len(done), 10):
            entries: Any = [
                {"Id": str(place), "ReceiptHandle": each["ReceiptHandle"]}
                for place, each in enumerate(done[first : first + 10])
            ]
            self._sqs.delete_message_batch(QueueUrl=self._url, Entries=entries)

    def _fill(self) -> bool:
        """Receives into the buffer. Returns whether the buffer is full."""
        while True:
            by_bytes = (_MAX_EVENT_BYTES - self._buffer_bytes) // _MAX_RECORD_BYTES
            room = min(self.spec.batch_size - len(self._buffer), by_bytes)
            if room <= 0:
                return True
            # Before the request: what becomes visible meanwhile is looked for again.
            now_ms = self._clock.now_ms()
            names: Any = ["All"]
            found: list[Any] = self._sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=min(10, room),
                MessageSystemAttributeNames=names,
                MessageAttributeNames=["All"],
            ).get("Messages", [])
            if not found:
                self._watch.looked(self._queue_name, now_ms)
                return False
            if not self._buffer:
                self._opened_ms = now_ms
            for each in found:
                self._buffer.append({**each, "_received_ms": now_ms})
                self._buffer_bytes += len(json.dumps(_record(each, self.spec.queue_arn)))

    def _event(self, batch: list[Raw]) -> dict[str, Any]:
        return {"Records": [_record(each, self.spec.queue_arn) for each in batch]}

    def _failed(self, answer: Any, known: set[str]) -> set[str]:
        """Returns the failed messages of a partial batch answer. An invalid answer fails the whole batch."""
        if not self.spec.reports_failures or answer in (None, {}):
            return set()
        failures = answer.get("batchItemFailures") if isinstance(answer, dict) else None
        if not isinstance(failures, list):
            raise FunctionFailed(f"{self.spec.function_name}: {answer!r} is no partial batch answer")
        named = {each.get("itemIdentifier") for each in failures}
        return named if named <= known else known


def _record(raw: Raw, queue_arn: str) -> dict[str, Any]:
    """Returns a received message in the format of Lambda events."""
    return {
        "messageId": raw["MessageId"],
        "receiptHandle": raw["ReceiptHandle"],
        "body": raw["Body"],
        "attributes": raw.get("Attributes", {}),
        "messageAttributes": {
            name: {
                "stringValue": value.get("StringValue"),
                "binaryValue": base64.b64encode(value["BinaryValue"]).decode() if "BinaryValue" in value else None,
                "stringListValues": [],
                "binaryListValues": [],
                "dataType": value["DataType"],
            }
            for name, value in raw.get("MessageAttributes", {}).items()
        },
        "md5OfBody": raw["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    }
