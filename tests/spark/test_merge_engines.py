"""Tests all merge engines, the function's, threads and Spark, which write the same bytes."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.alone import write_one
from tests.folder_objects import FolderLocation, FolderObjects
from tidewheel.errors import CorruptLedger, ObjectMissing
from tidewheel.flows.maintenance.merge import in_process
from tidewheel.flows.maintenance.merge_outputs import SideBySide
from tidewheel.flows.maintenance.merge_planning import Merge, Window, choose
from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.flows.ports import Tasks
from tidewheel.jobs.location import Location
from tidewheel.jobs.tasks import InThreads
from tidewheel.ledger.bucket import Bucket, bucket_id, content_id
from tidewheel.ledger.ledger import encode_ledger, rows_table
from tidewheel.ledger.rows import in_order, sort_rows
from tidewheel.ledger.writer import SOURCES_TAG
from tidewheel.model.message import Encoding
from tidewheel.model.object_names import ledger_name
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.spark.tasks import OnSpark

START_MS = 1_767_225_600_000
DAY = 86_400_000
SETTINGS = TopicSettings()
MakeEngine = Callable[[Location], SideBySide]


@pytest.fixture(params=["function", "threads", "spark"])
def make_engine(request: pytest.FixtureRequest) -> MakeEngine:
    """An engine over a folder."""
    if request.param == "function":
        return lambda location: in_process(location.objects())
    if request.param == "threads":
        return lambda location: SideBySide(tasks=lambda _: InThreads(2), objects=location.objects)
    spark = request.getfixturevalue("spark")
    return lambda location: SideBySide(tasks=lambda _: OnSpark(lambda: spark), objects=location.objects)


def rows_of(rng: random.Random, rows: int, days: float = 10, **columns: Any) -> pa.Table:
    """Rows with random times and ids."""
    times = sorted(START_MS + rng.randrange(int(days * DAY)) for _ in range(rows))
    return rows_table(
        deliver_at_ms=times,
        message_id=[ms.to_bytes(6) + rng.randbytes(10) for ms in times],
        payload=[b"body %d " % i + rng.randbytes(rng.randrange(60)) for i in range(rows)],
        encoding=[Encoding.TEXT] * rows,
        sent_at_ms=[START_MS + i for i in range(rows)],
        **columns,
    )


def put_ledger(objects: FolderObjects, rows: pa.Table, **options: int) -> Bucket:
    """Writes a ledger as ingest does."""
    ledger = encode_ledger(sort_rows(rows), topic="orders", generation="g1", slot_ms=SETTINGS.slot_ms, **options)
    id = bucket_id(ledger.summary.slots.min(), content_id(ledger.data))
    name = ledger_name("orders", id, SETTINGS.slot_ms, objects.new_attempt())
    objects.put(name, ledger.data)
    return ledger.summary.bucket(id, name)


def a_work(sources: list[Bucket], *cuts: int, purge_ms: int = 0) -> MergeWork:
    """A merge of these sources, cut at these slots."""
    ordered = tuple(sorted(sources, key=lambda source: source.id))
    merge = Merge(sources=ordered, windows=tuple(Window(*each) for each in pairwise(cuts)), live_bytes=1)
    return MergeWork(state=replace(new_topic_state("orders", "g1", SETTINGS, 0), purge_ms=purge_ms), merge=merge)


def all_slots(*inner: int) -> tuple[int, ...]:
    first = START_MS // SETTINGS.slot_ms
    return (first, *(first + slot for slot in inner), first + 20 * 288)


def read(location: Location, bucket: Bucket) -> pa.Table:
    """The rows of an output, by pyarrow alone."""
    return pq.ParquetFile(Path(location.root) / bucket.object_name).read()


def sorted_rows(tables: list[pa.Table]) -> list[dict[str, Any]]:
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted(rows, key=lambda row: (row["deliver_at_ms"], row["message_id"]))


def test_all_engines_write_the_same_bytes_of_each_row_that_lives_once_and_within_its_cuts(
    spark: Any, tmp_path: Path
) -> None:
    location = FolderLocation(root=str(tmp_path))
    rng = random.Random(4)
    keys = [rng.choice([None, "k1", "k2"]) for _ in range(900)]
    attributes = [rng.choice([None, {}, {"a": "b", "tenant": "x" * 30}]) for _ in range(900)]
    tables = [rows_of(rng, 900, key=keys, attributes=attributes) for _ in range(9)]
    copies = tables[0].slice(100)
    first = START_MS // SETTINGS.slot_ms + 288  # what is due before was planned
    cuts = [first, first + 300, first + 20 * 288, first + 500 * 288]
    sources = [put_ledger(location.objects(), table) for table in (*tables, copies)]
    work = a_work(sources, *cuts, purge_ms=START_MS + 200)

    tasks: tuple[Tasks, ...] = (InThreads(2), OnSpark(lambda: spark))
    with_tasks = (SideBySide(tasks=lambda _, t=each: t, objects=location.objects) for each in tasks)
    engines = [in_process(location.objects()), *with_tasks]
    outputs, *others = [write_one(engine, work) for engine in engines]
    assert len(outputs) == 2  # the last window has no rows
    for written in others:
        assert [replace(each, object_name="") for each in outputs] == [
            replace(each, object_name="") for each in written
        ]
        for one, other in zip(outputs, written, strict=True):
            assert one.object_name != other.object_name
            assert (tmp_path / one.object_name).read_bytes() == (tmp_path / other.object_name).read_bytes()

    expected = [
        row
        for row in sorted_rows(tables)
        if row["deliver_at_ms"] >= first * SETTINGS.slot_ms and row["sent_at_ms"] >= START_MS + 200
    ]
    read_back = [read(location, output) for output in outputs]
    assert [row for table in read_back for row in table.to_pylist()] == expected
    for table, output, start, end in zip(read_back, outputs, cuts, cuts[1:], strict=False):
        assert in_order(table.cast(tables[0].schema))
        slots = {ms // SETTINGS.slot_ms for ms in table.column("deliver_at_ms").to_pylist()}
        assert start <= min(slots) and max(slots) < end
        assert set(output.slots) == slots and output.rows == table.num_rows


class KilledTwice(FolderObjects):
    """Objects in a folder, in a process that is killed when it has written an output, until two were."""

    @contextmanager
    def create(self, name: str) -> Iterator[Any]:
        with super().create(name) as sink:
            yield sink
            killed = len(list(self._root.glob("killed-*")))
            if killed < 2:
                (self._root / f"killed-{killed}").touch()
                os.kill(os.getpid(), signal.SIGKILL)


def test_a_millisecond_cut_into_tasks_has_each_row_once_though_executors_are_killed(spark: Any, tmp_path: Path) -> None:
    location = FolderLocation(root=str(tmp_path))
    rng = random.Random(6)
    sources = [put_ledger(location.objects(), rows_of(rng, 4_000, days=1.5 / DAY), segment_rows=200) for _ in range(9)]
    slot = START_MS // SETTINGS.slot_ms
    work = a_work(sources, *all_slots())
    windows = tuple(Window(slot, slot + 1, share, 4) for share in range(4))
    work = replace(work, merge=replace(work.merge, windows=windows))
    engine = SideBySide(tasks=lambda _: OnSpark(lambda: spark), objects=partial(KilledTwice, tmp_path))
    outputs = write_one(engine, work)
    assert len(list(tmp_path.glob("killed-*"))) == 2 and len(outputs) == 4
    assert all(6_000 < output.rows < 12_000 for output in outputs)
    count = "select count(*), count(distinct message_id) from read_parquet(?)"
    before, after = ([str(tmp_path / each.object_name) for each in ledgers] for ledgers in (sources, outputs))
    assert duckdb.execute(count, [after]).fetchone() == (36_000, 36_000)
    lost = "select message_id, payload from read_parquet(?) except select message_id, payload from read_parquet(?)"
    assert duckdb.execute(lost, [before, after]).fetchall() == []


def test_an_output_names_its_sources(tmp_path: Path) -> None:
    location = FolderLocation(root=str(tmp_path))
    rng = random.Random(8)
    sources = [put_ledger(location.objects(), rows_of(rng, 20)) for _ in range(3)]
    [output] = write_one(in_process(location.objects()), a_work(sources, *all_slots()))
    tags = pq.ParquetFile(tmp_path / output.object_name).metadata.metadata
    assert {source.object_name for source in sources} == set(json.loads(tags[SOURCES_TAG.encode()]))


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_a_source_that_cannot_be_read_is_named(make_engine: MakeEngine, tmp_path: Path, damage: str) -> None:
    location = FolderLocation(root=str(tmp_path))
    rng = random.Random(9)
    sources = [put_ledger(location.objects(), rows_of(rng, 50)) for _ in range(3)]
    broken = tmp_path / sources[1].object_name
    if damage == "missing":
        broken.unlink()
    else:
        data = bytearray(broken.read_bytes())
        data[50] ^= 1
        broken.write_bytes(data)
    with pytest.raises((ObjectMissing, CorruptLedger)) as caught:
        write_one(make_engine(location), a_work(sources, *all_slots(288)))
    assert caught.value.object_name == sources[1].object_name


def test_many_ledgers_of_many_segments_are_read_with_few_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = FolderLocation(root=str(tmp_path))
    rng = random.Random(10)
    sources = [put_ledger(location.objects(), rows_of(rng, 12_000)) for _ in range(4)]
    assert min(len(source.segments) for source in sources) > 2
    merge = choose(sources, 0, SETTINGS.slot_ms, 64, everything=True)
    assert merge is not None
    objects = location.objects()
    reads: list[str] = []
    get_range = objects.get_range
    monkeypatch.setattr(objects, "get_range", lambda name, *at: reads.append(name) or get_range(name, *at))
    work = replace(a_work(sources), merge=merge)
    assert sum(each.rows for each in write_one(in_process(objects), work)) == 48_000
    assert len(reads) == 4
