"""Reads the ledgers of a rebuild on Spark, and compares them by its shuffle.

    ledgers    name | size ...               one row a ledger
       |  mapInArrow: read and verify once; the rows stay on the workers' disks
    found      name | inspected              the metadata, for the driver
                    | ids | keyed            lists: messages to compare, messages with keys to restore
       |  the ids of the ledgers that count, exploded, in windows of equal ids
    repeats    first ledger | other ledger   one row a repeated message
       |  mapInArrow: leave out pairs that are connected already, in each partition and then in one
    tree       first ledger | other ledger   less than one row a ledger, for the driver

The driver holds the metadata of each ledger and less than one pair a ledger, however many messages are repeated. A
worker holds some batches; Spark spills the rest.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.functions import broadcast, col, explode, inline
from pyspark.sql.functions import min as least

from tidewheel.flows.recovery.rebuild_keys import KeyRestore
from tidewheel.flows.recovery.rebuild_planning import Forest
from tidewheel.flows.recovery.scan import KEYED, Overlaps, Scanned, ScanRange, scan
from tidewheel.jobs.job import Job
from tidewheel.jobs.location import Location, key_ports
from tidewheel.ledger.inspection import Inspected
from tidewheel.model.key import KeyEntry
from tidewheel.spark.tasks import collected, progress
from tidewheel.storage.objects import StoredObject

_TASK_BYTES = 64 * 1024 * 1024
_FEW_TASKS = 4
_MOST_ROWS = 50_000
_KEYED = pa.schema([(each.name, pa.binary() if each.type == pa.binary(16) else each.type) for each in KEYED])
"""Spark has no binary values of a fixed length."""
_FOUND = (
    "name string, inspected binary, ids array<bigint>, "
    "keyed array<struct<key: string, message_id: binary, sent_at_ms: bigint>>"
)
_PAIRS = "first int, other int"

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOnSpark:
    """Implements the port `LedgerScan`.

    Attributes:
        session: Spark's.
        location: the objects and the table.
        found: the rows of the module's docstring, in a partition for each task.
        tasks: how many.
        inspected: the ledgers that were still there.
    """

    session: SparkSession
    location: Location
    found: DataFrame
    tasks: int
    inspected: Sequence[Inspected]

    def overlaps(self, ledgers: Sequence[Inspected], /) -> Overlaps:
        """Finds ids that several of these ledgers have."""
        ids = self._of(ledgers).select(explode("ids").alias("id"), col("ledger").alias("other"))
        first = least("other").over(Window.partitionBy("id")).alias("first")
        repeats = ids.select(first, "other").where("first < other")
        tree = repeats.mapInArrow(_connect, _PAIRS).repartition(1).mapInArrow(_connect, _PAIRS)
        return [(row.first, row.other) for row in collected(tree)]

    def restore_keys(self, ledgers: Sequence[Inspected], restore: KeyRestore, known: Sequence[KeyEntry], /) -> int:
        """Restores a key in the task that has all of its rows. A task has the keys of some 64 MiB of ledgers."""
        rows = self._of(ledgers).select(inline("keyed"))
        checkpoint = [(each.key, pickle.dumps(each)) for each in known]
        known_rows = self.session.createDataFrame(checkpoint, "key string, known binary")
        both = rows.unionByName(known_rows, allowMissingColumns=True)
        by_key = both.repartition(self.tasks, "key")
        put = by_key.mapInArrow(partial(_restore, self.location, restore), "entries bigint")
        return sum(row.entries for row in collected(put))

    def close(self) -> None:
        """Deletes the rows from the workers' disks."""
        self.found.unpersist()

    def _of(self, ledgers: Sequence[Inspected]) -> DataFrame:
        """Returns the rows of some ledgers, with the ledger's place among them."""
        among = [(each.object_name, place) for place, each in enumerate(ledgers)]
        return self.found.join(broadcast(self.session.createDataFrame(among, "name string, ledger int")), "name")


def scan_on_spark(
    session: Callable[[], SparkSession], job: Job, stored: Sequence[StoredObject], wanted: ScanRange
) -> ScanOnSpark:
    """Reads ledgers, about 64 MiB a task.

    Args:
        session: makes or finds the session.
        job: has the location of objects and table, and is told the progress.
        stored: the ledgers.
        wanted: the messages to compare.
    """
    spark = session()
    size_bytes = sum(each.size_bytes for each in stored)
    rows = [(each.name, each.size_bytes, each.put_at_ms) for each in stored]
    ledgers = spark.createDataFrame(rows, "name string, size_bytes bigint, put_at_ms bigint")
    few = min(_FEW_TASKS * spark.sparkContext.defaultParallelism, len(stored))
    tasks = max(size_bytes // _TASK_BYTES, few, 1)
    read = progress(spark.sparkContext, job.advance, size_bytes)
    found = (
        ledgers.repartition(tasks)
        .mapInArrow(partial(_find, job.location, wanted, read), _FOUND)
        .persist(StorageLevel.DISK_ONLY)
    )
    rows_found = collected(found.where("inspected is not null").select("name", "inspected"))
    return ScanOnSpark(
        session=spark,
        location=job.location,
        found=found,
        tasks=tasks,
        inspected=[pickle.loads(zlib.decompress(row.inspected)) for row in sorted(rows_found)],
    )


def _find(location: Location, wanted: ScanRange, read: Any, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Reads the ledgers of a task."""
    for batch in batches:
        ledgers = [StoredObject(**row) for row in batch.to_pylist()]
        for each in scan(location.objects(), ledgers, wanted):
            yield from _rows(each)
        read.add([each.size_bytes for each in ledgers])


def _rows(scanned: Scanned) -> Iterator[pa.RecordBatch]:
    """Yields a row with the metadata of a ledger, and rows with up to so many of its messages."""
    none, no_keyed = scanned.ids[:0], pa.array([], pa.struct(list(_KEYED)))
    inspected = zlib.compress(pickle.dumps(scanned.inspected), 1)
    rows: list[tuple[bytes | None, Any, pa.Array]] = [(inspected, none, no_keyed)]
    rows += [(None, scanned.ids[i : i + _MOST_ROWS], no_keyed) for i in range(0, len(scanned.ids), _MOST_ROWS)]
    rows += [(None, none, each.to_struct_array()) for each in scanned.keyed.cast(_KEYED).to_batches(_MOST_ROWS)]
    for metadata, ids, keyed in rows:
        lists = [pa.ListArray.from_arrays([0, len(each)], each) for each in (pa.array(ids), keyed)]
        columns = [pa.array([scanned.inspected.object_name]), pa.array([metadata], pa.binary()), *lists]
        yield pa.RecordBatch.from_arrays(columns, ["name", "inspected", "ids", "keyed"])


def _connect(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yields the pairs that connect something new."""
    forest = Forest()
    for batch in batches:
        pairs = np.unique(np.stack([column.to_numpy() for column in batch.columns], axis=1), axis=0)
        new = [forest.join(a, b) for a, b in pairs.tolist()]
        yield pa.RecordBatch.from_arrays(list(map(pa.array, pairs[new].T)), batch.schema.names)


def _restore(location: Location, restore: KeyRestore, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Restores the keys of a task. Yields how many."""
    found = list(batches)
    if not found:
        return
    table = pa.Table.from_batches(found)
    known = [pickle.loads(each.as_buffer()) for each in table.column("known").drop_null()]
    rows = table.select(KEYED.names).filter(pc.is_valid(table.column("message_id"))).cast(KEYED)
    yield pa.RecordBatch.from_pydict({"entries": [restore.put(partial(key_ports, location), rows, known)]})
