"""Rebuilds through Spark find and make what the engine in one process does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.flows.world import DAY, HOUR, START_MS, TOPIC, World
from tidewheel.errors import InvalidValue
from tidewheel.flows.recovery.audit import audit
from tidewheel.flows.recovery.rebuild import ledgers_of
from tidewheel.jobs.rebuild_engine import local_engine
from tidewheel.flows.upkeep.checkpoint import checkpoint_topic
from tidewheel.flows.upkeep.merge import in_process, merge
from tidewheel.jobs.job import Job
from tidewheel.jobs.location import Location
from tidewheel.model.object_names import ASIDE
from tidewheel.model.settings import TopicSettings
from tidewheel.spark import tasks
from tidewheel.spark.rebuilding import OnSpark, rebuild_index, topic_settings


@dataclass(frozen=True, kw_only=True)
class Made:
    """A topic of all sorts of ledgers, in a folder."""

    world: World
    location: Location
    ids: list[str]
    damaged: str


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    location = Location(root=str(tmp_path))
    world = World("billing", segment_rows=5)
    world.service = replace(world.service, objects=location.objects())  # type: ignore[arg-type]
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


def job(made: Made, spark: Callable[[], SparkSession], said: list[str], **arguments: str) -> Job:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return Job(
        arguments={"topic": TOPIC} | named,
        service=made.world.ports,  # type: ignore[arg-type]
        location=made.location,
        spark=tasks.OnSpark(spark),
        say=said.append,
    )


def no_spark() -> SparkSession:
    raise AssertionError("Spark is not needed")


def test_both_engines_find_the_same_and_a_rebuild_on_spark_loses_and_doubles_nothing(
    spark: SparkSession, made: Made
) -> None:
    world, said = made.world, list[str]()
    here = local_engine(world.ports)
    stored = ledgers_of(world.ports.objects, TOPIC)
    assert OnSpark(spark=lambda: spark, location=made.location).inspect(stored, 300_000) == here.inspect(
        stored, 300_000
    )
    with pytest.raises(InvalidValue, match="has an index"):
        rebuild_index(job(made, no_spark, said))
    world.service.store.topics.clear()
    expected = audit(world.ports, TOPIC, here)
    assert [len(each) for each in expected.overlapping] == [5]
    report = rebuild_index(job(made, lambda: spark, said))
    assert report.overlapping == expected.overlapping and report.damaged == expected.damaged
    assert [each.object_name for each in report.damaged] == [made.damaged]
    assert [each.name for each in world.ports.objects.list(ASIDE)] == [ASIDE + made.damaged]
    assert any("share messages" in line for line in said)
    world.run(4 * DAY, sweeps=True)
    received = world.received()
    assert set(received.values()) == {1} and set(made.ids) <= set(received) and len(received) == len(made.ids) + 15


def test_what_needs_no_spark_starts_none(made: Made) -> None:
    engine = OnSpark(spark=no_spark, location=made.location)
    assert engine.inspect([], 300_000) == []
    assert engine.overlaps([], 0) == set()
    assert engine.overlaps(made.world.service.buckets.all(TOPIC), START_MS + 90 * DAY) == set()


def test_settings_are_arguments(made: Made) -> None:
    assert topic_settings(job(made, no_spark, [])) is None
    given = topic_settings(job(made, no_spark, [], slot_s="60", lookahead_s="150"))
    assert given == TopicSettings(slot_s=60, lookahead_s=150)
    with pytest.raises(InvalidValue, match="--slot-s='soon'"):
        topic_settings(job(made, no_spark, [], slot_s="soon"))
