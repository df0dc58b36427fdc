"""A topic's ledgers as rows in Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from moto import mock_aws
from moto.server import ThreadedMotoServer
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import GreaterThanOrEqual, LessThan
from pyspark.sql.types import StructType

from tests.contract.aws_resources import REGION, client, make_s3_bucket, make_table
from tests.stored import altered
from tidewheel.clock import SystemClock
from tidewheel.errors import CorruptLedger, InvalidValue, UnknownTopic
from tidewheel.jobs.folder_objects import FolderObjects
from tidewheel.jobs.location import Location
from tidewheel.ledger.bucket import BucketId, bucket_id
from tidewheel.ledger.ledger import Ledger, encode_ledger, rows_table
from tidewheel.ledger.rows import sort_rows
from tidewheel.memory import MemoryService
from tidewheel.model.object_names import ledger_bucket_id, ledger_name
from tidewheel.model.plan import Trash
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import TopicState, new_topic_state
from tidewheel.spark.ledger_files import ledger_files
from tidewheel.spark.ledger_source import SPARK_SCHEMA, LedgerReader, Stretches
from tidewheel.spark.live_ledgers import in_listing, snapshot
from tidewheel.storage.buckets import Buckets, Commit
from tidewheel.storage.objects import Objects
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import Table

START_MS = 1_767_225_600_000
DAY_MS = 24 * 3600 * 1000
SLOT_MS = 300_000
_numbers = count(1)


# --- builders -------------------------------------------------------------------------------------------------


def some_rows(rows: int = 300, *, seed: int = 1, start_ms: int = START_MS, span_ms: int = 60 * DAY_MS) -> pa.Table:
    random_ = random.Random(seed)
    times = sorted(start_ms + random_.randrange(span_ms) for _ in range(rows))
    return rows_table(
        deliver_at_ms=times,
        message_id=[ms.to_bytes(6) + random_.randbytes(10) for ms in times],
        key=[f"order-{i}" if i % 3 else None for i in range(rows)],
        attributes=[{"kind": f"k{i % 7}", "ü": ""} if i % 5 else None for i in range(rows)],
        payload=[random_.randbytes(i % 50) for i in range(rows)],
        encoding=[i % 3 for i in range(rows)],
        sent_at_ms=[START_MS - i for i in range(rows)],
        expires_at_ms=[ms + DAY_MS if i % 2 else None for i, ms in enumerate(times)],
    )


def as_rows(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return [row | {"attributes": None if row["attributes"] is None else dict(row["attributes"])} for row in rows]


def store(objects: Objects, table: pa.Table, *, topic: str = "orders", **changes: Any) -> tuple[str, Ledger]:
    ledger = encode_ledger(
        sort_rows(table), topic=topic, generation="g1", slot_ms=SLOT_MS, **({"segment_rows": 20} | changes)
    )
    number = next(_numbers)
    first_slot = table.column("deliver_at_ms")[0].as_py() // SLOT_MS
    name = ledger_name(topic, bucket_id(first_slot, f"b{number}"), SLOT_MS, objects.new_attempt())
    objects.put(name, ledger.data)
    return name, ledger


def load(spark: SparkSession, root: Path | str, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("tidewheel.ledger").options(root=str(root), **({"topic": "orders"} | options))
    return (reader if schema is None else reader.schema(schema)).load()


def a_reader(root: Path, schema: StructType = SPARK_SCHEMA, **options: str) -> LedgerReader:
    return LedgerReader({"root": str(root), "topic": "orders", **options}, schema)


def by_id(rows: list[Row] | list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = [row.asDict() if isinstance(row, Row) else row for row in rows]
    return sorted(found, key=lambda row: row["message_id"])


@pytest.fixture
def objects(tmp_path: Path) -> FolderObjects:
    """The objects in the test's folder."""
    return Location(root=str(tmp_path)).objects()


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """The ranges read in this process."""
    asked: list[tuple[str, int, int]] = []
    get_range = FolderObjects.get_range

    def noted(self: FolderObjects, name: str, offset: int, length: int) -> bytes:
        asked.append((name, offset, length))
        return get_range(self, name, offset, length)

    monkeypatch.setattr(FolderObjects, "get_range", noted)
    return asked


