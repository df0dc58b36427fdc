"""Statistics are consistent estimates, from the index alone."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from tests.behaviour.topic import Here
from tests.flows.test_tails import shrunk
from tests.flows.world import World
from tests.stored import altered
from tests.stored_ports import STORED_PORTS
from tidewheel import EstimatedHistogram, Message, Tidewheel
from tidewheel.cli import inspection
from tidewheel.cli.inspection import Bars, histogram_parts, print_messages
from tidewheel.cli.main import app
from tidewheel.client.operations import in_flight
from tidewheel.client.operations.histogram import DAY_S, DUE_S, HOUR_S, due_bars, histogram, loads
from tidewheel.ledger.bucket import Bucket, bucket_id
from tidewheel.local.memory_stack import MemoryTidewheel
from tidewheel.model.plan import Segment, Unindexed

NOW_MS = 1_800_000_000_000  # 8:00 UTC
SLOT_MS = 300_000


def segment(first_ms: int, last_ms: int, rows: int) -> Segment:
    return Segment(offset=4, length=9, rows=rows, raw_bytes=9, first_deliver_at_ms=first_ms, last_deliver_at_ms=last_ms)


def bucket(slots: list[int], *segments: Segment) -> Bucket:
    rows = sum(each.rows for each in segments)
    return Bucket(
        id=bucket_id(min(slots), "b"),
        object_name="b",
        size_bytes=9,
        rows=rows,
        slots=BitMap(slots),
        segments=segments,
    )


def at_hours(*hours: float) -> list[int]:
    """Slots at some numbers of hours from now."""
    return [int((NOW_MS + hour * 3_600_000) // SLOT_MS) for hour in hours]


def by_hour(*buckets: Bucket, bars: int = 6, from_slot: int = 0) -> EstimatedHistogram:
    return histogram(loads(buckets, from_slot, SLOT_MS, 100), NOW_MS, SLOT_MS, bar_s=HOUR_S, bars=bars)


# ---- histograms


def test_rows_are_spread_over_the_occupied_slots_of_their_segment() -> None:
    slots = at_hours(0.5, 2, 2.5, 9)
    found = by_hour(bucket(slots, segment(slots[0] * SLOT_MS, slots[-1] * SLOT_MS + 5, 400)))
    assert (found.bars, found.later, found.total) == ((100, 0, 200, 0, 0, 0), 100, 400)
    assert found.start_at == datetime.fromtimestamp(NOW_MS / 1000, UTC)
    assert list(found.starts())[2] == found.start_at + timedelta(hours=2)


def test_what_is_overdue_is_in_the_first_bar_and_what_is_planned_is_in_none() -> None:
    slots = at_hours(-30, -2, 1)
    held = bucket(slots, segment(slots[0] * SLOT_MS, slots[2] * SLOT_MS, 300))
    assert by_hour(held).bars[:2] == (200, 100)
    assert by_hour(held, from_slot=slots[1]).bars[:2] == (100, 100)
    assert by_hour(held, from_slot=slots[2] + 1).total == 0


def test_bars_of_days_begin_at_midnight_utc() -> None:
    slots = at_hours(1, 17)
    held = bucket(
        slots, segment(slots[0] * SLOT_MS, slots[0] * SLOT_MS, 3), segment(slots[1] * SLOT_MS, slots[1] * SLOT_MS, 5)
    )
    found = histogram(loads([held], 0, SLOT_MS, 100), NOW_MS, SLOT_MS, bar_s=DAY_S, bars=3)
    assert found.start_at.isoformat() == "2027-01-15T00:00:00+00:00"
    assert found.bars == (3, 5, 0)


@given(
    ledgers=st.lists(
        st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 900), st.integers(1, 99)), min_size=1, max_size=6),
        max_size=4,
    ),
    from_slot=st.integers(-10, 3000),
    bars=st.integers(1, 80),
    slot_ms=st.sampled_from([1000, 60_000, 300_000, 700_000]),
)
def test_bars_and_rest_are_all_that_waits_whatever_the_slots(
    ledgers: list[list[tuple[int, int, int]]], from_slot: int, bars: int, slot_ms: int
) -> None:
    now_slot = NOW_MS // slot_ms
    buckets = []
    for spans in ledgers:
        at, segments, slots = now_slot - 100, [], []
        for gap, span, rows in spans:
            at += gap
            segments.append(segment(at * slot_ms, (at + span) * slot_ms, rows))
            slots += [at, at + span]
            at += span
        buckets.append(bucket(slots, *segments))
    waiting = loads(buckets, now_slot + from_slot, slot_ms, 100)
    found = histogram(waiting, NOW_MS, slot_ms, bar_s=HOUR_S, bars=bars)
    assert found.total == round(sum(each.rows for each in waiting))
    assert min(*found.bars, found.later) >= 0
    whole = sum(
        each.rows for b in buckets for each in b.segments if each.first_deliver_at_ms // slot_ms >= now_slot + from_slot
    )
    assert found.total >= whole
    assert found.total <= sum(each.rows for each in buckets)
    for total in (found.total, found.total + 5, found.total // 2):
        by_due = due_bars(waiting, NOW_MS, slot_ms, total)
        assert [each.until_s for each in by_due] == list(DUE_S)
        assert sum(each.messages for each in by_due) == total and min(each.messages for each in by_due) >= 0


def test_bars_by_time_until_due_begin_with_what_is_overdue_and_end_with_what_is_due_in_decades() -> None:
    delays_s = [-7200, 5, 30, 300, 1800, 18_000, 80_000, 500_000, 2_000_000, 30_000_000, 200_000_000, 900_000_000]
    slots = [NOW_MS // 1000 + each for each in delays_s]
    held = bucket(slots, *(segment(slot * 1000, slot * 1000 + 9, 1) for slot in slots))
    found = due_bars(loads([held], 0, 1000, 100), NOW_MS, 1000, 12)
    assert [each.messages for each in found] == [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]


# ---- a topic's statistics


class Counting:
    """Counts and forwards calls."""

    def __init__(self, port: Any, calls: Counter[str], prefix: str = "") -> None:
        self._port, self._calls, self._prefix = port, calls, prefix

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._calls[self._prefix + name] += 1
            return method(*args, **kwargs)

        return call


@pytest.fixture
def memory() -> MemoryTidewheel:
    return MemoryTidewheel()


def topic(stack: MemoryTidewheel, *subscriptions: str, **settings: int) -> Tidewheel:
    client = stack.client()
    client.create_topic("orders", **settings)
    for name in subscriptions or ("billing",):
        client.create_subscription("orders", name)
    return client


def counted(stack: MemoryTidewheel) -> tuple[Tidewheel, Counter[str]]:
    calls: Counter[str] = Counter()
    service = stack.service
    counting = {name: Counting(getattr(service, name), calls, f"{name}.") for name in STORED_PORTS}
    sqs: Any = Counting(stack.sqs, calls)
    return Tidewheel(clock=stack.clock, storage=altered(service, **counting), sqs=sqs), calls


def test_a_message_is_counted_where_it_is_on_its_way(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    client.send_many("orders", [Message(body="x", delay=f"{i}h") for i in range(2, 12)])
    memory.advance(minutes=6)
    stats = client.stats("orders")
    assert (stats.waiting, stats.sealed, stats.in_flight, stats.dead) == (10, 0, 0, 0)
    assert stats.by_hour.bars[:13] == (0, 0, *(1,) * 10, 0)
    assert (stats.by_hour.total, stats.by_day.bars[0], stats.by_day.total) == (10, 10, 10)
    assert stats.next_due_at == stats.oldest_due_at == memory.now().replace(hour=2, minute=0)
    assert stats.last_due_at == memory.now().replace(hour=11, minute=0)
    memory.advance(hours=1, minutes=50)  # the first is held back by SQS
    stats = client.stats("orders")
    assert (stats.waiting, stats.in_flight) == (9, 1)
    assert stats.subscriptions[0].queue is not None and stats.subscriptions[0].queue.delayed == 1
    memory.advance(minutes=10)
    [taken] = client.receive("orders", "billing")
    stats = client.stats("orders")
    assert (stats.in_flight, stats.dead) == (1, 0)
    for _ in range(10):
        memory.advance(minutes=2)
        client.receive("orders", "billing")
    stats = client.stats("orders")
    assert (stats.in_flight, stats.dead, stats.subscriptions[0].dead) == (0, 1, 1)
    assert taken.body == "x"


def test_the_bars_by_time_until_due_are_what_waits_and_the_marks_are_times(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    client.send_many("orders", [Message(body="x", delay=each) for each in ("30m", "2h", "2d", "2d", "1460d")])
    memory.advance(minutes=6)
    stats = client.stats("orders")
    assert {each.until_s: each.messages for each in stats.by_due if each.messages} == {
        3600: 1,
        21_600: 1,
        604_800: 2,
        315_360_000: 1,
    }
    memory.advance(minutes=120)
    client.pause("orders", "billing")
    memory.advance(days=2)
    marks, now = client.stats("orders").marks, memory.now()
    two_days = now.replace(hour=0, minute=5)  # the end of the slot of the last messages
    assert (marks.sealed_until, marks.planned_until) == (two_days, two_days)
    handed_out_until = marks.handed_out_until
    assert handed_out_until is not None and marks.collected_until <= handed_out_until < now - timedelta(days=1)
    client.delete_subscription("orders", "billing")
    assert client.stats("orders").marks.handed_out_until is None


def late(client: Tidewheel) -> dict[str, tuple[datetime | None, int]]:
    return {each.name: (each.late_since, each.late) for each in client.stats("orders").subscriptions}


def test_a_plan_whose_ledgers_have_no_index_is_late_from_its_first_slot_on(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory)
    client.send("orders", "x", delay="2h")
    client.pause("orders", "billing")
    memory.advance(hours=2)
    plan = memory.service.plans.next("orders", 0)
    assert plan is not None
    ledger = Unindexed(object_name="x", tail="", rows=1)
    unindexed = replace(plan, segments=(), unindexed=(ledger,))
    monkeypatch.setattr(memory.service.plans, "next", lambda _, at: unindexed if at <= plan.first_slot else None)
    assert late(client)["billing"][0] == datetime.fromtimestamp(plan.first_slot * SLOT_MS // 1000, UTC)


def test_sealed_slots_that_are_not_planned_yet_are_sealed(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    client.send_many("orders", [Message(body="x", delay=f"{i}h") for i in (2, 5)])
    memory.advance(minutes=6)
    state = memory.service.topic_states.read("orders")
    assert state is not None
    assert memory.service.topic_states.seal(state, (memory.clock.now_ms() + 3 * 3_600_000) // SLOT_MS)
    stats = client.stats("orders")
    assert (stats.waiting, stats.sealed) == (1, 1)
    assert stats.next_due_at == memory.now().replace(hour=2, minute=0)


def test_parts_that_are_left_of_a_delivery_are_sealed(memory: MemoryTidewheel) -> None:
    client = topic(memory, inline_rows=1, part_rows=10)
    client.send_many("orders", [Message(body="x", delay=7200 + i) for i in range(100)])
    memory.advance(minutes=6)
    drawn = []

    def drop(*arguments: Any) -> None:
        drawn.append(arguments)

    original = memory.service.queues.enqueue_parts
    object.__setattr__(memory.service.queues, "enqueue_parts", drop)
    memory.advance(hours=1, minutes=50)
    # Parts that nobody began are enqueued again by each sweep.
    key, parts = drawn[0]
    assert client.stats("orders").sealed == 100
    for part in range(4):
        memory.service.deliveries.part_done(key, part)
    assert client.stats("orders").sealed == 60
    assert late(client) == {"billing": (None, 0)}
    memory.clock.advance_ms(600_000)
    assert late(client) == {"billing": (memory.now().replace(hour=2, minute=0), 60)}
    original(key, [part for part in parts if part >= 4])
    memory.advance(minutes=1)
    assert client.stats("orders").sealed == 0


def test_a_long_pause_is_estimated_from_the_first_plans(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory, "billing", "audit")
    client.send_many("orders", [Message(body="x", delay=f"{i}h") for i in range(2, 42)])
    client.pause("orders", "audit")
    memory.advance(hours=42)
    monkeypatch.setattr(in_flight, "MAX_PLANS", 50)
    assert client.stats("orders").sealed == 40
    monkeypatch.setattr(in_flight, "MAX_PLANS", 10)
    looking, calls = counted(memory)
    assert 35 <= looking.stats("orders").sealed <= 45
    assert calls["plans.next"] == 10
    found = late(client)
    assert found["billing"] == (None, 0)
    assert found["audit"][0] == memory.now() - timedelta(hours=40) and 35 <= found["audit"][1] <= 45


def test_each_large_ledger_costs_one_read_of_its_tail() -> None:
    world = World(segment_rows=50)
    for _ in range(3):
        world.send(*(7_200_000 + i * 60_000 for i in range(400)))
    whole = world.service.buckets.all("orders")
    sqs: Any = object()
    world.service.subscriptions.delete(world.state, world.service.subscriptions.all("orders")[0])
    expected = Tidewheel(clock=world.clock, storage=world.service, sqs=sqs).stats("orders")
    shrunk(world, shift=3)
    calls: Counter[str] = Counter()
    counting: Any = Counting(world.service.objects, calls)
    storage = altered(world.service, objects=counting)
    found = Tidewheel(clock=world.clock, storage=storage, sqs=sqs).stats("orders")
    assert calls == {"get_range": 3}
    assert replace(found, ledger_bytes=0, oldest_slot_at=None) == replace(expected, ledger_bytes=0, oldest_slot_at=None)
    assert (found.waiting, len(whole)) == (1200, 3)


def test_queues_without_dead_letters_or_shared_by_subscriptions_count_once(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    url = memory.sqs.create_queue(QueueName="mine")["QueueUrl"]
    for name in ("one", "two"):
        client.create_subscription("orders", name, queue_url=url)
    memory.sqs.send_message(QueueUrl=url, MessageBody="x")
    stats = client.stats("orders")
    assert stats.in_flight == 1
    assert {each.name: each.dead for each in stats.subscriptions} == {"billing": 0, "one": None, "two": None}
    memory.sqs.delete_queue(QueueUrl=url)
    stats = client.stats("orders")
    assert (stats.in_flight, stats.subscriptions[1].queue, stats.subscriptions[1].dead) == (0, None, None)


# ---- what people see


def bars(*counts: int, later: int = 0, bar_s: int = HOUR_S) -> EstimatedHistogram:
    return EstimatedHistogram(start_at=datetime(2026, 1, 1, 22, tzinfo=UTC), bar_s=bar_s, bars=counts, later=later)


def lines(parts: list[RenderableType], width: int = 80) -> list[str]:
    """Returns the lines shown by a terminal of some width."""
    out = io.StringIO()
    Console(width=width, file=out).print(*parts, sep="\n")
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_histogram_says_what_is_left_out() -> None:
    assert lines(histogram_parts(bars(5, 0, 0, 1000, 1, 0, later=1_234_567), Bars.HOUR, blocks=True)) == [
        "waiting by hour, UTC (estimated)",
        "2026-01-01 22:00          5  █",
        "(2 empty hours)",
        "2026-01-02 01:00      1,000  " + "█" * 40,
        "2026-01-02 02:00          1  █",
        "(1 empty hour)",
        "later             1,234,567",
    ]


def test_a_histogram_of_nothing_is_one_line_and_plain_where_blocks_cannot_be_shown() -> None:
    assert lines(histogram_parts(bars(0, 0), Bars.DAY, blocks=True))[1:] == ["(2 empty days)"]
    plain = lines(histogram_parts(bars(4, 2), Bars.DAY, blocks=False))
    assert all(line.isascii() for line in plain)
    assert [line.count("#") for line in plain[1:]] == [40, 20]


def test_messages_are_one_line_each_with_whole_ids_and_bodies_cut_to_a_terminals_width(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed() -> list[str]:
        print_messages(client.peek("orders"))
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    client = topic(memory)
    bodies = ("a\n\tb\x85c", "é" * 900, "short", "[red]")
    ids = sorted(client.send("orders", body, delay="2h").id for body in bodies)
    memory.advance(minutes=6)
    assert {line.split("  ")[-1] for line in printed()} == {"body", "a b c", "é" * 900, "short", "[red]"}
    monkeypatch.setattr(inspection, "console", lambda: Console(width=80, highlight=False))
    lines = printed()
    assert [line[:26] for line in lines[1:]] == ids and max(map(len, lines)) == 80
    assert {line.split("  ")[-1] for line in lines} >= {"a b c", "short"}
    assert sum("ééé" in line and line.endswith("…") for line in lines) == 1
    assert print_messages([]) is None and capsys.readouterr().out == "nothing waits\n"


def test_messages_are_shown_with_their_groups_if_any_has_one(
    memory: MemoryTidewheel, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown() -> list[list[str]]:
        print_messages(client.peek("orders"))
        return [re.split("  +", line.rstrip())[2:] for line in capsys.readouterr().out.splitlines()]

    client = topic(memory)
    client.send("orders", "of nobody", delay="2h")
    memory.advance(minutes=6)
    assert shown() == [["key", "body"], ["-", "of nobody"]]
    client.send("orders", "of one", delay="3h", group="tenant-7")
    memory.advance(minutes=6)
    assert shown() == [["key", "group", "body"], ["-", "-", "of nobody"], ["-", "tenant-7", "of one"]]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Notes the pauses between looks. The third pause raises KeyboardInterrupt."""
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 3:
            raise KeyboardInterrupt

    # Not time.sleep itself: other threads may sleep, too.
    monkeypatch.setattr(inspection, "time", SimpleNamespace(sleep=pause))
    yield paused


def test_watching_looks_again_until_it_is_interrupted(memory: MemoryTidewheel, looks: list[float]) -> None:
    target = Here(made=topic(memory))
    result = CliRunner().invoke(app, ["stats", "orders", "--watch", "--json"], obj=target)
    assert (result.exit_code, looks) == (130, [inspection.WATCH_S] * 3)
    assert [json.loads(line)["topic"] for line in result.stdout.splitlines()] == ["orders"] * 3
    looks.clear()
    result = CliRunner().invoke(app, ["stats", "orders", "--watch", "--by", "day"], obj=target)
    assert (result.exit_code, looks) == (130, [inspection.WATCH_S] * 3)
    assert result.stdout.count("waiting by day, UTC (estimated)") == 3
