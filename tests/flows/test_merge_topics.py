"""A run with many merges plans all together and swaps each once written, with one swap per topic at a time."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Generator, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest

from tests.flows.alone import sweep_orphans, write_one
from tests.flows.world import DAY, HOUR, START_MS, TOPIC, World, failing_reads, once
from tidewheel.errors import CorruptLedger, ObjectRefused, TaskFailed
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.delivery.cancel import cancel_many
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.maintenance import merge_planning
from tidewheel.flows.maintenance.merge import Merged, in_process, merge_topics
from tidewheel.flows.maintenance.merge_outputs import SideBySide, Written
from tidewheel.flows.maintenance.merge_planning import Merge, Window
from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.flows.maintenance.merge_swaps import APART_MS, LONGEST_WAIT_MS, QUIET_MS
from tidewheel.flows.maintenance.orphans import ORPHAN_GRACE_S
from tidewheel.flows.ports import RUNS_AGAIN, InThisProcess, Item, MergeSize, Result
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.message import MessageId, id_bytes
from tidewheel.model.settings import TopicSettings
from tidewheel.model.wheel import fires_at_ms

LEASE_S = 900
OTHER = "mail"


@pytest.fixture(autouse=True)
def three_sources_a_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes many merges of few ledgers."""
    monkeypatch.setattr(merge_planning, "MAX_ITEMS", merge_planning.MAX_OUTPUTS + 3)


@dataclass(slots=True)
class Watched:
    """A writer that records works and swap versions, with a callback after each written merge.

    Attributes:
        then: called after each merge is written, before it is swapped, with the merges that were written until now.
    """

    world: World
    then: Callable[[int], None] = lambda _: None
    works: list[MergeWork] = field(default_factory=list)
    swapped: list[int] = field(default_factory=list)

    def write_all(self, works: Sequence[MergeWork], /) -> Generator[tuple[int, Written], None, None]:
        self.works += works
        for number, each in enumerate(in_process(self.world.service.objects).write_all(works)):
            self.then(number)
            yield each
            self.swapped.append(self.world.state.swap_version)


def spread(world: World, ledgers: int, days: int = 5) -> list[str]:
    """Sends some ledgers whose rows lie over some days."""
    rng = random.Random(ledgers)
    ids: list[str] = []
    for _ in range(ledgers):
        ids += world.send(*(2 * DAY + int(rng.random() * days * DAY) for _ in range(10)))
    dispatch(world.ports, TOPIC)  # as a new subscription asks for
    return ids


def run(world: World, *topics: str, writer: Any = None, **options: Any) -> dict[str, Merged]:
    """Merges all small ledgers of topics. A pause moves the clock."""
    given = {"lease_s": LEASE_S, "everything": True, "pause": world.clock.advance_ms, **options}
    return merge_topics(world.ports, topics or (TOPIC,), writer or in_process(world.service.objects), **given)


def two_topics(ledgers: int) -> tuple[World, list[str]]:
    """A world with ledgers in two topics. Returns the ids of the first."""
    world = World()
    create_topic(world.service, world.clock, OTHER, TopicSettings())
    create_subscription(world.service, world.clock, OTHER, "post", "queue-post")
    ids = spread(world, ledgers)
    others = World()
    spread(others, ledgers)
    state = world.service.topic_states.read(OTHER)
    assert state is not None
    for bucket in others.service.buckets.all(TOPIC):
        data = others.service.objects.get_range(bucket.object_name, 0, 10**7)
        world.service.objects.put(bucket.object_name, data)
        world.service.buckets.restore(OTHER, bucket)
    return world, ids


def test_all_disjoint_merges_of_all_topics_are_one_round() -> None:
    world, _ = two_topics(9)
    watched = Watched(world)
    found = run(world, TOPIC, OTHER, writer=watched)
    assert [(found[name].merges, found[name].sources, found[name].rows) for name in (TOPIC, OTHER)] == [(3, 9, 90)] * 2
    assert sorted(work.state.topic for work in watched.works) == [OTHER] * 3 + [TOPIC] * 3
    for name in (TOPIC, OTHER):
        sources = [source.id for work in watched.works if work.state.topic == name for source in work.merge.sources]
        assert len(sources) == len(set(sources)) == 9


