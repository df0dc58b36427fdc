"""What cannot be read stops its own messages. A retry reads these alone, and collection keeps what they need."""

from __future__ import annotations

import pytest

from tests.flows.alone import sweep_orphans
from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, World, failing_reads, once
from tidewheel.errors import ObjectMissing, ObjectRefused
from tidewheel.flows.administration.pause import pause, resume
from tidewheel.flows.delivery.deliver import deliver_part
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.unread import unread_of
from tidewheel.flows.maintenance.due_checks import SweepResult, check_delivery
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.flows.waiting.find import find_message
from tidewheel.model.plan import Piece, PlannedSegment, Segment
from tidewheel.model.subscription_state import Delivery


def hidden(world: World, name: str) -> bytes:
    """Deletes an object. Returns its bytes."""
    whole = world.service.objects.get_range(name, 0, 1 << 30)
    world.service.objects.delete([name])
    return whole


def delivery(world: World) -> Delivery:
    [found] = world.service.deliveries.all(TOPIC)
    return found


def dispatched(world: World) -> None:
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    dispatch(world.ports, TOPIC)


def test_unread_pieces_are_tried_again_after_5_10_20_and_40_minutes_and_then_every_hour() -> None:
    world = World(inline_rows=1)
    world.send(HOUR, HOUR + 1)
    hidden(world, *world.service.objects.names("ledgers/"))
    dispatched(world)
    world.work()
    world.clock.set_ms(delivery(world).next_check_ms)
    waits = []
    for _ in range(6):
        world.sweep()
        world.work()
        waits.append(delivery(world).next_check_ms - world.clock.now_ms())
        world.clock.advance_ms(waits[-1])
    assert waits == [each * MINUTE for each in (5, 10, 20, 40, 60, 60)]


def test_checks_of_a_delivery_with_parts_that_wait_for_workers_count_as_no_tries() -> None:
    world = World(inline_rows=1, part_rows=1)
    world.send(HOUR, HOUR + 1)
    hidden(world, *world.service.objects.names("ledgers/"))
    dispatched(world)
    (key, part), _ = world.service.queues.take_parts()
    deliver_part(world.ports, key, part)
    assert delivery(world).lost
    for _ in range(4):
        world.clock.set_ms(delivery(world).next_check_ms)
        check_delivery(world.ports, key, SweepResult())
    assert delivery(world).tries == 0


@pytest.mark.parametrize("refused", ["first", "again"])
def test_rows_that_a_queue_does_not_take_are_parked_while_others_cannot_be_read(refused: str) -> None:
    world = World(inline_rows=1)
    lost = world.send(HOUR)
    [name] = world.service.objects.names("ledgers/")
    good = world.send(HOUR)
    whole = hidden(world, name)
    if refused == "first":
        world.service.queues.remove("queue-billing")
    world.run(HOUR)
    world.service.queues.restore("queue-billing")
    world.service.objects.put(name, whole)
    if refused == "again":
        world.service.queues.remove("queue-billing")
        world.run(HOUR, sweeps=True)
        world.service.queues.restore("queue-billing")
    world.run(3 * HOUR, sweeps=True)
    assert world.received() == once(lost + good)
    assert world.service.deliveries.all(TOPIC) == [] == world.service.parks.all(TOPIC)


def test_quarantine_keeps_what_it_names_and_nothing_else_until_it_is_given_up() -> None:
    world = World(inline_rows=1)
    world.send(HOUR)
    [name] = world.service.objects.names("ledgers/")
    good = world.send(HOUR, DAY)
    with failing_reads(world, {name: ObjectRefused(name, "AccessDenied")}):
        world.run(3 * DAY, sweeps=True)
        sweep_orphans(world.service)
        found = delivery(world)
        assert found.quarantined
        assert world.service.buckets.all(TOPIC) == []
        assert world.service.objects.names("ledgers/") == [name]
        assert [a for a, _ in world.service.plans.ranges(TOPIC)] == [found.key.plan]
    assert world.received() == once(good)
    world.service.deliveries.delete([found.key])  # as `give_up` does
    world.send(HOUR)
    world.run(DAY, sweeps=True)
    sweep_orphans(world.service)
    assert world.service.objects.names("ledgers/") == []
    assert world.service.plans.ranges(TOPIC) == []


def test_more_objects_than_an_item_can_name_hold_collections_and_send_no_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidewheel.flows.delivery.unread._MOST_NAMES", 7)
    world = World(inline_rows=1, part_rows=4)
    ids = [id for _ in range(16) for id in world.send(HOUR)]
    names = world.service.objects.names("ledgers/")
    wholes = {name: hidden(world, name) for name in names[2:]}
    world.run(5 * HOUR, sweeps=True)
    found = delivery(world)
    assert found.parts == 4 and found.damaged and not found.quarantined and len(found.unread_objects) == 4
    assert sorted(world.received().values()) == [1, 1]
    assert sum(len(each.objects) for each in world.service.merges.trash(TOPIC)) == 16
    for name, whole in wholes.items():
        world.service.objects.put(name, whole)
    world.run(2 * HOUR, sweeps=True)
    assert world.received() == once(ids)


