"""Concurrent merges lose and duplicate nothing, and leave few ledgers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tests.flows.alone import write_one
from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, World, ids_of, once
from tests.stored import altered
from tidewheel.clock import ManualClock
from tidewheel.errors import NotConfigured
from tidewheel.flows.delivery.cancel import cancel
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.maintenance import merge_planning, merge_rows, retention
from tidewheel.flows.maintenance.consider_merge import consider_merge
from tidewheel.flows.maintenance.merge import Merged, in_process, merge
from tidewheel.flows.maintenance.merge_planning import Merge, Window
from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.flows.ports import MergeSize
from tidewheel.flows.waiting.find import find_message
from tidewheel.flows.waiting.peek import peek_messages
from tidewheel.ledger.rows import sorted_order
from tidewheel.model.message import IdSource, MessageId, id_bytes, id_deliver_at_ms, id_text

LEASE_S = 900


def run_merge(world: World, *, everything: bool = True, largest: MergeSize = MergeSize.LARGE) -> Merged:
    """Merges with the engine of the function."""
    engine = in_process(world.ports.objects)
    merged = merge(world.ports, TOPIC, engine, lease_s=LEASE_S, everything=everything, largest=largest)
    assert merged is not None
    return merged


def spread(world: World, ledgers: int, days: int = 5) -> list[str]:
    """Sends some ledgers whose rows lie over some days."""
    rng = random.Random(1)
    ids: list[str] = []
    for _ in range(ledgers):
        ids += world.send(*(HOUR + int(rng.random() * days * DAY) for _ in range(10)))
    return ids


@pytest.mark.parametrize("segment_rows", [1, 2, 3, 5000])
@pytest.mark.parametrize("step_ms", [5 * MINUTE, HOUR, DAY])
def test_messages_due_exactly_at_a_cut_are_in_one_output(segment_rows: int, step_ms: int) -> None:
    world = World(segment_rows=segment_rows)
    first_ms = 2 * DAY
    ids = [id for shift in range(3) for id in world.send(*(first_ms + (shift + i) * step_ms for i in range(6)))]
    buckets = world.service.buckets.all(TOPIC)
    slots = sorted({int(slot) for bucket in buckets for slot in bucket.slots})
    slot_ms = world.state.slot_ms
    assert all((id_deliver_at_ms(id_bytes(each)) - START_MS) % step_ms == 0 for each in ids)

    work = MergeWork(
        state=world.state,
        merge=Merge(sources=tuple(buckets), windows=tuple(Window(slot, slot + 1) for slot in slots), live_bytes=1),
    )
    outputs = write_one(in_process(world.service.objects), work)

    assert [(each.first_slot, each.rows) for each in outputs] == [
        (slot, sum(id_deliver_at_ms(id_bytes(each)) // slot_ms == slot for each in ids)) for slot in slots
    ]


@pytest.mark.parametrize("senders", [1, 4])
def test_of_rows_of_one_millisecond_at_most_a_segment_of_each_ledger_waits(
    senders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_rows, "_BATCH_RAW_BYTES", 1)
    world = World(segment_rows=5)
    sources = [IdSource() for _ in range(senders)]
    ids = list[str]()
    for number in range(8):
        world.ids = sources[number % senders]
        ids += world.send(*[DAY] * 50)
    at_once = list[int]()
    monkeypatch.setattr(merge_rows, "sorted_order", lambda rows: at_once.append(rows.num_rows) or sorted_order(rows))
    assert run_merge(world).rows == len(ids) == 400
    assert max(at_once) <= 8 * 5 + 5
    assert world.received_after(2 * DAY, sweeps=True) == once(ids)


@pytest.mark.parametrize("share", [0, 1])
def test_a_share_of_a_window_without_segments_has_no_rows(share: int) -> None:
    world = World()
    world.send(2 * HOUR, 2 * HOUR + 1000)
    sources = tuple(world.service.buckets.all(TOPIC))
    end_slot = sources[-1].last_slot + 1
    window = Window(end_slot, end_slot + 4, share, 2)
    work = MergeWork(state=world.state, merge=Merge(sources=sources, windows=(window,), live_bytes=1))
    assert list(merge_rows.merged_rows(world.ports.objects, work, window)) == []


@pytest.mark.parametrize("apart_ms", [0, 1_000])
def test_a_slot_or_millisecond_that_is_cut_into_several_ledgers_is_read_like_any_other(
    apart_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_planning, "MAX_OUTPUT_ROWS", 50)
    monkeypatch.setattr(merge_rows, "_BATCH_RAW_BYTES", 1)
    monkeypatch.setattr(retention, "SLACK_BYTES", 0)
    world = World("billing", "audit", segment_rows=1)
    sent = [world.pack(*(DAY + i * apart_ms for i in range(20))) for _ in range(8)]
    for pack in sent:
        world.ingest(pack)
    world.ingest(sent[0], world.pack(DAY))  # SQS brings a pack twice, in another group
    ids = [id for pack in sent for id in ids_of(pack)]
    [expires] = world.send(DAY, expires_in="1m")
    early, late = ids[30], ids[90]
    assert cancel(world.service, world.state, MessageId(early), world.clock.now_ms())
    world.clock.advance_ms(HOUR)

    merged = run_merge(world)

    buckets = world.service.buckets.all(TOPIC)
    assert (merged.outputs, merged.rows) == (4, 161)
    assert {slot for bucket in buckets for slot in bucket.slots} == {(START_MS + DAY) // world.state.slot_ms}
    assert max(bucket.rows for bucket in buckets) <= 50
    assert cancel(world.service, world.state, MessageId(late), world.clock.now_ms())
    waiting, unreadable = peek_messages(world.service, world.state, 1000, world.clock.now_ms())
    left = sorted({id for id in ids if id not in (early, late)})
    assert ({*left, expires} <= {id_text(each.checked.id) for each in waiting}, unreadable) == (True, {})
    assert all(find_message(world.service, world.state, MessageId(id)) for id in left)
    world.run(DAY - 2 * HOUR, sweeps=True)
    world.clock.set_ms(START_MS + DAY + 2 * MINUTE)  # the service was away when the messages were due
    world.run(HOUR, sweeps=True)
    for name in ("billing", "audit"):
        received = world.received(name)
        assert {id: received[id] for id in (*left, early, late, expires)} == once(left) | dict.fromkeys(
            (early, late, expires), 0
        )
    world.run(DAY, sweeps=True)
    assert not world.service.objects.names("ledgers/")


def test_what_a_function_cannot_merge_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(max_buckets=4)
    world.sweep()
    spread(world, 9)
    world.sweep()
    assert world.service.runs.merges == [(TOPIC, MergeSize.SMALL)]
    monkeypatch.setattr("tidewheel.flows.maintenance.consider_merge.SMALL_BYTES", 100)
    merged = run_merge(world, everything=False, largest=MergeSize.SMALL)
    assert merged.handed_over and merged.merges == 0
    assert world.service.merges.lease(TOPIC, START_MS, START_MS + 1)
    world.sweep()
    assert world.service.runs.merges == [(TOPIC, MergeSize.SMALL), (TOPIC, MergeSize.LARGE)]


def test_large_merges_of_a_sweep_are_one_run_and_wait_while_another_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidewheel.flows.maintenance.consider_merge.SMALL_BYTES", 100)
    world = World(max_buckets=4)
    world.service.topic_states.create(replace(world.state, topic="mail"))
    world.sweep()
    for _ in range(9):
        world.send(2 * DAY)
        ingest(world.ports, "mail", [world.pack(2 * DAY)])
    asked: list[list[str]] = []
    answers: Iterator[bool | Exception] = iter([False, NotConfigured("denied"), True, True])

    def merge_large(topics: Sequence[str]) -> bool:
        ingest(world.ports, TOPIC, [world.pack(2 * DAY)])  # which moves the topic on
        asked.append(sorted(topics))
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(world.service.runs, "merge_large", merge_large)
    world.may_fail = True
    for merging in ([], [], ["mail", TOPIC], ["mail", TOPIC]):
        assert sorted(world.sweep().merging) == merging
        for _ in range(5):
            world.clock.advance_ms(5 * MINUTE)
            assert world.sweep().merging == []
        world.clock.advance_ms(5 * MINUTE)
    assert asked == [["mail", TOPIC]] * 4


def test_a_large_run_asks_the_sweep_for_what_has_come_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewheel.flows.maintenance.consider_merge.SMALL_BYTES", 100)
    world = World(max_buckets=4)
    world.sweep()
    spread(world, 9)
    assert world.sweep().merging == [TOPIC]
    assert run_merge(world, everything=False).merges > 0
    assert world.state.merge_at_ms == world.clock.now_ms()
    world.sweep()
    assert world.state.merge_at_ms is None


def test_without_spark_a_function_merges_in_steps_what_is_too_large_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(max_buckets=8)
    world.service.runs.largest = MergeSize.SMALL
    world.sweep()
    ids = spread(world, 20)
    [size] = {bucket.size_bytes // 1000 for bucket in world.service.buckets.all(TOPIC)}
    monkeypatch.setattr("tidewheel.flows.maintenance.consider_merge.SMALL_BYTES", 4 * (size + 1) * 1000)
    assert consider_merge(world.ports, world.state) is MergeSize.SMALL
    merged = run_merge(world, everything=False, largest=MergeSize.SMALL)
    assert (merged.handed_over, merged.merges > 1) == (False, True)
    assert world.service.runs.merges == [(TOPIC, MergeSize.SMALL)]
    assert len(world.service.buckets.all(TOPIC)) <= 8
    assert world.received_after(6 * DAY, sweeps=True) == once(ids)


def test_without_spark_a_ledger_that_fits_with_no_other_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(max_buckets=4)
    world.service.runs.largest = MergeSize.SMALL
    world.sweep()
    spread(world, 9)
    monkeypatch.setattr("tidewheel.flows.maintenance.consider_merge.SMALL_BYTES", 100)
    assert consider_merge(world.ports, world.state) is None
    merged = run_merge(world, largest=MergeSize.SMALL)
    assert (merged.handed_over, merged.merges, world.service.runs.merges) == (False, 0, [])
    assert run_merge(world).sources == 9


def test_the_sweep_starts_a_merge_when_half_the_limit_has_come_and_not_again_before() -> None:
    world = World(max_buckets=8)
    world.sweep()
    for count in range(1, 21):
        world.send(2 * DAY + count * MINUTE, 3 * DAY)
        world.run(6 * MINUTE, sweeps=True)
    assert world.service.runs.merges == [(TOPIC, MergeSize.SMALL)] * 3
    assert world.state.merge_at_ms is None
    assert run_merge(world, everything=False).sources == 20
    world.send(2 * DAY)
    world.run(HOUR, sweeps=True)
    assert len(world.service.runs.merges) == 3


@pytest.mark.parametrize("lookahead_s", [2, 60])
def test_a_merge_on_a_machine_whose_clock_is_ahead_drops_nothing_that_has_not_expired(lookahead_s: int) -> None:
    world = World(slot_s=1, lookahead_s=lookahead_s)
    delays_ms = range((lookahead_s + 5) * 1000, (lookahead_s + 65) * 1000, 10_000)
    ids = [id for delay_ms in delays_ms for id in world.send(delay_ms, 2 * HOUR, expires_in="10s")]
    for ahead_ms in (5 * MINUTE, 14 * MINUTE):  # DynamoDB refuses a larger error than the first, and S3 than the second
        elsewhere = altered(world.service, clock=ManualClock(world.clock.now_ms() + ahead_ms))
        merged = merge(elsewhere, TOPIC, in_process(elsewhere.objects), lease_s=LEASE_S, everything=True)
        assert merged is not None and merged.error is None
    assert len(world.service.buckets.all(TOPIC)) == 1
    assert world.received_after(3 * HOUR, sweeps=True) == once(ids)


def test_a_merge_drops_what_expired_long_ago() -> None:
    world = World()
    world.send(HOUR, expires_in="1h")
    [kept] = world.send(2 * DAY)
    world.clock.advance_ms(3 * HOUR)
    assert run_merge(world).rows == 1
    assert world.received_after(3 * DAY, sweeps=True) == once([kept])
