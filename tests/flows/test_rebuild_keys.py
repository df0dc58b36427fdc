"""Keys after a rebuild from S3 alone: what is cancelled, replaced or deduplicated by key is so afterwards too."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.flows.test_rebuild import a_world, checkpoint, lose_table, run_rebuild
from tests.flows.world import DAY, HOUR, MINUTE, TOPIC, World, ids_of, once
from tidewheel.flows.administration.cancel import Cancelled, CancelResult, TooLate, cancel, cancel_key
from tidewheel.model.message import MessageId


def cancel_by_key(world: World, key: str = "k") -> CancelResult:
    now_ms = world.clock.now_ms()
    return cancel_key(world.service, TOPIC, world.state.slot_ms, key, (now_ms, world.ids.sequence()), now_ms)


def lost_and_rebuilt(world: World, **options: Any) -> None:
    lose_table(world)
    world.clock.advance_ms(1000)
    run_rebuild(world, **options)
    world.clock.advance_ms(1000)


def test_a_cancel_by_key_finds_the_message_of_a_ledger() -> None:
    world = a_world()
    [sent] = world.send(DAY, key="k")
    checkpoint(world)
    lost_and_rebuilt(world)
    assert cancel_by_key(world) == Cancelled(id=MessageId(sent))
    world.run(2 * DAY, sweeps=True)
    assert not world.received()


def test_a_message_with_replace_replaces_the_message_of_a_ledger() -> None:
    world = a_world()
    world.send(DAY, key="k")
    checkpoint(world)
    lost_and_rebuilt(world)
    newer = world.send(2 * DAY, key="k", replace=True)
    world.run(3 * DAY, sweeps=True)
    assert world.received() == once(newer)


def test_a_key_that_waits_in_a_ledger_deduplicates() -> None:
    world = a_world()
    first = world.send(DAY, key="k")
    checkpoint(world)
    lost_and_rebuilt(world)
    world.send(DAY, key="k")
    world.run(2 * DAY, sweeps=True)
    assert world.received() == once(first)


def test_of_several_messages_of_a_key_the_newest_that_is_not_cancelled_has_the_key() -> None:
    world = a_world()
    world.send(DAY, key="k")
    world.clock.advance_ms(1000)
    [second] = world.send(2 * DAY, key="k", replace=True)
    world.clock.advance_ms(1000)
    assert cancel(world.service, TOPIC, world.state.slot_ms, MessageId(second), world.clock.now_ms())
    world.clock.advance_ms(1000)
    [third] = world.send(3 * DAY, key="k")
    checkpoint(world)
    lost_and_rebuilt(world)
    assert cancel_by_key(world) == Cancelled(id=MessageId(third))
    world.run(4 * DAY, sweeps=True)
    assert not world.received()


def test_a_cancelled_key_is_free() -> None:
    world = a_world()
    world.send(DAY, key="k")
    world.clock.advance_ms(1000)
    assert cancel_by_key(world)
    checkpoint(world)
    lost_and_rebuilt(world)
    newer = world.send(DAY, key="k")
    world.run(2 * DAY, sweeps=True)
    assert world.received() == once(newer)


def test_a_message_that_was_sent_before_a_cancel_by_key_and_is_ingested_after_the_rebuild_does_not_come() -> None:
    world = a_world()
    pack = world.pack(DAY, key="k")
    world.clock.advance_ms(1000)
    assert cancel_by_key(world) == Cancelled(id=None)
    checkpoint(world)
    lost_and_rebuilt(world)
    world.ingest(pack)
    world.run(2 * DAY, sweeps=True)
    assert not world.received()


def test_a_message_that_was_replaced_and_is_ingested_after_the_rebuild_does_not_come() -> None:
    world = a_world()
    older = world.pack(DAY, key="k", replace=True)
    world.clock.advance_ms(1000)
    [newer] = world.send(2 * DAY, key="k", replace=True)
    assert cancel(world.service, TOPIC, world.state.slot_ms, MessageId(newer), world.clock.now_ms())
    checkpoint(world)
    lost_and_rebuilt(world)
    world.ingest(older)
    world.run(3 * DAY, sweeps=True)
    assert not world.received()


def test_a_pack_with_a_key_that_waits_in_the_queue_is_settled_after_the_rebuild() -> None:
    world = a_world()
    world.send(DAY, key="k")
    world.clock.advance_ms(1000)
    newer = world.pack(2 * DAY, key="k", replace=True)
    checkpoint(world)
    lost_and_rebuilt(world)
    world.ingest(newer)
    world.run(3 * DAY, sweeps=True)
    assert world.received() == once(ids_of(newer))


def test_of_a_sealed_message_a_cancel_by_key_says_that_it_is_too_late() -> None:
    world = a_world()
    [from_ledger] = world.send(DAY, key="from a ledger")
    world.run(DAY - 6 * MINUTE)
    [direct] = world.send(6 * MINUTE, key="direct")
    checkpoint(world)
    world.collect()
    lost_and_rebuilt(world)
    assert cancel_by_key(world, "from a ledger") == TooLate(id=MessageId(from_ledger))
    assert cancel_by_key(world, "direct") == TooLate(id=MessageId(direct))


def test_of_a_message_that_became_due_while_the_table_was_gone_a_cancel_by_key_says_that_it_is_too_late() -> None:
    world = a_world()
    [sent] = world.send(HOUR, key="k")
    checkpoint(world)
    lose_table(world)
    world.clock.advance_ms(3 * HOUR)
    run_rebuild(world)
    assert cancel_by_key(world) == TooLate(id=MessageId(sent))
    world.run(HOUR, sweeps=True)
    assert world.received() == once([sent])


def test_a_purged_message_has_no_key() -> None:
    world = a_world()
    world.send(DAY, key="k")
    world.clock.advance_ms(1000)
    from tidewheel.flows.administration.purge import purge

    purge(world.ports, world.clock, TOPIC)
    checkpoint(world)
    world.clock.advance_ms(10 * MINUTE)
    lost_and_rebuilt(world)
    newer = world.send(DAY, key="k")
    world.run(2 * DAY, sweeps=True)
    assert world.received() == once(newer)


def test_keys_in_the_table_stay_as_they_are() -> None:
    world = a_world()
    world.send(DAY, key="k", replace=True)
    assert cancel_by_key(world, "other") == Cancelled(id=None)
    before = dict(world.service.store.of(TOPIC).keys)
    world.clock.advance_ms(1000)
    run_rebuild(world, replace_index=True)
    assert dict(world.service.store.of(TOPIC).keys) == before and len(before) == 2


def received_once(world: World, ids: list[str]) -> None:
    assert world.received() == Counter(ids)
