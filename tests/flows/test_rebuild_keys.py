"""After a rebuild from S3 alone, cancels, replacements and deduplication by key still hold."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.flows.test_rebuild import LEASE_S, a_world, checkpoint, lose_table, run_rebuild
from tests.flows.world import DAY, DEATHS, HOUR, MINUTE, TOPIC, World, deaths, ids_of, once, seeds
from tests.stored import stored
from tidewheel.errors import UnknownTopic
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.delivery.cancel import Cancelled, CancelResult, TooLate, cancel, cancel_key
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic, find_checkpoints
from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms
from tidewheel.model.pack import Pack
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.keys import FoundKeys, NotInLedgers


def cancel_by_key(world: World, key: str = "k") -> CancelResult:
    now_ms = world.clock.now_ms()
    return cancel_key(world.service, world.state, key, (now_ms, world.ids.sequence()), now_ms)


def lost_and_rebuilt(world: World, **options: Any) -> None:
    lose_table(world)
    world.clock.advance_ms(1000)
    run_rebuild(world, **options)
    world.clock.advance_ms(1000)


def test_of_several_messages_of_a_key_the_newest_that_is_not_cancelled_has_the_key() -> None:
    world = a_world()
    world.send(DAY, key="k")
    world.clock.advance_ms(1000)
    [second] = world.send(2 * DAY, key="k", replace=True)
    world.clock.advance_ms(1000)
    assert cancel(world.service, world.state, MessageId(second), world.clock.now_ms())
    world.clock.advance_ms(1000)
    [third] = world.send(3 * DAY, key="k")
    checkpoint(world)
    lost_and_rebuilt(world)
    assert cancel_by_key(world) == Cancelled(id=MessageId(third))
    assert not world.received_after(4 * DAY, sweeps=True)


def test_of_a_sealed_message_a_cancel_by_key_says_that_it_is_too_late() -> None:
    world = a_world(claims="none")
    [from_ledger] = world.send(DAY, key="from a ledger")
    world.run(DAY - 6 * MINUTE)
    [direct] = world.send(6 * MINUTE, key="direct")
    checkpoint(world)
    world.collect()
    lost_and_rebuilt(world)
    assert cancel_by_key(world, "from a ledger") == TooLate(id=MessageId(from_ledger))
    assert cancel_by_key(world, "direct") == TooLate(id=MessageId(direct))


def keys_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the first checkpoint's keys in later checkpoints, as for a topic with many keys."""
    monkeypatch.setattr("tidewheel.flows.maintenance.checkpoint._READ_AGAIN_MS", 10 * DAY)


def rebuilt_after_it_was_handed_out(monkeypatch: pytest.MonkeyPatch) -> tuple[World, str]:
    """Returns a topic lost just before a message with the key "k" is due, and the message's id."""
    keys_are_read_once(monkeypatch)
    world = a_world(claims="none", retention_days=1)
    [sent] = world.send(DAY, key="k")
    checkpoint(world)
    world.run(DAY - 6 * MINUTE)
    checkpoint(world)
    lost_and_rebuilt(world)
    return world, sent


def test_of_a_message_sealed_since_the_keys_were_read_a_cancel_by_key_says_that_it_is_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, sent = rebuilt_after_it_was_handed_out(monkeypatch)
    assert world.state.planned * world.state.slot_ms > id_deliver_at_ms(id_bytes(MessageId(sent))), "it was handed out"
    assert cancel_by_key(world) == TooLate(id=MessageId(sent))
    assert world.received_after(HOUR, sweeps=True) == once([sent])


def test_a_message_whose_ledger_was_handed_out_keeps_its_key_until_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    world, first = rebuilt_after_it_was_handed_out(monkeypatch)
    world.send(DAY, key="k")
    assert world.received_after(2 * DAY, sweeps=True) == once([first])


def test_a_key_of_a_kept_ledger_is_free_once_its_message_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    keys_are_read_once(monkeypatch)
    world = a_world(retention_days=10)
    first = world.send(DAY, key="k")
    world.run(2 * DAY)
    checkpoint(world)
    lost_and_rebuilt(world)
    assert not stored(world.service).of(TOPIC).keys
    newer = world.send(DAY, key="k")
    assert world.received_after(2 * DAY, sweeps=True) == once(first + newer)


