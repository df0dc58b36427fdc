"""Dispatch of ledgers with the index in the tail gives the same rows and alarms, with one GET per due tail."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.flows.world import DAY, HOUR, START_MS, TOPIC, World, failing_reads, once
from tests.stored import stored
from tidewheel import deadline
from tidewheel.flows.delivery.deliver import deliver_part
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.load_index import completed
from tidewheel.flows.delivery.planning import next_occupied
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.ledger.bucket import Bucket, encode_tail

SLOT_MS = 300_000
LOOKAHEAD_MS = 480_000


def shrunk(world: World, *, shift: int) -> dict[str, Bucket]:
    """Moves each bucket's index to the ledger's tail with coarse slots. Returns the complete buckets by object name."""
    buckets = stored(world.service).of(TOPIC).buckets
    whole = {}
    for bucket in list(buckets.values()):
        data = world.service.objects.get_range(bucket.object_name, 0, 10**9)
        index, tail = encode_tail(bucket.slots, bucket.segments, offset=len(data))
        world.service.objects.put(bucket.object_name, data + index)
        whole[bucket.object_name] = replace(bucket, tail=tail)
        coarse = type(bucket.slots)(slot >> shift for slot in bucket.slots)
        buckets[bucket.id] = replace(bucket, tail=tail, slots=coarse, slot_shift=shift, segments=())
    return whole


def count_tails(world: World, whole: dict[str, Bucket], monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the GETs of each ledger's tail from now on."""
    tails: Counter[str] = Counter()
    get_range = world.service.objects.get_range

    def counted(name: str, offset: int, length: int) -> bytes:
        tail = whole[name].tail
        assert tail is not None
        if offset + length > tail.offset:
            assert (offset, length) == (tail.offset, tail.length)
            tails[name] += 1
        return get_range(name, offset, length)

    monkeypatch.setattr(world.service.objects, "get_range", counted)
    return tails


def spread(world: World, ledgers: int, rows: int = 12, span_ms: int = 3 * DAY) -> list[str]:
    random_ = random.Random(ledgers)
    return [id for _ in range(ledgers) for id in world.send(*(HOUR + random_.randrange(span_ms) for _ in range(rows)))]


@pytest.mark.parametrize("shift", [0, 3, 10])
def test_a_dispatch_does_with_tails_exactly_what_it_does_without(shift: int) -> None:
    plain, tailed = World(), World()
    for world in (plain, tailed):
        spread(world, 3)
    slots = sorted({slot for bucket in plain.service.buckets.all(TOPIC) for slot in bucket.slots})
    shrunk(tailed, shift=shift)
    for slot in slots:
        done = []
        for world in (plain, tailed):
            world.clock.set_ms(slot * SLOT_MS - LOOKAHEAD_MS)
            dispatched = dispatch(world.ports, TOPIC)
            assert dispatched is not None
            sent = dispatched.sent
            done.append((sent.messages, dispatched.planned_rows, sent.segments, dispatched.next_slot))
        assert done[0] == done[1]
        assert done[1][3] == min((each for each in slots if each >= tailed.state.sealed), default=None)
        assert tailed.state.next_slot == done[1][3]
    assert tailed.received().total() == 36


def test_a_dispatch_reads_the_tails_of_ledgers_that_are_due_once_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.send(HOUR, 2 * DAY)
    world.send(HOUR + 1, 3 * DAY)
    due = {bucket.object_name for bucket in world.service.buckets.all(TOPIC)}
    world.send(DAY, 2 * DAY)
    whole = shrunk(world, shift=0)
    tails = count_tails(world, whole, monkeypatch)
    world.clock.set_ms(START_MS + HOUR - LOOKAHEAD_MS)
    done = dispatch(world.ports, TOPIC)
    assert done is not None and done.sent.messages == 2
    assert tails == dict.fromkeys(due, 1)


def test_a_dispatch_reads_the_tail_of_a_coarse_ledger_once_for_the_plan_and_the_alarm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.send(HOUR, 2 * HOUR)
    tails = count_tails(world, shrunk(world, shift=6), monkeypatch)
    world.clock.set_ms(START_MS + HOUR - LOOKAHEAD_MS)
    dispatch(world.ports, TOPIC)
    assert tails.total() == 1


