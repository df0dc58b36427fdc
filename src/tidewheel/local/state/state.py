"""Notes what requests and steps of the pump change, and commits it before an answer leaves.

Everything here happens under the emulator's lock. A commit writes what is now there of each thing that was touched, so
it does not matter which request touched it, and a thing that changed twice is written once.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.s3.models import S3Backend
from moto.scheduler.models import EventBridgeSchedulerBackend
from moto.sqs.exceptions import SQSException
from moto.sqs.models import SQSBackend

from tidewheel.clock import MovedClock
from tidewheel.errors import StateUnusable
from tidewheel.local.emulator import Emulator
from tidewheel.local.emulator.ssm import ParameterDict, SimpleSystemManagerBackend
from tidewheel.local.state.encoding import decoded, encoded
from tidewheel.local.state.folder import StateFolder
from tidewheel.local.state.kinds import Kind, NoPlace, key_text, kinds, link_queues

_CHILDREN = {
    "bucket": ("object",),
    "group": ("schedule",),
    "queue": ("message", "place"),
    "table": ("item", "token"),
}
"""The kinds that others need, and the others. Their keys begin with the key of the thing that they need."""
_NUMBERS_A_START = 1 << 32
"""SQS's ids and receipt handles of earlier processes never come again."""

Key = tuple[str, ...]
"""A kind, and the key of a thing of this kind."""