@pytest.fixture(scope="module")
def aws() -> Iterator[tuple[str, Any, Any]]:
    """An endpoint for Spark's processes, and clients of the same S3 and DynamoDB."""
    with mock_aws():
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}", client("s3"), client("dynamodb")
        server.stop()


# --- through Spark --------------------------------------------------------------------------------------------


def test_rows_come_out_as_they_went_into_ledgers(spark: SparkSession, tmp_path: Path, objects: FolderObjects) -> None:
    tables = [some_rows(300, seed=1), some_rows(50, seed=2), some_rows(1, seed=3)]
    for table in tables:
        store(objects, table)
    store(objects, some_rows(5), topic="orders-2")
    found = load(spark, tmp_path)
    assert found.schema == SPARK_SCHEMA
    assert by_id(found.collect()) == by_id([row for table in tables for row in as_rows(table)])


def test_sparks_own_reader_gives_the_same_rows(spark: SparkSession, tmp_path: Path, objects: FolderObjects) -> None:
    assert ledger_files(spark, root=str(tmp_path), topic="orders").collect() == []
    tables = [some_rows(300, seed=1), some_rows(50, seed=2), some_rows(5, seed=3, start_ms=START_MS + 90 * DAY_MS)]
    for table in tables:
        store(objects, table)
    found = ledger_files(spark, root=str(tmp_path), topic="orders")
    assert [(each.name, each.dataType) for each in found.schema] == [(e.name, e.dataType) for e in SPARK_SCHEMA]
    assert by_id(found.collect()) == by_id(load(spark, tmp_path).collect())
    times = {"from_ms": str(START_MS + 10 * DAY_MS), "to_ms": str(START_MS + 20 * DAY_MS)}
    found = ledger_files(spark, root=str(tmp_path), topic="orders", **times)
    assert by_id(found.collect()) == by_id(load(spark, tmp_path, **times).collect())
    assert len(found.inputFiles()) == 2


def test_a_schema_selects_columns_and_filters_select_rows(
    spark: SparkSession, tmp_path: Path, objects: FolderObjects
) -> None:
    table = some_rows(300)
    store(objects, table)
    from_ms, to_ms = START_MS + 10 * DAY_MS, START_MS + 20 * DAY_MS
    found = load(spark, tmp_path, "message_id binary, encoding byte").collect()
    assert by_id(found) == [{name: row[name] for name in ("message_id", "encoding")} for row in by_id(as_rows(table))]
    all_columns = load(spark, tmp_path, partition_bytes="5000")
    assert all_columns.rdd.getNumPartitions() > 2
    found = all_columns.where(f"deliver_at_ms >= {from_ms} AND deliver_at_ms < {to_ms} AND encoding = 1").collect()
    expected = [row for row in as_rows(table) if from_ms <= row["deliver_at_ms"] < to_ms and row["encoding"] == 1]
    assert by_id(found) == by_id(expected) != []
    some = [table.column("deliver_at_ms")[i].as_py() for i in (3, 200)]
    found = all_columns.where(all_columns.deliver_at_ms.isin(some)).collect()
    assert by_id(found) == by_id([row for row in as_rows(table) if row["deliver_at_ms"] in some])


def test_a_topic_without_ledgers_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    assert load(spark, tmp_path).collect() == []


def test_a_damaged_segment_fails_by_name(spark: SparkSession, tmp_path: Path, objects: FolderObjects) -> None:
    name, ledger = store(objects, some_rows(300))
    damaged = bytearray(ledger.data)
    damaged[ledger.summary.segments[3].offset + 50] ^= 1
    objects.put(name, bytes(damaged))
    segment = ledger.summary.segments[3]
    with pytest.raises(PythonException, match=f"ledger {name} bytes {segment.offset}-{segment.last_byte}: the check"):
        load(spark, tmp_path).collect()