def test_a_ledger_whose_coarse_slots_are_far_off_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.send(HOUR)
    near = {bucket.object_name for bucket in world.service.buckets.all(TOPIC)}
    world.send(20 * DAY, 30 * DAY)
    world.send(6 * HOUR)
    whole = shrunk(world, shift=0)
    buckets = stored(world.service).of(TOPIC).buckets
    far = next(b for b in buckets.values() if b.first_slot > (START_MS + 19 * DAY) // SLOT_MS)
    buckets[far.id] = replace(far, slots=type(far.slots)(slot >> 5 for slot in far.slots), slot_shift=5)
    tails = count_tails(world, whole, monkeypatch)
    world.clock.set_ms(START_MS + HOUR - LOOKAHEAD_MS)
    done = dispatch(world.ports, TOPIC)
    assert done is not None and done.next_slot == (START_MS + 6 * HOUR) // SLOT_MS
    assert tails == dict.fromkeys(near, 1)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_occupied_and_what_comes_next_is_the_same_with_tails_as_without(seed: int) -> None:
    random_ = random.Random(seed)
    world = World()
    spread(world, random_.randint(1, 6), rows=random_.randint(1, 9), span_ms=random_.choice([HOUR, DAY, 20 * DAY]))
    exact = list(shrunk(world, shift=random_.randint(0, 12)).values())
    coarse = world.service.buckets.all(TOPIC)
    occupied = sorted({slot for bucket in exact for slot in bucket.slots})
    ends = [occupied[-1] + 1, *(random_.choice(occupied) + random_.randint(-2, 2) for _ in range(20))]
    for at in ends:
        assert next_occupied(world.ports, coarse, at) == min((s for s in occupied if s >= at), default=None)
        end = at + random_.randint(1, 50)
        found = [each for each in completed(world.ports, coarse, at, end, SLOT_MS).buckets if each.occupies(at, end)]
        assert all(bucket.complete and bucket in [_cut(each, at, end) for each in exact] for bucket in found)
    needed = [bucket for bucket in exact if bucket.slots.range_cardinality(ends[0] - 9, ends[0])]
    found = completed(world.ports, coarse, ends[0] - 9, ends[0], SLOT_MS).buckets
    assert {bucket.id for bucket in needed} <= {bucket.id for bucket in found if bucket.complete}
    assert all(bucket.segments == _cut(bucket, ends[0] - 9, ends[0]).segments for bucket in found)


def _cut(bucket: Bucket, a: int, b: int) -> Bucket:
    """Returns a bucket with only the segments in slots [a, b)."""
    ended = [each for each in bucket.segments if each.last_deliver_at_ms // SLOT_MS >= a]
    return replace(bucket, segments=tuple(each for each in ended if each.first_deliver_at_ms // SLOT_MS < b))


def test_a_merge_of_ledgers_with_tails_loses_and_doubles_nothing() -> None:
    world = World()
    ids = spread(world, 6)
    shrunk(world, shift=4)
    merged = merge(world.ports, TOPIC, in_process(world.ports.objects), lease_s=900, everything=True)
    assert merged is not None and (merged.merges, merged.rows) == (1, len(ids))
    assert world.received_after(4 * DAY) == once(ids)


def test_a_large_ledger_that_is_gone_keeps_no_other_waiting_and_comes_when_it_is_back() -> None:
    world = World(part_rows=2, inline_rows=1, segment_rows=1)
    lost = world.send(*[HOUR + 1000 * each for each in range(7)])
    [gone] = world.service.objects.names("ledgers/")
    ids = world.send(HOUR)
    shrunk(world, shift=4)
    good = world.service.objects.get_range(gone, 0, 10**9)
    world.service.objects.delete([gone])
    world.run(HOUR)
    assert world.received() == once(ids)
    assert world.service.deliveries.all(TOPIC)
    assert all(each.stuck and each.unread_objects == {gone} for each in world.service.deliveries.all(TOPIC))
    world.service.objects.put(gone, good)
    world.run(2 * HOUR, sweeps=True)
    assert world.received() == once(ids + lost)
    assert world.service.deliveries.all(TOPIC) == []


def test_a_large_ledger_for_which_a_job_has_no_time_goes_on_in_the_next_job_at_once() -> None:
    world = World(part_rows=2, inline_rows=1, segment_rows=1)
    ids = world.send(*[HOUR + 1000 * each for each in range(7)])
    [name] = world.service.objects.names("ledgers/")
    shrunk(world, shift=4)
    world.clock.set_ms(START_MS + HOUR - LOOKAHEAD_MS)
    with failing_reads(world, {name: TimeoutError()}):
        dispatch(world.ports, TOPIC)
    sent = []
    while jobs := world.service.queues.take_parts():
        [(key, part)] = jobs
        with deadline.ends_in(lambda: 10):
            done = deliver_part(world.ports, key, part)
        assert done is not None and len(done.failures) <= 1 and not done.unread
        sent.append(done.messages)
    assert sent == [2, 2, 2, 1]
    assert world.received() == once(ids)
    assert world.service.deliveries.all(TOPIC) == []
