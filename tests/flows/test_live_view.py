"""The live view: what queries of waiting messages read in place of the table."""

from __future__ import annotations

import csv
import gzip
import io
import random
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pyarrow.parquet as pq
import pytest

from tests.flows.alone import local_engine
from tests.flows.world import HOUR, MINUTE, TOPIC, World, seeds
from tests.stored import stored
from tidewheel.errors import CorruptMetadata, UnknownMessage
from tidewheel.flows.administration.delete_topic import delete_topic
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.administration.update_topic import update_topic
from tidewheel.flows.maintenance import live_view
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic
from tidewheel.flows.maintenance.live_view import LAG_MS, LONGEST_MS, write_view
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.ledger.bucket import Bucket, bucket_id
from tidewheel.local import MemoryTidewheel
from tidewheel.memory import MemoryService
from tidewheel.model.message import id_bytes
from tidewheel.model.object_names import LEDGERS, view_name
from tidewheel.model.plan import Trash
from tidewheel.model.topic_state import TopicState
from tidewheel.storage import table_keys
from tidewheel.storage.topic_states import AT_ONCE_MS

VIEW = view_name(TOPIC)


def stored_view(service: MemoryService) -> list[dict[str, str]]:
    data = service.objects.get_range(VIEW, 0, 1 << 30)
    return list(csv.DictReader(io.StringIO(gzip.decompress(data).decode())))


def ledgers(service: MemoryService) -> list[str]:
    return [row["ledger"] for row in stored_view(service) if row["ledger"]]


def shown(service: MemoryService) -> list[str]:
    """Returns the ids that a query shows, in hex: each once."""
    view, found = stored_view(service), set()
    cancelled = {row["cancelled"] for row in view if row["cancelled"]}
    ranges = [[int(row[name]) for name in ("first_ms", "end_ms", "sent_before_ms")] for row in view if row["end_ms"]]
    for name in ledgers(service):
        for row in pq.read_table(io.BytesIO(service.objects.get_range(name, 0, 1 << 30))).to_pylist():
            due_ms, sent_ms, expires_ms = row["deliver_at_ms"], row["sent_at_ms"], row["expires_at_ms"]
            gone = any(first <= due_ms < end and sent_ms < before for first, end, before in ranges)
            if not gone and (expires_ms is None or expires_ms >= service.clock.now_ms()):
                found.add(row["message_id"].hex().upper())
    return sorted(found - cancelled)


@pytest.mark.parametrize("seed", seeds(12, 1))
def test_a_view_shows_what_peek_shows_and_its_ledgers_stay_for_an_hour(seed: int) -> None:
    random_ = random.Random(seed)
    stack = MemoryTidewheel(max_buckets=4, live_view=1)
    tw, service = stack.client(), stack.service
    tw.create_topic(TOPIC)
    tw.create_subscription(TOPIC, "billing")
    sent, older = list[str](), list[tuple[int, list[str]]]()
    for number in range(120):
        delay = timedelta(minutes=random_.choice([5, 30, 90, 600, 3000]), seconds=random_.randrange(3000))
        match random_.randrange(8):
            case 0 | 1 | 2:
                lasts = timedelta(minutes=random_.choice([1, 9999]))
                sent.append(tw.send(TOPIC, number, delay=delay, expires_in=lasts).id)
            case 3:
                tw.send(TOPIC, number, delay=delay, key=f"k{random_.randrange(3)}", replace=True)
            case 4 if sent:
                tw.cancel(TOPIC, random_.choice(sent))
            case 5 if sent:
                with suppress(UnknownMessage):  # it is on its way, or long gone
                    tw.reschedule(TOPIC, random_.choice(sent), delay=delay)
            case 6 if random_.random() < 0.3:
                tw.purge(TOPIC, start=stack.now() + delay, end=stack.now() + delay + timedelta(hours=9))
        stack.advance(minutes=random_.choice([0, 0, 4, 11, 45]))
        write_view(service, TOPIC)
        assert shown(service) == sorted(id_bytes(each.id).hex().upper() for each in tw.peek(TOPIC, 1000)), number
        older.append((service.clock.now_ms(), ledgers(service)))
        for at_ms, names in older:
            if at_ms > service.clock.now_ms() - LAG_MS:
                assert set(names) <= set(service.objects.names(LEDGERS))
    assert stack.invocations["compact"] and not stack.failures


