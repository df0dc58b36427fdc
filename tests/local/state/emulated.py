"""An emulator with a state, without functions, and all that it holds as plain data."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.s3.models import s3_backends
from moto.scheduler.models import scheduler_backends
from moto.sqs.models import sqs_backends
from moto.ssm.models import ssm_backends

from tidewheel.clock import ManualClock, MovedClock
from tidewheel.local import deployment
from tidewheel.local.emulator import Emulator
from tidewheel.local.emulator.queues import EmulatedQueue
from tidewheel.local.state.state import State

STACK = "tidewheel"
START_MS = 1_800_000_000_000
REGIONS = ("us-east-1", "eu-west-1")
_NOT_KEPT = frozenset(
    {
        # of S3: access lists, buffers and locks
        *("acl", "disposed", "lock", "multipart", "_max_buffer_size", "_value_buffer"),
        *("key", "keys", "multiparts", "rules", "public_access_block"),
        # of moto's managed states and of streams
        *("_status", "_tick", "_time_progressed", "_transitions", "stream_shard", "latest_stream_label"),
        # of SQS: what queues in memory replace
        *("_messages", "_messages_lock", "_pending_messages", "deleted_messages", "last_purged_at", "memory"),
        *("_policy_json", "dead_letter_queue", "lambda_event_source_mappings", "permissions"),
        "items",
    }
)


class Emulated:
    """An open emulator with the packaged stack, and its state in a folder.

    Each time, the stack is deployed at the same time, so that all that is deployed is equal.
    """

    latest: ClassVar[Emulated | None] = None

    def __init__(self, folder: Path, now_ms: int = START_MS, template: dict[str, Any] | None = None) -> None:
        self.folder = folder
        self.clock = ManualClock(START_MS)
        self.moved = MovedClock()
        self.state = State(folder, STACK, self.moved)
        self.emulator = Emulator(self.clock, virtual=True)
        self.emulator.open()
        Emulated.latest = self
        try:
            self.state.open()
            self.emulator.deploy(STACK, template or deployment.template_of(None))
            self.clock.set_ms(now_ms)
            self.had_state = self.state.restore(self.emulator)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.emulator.close()
        self.state.close()

    def killed(self, copy: Path) -> Emulated:
        """Opens a copy of the files as they are now, as after a kill. This emulator is closed."""
        shutil.copytree(self.folder, copy)
        self.close()
        return Emulated(copy, self.clock.now_ms())


def everything(emulator: Emulator) -> dict[str, Any]:
    """Returns all that the emulator holds."""
    found: dict[str, Any] = {"calls": {name: asdict(call) for name, call in emulator.starts.calls.items()}}
    s3 = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for name, bucket in s3.buckets.items():
        if name.startswith(STACK):
            bucket.creation_date = None  # by the machine's clock
        found[f"bucket {name}"] = _plain(bucket), s3.tagger.get_tag_dict_for_resource(bucket.arn)
        for key in bucket.keys:
            found[f"object {name} {key}"] = [
                (
                    _plain(each),
                    getattr(each, "value", None),
                    s3.tagger.get_tag_dict_for_resource(getattr(each, "arn", "")),
                )
                for each in bucket.keys.getlist(key)
                if not getattr(each, "disposed", False)
            ]
    for region in REGIONS:
        _dynamodb(found, emulator, region)
        _sqs(found, region)
        groups = scheduler_backends[DEFAULT_ACCOUNT_ID][region].schedule_groups
        for group in groups.values():
            found[f"group {region} {group.name}"] = group.created_on, group.last_modified
            for name, schedule in group.schedules.items():
                fired = emulator.schedules.fired_ms.get(schedule)
                found[f"schedule {region} {group.name} {name}"] = _plain(schedule), fired
        ssm = ssm_backends[DEFAULT_ACCOUNT_ID][region]
        for name, versions in ssm._parameters.items():
            if not versions:  # moto keeps the name that a refused label asked for
                continue
            tags = dict(ssm._resource_tags["Parameter"][versions[-1].name])
            found[f"parameter {region} {name}"] = [_plain(each) for each in versions], tags
    return found


def _dynamodb(found: dict[str, Any], emulator: Emulator, region: str) -> None:
    for name, table in dynamodb_backends[DEFAULT_ACCOUNT_ID][region].tables.items():
        described = table.describe()["TableDescription"]
        described.pop("ItemCount")  # our own tables are not in moto
        found[f"table {region} {name}"] = (
            json.dumps(described, default=str),
            (table.ttl, table.tags),
            table.continuous_backups,
        )
        client = emulator.tables.client(name, region)
        if client is None:
            for item in table.all_items():
                attributes = item.to_json()["Attributes"]
                key = [attributes[each] for each in table.table_key_attrs]
                found[f"item {region} {name} {key}"] = attributes
        else:
            found[f"tokens {region} {name}"] = list(client.tokens)
            for item in client.items():
                found[f"item {region} {name} {item['pk']} {item['sk']}"] = item


def _sqs(found: dict[str, Any], region: str) -> None:
    for name, queue in sqs_backends[DEFAULT_ACCOUNT_ID][region].queues.items():
        found[f"queue {region} {name}"] = _plain(queue), queue.policy
        if isinstance(queue, EmulatedQueue):
            found[f"queue in memory {region} {name}"] = queue.memory.attributes, queue.memory._redrive
            for message in queue.memory.everything:
                found[f"message {region} {name} {message.id}"] = asdict(message)


def differences(left: Any, right: Any, path: str = "") -> list[str]:
    """Returns a line for each part that differs."""
    if left == right:
        return []
    if isinstance(left, dict) and isinstance(right, dict):
        names = left.keys() | right.keys()
        return [line for name in names for line in differences(left.get(name), right.get(name), f"{path}/{name}")]
    if isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        return [
            line for i, both in enumerate(zip(left, right, strict=True)) for line in differences(*both, f"{path}/{i}")
        ]
    return [f"{path}: {str(left)[:200]} -> {str(right)[:200]}"]


def _plain(thing: Any) -> Any:
    if isinstance(thing, dt.datetime | str | bytes | int | float | None):
        return thing
    if isinstance(thing, Mapping):
        return {str(name): _plain(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_plain(each) for each in thing]
    return {name: _plain(value) for name, value in vars(thing).items() if name not in _NOT_KEPT}
