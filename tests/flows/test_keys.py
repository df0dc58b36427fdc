"""Ingest settles deduplication, replacement, cancels and moves by key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, CrashingPorts, World, deaths, once
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.delivery.cancel import Cancelled, TooLate, cancel, cancel_key
from tidewheel.flows.delivery.keys import settle_keys
from tidewheel.model.message import Message, MessageId, id_text
from tidewheel.model.pack import Arrival, Pack, decode_pack, packs
from tidewheel.model.tombstone import tombstone, ttl_s
from tidewheel.model.validation import check_message, moved


def keyed(world: World, delay_ms: int, *, key: str = "k", replace: bool = False, ahead_ms: int = 0) -> Pack:
    """Returns a pack with a keyed message from a sender with a fast clock."""
    now = world.clock.now_ms() + ahead_ms
    message = Message(body="hello", delay=delay_ms / 1000, key=key, replace=replace)
    [(_, data)] = packs(TOPIC, world.state.generation, now, [check_message(message, world.ids, now)])
    return decode_pack(data, now)


def id_of(pack: Pack) -> MessageId:
    return id_text(pack.ids)


def version(world: World) -> tuple[int, int]:
    return world.clock.now_ms(), world.ids.sequence()


def cancel_by_key(world: World, key: str = "k") -> Any:
    return cancel_key(world.service, world.state, key, version(world), world.clock.now_ms())


def cancel_by_id(world: World, message_id: MessageId) -> Any:
    return cancel(world.service, world.state, message_id, world.clock.now_ms())


# ---- deduplication
def test_a_message_that_an_earlier_try_took_for_purged_is_replaced_all_the_same() -> None:
    world = World()
    slow = keyed(world, HOUR, ahead_ms=-1000)
    first = Arrival(name="m1", retried=False, taken_ms=START_MS + 10)
    world.ingest(replace(slow, arrival=first))
    purge(world.service, world.clock, TOPIC)
    world.clock.advance_ms(100)
    world.ingest(replace(slow, arrival=replace(first, retried=True)))
    newer = keyed(world, 2 * HOUR, replace=True)
    world.ingest(newer)
    assert world.received_after(DAY) == once([id_of(newer)])


def test_a_message_that_an_earlier_try_took_for_unpurged_frees_its_key() -> None:
    world = World()
    fast = replace(keyed(world, HOUR, ahead_ms=5000), known_purge_ms=0)
    first = Arrival(name="m1", retried=False, taken_ms=START_MS)
    world.ingest(replace(fast, arrival=first))
    world.clock.advance_ms(100)
    purge(world.service, world.clock, TOPIC)
    world.ingest(replace(fast, arrival=replace(first, retried=True)))
    world.clock.advance_ms(10_000)
    newer = keyed(world, 2 * HOUR)
    world.ingest(newer)
    assert world.received_after(DAY) == once([id_of(newer)])


@pytest.mark.parametrize("replaces", [False, True])
def test_an_older_message_whose_time_has_passed_before_the_newer_was_sent_is_no_copy_of_it(replaces: bool) -> None:
    world = World()
    late = keyed(world, MINUTE, replace=replaces)
    world.clock.advance_ms(HOUR)
    newer = keyed(world, HOUR)
    world.ingest(newer)
    world.ingest(late)
    world.run(DAY)
    assert set(world.received()) == {id_of(late), id_of(newer)}


def test_a_copy_that_was_dropped_does_not_take_the_key_when_its_batch_comes_again() -> None:
    world = World()
    first, copy = keyed(world, HOUR), keyed(world, 2 * HOUR, ahead_ms=1)
    world.ingest(first)
    world.ingest(copy)
    cancel_by_id(world, id_of(first))
    world.ingest(copy)
    later = keyed(world, 3 * HOUR, ahead_ms=2)
    world.ingest(later)
    assert world.received_after(DAY) == once([id_of(later)])


# ---- replacement
def test_what_a_replacing_message_took_the_place_of_stays_dropped_when_others_have_come_since() -> None:
    world = World()
    old = keyed(world, 3 * HOUR)
    world.clock.advance_ms(1)
    world.ingest(replacing := keyed(world, MINUTE, replace=True))
    world.run(DAY)
    world.ingest(later := keyed(world, HOUR))
    world.ingest(old)
    assert world.received_after(2 * DAY) == once([id_of(replacing), id_of(later)])


def test_what_a_dropped_message_had_replaced_stays_dropped_when_the_newest_is_cancelled() -> None:
    world = World()
    old = keyed(world, HOUR)
    world.clock.advance_ms(1000)
    replacing = keyed(world, HOUR, replace=True)
    world.clock.advance_ms(1000)
    newest = keyed(world, HOUR)
    world.ingest(newest)
    world.ingest(replacing)
    assert cancel_by_id(world, id_of(newest))
    world.ingest(old)
    world.run(2 * HOUR)
    assert world.received() == {}


# ---- cancel


def test_a_second_cancel_by_key_covers_what_was_sent_between_the_two() -> None:
    world = World()
    world.ingest(keyed(world, HOUR))
    cancel_by_key(world)
    world.clock.advance_ms(10)
    between = keyed(world, HOUR)
    world.clock.advance_ms(10)
    assert cancel_by_key(world)
    world.ingest(between)
    assert world.received_after(DAY) == once([])


def test_a_cancel_by_key_is_too_late_for_the_first_of_several_that_were_replaced() -> None:
    world = World(claims="none")
    for minutes in (6, 12, 50):  # sealed, still open, far
        world.ingest(keyed(world, minutes * MINUTE, replace=True))
        world.clock.advance_ms(1)
    [first] = world.received()
    assert isinstance(cancel_by_key(world), TooLate)
    assert world.received_after(DAY) == once([first])
    assert isinstance(cancel_by_key(world), Cancelled)


def test_what_a_cancel_was_too_late_for_is_remembered_by_the_next_cancel_however_often_its_pack_comes() -> None:
    world = World(claims="none")
    old = keyed(world, HOUR, replace=True)
    world.ingest(old)
    world.run(HOUR - 6 * MINUTE)
    assert isinstance(cancel_by_key(world), TooLate)
    world.ingest(old)
    world.clock.advance_ms(1)
    world.ingest(keyed(world, HOUR, replace=True))
    assert isinstance(cancel_by_key(world), TooLate)
    world.run(DAY)
    assert set(world.received()) == {id_of(old)}


def test_messages_without_a_delay_replace_nothing_that_was_due_when_they_were_sent() -> None:
    world = World(claims="none")
    versions = [keyed(world, 0, replace=True, ahead_ms=i) for i in range(3)]
    world.ingest(*versions)
    assert world.received() == once([id_of(each) for each in versions])


def test_a_message_that_is_sent_after_a_cancel_that_came_too_late_lives() -> None:
    world = World(claims="none")
    first = keyed(world, HOUR)
    world.ingest(first)
    world.run(HOUR - 5 * MINUTE)
    assert isinstance(cancel_by_key(world), TooLate)
    world.clock.advance_ms(1)
    world.ingest(second := keyed(world, HOUR))
    assert world.received_after(DAY) == once([id_of(first), id_of(second)])


# ---- moves
def successor(world: World, old: Pack, delay_ms: int) -> Pack:
    """Returns a client's pack that moves the message of another pack."""
    now = world.clock.now_ms()
    message = check_message(Message(body="hello"), world.ids, now)
    new = moved(message, world.ids, now + delay_ms, old.ids)
    world.service.tombstones.allow_move(TOPIC, id_text(new.id), id_of(old), ttl_s(0, now))
    [(_, data)] = packs(TOPIC, world.state.generation, now, [new])
    return decode_pack(data, now)