def test_ledgers_in_s3_are_read_as_the_table_names_them(spark: SparkSession, aws: tuple[str, Any, Any]) -> None:
    endpoint_url, s3, dynamodb = aws
    root, table_name = f"s3://{make_s3_bucket(s3)}", make_table(dynamodb)
    objects = Location(root=root, endpoint_url=endpoint_url, region=REGION).objects()
    storage = Storage(Table(dynamodb, table_name), objects)
    now_ms = START_MS - DAY_MS
    tables = [some_rows(300, seed=1), some_rows(20, seed=2, span_ms=DAY_MS)]
    state = committed(storage, tables, now_ms)
    store(objects, some_rows(10, seed=3))  # nothing names it
    assert storage.plans.commit(state, None, (START_MS + 30 * DAY_MS) // SLOT_MS)

    where = {"endpoint_url": endpoint_url, "region": REGION, "table": table_name}
    rows = by_id([row for table in tables for row in as_rows(table)])
    due_later = [row for row in rows if row["deliver_at_ms"] >= START_MS + 30 * DAY_MS]
    assert by_id(load(spark, root, **where).collect()) == due_later != rows
    assert by_id(load(spark, root, all="true", **where).collect()) == rows


def committed(storage: Any, tables: list[pa.Table], now_ms: int) -> TopicState:
    """Creates the topic, with a ledger for each of the tables."""
    state = new_topic_state("orders", "g1", TopicSettings(), now_ms)
    assert storage.topic_states.create(state)
    for table in tables:
        name, ledger = store(storage.objects, table)
        bucket = ledger.summary.bucket(BucketId(str(ledger_bucket_id(name))), name)
        assert storage.buckets.commit(storage.topic_states.read("orders"), bucket, None) is Commit.COMMITTED
    current = storage.topic_states.read("orders")
    assert current is not None
    return current  # type: ignore[no-any-return]


# --- the reader alone -----------------------------------------------------------------------------------------


def rows_read(reader: LedgerReader) -> list[dict[str, Any]]:
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return [row for batch in batches for row in batch.to_pylist()]


def test_only_segments_with_wanted_times_are_read(
    tmp_path: Path, objects: FolderObjects, ranges: list[tuple[str, int, int]]
) -> None:
    table = some_rows(300)
    name, ledger = store(objects, table)
    store(objects, some_rows(100, start_ms=START_MS + 100 * DAY_MS))
    from_ms, to_ms = START_MS + 10 * DAY_MS, START_MS + 20 * DAY_MS
    met = [
        segment
        for segment in ledger.summary.segments
        if segment.last_deliver_at_ms >= from_ms and segment.first_deliver_at_ms < to_ms
    ]
    assert 1 < len(met) < len(ledger.summary.segments)
    expected = [ms for ms in table.column("deliver_at_ms").to_pylist() if from_ms <= ms < to_ms]

    filtered = a_reader(tmp_path)
    time = ("deliver_at_ms",)
    assert filtered.pushFilters([GreaterThanOrEqual(time, from_ms), LessThan(time, to_ms)]) == []
    limited = a_reader(tmp_path, from_ms=str(from_ms), to_ms=str(to_ms))
    for reader in (filtered, limited):
        partitions = reader.partitions()
        ranges.clear()
        batches = [batch for partition in partitions for batch in reader.read(partition)]
        assert [ms for batch in batches for ms in batch.column("deliver_at_ms").to_pylist()] == expected
        assert ranges == [(name, met[0].offset, met[-1].last_byte + 1 - met[0].offset)]


def test_only_wanted_columns_are_decoded_even_where_times_are_cut(tmp_path: Path, objects: FolderObjects) -> None:
    table = some_rows(300)
    store(objects, table)
    schema = StructType([SPARK_SCHEMA["payload"]])
    from_ms = table.column("deliver_at_ms")[150].as_py()
    found = rows_read(a_reader(tmp_path, schema, from_ms=str(from_ms)))
    assert found == [{"payload": payload} for payload in table.column("payload")[150:].to_pylist()]


def test_partitions_are_runs_of_segments_and_small_ledgers_share_one(tmp_path: Path, objects: FolderObjects) -> None:
    stored = dict(store(objects, some_rows(rows, seed=rows)) for rows in (400, 10, 20, 30))
    assert len(a_reader(tmp_path).partitions()) == 1
    for most in (1, 3000, 8000):
        found: dict[str, list[Any]] = {}
        for partition in a_reader(tmp_path, partition_bytes=str(most)).partitions():
            assert isinstance(partition, Stretches)
            lengths = [segment.length for run in partition.stretches for segment in run.segments]
            assert sum(lengths) <= most or len(lengths) == 1
            for run in partition.stretches:
                found.setdefault(run.object_name, []).extend(run.segments)
        assert sorted(found) == sorted(stored)
        for name, segments in found.items():
            assert [(s.offset, s.length) for s in segments] == [
                (s.offset, s.length) for s in stored[name].summary.segments
            ]


def test_an_option_that_is_missing_or_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"topic=None: give it to the source with \.option"):
        LedgerReader({"root": str(tmp_path)}, SPARK_SCHEMA)
    with pytest.raises(InvalidValue, match="root"):
        LedgerReader({"topic": "orders"}, SPARK_SCHEMA)
    with pytest.raises(InvalidValue, match="from_ms='soon': give a whole number"):
        a_reader(tmp_path, from_ms="soon")
    with pytest.raises(InvalidValue, match="schema='body binary': a ledger has deliver_at_ms, message_id"):
        a_reader(tmp_path, StructType().add("body", "binary"))
    with pytest.raises(InvalidValue, match="schema='payload string': it is a binary"):
        a_reader(tmp_path, StructType().add("payload", "string"))


