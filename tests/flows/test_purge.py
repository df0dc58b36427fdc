"""A purge stops exactly the messages sent before, wherever they are stored."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flows.alone import OneByOne, write_one
from tests.flows.world import DAY, HOUR, START_MS, TOPIC, Crash, CrashingPorts, World, once
from tidewheel.clock import ManualClock
from tidewheel.errors import TooManyPurges
from tidewheel.flows.administration.purge import MAX_PURGES, PurgeResult, purge
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.due_rows import without_purged
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import PURGE_KEPT_MS, Purge, TopicState


def run_purge(world: World, first_ms: int | None = None, end_ms: int | None = None) -> PurgeResult:
    """Purges a range given as delays from the world's start, and advances a millisecond."""
    bounds = [None if each is None else START_MS + each for each in (first_ms, end_ms)]
    purged = purge(world.ports, world.clock, TOPIC, first_ms=bounds[0], end_ms=bounds[1])
    world.clock.advance_ms(1)
    return purged


@pytest.mark.parametrize("outside_ms", [DAY - 1, 2 * DAY])
def test_a_ledger_of_which_one_message_is_due_just_outside_of_a_range_stays(outside_ms: int) -> None:
    world = World()
    ids = world.send(DAY, 2 * DAY - 1, outside_ms)
    assert run_purge(world, DAY, 2 * DAY).ledgers == 0
    assert world.received_after(3 * DAY, sweeps=True) == once(ids[2:])


def test_a_ledger_that_fills_a_range_from_its_first_to_its_last_millisecond_is_swapped_out() -> None:
    world = World()
    world.send(DAY, 2 * DAY - 1)
    assert run_purge(world, DAY, 2 * DAY).ledgers == 1
    assert world.service.buckets.all(TOPIC) == []


@pytest.mark.parametrize(("first_ms", "end_ms"), [(DAY, None), (None, DAY)])
def test_a_range_may_be_open_at_one_end(first_ms: int | None, end_ms: int | None) -> None:
    world = World()
    [early, late] = world.send(HOUR, 2 * DAY)
    run_purge(world, first_ms, end_ms)
    assert world.received_after(3 * DAY, sweeps=True) == once([late if first_ms is None else early])


@pytest.mark.parametrize("first_ms", [None, 0])
def test_a_merge_that_is_under_way_brings_nothing_back(first_ms: int | None) -> None:
    world = World()
    for _ in range(3):
        world.send(DAY, 5 * DAY)

    def engine(work: MergeWork) -> Sequence[Bucket]:
        outputs = write_one(in_process(world.service.objects), work)
        run_purge(world, first_ms)
        return outputs

    merged = merge(world.ports, TOPIC, OneByOne(engine), lease_s=60, everything=True)
    assert merged is not None and merged.merges == 0
    after = world.send(DAY)
    assert world.received_after(6 * DAY, sweeps=True) == once(after)
    assert not world.service.objects.names("ledgers/")


def test_a_purge_after_which_a_merge_took_its_ledgers_still_drops_the_rows() -> None:
    world = World(wrap=CrashingPorts)
    for _ in range(3):
        world.send(DAY, 5 * DAY)
    world.ports.plan.schedule(4, "before")  # the topic state, the buckets and the mark; then the first swap
    with pytest.raises(Crash):
        run_purge(world)
    world.ports.plan.disarm()
    assert world.state.purge_ms == START_MS + 1 and len(world.service.buckets.all(TOPIC)) == 3
    merge(world.ports, TOPIC, in_process(world.ports.objects), lease_s=60, everything=True)
    assert world.service.buckets.all(TOPIC) == []
    assert not world.received_after(6 * DAY, sweeps=True)


def test_an_idle_topic_gives_its_storage_back_within_hours_of_a_purge() -> None:
    world = World()
    world.send(300 * DAY)
    run_purge(world)
    assert world.service.objects.names("ledgers/")
    world.run(8 * HOUR, sweeps=True)
    assert not world.service.objects.names("ledgers/")
    assert world.service.merges.trash(TOPIC) == []