def test_outputs_are_merged_in_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_planning, "_TIER_MEMBERS", 3)
    world = World(max_buckets=4)
    spread(world, 12)
    rounds: list[int] = []
    watched = Watched(world)
    write_all = watched.write_all

    def noted(works: Sequence[MergeWork], /) -> Any:
        rounds.append(len(works))
        return write_all(works)

    monkeypatch.setattr(Watched, "write_all", staticmethod(noted))
    merged = run(world, writer=watched, everything=False)[TOPIC]
    # 12 ledgers become 9, 6 and 3 without the three outputs, with which they are merged to 4.
    assert rounds == [3, 1]
    assert (merged.merges, len(world.service.buckets.all(TOPIC))) == (4, 4)


def test_a_merge_is_swapped_while_others_are_not_yet_written() -> None:
    world = World()
    spread(world, 9)
    before = world.state.swap_version
    watched = Watched(world, then=lambda _: world.clock.advance_ms(APART_MS))
    run(world, writer=watched)
    assert watched.swapped == [before + 1, before + 2, before + 3]


def test_swaps_of_a_topic_are_at_least_a_second_apart() -> None:
    world = World()
    spread(world, 12)
    times = swap_times(world)
    run(world)
    assert [later - earlier for earlier, later in pairwise(times)] == [APART_MS] * 3


def swap_times(world: World, then: Callable[[], None] = lambda: None) -> list[int]:
    """Notes the time of each swap from now on."""
    times: list[int] = []
    swap = world.service.merges.swap

    def noted(*arguments: Any) -> bool:
        times.append(world.clock.now_ms())
        then()
        return swap(*arguments)

    world.service.merges.swap = noted  # type: ignore[method-assign]
    return times


def test_no_swap_comes_shortly_before_a_schedule_or_during_its_dispatch() -> None:
    world = World(slot_s=300)
    spread(world, 6)
    fires_ms = next_schedule_ms(world)
    world.clock.set_ms(fires_ms - QUIET_MS)
    times = swap_times(world)

    def pause(ms: int) -> None:
        world.clock.advance_ms(ms)
        if world.clock.now_ms() == fires_ms + 5_000:  # the dispatch takes five seconds
            dispatch(world.ports, TOPIC)

    run(world, pause=pause)
    assert times == [fires_ms + 5_000, fires_ms + 6_000]


def next_schedule_ms(world: World) -> int:
    assert world.state.next_slot is not None
    return fires_at_ms(TOPIC, world.state.next_slot, world.state.settings)


@pytest.mark.parametrize(("slot_s", "wait_ms"), [(5, 5_000), (300, LONGEST_WAIT_MS)])
def test_a_merge_is_swapped_at_least_once_a_slot_though_a_dispatch_never_ends(slot_s: int, wait_ms: int) -> None:
    world = World(slot_s=slot_s, lookahead_s=300)
    spread(world, 6)
    world.clock.set_ms(next_schedule_ms(world))
    begun_ms = world.clock.now_ms()
    times = swap_times(world)
    run(world)
    assert times == [begun_ms + wait_ms, begun_ms + 2 * wait_ms]


def test_a_swap_that_a_dispatch_has_overtaken_is_tried_again() -> None:
    world = World()
    ids = spread(world, 3)
    swap, answers = world.service.merges.swap, []

    def overtaken(*arguments: Any) -> bool:
        if not answers:
            world.clock.set_ms(START_MS + 2 * DAY + HOUR)
            dispatch(world.ports, TOPIC)
        answers.append(swap(*arguments))
        return answers[-1]

    world.service.merges.swap = overtaken  # type: ignore[method-assign]
    merged = run(world)[TOPIC]
    assert (answers, merged.merges, merged.refused) == ([False, True], 1, 0)
    assert world.received_after(8 * DAY, sweeps=True) == once(ids)


