"""Items are not needed after DynamoDB deletes them by TTL, however far ahead messages are due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.flows.test_keys import cancel_by_id, cancel_by_key, id_of, keyed
from tests.flows.world import DAY, HOUR, TOPIC, World, once
from tests.stored import stored
from tidewheel.flows.delivery.cancel import Cancelled, cancel_many
from tidewheel.model.message import MessageId


def days(world: World, count: int) -> None:
    """Advances by days, and deletes expired items after each day, as DynamoDB does by TTL."""
    for _ in range(count):
        world.run(DAY)
        stored(world.service).expire(world.clock.now_ms() // 1000)


def cancel_among_many(world: World, message_id: MessageId) -> Any:
    storage, now_ms = world.service, world.clock.now_ms()
    [done] = cancel_many(storage, world.state, [message_id], now_ms)
    return done


def cancel_its_key(world: World, _: MessageId) -> Any:
    return cancel_by_key(world)


@pytest.mark.parametrize("cancels", [cancel_by_id, cancel_among_many, cancel_its_key])
def test_what_is_due_in_60_days_and_was_cancelled_does_not_come(cancels: Callable[[World, MessageId], Any]) -> None:
    world = World()
    pack = keyed(world, 60 * DAY)
    world.ingest(pack)
    assert cancels(world, id_of(pack)) == Cancelled(id=id_of(pack))
    days(world, 61)
    assert not world.received()
    days(world, 28)
    assert not world.service.tombstones.all(TOPIC)


def test_what_is_due_in_60_days_and_was_replaced_does_not_come() -> None:
    world = World()
    old, new = keyed(world, 60 * DAY), keyed(world, 61 * DAY, replace=True)
    world.ingest(old)
    world.ingest(new)
    days(world, 62)
    assert world.received() == once([id_of(new)])


def test_a_key_is_taken_for_the_60_days_that_its_message_waits() -> None:
    world = World()
    first = keyed(world, 60 * DAY)
    world.ingest(first)
    days(world, 45)
    assert world.ingest(keyed(world, HOUR)).superseded == 1
    days(world, 16)
    assert world.received() == once([id_of(first)])