def test_of_a_message_that_became_due_while_the_table_was_gone_a_cancel_by_key_says_that_it_is_too_late() -> None:
    world = a_world(claims="none")
    [sent] = world.send(HOUR, key="k")
    checkpoint(world)
    lose_table(world)
    world.clock.advance_ms(3 * HOUR)
    run_rebuild(world)
    assert cancel_by_key(world) == TooLate(id=MessageId(sent))
    assert world.received_after(HOUR, sweeps=True) == once([sent])


def test_a_purged_message_has_no_key() -> None:
    world = a_world()
    world.send(DAY, key="k")
    world.clock.advance_ms(1000)
    purge(world.ports, world.clock, TOPIC)
    checkpoint(world)
    world.clock.advance_ms(10 * MINUTE)
    lost_and_rebuilt(world)
    newer = world.send(DAY, key="k")
    assert world.received_after(2 * DAY, sweeps=True) == once(newer)


def test_keys_in_the_table_stay_as_they_are() -> None:
    world = a_world()
    world.send(DAY, key="k", replace=True)
    assert cancel_by_key(world, "other") == Cancelled(id=None)
    before = dict(stored(world.service).of(TOPIC).keys)
    world.clock.advance_ms(1000)
    run_rebuild(world, replace_index=True)
    assert dict(stored(world.service).of(TOPIC).keys) == before and len(before) == 2


def test_a_cancel_by_key_while_the_topic_is_away_promises_nothing_and_holds_afterwards() -> None:
    world = a_world()
    world.send(DAY, key="k")
    checkpoint(world)
    state = world.state
    lose_table(world)
    world.clock.advance_ms(1000)
    now_ms = world.clock.now_ms()
    with pytest.raises(UnknownTopic):
        cancel_key(world.service, state, "k", (now_ms, 1), now_ms)
    world.clock.advance_ms(1000)
    run_rebuild(world)
    world.clock.advance_ms(1000)
    assert cancel_by_key(world)
    assert not world.received_after(2 * DAY, sweeps=True)


def test_a_cancel_by_key_that_a_rebuild_overtakes_says_that_it_is_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(claims="none")
    [sent] = world.send(DAY, key="k")
    world.run(DAY - 6 * MINUTE)
    checkpoint(world)
    state, read = world.state, world.service.topic_states.read
    lose_table(world)
    world.clock.advance_ms(1000)

    def rebuild_first(topic: str) -> TopicState | None:
        monkeypatch.setattr(world.service.topic_states, "read", read)
        run_rebuild(world)
        return read(topic)

    monkeypatch.setattr(world.service.topic_states, "read", rebuild_first)
    now_ms = world.clock.now_ms()
    assert cancel_key(world.service, state, "k", (now_ms, 1), now_ms) == TooLate(id=MessageId(sent))


# --- the table is lost, and it is not: the same answers ---------------------------------------------------------


class Twin:
    """A world whose messages are known by their bodies, since ids are random."""

    def __init__(self) -> None:
        self.world = a_world(collect_interval_s=10**6)
        self.bodies: dict[str, str] = {}
        self.late: list[Pack] = []
        self.said: list[object] = []

    def act(self, what: str, key: str, delay_ms: int, *, replaces: bool, body: str) -> None:
        world = self.world
        world.clock.advance_ms(1000)
        if what in ("send", "send late"):
            pack = world.pack(delay_ms, body=body, key=key, replace=replaces)
            [id] = ids_of(pack)
            self.bodies[id] = body
            if what == "send":
                world.ingest(pack)
            else:
                self.late.append(pack)
        elif what == "ingest" and self.late:
            world.ingest(self.late.pop(0))
        elif what == "cancel":
            outcome = cancel_by_key(world, key)
            due = outcome.id is not None and id_deliver_at_ms(id_bytes(outcome.id)) <= self._now_ms
            # The key of a message that has come may be forgotten, or that of one that was cancelled.
            self.said.append("has come" if not outcome and due else bool(outcome))
        elif what == "cancel by id" and self.bodies:
            id = sorted(self.bodies, key=lambda each: self.bodies[each])[-1]
            self.said.append(bool(cancel(world.service, world.state, MessageId(id), self._now_ms)))
        elif what == "pass":
            world.run(delay_ms, sweeps=True)

    @property
    def _now_ms(self) -> int:
        return self.world.clock.now_ms()

    def received(self) -> list[str]:
        return sorted(self.bodies[id] for id in self.world.received().elements())