def test_a_clock_that_only_its_owner_moves_does_not_stop_a_run() -> None:
    world = World()
    spread(world, 9)
    world.clock.set_ms(next_schedule_ms(world))
    assert run(world, pause=lambda _: None)[TOPIC].merges == 3


@pytest.mark.parametrize("refused", [False, True])
def test_a_damaged_source_stops_neither_its_merge_nor_the_others(refused: bool) -> None:
    world = World()
    spread(world, 9)
    damaged = world.service.buckets.all(TOPIC)[4].object_name
    data = bytearray(world.service.objects.get_range(damaged, 0, 10**7))
    data[50] ^= 1
    world.service.objects.put(damaged, bytes(data))
    with failing_reads(world, {damaged: ObjectRefused(damaged, "403")} if refused else {}):
        merged = run(world)[TOPIC]
    assert [error.object_name for error in merged.skipped] == [damaged]
    assert (merged.sources, merged.rows, merged.refused) == (8, 80, 0)
    assert damaged in {bucket.object_name for bucket in world.service.buckets.all(TOPIC)}
    # The outputs that were written beside the damaged one are gone: three or four outputs, nine sources in the trash.
    assert len(world.service.objects.names("ledgers/")) == merged.outputs + 9


@pytest.mark.parametrize("port", ["buckets.in_order", "topic_states.read", "merges.swap", "merges.lease"])
def test_the_fault_of_one_topic_does_not_stop_the_merges_of_another(port: str) -> None:
    world, _ = two_topics(6)
    name, method = port.split(".")
    real = getattr(getattr(world.service, name), method)

    def failing(topic: Any, *arguments: Any) -> Any:
        if getattr(topic, "topic", topic) == TOPIC:
            raise RuntimeError("the table is on fire")
        return real(topic, *arguments)

    with patch.object(getattr(world.service, name), method, failing):
        found = run(world, TOPIC, OTHER)
    assert isinstance(found[TOPIC].error, RuntimeError)
    assert (found[TOPIC].merges, found[OTHER].merges, found[OTHER].error) == (0, 2, None)


def test_leases_of_all_topics_are_renewed_while_a_run_works_and_released_at_its_end() -> None:
    world, _ = two_topics(9)

    def long(_: int) -> None:
        world.clock.advance_ms(LEASE_S * 600)
        for topic in (TOPIC, OTHER):
            assert not world.service.merges.lease(topic, world.clock.now_ms(), world.clock.now_ms() + 1)

    found = run(world, TOPIC, OTHER, writer=Watched(world, then=long))
    assert [found[name].merges for name in (TOPIC, OTHER)] == [3, 3]
    for topic in (TOPIC, OTHER):
        assert world.service.merges.lease(topic, world.clock.now_ms(), world.clock.now_ms() + 1)


def test_a_topic_that_another_run_merges_is_left_to_it() -> None:
    world, _ = two_topics(6)
    assert world.service.merges.lease(TOPIC, START_MS, START_MS + HOUR)
    found = run(world, TOPIC, OTHER, "nothing")
    assert found.keys() == {OTHER}


class Killed(BaseException):
    """The driver dies here."""


@pytest.mark.parametrize("at", range(3))
def test_after_a_killed_driver_the_next_run_does_the_rest_and_orphans_last_a_day(at: int) -> None:
    world = World()
    ids = spread(world, 9)

    def dying(number: int) -> None:
        world.clock.advance_ms(APART_MS)
        if number == at:
            raise Killed

    with patch.object(world.service.merges, "release"), pytest.raises(Killed):
        run(world, writer=Watched(world, then=dying))
    assert run(world) == {}  # the lease of the dead
    world.clock.advance_ms(LEASE_S * 1000)
    run(world)
    assert len(world.service.buckets.all(TOPIC)) <= 3
    world.clock.advance_ms(ORPHAN_GRACE_S * 1000 + 1)
    assert sweep_orphans(world.ports).objects == 1
    assert world.received_after(8 * DAY, sweeps=True) == once(ids)