def entomb(world: World, old: Pack, new: Pack) -> bool:
    """Performs the client's half of a move. Returns whether the move is done."""
    wanted = tombstone(id_of(old), world.state.slot_ms, world.clock.now_ms(), to=id_of(new))
    outcome = world.service.tombstones.cancel(TOPIC, wanted)
    return outcome.done or (outcome.found is not None and outcome.found.to == id_of(new))


@pytest.mark.parametrize("client_first", [True, False])
@pytest.mark.parametrize("delay_ms", [MINUTE, 3 * HOUR])
def test_of_a_moved_message_only_the_new_one_comes(client_first: bool, delay_ms: int) -> None:
    world = World()
    old = world.pack(HOUR)
    world.ingest(old)
    new = successor(world, old, delay_ms)
    steps: list[Callable[[], Any]] = [lambda: entomb(world, old, new), lambda: world.ingest(new)]
    done = [step() for step in (steps if client_first else reversed(steps))]
    assert True in done
    assert world.received_after(DAY) == once([id_of(new)])


def moved_keyed(world: World, old: Pack, delay_ms: int) -> Pack:
    """The pack by which a client whose clock is right moves a message with a key."""
    now = world.clock.now_ms()
    message = Message(body="hello", key="k", replace=True)
    new = moved(check_message(message, world.ids, now), world.ids, now + delay_ms, old.ids)
    world.service.tombstones.allow_move(TOPIC, id_text(new.id), id_of(old), ttl_s(0, now))
    [(_, data)] = packs(TOPIC, world.state.generation, now, [new])
    return decode_pack(data, now)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_a_move_of_a_message_from_a_clock_that_is_ahead_is_not_lost(together: bool, again: bool) -> None:
    world = World()
    old = keyed(world, HOUR, replace=True, ahead_ms=5_000)
    new = moved_keyed(world, old, 2 * HOUR)
    newest = moved_keyed(world, new, 3 * HOUR)
    batches = [[newest, new, old]] if together else [[old], [new], [newest]]
    for batch in [*batches, *batches] if again else batches:
        world.ingest(*batch)
    assert world.received_after(DAY) == once([id_of(newest)])


