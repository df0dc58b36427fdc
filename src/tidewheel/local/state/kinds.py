"""Defines what is kept, and how each kind is read from the emulator and put back.

| kind | key | |
|---|---|---|
| `bucket`, `object` | name; bucket and name | S3. An object has all its versions, with metadata and tags |
| `table` | Region and name | DynamoDB's tables |
| `item` | Region, table and keys | their items. Keys of tables that are not built like Tidewheel's are JSON |
| `token` | Region, table and token | tokens of transactions, of tables that are built like Tidewheel's |
| `queue` | Region and name | SQS's queues, with attributes and tags |
| `message`, `place` | Region, queue and id | a message, and what a receive changes of it |
| `group`, `schedule` | Region and name; Region, group and name | EventBridge Scheduler |
| `parameter` | Region and name | SSM, with all versions and tags |
| `call` | id | asynchronous calls that are not over |
| `clock` | | how far time was moved |

Values have JSON's types and bytes. Attributes of moto's objects are listed by name, never taken as a whole, so that a
later version of moto can read them.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.core.utils import camelcase_to_underscores
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.s3.models import FakeDeleteMarker, FakeKey, s3_backends
from moto.scheduler.models import Schedule, ScheduleGroup, scheduler_backends
from moto.sqs.models import sqs_backends

from tidewheel.local.emulator import Emulator
from tidewheel.local.emulator.queues import EmulatedQueue
from tidewheel.local.emulator.ssm import Parameter, ssm_backends
from tidewheel.local.emulator.starts import Call
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.memory.sqs_queue import RANGES

_BUCKET = ("versioning_status", "encryption", "policy")
_OBJECT = (
    *("_etag", "_is_versioned", "_storage_class", "_version_id", "bucket_key_enabled", "encryption", "kms_key_id"),
    *("checksum_algorithm", "checksum_parts", "checksum_type", "checksum_value", "website_redirect_location"),
)
_TABLE = (
    *("billing_mode", "throughput", "tags", "ttl", "continuous_backups", "sse_specification"),
    "deletion_protection_enabled",
)
_QUEUE = (
    *RANGES,
    *("ContentBasedDeduplication", "DeduplicationScope", "FifoQueue", "FifoThroughputLimit"),
    *("KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "SqsManagedSseEnabled"),
)
_MESSAGE = ("body", "message_attributes", "size_bytes", "sent_at_ms", "visible_at_ms", "sent_system_attributes")
_PLACE = (
    *("arrival", "ready_at_ms", "receive_count", "first_received_at_ms", "receipt_handle", "in_flight", "source_arn"),
)
_GROUP = ("created_on", "last_modified")
_SCHEDULE = (
    *("description", "schedule_expression", "schedule_expression_timezone", "flexible_time_window", "target", "state"),
    *("kms_key_arn", "end_date", "action_after_completion"),
)
_SCHEDULE_DATES = ("start_date", "creation_date", "last_modified_date")
_PARAMETER = (
    *("name", "value", "parameter_type", "description", "allowed_pattern", "keyid", "version", "data_type", "labels"),
    *("source_result", "tier", "policies"),
)


class NoPlace(Exception):
    """The stack does not have what a thing belongs to."""


class Kind(NamedTuple):
    """Reads and restores the things of one kind.

    Attributes:
        read: takes a key and returns the value that the emulator holds now, or None.
        restore: takes a value and its key, and puts the value back. Raises NoPlace if the stack has no place for it.
    """

    read: Callable[..., Any]
    restore: Callable[..., None]


def kinds(emulator: Emulator) -> dict[str, Kind]:
    """Returns the kinds by name, those first that others need."""
    emulated = _Emulated(emulator)
    return {
        "bucket": Kind(_read_bucket, _restore_bucket),
        "group": Kind(_read_group, _restore_group),
        "queue": Kind(_read_queue, _restore_queue),
        "table": Kind(_read_table, _restore_table),
        "parameter": Kind(_read_parameter, _restore_parameter),
        "object": Kind(_read_object, _restore_object),
        "item": Kind(emulated.read_item, emulated.restore_item),
        "token": Kind(emulated.read_token, emulated.restore_token),
        "message": Kind(emulated.read_message, emulated.restore_message),
        "place": Kind(emulated.read_place, emulated.restore_place),
        "schedule": Kind(emulated.read_schedule, emulated.restore_schedule),
        "call": Kind(emulated.read_call, emulated.restore_call),
    }


# ---- S3
def _s3() -> Any:
    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def _read_bucket(name: str) -> Any:
    bucket = _s3().buckets.get(name)
    if bucket is None:
        return None
    tags = _s3().tagger.get_tag_dict_for_resource(bucket.arn)
    created = bucket.creation_date.isoformat()
    return {"region": bucket.region_name, "created": created, "tags": tags, **_attributes(bucket, _BUCKET)}


def _restore_bucket(value: Any, name: str) -> None:
    bucket = _s3().buckets.get(name) or _s3().create_bucket(name, value["region"])
    bucket.creation_date = dt.datetime.fromisoformat(value["created"])
    _tag(bucket.arn, value["tags"])
    _set(bucket, _BUCKET, value)


def _read_object(bucket: str, name: str) -> Any:
    found = _s3().buckets.get(bucket)
    versions = [] if found is None else found.keys.getlist(name, [])
    # moto fails half way to delete an object with a delete marker, and then cannot read it.
    return [_read_version(each) for each in versions if not getattr(each, "disposed", False)] or None


def _restore_object(value: Any, bucket: str, name: str) -> None:
    versions: list[Any] = []
    for each in value:
        if "marker" in each:
            version: Any = FakeDeleteMarker(versions[-1] if versions else cast("Any", SimpleNamespace(name=name)))
            version._version_id = each["marker"]  # noqa: SLF001  # moto has no other
        else:
            version = FakeKey(name, each["value"], DEFAULT_ACCOUNT_ID, _s3().region_name, bucket_name=bucket)
            version.metadata.clear()
            version.metadata.update(each["metadata"])
            _set(version, _OBJECT, each)
            _tag(version.arn, each["tags"])
        version.last_modified = dt.datetime.fromisoformat(each["changed"])
        versions.append(version)
    _there(_s3().buckets, bucket, "bucket").keys.setlist(name, versions)


def _read_version(version: Any) -> Any:
    changed = version.last_modified.isoformat()
    if isinstance(version, FakeDeleteMarker):
        return {"marker": version.version_id, "changed": changed}
    return {
        "value": version.value,
        "changed": changed,
        "metadata": dict(version.metadata),
        "tags": _s3().tagger.get_tag_dict_for_resource(version.arn),
        **_attributes(version, _OBJECT),
    }


def _tag(arn: str, tags: dict[str, str]) -> None:
    tagger = _s3().tagger
    tagger.delete_all_tags_for_resource(arn)
    if tags:
        tagger.tag_resource(arn, tagger.convert_dict_to_tags_input(tags))


# ---- DynamoDB
def _tables(region: str) -> Any:
    return dynamodb_backends[DEFAULT_ACCOUNT_ID][region].tables


def _read_table(region: str, name: str) -> Any:
    table = _tables(region).get(name)
    if table is None:
        return None
    return {
        "schema": table.schema,
        "attr": table.attr,
        "indexes": [each.describe() for each in table.indexes],
        "global_indexes": [each.describe() for each in table.global_indexes],
        "streams": table.stream_specification,
        "created": table.created_at.isoformat(),
        **_attributes(table, _TABLE),
    }


def _restore_table(value: Any, region: str, name: str) -> None:
    table = _tables(region).get(name)
    if table is None:
        made = {each: value[each] for each in ("schema", "attr", "indexes", "global_indexes", "streams")}
        table = _tables(region)[name] = cast("Any", Table)(name, DEFAULT_ACCOUNT_ID, region, **made)
    table.created_at = dt.datetime.fromisoformat(value["created"])
    _set(table, _TABLE, value)


def key_text(value: DynamoType) -> str:
    """Returns a key of an item as text."""
    return json.dumps([value.type, value.value.hex() if isinstance(value.value, bytes) else value.value])


def _key(text: str) -> DynamoType:
    kind, value = json.loads(text)
    return DynamoType({kind: bytes.fromhex(value) if kind == "B" else value})


# ---- SQS
def _queues(region: str) -> Any:
    return sqs_backends[DEFAULT_ACCOUNT_ID][region].queues


def _read_queue(region: str, name: str) -> Any:
    queue = _queues(region).get(name)
    if queue is None:
        return None
    return {
        "attributes": {each: getattr(queue, camelcase_to_underscores(each)) for each in _QUEUE},
        "redrive": queue.redrive_policy or None,
        "policy": queue.policy,
        "tags": queue.tags,
        "created": queue.created_timestamp,
        "changed": queue.last_modified_timestamp,
    }


def _restore_queue(value: Any, region: str, name: str) -> None:
    backend = sqs_backends[DEFAULT_ACCOUNT_ID][region]
    queue: Any = backend.queues.get(name) or backend.create_queue(name, {}, **value["attributes"])
    for attribute, wanted in value["attributes"].items():
        setattr(queue, camelcase_to_underscores(attribute), wanted)
    # Not by SetQueueAttributes, since the dead-letter queue may be gone, or not yet restored.
    queue.redrive_policy, queue.policy, queue.tags = value["redrive"], value["policy"], value["tags"]
    queue.created_timestamp, queue.last_modified_timestamp = value["created"], value["changed"]
    if isinstance(queue, EmulatedQueue):
        queue.copy_attributes()


def link_queues() -> None:
    """Gives all queues their dead-letter queues, after all queues are restored."""
    for backend in sqs_backends[DEFAULT_ACCOUNT_ID].values():
        for queue in cast("dict[str, Any]", backend.queues).values():
            arn = (queue.redrive_policy or {}).get("deadLetterTargetArn", "")
            queue.dead_letter_queue = backend.queues.get(arn.rpartition(":")[2])


# ---- EventBridge Scheduler and SSM
def _groups(region: str) -> Any:
    return scheduler_backends[DEFAULT_ACCOUNT_ID][region].schedule_groups


def _read_group(region: str, name: str) -> Any:
    group = _groups(region).get(name)
    return None if group is None else _attributes(group, _GROUP)


def _restore_group(value: Any, region: str, name: str) -> None:
    group = _groups(region).setdefault(name, ScheduleGroup(region, DEFAULT_ACCOUNT_ID, name))
    _set(group, _GROUP, value)


def _read_parameter(region: str, name: str) -> Any:
    backend: Any = ssm_backends[DEFAULT_ACCOUNT_ID][region]
    versions = backend._parameters.get(name)  # noqa: SLF001  # moto has no other
    if not versions:
        return None
    return {
        "tags": dict(backend._resource_tags["Parameter"][versions[-1].name]),  # noqa: SLF001
        "versions": [
            {"changed": each.last_modified_date.isoformat(), **_attributes(each, _PARAMETER)} for each in versions
        ],
    }


def _restore_parameter(value: Any, region: str, name: str) -> None:
    backend: Any = ssm_backends[DEFAULT_ACCOUNT_ID][region]
    versions = []
    for each in value["versions"]:
        changed = dt.datetime.fromisoformat(each.pop("changed"))
        version = cast("Any", Parameter)(DEFAULT_ACCOUNT_ID, last_modified_date=changed, **each)
        version.value = each["value"]  # as it was stored: a secure string is marked already
        versions.append(version)
    backend._parameters[name] = versions  # noqa: SLF001
    backend._resource_tags["Parameter"][versions[-1].name] = value["tags"]  # noqa: SLF001


class _Emulated:
    """The kinds that are in our own parts of the emulator."""

    def __init__(self, emulator: Emulator) -> None:
        self._tables = emulator.tables
        self._book = emulator.schedules
        self._starts = emulator.starts
        self._without_place: dict[tuple[str, ...], Any] = {}

    def read_item(self, region: str, table: str, *keys: str) -> Any:
        client = self._tables.client(table, region)
        if client is not None:
            return client.item(*keys)
        found = _tables(region).get(table)
        item = None if found is None else found.get_item(*map(_key, keys))
        return None if item is None else item.to_json()["Attributes"]

    def restore_item(self, value: Any, region: str, table: str, *_: str) -> None:
        found, client = _there(_tables(region), table, "table"), self._tables.client(table, region)
        if client is None:
            found.put_item(value)
        else:
            client.put_item(TableName=table, Item=value)

    def read_token(self, region: str, table: str, token: str) -> Any:
        client = self._tables.client(table, region)
        return True if client is not None and token in client.tokens else None

    def restore_token(self, _: Any, region: str, table: str, token: str) -> None:
        client = self._tables.client(table, region)
        if client is not None:
            client.remember(token)

    def read_message(self, *key: str) -> Any:
        message = self._message(*key)
        return None if message is None else _attributes(message, _MESSAGE)

    def restore_message(self, value: Any, *key: str) -> None:
        self._without_place[key] = value

    def read_place(self, *key: str) -> Any:
        message = self._message(*key)
        return None if message is None else _attributes(message, _PLACE)

    def restore_place(self, value: Any, *key: str) -> None:
        region, queue, message = key
        found = _there(_queues(region), queue, "queue")
        found.memory.restore(MemoryMessage(id=message, **self._without_place.pop(key), **value))

    def _message(self, region: str, queue: str, message: str) -> MemoryMessage | None:
        found = _queues(region).get(queue)
        return found.memory.find(message) if isinstance(found, EmulatedQueue) else None

    def read_schedule(self, region: str, group: str, name: str) -> Any:
        found = _groups(region).get(group)
        schedule = None if found is None else found.schedules.get(name)
        if schedule is None:
            return None
        return {"fired_ms": self._book.fired_ms.get(schedule), **_attributes(schedule, _SCHEDULE + _SCHEDULE_DATES)}

    def restore_schedule(self, value: Any, region: str, group: str, name: str) -> None:
        made = {each: value[each] for each in _SCHEDULE}
        schedule = Schedule(region, DEFAULT_ACCOUNT_ID, group, name, start_date=None, **made)
        _set(schedule, _SCHEDULE_DATES, value)
        if value["fired_ms"] is not None:
            self._book.fired_ms[schedule] = value["fired_ms"]
        _there(_groups(region), group, "schedule group").add_schedule(schedule)

    def read_call(self, call_id: str) -> Any:
        call = self._starts.calls.get(call_id)
        # The event may hold anything, also what `encoding` takes for bytes.
        return None if call is None else {**asdict(call), "event": json.dumps(call.event)}

    def restore_call(self, value: Any, call_id: str) -> None:
        self._starts.calls[call_id] = Call(**{**value, "event": json.loads(value["event"])})


def _there(things: Any, name: str, kind: str) -> Any:
    if name not in things:
        raise NoPlace(f"the {kind} {name}")
    return things[name]


def _attributes(thing: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def _set(thing: Any, names: Sequence[str], value: Any) -> None:
    for name in names:
        setattr(thing, name, value[name])
