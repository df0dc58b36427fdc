"""This release goes on from the recording of its table_keys, and refuses the next layout without any loss."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.compatibility.record import PATH, record
from tests.compatibility.recording import Recording, restored
from tests.compatibility.scenario import taken, told
from tidewheel.clock import utc
from tidewheel.errors import UnsupportedLayout
from tidewheel.flows.maintenance.checkpoint import find_checkpoints
from tidewheel.local import MemoryTidewheel
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.object_names import CHECKPOINTS, LEDGERS, PARKED, PAYLOADS, PLANS, topic_prefixes
from tidewheel.model.task import CatchUpTask, DrainTask, PartTask, task_of
from tidewheel.model.topic_state import LAYOUT
from tidewheel.storage import table_keys

VERBS: dict[str, Callable[..., object]] = {
    "resume": lambda stack, topic, subscription: stack.client().resume(topic, subscription),
    "cancel": lambda stack, topic, id: stack.client().cancel(topic, id),
    "cancel_key": lambda stack, topic, key: stack.client().cancel(topic, key=key),
    "cancel_recurring": lambda stack, topic, key: stack.client().cancel_recurring(topic, key),
    "create_queue": lambda stack, name: stack.sqs.create_queue(QueueName=name),
}
"""What users do after the recording. A verb stays as long as a recording uses it."""
RETENTION = timedelta(days=13)
"""A day less than a subscription's queue keeps a message."""
MORE = "of_a_newer_release"


def read() -> Recording:
    return Recording.read(PATH)


def items_of(stack: MemoryTidewheel) -> dict[table_keys.Key, dict[str, Any]]:
    return {(item["pk"]["S"], item["sk"]["S"]): item for item in stack.service.dynamodb.items()}


def check_all_comes(stack: MemoryTidewheel, recording: Recording) -> None:
    """Runs a restored service until all is due. Exactly the expected messages come, each once, and none early."""
    end_ms = max(due for each in recording.expected.values() for due, _ in each) + 86_400_000
    came: dict[str, list[Any]] = {whom: [] for whom in recording.expected}
    for at_ms, verb, *arguments in [*recording.steps, [end_ms, ""]]:
        while stack.now() < utc(at_ms):
            stack.advance_to(min(utc(at_ms), stack.now() + RETENTION))
            for whom, messages in came.items():
                messages.extend(taken(stack, whom))
        if verb:
            VERBS[verb](stack, *arguments)
    for whom, messages in came.items():
        assert Counter(told(messages)) == Counter(map(tuple, recording.expected[whom])), whom
        assert len({each.id for each in messages}) == len(messages), whom
        assert all(each.visible_at is not None and each.visible_at >= each.deliver_at for each in messages), whom


def check_checkpoints(stack: MemoryTidewheel, recording: Recording) -> None:
    for topic in {name.split("/")[1] for name in recording.objects if name.startswith(CHECKPOINTS)}:
        assert not find_checkpoints(stack.service.objects, topic).unreadable


def test_the_recording_holds_every_kind_of_data() -> None:
    recording = read()
    own = {each["sk"]["S"].partition("#")[0] for each in recording.items if each["pk"]["S"].count("#") == 1}
    wanted = (
        table_keys.BUCKETS,
        table_keys.PLANS,
        table_keys.SUBSCRIPTIONS,
        table_keys.DELIVERIES,
        table_keys.PARKS,
        table_keys.TRASH,
    )
    single = {table_keys.STATE, table_keys.MERGE}
    assert own == {each.rstrip("#") for each in (*wanted, table_keys.IMPORTS, table_keys.RECURRING)} | single
    others = {each["pk"]["S"].split("#")[2] for each in recording.items if each["pk"]["S"].count("#") > 1}
    assert others == {"TOMB", "KEY", "MOVE", "NOTE", "CLAIM", "TOPICS"}
    names = {name for each in recording.items for name in each}
    assert {"ledger", "object_name", "manifest", "filter_policy", "purges", "moved_to"} <= names
    assert {"cancelled", "deleting_at_ms", "occurrences"} <= names
    assert {each["state"]["S"] for each in recording.items if "state" in each} == {"ACTIVE", "PAUSED", "BROKEN"}
    assert {f"{name.partition('/')[0]}/" for name in recording.objects} == {
        *(LEDGERS, PLANS, PARKED, PAYLOADS, CHECKPOINTS)
    }
    queues = {each["role"]: each["messages"] for each in recording.queues}
    jobs = [task_of(each["body"]) for each in queues["work"]]
    assert {type(job) for job in jobs} == {PartTask, DrainTask, CatchUpTask}
    assert any(isinstance(job, PartTask) and job.key.replay is not None for job in jobs)
    assert recording.schedules and recording.steps and recording.gone and queues["urgent"] and queues["bulk"]


