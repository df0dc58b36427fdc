"""Only unreferenced objects are deleted, after their grace period."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.flows.alone import local_engine, sweep_orphans
from tests.flows.world import DAY, HOUR, MINUTE, TOPIC, Crash, CrashingPorts, World, deaths, once
from tests.stored import stored
from tidewheel.errors import ObjectRefused
from tidewheel.flows.maintenance import orphans
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic, find_checkpoints
from tidewheel.flows.maintenance.orphans import ORPHAN_GRACE_S, sweep_orphans_daily
from tidewheel.flows.recovery.audit import audit
from tidewheel.ledger.bucket import Bucket, bucket_id
from tidewheel.model.object_names import CHECKPOINTS, LEDGERS, checkpoint_name, import_name, ledger_name, staged_name
from tidewheel.storage.buckets import Buckets

GRACE = ORPHAN_GRACE_S * 1000


def a_world(*subscriptions: str) -> World:
    """Returns a world with the objects' times from the world's clock."""
    world = World(*subscriptions, wrap=CrashingPorts)
    world.service.objects._now_ms = world.clock.now_ms
    return world


def crashed_ingest(world: World) -> None:
    """Leaves an object by a crash between the PUT and the commit."""
    pack = world.pack(60 * DAY)
    before = set(world.service.objects.names(LEDGERS))
    for at in range(1, 20):
        world.ports.plan.schedule(at, "after")
        with pytest.raises(Crash):
            world.ingest(pack)
        world.ports.plan.disarm()
        if set(world.service.objects.names(LEDGERS)) != before:
            return
    raise AssertionError("no object was put")


def test_while_an_import_is_unfinished_the_ledgers_of_its_topic_stay() -> None:
    world = a_world()
    crashed_ingest(world)
    name = f"july.{world.state.generation}"
    world.service.objects.put(staged_name(TOPIC, name), b"")
    world.clock.advance_ms(GRACE + 1)
    assert sweep_orphans(world.ports).objects == 0
    world.service.objects.put(import_name(TOPIC, name), b"")
    world.clock.advance_ms(DAY)
    assert sweep_orphans(world.ports).objects == 1, "the import is finished"


@pytest.mark.parametrize(("days", "is_of_topic"), [(90, True), (2, False)])
def test_an_unfinished_import_that_no_run_can_finish_keeps_no_ledgers(days: int, *, is_of_topic: bool) -> None:
    world = a_world()
    crashed_ingest(world)
    generation = world.state.generation if is_of_topic else "of-a-deleted-topic"
    world.service.objects.put(staged_name(TOPIC, f"july.{generation}"), b"")
    world.clock.advance_ms(days * DAY)
    assert sweep_orphans(world.ports).objects == 1


def test_the_grace_is_a_day() -> None:
    world = a_world()
    crashed_ingest(world)
    engine = local_engine(world.service)
    found = []
    for later_ms in (DAY, 1):
        world.clock.advance_ms(later_ms)
        found.append((audit(world.service, TOPIC, engine).old_orphans, sweep_orphans(world.ports).objects))
    assert found == [(0, 0), (1, 1)]


def test_manifests_that_no_plan_names_go() -> None:
    world = a_world()
    world.service.objects.put("plans/orders/17-f00d.json.z", b"a manifest")
    world.clock.advance_ms(GRACE + 1)
    assert sweep_orphans(world.ports).objects == 1
    assert not world.service.objects.names("plans/")


def test_a_topic_that_is_no_more_leaves_nothing() -> None:
    world = a_world()
    for name in ("gone", "gone-2", "orders-1"):
        world.service.objects.put(f"ledgers/{name}/2026-01-01/1-b-1.parquet", b"x")
    world.clock.advance_ms(GRACE)
    world.service.objects.put("ledgers/gone/2026-01-01/2-b-1.parquet", b"young")
    world.clock.advance_ms(1)
    assert sweep_orphans(world.ports).objects == 3
    assert world.service.objects.names(LEDGERS) == ["ledgers/gone/2026-01-01/2-b-1.parquet"]


def test_a_topic_that_is_rebuilt_meanwhile_is_left_alone() -> None:
    world = a_world()
    world.send(60 * DAY)
    world.clock.advance_ms(GRACE + 1)

    def checkpoints() -> list[str]:
        return world.service.objects.names(CHECKPOINTS)

    class Rebuilding(Buckets):
        def in_order(self, topic: str, unreadable: Any = None, **slots: Any) -> Iterator[Bucket]:
            items = stored(world.service).of(topic)
            assert items.state is not None
            if checkpoints():  # the checkpoint is written before the rebuild begins
                items.state = replace(items.state, subscriptions_version=77)
            return iter(())

    world.service.buckets.__class__ = Rebuilding
    swept = sweep_orphans(world.service)
    assert (swept.objects, swept.left) == (0, {TOPIC})


def test_a_sweep_that_dies_anywhere_is_finished_by_the_next() -> None:
    for death in deaths():
        world = a_world()
        ids = world.send(60 * DAY)
        crashed_ingest(world)
        world.clock.advance_ms(GRACE + 1)
        with death.of(world):
            sweep_orphans(world.ports)
        sweep_orphans(world.ports)
        [bucket] = world.service.buckets.all(TOPIC)
        assert world.service.objects.names(LEDGERS) == [bucket.object_name]
        assert world.received_after(61 * DAY) == once(ids)


# --- checkpoints ----------------------------------------------------------------------------------------------


def test_a_collection_writes_a_checkpoint_before_it_deletes_and_only_if_something_changed() -> None:
    world = a_world()
    world.send(HOUR)
    world.run(2 * HOUR, sweeps=True)
    world.collect()
    world.collect()  # the first one has moved collected_until
    names = find_checkpoints(world.service.objects, TOPIC).names
    assert names
    world.clock.advance_ms(MINUTE)
    world.collect()
    assert find_checkpoints(world.service.objects, TOPIC).names == names
    found = find_checkpoints(world.service.objects, TOPIC).newest
    assert found is not None and found.planned == world.state.planned


def test_the_last_three_checkpoints_are_kept() -> None:
    world = a_world()
    world.clock.advance_ms(HOUR)
    for number in range(5):
        world.subscribe(f"s{number}")
        assert checkpoint_topic(world.ports, TOPIC)
        world.clock.advance_ms(1)
    found = find_checkpoints(world.service.objects, TOPIC)
    assert len(found.names) == 3 and found.newest is not None
    assert [each.name for each in found.newest.subscriptions] == ["billing", *(f"s{i}" for i in range(5))]


def test_an_unreadable_checkpoint_is_passed_over_and_replaced() -> None:
    world = a_world()
    assert checkpoint_topic(world.ports, TOPIC)
    world.clock.advance_ms(1)
    bad = checkpoint_name(TOPIC, world.clock.now_ms(), "f00d")
    world.service.objects.put(bad, b"damaged")
    found = find_checkpoints(world.service.objects, TOPIC)
    assert found.unreadable == (bad,) and found.newest is not None
    world.clock.advance_ms(1)
    assert checkpoint_topic(world.ports, TOPIC)
    assert not find_checkpoints(world.service.objects, TOPIC).unreadable


def test_a_checkpoint_that_s3_refuses_holds_no_collection_and_stays_for_a_rebuild(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = a_world()
    assert checkpoint_topic(world.ports, TOPIC)
    [refused] = find_checkpoints(world.service.objects, TOPIC).names
    read = world.service.objects.get_range

    def get_range(name: str, offset: int, length: int) -> bytes:
        if name == refused:
            raise ObjectRefused(name, "AccessDenied")
        return read(name, offset, length)

    monkeypatch.setattr(world.service.objects, "get_range", get_range)
    with pytest.raises(ObjectRefused):
        find_checkpoints(world.service.objects, TOPIC)
    world.send(HOUR)
    world.run(2 * HOUR, sweeps=True)
    world.collect()
    assert world.service.buckets.all(TOPIC) == []
    names = find_checkpoints(world.service.objects, TOPIC).names
    assert refused in names and 1 < len(names) <= 3


def test_a_daily_sweep_goes_on_within_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "MOST_NAMES", 3)
    world = a_world()
    for day in range(40, 48):
        world.send(day * DAY)
    last = ledger_name(TOPIC, bucket_id(5_999_999, "b"), world.state.slot_ms, "f00d")
    world.service.objects.put(last, b"of no use")
    world.clock.advance_ms(GRACE + 1)
    portions = 0
    while last in world.service.objects.names(LEDGERS):
        assert sweep_orphans_daily(world.service, world.clock.now_ms()) is not None  # its time ends at once
        portions += 1
        assert portions <= 4
    assert portions == 3