def test_the_notes_of_all_parts_fit_into_the_item() -> None:
    world = World(inline_rows=1)
    world.send(HOUR, HOUR + 1)
    dispatched(world)
    found, parts = delivery(world), 256
    names = [f"ledgers/{'t' * 48}/2026-01-01/000005890755-{'0' * 16}-{number:016x}.parquet" for number in range(100)]
    segment = Segment(offset=0, length=1, rows=1, raw_bytes=1, first_deliver_at_ms=0, last_deliver_at_ms=0)
    lost = {
        number: Piece(planned=PlannedSegment(object_name=name, segment=segment, due_rows=1), first_row=0, end_row=1)
        for number, name in enumerate(names)
    }
    errors = dict.fromkeys(lost.values(), TimeoutError())
    notes = {part: unread_of(lost, len(lost) if part % 2 else 101, errors, parts) for part in range(parts)}
    assert world.service.deliveries.note_unread(found, notes, "gone", 1)


def test_a_message_of_a_collected_ledger_is_not_called_missing_while_another_ledger_of_its_plan_is() -> None:
    world = World(inline_rows=1)
    [first] = world.send(HOUR)
    [kept] = world.service.objects.names("ledgers/")
    [gone] = world.send(HOUR + 1)
    [lost] = {*world.service.objects.names("ledgers/")} - {kept}
    hidden(world, lost)
    world.run(8 * HOUR, sweeps=True)
    world.collect()
    assert kept not in world.service.objects.names("ledgers/")
    assert find_message(world.service, world.state, first) is None
    with pytest.raises(ObjectMissing, match=lost):
        find_message(world.service, world.state, gone)


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("inline_manifest", [False, True])
def test_a_plan_whose_object_is_gone_or_damaged_is_planned_again_and_nothing_of_it_is_lost(
    merged: bool, inline_manifest: bool, damaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidewheel.storage.plans.MAX_INLINE_MANIFEST_BYTES", 10)
    world = World("billing", "mail", inline_rows=1, part_rows=2)
    pause(world.service, TOPIC, "mail")
    ids = [id for each in range(3) for id in world.send(*(HOUR + 10 * i + each for i in range(5)), 9 * HOUR)]
    dispatched(world)
    (key, part), *others = world.service.queues.take_parts()
    deliver_part(world.ports, key, part)
    if merged:
        merge(world.ports, TOPIC, in_process(world.service.objects), everything=True, lease_s=60)
    [name] = world.service.objects.names("plans/")
    if damaged:
        world.service.objects.put(name, b"nonsense")
    else:
        hidden(world, name)
    if inline_manifest:
        monkeypatch.setattr("tidewheel.storage.plans.MAX_INLINE_MANIFEST_BYTES", 300_000)
    for key, part in others:
        deliver_part(world.ports, key, part)
    resume(world.service, world.service.queues, world.clock, TOPIC, "mail")
    world.run(10 * HOUR, sweeps=True)
    assert set(world.received()) == set(ids)
    assert max(world.received().values()) <= 2, "those of the part that was done come as copies"
    assert set(world.received("mail")) == set(ids)
    assert world.service.deliveries.all(TOPIC) == []


def test_a_plan_whose_object_is_refused_fails_no_job_and_comes_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewheel.storage.plans.MAX_INLINE_MANIFEST_BYTES", 10)
    world = World(inline_rows=1)
    ids = world.send(HOUR, HOUR + 1)
    dispatched(world)
    [name] = world.service.objects.names("plans/")
    with failing_reads(world, {name: ObjectRefused(name, "AccessDenied")}):
        world.run(5 * HOUR, sweeps=True)
        assert delivery(world).damaged and not delivery(world).quarantined
    assert world.service.merges.trash(TOPIC)
    world.run(2 * HOUR, sweeps=True)
    assert world.received() == once(ids)


def test_an_old_plan_whose_object_is_gone_waits_and_delays_no_later_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewheel.storage.plans.MAX_INLINE_MANIFEST_BYTES", 10)
    world = World()
    pause(world.service, TOPIC, "billing")
    ids = world.send(HOUR)
    world.run(40 * DAY)
    [name] = world.service.objects.names("plans/")
    whole = hidden(world, name)
    later = world.send(HOUR)
    resume(world.service, world.service.queues, world.clock, TOPIC, "billing")
    world.run(DAY, sweeps=True)
    assert world.received() == once(later)
    assert delivery(world).damaged and delivery(world).unread_objects == {name}
    world.service.objects.put(name, whole)
    world.run(2 * HOUR, sweeps=True)
    assert world.received() == once(ids + later)
