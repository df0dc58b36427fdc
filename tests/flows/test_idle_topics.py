"""An idle topic costs only the sweep, also after cancels, purges and rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.flows.test_keys import cancel_by_id, cancel_by_key, keyed, moved_keyed
from tests.flows.test_purge import run_purge
from tests.flows.test_recurring import end, make
from tests.flows.world import DAY, HOUR, MINUTE, TOPIC, World


def one_message(world: World) -> None:
    world.send(2 * HOUR)


def one_cancelled(world: World) -> None:
    [message] = world.send(2 * HOUR)
    assert cancel_by_id(world, message)


def one_cancelled_far_ahead(world: World) -> None:
    [message] = world.send(20 * DAY)
    assert cancel_by_id(world, message)


def one_cancelled_by_key(world: World) -> None:
    world.ingest(keyed(world, 2 * HOUR))
    assert cancel_by_key(world)


def one_rescheduled(world: World) -> None:
    first = keyed(world, 2 * HOUR, replace=True)
    world.ingest(first)
    world.ingest(moved_keyed(world, first, 3 * HOUR))


def all_purged(world: World) -> None:
    world.send(2 * HOUR, 2 * DAY)
    run_purge(world)


def a_rule_that_has_ended(world: World) -> None:
    make(world, every="4h")
    world.run(5 * MINUTE, sweeps=True)
    end(world)


@pytest.mark.parametrize(
    ("arranged", "dispatches"),
    [
        (one_message, 1),
        pytest.param(one_cancelled, 1, marks=pytest.mark.long),
        pytest.param(one_cancelled_far_ahead, 1, marks=pytest.mark.long),
        (one_cancelled_by_key, 1),
        (one_rescheduled, 2),
        pytest.param(all_purged, 1, marks=pytest.mark.long),
        (a_rule_that_has_ended, 1),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_thirty_days_have_the_dispatches_of_what_was_due_and_one_collection_behind_them(
    arranged: Callable[[World], None], dispatches: int
) -> None:
    world = World()
    world.run(DAY, sweeps=True)  # what the new subscription asked for
    world.dispatches = world.collections = 0
    arranged(world)
    world.run(30 * DAY, sweeps=True)
    assert (world.dispatches, world.collections) == (dispatches, 1)
    assert (world.state.next_check_ms, world.state.next_slot) == (None, None)
    assert not (world.service.buckets.all(TOPIC) or world.service.merges.trash(TOPIC))
