"""A long delay retains no short-delay data. Dead bytes are bounded on busy and idle topics."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from unittest.mock import Mock, patch

import pyarrow as pa
import pytest

from tests.flows.alone import sweep_orphans
from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, World, ids_of, once
from tests.stored import stored
from tidewheel.flows.administration.pause import pause, resume
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.delivery.load_index import complete
from tidewheel.flows.delivery.plan_again import _merged_away
from tidewheel.flows.maintenance.merge import Merged, in_process, merge
from tidewheel.flows.maintenance.retention import SLACK_BYTES
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.ledger import decode_segment
from tidewheel.ledger.rows import text_bytes
from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms
from tidewheel.model.pack import Arrival
from tidewheel.model.tombstone import tombstone

YEAR = 365 * DAY
KIB = 1024


class Merging(World):
    """A world whose sweeps' merges run at once, with the engine of the function."""

    def __init__(self, *subscriptions: str, **settings: int) -> None:
        super().__init__(*subscriptions, **settings)
        self.rewritten = 0

    def dispatch_started(self) -> None:
        super().dispatch_started()
        while self.service.runs.merges:
            self.service.runs.merges.pop()
            self.rewritten += self.merge().live_bytes

    def merge(self, *, everything: bool = False) -> Merged:
        merged = merge(self.ports, TOPIC, in_process(self.ports.objects), lease_s=900, everything=everything)
        assert merged is not None
        return merged

    def sweep_daily(self) -> None:
        sweep_orphans(self.ports)

    @property
    def stored(self) -> int:
        """The bytes of all ledgers in S3."""
        return sum(each.size_bytes for each in self.service.objects.list("ledgers/"))


