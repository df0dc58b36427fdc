"""Reads the files of an import on Spark's workers, and writes their rows as ledgers in the order of time.

    parts of files --mapInArrow: read, check--> rows --repartitionByRange, sortWithinPartitions: due time--> rows
                   --mapInArrow: write--> ledgers, rejects

The readers are those of an import without Spark, in a child process of each worker. Both functions may run twice for
the same rows: what they write has names of its own, and Spark returns the result of one try. A file that cannot be read
is a row too. Then all is written again without the file. Each part tells how many rows it has, since Spark may read it
again after the partition of such rows is written.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Accumulator
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tidewheel.errors import TaskFailed
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
        pa.field("weight", pa.int64()),
        pa.field("problem", pa.string()),
        pa.field("line", pa.binary()),
        pa.field("failed", pa.int32()),
    ]
)
"""A good row has its columns and its weight. Rejected rows have a problem, with their number as weight, or a line. A
file that cannot be read has its number and a problem. A weight alone is the number of a part's good rows."""
_SAY_S = 60.0
_ALL = -1
"""Stands for all files, since those that failed are left out."""


def stage_on_spark(job: Job, work: Work, files: Sequence[InputFile]) -> Staged:
    """Reads files and writes their rows as ledgers, in the order of time, on Spark."""
    spark = register(SparkSession.builder.getOrCreate())
    context = spark.sparkContext
    failed: dict[int, str] = {}
    while True:
        left = [file for file in files if file.number not in failed]
        shares = [(pickle.dumps(share),) for share in shares_of(left, context.defaultParallelism, work.limits)]
        given = spark.createDataFrame(context.parallelize(shares, max(1, len(shares))), "share binary")
        total_bytes = sum(file.size_bytes for file in left)
        partitions = 1 + total_bytes // work.limits.part_bytes
        readings = min(2, partitions)  # the ranges of several partitions are found by a reading of their own
        done = _Done(context.accumulator(0), context.accumulator(0), context.accumulator(0))
        rows = given.mapInArrow(_Read(work, done), from_arrow_schema(_ROWS))
        in_order = rows.repartitionByRange(partitions, "deliver_at_ms").sortWithinPartitions("deliver_at_ms")
        with _told(job, done, readings, total_bytes):
            found = in_order.mapInArrow(_Write(work), "staged binary").collect()
        written: list[tuple[Staged, int]] = [pickle.loads(row.staged) for row in found]
        staged = Staged.of(each for each, _ in written)
        complete = staged.good.total() == sum(rows for _, rows in written)
        if complete and not staged.failed:
            return replace(staged, failed=failed)
        job.service.objects.delete(staged.names)
        if not staged.failed:
            raise TaskFailed("a file could not be read again after a worker died. Nothing is imported: run it again")
        job.say(f"{len(staged.failed):,} files cannot be read; the others are read again")
        failed.update(staged.failed)


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
        rows = 0
        try:
            for checked in Apart(_ReadPart(self.work))(part):
                rows += checked.table.num_rows
                good = {name: checked.table.column(name).combine_chunks() for name in _COLUMNS.names}
                yield _batch(**good, weight=pa.array(checked.weights))
                if checked.rejected:
                    kinds, counts = zip(*checked.rejected.items(), strict=True)
                    yield _batch(problem=pa.array(kinds), weight=pa.array(counts))
                    yield _batch(line=pa.array(checked.lines, pa.binary()))
                self.done.rows.add(checked.table.num_rows + checked.rejected.total())
            yield _batch(weight=pa.array([rows]))
        except FileProblem as problem:
            yield _batch(problem=pa.array([str(problem)]), failed=pa.array([part.file.number], pa.int32()))
        self.done.files.add(part.is_whole or part.end == part.file.size_bytes)
        self.done.read_bytes.add(part.size_bytes)


def _batch(**given: pa.Array) -> pa.RecordBatch:
    """Returns rows with these columns, and nulls in the others."""
    rows = len(next(iter(given.values())))
    arrays = [given[field.name] if field.name in given else pa.nulls(rows, field.type) for field in _ROWS]
    return pa.RecordBatch.from_arrays(arrays, schema=_ROWS)


@dataclass(frozen=True, slots=True)
class _Write:
    """Writes rows as ledgers, for `mapInArrow`. Yields what was written, and how many rows the parts have."""

    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage, failed, rows = Stage(self.work), dict[int, str](), 0
        with stage.file(_ALL):
            for batch in batches:
                bad = batch.filter(batch.column("failed").is_valid())
                failed |= dict(zip(bad.column("failed").to_pylist(), bad.column("problem").to_pylist(), strict=True))
                told = batch.filter(pc.and_(batch.column("deliver_at_ms").is_null(), batch.column("problem").is_null()))
                rows += pc.sum(told.column("weight")).as_py() or 0
                stage.add(_checked(batch))
        staged = pickle.dumps((replace(stage.close(), failed=failed), rows))
        yield pa.RecordBatch.from_arrays([pa.array([staged], pa.binary())], ["staged"])


def _checked(batch: pa.RecordBatch) -> Checked:
    """Returns rows as they were when they had been checked."""
    good = batch.filter(batch.column("deliver_at_ms").is_valid())
    problems = batch.filter(batch.column("problem").is_valid())
    rejected = Counter[str]()
    for kind, rows in zip(problems.column("problem").to_pylist(), problems.column("weight").to_pylist(), strict=True):
        rejected[kind] += rows or 0
    return Checked(
        table=pa.table([good.column(name) for name in _COLUMNS.names], names=_COLUMNS.names),
        weights=good.column("weight").to_numpy(zero_copy_only=False),
        rejected=rejected,
        lines=batch.column("line").drop_null().to_pylist(),
    )


@contextmanager
def _told(job: Job, done: _Done, readings: int, total_bytes: int) -> Iterator[None]:
    """Tells how far the reading has come, each minute."""
    over = Event()

    def tell() -> None:
        while not over.wait(_SAY_S):
            percent = min(100, 100 * done.read_bytes.value // max(1, readings * total_bytes))
            rows, files = done.rows.value // readings, done.files.value // readings
            job.say(f"about {rows:,} rows of {files:,} files are read, {percent} %")

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