def test_of_two_runs_at_once_the_loser_deletes_its_outputs() -> None:
    world = World()
    ids = spread(world, 9)
    begun: list[int] = []

    def another(number: int) -> None:
        if number == 1 and not begun:
            begun.append(number)
            until_ms = world.clock.now_ms() + LEASE_S * 1000
            world.service.merges.release(TOPIC, until_ms)
            assert run(world)[TOPIC].merges == 2

    found = run(world, writer=Watched(world, then=another))[TOPIC]
    assert found.refused == 2
    live = {bucket.object_name for bucket in world.service.buckets.all(TOPIC)}
    trash = {name for each in world.service.merges.trash(TOPIC) for name in each.objects}
    assert set(world.service.objects.names("ledgers/")) == live | trash
    assert world.received_after(8 * DAY, sweeps=True) == once(ids)


@dataclass(slots=True)
class TriedAgain:
    """Runs a task again that raises, once. A task that raises again ends the run, as on Spark."""

    runs: int = 0
    side_by_side = 1

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Generator[tuple[int, Result], None, None]:
        for place, item in enumerate(items):
            for again in (True, False):
                self.runs += 1
                # In a context of its own, so that the tests after this one in the process do not see it.
                context = copy_context()
                context.run(RUNS_AGAIN.set, again)
                try:
                    yield place, context.run(task, item)
                    break
                except Exception:
                    assert again


@pytest.mark.parametrize(("failures", "runs", "merges"), [(1, 5, 2), (2, 5, 0)])
def test_the_engine_repeats_a_task_that_raises_and_a_last_error_ends_its_topic_only(
    failures: int, runs: int, merges: int
) -> None:
    world, _ = two_topics(6)
    tasks, left = TriedAgain(), [OSError("the connection was reset")] * failures
    create = world.service.objects.create

    def failing(name: str) -> Any:
        if f"/{TOPIC}/" in name and left:
            raise left.pop()
        return create(name)

    with patch.object(world.service.objects, "create", failing):
        writer = SideBySide(tasks=lambda _: tasks, objects=lambda: world.service.objects)
        found = run(world, TOPIC, OTHER, writer=writer)
    assert (tasks.runs, found[TOPIC].merges, found[OTHER].merges) == (runs, merges, 2)
    assert (found[TOPIC].error is None) == bool(merges)


def test_a_source_that_cannot_be_read_is_no_reason_to_run_a_task_again() -> None:
    world = World()
    spread(world, 3)
    damaged = world.service.buckets.all(TOPIC)[1].object_name
    tasks = TriedAgain()
    with failing_reads(world, {damaged: ObjectRefused(damaged, "403")}):
        writer = SideBySide(tasks=lambda _: tasks, objects=lambda: world.service.objects)
        assert run(world, writer=writer)[TOPIC].sources == 2
    assert tasks.runs == 2  # of three ledgers, and of those that can be read


def test_an_engine_that_gives_up_ends_only_topics_with_merges_that_it_has_not_written() -> None:
    world, _ = two_topics(6)

    class GivesUp(InThisProcess):
        def run(self, task: Any, items: Any, /) -> Any:
            yield from super().run(task, items[:3])
            raise TaskFailed("the workers died four times")

    writer = SideBySide(tasks=lambda _: GivesUp(), objects=lambda: world.service.objects)
    found = run(world, TOPIC, OTHER, writer=writer)
    assert [found[topic].merges for topic in (TOPIC, OTHER)] == [2, 0]
    assert (found[TOPIC].error, type(found[OTHER].error)) == (None, TaskFailed)


