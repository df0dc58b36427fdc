"""Deletion of a topic by a single mark, until none of the topic's data is left."""

from __future__ import annotations

import pytest

from tests.flows.alone import local_engine
from tests.flows.world import DAY, HOUR, MINUTE, TOPIC, CrashingPorts, World, deaths
from tests.stored import stored
from tidewheel.errors import TopicDeleting, UnknownTopic
from tidewheel.flows.administration.delete_topic import LATE_MS, delete_topic, finish_deletion
from tidewheel.flows.administration.pause import pause, resume
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.model.settings import TopicSettings
from tidewheel.storage.table_keys import note_key

QUARTER = 15 * MINUTE


def a_busy_world(**options: object) -> World:
    """Returns a world with ledgers, plans, open deliveries, trash, checkpoints and an import's mark."""
    world = World("billing", "audit", inline_rows=1, **options)  # type: ignore[arg-type]
    world.service.objects._now_ms = world.clock.now_ms
    for _ in range(3):
        world.send(*(HOUR + i for i in range(5)), 5 * DAY)
    world.clock.advance_ms(HOUR - 8 * MINUTE)
    dispatch(world.service, TOPIC)
    merge(world.service, TOPIC, in_process(world.service.objects), lease_s=60, everything=True)
    world.send(9 * DAY)
    collect(world.service, TOPIC)
    for name in ("plans/orders/1-a.json.z", "imports/orders/_token.g1.json", "payloads/orders/x"):
        world.service.objects.put(name, b"x")
    for prefix in ("ledgers", "plans", "parked"):
        world.service.objects.put(f"aside/{prefix}/orders/x", b"x")
    return world


def left(world: World) -> list[str]:
    """Returns the remaining items, objects and schedules of the topic, without the note of its deletion."""
    items = stored(world.service).of(TOPIC)
    found = [str(items)] if {*items.keys_in_table()} - {note_key(TOPIC, "deleted")} else []
    objects = [name for name in world.service.objects.names() if "/orders/" in name]
    return found + objects + list(world.service.wheel.schedules)


def end(world: World) -> None:
    delete_topic(world.ports, world.clock, TOPIC)


def test_a_users_file_beside_the_records_of_imports_stays() -> None:
    world = a_busy_world()
    world.service.objects.put("imports/orders/input.csv", b"x")
    end(world)
    world.run(DAY, sweeps=True)
    assert left(world) == ["imports/orders/input.csv"]


def test_a_topic_whose_name_begins_with_the_same_letters_keeps_everything() -> None:
    world = a_busy_world()
    for name in ("orders-2", "order"):
        create_topic(world.service, world.clock, name, TopicSettings())
        create_subscription(world.service, world.clock, name, "s", "queue-s")
        world.service.objects.put(f"ledgers/{name}/x", b"x")
        world.service.wheel.schedule(name, 5, 2**50)
    end(world)
    world.run(QUARTER, sweeps=True)
    assert world.service.objects.names("ledgers/") == ["ledgers/order/x", "ledgers/orders-2/x"]
    assert set(world.service.wheel.schedules) == {"orders-2.5", "order.5"}
    assert world.service.topic_list.read() == ["order", "orders-2"]
    assert all(world.service.subscriptions.all(name) for name in ("orders-2", "order"))


def test_resuming_a_subscription_of_a_topic_that_is_being_deleted_says_that_there_is_no_topic() -> None:
    world = a_busy_world()
    pause(world.service, TOPIC, "billing")
    end(world)
    with pytest.raises(UnknownTopic, match=TOPIC):
        resume(world.service, world.service.queues, world.clock, TOPIC, "billing")


def test_a_topic_that_is_being_deleted_is_no_topic_to_anybody() -> None:
    world = a_busy_world()
    pack = world.pack(MINUTE, DAY)
    opened = world.service.deliveries.all(TOPIC)
    end(world)
    storage = world.service
    assert storage.topic_states.read(TOPIC) is None and storage.topic_states.of([TOPIC]) == []
    assert dispatch(world.ports, TOPIC) is None
    assert collect(world.ports, TOPIC) is None
    assert merge(world.ports, TOPIC, in_process(world.ports.objects), lease_s=60) is None
    with pytest.raises(UnknownTopic):
        world.ingest(pack)
    with pytest.raises(UnknownTopic):
        create_subscription(storage, world.clock, TOPIC, "new", "queue-new")
    assert opened
    world.work()
    assert not world.received()


def test_to_delete_twice_is_fine_and_an_unknown_topic_is_not() -> None:
    world = a_busy_world()
    end(world)
    marked = world.service.deletions.read(TOPIC)
    world.clock.advance_ms(MINUTE)
    end(world)
    assert world.service.deletions.read(TOPIC) == marked
    world.run(QUARTER, sweeps=True)
    with pytest.raises(UnknownTopic, match="orders"):
        end(world)


def test_a_rebuild_does_not_bring_a_topic_back_that_is_being_deleted() -> None:
    world = a_busy_world()
    end(world)
    with pytest.raises(TopicDeleting):
        rebuild(world.ports, TOPIC, local_engine(world.service), lease_s=60, replace_index=True)


def test_a_large_topic_takes_several_sweeps() -> None:
    world = a_busy_world()
    end(world)
    answers = iter([False] * 100)
    passes = 0
    while not finish_deletion(world.ports, TOPIC, lambda: next(answers)):
        passes += 1
        assert world.service.deletions.read(TOPIC) is not None
        world.clock.advance_ms(5 * MINUTE)
    assert passes > 5
    assert left(world) == []


def test_a_deletion_that_dies_at_any_call_goes_on_with_the_next_sweep() -> None:
    for death in deaths():
        world = a_busy_world(wrap=CrashingPorts)
        end(world)
        world.clock.advance_ms(LATE_MS)
        with death.of(world):
            finish_deletion(world.ports, TOPIC)
        if death.died:
            world.run(QUARTER, sweeps=True)
        assert left(world) == []