def writes(world: World, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes when the view is put."""
    put, noted = world.service.objects.put, list[int]()

    def noting(name: str, data: bytes, **options: bool) -> None:
        if name == VIEW:
            noted.append(world.clock.now_ms())
        put(name, data, **options)

    monkeypatch.setattr(world.service.objects, "put", noting)
    return noted


def test_a_sweep_writes_a_view_that_changed_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(live_view=1)
    world.run(HOUR, sweeps=True)
    noted = writes(world, monkeypatch)
    world.run(HOUR, sweeps=True)
    assert noted == [] and shown(world.service) == []
    [sent] = world.send(30 * 24 * HOUR)
    world.run(HOUR, sweeps=True)
    assert len(noted) == 1 and shown(world.service) == [id_bytes(sent).hex().upper()]


def test_a_view_of_many_rows_is_written_less_often() -> None:
    world = World(live_view=1)
    for number in range(40):
        world.send((30 + number) * 24 * HOUR)
    pauses = []
    for pause_ms in (0, 1000, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(live_view, "_PAUSE_MS", pause_ms)
            write_view(world.ports, TOPIC)
        pauses.append((world.state.view_at_ms or 0) - world.clock.now_ms())
    assert pauses == [live_view.LEAST_MS, live_view.LEAST_MS + 43 * 1000, LONGEST_MS]


def test_a_topic_without_the_setting_pays_nothing_and_one_that_loses_it_loses_its_view() -> None:
    world = World(subscribe=False)
    assert world.state.next_check_ms is None
    assert VIEW not in world.service.objects.names()
    update_topic(world.service, world.clock, TOPIC, {"live_view": 1})
    world.sweep()
    assert VIEW in world.service.objects.names()
    world.run(HOUR)
    update_topic(world.service, world.clock, TOPIC, {"live_view": 0})
    world.sweep()
    assert VIEW not in world.service.objects.names()
    assert (world.state.view_at_ms, world.state.next_check_ms) == (None, None)


@pytest.mark.parametrize("next_check_ms", [None, AT_ONCE_MS])
def test_a_live_view_that_begins_beside_another_write_of_the_next_check_is_written(next_check_ms: int | None) -> None:
    world = World(subscribe=False)
    assert world.service.topic_states.set_collect_at(world.state, None, next_check_ms)
    before = world.state
    update_topic(world.service, world.clock, TOPIC, {"live_view": 1})
    assert not world.service.topic_states.set_collect_at(before, None, None)
    world.sweep()
    assert VIEW in world.service.objects.names()


def test_a_shorter_retention_that_comes_with_a_live_view_is_collected_at_once() -> None:
    world = World(subscribe=False, retention_days=2)
    update_topic(world.service, world.clock, TOPIC, {"live_view": 1, "retention_days": 1})
    assert world.state.collect_at_ms == world.state.view_at_ms == world.clock.now_ms()


@pytest.mark.parametrize("next_check_ms", [None, AT_ONCE_MS])
@pytest.mark.parametrize("read", [1, 2])
@pytest.mark.parametrize("ends", [False, True])
def test_a_setting_that_changes_while_the_view_is_written_or_deleted_takes_effect_with_the_next_sweep(
    ends: bool, read: int, next_check_ms: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(subscribe=False, live_view=1)
    write_view(world.ports, TOPIC)
    if not ends:
        update_topic(world.service, world.clock, TOPIC, {"live_view": 0})
    if next_check_ms is not None:
        assert world.service.topic_states.set_collect_at(world.state, None, next_check_ms)
    world.clock.advance_ms(6 * MINUTE)
    # Of write_view: the first read is before its work, the last before the next time is set.
    states, left = world.service.topic_states, [1] * read
    original = states.read

    def changing(topic: str) -> TopicState | None:
        state = original(topic)
        left.pop()
        if not left:
            monkeypatch.undo()
            update_topic(world.service, world.clock, TOPIC, {"live_view": 0 if ends else 1})
        return state

    monkeypatch.setattr(states, "read", changing)
    write_view(world.ports, TOPIC)
    assert left == []
    world.clock.advance_ms(MINUTE)
    world.sweep()
    assert (VIEW in world.service.objects.names()) is not ends


def test_a_topic_that_was_rebuilt_has_its_view_again_and_a_deleted_one_has_none() -> None:
    world = World(subscribe=False, live_view=1)
    [sent] = world.send(30 * 24 * HOUR)
    checkpoint_topic(world.ports, TOPIC)
    stored(world.service).clear()
    rebuild(world.ports, TOPIC, local_engine(world.ports), lease_s=60)
    world.sweep()
    assert shown(world.service) == [id_bytes(sent).hex().upper()]
    delete_topic(world.service, world.clock, TOPIC)
    world.run(HOUR, sweeps=True)
    assert VIEW not in world.service.objects.names()


def test_a_ledger_that_left_the_view_is_deleted_after_an_hour() -> None:
    world = World(live_view=1)
    passed, replaced = world.send(2 * HOUR), world.send(30 * 24 * HOUR)
    assert len(passed) == len(replaced) == 1
    world.run(2 * HOUR, sweeps=True)
    purge(world.service, world.clock, TOPIC)
    world.run(HOUR - 2 * MINUTE, sweeps=True)
    assert ledgers(world.service) == [] and len(world.service.objects.names(LEDGERS)) == 2
    world.run(2 * HOUR, sweeps=True)
    assert world.service.objects.names(LEDGERS) == []


def test_a_bucket_that_cannot_be_read_leaves_the_view_as_it_is_and_the_sweep_says_so() -> None:
    world = World(live_view=1)
    world.send(30 * 24 * HOUR)
    world.sweep()
    before = stored_view(world.service)
    world.send(40 * 24 * HOUR)
    [first, _] = world.service.buckets.all(TOPIC)
    key = table_keys.bucket_key(TOPIC, first.id)
    stored(world.service).put({**(stored(world.service).read(key) or {}), "slots": {"B": b"nonsense"}})
    world.clock.advance_ms(6 * MINUTE)
    world.may_fail = True
    assert isinstance(world.sweep().failures[TOPIC], CorruptMetadata)
    assert stored_view(world.service) == before
    assert world.state.view_at_ms == world.clock.now_ms() + LONGEST_MS


def test_messages_that_a_swap_moves_while_the_ledgers_are_read_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(live_view=1)
    world.send(30 * 24 * HOUR)
    world.send(40 * 24 * HOUR)
    in_order = world.service.buckets.in_order

    def swapped(topic: str) -> list[Bucket]:
        first, moved = in_order(topic)
        names, now_ms = (moved.object_name,), world.clock.now_ms()
        trash = Trash(sealed=world.state.sealed, id="t", objects=names, dead_from=world.state.sealed, put_ms=now_ms)
        output = replace(moved, id=bucket_id(moved.first_slot, "output"))
        assert world.service.merges.swap(world.state, [moved], [output], trash)
        return [first]  # the output's place in the order was read before, and the source is gone

    with monkeypatch.context() as patched:
        patched.setattr(world.service.buckets, "in_order", swapped)
        write_view(world.ports, TOPIC)
    assert len(shown(world.service)) == 2
    world.run(HOUR, sweeps=True)
    assert sorted(ledgers(world.service)) == sorted(each.object_name for each in in_order(TOPIC))