def test_cancelled_ids_are_in_the_task_once_and_in_no_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewheel.flows.maintenance.retention.SLACK_BYTES", 0)
    world = World()
    ids = spread(world, 9)
    gone = [MessageId(id) for id in ids[::2]]
    assert all(cancel_many(world.service, world.state, gone, world.clock.now_ms()))
    pickled = list[tuple[bytes, bytes]]()

    class Noted(InThisProcess):
        def run(self, task: Any, items: Any, /) -> Any:
            pickled.append((pickle.dumps(task.cancelled), pickle.dumps(items)))
            return super().run(task, items)

    world.clock.advance_ms(HOUR)
    merged = run(world, writer=SideBySide(tasks=lambda _: Noted(), objects=lambda: world.service.objects))[TOPIC]
    assert (merged.merges, merged.rows) == (3, len(ids) - len(gone))
    for task, items in pickled:
        assert [task.count(id_bytes(id)) for id in gone] == [1] * len(gone)
        assert not any(id_bytes(id) in items for id in gone)
    assert world.received_after(8 * DAY, sweeps=True) == once([id for id in ids if id not in gone])


def test_a_task_gets_only_the_sources_of_its_window_and_large_outputs_come_first() -> None:
    world = World()
    works: list[MergeWork] = []
    for _ in range(2):
        world.send(*(2 * DAY + i * HOUR for i in range(40)), 9 * DAY)
    world.send(*(9 * DAY + i * HOUR for i in range(10)))

    class Noted(InThisProcess):
        def run(self, task: Any, items: Any, /) -> Any:
            works.extend(item.work for item in items)
            return super().run(task, items)

    slot_ms = world.state.slot_ms
    sources = tuple(sorted(world.service.buckets.all(TOPIC), key=lambda each: each.id))
    first, middle, end = ((START_MS + days * DAY) // slot_ms for days in (2, 8, 11))
    work = MergeWork(
        state=world.state,
        merge=Merge(sources=sources, windows=(Window(first, middle), Window(middle, end)), live_bytes=1),
    )
    writer = SideBySide(tasks=lambda _: Noted(), objects=lambda: world.service.objects)
    outputs = write_one(writer, work)
    assert [(len(each.merge.sources), each.merge.windows[0].first_slot) for each in works] == [(2, first), (3, middle)]
    assert [output.rows for output in outputs] == [80, 12]


def test_no_segments_come_back_to_the_driver_that_an_item_would_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewheel.ledger.bucket.INLINE_SEGMENTS_BYTES", 0)
    world = World(segment_rows=1)
    ids = spread(world, 6)
    held: list[Bucket] = []
    swap = world.service.merges.swap

    def noted(state: Any, sources: Any, outputs: Any, *rest: Any) -> bool:
        held.extend(outputs)
        return swap(state, sources, outputs, *rest)

    monkeypatch.setattr(world.service.merges, "swap", noted)
    assert run(world)[TOPIC].merges == 2
    assert held and not [bucket for bucket in held if bucket.segments]
    assert world.received_after(8 * DAY, sweeps=True) == once(ids)


def test_a_run_without_time_swaps_what_is_written_and_begins_nothing() -> None:
    world = World()
    spread(world, 9)
    watched = Watched(world)
    merged = run(world, writer=watched, time_left=lambda: len(watched.swapped) < 1)[TOPIC]
    assert merged.merges == 2
    assert len(world.service.buckets.all(TOPIC)) == 3 + 2


def test_a_large_merge_is_handed_over_after_the_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    spread(world, 9)
    sizes = iter([MergeSize.SMALL, MergeSize.LARGE])
    monkeypatch.setattr("tidewheel.flows.maintenance.merge_round.size_of", lambda _: next(sizes))
    merged = run(world, largest=MergeSize.SMALL)[TOPIC]
    assert (merged.merges, merged.handed_over) == (1, True)
    assert world.service.runs.merges == []
    assert world.state.merge_at_ms == START_MS


def test_an_error_crosses_processes() -> None:
    original = CorruptLedger("ledgers/x", 1, 2, "the checksum is wrong")
    error = pickle.loads(pickle.dumps(original))
    assert isinstance(error, CorruptLedger)
    assert (str(error), error.__dict__) == (str(original), original.__dict__)
