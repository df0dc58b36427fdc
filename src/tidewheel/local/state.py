"""Keeps a local stack's topics, messages, queues and objects in a folder, over a stop, a kill or a full disk.

A commit writes all that a request or a step of the pump has changed, before the answer leaves. What the template
deploys is not kept: each start deploys it anew, and then puts the rows back. Schedules and calls under way are not kept
either. At the start a sweep finds their work.
"""

from __future__ import annotations

import datetime as dt
import inspect
import json
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.core.utils import camelcase_to_underscores
from moto.s3.models import FakeKey, S3Backend, s3_backends
from moto.sqs.models import SQSBackend, sqs_backends

from tidewheel.clock import MovedClock
from tidewheel.errors import StateUnusable
from tidewheel.local.emulator import REGION, Emulator
from tidewheel.local.emulator.queues import EmulatedQueue
from tidewheel.local.state_folder import StateFolder
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.memory.sqs_queue import RANGES
from tidewheel.storage.table_keys import CHECK_PARTITION_KEY, CHECK_SORT_KEY

_NUMBERS_A_START = 1 << 32
"""SQS's ids and receipt handles of earlier processes never come again."""
_OF_PARTS, _OF_PARK = "leases", "leased_ms"


class State:
    """The state of a stack in a folder."""

    def __init__(self, folder: Path, stack: str, clock: MovedClock) -> None:
        self._path, self._clock = folder, clock
        self._kept_offset_ms = clock.offset_ms
        self._folder = StateFolder(folder, stack)
        self._touched: dict[tuple[str, str, str], None] = {}

    def open(self) -> None:
        """Takes the folder and checks it.

        Raises:
            StateInUse: another process uses the folder.
            StateUnusable: the state is damaged, of another version or of another stack.
        """
        self._folder.open()

    def restore(self, emulator: Emulator, table: str | None) -> bool:
        """Puts everything into the emulator, and keeps its changes from now on. Returns whether there was a state.

        Args:
            emulator: where the stack was just deployed.
            table: the stack's table. Other tables are not kept.

        Raises:
            StateUnusable: the state is damaged, or the stack has no place for a part of it.
        """
        self._emulator = emulator
        for kind, place, name, value in self._folder.rows():
            self._restore(kind, place, name, msgspec.msgpack.decode(value))
        for queue in _queues().values():
            arn = (queue.redrive_policy or {}).get("deadLetterTargetArn", "")
            queue.dead_letter_queue = _queues().get(arn.rpartition(":")[2])
        self._folder.begin()
        emulator.sqs.number_from(self._folder.starts * _NUMBERS_A_START)
        self._watch(emulator, table)
        return self._folder.starts > 1

    def commit(self) -> None:
        """Writes what has changed since the last commit. If that fails, ends the process: nothing may be answered."""
        if self._clock.offset_ms != self._kept_offset_ms:
            self._kept_offset_ms = self._clock.offset_ms
            self._touch("clock", "")
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        try:
            values = ((key, self._read(*key)) for key in touched)
            self._folder.commit(
                (*key, None if value is None else msgspec.msgpack.encode(value)) for key, value in values
            )
        except BaseException as error:
            print(
                f"tidewheel: the state in {self._path} cannot be written: {type(error).__name__}: {error}. The process "
                "ends without an answer. All that was answered before is kept: start again when there is room",
                file=sys.stderr,
                flush=True,
            )
            os._exit(1)

    def close(self) -> None:
        """Gives the folder back, after the last commit. Harmless when called twice."""
        self._folder.close()

    def end_leases(self, table: str) -> None:
        """Ends the leases of functions that died with an earlier process, and makes the sweep check their work."""
        stored = self._emulator.table(table)
        if stored is None:
            return
        for item in stored.items():
            parts = item.get(_OF_PARTS, {}).get("M")
            if not parts and _OF_PARK not in item:
                continue
            free = {name: value for name, value in item.items() if name != _OF_PARK}
            if parts:
                free[_OF_PARTS] = {"M": {}}
            if CHECK_PARTITION_KEY in free:
                free[CHECK_SORT_KEY] = {"N": str(self._clock.now_ms())}
            stored.put_item(TableName=table, Item=free)

    # ---- what is kept
    def _read(self, kind: str, place: str, name: str) -> Any:
        """Returns the present value of a thing. None if it is gone."""
        match kind:
            case "clock":
                return self._clock.offset_ms
            case "item":
                table = self._emulator.table(place)
                return None if table is None else table.item(*json.loads(name))
            case "object":
                bucket = _s3().buckets.get(place)
                return None if bucket is None else _read_object(bucket.keys.get(name))
            case "queue":
                return _read_queue(_queues().get(place))
        queue = _queues().get(place)
        message = queue.memory.find(name) if isinstance(queue, EmulatedQueue) else None
        return None if message is None else asdict(message)

    def _restore(self, kind: str, place: str, name: str, value: Any) -> None:
        match kind:
            case "clock":
                self._clock.offset_ms = self._kept_offset_ms = value  # time never goes back
            case "item":
                table = self._there(self._emulator.table(place), f"the table {place}")
                table.put_item(TableName=place, Item=value)
            case "object":
                _restore_object(place, name, value)
            case "queue":
                _restore_queue(place, value)
            case "message":
                queue = self._there(_queues().get(place), f"the queue {place}")
                queue.memory.restore(MemoryMessage(**value))

    def _there(self, found: Any, what: str) -> Any:
        if found is None:
            advice = "Give the template with which it was made, or another folder"
            raise StateUnusable(str(self._path), None, f"needs {what}, which the stack does not have", advice)
        return found

    # ---- changes
    def _touch(self, kind: str, place: str, name: str = "") -> None:
        self._touched[kind, place, name] = None

    def _touch_item(self, kept: str | None, table: str, *key: str) -> None:
        if table == kept:
            self._touch("item", table, json.dumps(key))

    def _watch(self, emulator: Emulator, kept: str | None) -> None:
        emulator.tables.touched = partial(self._touch_item, kept)
        emulator.sqs.touched = partial(self._touch, "message")
        for method in ("put_object", "delete_object"):
            self._note(S3Backend, method, "object", "bucket_name", "key_name")
        self._note(SQSBackend, "create_queue", "queue", "name")
        for method in ("delete_queue", "set_queue_attributes", "tag_queue", "untag_queue"):
            self._note(SQSBackend, method, "queue", "queue_name")
        emulator.keep = self.commit

    def _note(self, backend: type, method: str, kind: str, *names: str) -> None:
        """Notes what a method of moto changes, by the names of the arguments that name it."""
        own = getattr(backend, method)
        signature = inspect.signature(own)

        def noted(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            self._touch(kind, *(given[name] for name in names))
            return own(*args, **kwargs)

        self._emulator.patches.set(backend, method, noted)


def _s3() -> Any:
    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def _queues() -> Any:
    return sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues


def _read_object(found: Any) -> Any:
    if not isinstance(found, FakeKey):  # deleted
        return None
    return {"value": found.value, "metadata": dict(found.metadata), "changed": found.last_modified.isoformat()}


def _restore_object(bucket: str, name: str, value: Any) -> None:
    made = FakeKey(name, value["value"], DEFAULT_ACCOUNT_ID, _s3().region_name, bucket_name=bucket)
    made.metadata.update(value["metadata"])
    made.last_modified = dt.datetime.fromisoformat(value["changed"])
    (_s3().buckets.get(bucket) or _s3().create_bucket(bucket, REGION)).keys.setlist(name, [made])


def _read_queue(queue: Any) -> Any:
    if not isinstance(queue, EmulatedQueue):  # deleted, or a FIFO queue
        return None
    attributes = {each: getattr(queue, camelcase_to_underscores(each)) for each in RANGES}
    return {"attributes": attributes, "redrive": queue.redrive_policy or None, "tags": queue.tags}


def _restore_queue(name: str, value: Any) -> None:
    backend = sqs_backends[DEFAULT_ACCOUNT_ID][REGION]
    queue: Any = backend.queues.get(name) or backend.create_queue(name, {}, **value["attributes"])
    for attribute, wanted in value["attributes"].items():
        setattr(queue, camelcase_to_underscores(attribute), wanted)
    # Not by SetQueueAttributes, since the dead-letter queue may be gone, or not yet restored.
    queue.redrive_policy, queue.tags = value["redrive"], value["tags"]
    queue.copy_attributes()
