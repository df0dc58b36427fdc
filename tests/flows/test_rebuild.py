"""A rebuild after a lost table loses no message, and repeats only deliveries since the checkpoint."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from tests.flows.alone import local_engine, sweep_orphans
from tests.flows.test_recurring import make as make_recurring
from tests.flows.world import (
    DAY,
    DEATHS,
    HOUR,
    MINUTE,
    START_MS,
    TOPIC,
    Crash,
    CrashingPorts,
    World,
    deaths,
    ids_of,
    once,
)
from tests.stored import stored
from tidewheel.client.changes import reschedule
from tidewheel.errors import ConcurrentModification, InvalidValue, UnknownTopic
from tidewheel.flows.administration.pause import pause, resume
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.administration.subscribe import collect_soon, create_subscription
from tidewheel.flows.delivery.cancel import cancel
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.work import do_task
from tidewheel.flows.maintenance import merge_planning
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic, find_checkpoints
from tidewheel.flows.maintenance.merge import Merged, in_process, merge, merge_topics
from tidewheel.flows.maintenance.merge_outputs import Written
from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.flows.maintenance.orphans import ORPHAN_GRACE_S
from tidewheel.flows.recovery.audit import audit
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.flows.recovery.rebuild_report import RebuildReport
from tidewheel.ledger.bucket import bucket_id
from tidewheel.model.message import MessageId, Receipt, id_bytes, id_deliver_at_ms, id_text
from tidewheel.model.object_names import ASIDE, LEDGERS, ledger_bucket_id, ledger_name
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription_state import State
from tidewheel.model.task import PartTask
from tidewheel.model.tombstone import tombstone
from tidewheel.model.validation import OutgoingMessage
from tidewheel.model.wheel import open_from
from tidewheel.storage.topic_states import AT_ONCE_MS

LEASE_S = 7200


def a_world(*subscriptions: str, **settings: int) -> World:
    world = World(*subscriptions, wrap=CrashingPorts, **settings)
    world.service.objects._now_ms = world.clock.now_ms
    return world


def lose_table(world: World) -> None:
    stored(world.service).clear()


def run_rebuild(world: World, **options: Any) -> RebuildReport:
    return rebuild(world.ports, TOPIC, local_engine(world.ports), lease_s=LEASE_S, **options)


def restored(world: World) -> RebuildReport:
    """Rebuilds the topic from a checkpoint of now, after its table is lost."""
    checkpoint(world)
    lose_table(world)
    return run_rebuild(world)


def run_audit(world: World, **options: Any) -> RebuildReport:
    return audit(world.ports, TOPIC, local_engine(world.ports), **options)


def run_merge(world: World) -> None:
    done = merge(world.ports, TOPIC, in_process(world.ports.objects), lease_s=60, everything=True)
    assert done is not None and done.merges == 1


def checkpoint(world: World) -> None:
    assert checkpoint_topic(world.ports, TOPIC)


def damage(world: World, name: str, segment: int | None) -> None:
    """Flips a byte in a segment, or truncates the object."""
    data = bytearray(world.service.objects.get_range(name, 0, 10**9))
    if segment is None:
        data = data[:50]
    else:
        bucket = next(each for each in world.service.buckets.all(TOPIC) if each.object_name == name)
        data[bucket.segments[segment].offset + 60] ^= 0xFF
    world.service.objects.put(name, bytes(data))


# --- the table is lost ----------------------------------------------------------------------------------------


def test_nothing_is_lost_with_the_table() -> None:
    world = a_world("billing", "audit")
    ids = [id for day in range(5) for id in world.send(day * DAY + HOUR, day * DAY + 2 * HOUR, 6 * DAY)]
    world.run(2 * DAY + 30 * MINUTE, sweeps=True)
    world.collect()
    before = world.received()
    state = world.state
    lose_table(world)
    report = run_rebuild(world)
    assert world.state.generation == state.generation and world.state.sealed > state.sealed
    assert report.subscriptions == ("audit", "billing")
    world.run(5 * DAY, sweeps=True)
    assert world.received("billing") == world.received("audit") == once(ids)
    assert before and set(before) < set(ids)
    assert not world.service.objects.names(LEDGERS)


def test_a_message_sent_after_a_rebuild_needs_no_sweep_to_be_in_time() -> None:
    world = a_world(slot_s=60, lookahead_s=780)
    ids = world.send(15 * MINUTE)
    world.run(3 * MINUTE)
    assert world.state.sealed > START_MS // 1000 // 60 + 14
    restored(world)
    # The schedule of the next slot, which nobody has created, would now be due later.
    assert world.service.topic_states.update_settings(world.state, replace(world.state.settings, lookahead_s=150), 0)
    ids += world.send(14 * MINUTE)
    assert world.received_after(15 * MINUTE) == once(ids)


def test_groups_stay_and_the_topic_is_listed_again() -> None:
    world = a_world()
    world.send(HOUR)
    checkpoint(world)
    world.send(HOUR, group="tenant-1")
    lose_table(world)
    run_rebuild(world)
    assert world.service.topic_list.read() == [TOPIC]
    world.run(2 * HOUR, sweeps=True)
    groups = [json.loads(each.header).get("group") for each in world.service.queues.sent()]
    assert sorted(groups, key=str) == [None, "tenant-1"]


def test_only_what_was_delivered_since_the_checkpoint_comes_again() -> None:
    world = a_world(collect_interval_s=10**6)
    first = world.send(HOUR)
    world.run(2 * HOUR, sweeps=True)
    checkpoint(world)
    second = world.send(HOUR)
    world.run(2 * HOUR, sweeps=True)
    third = world.send(HOUR)
    lose_table(world)
    run_rebuild(world)
    assert world.received_after(2 * HOUR, sweeps=True) == once(first + third) + Counter(second * 2)


def test_a_lagging_subscription_gets_its_rows_and_the_others_theirs_once() -> None:
    world = a_world("billing", "audit")
    ids = [id for hour in range(1, 6) for id in world.send(hour * HOUR)]
    subscriptions = stored(world.service).of(TOPIC).subscriptions
    subscriptions["audit"] = replace(subscriptions["audit"], state=State.PAUSED)
    world.run(3 * HOUR + 30 * MINUTE)
    checkpoint(world)
    assert len(world.received("billing")) == 3 and not world.received("audit")
    lose_table(world)
    run_rebuild(world)
    subscriptions = stored(world.service).of(TOPIC).subscriptions
    subscriptions["audit"] = replace(subscriptions["audit"], state=State.ACTIVE)
    world.run(3 * HOUR, sweeps=True)
    assert world.received("billing") == world.received("audit") == once(ids)


def test_a_subscription_of_ten_minutes_ago_outlives_the_table() -> None:
    world = a_world()
    ids = world.send(DAY)
    world.sweep()  # the daily walk writes a checkpoint
    world.subscribe("audit")
    collect_soon(world.service, world.clock, TOPIC)
    world.run(10 * MINUTE, sweeps=True)
    lose_table(world)
    assert run_rebuild(world).subscriptions == ("audit", "billing")
    world.run(2 * DAY, sweeps=True)
    assert world.received("audit") == world.received("billing") == once(ids)


def test_what_was_handed_out_and_not_delivered_comes() -> None:
    world = a_world(inline_rows=1, part_rows=5)
    ids = world.send(*(HOUR + i for i in range(20)))
    late = world.send(5 * HOUR)
    world.dispatch_at(HOUR)
    parts = world.service.queues.take_parts()
    assert len(parts[0][1:]) and world.service.deliveries.all(TOPIC)
    restored(world)
    for key, part in [each for group in [parts] for each in group]:
        world.service.queues.enqueue_parts(key, [part])  # of a delivery that is no more
    assert world.received_after(6 * HOUR, sweeps=True) == once(ids + late)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("kept", [{}, {"retention_days": 120}], ids=["paused", "paused, kept"])
def test_a_cancelled_message_of_a_long_pause_stays_cancelled_after_a_rebuild(kept: dict[str, int], lost: bool) -> None:
    world = a_world(**kept)
    pause(world.service, TOPIC, "billing")
    [waits, cancelled] = world.send(2 * DAY, 2 * DAY)
    assert cancel(world.service, world.state, MessageId(cancelled), START_MS)
    for _ in range(80):
        world.run(DAY, sweeps=True, every_ms=12 * HOUR)
        stored(world.service).expire(world.clock.now_ms() // 1000)
    if lost:
        lose_table(world)
    run_rebuild(world, replace_index=True)
    resume(world.service, world.service.queues, world.clock, TOPIC, "billing")
    assert world.received_after(DAY, sweeps=True) == once([waits])


@pytest.mark.parametrize("lost", [False, True])
def test_after_a_rebuild_a_late_tombstone_of_a_message_that_was_sent_cancels_nothing(lost: bool) -> None:
    world = a_world()
    [sent] = world.send(HOUR)
    world.run(HOUR, sweeps=True)
    late = tombstone(MessageId(sent), world.state.slot_ms, world.clock.now_ms(), certain=False)
    world.service.tombstones.put(TOPIC, late)
    checkpoint(world)
    if lost:
        lose_table(world)
    run_rebuild(world, replace_index=True)
    assert not cancel(world.service, world.state, MessageId(sent), world.clock.now_ms())


def test_a_late_tombstone_does_not_make_every_checkpoint_look_new() -> None:
    world = a_world()
    [sent] = world.send(HOUR)
    world.run(HOUR)
    late = tombstone(MessageId(sent), world.state.slot_ms, world.clock.now_ms(), certain=False)
    world.service.tombstones.put(TOPIC, late)
    checkpoint(world)
    assert not checkpoint_topic(world.ports, TOPIC)


@pytest.mark.parametrize("whole", [False, True])
def test_what_was_purged_stays_purged_also_where_ledgers_are_rewritten(whole: bool) -> None:
    world = a_world()
    ids = world.send(2 * DAY, 4 * DAY)
    if whole:
        purge(world.ports, world.clock, TOPIC)
        world.clock.advance_ms(1000)
        kept = world.send(2 * DAY)
    else:
        purge(world.ports, world.clock, TOPIC, first_ms=START_MS + DAY, end_ms=START_MS + 3 * DAY)
        kept = ids[1:]
    marks = world.state.purges, world.state.purge_ms
    restored(world)
    assert (world.state.purges, world.state.purge_ms) == marks
    assert world.received_after(5 * DAY, sweeps=True) == once(kept)


def test_marks_start_from_the_clock_and_the_least_cursor_and_counters_from_above() -> None:
    world = a_world()
    world.send(2 * DAY)
    checkpoint(world)
    old = world.state
    lose_table(world)
    world.clock.advance_ms(DAY)
    run_rebuild(world)
    now, state = world.clock.now_ms(), world.state
    assert state.sealed == open_from(now, state.settings) > old.sealed
    assert state.planned == state.collected_until == state.next_slot == old.planned
    assert (
        state.next_check_ms == AT_ONCE_MS
        and min(state.work_version, state.swap_version, state.subscriptions_version) == now
    )
    [subscription] = world.service.subscriptions.all(TOPIC)
    assert subscription.cursor == old.planned and subscription.start >= old.planned


# --- without a checkpoint -------------------------------------------------------------------------------------


def test_without_a_checkpoint_settings_are_needed_and_subscriptions_are_made_afterwards() -> None:
    world = a_world(slot_s=60, lookahead_s=150)
    ids = world.send(HOUR, DAY)
    lose_table(world)
    with pytest.raises(InvalidValue, match="no readable checkpoint: give its settings"):
        run_rebuild(world)
    world.clock.advance_ms(2 * HOUR)
    run_rebuild(world, settings=TopicSettings(slot_s=60, lookahead_s=150))
    assert world.state.settings.slot_s == 60 and world.state.next_slot is None
    assert world.service.subscriptions.all(TOPIC) == []

    create_subscription(world.service, world.clock, TOPIC, "billing", "queue-billing", "earliest")
    assert world.received_after(2 * DAY, sweeps=True) == once(ids)


def test_nothing_is_made_from_nothing() -> None:
    world = a_world()
    lose_table(world)
    with pytest.raises(UnknownTopic):
        run_rebuild(world, settings=TopicSettings())
    assert world.service.topic_states.read(TOPIC) is None


# --- merges ---------------------------------------------------------------------------------------------------


def spread(world: World) -> list[str]:
    return [id for _ in range(4) for id in world.send(HOUR, 2 * DAY, 3 * DAY)]


@pytest.mark.parametrize(
    ("collected", "live", "dropped", "joined"),
    [(0, 4, 1, []), (4, 1, 0, []), (2, 1, 0, [3])],
    ids=["sources count while all are there", "then outputs", "half-collected sources are joined with the outputs"],
)
def test_after_a_merge_each_message_counts_once(collected: int, live: int, dropped: int, joined: list[int]) -> None:
    world = a_world()
    ids = spread(world)
    run_merge(world)
    [trash] = world.service.merges.trash(TOPIC)
    world.service.objects.delete(trash.objects[:collected])
    report = restored(world)
    assert (report.live, len(report.dropped)) == (live, dropped)
    assert [len(each) for each in report.overlapping] == joined
    assert world.received_after(4 * DAY, sweeps=True) == once(ids)
    world.clock.advance_ms(ORPHAN_GRACE_S * 1000 + 1)
    sweep_orphans(world.ports)
    assert not world.service.objects.names(LEDGERS)


def test_ledgers_that_share_a_millisecond_are_rebuilt_with_the_first_ids_of_their_segments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merge_planning, "MAX_OUTPUT_ROWS", 20)
    world = a_world(segment_rows=2)
    ids = [id for _ in range(4) for id in world.send(*[DAY] * 12)]
    run_merge(world)
    [trash] = world.service.merges.trash(TOPIC)
    world.service.objects.delete(trash.objects)

    def first_ids() -> list[list[bytes]]:
        return [[each.least_id for each in bucket.segments] for bucket in world.service.buckets.all(TOPIC)]

    before = first_ids()
    assert len(before) == 3 and len(set(chain(*before))) > 20
    assert restored(world).dropped == ()
    assert first_ids() == before
    world.run(2 * DAY, sweeps=True)
    assert world.received() == once(ids)


def test_an_output_stays_if_a_source_is_damaged() -> None:
    world = a_world()
    ids = spread(world)
    [source, *_] = world.service.objects.names(LEDGERS)
    run_merge(world)
    checkpoint(world)
    damage(world, source, None)
    lose_table(world)
    report = run_rebuild(world)
    assert [each.object_name for each in report.damaged] == [source]
    assert world.received_after(4 * DAY, sweeps=True) == once(ids)


# --- damage and overlaps --------------------------------------------------------------------------------------


def test_a_ledger_that_is_not_readable_is_moved_aside_and_stops_nothing() -> None:
    world = a_world()
    world.send(DAY)
    kept = world.send(2 * DAY)
    checkpoint(world)
    damaged = world.service.objects.names(LEDGERS)[0]
    damage(world, damaged, None)
    lose_table(world)
    report = run_rebuild(world)
    assert [(each.object_name, each.lost_rows) for each in report.damaged] == [(damaged, None)]
    assert world.service.objects.names(ASIDE) == [ASIDE + damaged]
    assert world.received_after(3 * DAY, sweeps=True) == once(kept)


@pytest.mark.parametrize("segment", [0, 1, 3])
def test_the_readable_segments_of_a_damaged_ledger_are_rewritten(segment: int) -> None:
    world = a_world(segment_rows=5)
    ids = world.send(*(DAY + i * HOUR for i in range(20)))
    checkpoint(world)
    [damaged] = world.service.objects.names(LEDGERS)
    damage(world, damaged, segment)
    lose_table(world)
    report = run_rebuild(world)
    assert [each.lost_rows for each in report.damaged] == [5] and report.rows == 15
    assert world.service.objects.names(ASIDE) == [ASIDE + damaged]
    assert world.received_after(3 * DAY, sweeps=True) == once(ids[: 5 * segment] + ids[5 * segment + 5 :])


def test_the_ledger_of_a_crashed_ingest_whose_packs_came_again_otherwise_doubles_nothing() -> None:
    world = a_world()
    one, two, three = (world.pack(DAY + i * HOUR, 2 * DAY) for i in range(3))
    for at in range(1, 20):
        world.ports.plan.schedule(at, "after")
        with pytest.raises(Crash):
            world.ingest(one, two)
        world.ports.plan.disarm()
        if world.service.objects.names(LEDGERS):
            break
    assert not world.service.buckets.all(TOPIC)
    world.ingest(one)
    world.ingest(two, three)
    report = restored(world)
    assert [len(each) for each in report.overlapping] == [3] and report.live == 1
    assert world.received_after(3 * DAY, sweeps=True) == once(ids_of(one) + ids_of(two) + ids_of(three))


def test_the_same_bucket_twice_counts_once() -> None:
    world = a_world()
    ids = world.send(DAY)
    [name] = world.service.objects.names(LEDGERS)
    again = ledger_name(TOPIC, str(ledger_bucket_id(name)), world.state.slot_ms, "f00d")
    world.service.objects.put(again, world.service.objects.get_range(name, 0, 10**6))
    report = restored(world)
    assert (report.live, len(report.dropped)) == (1, 1)
    assert world.received_after(2 * DAY, sweeps=True) == once(ids)


def test_ledgers_of_another_generation_are_left_alone() -> None:
    world = a_world()
    ids = world.send(DAY)
    checkpoint(world)
    lose_table(world)
    other = a_world()
    stored(other.service).of(TOPIC).state = replace(other.state, generation="another")
    other.send(DAY)
    [name] = other.service.objects.names(LEDGERS)
    foreign = name.replace("00000001", "f00d")
    world.service.objects.put(foreign, other.service.objects.get_range(name, 0, 10**6))
    assert run_rebuild(world).foreign == (foreign,)
    assert world.received_after(2 * DAY, sweeps=True) == once(ids)


# --- repeated, and in the way of others -----------------------------------------------------------------------


@DEATHS
def test_a_rebuild_that_dies_anywhere_is_done_by_the_next(every: int) -> None:
    for death in deaths(every, least=20):
        world = a_world("billing", "audit", segment_rows=5)
        ids = world.send(*(DAY + i * HOUR for i in range(20)))
        ids += spread(world)
        run_merge(world)
        checkpoint(world)
        [trash] = world.service.merges.trash(TOPIC)
        world.service.objects.delete(trash.objects[:1])
        lose_table(world)
        with death.of(world):
            run_rebuild(world)
        if world.service.topic_states.read(TOPIC) is None:
            world.clock.advance_ms(LEASE_S * 1000)
            run_rebuild(world)
        world.run_on(5 * DAY)
        assert world.received("billing") == world.received("audit") == once(ids), death


@DEATHS
def test_a_replacement_that_dies_anywhere_is_done_by_the_next(every: int) -> None:
    for death in deaths(every, least=20):
        world = a_world(inline_rows=1, part_rows=5)
        ids = world.send(*(HOUR + i for i in range(10)), *(DAY + i * HOUR for i in range(10)))
        world.dispatch_at(HOUR)
        world.service.queues.take_parts()
        with death.of(world):
            run_rebuild(world, replace_index=True)
        if death.died:
            world.clock.advance_ms(LEASE_S * 1000)
            run_rebuild(world, replace_index=True)
        world.run_on(3 * DAY)
        assert world.received() == once(ids), death


def test_an_index_that_is_there_is_kept_unless_it_is_to_be_replaced() -> None:
    world = a_world()
    ids = world.send(DAY, 2 * DAY)
    lose_some = world.service.buckets.all(TOPIC)[0]
    world.service.buckets.delete(TOPIC, lose_some.id)
    with pytest.raises(InvalidValue, match="has an index"):
        run_rebuild(world)
    for _ in range(2):
        world.clock.advance_ms(1000)
        run_rebuild(world, replace_index=True)
        assert [each.object_name for each in world.service.buckets.all(TOPIC)] == [lose_some.object_name]
    assert world.received_after(3 * DAY, sweeps=True) == once(ids)


def test_a_subscription_that_only_the_table_has_survives() -> None:
    world = a_world("billing", inline_rows=1)
    checkpoint(world)
    world.subscribe("audit")
    ids = world.send(HOUR, DAY)
    world.dispatch_at(HOUR)
    world.service.queues.take_parts()
    world.service.topic_states.delete(TOPIC)
    run_rebuild(world)
    world.run(2 * DAY, sweeps=True)
    assert world.received("audit") == once(ids)


def test_a_rebuild_waits_for_a_merge_that_is_under_way() -> None:
    world = a_world()
    world.send(DAY)
    assert world.service.merges.lease(TOPIC, START_MS, START_MS + 1000)
    with pytest.raises(ConcurrentModification):
        run_rebuild(world, replace_index=True)
    assert world.state is not None


# --- dry runs -------------------------------------------------------------------------------------------------


def merge_during_a_rebuild(world: World) -> Merged:
    """Merges all ledgers. When the first outputs are written, the table is lost and the topic rebuilt."""
    service, engine = world.service, in_process(world.service.objects)
    lost: list[bool] = []

    def write_all(works: Sequence[MergeWork]) -> Iterator[tuple[int, Written]]:
        written = list(engine.write_all(works))
        if not lost:
            lose_table(world)
            rebuild(service, TOPIC, local_engine(service), lease_s=LEASE_S)
            lost.append(True)
        yield from written

    slow: Any = SimpleNamespace(write_all=write_all)
    return merge_topics(service, [TOPIC], slow, lease_s=60, everything=True)[TOPIC]


@pytest.mark.parametrize("delivered", [False, True])
def test_a_merge_that_outlives_a_rebuild_leaves_out_nothing_that_is_due_again(delivered: bool) -> None:
    world = a_world(inline_rows=1, part_rows=1, collect_interval_s=10**6)
    ids = world.send(HOUR, 3 * DAY) + world.send(HOUR, 3 * DAY)
    checkpoint(world)
    if delivered:
        world.run(2 * HOUR)
    else:
        world.clock.advance_ms(HOUR - 6 * MINUTE)
        dispatch(world.service, TOPIC)
        assert world.service.queues.take_jobs()  # they are lost with the table
    done = merge_during_a_rebuild(world)
    assert done.refused == 1
    world.run(4 * DAY, sweeps=True)
    due_again = [id for id in ids if id_deliver_at_ms(id_bytes(MessageId(id))) < START_MS + DAY]
    assert world.received() == Counter([*ids, *(due_again if delivered else [])])


def test_a_merge_that_outlives_a_rebuild_whose_marks_did_not_go_back_is_swapped() -> None:
    world = a_world(collect_interval_s=10**6)
    ids = world.send(HOUR, 3 * DAY) + world.send(2 * HOUR, 3 * DAY)
    checkpoint(world)
    done = merge_during_a_rebuild(world)
    assert (done.merges, done.refused) == (1, 0)
    assert world.received_after(4 * DAY, sweeps=True) == once(ids)


def test_a_dry_run_of_a_healthy_topic_finds_nothing_and_changes_nothing() -> None:
    world = a_world()
    spread(world)
    run_merge(world)
    names, state = world.service.objects.names(), world.state
    report = run_audit(world)
    assert report.agrees and not report.orphaned and (report.live, report.rows) == (1, 12)
    assert (world.service.objects.names(), world.state) == (names, state)
    assert list(report.lines())[-1] == "table and objects agree"


def test_a_dry_run_finds_each_kind_of_disagreement() -> None:
    world = a_world(segment_rows=5)
    for _ in range(4):
        world.send(*(DAY + i * HOUR for i in range(20)))
    buckets = world.service.buckets.all(TOPIC)
    missing, wrong, half, twice = (bucket.object_name for bucket in buckets)
    damage(world, half, 1)
    world.service.objects.delete([missing])
    items = stored(world.service).of(TOPIC).buckets
    items[buckets[1].id] = replace(buckets[1], rows=7)
    copied = bucket_id(buckets[3].first_slot, "copied")
    copy = ledger_name(TOPIC, copied, world.state.slot_ms, "f00d")
    world.service.objects.put(copy, world.service.objects.get_range(twice, 0, 10**6))
    items[copied] = replace(buckets[3], id=copied, object_name=copy)
    orphan = ledger_name(TOPIC, bucket_id(1, "orphan"), world.state.slot_ms, "f00d")
    world.service.objects.put(orphan, b"of no use")
    world.clock.advance_ms(ORPHAN_GRACE_S * 1000 + 1)
    report = run_audit(world)
    assert report.missing == (missing,)
    assert [name for name, _ in report.differing] == [wrong]
    assert {each.object_name: each.lost_rows for each in report.damaged} == {half: 5, orphan: None}
    assert [set(each) for each in report.overlapping] == [{twice, copy}]
    assert (report.orphaned, report.old_orphans) == ((orphan,), 1)
    text = "\n".join(report.lines())
    for found in (missing, wrong, half, twice, orphan, "5 messages lost", "over a day old", "disagree"):
        assert found in text
    assert not find_checkpoints(world.service.objects, TOPIC).names


def test_a_dry_run_without_an_index_says_what_a_rebuild_has() -> None:
    world = a_world()
    spread(world)
    run_merge(world)
    with_settings = run_audit(world)
    assert with_settings.checkpoint_ms is None
    checkpoint(world)
    lose_table(world)
    report = run_audit(world)
    assert (report.live, report.rows, len(report.dropped)) == (4, 12, 1)
    assert report.subscriptions == ("billing",) and report.checkpoint_ms == START_MS
    assert not report.agrees and [*report.lines()][-2:] == [
        "not in the table: the topic, with all its items: rebuild it",
        "table and objects disagree",
    ]
    assert world.service.topic_states.read(TOPIC) is None
    lose_table(world)
    world.service.objects.delete(world.service.objects.names("checkpoints/"))
    with pytest.raises(InvalidValue, match="no index and no checkpoint"):
        run_audit(world)
    assert run_audit(world, settings=TopicSettings()).live == 4


def test_a_dry_run_names_each_item_that_the_table_has_lost() -> None:
    world = a_world("billing", "audit")
    first, _ = world.send(DAY, DAY + HOUR), world.send(2 * DAY)
    make_recurring(world, "report", cron="0 9 * * *")
    assert cancel(world.service, world.state, MessageId(first[0]), START_MS)
    checkpoint(world)
    world.clock.advance_ms(10 * MINUTE)
    assert run_audit(world).agrees
    items = stored(world.service).of(TOPIC)
    lost = next(each for each in items.buckets.values() if each.rows == 2)
    del items.buckets[lost.id]
    del items.subscriptions["audit"]
    items.recurring.clear()
    items.tombstones.clear()
    found = [line for line in run_audit(world).lines() if line.startswith("not in the table: ")]
    assert [line.removeprefix("not in the table: ").partition(";")[0] for line in found] == [
        f"ledger {lost.object_name}, with 2 messages that no other ledger has",
        "subscription audit of the checkpoint",
        "recurring message report of the checkpoint",
        "1 cancelled messages of the checkpoint, which would come",
    ]


def test_a_ledger_that_a_crash_left_is_not_called_lost() -> None:
    world = a_world()
    world.send(DAY)
    [bucket] = world.service.buckets.all(TOPIC)
    data = world.service.objects.get_range(bucket.object_name, 0, 10**6)
    world.service.objects.put(ledger_name(TOPIC, bucket_id(1, "again"), world.state.slot_ms, "f00d"), data)
    world.clock.advance_ms(10 * MINUTE)
    report = run_audit(world)
    assert report.agrees and len(report.orphaned) == 1


# --- found in review ------------------------------------------------------------------------------------------


def irregular(count: int) -> list[int]:
    """Returns irregular delays, for a large segment table."""
    random_ = random.Random(1)
    return [2 * HOUR + random_.randrange(DAY // 2) for _ in range(count)]


def test_a_ledger_with_a_tail_is_whole_and_its_messages_come() -> None:
    world = a_world("billing", segment_rows=1)
    ids = world.send(*irregular(300))
    [bucket] = world.service.buckets.all(TOPIC)
    assert bucket.tail is not None
    checkpoint(world)
    assert run_audit(world).agrees
    lose_table(world)
    assert not run_rebuild(world).damaged
    assert world.received_after(DAY, sweeps=True) == once(ids)


def test_a_ledger_whose_tail_is_damaged_is_rewritten() -> None:
    world = a_world("billing", segment_rows=1)
    ids = world.send(*irregular(300))
    [bucket] = world.service.buckets.all(TOPIC)
    assert bucket.tail is not None
    data = bytearray(world.service.objects.get_range(bucket.object_name, 0, 10**9))
    data[bucket.tail.offset + 20] ^= 0xFF
    world.service.objects.put(bucket.object_name, bytes(data))
    checkpoint(world)
    report = run_rebuild(world, replace_index=True)
    assert [each.lost_rows for each in report.damaged] == [0]
    assert world.received_after(DAY, sweeps=True) == once(ids)


def test_a_replacement_waits_for_a_collection_that_is_under_way() -> None:
    world = a_world("billing")
    ids = [id for _ in range(4) for id in world.send(2 * HOUR, 5 * DAY)]
    run_merge(world)
    world.run(DAY)
    deleting: list[Any] = []
    delete = world.service.objects.delete
    # A collection has read the trash and is about to delete what a merge replaced.
    world.service.objects.delete = lambda names: deleting.append(list(names))  # type: ignore[method-assign]
    world.collect()
    world.service.objects.delete = delete  # type: ignore[method-assign]
    assert deleting
    run_rebuild(world, replace_index=True, settle=lambda: [delete(names) for names in deleting])
    world.run(6 * DAY, sweeps=True)
    assert set(world.received()) == set(ids)


# --- parks ----------------------------------------------------------------------------------------------------


def parked_direct_messages(world: World) -> list[str]:
    """Leaves parks of a paused and a broken subscription."""
    pause(world.service, TOPIC, "billing")
    world.service.queues.remove("queue-audit")
    return world.send(MINUTE)


def test_a_rebuild_keeps_what_is_parked_and_it_arrives_when_it_may() -> None:
    world = a_world("billing", "audit", "other")
    direct = parked_direct_messages(world)
    later = world.send(DAY)
    before = {each.name: each for each in world.service.subscriptions.all(TOPIC)}
    run_rebuild(world, replace_index=True)
    after = {each.name: each for each in world.service.subscriptions.all(TOPIC)}
    assert {name: each.state for name, each in after.items()} == {name: each.state for name, each in before.items()}
    assert {name: each.generation for name, each in after.items()} == {
        name: each.generation for name, each in before.items()
    }
    world.service.queues.restore("queue-audit")
    world.run(HOUR, sweeps=True)
    assert world.received("audit") == once(direct) and not world.received("billing")
    resume(world.service, world.service.queues, world.clock, TOPIC, "billing")
    world.run(2 * DAY, sweeps=True)
    for name in ("billing", "audit", "other"):
        assert world.received(name) == once(direct + later)


def test_a_rebuild_keeps_quarantined_messages_and_sends_no_other_again() -> None:
    world = a_world("billing")
    [lost] = world.send(2 * HOUR)
    [name] = world.service.objects.names("ledgers/")
    [kept] = world.send(2 * HOUR)
    whole = world.service.objects.get_range(name, 0, 1 << 30)
    world.service.objects.delete([name])
    world.run(8 * HOUR, sweeps=True)
    [delivery] = world.service.deliveries.all(TOPIC)
    assert delivery.quarantined
    world.send(DAY)
    world.collect()
    run_rebuild(world, replace_index=True)
    world.service.objects.put(name, whole)
    world.run(2 * DAY, sweeps=True)
    assert world.received()[kept] == 1 and world.received()[lost] == 1


def test_no_sweep_takes_a_park_for_nobody_s_while_the_topic_is_rebuilt() -> None:
    world = a_world("billing", "audit")
    parked_direct_messages(world)
    world.clock.advance_ms(HOUR)
    run_rebuild(world, replace_index=True, settle=lambda: assert_parks(world, 2))
    assert_parks(world, 2)


def assert_parks(world: World, count: int) -> None:
    subscriptions = stored(world.service).of(TOPIC).subscriptions
    kept = dict(subscriptions)
    subscriptions.clear()
    if world.service.topic_states.read(TOPIC) is None:
        world.sweep()
    subscriptions.update(kept)
    assert len(world.service.parks.all(TOPIC)) == count


def test_a_reschedule_while_the_topic_is_rebuilt_does_not_say_that_it_is_too_late() -> None:
    world = a_world()
    [old] = world.send(DAY)
    state = world.state

    def send_checked(messages: list[OutgoingMessage]) -> list[Receipt]:
        world.service.topic_states.delete(TOPIC)  # ingest moves the message when the topic is back
        return [Receipt(id=id_text(messages[0].id), topic=TOPIC, deliver_at_ms=messages[0].deliver_at_ms)]

    connection: Any = SimpleNamespace(
        storage=world.service, objects=world.service.objects, settings=SimpleNamespace(s3_bucket="bucket")
    )
    core = SimpleNamespace(connection=connection, clock=world.clock, ids=world.ids)
    sender: Any = SimpleNamespace(core=core, state=state, send_checked=send_checked)
    with pytest.raises(UnknownTopic):
        reschedule(sender, START_MS + 2 * DAY, old)


def test_a_job_from_before_a_rebuild_whose_new_plan_has_fewer_parts_ends_well() -> None:
    world = a_world(inline_rows=1, part_rows=5)
    ids = world.send(*(HOUR + i for i in range(20)))
    world.dispatch_at(HOUR)
    [delivery] = world.service.deliveries.all(TOPIC)
    assert do_task(world.ports, PartTask(key=delivery.key, part=delivery.parts)) is None
    assert world.received_after(HOUR, sweeps=True) == once(ids)
