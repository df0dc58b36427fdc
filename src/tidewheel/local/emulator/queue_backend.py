"""Answers moto's SQS operations with `HeapQueue` while a local stack is open."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from threading import Condition
from typing import Any

from moto.sqs import models
from moto.sqs.constants import MAXIMUM_MESSAGE_LENGTH
from moto.sqs.exceptions import (
    BatchEntryIdsNotDistinct,
    BatchRequestTooLong,
    InvalidBatchEntryId,
    InvalidParameterValue,
    TooManyEntriesInBatchRequest,
)

from tidewheel.local.emulator.patching import Patches
from tidewheel.local.emulator.queues import (
    HeapQueue,
    attribute_bytes,
    new_message,
    received_copy,
    time_ms,
)

_BACKEND = models.SQSBackend
_BATCH_ID = re.compile(r"[\w-]{1,80}\Z")


def install(patches: Patches, *, changed: Condition, virtual: bool) -> None:
    """Replaces the slow operations of moto's SQS backend.

    Args:
        patches: records the replacements.
        changed: notified when a message arrives; long polls wait on this condition, which releases its lock meanwhile.
        virtual: with a clock that stands still, long polls answer at once (they would never end).
    """

    def arrived() -> None:
        with changed:
            changed.notify_all()

    _adopt_queues(patches, arrived)
    _quicken_sends(patches, arrived)
    _quicken_receives(patches, changed, virtual)
    _quicken_changes(patches)
    _quicken_attributes(patches)


def _adopt_queues(patches: Patches, arrived: Callable[[], None]) -> None:
    create = _BACKEND.create_queue

    def create_queue(self: Any, name: str, tags: dict[str, str] | None = None, **kwargs: Any) -> models.Queue:
        known = name in self.queues
        queue = create(self, name, tags, **kwargs)
        if not known and not queue.fifo_queue:
            HeapQueue.adopt(queue, arrived)
        return queue

    patches.set(_BACKEND, "create_queue", create_queue)


def _quicken_sends(patches: Patches, arrived: Callable[[], None]) -> None:
    send = _BACKEND.send_message
    send_batch = _BACKEND.send_message_batch

    def send_message(self: Any, queue_name: str, message_body: str, **kwargs: Any) -> models.Message:
        queue = self.get_queue(queue_name)
        if not isinstance(queue, HeapQueue):
            return send(self, queue_name, message_body, **kwargs)
        message = new_message(
            queue,
            message_body,
            kwargs.get("delay_seconds"),
            kwargs.get("message_attributes"),
            kwargs.get("system_attributes"),
        )
        message.group_id = kwargs.get("group_id")
        queue.put(message)
        arrived()
        return message

    def send_message_batch(
        self: Any, queue_name: str, entries: dict[str, dict[str, Any]]
    ) -> tuple[list[models.Message], list[dict[str, Any]]]:
        queue = self.get_queue(queue_name)
        if not isinstance(queue, HeapQueue):
            return send_batch(self, queue_name, entries)
        _check_batch(list(entries.values()))
        sent: list[models.Message] = []
        failed: list[dict[str, Any]] = []
        for entry in entries.values():
            try:
                message = new_message(
                    queue,
                    entry["MessageBody"],
                    entry.get("DelaySeconds"),
                    entry.get("MessageAttributes"),
                    entry.get("MessageSystemAttributes"),
                )
            except InvalidParameterValue as error:
                failed.append({"Id": entry["Id"], "SenderFault": True, "Code": error.code, "Message": error.message})
                continue
            message.user_id = entry["Id"]  # type: ignore[attr-defined]
            queue.put(message)
            sent.append(message)
        arrived()
        return sent, failed

    patches.set(_BACKEND, "send_message", send_message)
    patches.set(_BACKEND, "send_message_batch", send_message_batch)


def _quicken_receives(patches: Patches, changed: Condition, virtual: bool) -> None:
    receive = _BACKEND.receive_message

    def receive_message(
        self: Any,
        queue_name: str,
        count: int,
        wait_seconds_timeout: int,
        visibility_timeout: int,
        message_attribute_names: list[str] | None = None,
    ) -> list[models.Message]:
        queue = self.get_queue(queue_name)
        wait_s = 0 if virtual else wait_seconds_timeout
        if not isinstance(queue, HeapQueue):
            return receive(self, queue_name, count, wait_s, visibility_timeout, message_attribute_names)
        deadline = time.monotonic() + wait_s
        while True:
            taken = [
                received_copy(message, message_attribute_names or [])
                for message in queue.take(count, int(visibility_timeout or 0))
            ]
            left_s = deadline - time.monotonic()
            if taken or left_s <= 0:
                return list(taken)
            next_ready_ms = queue.next_ready_ms()
            if next_ready_ms is not None:
                left_s = min(left_s, max(0.001, (next_ready_ms - time_ms()) / 1000))
            with changed:
                changed.wait(left_s)

    patches.set(_BACKEND, "receive_message", receive_message)


def _quicken_changes(patches: Patches) -> None:
    change_visibility = _BACKEND.change_message_visibility
    purge = _BACKEND.purge_queue

    def change_message_visibility(self: Any, queue_name: str, receipt_handle: str, visibility_timeout: int) -> None:
        queue = self.get_queue(queue_name)
        if isinstance(queue, HeapQueue):
            queue.change_visibility(receipt_handle, int(visibility_timeout))
        else:
            change_visibility(self, queue_name, receipt_handle, visibility_timeout)

    def purge_queue(self: Any, queue_name: str) -> None:
        queue = self.get_queue(queue_name)
        purge(self, queue_name)
        if isinstance(queue, HeapQueue):
            queue.purge()

    patches.set(_BACKEND, "change_message_visibility", change_message_visibility)
    patches.set(_BACKEND, "purge_queue", purge_queue)


def _quicken_attributes(patches: Patches) -> None:
    read_attributes = _BACKEND.get_queue_attributes

    def get_queue_attributes(self: Any, queue_name: str, attribute_names: list[str]) -> dict[str, Any]:
        # moto evaluates every attribute, counts included, once for each name.
        queue = self.get_queue(queue_name)
        if not attribute_names or not isinstance(queue, HeapQueue):
            return read_attributes(self, queue_name, attribute_names)
        everything = read_attributes(self, queue_name, ["All"])
        if "All" in attribute_names:
            return everything
        if any(name not in everything for name in attribute_names):
            return read_attributes(self, queue_name, attribute_names)
        return {name: everything[name] for name in attribute_names if everything[name] is not None}

    patches.set(_BACKEND, "get_queue_attributes", get_queue_attributes)


def _check_batch(entries: list[dict[str, Any]]) -> None:
    ids = [entry["Id"] for entry in entries]
    if not all(_BATCH_ID.match(entry_id) for entry_id in ids):
        raise InvalidBatchEntryId
    total = sum(
        len(entry["MessageBody"].encode()) + attribute_bytes(entry.get("MessageAttributes")) for entry in entries
    )
    if total > MAXIMUM_MESSAGE_LENGTH:
        raise BatchRequestTooLong(total)
    if len(set(ids)) < len(ids):
        raise BatchEntryIdsNotDistinct(next(entry_id for entry_id in ids if ids.count(entry_id) > 1))
    if len(entries) > 10:
        raise TooManyEntriesInBatchRequest(len(entries))
