"""Reads the files of an import on Spark's workers, and writes their rows as ledgers in the order of time.

    parts of files --mapInArrow: read, check--> rows, kept on disk --> files that failed, bytes of the others
                                                  '--repartitionByRange(due time)--mapInArrow: write--> ledgers, rejects

The readers are those of an import without Spark, in a child process of each worker. Both functions may run twice for
the same rows: what they write has names of its own, and Spark returns the result of one try.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import pyarrow as pa
from pyspark import Accumulator, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from tidewheel.jobs.importing.checks import Checked, read_checked
from tidewheel.jobs.importing.child import Apart
from tidewheel.jobs.importing.parts import shares_of
from tidewheel.jobs.importing.staging import Stage, Staged
from tidewheel.jobs.importing.work import FileProblem, InputFile, Part, Work
from tidewheel.jobs.job import Job
from tidewheel.ledger.rows import SCHEMA
from tidewheel.spark.session import register

_COLUMNS = pa.schema([field.with_nullable(True) for field in SCHEMA if field.name != "message_id"])
_ROWS = pa.schema(
    [
        *_COLUMNS,
        pa.field("file", pa.int32()),
        pa.field("weight", pa.int64()),
        pa.field("problem", pa.string()),
        pa.field("line", pa.binary()),
        pa.field("failure", pa.string()),
    ]
)
"""A good row has its columns and its weight, rejected rows have a problem and their number as weight, or a line. A file
that cannot be read has a failure."""
_FULL = 2 / 3
"""How full partitions make the ledgers, since Spark's partitions differ in size."""
_SAY_S = 60.0
_ALL = -1
"""Stands for all files, since those that failed are left out."""


def stage_on_spark(job: Job, work: Work, files: Sequence[InputFile]) -> Staged:
    """Reads files and writes their rows as ledgers, in the order of time, on Spark."""
    spark = register(SparkSession.builder.getOrCreate())
    context = spark.sparkContext
    shares = shares_of(files, context.defaultParallelism, work.limits)
    given = context.parallelize([(pickle.dumps(share),) for share in shares], max(1, len(shares)))
    done = _Done(context.accumulator(0), context.accumulator(0), context.accumulator(0))
    read = _Read(work, done)
    rows = spark.createDataFrame(given, "share binary").mapInArrow(read, from_arrow_schema(_ROWS))
    rows = rows.persist(StorageLevel.DISK_ONLY)  # read once: finding the ranges reads the rows too
    try:
        with _told(job, done, sum(file.size_bytes for file in files)):
            failed, partitions = _outcome(rows, work)
        job.say(
            f"{done.rows.value:,} rows of {done.files.value:,} files are read, and become about {partitions} ledgers"
        )
        kept = rows.where(f.col("failure").isNull() & ~f.col("file").isin(list(failed)))
        written = kept.repartitionByRange(partitions, "deliver_at_ms").mapInArrow(_Write(work), "staged binary")
        staged = Staged.of(pickle.loads(row.staged) for row in written.collect())
    finally:
        rows.unpersist()
    staged.failed = failed
    return staged


def _outcome(rows: DataFrame, work: Work) -> tuple[dict[int, str], int]:
    """Returns the problems of files by number, and the number of partitions that make full ledgers of the others."""
    good = f.col("deliver_at_ms").isNotNull()
    sums = [f.sum(f.when(good, f.col("weight"))).alias("bytes"), f.count("deliver_at_ms").alias("rows")]
    found = rows.groupBy("file", "failure").agg(*sums).collect()
    failed = {row.file: row.failure for row in found if row.failure is not None}
    left = [row for row in found if row.file not in failed]
    by_bytes = sum(row["bytes"] or 0 for row in left) / work.limits.raw_bytes
    by_rows = sum(row["rows"] for row in left) / work.limits.rows
    return failed, 1 + int(max(by_bytes, by_rows) / _FULL)


@dataclass(frozen=True, slots=True)
class _Done:
    """What has been read, as far as tasks have ended. A task that runs twice may count twice."""

    files: Accumulator[int]
    rows: Accumulator[int]
    read_bytes: Accumulator[int]


@dataclass(frozen=True, slots=True)
class _ReadPart:
    """Reads and checks the rows of a part. Runs in a process that a damaged file may end."""

    work: Work

    def __call__(self, part: Part) -> Iterator[Checked]:
        return read_checked(self.work, part)


@dataclass(frozen=True, slots=True)
class _Read:
    """Turns parts of files into rows, for `mapInArrow`."""

    work: Work
    done: _Done

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for share in batch.column(0).to_pylist():
                for part in pickle.loads(share):
                    yield from self._rows(part)

    def _rows(self, part: Part) -> Iterator[pa.RecordBatch]:
        try:
            for checked in Apart(_ReadPart(self.work))(part):
                self.done.rows.add(checked.table.num_rows + checked.rejected.total())
                yield _batch(part, checked.table, weight=checked.weights)
                if checked.rejected:
                    kinds, counts = zip(*checked.rejected.items(), strict=True)
                    yield _batch(part, None, problem=kinds, weight=counts)
                    yield _batch(part, None, line=checked.lines)
        except FileProblem as problem:
            yield _batch(part, None, failure=[str(problem)])
        self.done.files.add(part.is_whole or part.end == part.file.size_bytes)
        self.done.read_bytes.add(part.size_bytes)


def _batch(part: Part, table: pa.Table | None, **about: Any) -> pa.RecordBatch:
    """Returns rows with these columns, and nulls in the others."""
    given = {} if table is None else {name: table.column(name).combine_chunks() for name in table.column_names}
    given |= {name: pa.array(values, _ROWS.field(name).type) for name, values in about.items()}
    rows = max(map(len, given.values()))
    given["file"] = pa.array([part.file.number] * rows, pa.int32())
    arrays = [given.get(field.name, pa.nulls(rows, field.type)) for field in _ROWS]
    return pa.RecordBatch.from_arrays(arrays, schema=_ROWS)


@dataclass(frozen=True, slots=True)
class _Write:
    """Writes rows as ledgers, for `mapInArrow`. Yields what was written."""

    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage = Stage(self.work)
        with stage.file(_ALL):
            for batch in batches:
                stage.add(_checked(batch))
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(stage.close())], pa.binary())], ["staged"])


def _checked(batch: pa.RecordBatch) -> Checked:
    """Returns rows as they were when they had been checked."""
    good = batch.filter(batch.column("deliver_at_ms").is_valid())
    problems = batch.filter(batch.column("problem").is_valid())
    rejected = Counter[str]()
    for kind, rows in zip(problems.column("problem").to_pylist(), problems.column("weight").to_pylist(), strict=True):
        rejected[kind] += rows
    return Checked(
        table=pa.table([good.column(name) for name in _COLUMNS.names], names=_COLUMNS.names),
        weights=good.column("weight").to_numpy(zero_copy_only=False),
        rejected=rejected,
        lines=batch.column("line").drop_null().to_pylist(),
    )


@contextmanager
def _told(job: Job, done: _Done, total_bytes: int) -> Iterator[None]:
    """Tells how far the reading has come, each minute."""
    over = Event()

    def tell() -> None:
        while not over.wait(_SAY_S):
            percent = 100 * done.read_bytes.value // max(1, total_bytes)
            job.say(f"{done.rows.value:,} rows of {done.files.value:,} files are read, {percent} % of all bytes")

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
