"""Reads the files of an import on Spark's workers, and writes their rows as ledgers in the order of time.

    parts of files --mapInArrow: read, check--> rows --repartitionByRange, sortWithinPartitions: due time--> rows
                   --mapInArrow: write--> ledgers, rejects

The readers are those of an import without Spark, in a child process of each worker. Both functions may run twice for
the same rows: what they write has names of its own, and Spark returns the result of one try. Rejected rows, problems of
files and the number of good rows of each task are rows too. The numbers tell if Spark read a file again, with another
outcome, after it had written some rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Thread
from typing import Any

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tidewheel.errors import TaskFailed
from tidewheel.jobs.importing.checks import COLUMNS, Checked, read_parts
from tidewheel.jobs.importing.child import apart
from tidewheel.jobs.importing.parts import shares_of
from tidewheel.jobs.importing.staging import Stage, Staged
from tidewheel.jobs.importing.work import InputFile, Part, Work
from tidewheel.jobs.job import Job
from tidewheel.spark.session import register

_ROWS = pa.schema([*COLUMNS, pa.field("weight", pa.int64()), pa.field("told", pa.binary())])
"""A good row has its columns and its weight. Each other row tells values of `Checked`, or the number of good rows."""
_SAY_S = 60.0


def stage_on_spark(job: Job, work: Work, files: Sequence[InputFile]) -> list[Staged]:
    """Reads files and writes their rows as ledgers, in the order of time, on Spark."""
    spark = register(SparkSession.builder.getOrCreate())
    context = spark.sparkContext
    shares = [(pickle.dumps(share),) for share in shares_of(files, context.defaultParallelism, work.limits)]
    given = spark.createDataFrame(context.parallelize(shares, max(1, len(shares))), "share binary")
    total_bytes = sum(file.size_bytes for file in files)
    partitions = 1 + total_bytes // work.limits.part_bytes
    readings = min(2, partitions)  # the ranges of several partitions are found by a reading of their own
    read = _Read(work, context.accumulator(0), context.accumulator(0))
    rows = given.mapInArrow(read, from_arrow_schema(_ROWS))
    in_order = rows.repartitionByRange(partitions, "deliver_at_ms").sortWithinPartitions("deliver_at_ms")
    with _told(job, read, readings, total_bytes):
        found = in_order.mapInArrow(partial(_write, work), "staged binary").collect()
    written: list[tuple[Staged, int]] = [pickle.loads(row.staged) for row in found]
    staged = Staged.of(each for each, _ in written)
    if not staged.failed and staged.good != sum(rows for _, rows in written):
        job.service.objects.delete(staged.names)
        raise TaskFailed("a file could not be read again after a worker died. Nothing is imported: run it again")
    return [replace(staged, files=frozenset(file.name for file in files))]


@dataclass(frozen=True, slots=True)
class _Read:
    """Turns parts of files into rows, for `mapInArrow`.

    Attributes:
        rows, read_bytes: what has been read, as far as tasks have ended. A task that runs twice may count twice.
    """

    work: Work
    rows: Accumulator[int]
    read_bytes: Accumulator[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for share in batch.column(0).to_pylist():
                yield from self._read(pickle.loads(share))

    def _read(self, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
        good = 0
        for checked in apart(read_parts, self.work, parts):
            good += checked.table.num_rows
            yield from _batches(**{name: checked.table.column(name) for name in COLUMNS.names}, weight=checked.weights)
            others = [{"lines": [line]} for line in checked.lines]
            if checked.rejected or checked.failed:
                others.append({"rejected": checked.rejected, "failed": checked.failed})
            yield from _batches(told=list(map(pickle.dumps, others)))
            self.rows.add(checked.table.num_rows + checked.rejected.total())
        yield from _batches(told=[pickle.dumps(good)])
        self.read_bytes.add(sum(part.size_bytes for part in parts))


def _batches(**given: Any) -> list[pa.RecordBatch]:
    """Returns rows with these columns, and nulls in the others."""
    rows = len(next(iter(given.values())))
    columns = {field.name: given.get(field.name, pa.nulls(rows, field.type)) for field in _ROWS}
    return pa.table(columns, _ROWS).to_batches()  # type: ignore[no-any-return]


def _write(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes rows as ledgers, for `mapInArrow`. Yields what was written, and how many good rows the parts have."""
    stage, rows = Stage(work), 0
    for batch in batches:
        for told in map(pickle.loads, batch.column("told").drop_null().to_pylist()):
            if isinstance(told, int):
                rows += told
            else:
                stage.add(Checked(**told))
        good = pa.table(batch.filter(batch.column("deliver_at_ms").is_valid()))
        stage.add(Checked(table=good.select(COLUMNS.names), weights=good.column("weight").to_numpy()))
    yield pa.RecordBatch.from_pydict({"staged": [pickle.dumps((stage.close(), rows))]})


@contextmanager
def _told(job: Job, read: _Read, readings: int, total_bytes: int) -> Iterator[None]:
    """Tells how far the reading has come, each minute."""
    over = Event()

    def tell() -> None:
        while not over.wait(_SAY_S):
            percent = min(100, 100 * read.read_bytes.value // max(1, readings * total_bytes))
            job.say(f"about {read.rows.value // readings:,} rows are read, {percent} %")

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