def test_many_ledgers_are_swapped_out_in_several_transactions() -> None:
    world = World(max_buckets=1000)
    for _ in range(200):
        world.send(DAY)
    assert run_purge(world).ledgers == 200
    assert [len(each.objects) for each in world.service.merges.trash(TOPIC)] in (
        [90, 90, 20],
        [90, 20, 90],
        [20, 90, 90],
    )


def test_a_range_more_than_a_topic_can_hold_is_refused_and_a_wider_one_takes_their_place() -> None:
    world = World()
    for number in range(MAX_PURGES):
        run_purge(world, 2 * number * HOUR, (2 * number + 1) * HOUR)
    marks = world.state.purges
    assert len(marks) == MAX_PURGES
    with pytest.raises(TooManyPurges, match="'orders' already has 20 purged time ranges"):
        run_purge(world, 100 * HOUR, 101 * HOUR)
    assert world.state.purges == marks
    run_purge(world, 0, 30 * HOUR)
    assert len(world.state.purges) == 6
    run_purge(world)
    assert world.state.purges == () and world.state.purge_ms > START_MS


def test_a_collection_forgets_ranges_that_can_meet_no_message_any_more() -> None:
    world = World(collect_interval_s=60)
    run_purge(world, 0, 40 * DAY)
    run_purge(world, 50 * DAY, 60 * DAY)
    [near, far] = world.state.purges
    world.clock.advance_ms(PURGE_KEPT_MS)
    dispatch(world.ports, TOPIC)
    collect(world.ports, TOPIC)
    assert world.state.purges == (near, far)
    world.clock.advance_ms(13 * DAY)
    for _ in range(2):
        dispatch(world.ports, TOPIC)
        collect(world.ports, TOPIC)
    assert world.state.purges == (far,)


def test_a_purge_forgets_ranges_that_can_meet_no_message_any_more() -> None:
    world = World(collect_interval_s=60)
    run_purge(world, 0, 40 * DAY)
    world.clock.advance_ms(PURGE_KEPT_MS + 41 * DAY)
    dispatch(world.ports, TOPIC)
    collect(world.ports, TOPIC)
    run_purge(world, 200 * DAY, 210 * DAY)
    assert [each.first_ms - START_MS for each in world.state.purges] == [200 * DAY]


def test_a_purge_by_a_clock_that_is_behind_undoes_no_newer_one_and_reaches_what_was_sent_since() -> None:
    world = World()
    world.clock.advance_ms(HOUR)
    run_purge(world)
    newest = world.state.purge_ms
    purge(world.ports, ManualClock(START_MS), TOPIC)
    purge(world.ports, ManualClock(START_MS), TOPIC, first_ms=START_MS)
    assert world.state.purge_ms == newest + 1
    assert [each.sent_before_ms for each in world.state.purges] == [newest + 2]


RANGES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20)), max_size=4)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))), st.integers(0, 10), RANGES)
def test_rows_are_dropped_if_and_only_if_a_mark_says_so(
    rows: list[tuple[int, int]], purge_ms: int, ranges: list[tuple[int, int, int]]
) -> None:
    purges = tuple(Purge(first_ms=first, end_ms=end, sent_before_ms=sent) for first, end, sent in ranges)
    state = TopicState(
        topic=TOPIC,
        generation="g",
        settings=TopicSettings(),
        sealed=0,
        planned=0,
        collected_until=0,
        purge_ms=purge_ms,
        purges=purges,
    )
    columns = {"deliver_at_ms": [due for due, _ in rows], "sent_at_ms": [sent for _, sent in rows]}
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    kept = without_purged(table, state).to_pylist()
    assert [(each["deliver_at_ms"], each["sent_at_ms"]) for each in kept] == [
        (due, sent)
        for due, sent in rows
        if sent >= purge_ms and not any(first <= due < end and sent < before for first, end, before in ranges)
    ]
