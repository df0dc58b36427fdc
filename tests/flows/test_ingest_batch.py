"""Batches of an ingest queue: groups, portions, and what is halved when one pack fails the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flows.world import DAY, MINUTE, TOPIC, World
from tidewheel.errors import CorruptMetadata, KeysNotSettled
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.ingest_batch import MAX_HELD_BYTES, NamedPack, PendingPacks, groups, ingest_group
from tidewheel.model.pack import Arrival, Pack
from tidewheel.model.triggers import RETENTION_S


def named(world: World, count: int, delay_ms: int = DAY) -> list[NamedPack]:
    return [(f"m{i}", world.pack(delay_ms + i * MINUTE)) for i in range(count)]


def always() -> bool:
    return True


def test_packs_of_one_topic_and_generation_are_a_group() -> None:
    [first, second, third] = named(World(), 3)
    other = ("m9", replace(third[1], generation="other"))
    assert list(groups([first, other, second])) == [[first, second], [other]]


def test_a_portion_is_dealt_with_before_the_next_is_read() -> None:
    packs = [(name, replace(pack, raw_bytes=MAX_HELD_BYTES // 2)) for name, pack in named(World(), 6)]
    read: list[str] = []
    found = []
    for group in groups((read.append(each[0]), each)[1] for each in packs):
        found.append(([name for name, _ in group], len(read)))
    assert found == [(["m0", "m1", "m2"], 3), (["m3", "m4", "m5"], 6)]


def test_one_pack_whose_key_cannot_be_settled_fails_no_other_and_takes_few_tries() -> None:
    world, tries = World(), []
    packs = named(world, 64)

    def ingest_packs(some: list[Pack]) -> None:
        tries.append(len(some))
        if packs[20][1] in some:
            raise KeysNotSettled(TOPIC, CorruptMetadata("an entry"))
        ingest(world.service, TOPIC, some)

    [left] = ingest_group(packs, ingest_packs, always)
    assert (left.names, type(left.error)) == (["m20"], KeysNotSettled)
    assert len(tries) == 1 + 2 * 6
    assert sum(bucket.rows for bucket in world.service.buckets.all(TOPIC)) == 63


def test_what_fails_after_the_commit_comes_again_together_and_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    packs = [("now", world.pack(MINUTE)), *named(world, 3)]

    def failing(*_: object) -> None:
        raise CorruptMetadata("a subscription")

    with monkeypatch.context() as patch:
        patch.setattr("tidewheel.flows.delivery.ingest.send_direct", failing)
        [left] = ingest_group(packs, lambda some: ingest(world.service, TOPIC, some), always)
    assert left.names == ["now", "m0", "m1", "m2"]
    assert ingest_group(packs, lambda some: ingest(world.service, TOPIC, some), always) == []
    assert [bucket.rows for bucket in world.service.buckets.all(TOPIC)] == [3]


def test_the_progress_of_a_pack_is_known_for_as_long_as_its_queue_keeps_the_pack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, ends_s = World(), []
    put = world.service.notes.put

    def watched(topic: str, name: str, below_slot: int, ttl_s: int) -> None:
        ends_s.append(ttl_s - world.clock.now_ms() // 1000)
        put(topic, name, below_slot, ttl_s)

    monkeypatch.setattr(world.service.notes, "put", watched)
    world.ingest(replace(world.pack(MINUTE), arrival=Arrival(name="m1", retried=True)))
    assert ends_s and min(ends_s) >= RETENTION_S


def test_a_topic_whose_topic_state_cannot_be_read_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world, asked = World(), []
    packs = named(world, 20)

    def failing(topic: str) -> None:
        asked.append(topic)
        raise CorruptMetadata("the topic state")

    monkeypatch.setattr(world.service.topic_states, "read", failing)
    [left] = ingest_group(packs, lambda some: ingest(world.service, TOPIC, some), always)
    assert (len(left.names), asked) == (20, [TOPIC])


def test_what_there_is_no_time_for_comes_again_and_is_not_begun() -> None:
    world = World()
    packs, answers = named(world, 4), iter([True, True, False])

    def ingest_packs(some: list[Pack]) -> None:
        if len(some) > 2:
            raise KeysNotSettled(TOPIC, CorruptMetadata("an entry"))
        ingest(world.service, TOPIC, some)

    assert ingest_group(packs, ingest_packs, lambda: next(answers)) == [PendingPacks(names=["m2", "m3"], error=None)]
    assert sum(bucket.rows for bucket in world.service.buckets.all(TOPIC)) == 2