def test_this_release_goes_on_where_a_recorded_one_stopped_and_each_message_comes_once() -> None:
    recording = read()
    stack = restored(recording)
    check_checkpoints(stack, recording)
    check_all_comes(stack, recording)
    for topic in recording.gone:
        left = [key for key in items_of(stack) if key[0] in table_keys.partitions(topic)]
        assert [sort_key for _, sort_key in left] == ["deleted"]
        assert not [name for name in stack.service.objects.names() if name.startswith(topic_prefixes(topic))]


@pytest.mark.long
def test_what_is_recorded_today_is_gone_on_from_too() -> None:
    recording = record()
    check_all_comes(restored(recording), recording)


# ---- newer releases


def more(text: str) -> str:
    return json.dumps(json.loads(text) | {MORE: {"count": 7}})


def more_in(data: bytes, *lists: str) -> bytes:
    """Returns a manifest or a checkpoint with additions."""
    document = json.loads(zlib.decompress(opened(data)))
    document |= {name: [[*each, "more"] for each in document[name]] for name in lists} | {MORE: 7}
    return sealed(zlib.compress(json.dumps(document).encode()))


def more_of(item: dict[str, Any]) -> dict[str, Any]:
    changed = item | {MORE: {"M": {"count": {"N": "7"}, "names": {"L": [{"S": "x"}]}}}}
    if "settings" in item:
        changed["settings"] = {"S": more(item["settings"]["S"])}
    if "purges" in item:
        changed["purges"] = {"S": json.dumps([[*each, "more"] for each in json.loads(item["purges"]["S"])])}
    if "manifest" in item:
        changed["manifest"] = {"B": more_in(item["manifest"]["B"], "segments")}
    return changed


def test_after_a_rollback_data_of_a_newer_release_in_the_same_layout_is_gone_on_from() -> None:
    found = read()
    lists = ("subscriptions", "tombstones", "recurring", "purges", "keys")
    objects = {
        name: more_in(data, *lists) if name.startswith(CHECKPOINTS) else data for name, data in found.objects.items()
    }
    jobs = [
        each | {"messages": [job | {"body": more(job["body"])} for job in each["messages"]]}
        if each["role"] == "work"
        else each
        for each in found.queues
    ]
    recording = replace(found, items=[more_of(each) for each in found.items], objects=objects, queues=jobs)
    stack = restored(recording)
    check_checkpoints(stack, recording)
    stack.client().update_topic("waiting", max_buckets=32)
    check_all_comes(stack, recording)
    for key, item in items_of(stack).items():
        if key[1] == table_keys.STATE or key[1].startswith(table_keys.SUBSCRIPTIONS):
            assert MORE in item, key
        if key[1] == table_keys.STATE:
            assert MORE in item["settings"]["S"], key
            assert key != table_keys.topic_state_key("waiting") or '"max_buckets": 32' in item["settings"]["S"]


def test_a_release_that_meets_a_newer_layout_changes_nothing_and_after_an_upgrade_nothing_was_lost() -> None:
    recording = read()
    newer = {"layout": {"N": str(LAYOUT + 1)}}
    items = [each | newer if each["sk"]["S"] == table_keys.STATE else each for each in recording.items]
    stack = restored(replace(recording, items=items))
    before = but_leases(stack)
    with pytest.raises(UnsupportedLayout, match=f"topic 'waiting' has layout {LAYOUT + 1}"):
        stack.client().send("waiting", "refused", delay=60)
    with pytest.raises(UnsupportedLayout):
        stack.client().cancel("waiting", "0" * 26)
    stack.advance(hours=1)
    assert but_leases(stack) == before
    assert {each.function for each in stack.failures} >= {"ingest", "dispatch", "deliver"}
    for item in items_of(stack).values():
        if "layout" in item:  # the upgrade knows the layout
            stack.service.dynamodb.put_item(TableName="memory", Item=item | {"layout": {"N": str(LAYOUT)}})
    stack.client().redrive_service()
    check_all_comes(stack, recording)


def but_leases(stack: MemoryTidewheel) -> dict[table_keys.Key, dict[str, Any]]:
    """Returns the items that an older release must not change, without leases and stamps of deliveries and parks."""
    passing = {"leases", "leased_ms", "next_check_ms"}
    return {
        key: {name: value for name, value in item.items() if name not in passing}
        if key[1].startswith((table_keys.DELIVERIES, table_keys.PARKS))
        else item
        for key, item in items_of(stack).items()
        if key[0].startswith("T#")
    }
