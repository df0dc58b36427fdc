"""Reads the files of an import on Spark's workers, and writes their rows as ledgers in the order of time.

    parts of files --mapInArrow: read, check--> rows, on the workers' disks --repartitionByRange, sort: due time-->
                   --mapInArrow: write--> ledgers

The readers are those of an import without Spark, in a child process of each worker. They write the rejects. Both
functions may run twice for the same rows: what they write has names of its own, and Spark returns the result of one
try. Each reading tells how many rows are good. So it is seen if Spark read a file again, with another outcome, since it
lost rows with their worker.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql.functions import xxhash64
from pyspark.sql.pandas.types import from_arrow_schema

from tidewheel.errors import TaskFailed
from tidewheel.jobs.importing.checks import COLUMNS, read_parts
from tidewheel.jobs.importing.child import apart
from tidewheel.jobs.importing.parts import shares_of
from tidewheel.jobs.importing.staging import Stage, Staged
from tidewheel.jobs.importing.work import InputFile, Work
from tidewheel.jobs.job import Job
from tidewheel.spark.session import register
from tidewheel.spark.tasks import collected, progress

_ROWS = pa.schema([*COLUMNS, pa.field("weight", pa.int64()), pa.field("staged", pa.binary())])
"""A good row has its columns and its weight. The last row of a task says what else it found."""

Batches = Iterable[pa.RecordBatch]


def stage_on_spark(job: Job, work: Work, files: Sequence[InputFile]) -> list[Staged]:
    """Reads files and writes their rows as ledgers, in the order of time, on Spark."""
    spark = register(SparkSession.builder.getOrCreate())
    context = spark.sparkContext
    shares = [(pickle.dumps(share),) for share in shares_of(files, context.defaultParallelism, work.limits)]
    given = spark.createDataFrame(context.parallelize(shares, max(1, len(shares))), "share binary")
    total_bytes = sum(file.size_bytes for file in files)
    reading = partial(_read, work, progress(context, job.advance, total_bytes))
    rows = given.mapInArrow(reading, from_arrow_schema(_ROWS)).persist(StorageLevel.DISK_ONLY)
    try:
        read = _staged(rows.where("staged is not null"))
        good = rows.where("staged is null").select(*COLUMNS.names, "weight")
        partitions = 1 + total_bytes // work.limits.part_bytes
        ranges = good.repartitionByRange(partitions, "deliver_at_ms", xxhash64("payload"))  # also cuts a millisecond
        in_order = ranges.sortWithinPartitions("deliver_at_ms")
        written = Staged() if read.failed else _staged(in_order.mapInArrow(partial(_write, work), "staged binary"))
    finally:
        rows.unpersist()
    staged = Staged.of([read, replace(written, good=0)])
    if not read.failed and written.good != read.good:
        job.service.objects.delete(staged.names)
        raise TaskFailed("a file could not be read again after a worker died. Nothing is imported: run it again")
    return [replace(staged, files=frozenset(file.name for file in files))]


def _staged(frame: Any) -> Staged:
    return Staged.of(pickle.loads(row.staged) for row in collected(frame.select("staged")))


def _read(work: Work, read: Any, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Reads the parts of a task, for `mapInArrow`. Yields the good rows, and at last what it found."""
    stage = Stage(work)
    for batch in batches:
        for parts in map(pickle.loads, batch.column("share").to_pylist()):
            for checked in apart(read_parts, work, parts):
                stage.reject(checked)
                stage.staged.good += checked.table.num_rows
                yield from _batches(**{each: checked.table[each] for each in COLUMNS.names}, weight=checked.weights)
            read.add([part.size_bytes for part in parts])
    yield from _batches(staged=[pickle.dumps(stage.close())])


def _batches(**given: Any) -> list[pa.RecordBatch]:
    """Returns rows with these columns, and nulls in the others."""
    rows = len(next(iter(given.values())))
    columns = {field.name: given.get(field.name, pa.nulls(rows, field.type)) for field in _ROWS}
    return pa.table(columns, _ROWS).to_batches()  # type: ignore[no-any-return]


def _write(work: Work, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Writes rows as ledgers, for `mapInArrow`. Yields the results."""
    stage = Stage(work)
    for batch in batches:
        stage.add(pa.table(batch).select(COLUMNS.names), batch.column("weight").to_numpy())
    yield pa.RecordBatch.from_pydict({"staged": [pickle.dumps(stage.close())]})
