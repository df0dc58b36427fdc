"""This release goes on from every layout of earlier releases, and refuses the next layout without any loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.compatibility import aftermath, newer
from tests.compatibility.record import FOLDER, path_of
from tests.compatibility.recording import Recording, restored, settings_of
from tidewheel.errors import UnsupportedLayout
from tidewheel.flows.upkeep.checkpoint import find_checkpoints
from tidewheel.local import LocalTidewheel
from tidewheel.model.checksum import opened
from tidewheel.model.job import CatchUpJob, DrainJob, PartJob, job_of
from tidewheel.model.object_names import CHECKPOINTS, LEDGERS, PARKED, PAYLOADS, PLANS
from tidewheel.model.pack import PACK_ATTRIBUTE
from tidewheel.model.topic_state import LAYOUT
from tidewheel.storage import layout

RECORDINGS = sorted(FOLDER.glob("layout-*/recording.json.gz"))
THIS_LAYOUT = path_of(LAYOUT)


def read(path: Path = THIS_LAYOUT) -> Recording:
    return Recording.read(path)


def items_of(stack: LocalTidewheel) -> dict[layout.Key, dict[str, Any]]:
    dynamodb: Any = stack.session.client("dynamodb")
    pages = dynamodb.get_paginator("scan").paginate(TableName=settings_of(stack).table)
    return {(item["pk"]["S"], item["sk"]["S"]): item for page in pages for item in page["Items"]}


def unchanged_but_for_marks(items: dict[layout.Key, dict[str, Any]]) -> dict[layout.Key, dict[str, Any]]:
    """Returns the items that an older release must not change, without leases and stamps of deliveries and parks."""
    own = (layout.DELIVERIES, layout.PARKS)
    passing = {"leases", "leased_ms", "next_check_ms"}
    return {
        key: {name: value for name, value in item.items() if name not in passing} if key[1].startswith(own) else item
        for key, item in items.items()
        if key[0].startswith("T#")
    }


def test_each_layout_up_to_this_release_s_has_a_recording() -> None:
    assert sorted(path_of(each) for each in range(1, LAYOUT + 1)) == RECORDINGS
    assert [read(path).layout for path in RECORDINGS] == [
        int(path.parent.name.removeprefix("layout-")) for path in RECORDINGS
    ]


def test_the_recording_holds_every_kind_of_data() -> None:
    recording = read()
    kinds = {each["sk"]["S"].partition("#")[0] for each in recording.items if each["pk"]["S"].count("#") == 1}
    wanted = {layout.BUCKETS, layout.PLANS, layout.SUBSCRIPTIONS, layout.DELIVERIES, layout.PARKS, layout.TRASH}
    wanted |= {layout.IMPORTS, layout.RECURRING}
    assert kinds == {each.rstrip("#") for each in wanted} | {layout.STATE, layout.MERGE}
    families = {each["pk"]["S"].split("#")[2] for each in recording.items if each["pk"]["S"].count("#") > 1}
    assert families == {"TOMB", "KEY", "MOVE", "NOTE", "CLAIM"} and any(
        each["pk"]["S"] == "SERVICE" for each in recording.items
    )
    names = {name for each in recording.items for name in each}
    assert {
        "ledger",
        "object_name",
        "manifest",
        "filter_policy",
        "purges",
        "moved_to",
        "cancelled",
        "deleting_at_ms",
        "occurrences",
    } <= names
    assert {each["state"]["S"] for each in recording.items if "state" in each} == {"ACTIVE", "PAUSED", "BROKEN"}
    prefixes = {f"{name.partition('/')[0]}/" for name in recording.objects}
    assert prefixes == {LEDGERS, PLANS, PARKED, PAYLOADS, CHECKPOINTS}
    assert recording.schedules and recording.story.steps and recording.story.gone


def test_the_recording_has_packs_of_both_versions_and_every_kind_of_job_on_the_way() -> None:
    by_role = {each.role: each.messages for each in read().queues if each.role is not None}
    for role in ("urgent", "bulk"):
        found = [each["attributes"][PACK_ATTRIBUTE]["BinaryValue"] for each in by_role[role]]
        assert {opened(pack)[0] for pack in found} == {1, 2}, role
    jobs = [job_of(each["body"]) for each in by_role["work"]]
    assert {type(job) for job in jobs} == {PartJob, DrainJob, CatchUpJob}
    assert any(isinstance(job, PartJob) and job.key.replay is not None for job in jobs)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path == THIS_LAYOUT else pytest.mark.long) for path in RECORDINGS],
    ids=lambda path: path.parent.name,
)
def test_this_release_goes_on_where_a_recorded_one_stopped_and_each_message_comes_once(path: Path) -> None:
    recording = read(path)
    with restored(recording) as stack:
        for topic in {whom.partition("/")[0] for whom in recording.story.expected}:
            assert not find_checkpoints(stack.client().core.connection.objects, topic).unreadable
        aftermath.check(recording, aftermath.live_on(stack, recording))
        aftermath.nothing_is_left(stack, recording)


def test_the_topics_of_a_release_that_kept_no_list_are_listed_and_then_by_a_query() -> None:
    recording = read()
    deleting = {each["pk"]["S"] for each in recording.items if "deleting_at_ms" in each}
    states = {each["pk"]["S"] for each in recording.items if each["sk"]["S"] == layout.STATE}
    with restored(recording) as stack:
        client = stack.client()
        topics = client.core.connection.storage.topic_list
        names = sorted(layout.topic_of(each) for each in states - deleting)
        assert [each.name for each in client.topics()] == names
        stack.advance(minutes=6)
        assert not topics.read()[1], "the first sweep cannot know all topics"
        names = [each.name for each in client.topics()]
        assert topics.read() == (names, True)
        before = stack.requests["dynamodb.Scan"]
        assert [each.name for each in client.topics()] == names
        assert stack.requests["dynamodb.Scan"] == before


@pytest.mark.long
def test_after_a_rollback_data_of_a_newer_release_in_the_same_layout_is_gone_on_from() -> None:
    recording = newer.with_more(read())
    with restored(recording) as stack:
        before = items_of(stack)
        assert all(newer.ATTRIBUTE in item for item in before.values())
        checkpoints = [name for name in recording.objects if name.startswith(CHECKPOINTS)]
        for topic in {name.split("/")[1] for name in checkpoints}:
            assert not find_checkpoints(stack.client().core.connection.objects, topic).unreadable
        stack.client().update_topic("waiting", max_buckets=32)
        aftermath.check(recording, aftermath.live_on(stack, recording))
        for key, item in items_of(stack).items():
            if key[1] == layout.STATE or key[1].startswith(layout.SUBSCRIPTIONS):
                assert item[newer.ATTRIBUTE] == before[key][newer.ATTRIBUTE], key
            if key[1] == layout.STATE:
                assert newer.ATTRIBUTE in item["settings"]["S"], key
                assert key != layout.topic_state_key("waiting") or '"max_buckets": 32' in item["settings"]["S"]


@pytest.mark.long
def test_a_release_that_meets_a_newer_layout_changes_nothing_and_after_an_upgrade_nothing_was_lost() -> None:
    recording = read()
    with restored(newer.with_next_layout(recording)) as stack:
        before = unchanged_but_for_marks(items_of(stack))
        with pytest.raises(UnsupportedLayout, match=f"topic 'waiting' has layout {LAYOUT + 1}"):
            stack.client().send("waiting", "refused", delay=60)
        with pytest.raises(UnsupportedLayout):
            stack.client().cancel("waiting", "0" * 26)
        stack.advance(hours=1)
        assert unchanged_but_for_marks(items_of(stack)) == before
        assert {each.function for each in stack.failures} >= {"ingest", "dispatch", "deliver"}
        _upgrade(stack)
        stack.client().redrive_service()
        aftermath.check(recording, aftermath.live_on(stack, recording))


def _upgrade(stack: LocalTidewheel) -> None:
    """Changes the layout to a layout known to this release."""
    dynamodb: Any = stack.session.client("dynamodb")
    moved = {
        "UpdateExpression": "SET layout = :layout",
        "ExpressionAttributeValues": {":layout": {"N": str(LAYOUT)}},
    }
    for (pk, sk), item in items_of(stack).items():
        if "layout" in item:
            key = {"pk": {"S": pk}, "sk": {"S": sk}}
            dynamodb.update_item(TableName=settings_of(stack).table, Key=key, **moved)
