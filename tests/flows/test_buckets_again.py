"""Buckets whose items cannot be read are made anew from their ledgers, if these can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.flows.world import DAY, HOUR, TOPIC, World, failing_reads
from tidewheel.errors import CorruptMetadata, ObjectRefused
from tidewheel.flows.delivery.buckets_again import buckets_again
from tidewheel.ledger import bucket as bucket_module
from tidewheel.ledger.bucket import Bucket


def again(world: World, left: dict[str, Exception]) -> list[Bucket]:
    """Makes buckets anew."""
    return [known(each) for each in buckets_again(world.ports, world.state, left)]


def stored(world: World) -> list[Bucket]:
    return [known(each) for each in world.service.buckets.all(TOPIC)]


def known(bucket: Bucket) -> Bucket:
    """Returns the bucket without the data that footers lack, namely row sizes in memory and weights.

    Leaves out what a tail has, too.
    """
    bucket = bucket.without_tail()
    segments = tuple(replace(each, raw_bytes=0) for each in bucket.segments)
    return replace(bucket, segments=segments, weights=(), checked_ms=0)


def unreadable(*buckets: Bucket) -> dict[str, Exception]:
    return {each.id: CorruptMetadata("not readable") for each in buckets}


@pytest.fixture(params=["whole", "tail"])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three ledgers, which have their index in the item or in a tail."""
    if request.param == "tail":
        monkeypatch.setattr(bucket_module, "INLINE_SEGMENTS_BYTES", 1)
    world = World(segment_rows=2)
    for day in (1, 2, 3):
        world.send(HOUR, day * DAY, day * DAY + HOUR)
    assert all((each.tail is not None) == (request.param == "tail") for each in world.service.buckets.all(TOPIC))
    return world


def test_a_bucket_that_is_made_anew_is_the_one_that_was_committed(world: World) -> None:
    first, second, third = stored(world)
    left = unreadable(first, third)
    assert again(world, left) == [first, third]
    assert left == {}
    assert stored(world) == [first, second, third]


def _flip(world: World, name: str) -> None:
    data = world.service.objects.get_range(name, 0, 1 << 30)
    world.service.objects.put(name, bytes([*data[:40], data[40] ^ 1, *data[41:-40], data[-40] ^ 1, *data[-39:]]))


def _cut(world: World, name: str) -> None:
    world.service.objects.put(name, world.service.objects.get_range(name, 0, 100))


@pytest.mark.parametrize("damage", [_flip, _cut, lambda world, name: world.service.objects.delete([name])])
def test_a_bucket_whose_ledger_is_damaged_or_gone_stays_unreadable(
    world: World, damage: Callable[[World, str], None]
) -> None:
    first, second, _ = stored(world)
    damage(world, first.object_name)
    left = unreadable(first, second)
    assert again(world, left) == [second]
    assert list(left) == [first.id]


def test_a_ledger_that_is_refused_stops_no_other_and_one_that_gets_no_answer_stops_the_plan(
    world: World,
) -> None:
    first, second, _ = stored(world)
    left = unreadable(first, second)
    with failing_reads(world, {first.object_name: ObjectRefused(first.object_name, "403")}):
        assert again(world, left) == [second]
    assert list(left) == [first.id]
    with failing_reads(world, {first.object_name: TimeoutError("S3")}), pytest.raises(TimeoutError):
        buckets_again(world.ports, world.state, unreadable(first))


def test_a_bucket_that_a_merge_has_deleted_meanwhile_does_not_come_back(world: World) -> None:
    first, second, third = stored(world)
    world.service.buckets.delete(TOPIC, first.id)
    left = unreadable(first)
    assert again(world, left) == []
    assert left == {}
    assert stored(world) == [second, third]


def test_where_all_can_be_read_nothing_is_listed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[Any] = []
    monkeypatch.setattr(world.service.objects, "list", listed.append)
    assert buckets_again(world.ports, world.state, {}) == []
    assert listed == []
