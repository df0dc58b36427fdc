"""Calls a handler with a batch of messages, in the event and the answer of Lambda's event source mappings."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidewheel.local.emulator import REGION
from tidewheel.local.event_source import Failed, Run
from tidewheel.local.handlers import Handler
from tidewheel.memory.sqs_message import MemoryMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSpec:
    """Describes a mapping in the template."""

    queue_arn: str
    function_arn: str
    batch_size: int
    window_ms: int
    reports_failures: bool


def runner(spec: MappingSpec, handler: Handler) -> Run:
    """Returns the function that calls the handler with a batch. It raises ValueError if the answer is malformed."""

    def run(batch: Sequence[MemoryMessage]) -> Failed:
        answer = handler.invoke({"Records": [_record(message, spec.queue_arn) for message in batch]})
        ids = _failed_ids(answer, {message.id for message in batch}) if spec.reports_failures else set()
        return dict.fromkeys(ids)

    return run


def _record(message: MemoryMessage, queue_arn: str) -> dict[str, Any]:
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": message.system_attributes,
        "messageAttributes": {
            name: {
                "stringValue": value.get("StringValue"),
                "binaryValue": base64.b64encode(value["BinaryValue"]).decode() if "BinaryValue" in value else None,
                "stringListValues": [],
                "binaryListValues": [],
                "dataType": value["DataType"],
            }
            for name, value in message.message_attributes.items()
        },
        "md5OfBody": hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    }


def _failed_ids(answer: Any, known: set[str]) -> set[str]:
    """Reads a partial batch answer as Lambda does.

    No answer means success. A malformed answer means failure of all messages.
    """
    if answer is None or answer == {}:
        return set()
    if not isinstance(answer, dict):
        raise ValueError(f"a partial batch answer is an object, not {answer!r}")
    failures = answer.get("batchItemFailures")
    if failures is None:
        return set()
    ids: set[Any] = {failure.get("itemIdentifier") if isinstance(failure, dict) else None for failure in failures}
    if not ids <= known:
        raise ValueError(f"a partial batch answer names messages that were not in the batch: {ids - known}")
    return ids
