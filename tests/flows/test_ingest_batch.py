"""Batches of an ingest queue, with groups, portions, and halves after one pack fails the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flows.world import DAY, MINUTE, TOPIC, World
from tidewheel.errors import CorruptMetadata, CorruptPack
from tidewheel.flows.delivery.ingest import Ingested, ingest
from tidewheel.flows.delivery.ingest_batch import MAX_HELD_BYTES, NamedPack, groups, ingest_group
from tidewheel.flows.delivery.refusing import PendingPacks
from tidewheel.model.key import KeyEntry
from tidewheel.model.pack import Arrival, Pack
from tidewheel.model.triggers import RETENTION_S


def named(world: World, count: int, delay_ms: int = DAY) -> list[NamedPack]:
    return [(f"m{i}", world.pack(delay_ms + i * MINUTE)) for i in range(count)]


def always() -> bool:
    return True


def test_packs_of_one_topic_and_generation_are_a_group() -> None:
    [first, second, third] = named(World(), 3)
    other = ("m9", replace(third[1], generation="other"))
    assert list(groups([first, other, second])) == [([other], 2), ([first, second], 1)]


def test_a_portion_is_dealt_with_before_the_next_is_read() -> None:
    packs = [(name, replace(pack, raw_bytes=MAX_HELD_BYTES // 2)) for name, pack in named(World(), 6)]
    read: list[str] = []
    found = []
    for group, of in groups((read.append(each[0]), each)[1] for each in packs):
        found.append(([name for name, _ in group], len(read), of))
    assert found == [(["m0", "m1", "m2"], 3, 2), (["m3", "m4", "m5"], 6, 2)], "a portion leaves time for the next"


def test_packs_that_come_again_are_in_portions_that_double_and_first_tries_are_together() -> None:
    arrival = Arrival(name="m", retried=True)
    packs = [(name, replace(pack, arrival=arrival)) for name, pack in named(World(), 1)] * 120
    assert [(len(group), of) for group, of in groups(packs)] == [(32, 2), (64, 2), (24, 1)]
    keyed = [(name, replace(pack, options=[None] * len(pack))) for name, pack in packs[:20]]
    assert [len(group) for group, _ in groups(keyed)] == [16, 4]
    assert [len(group) for group, _ in groups(named(World(), 120))] == [120]


def test_another_senders_message_with_the_same_id_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    bad = world.pack(DAY, key="cart-17")
    victim = replace(world.pack(DAY), ids=bad.ids)

    def unread(_: str, entry: KeyEntry) -> None:
        raise CorruptMetadata(f"entry {entry.key}")

    monkeypatch.setattr(world.service.keys, "claim", unread)
    packs = [("bad", bad), ("victim", victim)]

    [left] = ingest_group(packs, lambda some: ingest(world.service, TOPIC, some), always)

    assert left.names == ["bad"]
    assert [bucket.rows for bucket in world.service.buckets.all(TOPIC)] == [1]


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


def test_the_progress_of_a_pack_is_known_for_as_long_as_queues_keep_the_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    world, ends_s = World(), []
    put = world.service.notes.put

    def watched(topic: str, name: str, below_slot: int, ttl_s: int, waiting: frozenset[bytes]) -> None:
        ends_s.append(ttl_s - world.clock.now_ms() // 1000)
        put(topic, name, below_slot, ttl_s, waiting)

    monkeypatch.setattr(world.service.notes, "put", watched)
    world.ingest(replace(world.pack(MINUTE), arrival=Arrival(name="m1", retried=True)))
    assert ends_s and min(ends_s) >= 2 * RETENTION_S, "one stay in its queue, and one in that of dead letters"


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

    def ingest_packs(some: list[Pack]) -> Ingested:
        if len(some) > 2:
            raise CorruptPack("a message")
        return ingest(world.service, TOPIC, some)

    assert ingest_group(packs, ingest_packs, lambda: next(answers)) == [PendingPacks(names=["m2", "m3"], error=None)]
    assert sum(bucket.rows for bucket in world.service.buckets.all(TOPIC)) == 2