@pytest.mark.parametrize("seed", seeds(30, few=8))
def test_a_rebuild_from_s3_alone_answers_as_one_with_the_table(seed: int) -> None:
    kept, lost = Twin(), Twin()
    random = Random(seed)

    def acts(count: int, first: int) -> None:
        for number in range(first, first + count):
            what = random.choice(["send", "send", "send", "send late", "ingest", "cancel", "cancel by id", "pass"])
            delay_ms = random.choice([MINUTE, 8 * MINUTE, 12 * MINUTE, 40 * MINUTE, 3 * HOUR, DAY])
            replaces, key = random.random() < 0.5, random.choice("ab")
            for twin in (kept, lost):
                twin.act(what, key, delay_ms, replaces=replaces, body=f"{number:02}")

    acts(random.randint(3, 14), 0)
    for twin in (kept, lost):
        twin.world.clock.advance_ms(1000)
        checkpoint_topic(twin.world.ports, TOPIC, ahead_ms=1)
        if twin is lost:
            lose_table(twin.world)
        run_rebuild(twin.world, replace_index=True)
    acts(random.randint(3, 10), 50)
    for twin in (kept, lost):
        for pack in twin.late:
            twin.world.ingest(pack)
        twin.world.run(3 * DAY, sweeps=True)
    assert [a for a, b in zip(lost.said, kept.said, strict=True) if b != "has come"] == [
        b for b in kept.said if b != "has come"
    ]
    assert lost.received() == kept.received()


# --- a rebuild that dies ----------------------------------------------------------------------------------------


@DEATHS
def test_a_rebuild_that_dies_anywhere_and_begins_again_restores_all_keys(every: int) -> None:
    for death in deaths(every, least=30):
        world = a_world()
        [waits] = world.send(DAY, key="waits")
        cancelled = world.pack(DAY, key="cancelled")
        world.clock.advance_ms(1000)
        assert cancel_by_key(world, "cancelled")
        checkpoint(world)
        lose_table(world)
        world.clock.advance_ms(1000)
        with death.of(world):
            run_rebuild(world)
        world.clock.advance_ms(LEASE_S * 1000 + 1000)
        if world.service.topic_states.read(TOPIC) is None:
            run_rebuild(world)
        world.clock.advance_ms(1000)
        world.ingest(cancelled)
        assert cancel_by_key(world, "waits") == Cancelled(id=MessageId(waits))
        world.run(2 * DAY, sweeps=True, every_ms=HOUR)
        assert not world.received(), death


# --- checkpoints ------------------------------------------------------------------------------------------------


def test_a_checkpoint_has_few_keys() -> None:
    world = a_world()
    world.send(DAY, key="waits")
    world.send(DAY, key="replaces", replace=True)
    world.clock.advance_ms(1000)
    assert cancel_by_key(world, "cancelled")
    checkpoint(world)
    found = find_checkpoints(world.service.objects, TOPIC).newest
    assert found is not None and found.keys_examined == 3
    assert [each.key for each in found.keys] == ["cancelled", "replaces"]


def test_many_keys_are_read_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world()
    reads: list[str] = []
    not_in_ledgers = world.service.keys.not_in_ledgers

    def counted(topic: str, wanted: NotInLedgers) -> FoundKeys:
        reads.append(topic)
        return replace(not_in_ledgers(topic, wanted), examined=360_000)

    monkeypatch.setattr(world.service.keys, "not_in_ledgers", counted)
    assert cancel_by_key(world, "cancelled")
    for minutes, expected in ((0, 1), (30, 1), (29, 1), (2, 2)):
        world.clock.advance_ms(minutes * MINUTE)
        world.send(DAY + minutes)
        purge(world.ports, world.clock, TOPIC, first_ms=world.clock.now_ms() + 2 * DAY, end_ms=None)
        checkpoint(world)
        assert len(reads) == expected
        found = find_checkpoints(world.service.objects, TOPIC).newest
        assert found is not None and [each.key for each in found.keys] == ["cancelled"]
