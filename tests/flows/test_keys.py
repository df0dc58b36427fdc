"""Ingest settles deduplication, replacement, cancels and moves by key."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.flows.world import (
    DAY,
    HOUR,
    MINUTE,
    START_MS,
    TOPIC,
    Crash,
    CrashingPorts,
    World,
    ids_of,
    once,
)
from tidewheel.errors import UnknownTopic
from tidewheel.flows.administration.cancel import Cancelled, TooLate, cancel, cancel_key, cancel_many
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.delivery.keys import settle_keys
from tidewheel.model.message import Message, MessageId, id_bytes, id_text
from tidewheel.model.pack import Arrival, Pack, decode_pack, packs
from tidewheel.model.tombstone import tombstone, ttl_s
from tidewheel.model.validation import check_message, moved

DELAYS = {"in a ledger": HOUR, "direct": MINUTE}


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
    world.run(DAY)
    assert world.received() == once([id_of(newer)])


@pytest.mark.parametrize("delay_ms", DELAYS.values(), ids=DELAYS)
def test_a_message_is_dropped_while_another_one_with_its_key_waits(delay_ms: int) -> None:
    world = World()
    first = keyed(world, delay_ms)
    world.ingest(first)
    world.clock.advance_ms(1000)
    world.ingest(keyed(world, 2 * delay_ms))
    world.ingest(keyed(world, 3 * delay_ms, key="other"))
    world.run(DAY)
    assert world.received()[id_of(first)] == 1
    assert len(world.received()) == 2


def test_a_key_is_free_again_once_its_message_is_due() -> None:
    world = World()
    first = keyed(world, HOUR)
    world.ingest(first)
    world.run(HOUR)
    second = keyed(world, HOUR)
    world.ingest(second)
    world.run(2 * HOUR)
    assert world.received() == once([id_of(first), id_of(second)])


def test_the_same_batch_again_changes_nothing() -> None:
    world = World()
    batch = [keyed(world, HOUR), keyed(world, 2 * HOUR), keyed(world, MINUTE, key="direct")]
    world.ingest(*batch)
    objects = world.service.objects.names()
    again = world.ingest(*batch)
    assert again.superseded == 1
    assert world.service.objects.names() == objects
    world.run(DAY)
    assert set(world.received()) == {id_of(batch[0]), id_of(batch[2])}
    assert world.received()[id_of(batch[0])] == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_that_come_in_any_order_one_is_delivered(order: tuple[int, int]) -> None:
    world = World()
    batch = [keyed(world, HOUR), keyed(world, 2 * HOUR, ahead_ms=5)]
    for i in order:
        world.ingest(batch[i])
    world.run(DAY)
    assert world.received() == once([id_of(batch[order[0]])])


def test_an_older_message_whose_time_has_passed_before_the_newer_was_sent_is_no_copy_of_it() -> None:
    world = World()
    late = keyed(world, MINUTE)
    world.clock.advance_ms(HOUR)
    newer = keyed(world, HOUR)
    world.ingest(newer)
    world.ingest(late)
    world.run(DAY)
    assert set(world.received()) == {id_of(late), id_of(newer)}


def test_a_key_whose_message_was_cancelled_is_free() -> None:
    world = World()
    first = keyed(world, HOUR)
    world.ingest(first)
    assert cancel_by_id(world, id_of(first)) == Cancelled(id=id_of(first))
    dropped_before = keyed(world, HOUR)
    world.ingest(dropped_before)
    world.run(DAY)
    assert world.received() == once([id_of(dropped_before)])


def test_a_copy_that_was_dropped_does_not_take_the_key_when_its_batch_comes_again() -> None:
    world = World()
    first, copy = keyed(world, HOUR), keyed(world, 2 * HOUR, ahead_ms=1)
    world.ingest(first)
    world.ingest(copy)
    cancel_by_id(world, id_of(first))
    world.ingest(copy)
    later = keyed(world, 3 * HOUR, ahead_ms=2)
    world.ingest(later)
    world.run(DAY)
    assert world.received() == once([id_of(later)])


# ---- replacement
@pytest.mark.parametrize("together", [True, False])
def test_the_newest_of_many_replacing_messages_is_the_one_that_comes(together: bool) -> None:
    world = World()
    versions = [keyed(world, HOUR + i * MINUTE, replace=True, ahead_ms=i) for i in range(10)]
    if together:
        done = world.ingest(*versions)
        assert done.superseded == 9
    else:
        shuffled = random.Random(3).sample(versions, len(versions))
        for each in shuffled:
            world.ingest(each)
    world.run(DAY)
    assert world.received() == once([id_of(versions[-1])])


def test_a_pack_that_sqs_hands_out_twice_in_one_batch_does_not_lose_against_itself() -> None:
    world = World()
    message = keyed(world, HOUR, replace=True)
    world.ingest(message, message)
    world.run(DAY)
    assert world.received() == once([id_of(message)])


def test_a_late_message_that_was_due_before_a_newer_one_was_sent_comes_all_the_same() -> None:
    world = World()
    late = keyed(world, MINUTE, replace=True)
    world.clock.advance_ms(HOUR)
    world.ingest(newer := keyed(world, HOUR))
    world.ingest(late)
    world.run(DAY)
    assert world.received() == once([id_of(late), id_of(newer)])


def test_messages_of_one_millisecond_are_told_apart_by_the_senders_count() -> None:
    world = World()
    versions = [keyed(world, HOUR, replace=True) for _ in range(3)]
    for each in (versions[2], versions[0], versions[1]):
        world.ingest(each)
    world.run(DAY)
    assert world.received() == once([id_of(versions[2])])


def test_what_a_replacing_message_took_the_place_of_stays_dropped_when_others_have_come_since() -> None:
    world = World()
    old = keyed(world, 3 * HOUR)
    world.clock.advance_ms(1)
    world.ingest(replacing := keyed(world, MINUTE, replace=True))
    world.run(DAY)
    world.ingest(later := keyed(world, HOUR))
    world.ingest(old)
    world.run(2 * DAY)
    assert world.received() == once([id_of(replacing), id_of(later)])


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


def test_a_replacing_message_can_bring_the_time_forward_and_push_it_back() -> None:
    world = World()
    world.ingest(keyed(world, DAY, replace=True))
    sooner = keyed(world, MINUTE, replace=True, ahead_ms=1)
    world.ingest(sooner)
    world.run(2 * DAY)
    assert world.received() == once([id_of(sooner)])


def test_what_is_sealed_is_delivered_and_so_is_its_successor() -> None:
    world = World()
    first = keyed(world, HOUR, replace=True)
    world.ingest(first)
    world.run(HOUR - 3 * MINUTE)
    second = keyed(world, HOUR, replace=True)
    world.ingest(second)
    world.run(DAY)
    assert world.received() == once([id_of(first), id_of(second)])


# ---- cancel
def test_a_cancel_by_id_holds_for_what_is_still_in_the_ingest_queue() -> None:
    world = World()
    far, near = world.pack(HOUR), world.pack(15 * MINUTE)
    for pack in (far, near):
        [message_id] = ids_of(pack)
        assert cancel_by_id(world, MessageId(message_id))
    world.ingest(far)
    world.run(8 * MINUTE)  # near is sealed now: it would go direct
    world.ingest(near)
    world.run(DAY)
    assert world.received() == once([])


def test_cancelling_twice_says_cancelled_even_when_the_slot_is_sealed_by_then() -> None:
    world = World()
    [sent] = world.send(HOUR)
    assert cancel_by_id(world, MessageId(sent)) == Cancelled(id=MessageId(sent))
    world.run(HOUR)
    assert cancel_by_id(world, MessageId(sent)) == Cancelled(id=MessageId(sent))
    assert world.received() == once([])


def test_a_cancel_after_the_seal_is_too_late_and_the_message_comes() -> None:
    world = World()
    [sent] = world.send(HOUR)
    world.run(HOUR - 5 * MINUTE)
    assert cancel_by_id(world, MessageId(sent)) == TooLate(id=MessageId(sent))
    world.run(DAY)
    assert world.received() == once([sent])


def test_many_are_cancelled_in_few_transactions_and_each_has_its_answer() -> None:
    world = World()
    soon, *far = map(MessageId, world.send(HOUR, *(2 * HOUR + i for i in range(200))))
    world.run(HOUR - 3 * MINUTE)
    assert cancel_by_id(world, far[7])
    asked = [*far[:150], soon, far[0]]
    results = cancel_many(world.service, world.state, asked, world.clock.now_ms())
    assert results == [*(Cancelled(id=each) for each in far[:150]), TooLate(id=soon), Cancelled(id=far[0])]
    world.run(DAY)
    assert world.received() == once([soon, *far[150:]])


def test_a_cancel_by_key_stops_what_waits_and_what_is_still_on_its_way() -> None:
    world = World()
    ingested, queued = keyed(world, HOUR), keyed(world, MINUTE)
    world.ingest(ingested)
    assert cancel_by_key(world) == Cancelled(id=id_of(ingested))
    world.ingest(queued)
    world.run(DAY)
    assert world.received() == once([])


def test_a_cancel_by_a_key_that_nothing_has_used_stops_what_is_on_its_way() -> None:
    world = World()
    queued, newer = keyed(world, HOUR), keyed(world, HOUR, ahead_ms=60_000)
    assert cancel_by_key(world) == Cancelled(id=None)
    world.ingest(newer)
    world.ingest(queued)
    world.run(DAY)
    assert world.received() == once([id_of(newer)])


def test_a_message_that_is_sent_after_a_cancel_by_key_lives() -> None:
    world = World()
    first = keyed(world, HOUR)
    world.ingest(first)
    cancel_by_key(world)
    world.clock.advance_ms(1)
    second = keyed(world, HOUR)
    world.ingest(second)
    older = keyed(world, 30 * MINUTE, ahead_ms=-2)
    world.ingest(older)
    world.run(DAY)
    assert world.received() == once([id_of(second)])


def test_a_second_cancel_by_key_covers_what_was_sent_between_the_two() -> None:
    world = World()
    world.ingest(keyed(world, HOUR))
    cancel_by_key(world)
    world.clock.advance_ms(10)
    between = keyed(world, HOUR)
    world.clock.advance_ms(10)
    assert cancel_by_key(world)
    world.ingest(between)
    world.run(DAY)
    assert world.received() == once([])


def test_a_cancel_by_key_is_too_late_when_a_replaced_message_is_sealed_and_still_to_come() -> None:
    world = World()
    first = keyed(world, HOUR, replace=True)
    world.ingest(first)
    world.run(HOUR - 5 * MINUTE)
    second = keyed(world, HOUR, replace=True)
    world.ingest(second)
    assert isinstance(cancel_by_key(world), TooLate)
    world.run(DAY)
    assert world.received() == once([id_of(first)])


def test_a_cancel_by_key_is_too_late_for_the_first_of_several_that_were_replaced() -> None:
    world = World()
    for minutes in (6, 12, 50):  # sealed, still open, far
        world.ingest(keyed(world, minutes * MINUTE, replace=True))
        world.clock.advance_ms(1)
    [first] = world.received()
    assert isinstance(cancel_by_key(world), TooLate)
    world.run(DAY)
    assert world.received() == once([first])
    assert isinstance(cancel_by_key(world), Cancelled)


def test_what_a_cancel_was_too_late_for_is_remembered_by_the_next_cancel_however_often_its_pack_comes() -> None:
    world = World()
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
    world = World()
    versions = [keyed(world, 0, replace=True, ahead_ms=i) for i in range(3)]
    world.ingest(*versions)
    assert world.received() == once([id_of(each) for each in versions])


def test_a_message_that_is_sent_after_a_cancel_that_came_too_late_lives() -> None:
    world = World()
    first = keyed(world, HOUR)
    world.ingest(first)
    world.run(HOUR - 5 * MINUTE)
    assert isinstance(cancel_by_key(world), TooLate)
    world.clock.advance_ms(1)
    world.ingest(second := keyed(world, HOUR))
    world.run(DAY)
    assert world.received() == once([id_of(first), id_of(second)])


def test_a_cancel_by_key_after_delivery_is_too_late() -> None:
    world = World()
    first = keyed(world, HOUR)
    world.ingest(first)
    world.run(2 * HOUR)
    assert cancel_by_key(world) == TooLate(id=id_of(first))
    assert cancel_by_key(world) == TooLate(id=id_of(first))


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
    world.run(DAY)
    assert world.received() == once([id_of(new)])


def test_a_client_that_dies_after_sending_has_moved_the_message_all_the_same() -> None:
    world = World()
    old = world.pack(HOUR)
    world.ingest(old)
    world.ingest(new := successor(world, old, 3 * HOUR))
    world.run(DAY)
    assert world.received() == once([id_of(new)])


def test_a_move_that_comes_after_the_seal_drops_the_new_message() -> None:
    world = World()
    old = world.pack(HOUR)
    world.ingest(old)
    new = successor(world, old, 3 * HOUR)
    world.run(HOUR - 5 * MINUTE)
    assert not entomb(world, old, new)
    world.ingest(new)
    world.run(DAY)
    assert world.received() == once([id_of(old)])


def test_of_two_moves_of_one_message_one_wins() -> None:
    world = World()
    old = world.pack(HOUR)
    world.ingest(old)
    one, other = successor(world, old, 2 * HOUR), successor(world, old, 3 * HOUR)
    world.ingest(other)
    assert not entomb(world, old, one)
    world.ingest(one)
    world.run(DAY)
    assert world.received() == once([id_of(other)])


def test_a_cancel_by_an_old_id_cancels_the_message_at_its_new_time() -> None:
    world = World()
    old = world.pack(HOUR)
    world.ingest(old)
    new = successor(world, old, 2 * HOUR)
    newest = successor(world, new, 3 * HOUR)
    assert entomb(world, old, new) and entomb(world, new, newest)
    assert cancel_by_id(world, id_of(old)) == Cancelled(id=id_of(newest))
    world.ingest(new, newest)
    world.run(DAY)
    assert world.received() == once([])


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
    world.run(DAY)
    assert world.received() == once([id_of(newest)])


def test_a_cancel_by_key_stops_a_message_that_is_being_moved() -> None:
    world = World()
    old = keyed(world, HOUR, replace=True)
    world.ingest(old)
    new = moved_keyed(world, old, 2 * HOUR)
    assert entomb(world, old, new)
    assert cancel_by_key(world) == Cancelled(id=id_of(new))
    world.ingest(new)
    world.run(DAY)
    assert world.received() == once([])


# ---- crashes
@pytest.mark.parametrize("when", ["before", "after"])
def test_wherever_ingest_dies_each_key_has_one_message_and_none_is_lost(when: str) -> None:
    for at in range(1, 60):
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
        world.ports.plan.schedule(at, when)
        try:
            world.ingest(*batch)
            died = False
        except Crash:
            died = True
        world.ports.plan.disarm()
        world.ingest(*batch)
        world.run_on(DAY)
        expected = {id_of(batch[i]) for i in (1, 2, 4, 5)}
        assert set(world.received()) == expected, (at, when)
        assert world.received()[id_of(batch[1])] == 1
        if not died:
            assert at > 15
            return
    raise AssertionError("ingest makes more calls than were tried")


def test_an_id_is_that_of_its_due_time() -> None:
    world = World()
    pack = keyed(world, HOUR)
    assert id_bytes(id_of(pack)) == pack.ids
    assert int.from_bytes(pack.ids[:6]) == START_MS + HOUR


# ---- a rebuild, and packs that come again
def test_a_cancel_by_key_while_the_topic_is_rebuilt_changes_nothing() -> None:
    world = World()
    world.ingest(keyed(world, 2 * HOUR))
    state, entry = world.state, world.service.keys.read(TOPIC, "k")
    version_then, now_ms = version(world), world.clock.now_ms()
    world.service.topic_states.delete(TOPIC)
    with pytest.raises(UnknownTopic):
        cancel_key(world.service, state, "k", version_then, now_ms)
    assert world.service.keys.read(TOPIC, "k") == entry
    assert world.service.topic_states.create(state)
    other = keyed(world, 3 * HOUR)
    world.ingest(other)
    assert cancel_by_key(world)
    world.run(4 * HOUR, sweeps=True)
    assert not world.received()


def test_a_message_that_was_too_late_to_be_cancelled_comes_although_its_pack_comes_again() -> None:
    world = World()
    pack = keyed(world, HOUR)
    settle_keys(world.ports, world.state, [pack], {})  # and then ingest died
    assert world.service.topic_states.seal(world.state, (START_MS + 2 * HOUR) // world.state.slot_ms) is not None
    world.clock.set_ms(START_MS + HOUR - MINUTE)
    late = cancel_by_key(world)
    assert late == TooLate(id=id_of(pack))
    world.ingest(pack)
    world.run(HOUR, sweeps=True)
    assert world.received() == {id_of(pack): 1}
