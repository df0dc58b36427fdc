"""Batches of an ingest queue: groups, portions, and what is halved when one pack fails the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flows.world import DAY, MINUTE, TOPIC, World
from tidewheel.errors import CorruptMetadata, CorruptPack, KeysNotSettled
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.ingest_batch import MAX_HELD_BYTES, NamedPack, PendingPacks, groups, ingest_group
from tidewheel.model.message import id_text
from tidewheel.model.pack import Arrival, Pack, decode_pack
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


def test_messages_whose_keys_cannot_be_settled_are_left_out_and_fail_no_other() -> None:
    world, tries = World(), []
    packs = named(world, 64)
    _, unread = packs[20]
    [id] = [id_text(unread.ids)]

    def ingest_packs(some: list[Pack]) -> None:
        tries.append(len(some))
        if any(pack.ids == unread.ids for pack in some):
            raise KeysNotSettled(TOPIC, {id: CorruptMetadata("an entry")})
        ingest(world.service, TOPIC, some)

    [left] = ingest_group(packs, ingest_packs, always)
    assert (left.names, type(left.error)) == (["m20"], KeysNotSettled)
    assert tries == [64, 63]
    assert decode_pack(left.rests["m20"], world.clock.now_ms()).texts == unread.texts
    assert sum(bucket.rows for bucket in world.service.buckets.all(TOPIC)) == 63


def test_what_is_left_of_a_pack_has_a_progress_of_its_own() -> None:
    """The pack may come again as a whole, and its other messages were not sent."""
    world, names = World(), []
    whole = replace(world.pack(MINUTE, MINUTE, MINUTE), arrival=Arrival(name="m1", retried=True))
    ids = [id_text(whole.ids[16 * i : 16 * i + 16]) for i in range(3)]

    def ingest_packs(some: list[Pack]) -> None:
        names.append([(len(pack), pack.arrival and pack.arrival.name) for pack in some])
        if len(names) < 3:
            raise KeysNotSettled(TOPIC, {ids[len(names)]: CorruptMetadata("an entry")})

    [left] = ingest_group([("m1", whole)], ingest_packs, always)
    [first], [second], [third] = names
    assert (first, second[0], third[0]) == ((3, "m1"), 2, 1)
    assert len({first[1], second[1], third[1]}) == 3
    assert decode_pack(left.rests["m1"], world.clock.now_ms()).ids == whole.ids[16:]


def test_keys_that_cannot_be_settled_twice_end_the_tries() -> None:
    world = World()
    packs, tries = named(world, 4), []

    def ingest_packs(some: list[Pack]) -> None:
        tries.append(len(some))
        raise KeysNotSettled(TOPIC, {"unknown": CorruptMetadata("an entry")})

    [left] = ingest_group(packs, ingest_packs, always)
    assert (left.names, left.rests, tries) == (["m0", "m1", "m2", "m3"], {}, [4, 4])


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
            raise CorruptPack("a message")
        ingest(world.service, TOPIC, some)

    assert ingest_group(packs, ingest_packs, lambda: next(answers)) == [PendingPacks(names=["m2", "m3"], error=None)]
    assert sum(bucket.rows for bucket in world.service.buckets.all(TOPIC)) == 2