def send_apart(world: World, rng: random.Random, *delays_ms: int, size: int = 1500) -> list[str]:
    """Sends messages with random bodies in one batch, as a single ledger. Returns the ids."""
    batch = [world.pack(delay, body=rng.randbytes(size // 2).hex()) for delay in delays_ms]
    world.ingest(*batch)
    return [id for pack in batch for id in ids_of(pack)]


def live_bytes(world: World, gone: Iterable[str] = ()) -> int:
    """Estimates the bytes of live rows by their share of raw bytes in each live ledger."""
    until_ms = world.state.collected_until * world.state.slot_ms
    dead = set(gone)
    total = 0.0
    for bucket in world.service.buckets.all(TOPIC):
        rows = pa.concat_tables(rows_of(world, bucket))
        sizes = text_bytes(rows) + 24
        keep = [
            due >= until_ms and id.hex() not in dead
            for due, id in zip(rows["deliver_at_ms"].to_pylist(), rows["message_id"].to_pylist(), strict=True)
        ]
        total += bucket.size_bytes * sizes[keep].sum() / sizes.sum()
    return int(total)


def rows_of(world: World, bucket: Bucket) -> list[pa.Table]:
    """All rows of a ledger, a table a segment."""
    objects, name = world.service.objects, bucket.object_name
    segments = complete(objects, bucket).segments
    return [decode_segment(objects.get_range(name, s.offset, s.length), object_name=name, segment=s) for s in segments]


def assert_bounded(world: Merging, gone: Iterable[str] = ()) -> None:
    """Asserts that a topic stores at most twice the live bytes plus the slack."""
    live = live_bytes(world, gone)
    assert world.stored - live <= live + SLACK_BYTES, f"{world.stored - live:,} dead bytes beside {live:,} live bytes"


def ids_due_after(ids: Iterable[str], due_ms: int) -> list[str]:
    return [each for each in ids if id_deliver_at_ms(id_bytes(each)) >= due_ms]


# ---- what is bounded


def test_an_idle_topic_is_rewritten_and_its_trash_deleted() -> None:
    world = Merging()
    for i in range(5):
        send_apart(world, random.Random(i), *(HOUR + i * MINUTE + j for j in range(20)), 10 * YEAR)
    world.run(DAY, sweeps=True)
    [bucket] = world.service.buckets.all(TOPIC)
    assert bucket.rows == 5
    assert world.service.objects.names("ledgers/") == [bucket.object_name]
    assert world.state.collect_at_ms is None
    collections = world.collections
    world.run(7 * DAY, sweeps=True)
    assert world.collections == collections, "nothing is left to collect"


def test_the_first_arrival_of_a_pack_reads_no_note() -> None:
    world = Merging()
    send_apart(world, random.Random(1), DAY, 2 * DAY)
    send_apart(world, random.Random(1), DAY, 2 * DAY)
    world.merge(everything=True)
    read = Mock(wraps=world.service.notes.read)
    with patch.object(world.service.notes, "read", read):
        world.ingest(replace(world.pack(DAY), arrival=Arrival(name="p", retried=False)))
    assert not read.called


# ---- cancelled, purged, paused
def cancel(world: World, ids: Iterable[str], *, certain: bool = True) -> None:
    for each in ids:
        found = tombstone(MessageId(each), world.state.slot_ms, world.clock.now_ms(), certain=certain)
        if certain:
            assert world.service.tombstones.cancel(TOPIC, found).done
        else:
            world.service.tombstones.put(TOPIC, found)


def waiting_with_cancelled(*, certain: bool = True) -> tuple[Merging, list[str], list[str]]:
    """Five ledgers, most of whose rows are cancelled, while another message is due."""
    world, rng = Merging(), random.Random(5)
    ids: list[str] = []
    for _ in range(5):
        ids += send_apart(world, rng, *(30 * DAY + i * HOUR for i in range(30)))
    world.send(HOUR)
    gone = rng.sample(ids, 120)
    cancel(world, gone, certain=certain)
    return world, ids, gone


def test_cancelled_rows_are_dead_and_are_left_out_of_a_rewrite() -> None:
    world, ids, gone = waiting_with_cancelled()
    world.run(DAY, sweeps=True)
    assert_bounded(world, gone_ids(gone))
    kept = {id.hex() for bucket in world.service.buckets.all(TOPIC) for id in all_ids(world, bucket)}
    assert len(kept) < 100
    rewritten = world.rewritten
    world.run(3 * DAY, sweeps=True)
    assert world.rewritten == rewritten, "the same tombstones are counted once"
    world.run(40 * DAY, sweeps=True)
    assert set(world.received()).isdisjoint(gone)
    assert set(ids) - set(gone) <= set(world.received())


def test_a_tombstone_that_may_have_come_too_late_drops_no_row() -> None:
    world, ids, gone = waiting_with_cancelled(certain=False)
    world.run(DAY, sweeps=True)
    world.merge(everything=True)
    kept = {id.hex() for bucket in world.service.buckets.all(TOPIC) for id in all_ids(world, bucket)}
    assert gone_ids([*ids]) == kept
    assert gone


def test_the_cancelled_rows_of_an_idle_topic_are_found_by_the_daily_sweep() -> None:
    world, rng = Merging(), random.Random(5)
    ids = [id for _ in range(5) for id in send_apart(world, rng, *(YEAR + i * HOUR for i in range(30)))]
    world.run(2 * DAY, sweeps=True)
    assert world.state.collect_at_ms is None
    cancel(world, ids[:140])
    world.run(DAY, sweeps=True)
    world.sweep_daily()
    world.run(DAY, sweeps=True)
    assert_bounded(world, gone_ids(ids[:140]))


def test_what_is_cancelled_while_a_subscription_is_paused_is_dead() -> None:
    world, rng = Merging("billing"), random.Random(5)
    world.send(*(HOUR + i * MINUTE for i in range(5)))
    pause(world.service, TOPIC, "billing")
    ids = [id for _ in range(5) for id in send_apart(world, rng, *(YEAR + i * HOUR for i in range(30)))]
    world.run(2 * DAY, sweeps=True)
    cancel(world, ids[:140])
    world.run(DAY, sweeps=True)
    assert_bounded(world, gone_ids(ids[:140]))
    resume(world.service, world.service.queues, world.clock, TOPIC, "billing")
    world.run(DAY, sweeps=True)
    assert sum(world.received().values()) == 5


def test_a_purged_range_is_dead_and_new_messages_in_it_are_not() -> None:
    world, rng = Merging(), random.Random(5)
    for _ in range(4):
        send_apart(world, rng, *(30 * DAY + i * HOUR for i in range(30)), 10 * YEAR)
    world.clock.advance_ms(1000)
    purge(world.service, world.clock, TOPIC, first_ms=START_MS, end_ms=START_MS + YEAR)
    world.clock.advance_ms(1000)
    kept = send_apart(world, rng, *(30 * DAY + i * HOUR for i in range(30)))
    world.run(DAY, sweeps=True)
    assert world.stored < 150 * KIB
    rewritten = world.rewritten
    world.run(3 * DAY, sweeps=True)
    assert world.rewritten == rewritten
    assert world.received_after(40 * DAY, sweeps=True) == once(kept)


def test_a_plan_made_anew_names_no_ledger_that_was_merged_away_without_a_row_of_the_plan() -> None:
    world, rng = Merging(), random.Random(1)
    send_apart(world, rng, DAY, 2 * DAY)
    send_apart(world, rng, DAY, 2 * DAY)
    world.merge(everything=True)
    [far] = world.service.merges.trash(TOPIC)
    assert far.dead_from == 0, "a collection may delete it at once"
    first_slot = world.state.planned - 1
    assert list(_merged_away(world.ports, TOPIC, first_slot, first_slot + 1)) == []
    planned = replace(far, dead_from=first_slot + 1)
    stored(world.service).of(TOPIC).trash[planned.dead_from, far.id] = planned
    again = _merged_away(world.ports, TOPIC, first_slot, first_slot + 1)
    assert {each.object_name for each in again} == {*far.objects}


# ---- strict erasure
def test_with_strict_erasure_nothing_dead_is_stored_a_day_after_it_died() -> None:
    world, rng = Merging(strict_erasure=1), random.Random(5)
    erased: list[str] = []
    erase = world.service.objects.erase
    with patch.object(
        world.service.objects, "erase", lambda names: erase(erased.extend(found := list(names)) or found)
    ):
        for _ in range(4):
            ids = send_apart(world, rng, HOUR, 5 * HOUR, YEAR, YEAR + HOUR, size=200)
            world.run(12 * HOUR, sweeps=True)
        cancel(world, [ids[-1]])
        world.run(DAY, sweeps=True)
        world.sweep_daily()
        world.run(DAY, sweeps=True)
    kept = {id for bucket in world.service.buckets.all(TOPIC) for id in all_ids(world, bucket)}
    assert len(kept) == 4 * 2 - 1
    assert world.stored == sum(each.size_bytes for each in world.service.buckets.all(TOPIC))
    assert erased
    merges = len(erased)
    world.run(7 * DAY, sweeps=True)
    assert len(erased) == merges, "nothing more is dead"
    assert world.state.collect_at_ms is None


def test_without_strict_erasure_no_version_is_erased() -> None:
    world = Merging()
    with patch.object(world.service.objects, "erase", side_effect=AssertionError):
        for i in range(5):
            send_apart(world, random.Random(i), *(HOUR + i * MINUTE + j for j in range(20)), 10 * YEAR)
        world.run(DAY, sweeps=True)
    assert_bounded(world)


# ---- whatever happens
@pytest.mark.parametrize("seed", range(12))
def test_a_day_after_any_sequence_of_flows_dead_bytes_are_few(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    slack = rng.choice([0, 4000, SLACK_BYTES])
    monkeypatch.setattr("tidewheel.flows.maintenance.retention.SLACK_BYTES", slack)
    world = Merging("billing", "audit", max_buckets=rng.choice([4, 64]))
    ids: list[str] = []
    gone: list[str] = []
    for _ in range(rng.randint(10, 30)):
        match rng.choice(["send", "send", "send", "cancel", "pause", "resume", "run", "merge"]):
            case "send":
                delays = [
                    rng.choice([HOUR, 5 * HOUR, DAY, 30 * DAY, YEAR]) + i * MINUTE for i in range(rng.randint(1, 12))
                ]
                ids += send_apart(world, rng, *delays)
            case "cancel":
                far = [id for id in ids if id_deliver_at_ms(id_bytes(id)) > world.clock.now_ms() + HOUR]
                chosen = rng.sample(far, len(far) // 2)
                cancel(world, [id for id in chosen if id not in gone])
                gone += [id for id in chosen if id not in gone]
            case "pause":
                pause(world.service, TOPIC, "audit")
            case "resume":
                resume(world.service, world.service.queues, world.clock, TOPIC, "audit")
            case "merge":
                world.merge(everything=rng.random() < 0.5)
            case _:
                world.run(int(rng.random() * DAY), sweeps=True)
        world.work()
    resume(world.service, world.service.queues, world.clock, TOPIC, "audit")
    world.run(DAY, sweeps=True)
    world.sweep_daily()
    world.run(DAY, sweeps=True)
    live = live_bytes(world, gone_ids(gone))
    assert world.stored - live <= live + slack + len(gone) * 100
    ended = world.clock.now_ms() + 15 * MINUTE
    expected = once([each for each in ids if each not in gone and each not in ids_due_after(ids, ended)])
    assert world.received("billing") == world.received("audit") == expected


def gone_ids(ids: Iterable[str]) -> set[str]:
    return {id_bytes(each).hex() for each in ids}


def all_ids(world: World, bucket: Bucket) -> list[bytes]:
    return [id for table in rows_of(world, bucket) for id in table["message_id"].to_pylist()]