def test_what_is_no_ledger_is_named(tmp_path: Path, objects: FolderObjects) -> None:
    store(objects, some_rows(10))
    objects.put("ledgers/orders/2026-01-01/1-b-1.parquet", b"not a ledger, but longer than a footer's end")
    objects.put("ledgers/orders/2026-01-01/README", b"not meant to be one")
    with pytest.raises(CorruptLedger, match=r"ledgers/orders/2026-01-01/1-b-1\.parquet"):
        in_listing(Location(root=str(tmp_path)), "orders")


# --- the metadata ---------------------------------------------------------------------------------------------


def test_a_topic_that_does_not_exist_is_unknown() -> None:
    with pytest.raises(UnknownTopic, match="orders"):
        snapshot(MemoryService.at(SystemClock()), "orders")


def test_ledgers_are_read_again_if_a_merge_replaced_some_meanwhile() -> None:
    storage = MemoryService.at(SystemClock())
    committed(storage, [some_rows(10)], START_MS - DAY_MS)
    reads: list[str] = []

    class Merging(Buckets):
        def all(self, topic: str, unreadable: object = None) -> Any:
            reads.append(topic)
            if len(reads) > 1:
                return super().all(topic)
            [source] = super().all(topic)
            state = storage.topic_states.read(topic)
            assert state is not None
            merged = replace(source, id=bucket_id(source.first_slot, "merged"), object_name="ledgers/orders/merged")
            trash = Trash(sealed=state.sealed, id="t", objects=(source.object_name,))
            assert storage.merges.swap(state, [source], [merged], trash)
            return [source]

    found, planned_ms = snapshot(altered(storage, buckets=Merging), "orders")
    assert [ledger.object_name for ledger in found] == ["ledgers/orders/merged"]
    assert planned_ms == START_MS - DAY_MS
    assert reads == ["orders", "orders"]
