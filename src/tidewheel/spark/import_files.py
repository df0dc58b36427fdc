"""Reads the files of an import on Spark's workers, and writes their rows as ledgers in the order of time.

    parts of files --mapInArrow: read, check--> a sample of times, bytes, the files that cannot be read
                   --mapInArrow: read, check--> rows --repartitionById: ranges of time--> rows
                   --mapInArrow: write--> ledgers, rejects

Files are read twice, as by `repartitionByRange`, but no row goes to Java for the sample. The readers are those of an
import without Spark, in a child process of each worker. All functions may run twice for the same rows: what they write
has names of its own, and Spark returns the result of one try.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tidewheel.jobs.importing.checks import Checked, read_checked
from tidewheel.jobs.importing.child import Apart
from tidewheel.jobs.importing.parts import shares_of
from tidewheel.jobs.importing.staging import Stage, Staged
from tidewheel.jobs.importing.work import FileProblem, InputFile, Part, Work
from tidewheel.jobs.job import Job
from tidewheel.ledger.rows import SCHEMA, Int64s
from tidewheel.spark.session import register

_COLUMNS = pa.schema([field.with_nullable(True) for field in SCHEMA if field.name != "message_id"])
_ROWS = pa.schema(
    [
        *_COLUMNS,
        pa.field("range", pa.int32()),
        pa.field("weight", pa.int64()),
        pa.field("problem", pa.string()),
        pa.field("line", pa.binary()),
        pa.field("failed", pa.int32()),
    ]
)
"""A good row has its columns and its weight. Rejected rows have a problem, with their number as weight, or a line. A
file that cannot be read has its number and a problem."""
_FULL = 2 / 3
"""How full ranges make the ledgers, since they differ from the sample."""
_SAMPLED = 64
"""Times in the sample of each batch of rows."""
_SAY_S = 60.0
_ALL = -1
"""Stands for all files, since those that failed are left out."""


def stage_on_spark(job: Job, work: Work, files: Sequence[InputFile]) -> Staged:
    """Reads files and writes their rows as ledgers, in the order of time, on Spark."""
    spark = register(SparkSession.builder.getOrCreate())
    context = spark.sparkContext
    done = _Done(context.accumulator(0), context.accumulator(0), context.accumulator(0))
    failed: dict[int, str] = {}

    def parts() -> DataFrame:
        """Returns the shares of the files that can be read, one a partition."""
        left = [file for file in files if file.number not in failed]
        shares = shares_of(left, context.defaultParallelism, work.limits)
        rows = [(pickle.dumps(share),) for share in shares]
        return spark.createDataFrame(context.parallelize(rows, max(1, len(rows))), "share binary")

    with _told(job, done, 2 * sum(file.size_bytes for file in files)):
        samples = _results(parts(), _Scan(work, done))
        failed.update({number: problem for sample in samples for number, problem in sample.failed.items()})
        while True:
            ends = _ends([sample for sample in samples if sample.file not in failed], work)
            job.say(f"about {len(ends) + 1} ledgers of {len(files) - len(failed):,} files")
            rows = parts().mapInArrow(_Read(work, done, ends), from_arrow_schema(_ROWS))
            staged = Staged.of(_results(rows.repartitionById(len(ends) + 1, "range"), _Write(work)))
            if not staged.failed:
                return replace(staged, failed=failed)
            # They have changed since they were sampled.
            job.service.objects.delete(staged.names)
            failed.update(staged.failed)


def _results(frame: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[Any]]) -> list[Any]:
    """Runs a function on each partition. Returns what it yields."""

    def pickled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in function(batches):
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(each)], pa.binary())], ["result"])

    return [pickle.loads(row.result) for row in frame.mapInArrow(pickled, "result binary").collect()]


@dataclass(frozen=True, slots=True)
class _Sample:
    """Some due times of a part's rows, with the bytes that each stands for."""

    file: int
    rows: int
    times: Int64s
    weights: Int64s
    failed: dict[int, str]


