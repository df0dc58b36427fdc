"""Planning creates each recurring message once, despite crashes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.flows.alone import local_engine
from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, World
from tests.stored import stored
from tidewheel.client import recurring
from tidewheel.client.recurring import RecurringMessage
from tidewheel.errors import InvalidValue
from tidewheel.flows.administration.pause import pause, resume
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.occurrences import MAX_PLAN_BYTES
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.model.message import Message, id_bytes, id_deliver_at_ms
from tidewheel.model.object_names import CHECKPOINTS
from tidewheel.model.pack import decode_pack, packs
from tidewheel.model.recurrence import parse_rule, rule_of
from tidewheel.model.validation import OutgoingMessage


def make(
    world: World, key: str = "daily", body: Any = "hello", *, replaces: bool = False, **rule: Any
) -> RecurringMessage:
    """Creates a recurring message as the client does, with early occurrences ingested at once."""

    def send(messages: list[OutgoingMessage]) -> None:
        now = world.clock.now_ms()
        for _, data in packs(TOPIC, world.state.generation, now, messages):
            world.ingest(decode_pack(data, now))

    now_ms = world.clock.now_ms()
    given = parse_rule(rule.get("cron"), rule.get("every"), rule.get("timezone", "UTC"), start_ms=now_ms)
    about = {name: rule.get(name) for name in ("expires_in", "group", "window")}
    message = Message(body=body, attributes=rule.get("attributes", {}), **about)
    storage = world.service
    return recurring.make(
        storage, send, lambda: world.state, now_ms, key, message, given, starts_now=True, replaces=replaces
    )


def end(world: World, key: str = "daily") -> None:
    recurring.end(world.service, lambda: world.state, key)


def due_minutes(world: World, name: str = "billing") -> list[float]:
    """Returns the due times of received messages in minutes after the start. Fails on duplicates."""
    found = world.received(name)
    assert set(found.values()) <= {1}, Counter(found.values())
    return sorted((id_deliver_at_ms(id_bytes(each)) - START_MS) / MINUTE for each in found)


def test_one_that_is_due_in_the_first_millisecond_of_a_slot_comes_in_time_whatever_else_is_due_before_it() -> None:
    world = World()
    make(world, every="1d")
    [other] = world.send(2 * DAY - 2 * MINUTE)
    world.run(3 * DAY + MINUTE, sweeps=True)
    assert other in world.received()
    assert [each for each in due_minutes(world) if each <= 3 * 1440] == [0, 1440, 2878, 2880, 4320]
    world.assert_in_time()


def shift(world: World, name: str = "daily") -> float:
    """Returns the shift of a recurring message in minutes."""
    [found] = [each for each in world.service.recurring.all(TOPIC) if each.name == name]
    return rule_of(found).shift_ms / MINUTE


@pytest.mark.parametrize("settings", [{"slot_s": 1, "lookahead_s": 3}, {"slot_s": 60, "lookahead_s": 150}, {}])
@pytest.mark.parametrize("window", ["15m", "6h"])
def test_a_window_shifts_each_time_by_the_same_across_slots(settings: dict[str, int], window: str) -> None:
    world = World(**settings)
    made = make(world, every="10m", window=window, expires_in="1h")
    shifted = shift(world)
    assert made.next_at is not None and made.next_at.timestamp() == pytest.approx(START_MS / 1000 + shifted * 60)
    world.run(9 * HOUR, sweeps=True)
    expected = [shifted + 10 * i for i in range(54) if shifted + 10 * i <= 540]
    assert [each for each in due_minutes(world) if each <= 540] == pytest.approx(expected)
    assert all(f'"exp":{sent.deliver_at_ms + HOUR}' in sent.header for sent in world.service.queues.sent())
    world.assert_in_time()


def test_body_attributes_key_and_expiry_come_each_time() -> None:
    world = World()
    make(world, key="report", body={"n": 1}, every="1d", attributes={"kind": "report"}, expires_in="1h")
    world.run(2 * DAY + MINUTE, sweeps=True)
    everything = world.service.queues.sent("queue-billing")
    assert len(everything) == 3
    for sent in everything:
        assert sent.text == '{"n":1}'
        assert sent.attributes == {"kind": "report"}
        assert f'"exp":{sent.deliver_at_ms + HOUR}' in sent.header


def test_nothing_is_left_over_when_it_has_been_delivered() -> None:
    world = World()
    make(world, every="1h")
    world.run(3 * DAY, sweeps=True)
    assert len([n for n in world.service.objects.names() if n.startswith("plans/")]) <= 24
    end(world)
    world.run(2 * DAY, sweeps=True)
    collect(world.ports, TOPIC)
    assert [name for name in world.service.objects.names() if not name.startswith("checkpoints/")] == []
    assert world.state.recurring == 0
    assert world.state.next_slot is None


@pytest.mark.parametrize(
    ("rule", "after_ms"),
    [
        ({"cron": "*/10 * * * *"}, HOUR + MINUTE),
        ({"every": "10m"}, 6 * HOUR + 5 * MINUTE),
        ({"every": "7h", "window": "1h"}, 6 * HOUR + 52 * MINUTE),
    ],
)
def test_one_that_is_removed_and_added_again_at_a_deployment_goes_on_without_a_copy_or_a_gap(
    rule: dict[str, Any], after_ms: int
) -> None:
    world, undisturbed = World(), World()
    for each in (world, undisturbed):
        make(each, **rule)
        each.run(after_ms, sweeps=True)
    for _ in range(2):
        end(world)
        world.clock.advance_ms(3_000)
        make(world, body="changed", **rule)
    for each in (world, undisturbed):
        each.run(START_MS + 15 * HOUR - each.clock.now_ms(), sweeps=True)
    assert [t for t in due_minutes(world) if t <= 840] == [t for t in due_minutes(undisturbed) if t <= 840]


def test_one_that_is_added_again_after_its_next_time_or_with_another_rule_begins_anew() -> None:
    world = World()
    make(world, every="1h")
    world.run(30 * MINUTE, sweeps=True)
    end(world)
    make(world, every="40m")  # minutes 30, 70
    world.run(20 * MINUTE, sweeps=True)
    end(world)
    world.run(45 * MINUTE, sweeps=True)
    make(world, every="40m")
    world.run(HOUR, sweeps=True)
    assert [round(each) for each in due_minutes(world) if each <= 150] == [0, 30, 95, 135]


def test_a_purge_drops_what_is_planned_and_not_the_rule() -> None:
    world = World()
    make(world, every="1h")
    world.run(3 * HOUR + MINUTE, sweeps=True)
    purge(world.service, world.clock, TOPIC)
    world.run(3 * HOUR, sweeps=True)
    assert due_minutes(world)[-1] >= 360


def test_large_occurrences_that_were_missed_for_hours_are_planned_in_parts_that_fit_into_memory() -> None:
    world = World("billing", "audit")
    make(world, every="1m", body="x" * 250_000)
    world.run(HOUR, sweeps=True)
    world.service.wheel.take_due(2**60)
    world.clock.advance_ms(6 * HOUR)
    done = dispatch(world.ports, TOPIC)
    assert done is not None and done.next_slot is not None and world.state.planned == world.state.sealed
    plans = [world.service.plans.read(TOPIC, first) for first, _ in world.service.plans.ranges(TOPIC)]
    slot_bytes = 250_000 * world.state.settings.slot_s // 60
    assert max(plan.raw_bytes for plan in plans if plan) <= MAX_PLAN_BYTES + slot_bytes
    world.work()
    for name in ("billing", "audit"):
        assert due_minutes(world, name)[:421] == [float(i) for i in range(421)]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"key": "k" * 257}, "key"),
        ({"key": "ä" * 256, "every": "1h"}, None),
        ({"key": "\U0001f600" * 230}, "key"),
        ({"body": "x" * 300_000}, "body"),
        ({"expires_in": 0}, "expires_in"),
        ({"window": 0}, "window"),
        ({"window": "8d"}, "window"),
    ],
)
def test_what_cannot_be_made_is_told(changes: dict[str, Any], field: str | None) -> None:
    world = World()
    if field is None:
        assert make(world, **changes).key == changes["key"]
        return
    with pytest.raises(InvalidValue) as raised:
        make(world, every="1h", **{k: v for k, v in changes.items() if k != "every"})
    assert raised.value.field == field
    assert world.state.recurring == 0
    assert world.received() == Counter()


@pytest.mark.parametrize("window", [None, "15m"])
def test_a_rebuild_of_a_lost_table_brings_recurring_messages_back(window: str | None) -> None:
    world = World()
    make(world, every="1h", window=window, group="tenant-7")
    shifted = shift(world)
    world.run(DAY, sweeps=True)
    collect(world.ports, TOPIC)
    storage = world.service
    [kept] = storage.recurring.all(TOPIC)
    stored(storage).clear()
    rebuild(world.ports, TOPIC, local_engine(world.ports), lease_s=600)
    [restored] = storage.recurring.all(TOPIC)
    assert restored.says_the_same(kept) and restored.generation == kept.generation
    assert world.state.recurring == 1
    world.run(DAY, sweeps=True)
    minutes = sorted({(id_deliver_at_ms(id_bytes(each)) - START_MS) / MINUTE for each in world.received()})
    expected = [60 * i + shifted for i in range(49) if 60 * i + shifted <= 48 * 60]
    assert [each for each in minutes if each <= 48 * 60] == pytest.approx(expected)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("twice", [False, True])
def test_after_a_rebuild_a_paused_subscription_gets_the_planned_occurrences_of_one_that_has_ended(
    lost: bool, twice: bool
) -> None:
    world = World("billing", "audit")
    make(world, "ended", every="1h")
    make(world, "goes on", every="1h")
    world.run(MINUTE)
    pause(world.service, TOPIC, "audit")
    world.run(5 * HOUR + 30 * MINUTE, sweeps=True)
    end(world, "ended")
    assert checkpoint_topic(world.ports, TOPIC)
    if lost:
        stored(world.service).clear()
    for _ in range(1 + twice):
        rebuild(world.ports, TOPIC, local_engine(world.ports), lease_s=0, replace_index=True)
        world.run(MINUTE)
    resume(world.service, world.service.queues, world.clock, TOPIC, "audit")
    world.run(HOUR, sweeps=True)

    for name in ("audit", "billing"):  # the first at once, from its maker
        assert [each for each in due_minutes(world, name) if each <= 300] == sorted([60.0 * i for i in range(6)] * 2)


def test_after_a_rebuild_planned_occurrences_of_one_that_was_made_and_has_ended_since_the_checkpoint_come() -> None:
    world = World("billing", "audit")
    make(world, "goes on", every="1h")
    world.run(MINUTE)
    pause(world.service, TOPIC, "audit")
    assert checkpoint_topic(world.ports, TOPIC)
    objects = world.service.objects
    [name] = objects.names(CHECKPOINTS)
    checkpoint = objects.get_range(name, 0, 10**6)
    make(world, "ended", every="1h")
    world.run(5 * HOUR + 30 * MINUTE, sweeps=True)
    end(world, "ended")
    objects.delete(objects.names(CHECKPOINTS))
    objects.put(name, checkpoint)
    stored(world.service).clear()
    rebuild(world.ports, TOPIC, local_engine(world.ports), lease_s=0)
    assert [each.name for each in world.service.recurring.all(TOPIC)] == ["goes on"]
    assert not stored(world.service).of(TOPIC).keys  # a recurring message's name is no key
    resume(world.service, world.service.queues, world.clock, TOPIC, "audit")
    world.run(HOUR, sweeps=True)
    due = due_minutes(world, "audit")
    # "ended" begins a minute later.
    assert {60.0 * i for i in range(1, 6)} | {60.0 * i + 1 for i in range(1, 6)} <= set(due)


def test_making_it_again_later_without_a_start_changes_nothing_whatever_the_rule() -> None:
    world = World()
    made = [make(world, key="rate", every="1h"), make(world, key="cron", cron="0 9 * * *")]
    world.run(HOUR + 7 * MINUTE, sweeps=True)
    assert make(world, key="rate", every="1h").next_at == made[0].next_at.replace(hour=2)  # type: ignore[union-attr]
    assert make(world, key="cron", cron="0 9 * * *") == made[1]
    make(world, key="rate", body="another", every="1h", replaces=True)
    world.run(4 * HOUR, sweeps=True)
    assert {due % 60 for due in due_minutes(world)} == {0.0}


def test_one_that_is_replaced_right_after_it_was_made_leaves_no_copy_and_no_gap() -> None:
    world = World()
    make(world, every="5m", body="old")
    world.clock.advance_ms(MINUTE)
    make(world, cron="*/5 * * * *", body="new", replaces=True)
    world.run(2 * HOUR, sweeps=True)
    assert [each for each in due_minutes(world) if each <= 120] == [5.0 * i for i in range(25)]
    assert {sent.text for sent in world.service.queues.sent()} == {"old", "new"}
