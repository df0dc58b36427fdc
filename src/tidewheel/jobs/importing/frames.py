"""Sends the rows of a distributed table, such as a Spark DataFrame, as an import.

    task     rows --> checks --> ledgers and rejects, which nothing names
    driver   the record of the import: number and digest of all rows, and the ledgers --> one commit a ledger

A table's rows may come in another order each time, so a repeated run reads and writes them again. The driver compares
the digest, and drops these ledgers for those of the first run. `tidewheel.jobs.importing.driver` tells what is true if
it stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import InvalidValue
from tidewheel.jobs.importing.checks import checked_rows
from tidewheel.jobs.importing.driver import complete, work_of
from tidewheel.jobs.importing.options import Columns, parse_options
from tidewheel.jobs.importing.parquet import check_types, rows_of
from tidewheel.jobs.importing.record import Input, Records
from tidewheel.jobs.importing.rejects import check_writable
from tidewheel.jobs.importing.staging import Stage, Staged
from tidewheel.jobs.importing.texts import is_bytes, is_text
from tidewheel.jobs.importing.work import LIMITS, FileProblem, Imported, Limits, Work, present
from tidewheel.jobs.job import Job
from tidewheel.ledger.bucket import Bucket

_DIGESTS = 1 << 128
_SEPARATOR = b"\x00\x1f\x00"
_MOST_SHOWN = 5
_MOST_OVERLAP = 3
"""Ledgers of each slot, from which on a write tells that its partitions overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameImport:
    """An import of a table's rows. The driver makes it, and each task gets a copy.

    Attributes:
        work: what all tasks share.
        columns: the mapped columns that the table has.
    """

    work: Work
    columns: Columns

    @classmethod
    def of(cls, job: Job, schema: pa.Schema, limits: Limits = LIMITS) -> FrameImport:
        """Checks the arguments of an import, and the columns.

        Raises:
            InvalidValue: an argument is missing or wrong, or a column is missing or has a type that cannot be sent.
            UnknownTopic: there is no such topic.
        """
        token = job.required("token")
        options = parse_options({**job.arguments, "input": "a table", "format": "parquet"})
        try:
            columns = present(options, (), "", schema.names)
            check_types(schema, columns)
        except FileProblem as problem:
            raise InvalidValue("columns", schema.names, str(problem)) from None
        work = work_of(job, options, job.service.topic_states.existing(options.topic), token, limits)
        if options.rejects is not None:
            check_writable(job.location, options.rejects, f"{job.location.root}/{work.folder}", f"{token}.json")
        return cls(work=work, columns=columns)

    def with_token(self, token: str) -> FrameImport:
        """Returns the same import under another token."""
        return replace(self, work=replace(self.work, token=token))

    def stage(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        """Writes the rows of a task as ledgers."""
        stage = Stage(self.work)
        for batch in batches:
            chosen = batch.select([name for name in batch.schema.names if name in self.columns.names])
            stage.staged.digest += _digest(chosen)
            for checked in checked_rows(self.work, rows_of(chosen, self.columns, lambda _: {})):
                stage.reject(checked)
                stage.add(checked.table, checked.weights)
        return stage.close()

    def commit(self, job: Job, found: Sequence[Staged]) -> Imported:
        """Makes the ledgers live, or goes on with the run of the same rows that began before.

        Raises:
            InvalidValue: other rows have this token. Or rows cannot be sent, and `rejects` names no folder for them:
                nothing was sent.
        """
        staged, options = Staged.of(found), self.work.options
        rows = staged.good + staged.rejected.total()
        if self._records().read() is None:
            if not rows:
                return Imported(token=self.work.token)
            if staged.rejected and options.rejects is None:
                kinds = "; ".join(f"{count:,}: {kind}" for kind, count in staged.rejected.most_common(_MOST_SHOWN))
                advice = f"{staged.rejected.total():,} rows cannot be sent ({kinds}), and nothing was sent"
                raise InvalidValue("rejects", None, f"{advice}. Give a folder for such rows")
            _warn_of_overlap(job, staged.ledgers)
        about = {"number of rows": str(rows), "content of the rows": f"{staged.digest % _DIGESTS:032x}"}
        return complete(job, self.work, Input.of(options, (), **about), staged)

    def give_up(self, found: Sequence[Staged]) -> None:
        """Deletes what tasks have written, unless a record may name it. The orphan sweep deletes other ledgers."""
        if self._records().read() is None:
            self.work.location.objects().delete(Staged.of(found).names)

    def forget(self) -> None:
        """Deletes the record of an import that nobody repeats."""
        self._records().forget()

    def _records(self) -> Records:
        return Records(self.work.location.objects(), self.work)


def _warn_of_overlap(job: Job, ledgers: Sequence[Bucket]) -> None:
    """Warns if the ledgers overlap in time so much that merges read each slot from many of them."""
    spans = [(each.first_slot, each.last_slot + 1) for each in ledgers]
    whole = max((end for _, end in spans), default=0) - min((first for first, _ in spans), default=0)
    overlap = sum(end - first for first, end in spans) / max(1, whole)
    if overlap > _MOST_OVERLAP:
        job.say(
            f"the partitions overlap in time: about {overlap:.1f} ledgers have messages of each slot, which merges "
            "rewrite. Before the write, call repartitionByRange with the column of the delivery time"
        )


def _digest(table: pa.RecordBatch) -> int:
    """Returns the sum of the rows' hashes, below _DIGESTS."""
    names = sorted(table.schema.names)
    texts = [pa.scalar(repr(names).encode()), *(_binary(table.column(name)) for name in names)]
    rows = pc.binary_join_element_wise(
        *texts, pa.scalar(_SEPARATOR), null_handling="replace", null_replacement=b"\x00null"
    )
    return sum(int.from_bytes(blake2b(row, digest_size=16).digest()) for row in rows.to_pylist()) % _DIGESTS


def _binary(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if is_bytes(column.type) or is_text(column.type):
        return column.cast(pa.binary())
    try:
        return column.cast(pa.string()).cast(pa.binary())
    except pa.ArrowNotImplementedError:  # maps, structs and lists
        return pa.array([repr(each).encode() for each in column.to_pylist()], pa.binary())