def _ends(samples: Sequence[_Sample], work: Work) -> Int64s:
    """Returns the times that divide the rows into ranges, each of about a full ledger."""
    times = np.concatenate([np.zeros(0, np.int64), *(sample.times for sample in samples)])
    order = np.argsort(times)
    weights = np.cumsum(np.concatenate([np.zeros(0, np.int64), *(sample.weights for sample in samples)])[order])
    total = int(weights[-1]) if len(weights) else 0
    full = max(total / work.limits.raw_bytes, sum(sample.rows for sample in samples) / work.limits.rows) / _FULL
    count = 1 + int(full)
    places = weights.searchsorted(np.arange(1, count) * total / count)
    return np.unique(times[order][places])


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
class _SamplePart:
    """Reads and checks the rows of a part, and samples their times. Runs in such a process."""

    work: Work

    def __call__(self, part: Part) -> Iterator[_Sample]:
        work = replace(self.work, options=replace(self.work.options, rejects=None))
        for checked in read_checked(work, part):
            step = -(-checked.table.num_rows // _SAMPLED) or 1
            times = np.sort(checked.table.column("deliver_at_ms").to_numpy())[::step]
            weights = np.full(len(times), checked.weights.sum() // max(1, len(times)))
            yield _Sample(part.file.number, checked.table.num_rows + checked.rejected.total(), times, weights, {})


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
    for batch in batches:
        for share in batch.column(0).to_pylist():
            yield from pickle.loads(share)


@dataclass(frozen=True, slots=True)
class _Scan:
    """Samples parts of files."""

    work: Work
    done: _Done

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[_Sample]:
        for part in _parts(batches):
            try:
                for sample in Apart(_SamplePart(self.work))(part):
                    self.done.rows.add(sample.rows)
                    yield sample
            except FileProblem as problem:
                none = np.zeros(0, np.int64)
                yield _Sample(part.file.number, 0, none, none, {part.file.number: str(problem)})
            self.done.files.add(part.is_whole or part.end == part.file.size_bytes)
            self.done.read_bytes.add(part.size_bytes)


@dataclass(frozen=True, slots=True)
class _Read:
    """Turns parts of files into rows, with the number of their range of time."""

    work: Work
    done: _Done
    ends: Int64s

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in _parts(batches):
            try:
                for checked in Apart(_ReadPart(self.work))(part):
                    yield self._good(checked)
                    if checked.rejected:
                        kinds, counts = zip(*checked.rejected.items(), strict=True)
                        yield _batch(len(kinds), problem=pa.array(kinds), weight=pa.array(counts))
                        yield _batch(len(checked.lines), line=pa.array(checked.lines, pa.binary()))
            except FileProblem as problem:
                yield _batch(1, problem=pa.array([str(problem)]), failed=pa.array([part.file.number], pa.int32()))
            self.done.read_bytes.add(part.size_bytes)

    def _good(self, checked: Checked) -> pa.RecordBatch:
        given = {name: checked.table.column(name).combine_chunks() for name in _COLUMNS.names}
        range_ = self.ends.searchsorted(given["deliver_at_ms"].to_numpy(), "right").astype(np.int32)
        return _batch(len(range_), **given, range=pa.array(range_), weight=pa.array(checked.weights))


def _batch(rows: int, **given: pa.Array) -> pa.RecordBatch:
    """Returns rows with these columns, and nulls in the others, but of the first range."""
    others = {"range": pa.array(np.zeros(rows, np.int32))} | given
    arrays = [others[field.name] if field.name in others else pa.nulls(rows, field.type) for field in _ROWS]
    return pa.RecordBatch.from_arrays(arrays, schema=_ROWS)


@dataclass(frozen=True, slots=True)
class _Write:
    """Writes the rows of a range as ledgers."""

    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Staged]:
        stage = Stage(self.work)
        failed: dict[int, str] = {}
        with stage.file(_ALL):
            for batch in batches:
                bad = batch.filter(batch.column("failed").is_valid())
                failed |= dict(zip(bad.column("failed").to_pylist(), bad.column("problem").to_pylist(), strict=True))
                stage.add(_checked(batch))
        yield replace(stage.close(), failed=failed)


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
def _told(job: Job, done: _Done, total_bytes: int) -> Iterator[None]:
    """Tells how far the reading has come, each minute."""
    over = Event()

    def tell() -> None:
        while not over.wait(_SAY_S):
            percent = 100 * done.read_bytes.value // max(1, total_bytes)
            job.say(f"{done.rows.value:,} rows of {done.files.value:,} files are sampled; {percent} % of two readings")

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
