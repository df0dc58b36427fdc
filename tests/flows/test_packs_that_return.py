"""Packs redriven from a dead-letter queue after weeks are neither lost nor duplicated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import Mock, patch

import pytest

from tests.flows.alone import local_engine
from tests.flows.world import DAY, HOUR, MINUTE, TOPIC, Crash, World, ids_of, once
from tests.stored import stored
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.flows.upkeep.checkpoint import checkpoint_topic
from tidewheel.flows.upkeep.merge import in_process, merge
from tidewheel.model.pack import Arrival, Pack
from tidewheel.model.triggers import RETENTION_S

LATEST = 2 * RETENTION_S * 1000 - HOUR
"""A pack was in its queue for two weeks, then in that of dead letters, and somebody moved it back in the last hour."""


def one_row_a_part() -> World:
    """Returns a world with one row per part, so that a message in two ledgers arrives twice."""
    return World(segment_rows=1, part_rows=1, inline_rows=1)


def with_a_far_pack() -> tuple[World, Pack]:
    """Such a world, whose ledger has the pack's messages, due in two months."""
    world = one_row_a_part()
    pack = world.pack(60 * DAY, 61 * DAY)
    world.ingest(first_time(pack))
    return world, pack


def comes_once_when_returned(world: World, pack: Pack, others: list[str]) -> None:
    world.ingest(returned(pack))
    world.run(62 * DAY, sweeps=True, every_ms=HOUR)
    assert world.received() == once(ids_of(pack) + others)


def first_time(pack: Pack) -> Pack:
    return replace(pack, arrival=Arrival(name="pack", retried=False))


def returned(pack: Pack) -> Pack:
    return replace(pack, arrival=Arrival(name="pack", retried=True))


def let_pass(world: World, duration_ms: int) -> None:
    """Advances time, and then deletes all expired items."""
    world.run(duration_ms, sweeps=True, every_ms=HOUR)
    stored(world.service).expire(world.clock.now_ms() // 1000)


@contextmanager
def no_objects(world: World) -> Iterator[None]:
    """S3 takes no objects within the block."""

    def refused(*_: object) -> None:
        raise ConnectionError

    with patch.object(world.service.objects, "put", refused):
        yield


def ingest_fails(world: World, pack: Pack) -> None:
    with no_objects(world), pytest.raises(ConnectionError):
        world.ingest(pack)


def merge_all(world: World) -> None:
    merged = merge(world.ports, TOPIC, in_process(world.ports.objects), lease_s=60, everything=True)
    assert merged is not None and merged.merges == 1


# ---- of which some messages were sent
@pytest.mark.parametrize("later_ms", [DAY, 60 * DAY])
def test_what_was_sent_of_a_pack_is_known_when_it_returns_after_four_weeks(later_ms: int) -> None:
    world = World()
    pack = world.pack(MINUTE, later_ms)
    ingest_fails(world, first_time(pack))
    let_pass(world, LATEST)
    world.ingest(returned(pack))
    world.run(60 * DAY, sweeps=True, every_ms=HOUR)
    assert world.received() == once(ids_of(pack))


def test_a_failed_retry_beside_another_pack_forgets_nothing_that_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    pack, other = world.pack(MINUTE, DAY), world.pack(MINUTE, DAY)
    ingest_fails(world, first_time(pack))
    both = [returned(pack), replace(other, arrival=Arrival(name="other", retried=False))]
    with monkeypatch.context() as patched:
        patched.setattr(world.service.tombstones, "ids", Mock(side_effect=ConnectionError))
        with pytest.raises(ConnectionError):
            world.ingest(*both)
    world.ingest(*both)
    world.run(2 * DAY, sweeps=True)
    assert world.received() == once(ids_of(pack) + ids_of(other))


def test_a_retry_that_dies_after_it_has_sent_sends_nothing_again() -> None:
    world = World()
    pack = world.pack(MINUTE, HOUR)
    ingest_fails(world, first_time(pack))
    world.run(HOUR - MINUTE)  # the second message is direct by now

    def dies(*_: object) -> None:
        raise Crash

    again = [returned(pack), replace(world.pack(DAY), arrival=Arrival(name="other", retried=False))]
    with patch.object(world.service.objects, "put", dies), pytest.raises(Crash):
        world.ingest(*again)
    world.ingest(*again)
    assert world.received() == once(ids_of(pack))


def test_a_pack_of_which_nothing_was_sent_comes_whole() -> None:
    world = World()
    pack = world.pack(DAY, 2 * DAY)
    ingest_fails(world, first_time(pack))
    let_pass(world, LATEST)
    world.ingest(returned(pack))
    assert world.received() == once(ids_of(pack))


# ---- whose ledger was merged
@pytest.mark.parametrize("merged_after_ms", [0, 15 * DAY, LATEST - DAY])
def test_a_pack_whose_ledger_was_merged_makes_no_second_one_within_four_weeks(merged_after_ms: int) -> None:
    world, pack = with_a_far_pack()
    others = world.send(60 * DAY)
    let_pass(world, merged_after_ms)
    merge_all(world)
    let_pass(world, LATEST - merged_after_ms)
    comes_once_when_returned(world, pack, others)


def test_a_pack_whose_merged_ledger_was_merged_again_makes_no_second_one_within_four_weeks() -> None:
    world, pack = with_a_far_pack()
    others: list[str] = []
    for _ in range(4):
        others += world.send(60 * DAY)
        merge_all(world)
        let_pass(world, LATEST // 4)
    comes_once_when_returned(world, pack, others)


def test_a_pack_whose_ledger_was_merged_after_a_rebuild_makes_no_second_one() -> None:
    world, pack = with_a_far_pack()
    others = world.send(60 * DAY)
    checkpoint_topic(world.ports, TOPIC)
    stored(world.service).clear()  # the table is lost, and with it when the ledgers were made
    rebuild(world.ports, TOPIC, local_engine(world.ports), lease_s=60)
    merge_all(world)
    let_pass(world, DAY)
    comes_once_when_returned(world, pack, others)


def test_after_four_weeks_no_merge_remembers_the_ledgers_of_packs_that_cannot_return() -> None:
    world = one_row_a_part()
    world.ingest(world.pack(60 * DAY), world.pack(61 * DAY))
    world.send(60 * DAY)
    let_pass(world, 2 * RETENTION_S * 1000 + DAY)
    merge_all(world)
    assert not stored(world.service).of(TOPIC).notes
