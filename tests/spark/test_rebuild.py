"""Rebuilds through Spark give the same results as the single-process engine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.flows.alone import local_engine
from tests.flows.world import DAY, HOUR, TOPIC, World
from tests.folder_objects import FolderLocation
from tests.stored import altered, stored
from tidewheel.errors import InvalidValue
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.flows.recovery.audit import audit
from tidewheel.flows.recovery.rebuild import ledgers_of, rebuild
from tidewheel.flows.recovery.rebuild_planning import groups
from tidewheel.flows.recovery.scan import ScanRange, scan_here
from tidewheel.jobs.job import Job
from tidewheel.jobs.location import Location, key_ports
from tidewheel.jobs.rebuilding import engine_of, rebuild_index, topic_settings
from tidewheel.ledger.bucket import bucket_id
from tidewheel.ledger.ledger import encode_ledger, rows_table
from tidewheel.ledger.rows import sort_rows
from tidewheel.model.object_names import ASIDE, ledger_name
from tidewheel.model.settings import TopicSettings
from tidewheel.spark.ledger_scan import scan_on_spark
from tidewheel.spark.tasks import OnSpark


@dataclass(frozen=True, kw_only=True)
class Made:
    """A topic of all sorts of ledgers, in a folder."""

    world: World
    location: Location
    ids: list[str]
    damaged: str


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    location = FolderLocation(root=str(tmp_path))
    world = World("billing", segment_rows=5)
    world.service = altered(world.service, objects=location.objects())
    world.ports = world.service
    lost = world.send(*(2 * DAY + i * HOUR for i in range(15)))[5:10]
    [damaged] = [bucket.object_name for bucket in world.service.buckets.all(TOPIC)]
    ids = [id for i in range(6) for id in world.send(*(DAY + i * HOUR + j for j in range(12)))]
    merge(world.ports, TOPIC, in_process(world.ports.objects), lease_s=60, everything=True)
    checkpoint_topic(world.ports, TOPIC)
    [trash] = world.service.merges.trash(TOPIC)
    gone = [name for name in trash.objects if name != damaged][:3]
    world.service.objects.delete(gone)
    merged = world.service.buckets.all(TOPIC)[0]
    data = bytearray(world.service.objects.get_range(damaged, 0, 10**7))
    data[len(data) // 2] ^= 0xFF
    world.service.objects.put(damaged, bytes(data))
    assert merged.rows == len(ids) + 15 and lost
    yield Made(world=world, location=location, ids=ids, damaged=damaged)


def job(made: Made, spark: SparkSession | None, said: list[str], **arguments: str) -> Job:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return Job(
        arguments={"topic": TOPIC} | named,
        service=made.world.ports,
        location=made.location,
        spark=None if spark is None else OnSpark(lambda: spark),
        scan_on_spark=partial(scan_on_spark, lambda: spark),  # type: ignore[arg-type, return-value]
        say=said.append,
    )


@pytest.mark.parametrize("where", ["threads", "spark"])
def test_every_engine_finds_the_same_and_loses_and_doubles_nothing(spark: SparkSession, made: Made, where: str) -> None:
    world = made.world
    engine = engine_of(job(made, spark if where == "spark" else None, [], spark_above_mb="0"))
    stored(world.service).clear()
    expected = audit(world.ports, TOPIC, local_engine(world.ports))
    assert [len(each) for each in expected.overlapping] == [5]
    assert audit(world.ports, TOPIC, engine) == expected
    report = rebuild(world.ports, TOPIC, engine, lease_s=60)
    assert report.overlapping == expected.overlapping and report.damaged == expected.damaged
    assert [each.object_name for each in report.damaged] == [made.damaged]
    assert [each.name for each in world.ports.objects.list(ASIDE)] == [ASIDE + made.damaged]
    world.run(4 * DAY, sweeps=True)
    received = world.received()
    assert set(received.values()) == {1} and set(made.ids) <= set(received) and len(received) == len(made.ids) + 15


def some_ledgers(folder: Path) -> list[set[int]]:
    """Writes ledgers, some of which share messages. Returns the numbers of each ledger's messages."""
    draw = random.Random(5)
    pools = [range(start, start + 200) for start in range(0, 1600, 200)]
    found = [set(draw.sample(pools[draw.randrange(8)], 60)) for _ in range(14)]
    for place, numbers in enumerate(found):
        times = [number * 1000 for number in numbers]
        ids = [random.Random(number).randbytes(16) for number in numbers]
        rows = rows_table(deliver_at_ms=times, message_id=ids, payload=[b""] * 60, encoding=[0] * 60, sent_at_ms=times)
        ledger = encode_ledger(sort_rows(rows), topic=TOPIC, generation="g", slot_ms=300_000)
        FolderLocation(root=str(folder)).objects().put(
            ledger_name(TOPIC, bucket_id(0, f"{place:02}"), 300_000, "a"), ledger.data
        )
    return found


def test_both_scans_find_the_same_ledgers_and_connect_the_same(spark: SparkSession, tmp_path: Path) -> None:
    ledgers = some_ledgers(tmp_path)
    location, wanted = FolderLocation(root=str(tmp_path)), ScanRange(slot_ms=300_000, from_ms=100_000, keys_from_ms=0)
    stored = ledgers_of(location.objects(), TOPIC)
    there: Any = SimpleNamespace(location=location, advance=lambda *_: None)
    here = scan_here(location.objects(), partial(key_ports, location), stored, wanted)
    on_spark = scan_on_spark(lambda: spark, there, stored, wanted)
    assert list(here.inspected) == list(on_spark.inspected) and len(here.inspected) == len(ledgers)
    late = [{number for number in each if number >= 100} for each in ledgers]
    expected = groups(here.inspected, [(a, b) for a, b in combinations(range(14), 2) if late[a] & late[b]])
    for scan in (here, on_spark):
        assert groups(scan.inspected, scan.overlaps(scan.inspected)) == expected
        assert not list(scan.overlaps(scan.inspected[:1]))
    assert 1 < len(expected) < 8 and max(map(len, expected)) > 2
    on_spark.close()


def test_a_small_rebuild_starts_no_spark(made: Made) -> None:
    said = list[str]()
    with pytest.raises(InvalidValue, match="has an index"):
        rebuild_index(job(made, None, said))
    stored(made.world.service).clear()
    report = rebuild_index(job(made, None, said))
    assert [len(each) for each in report.overlapping] == [5]
    assert any("share messages" in line for line in said)


def test_settings_are_arguments(made: Made) -> None:
    assert topic_settings(job(made, None, [])) is None
    given = topic_settings(job(made, None, [], slot_s="60", lookahead_s="150"))
    assert given == TopicSettings(slot_s=60, lookahead_s=150)
    with pytest.raises(InvalidValue, match="--slot-s='soon'"):
        topic_settings(job(made, None, [], slot_s="soon"))


# --- what the driver holds, from metadata alone ---------------------------------------------------------------------