def test_a_cancel_by_key_stops_a_message_that_is_being_moved() -> None:
    world = World()
    old = keyed(world, HOUR, replace=True)
    world.ingest(old)
    new = moved_keyed(world, old, 2 * HOUR)
    assert entomb(world, old, new)
    assert cancel_by_key(world) == Cancelled(id=id_of(new))
    world.ingest(new)
    assert world.received_after(DAY) == once([])


# ---- crashes
def test_wherever_ingest_dies_each_key_has_one_message_and_none_is_lost() -> None:
    for death in deaths(least=15):
        world = World(wrap=CrashingPorts)
        old = world.pack(2 * HOUR)
        world.ingest(old)
        batch = [
            keyed(world, HOUR, replace=True),
            keyed(world, 2 * HOUR, replace=True, ahead_ms=1),
            keyed(world, HOUR, key="dedupe"),
            keyed(world, MINUTE, key="dedupe", ahead_ms=1),
            keyed(world, MINUTE, key="direct", replace=True),
            successor(world, old, 3 * HOUR),
        ]
        with death.of(world):
            world.ingest(*batch)
        world.ingest(*batch)
        world.run_on(DAY)
        expected = {id_of(batch[i]) for i in (1, 2, 4, 5)}
        assert set(world.received()) == expected, death
        assert world.received()[id_of(batch[1])] == 1


# ---- a rebuild, and packs that come again


def test_a_message_that_was_too_late_to_be_cancelled_comes_although_its_pack_comes_again() -> None:
    world = World(claims="none")
    pack = keyed(world, HOUR)
    settle_keys(world.ports, world.state, [pack], {})  # and then ingest died
    assert world.service.topic_states.seal(world.state, (START_MS + 2 * HOUR) // world.state.slot_ms) is not None
    world.clock.set_ms(START_MS + HOUR - MINUTE)
    late = cancel_by_key(world)
    assert late == TooLate(id=id_of(pack))
    world.ingest(pack)
    world.run(HOUR, sweeps=True)
    assert world.received() == {id_of(pack): 1}
