"""Tombstones live until every subscription has read their slots, at no cost for other topics."""

from __future__ import annotations

from unittest.mock import patch

from tests.flows.world import DAY, HOUR, START_MS, TOPIC, World
from tidewheel.flows.administration.pause import pause
from tidewheel.flows.delivery.cancel import cancel
from tidewheel.flows.maintenance import checkpoint as module
from tidewheel.flows.maintenance.checkpoint import renew_tombstones
from tidewheel.model.message import MessageId
from tidewheel.model.tombstone import KEPT_S


def cancelled(world: World, *delays_ms: int) -> None:
    for id in world.send(*delays_ms):
        assert cancel(world.service, world.state, MessageId(id), START_MS)


def ends_s(world: World) -> list[int]:
    return [each.ttl_s for each in world.service.tombstones.all(TOPIC)]


def paused(days: int) -> World:
    """Returns a topic paused for some days, with cancelled messages and no renewed tombstones."""
    world = World()
    cancelled(world, 2 * DAY, 3 * DAY, 90 * DAY)
    world.send(2 * DAY)
    pause(world.service, TOPIC, "billing")
    with patch.object(module, "MOST_RENEWED", 0):
        world.run(days * DAY, sweeps=True, every_ms=12 * HOUR)
    return world


def test_the_tombstones_that_end_first_are_renewed_first_and_those_of_open_slots_never() -> None:
    world = paused(20)
    first, second, last = ends_s(world)
    renewed_s = world.clock.now_ms() // 1000 + KEPT_S
    with patch.object(module, "MOST_RENEWED", 1):
        renew_tombstones(world.ports, world.state)
        assert ends_s(world) == [renewed_s, second, last] and first < second
        renew_tombstones(world.ports, world.state)
    assert ends_s(world) == [renewed_s, renewed_s, last]
    before = world.service.tombstones.all(TOPIC)
    renew_tombstones(world.ports, world.state)
    assert world.service.tombstones.all(TOPIC) == before


def test_a_topic_without_a_long_pause_reads_no_tombstones_for_it() -> None:
    for world in (World(), paused(10)):
        cancelled(world, 100 * DAY)
        world.run(DAY, sweeps=True, every_ms=12 * HOUR)
        with patch.object(type(world.service.tombstones), "all", side_effect=AssertionError):
            renew_tombstones(world.ports, world.state)