class State:
    """The state of a stack in a folder."""

    def __init__(self, folder: Path, stack: str, clock: MovedClock) -> None:
        self._path = folder
        self._clock = clock
        self._kept_offset_ms = clock.offset_ms
        self._folder = StateFolder(folder, stack)
        self._touched: dict[Key, None] = {}
        self._kinds: dict[str, Kind] = {}

    def open(self) -> None:
        """Takes the folder and checks it.

        Raises:
            StateInUse: another process uses it.
            StateUnusable: it is damaged, of a newer version or of another stack, or cannot be written.
        """
        self._folder.open()

    def restore(self, emulator: Emulator) -> bool:
        """Puts everything into the emulator, and keeps its changes from now on. Returns whether there was a state.

        Raises:
            StateUnusable: the stack that was deployed has no place for something that is kept.
        """
        self._kinds = {**kinds(emulator), "clock": Kind(lambda: self._clock.offset_ms, self._restore_clock)}
        for names in (list(_CHILDREN), [each for each in self._kinds if each not in _CHILDREN]):
            for kind, key, value in self._folder.rows(names):
                try:
                    self._kinds[kind].restore(decoded(value), *json.loads(key))
                except NoPlace as error:
                    what = f"holds the {kind} {key}, but the stack does not have {error}"
                    advice = "Give the template with which it was made, or another folder"
                    raise StateUnusable(str(self._path), None, what, advice) from error
        link_queues()
        self._folder.begin()
        emulator.sqs.number_from(self._folder.starts * _NUMBERS_A_START)
        self._watch(emulator)
        return self._folder.starts > 1

    def commit(self) -> None:
        """Writes what has changed since the last commit. If that fails, ends the process: nothing may be answered."""
        if self._clock.offset_ms != self._kept_offset_ms:
            self._kept_offset_ms = self._clock.offset_ms
            self._touch("clock")
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        try:
            changes = [(kind, json.dumps(key), self._encoded(kind, *key)) for kind, *key in touched]
            gone = [(child, key) for kind, key, value in changes if value is None for child in _CHILDREN.get(kind, ())]
            self._folder.commit(changes, gone)
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

    def _restore_clock(self, offset_ms: int) -> None:
        """Moves time to where it was moved, since it never goes back."""
        self._clock.offset_ms = self._kept_offset_ms = offset_ms

    def _encoded(self, kind: str, *key: str) -> bytes | None:
        value = self._kinds[kind].read(*key)
        try:
            return None if value is None else encoded(value)
        except TypeError as error:
            raise TypeError(f"the {kind} {key}: {error}") from error

    def _touch(self, *key: str) -> None:
        self._touched[key] = None

    def _touch_message(self, region: str, queue: str, message: str, whole: bool) -> None:
        if whole:
            self._touch("message", region, queue, message)
        self._touch("place", region, queue, message)

    def _watch(self, emulator: Emulator) -> None:
        emulator.tables.touched = self._touch
        emulator.sqs.touched = self._touch_message
        emulator.starts.touched = partial(self._touch, "call")
        emulator.schedules.touched = partial(self._touch, "schedule")
        for backend, changes in _TOUCHED.items():
            for (kind, *names), methods in changes.items():
                for method in methods.split():
                    emulator.patches.set(backend, method, self._noting(getattr(backend, method), kind, names))
        self._note_items(emulator)
        emulator.patches.set(SQSBackend, "send_message", _refusing_fifo(SQSBackend.send_message))
        emulator.keep = self.commit

    def _noting(self, method: Callable[..., Any], kind: str, names: Sequence[str]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        def noted(backend: Any, *args: Any, **kwargs: Any) -> Any:
            call = SimpleNamespace(**signature.bind(backend, *args, **kwargs).arguments)
            *head, last = (attrgetter(each)(call) for each in names)
            region = () if isinstance(backend, S3Backend) else (backend.region_name,)
            for each in last if isinstance(last, list) else [last]:
                name = ParameterDict.normalize_name(each) if kind == "parameter" else each
                name = name.rpartition("/")[2] if kind == "table" else name  # of an ARN
                self._touch(kind, *region, *(one or "default" for one in head), name)  # the default group of schedules
            return method(backend, *args, **kwargs)

        return noted

    def _note_items(self, emulator: Emulator) -> None:
        """Notes the items of tables that are not built like Tidewheel's."""
        put, delete, update = Table.put_item, Table.delete_item, DynamoDBBackend.update_item

        def touch(table: Table, *keys: DynamoType | None) -> None:
            if emulator.tables.client(table.name, table.region_name) is None:
                self._touch("item", table.region_name, table.name, *(key_text(each) for each in keys if each))

        def put_item(table: Table, item_attrs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            touch(table, *(DynamoType(item_attrs[name]) for name in table.table_key_attrs))
            return put(table, item_attrs, *args, **kwargs)

        def delete_item(table: Table, hash_key: DynamoType, range_key: DynamoType | None) -> Any:
            touch(table, hash_key, range_key)
            return delete(table, hash_key, range_key)

        def update_item(backend: Any, table_name: str, key: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            table = backend.get_table(table_name)
            touch(table, *(DynamoType(key[name]) for name in table.table_key_attrs))
            return update(backend, table_name, key, *args, **kwargs)

        for owner, own in ((Table, put_item), (Table, delete_item), (DynamoDBBackend, update_item)):
            emulator.patches.set(owner, own.__name__, own)


def _refusing_fifo(send: Callable[..., Any]) -> Callable[..., Any]:
    """Makes FIFO queues refuse messages: moto keeps them, and nothing here writes them to the folder."""

    def send_message(backend: SQSBackend, queue_name: str, *args: Any, **kwargs: Any) -> Any:
        if backend.get_queue(queue_name).fifo_queue:
            advice = "FIFO queues take no messages, since the state folder does not keep them. Start without a state"
            raise SQSException("AWS.SimpleQueueService.UnsupportedOperation", advice)
        return send(backend, queue_name, *args, **kwargs)

    return send_message


_TOUCHED: dict[type, dict[tuple[str, ...], str]] = {
    S3Backend: {
        ("object", "bucket_name", "key_name"): "put_object put_object_acl delete_object delete_object_tagging",
        ("object", "key.bucket_name", "key.name"): "put_object_tagging",
        (
            "bucket",
            "bucket_name",
        ): "create_bucket delete_bucket put_bucket_versioning put_bucket_tagging put_bucket_policy "
        "delete_bucket_tagging delete_bucket_policy put_bucket_encryption delete_bucket_encryption",
    },
    DynamoDBBackend: {
        ("table", "name"): "create_table delete_table update_table",
        ("table", "arn"): "tag_resource untag_resource",
        ("table", "table_name"): "update_time_to_live update_continuous_backups",
        ("table", "target_table_name"): "restore_table_from_backup restore_table_to_point_in_time",
    },
    SQSBackend: {
        ("queue", "name"): "create_queue",
        (
            "queue",
            "queue_name",
        ): "delete_queue set_queue_attributes tag_queue untag_queue add_permission remove_permission",
    },
    EventBridgeSchedulerBackend: {
        ("group", "name"): "create_schedule_group delete_schedule_group",
        ("schedule", "group_name", "name"): "create_schedule update_schedule delete_schedule",
    },
    SimpleSystemManagerBackend: {
        ("parameter", "name"): "put_parameter delete_parameter label_parameter_version unlabel_parameter_version",
        ("parameter", "names"): "delete_parameters",
        ("parameter", "resource_id"): "add_tags_to_resource remove_tags_from_resource",
    },
}
"""Backends of moto; a kind, and the arguments with its key; and the methods that change a thing of this kind."""
