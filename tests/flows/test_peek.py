"""Peek returns the next messages by due time, and reads as few segments as possible."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.flows.test_find import gets
from tests.flows.test_tails import shrunk
from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, World
from tidewheel.flows.delivery.cancel import cancel_many
from tidewheel.flows.waiting.peek import FoundMessage, peek_messages
from tidewheel.model.message import MessageId, id_bytes, id_text
from tidewheel.model.topic_state import Purge


def found(world: World, count: int, after: bytes | None = None) -> list[FoundMessage]:
    service = world.service
    found, unreadable = peek_messages(service, world.state, count, world.clock.now_ms(), after=after)
    assert not unreadable
    return found


def peek(world: World, count: int, after: bytes | None = None) -> list[str]:
    return [id_text(each.checked.id) for each in found(world, count, after)]


def cancel(world: World, *ids: str) -> None:
    results = cancel_many(world.service, world.state, [MessageId(each) for each in ids], world.clock.now_ms())
    assert all(results)


def test_far_segments_are_not_read_and_a_ledger_without_an_earlier_row_is_not_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(segment_rows=10)
    near = world.send(*(2 * HOUR + i * 1000 for i in range(100)))
    for month in range(1, 6):
        world.send(*(month * 30 * DAY + i * 1000 for i in range(100)))
    counts = gets(world, monkeypatch)
    assert peek(world, 10) == near[:10]
    assert counts.total() == 1
    counts.clear()
    assert peek(world, 11) == near[:11]
    assert counts.total() == 2
    assert len(counts) == 1


def test_pages_of_one_millisecond_read_a_segment_of_each_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(segment_rows=10)
    ids = sorted(id for _ in range(3) for id in world.send(*[2 * HOUR] * 40))  # a sender's ids count up
    counts = gets(world, monkeypatch)
    shown = list[str]()
    while page := peek(world, 10, id_bytes(shown[-1]) if shown else None):
        shown += page
        assert counts.total() <= 4
        counts.clear()
    assert shown == ids


def test_a_segment_of_which_only_past_slots_are_occupied_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.send(HOUR, 30 * DAY)
    next_ = world.send(5 * HOUR)
    world.run(2 * HOUR)  # the first message is gone; its segment spans a month
    counts = gets(world, monkeypatch)
    assert peek(world, 1) == next_
    assert counts.total() == 1


@pytest.mark.parametrize("shift", [0, 3])
def test_tails_are_read_only_of_ledgers_that_may_hold_the_next_rows(
    shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    near = world.send(*(HOUR + i * MINUTE for i in range(30)))
    for month in (1, 2, 3):
        world.send(*(month * 30 * DAY + i * HOUR for i in range(30)))
    shrunk(world, shift=shift)
    counts = gets(world, monkeypatch)
    assert peek(world, 5) == near[:5]
    assert list(counts.values()) == [2]  # a tail and a segment of one ledger


def test_purged_and_expired_messages_are_not_shown() -> None:
    world = World()
    kept = world.send(2 * HOUR)
    expired = world.send(HOUR, expires_in=60)
    assert peek(world, 9) == expired + kept
    state = world.state
    world.clock.advance_ms(HOUR + 2 * MINUTE)  # nothing was dispatched: it is overdue
    assert peek(world, 9) == kept
    purge = Purge(first_ms=START_MS, end_ms=START_MS + 3 * HOUR, sent_before_ms=world.clock.now_ms())
    assert world.service.topic_states.set_purges(state, 0, [purge])
    assert peek(world, 9) == []
    late = world.send(HOUR)
    assert peek(world, 9) == late


def test_what_is_planned_does_not_wait_any_more_and_what_is_overdue_does() -> None:
    world = World()
    sent = world.send(HOUR, 3 * HOUR)
    world.run(2 * HOUR)
    assert peek(world, 9) == sent[1:]
    world.run(4 * HOUR, schedules=False)
    assert peek(world, 9) == sent[1:]


def test_copies_in_two_ledgers_are_one_message() -> None:
    world = World()
    again, once = world.pack(HOUR, HOUR + 1000), world.pack(2 * HOUR)
    world.ingest(again)
    world.ingest(again, once)  # grouped anew by SQS: another ledger
    assert len(world.service.buckets.all(TOPIC)) == 2
    shown = peek(world, 9)
    assert len(shown) == len(set(shown)) == 3


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    ledgers=st.lists(st.lists(st.integers(1, 400), min_size=1, max_size=25), min_size=1, max_size=5),
    cancelled=st.sets(st.integers(0, 60)),
    count=st.integers(1, 40),
    skipped=st.integers(-1, 30),
    coarse=st.sampled_from([None, 0, 2, 5]),
)
def test_peek_is_the_sorted_list_of_what_waits(
    ledgers: list[list[int]], cancelled: set[int], count: int, skipped: int, coarse: int | None
) -> None:
    world = World(segment_rows=4)
    sent = sorted(id for hours in ledgers for id in world.send(*(HOUR + each * 20 * MINUTE for each in hours)))
    gone = {sent[i] for i in cancelled if i < len(sent)}
    if gone:
        cancel(world, *gone)
    if coarse is not None:
        shrunk(world, shift=coarse)
    after = id_bytes(sent[skipped]) if 0 <= skipped < len(sent) else None
    waiting = [each for each in sent if each not in gone and (after is None or id_bytes(each) > after)]
    assert peek(world, count, after) == waiting[:count]
