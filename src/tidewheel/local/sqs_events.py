"""Calls a handler with a batch of messages, in the event and the answer of Lambda's event source mappings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidewheel.local.event_source import Failed, Run, record_of
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
        answer = handler.invoke({"Records": [record_of(message, spec.queue_arn) for message in batch]})
        ids = _failed_ids(answer, {message.id for message in batch}) if spec.reports_failures else set()
        return dict.fromkeys(ids)

    return run


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
