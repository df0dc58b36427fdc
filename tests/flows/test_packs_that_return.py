"""Packs redriven from a dead-letter queue after weeks are neither lost nor duplicated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import Mock, patch

import pytest

from tests.flows.world import DAY, HOUR, MINUTE, TOPIC, Crash, World, ids_of, once
from tests.stored import stored
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.model.pack import Arrival, Pack
from tidewheel.model.triggers import RETENTION_S

LATEST = 2 * RETENTION_S * 1000 - HOUR
"""A pack was in its queue for two weeks, then in that of dead letters, and somebody moved it back in the last hour."""


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
    assert world.received_after(60 * DAY, sweeps=True, every_ms=HOUR) == once(ids_of(pack))


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
    assert world.received_after(2 * DAY, sweeps=True) == once(ids_of(pack) + ids_of(other))


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


# ---- whose ledger was committed
@pytest.mark.parametrize(("merged", "copies"), [(False, 1), (True, 2)])
def test_a_pack_that_was_committed_comes_once_and_once_more_if_its_ledger_was_merged(merged: bool, copies: int) -> None:
    world = World(segment_rows=1, part_rows=1, inline_rows=1)  # with one row a part, no part drops repeated rows
    pack = world.pack(DAY, 2 * DAY)
    world.ingest(first_time(pack))
    others = world.send(DAY)
    if merged:
        merge_all(world)
    world.ingest(returned(pack))
    assert world.received_after(3 * DAY, sweeps=True, every_ms=HOUR) == once(ids_of(pack) * copies + others)
