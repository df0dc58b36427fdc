"""Messages skipped as unreadable are delivered after an operator restores the object."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.flows.alone import local_engine
from tests.flows.test_recurring import make
from tests.flows.world import DAY, HOUR, TOPIC, World, once
from tidewheel.errors import CorruptMetadata
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.recovery.rebuild import rebuild


class Tolerant(World):
    """A world whose sweeps may fail in part."""

    may_fail = True


def damage(world: World, prefix: str, attribute: str) -> Callable[[], None]:
    """Gives an attribute of an item of the topic a wrong type. Returns a function that puts the item back."""
    [item] = [each for each in world.service.dynamodb.items(f"T#{TOPIC}") if each["sk"]["S"].startswith(prefix)]
    table: Any = world.service.topic_states._table
    put = partial(table._client.put_item, TableName=table._name)
    put(Item=item | {attribute: {"M": {}}})
    return partial(put, Item=item)


def test_a_recurring_message_that_was_missed_is_looked_for_again_within_two_hours() -> None:
    world = Tolerant("billing", "mail")
    ids = world.send(2 * HOUR)
    make(world, every="3h")
    world.clock.advance_ms(HOUR)
    restore = damage(world, "RECUR#", "rule")
    world.run(2 * HOUR, sweeps=True)
    restore()
    before = world.received("mail")
    world.run(12 * HOUR, sweeps=True)
    assert set(world.received("billing")) >= set(ids)
    assert sum((world.received("mail") - before).values()) >= 3


def test_a_rebuild_starts_from_the_checkpoint_before_the_damage() -> None:
    world = Tolerant("billing", "mail")
    world.run(DAY, sweeps=True)
    ids = world.send(HOUR)
    collect(world.ports, TOPIC)
    damage(world, "SUB#billing", "cursor")
    world.clock.advance_ms(2 * HOUR)
    rebuild(world.ports, TOPIC, local_engine(world.service), lease_s=7200, replace_index=True)
    world.run(DAY, sweeps=True)
    assert world.received("billing") == world.received("mail") == once(ids)


def test_no_checkpoint_is_written_while_a_ledgers_item_cannot_be_read() -> None:
    world = World()
    world.send(HOUR)
    world.clock.advance_ms(HOUR)
    dispatch(world.ports, TOPIC)
    restore = damage(world, "BUCKET#", "slots")
    with pytest.raises(CorruptMetadata):
        checkpoint_topic(world.ports, TOPIC)
    restore()
    assert checkpoint_topic(world.ports, TOPIC)
