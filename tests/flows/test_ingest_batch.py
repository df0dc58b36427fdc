"""Batches of an ingest queue, with groups, portions, and halves after one pack fails the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flows.world import DAY, MINUTE, TOPIC, World
from tidewheel.errors import CorruptMetadata, CorruptPack, KeysNotSettled
from tidewheel.flows.delivery.ingest import Ingested, ingest
from tidewheel.flows.delivery.ingest_batch import MAX_HELD_BYTES, NamedPack, PendingPacks, groups, ingest_group
from tidewheel.flows.delivery.keys import candidates_of
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId
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


def unsettled(*packs: Pack) -> KeysNotSettled:
    """Returns the error for the messages of the packs, each with a single message."""
    names = [each.name for pack in packs for each in candidates_of(pack)]
    return KeysNotSettled(TOPIC, {name: CorruptMetadata(f"entry {name[1]}") for name in names})


class Refusing:
    """Records refusals, and raises for the packs named in `down`."""

    def __init__(self, *down: str) -> None:
        self.refused: list[tuple[str, int, str]] = []
        self._down = down

    def __call__(self, name: str, pack: Pack, error: Exception) -> None:
        if name in self._down:
            raise ConnectionError("the queue of refused messages")
        self.refused.append((name, len(pack), str(error).rpartition(": ")[2]))


def test_messages_whose_keys_cannot_be_settled_are_refused_and_fail_no_other() -> None:
    world, tries, refusing = World(), [], Refusing()
    packs = [(f"m{i}", world.pack(DAY, key=f"key-{i}")) for i in range(64)]
    bad = [packs[20][1], packs[40][1]]

    def ingest_packs(some: list[Pack]) -> Ingested:
        tries.append(len(some))
        if any(pack in some for pack in bad):
            raise unsettled(*bad)
        return ingest(world.service, TOPIC, some)

    assert ingest_group(packs, ingest_packs, refusing, always) == []
    assert refusing.refused == [("m20", 1, "entry key-20"), ("m40", 1, "entry key-40")], "each with its own reason"
    assert tries == [64, 62]
    assert sum(bucket.rows for bucket in world.service.buckets.all(TOPIC)) == 62


def test_another_senders_message_with_the_same_id_is_not_refused() -> None:
    world, refusing = World(), Refusing()
    bad = world.pack(DAY, key="cart-17")
    victim = replace(world.pack(DAY), ids=bad.ids)

    def ingest_packs(some: list[Pack]) -> Ingested:
        if bad in some:
            raise unsettled(bad)
        return ingest(world.service, TOPIC, some)

    assert ingest_group([("bad", bad), ("victim", victim)], ingest_packs, refusing, always) == []
    assert [name for name, *_ in refusing.refused] == ["bad"]
    assert [bucket.rows for bucket in world.service.buckets.all(TOPIC)] == [1]


def test_nothing_of_a_pack_is_ingested_before_its_messages_are_refused() -> None:
    """Otherwise a failing refusal would duplicate the other messages."""
    world, ingested = World(), []
    packs = [(name, world.pack(DAY, key=name)) for name in ("down", "up", "good")]

    def ingest_packs(some: list[Pack]) -> Ingested:
        if len(some) > 1:
            raise unsettled(packs[0][1], packs[1][1])
        ingested.extend(some)
        return ingest(world.service, TOPIC, some)

    [left] = ingest_group(packs, ingest_packs, refusing := Refusing("down"), always)
    assert (left.names, type(left.error)) == (["down"], ConnectionError)
    assert (refusing.refused, ingested) == ([("up", 1, "entry up")], [packs[2][1]])


def test_a_message_whose_move_nobody_allowed_is_refused_alone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    world, refusing = World(), Refusing()
    [old] = world.send(DAY)
    bad = world.pack(DAY, key="cart-17")
    [options] = bad.options or [None]
    assert options is not None
    bad = replace(bad, options=[replace(options, moves=MessageId(old))])

    def unread(_: str, entry: KeyEntry) -> None:
        raise CorruptMetadata(f"entry {entry.key}")

    monkeypatch.setattr(world.service.keys, "claim", unread)
    packs = [("bad", bad), *named(world, 2)]
    assert ingest_group(packs, lambda some: ingest(world.service, TOPIC, some), refusing, always) == []
    assert refusing.refused == [("bad", 1, "entry cart-17")]
    assert sum(bucket.rows for bucket in world.service.buckets.all(TOPIC)) == 1 + 2


def test_keys_that_cannot_be_settled_and_are_of_no_pack_end_the_tries() -> None:
    world = World()
    packs, tries, error = named(world, 4), [], unsettled(world.pack(DAY, key="other"))

    def ingest_packs(some: list[Pack]) -> Ingested:
        tries.append(len(some))
        raise error

    assert ingest_group(packs, ingest_packs, Refusing(), always) == [
        PendingPacks(names=["m0", "m1", "m2", "m3"], error=error)
    ]
    assert tries == [4]


def test_what_there_is_no_time_to_refuse_comes_again() -> None:
    world, answers, refusing = World(), iter([True, True, False]), Refusing()
    packs = [(f"m{i}", world.pack(DAY, key=f"key-{i}")) for i in range(3)]

    def ingest_packs(some: list[Pack]) -> Ingested:
        raise unsettled(*some)

    left = ingest_group(packs, ingest_packs, refusing, lambda: next(answers))
    assert left == [PendingPacks(names=["m1", "m2"], error=None)]
    assert [name for name, *_ in refusing.refused] == ["m0"]


def test_what_fails_after_the_commit_comes_again_together_and_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    packs = [("now", world.pack(MINUTE)), *named(world, 3)]

    def failing(*_: object) -> None:
        raise CorruptMetadata("a subscription")

    with monkeypatch.context() as patch:
        patch.setattr("tidewheel.flows.delivery.ingest.send_direct", failing)
        [left] = ingest_group(packs, lambda some: ingest(world.service, TOPIC, some), Refusing(), always)
    assert left.names == ["now", "m0", "m1", "m2"]
    assert ingest_group(packs, lambda some: ingest(world.service, TOPIC, some), Refusing(), always) == []
    assert [bucket.rows for bucket in world.service.buckets.all(TOPIC)] == [3]


def test_the_progress_of_a_pack_is_known_for_as_long_as_queues_keep_the_pack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
    [left] = ingest_group(packs, lambda some: ingest(world.service, TOPIC, some), Refusing(), always)
    assert (len(left.names), asked) == (20, [TOPIC])


def test_what_there_is_no_time_for_comes_again_and_is_not_begun() -> None:
    world = World()
    packs, answers = named(world, 4), iter([True, True, False])

    def ingest_packs(some: list[Pack]) -> Ingested:
        if len(some) > 2:
            raise CorruptPack("a message")
        return ingest(world.service, TOPIC, some)

    assert ingest_group(packs, ingest_packs, Refusing(), lambda: next(answers)) == [
        PendingPacks(names=["m2", "m3"], error=None)
    ]
    assert sum(bucket.rows for bucket in world.service.buckets.all(TOPIC)) == 2
