"""Checks forged by a sender with the right to cancel do not delay the sweep's work.

The policies of this release allow no such item. Those of earlier releases do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.flows.test_sweep import slow, topics_in_need
from tests.flows.world import HOUR, World
from tests.stored import stored
from tidewheel.flows.upkeep.sweep import sweep
from tidewheel.storage import layout
from tidewheel.storage.checks import Checks

FORGED = 80_000
PAGE_ITEMS, PAGE_MS = 1_000, 30
"""A page of the index has a megabyte, and keys have up to a kilobyte."""
READ_MS = 5
"""Of an item, with 16 side by side."""


class FloodedTable:
    """Answers queries of the index with a sender's overdue items before the service's own."""

    def __init__(self, world: World, partition: str, sort_key: str) -> None:
        self._world = world
        self._forged = [(partition.format(n), sort_key.format(n)) for n in range(FORGED)]

    def query_filtered(
        self, _condition: str, values: Mapping[str, Any], _wanted: object, *, index: str, most_pages: int
    ) -> Iterator[tuple[list[dict[str, Any]], int]]:
        assert index == layout.CHECK_INDEX
        shard, now_ms = values["shard"], values["now"]
        shards = layout.check_shards()
        forged = [(0, key) for key in self._forged[shards.index(shard) :: len(shards)]]
        states = [items.state for items in stored(self._world.service).topics().values() if items.state is not None]
        own = [
            (each.next_check_ms, layout.topic_state_key(each.topic))
            for each in states
            if each.next_check_ms is not None and layout.check_shard(each.topic) == shard
        ]
        found = [
            {"pk": {"S": pk}, "sk": {"S": sk}, "next_check_ms": {"N": str(next_check_ms)}}
            for next_check_ms, (pk, sk) in forged + [each for each in own if each[0] <= now_ms]
        ]
        assert len(found) <= most_pages * PAGE_ITEMS
        for start in range(0, len(found), PAGE_ITEMS):
            self._world.clock.advance_ms(PAGE_MS)
            page = found[start : start + PAGE_ITEMS]
            yield page, len(page)


@pytest.mark.parametrize(
    ("partition", "sort_key"),
    [
        ("T#forger#KEY#{}", "STATE"),
        ("T#forger#TOMB", "DELIVERY#s#g1#{:012d}"),
        ("T#forger#TOMB", "PARK#s#g1#{}"),
        ("T#forger#TOMB", "ASIDE#s#g1#{}"),
        ("T#forger#MOVE", "{}"),
    ],
)
def test_80_000_forged_items_in_the_index_of_checks_keep_no_topic_from_being_healed(
    partition: str, sort_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(subscribe=False)
    topics_in_need(world, "victim")
    world.clock.advance_ms(HOUR)
    checks: Any = Checks(FloodedTable(world, partition, sort_key))  # type: ignore[arg-type]
    monkeypatch.setattr(world.service.checks, "due", checks.due)
    told: list[int] = []
    for port, method in (("topic_states", "read"), ("subscriptions", "read"), ("parks", "read"), ("deletions", "read")):
        slow(world, getattr(world.service, port), method, monkeypatch, READ_MS)
    swept = sweep(world.ports, lambda due, _: told.append(len(due.topics)))
    assert swept.dispatched == ["victim"]
    assert (swept.left, swept.failures, swept.deleted, told) == (0, {}, [], [1])
