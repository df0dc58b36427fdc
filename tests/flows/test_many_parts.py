"""A delivery of many parts has its marks in several items, which come and go together, and hold up no worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from tests.flows.world import HOUR, MINUTE, START_MS, TOPIC, Crash, World, deaths, once
from tidewheel import Message
from tidewheel.errors import ObjectMissing
from tidewheel.flows.administration.delete_topic import LATE_MS, delete_topic
from tidewheel.flows.administration.pause import delete_subscription
from tidewheel.flows.administration.replay import replay
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.work import do_task
from tidewheel.flows.maintenance.sweep import sweep
from tidewheel.local import MemoryTidewheel
from tidewheel.model import marks
from tidewheel.model.plan import Plan, PlannedSegment, Segment, part_rows_of
from tidewheel.storage import plans
from tidewheel.storage.deliveries import Replay
from tidewheel.storage.writes import Item

_WRITES = ("put_item", "update_item", "delete_item", "transact_write_items")


def handed_out(parts: int, *subscriptions: str, **settings: Any) -> tuple[World, list[str]]:
    """Hands a plan of so many parts out, each of a message."""
    world = World(*subscriptions, inline_rows=1, part_rows=1, **settings)
    ids = world.send(*(HOUR + i for i in range(parts)))
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    dispatch(world.ports, TOPIC)
    return world, ids


def items_with_marks(world: World) -> list[Item]:
    return [each for each in world.service.dynamodb.items() if each["sk"]["S"].startswith("DELIVERY#")]


def test_a_delivery_of_300_parts_has_two_items_which_take_turns_and_is_sent_once() -> None:
    world, ids = handed_out(300, "billing", "audit")
    assert len(items_with_marks(world)) == 2 * 2
    tasks = world.service.queues.take_jobs()
    assert [task.part for task in tasks[:4]] == [0, 256, 1, 257]  # type: ignore[union-attr]
    for task in tasks:
        do_task(world.ports, task)
    assert world.received("billing") == world.received("audit") == once(ids)
    assert not items_with_marks(world)


@contextmanager
def dying(world: World, at: int, operations: tuple[str, ...]) -> Iterator[list[str]]:
    """Lets the block die after a request to the table of a given number. Yields the requests so far."""
    asked: list[str] = []

    def mortal(real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            answer = real(**request)
            asked.append(name)
            if len(asked) == at:
                raise Crash
            return answer

        return call

    client = world.service.dynamodb
    with patch.multiple(client, **{each: mortal(getattr(client, each), each) for each in operations}):
        yield asked


@pytest.mark.parametrize("together", [1, 2])
def test_a_death_after_any_write_loses_nothing_and_repeats_at_most_one_part(
    monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(marks, "TOGETHER", together)
    for death in deaths(least=12):
        world = World(inline_rows=1, part_rows=1)
        ids = world.send(*(HOUR + i for i in range(5)))
        world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
        with dying(world, death.at, _WRITES):
            try:
                dispatch(world.ports, TOPIC)
                world.work()
            except Crash:
                death.died = True
        world.run(6 * HOUR, sweeps=True)
        assert world.received().keys() == once(ids).keys()
        assert sum(world.received().values()) <= len(ids) + 1
        assert not items_with_marks(world)


def test_a_worker_that_marked_the_last_part_and_died_leaves_the_end_to_the_sweep() -> None:
    world, ids = handed_out(300)
    *most, last = world.service.queues.take_jobs()
    for task in most:
        do_task(world.ports, task)
    with pytest.raises(Crash), dying(world, 2, ("update_item",)):
        do_task(world.ports, last)
    assert len(items_with_marks(world)) == 2
    world.clock.advance_ms(HOUR)
    world.sweep()
    assert world.received() == once(ids) and not items_with_marks(world)
    [record] = world.service.deliveries.sent(TOPIC, 0, 1 << 40)
    assert record.tally.sent == 300


def unsubscribed(world: World) -> None:
    delete_subscription(world.service, TOPIC, "billing")


def forgotten(world: World) -> None:
    """The subscription goes, and its deletion dies before its deliveries go."""
    with pytest.raises(Crash), dying(world, 1, ("transact_write_items",)):
        unsubscribed(world)
    assert items_with_marks(world)
    world.clock.advance_ms(HOUR)
    sweep(world.ports)


def topic_deleted(world: World) -> None:
    delete_topic(world.service, world.clock, TOPIC)
    world.clock.advance_ms(LATE_MS)
    world.run(HOUR, sweeps=True)


@pytest.mark.parametrize("end", [unsubscribed, forgotten, topic_deleted])
def test_whoever_deletes_a_delivery_deletes_all_its_items(end: Callable[[World], None]) -> None:
    world, _ = handed_out(300)
    tasks = world.service.queues.take_jobs()
    assert len(items_with_marks(world)) == 2
    end(world)
    assert not items_with_marks(world)
    do_task(world.ports, tasks[1])  # late
    assert not items_with_marks(world) and not world.received()


def test_a_damaged_delivery_names_the_objects_of_all_its_items_and_is_given_up_whole() -> None:
    world = World(inline_rows=1, part_rows=1, retention_days=1)
    world.send(*(HOUR + i for i in range(299)))
    [kept] = world.service.objects.names("ledgers/")
    world.send(HOUR + 299)
    [lost] = set(world.service.objects.names("ledgers/")) - {kept}
    world.service.objects.delete([lost])
    world.run(6 * HOUR, sweeps=True)
    [found] = world.service.deliveries.all(TOPIC)
    assert found.damaged and found.unread_objects == {lost} and len(found.done) == 299
    world.service.deliveries.finish(found, 1 << 40)
    assert not items_with_marks(world)


def test_a_delivery_of_more_parts_than_names_names_a_lost_object_and_comes_once_it_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidewheel.model.plan._PARTS", 10**9)
    monkeypatch.setattr("tidewheel.model.marks.TOGETHER", 8)
    monkeypatch.setattr("tidewheel.flows.delivery.unread._MOST_NAMES", 16)
    stack = MemoryTidewheel()
    client, service = stack.client(), stack.service
    client.create_topic(TOPIC, inline_rows=1, part_rows=1)
    client.create_subscription(TOPIC, "billing")
    due = stack.now() + timedelta(hours=2)
    sent = client.send_many(TOPIC, [Message(body="hello", deliver_at=due) for _ in range(40)])
    stack.advance(hours=1)
    [name] = service.objects.names("ledgers/")
    whole = service.objects.get_range(name, 0, 1 << 30)
    service.objects.delete([name])
    stack.advance(hours=6)
    assert service.deliveries.all(TOPIC)[0].parts == 40
    [found] = client.damaged(TOPIC)
    assert (found.messages, found.objects, found.damaged) == (40, (name,), True)
    service.objects.put(name, whole)
    client.restore_damaged(TOPIC, found.id)
    stack.advance(minutes=20)
    assert {each.id for each in stack.receive(TOPIC, "billing")} == {each.id for each in sent}


def test_a_replay_of_many_parts_comes_once() -> None:
    world, ids = handed_out(300, retention_days=1)
    world.work()
    world.clock.advance_ms(HOUR)
    assert replay(world.service, world.clock, TOPIC, "billing").plans == 1
    assert len(items_with_marks(world)) == 2
    world.run(HOUR, sweeps=True)
    assert set(world.received().values()) == {2} and len(world.received()) == len(ids)


@pytest.mark.parametrize("parts", [100, 5_000])
def test_a_part_takes_at_most_four_write_units(parts: int) -> None:
    """A hundred workers have a part each at any time. Most parts are done, so the items are large."""
    world, _ = handed_out(2)
    [found] = world.service.deliveries.all(TOPIC)
    order = marks.across_items(range(parts))
    left = order[-1_000:]
    key = replace(found.key, replay="f" * 16)
    of_many = replace(found, key=key, parts=parts, done=frozenset(order).difference(left))
    assert world.service.deliveries.open_replay(world.state, of_many) is Replay.OPENED
    client, units = world.service.dynamodb, 0
    real = client.update_item

    def counted(**request: Any) -> Any:
        nonlocal units
        before = client.item_bytes(request["Key"])
        answer = real(**request)
        units += math.ceil(max(before, client.item_bytes(request["Key"])) / 1024)
        return answer

    with patch.object(client, "update_item", counted):
        for place in range(len(left) + 100):
            if place < len(left):
                assert world.service.deliveries.lease_part(key, left[place], START_MS, 0)
            if place >= 100:
                assert world.service.deliveries.part_done(key, left[place - 100], now_ms=START_MS)
    assert units <= 4 * len(left)


def test_a_plan_has_about_500_parts_as_far_as_functions_can_hold_them() -> None:
    expected = {0: 1_000, 500_000: 1_000, 1_000_000: 2_000, 2_500_000: 5_000, 100_000_000: 5_000}
    assert {rows: part_rows_of(rows, 1_000) for rows in expected} == expected
    assert part_rows_of(1_000_000, 3_000) == 3_000  # the topic's setting is the least


def large_plan(first_slot: int, segments: int) -> Plan:
    """A plan whose manifest is an object."""
    found = [
        PlannedSegment(
            object_name=f"ledgers/orders/2026-01-01/{number:032x}",
            segment=Segment(
                offset=number, length=1, rows=9, raw_bytes=9, first_deliver_at_ms=number, last_deliver_at_ms=number
            ),
            due_rows=9,
        )
        for number in range(segments)
    ]
    return Plan(topic=TOPIC, first_slot=first_slot, end_slot=first_slot + 1, segments=tuple(found))


def test_a_process_reads_the_object_of_a_plan_once_and_keeps_a_bounded_number_of_segments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    service, state = world.service, world.state
    first, second = large_plan(state.planned, 1_500), large_plan(state.planned + 1, 1_500)
    monkeypatch.setattr(plans, "MAX_INLINE_MANIFEST_BYTES", 1_000)
    for plan in (first, second):
        sealed = service.topic_states.seal(world.state, plan.end_slot)
        assert sealed is not None and service.plans.commit(sealed, plan, plan.end_slot)
    monkeypatch.setattr(plans, "_MOST_KEPT", 3_000)
    read = service.plans.read(TOPIC, first.first_slot)
    assert read == first and read is not None and read.parts() is read.parts()
    assert service.plans.read(TOPIC, first.first_slot) is read
    assert service.plans.read(TOPIC, second.first_slot) == second  # in place of the first
    service.objects.delete(service.objects.names("plans/"))
    assert service.plans.read(TOPIC, second.first_slot) == second
    with pytest.raises(ObjectMissing):
        service.plans.read(TOPIC, first.first_slot)


def test_a_delivery_of_which_an_item_is_not_readable_is_named_and_deleted_whole() -> None:
    world, _ = handed_out(300)
    [_, more] = items_with_marks(world)
    world.service.dynamodb.put_item(TableName="memory", Item=more | {"parts": {"S": "many"}})
    errors: dict[str, Exception] = {}
    assert world.service.deliveries.all(TOPIC, errors) == [] and len(errors) == 1
    [found] = world.service.unreadable.all(TOPIC)
    assert (found.what, found.name) == ("delivery", *errors)
    world.service.unreadable.delete([found])
    assert not items_with_marks(world)
