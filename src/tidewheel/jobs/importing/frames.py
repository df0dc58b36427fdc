"""Sends the rows of a distributed table, such as a Spark DataFrame, as an import.

Each task keeps its rows as a Parquet file, and writes that file's ledgers. The driver then commits the ledgers, as an
import of these files:

    task     rows --> imports/<topic>/_<import id>/rows/<task>-<attempt>.parquet --> ledgers
                  --> .../rows/<task>-<attempt>-rejects/*.json
    driver   input of the import := the files --> one commit a ledger --> rejects to their folder --> rows/ deleted

A table's rows may come in another order each time. So the token stands for the files of the first run that stored its
input. If it stops
    before the input is stored: nothing is sent. The orphan sweep deletes the ledgers. The files stay until a run with
        the token is finished.
    between two commits: the next run with the token imports the first run's files, and passes over what is live.
    after the last commit: the next run sends nothing, and copies the rejects.
    after the import is marked as finished: the next run deletes the files.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidewheel import clock
from tidewheel.errors import InvalidValue, NotAllImported, ObjectMissing
from tidewheel.jobs.importing.chunks import WritePart
from tidewheel.jobs.importing.dividing import Divide, needed
from tidewheel.jobs.importing.driver import Imported, import_files, in_children
from tidewheel.jobs.importing.files import input_file
from tidewheel.jobs.importing.options import ImportOptions, parse_options
from tidewheel.jobs.importing.parquet import refused_types
from tidewheel.jobs.importing.rejects import check_writable, folder_of
from tidewheel.jobs.importing.settled import Input, Settled
from tidewheel.jobs.importing.texts import is_bytes, is_text
from tidewheel.jobs.importing.work import LIMITS, Chunk, InputFile, Limits, Part, Target, Terms, Work
from tidewheel.jobs.job import Job
from tidewheel.jobs.tasks import Tasks
from tidewheel.ledger.sink import Sink
from tidewheel.model.groups import grouped
from tidewheel.model.object_names import import_name

_GROUP_BYTES = 32 * 1024 * 1024
"""Bytes of a row group of a kept file, in Arrow's memory."""
_FRESH_MS = 12 * 3_600_000
"""A ledger of a task that is older is written again before its commit, since the orphan sweep may have deleted it."""
_REJECTS = "-rejects/"
_LATE = "late"
"""Names the folder of the rejects of the driver, which writes a ledger again when slots were sealed meanwhile."""
_DIGESTS = 1 << 128
_MOST_BYTES = 1 << 30
_SEPARATOR = b"\x00\x1f\x00"
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The outcome of a task.

    Attributes:
        file: its rows.
        parts, chunks: of the file, as an import makes them.
        written_ms: when the task began to write the ledgers.
        rows: how many.
        digest: the sum of the rows' hashes, which is the same in any order of the rows.
    """

    file: InputFile
    parts: list[Part]
    chunks: list[list[Chunk]]
    written_ms: int
    rows: int
    digest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameImport:
    """An import of a table's rows. The driver makes it, and each task gets a copy.

    Attributes:
        options: of the import, with a token.
        work: what all tasks share.
        folder: of the kept files, as the prefix of their objects' names.
    """

    options: ImportOptions
    work: Work
    folder: str

    @classmethod
    def of(cls, job: Job, schema: pa.Schema, limits: Limits = LIMITS) -> FrameImport:
        """Checks the arguments of an import, and the columns.

        Raises:
            InvalidValue: an argument is missing or wrong, or a column is missing or has a type that cannot be sent.
            UnknownTopic: there is no such topic.
        """
        token = job.required("token")
        options = parse_options({**job.arguments, "input": "a table", "format": "parquet"})
        twice = [name for name, count in Counter(schema.names).items() if count > 1]
        if twice:
            raise InvalidValue("columns", twice, "the table has two columns of each of these names")
        for option, name in needed(options).items():
            if name not in schema.names:
                raise InvalidValue(option, name, f"the table has no such column; it has {', '.join(schema.names)}")
        for name, _, type_, advice in refused_types(schema, options.columns):
            raise InvalidValue(f"column {name}", type_, advice)
        state = job.service.topic_states.existing(options.topic)
        target = Target.of(state, token)
        terms = Terms.of(state, job.service.clock.now_ms(), options)
        folder = f"{import_name(options.topic, target.import_id).removesuffix('.json')}/rows/"
        if options.rejects is not None:
            check_writable(job.location, options.rejects, f"{job.location.root}/{folder}", f"{token}.json")
        work = Work(target=target, terms=terms, location=job.location, source=job.location, rejects=None, limits=limits)
        return cls(options=options, work=work, folder=folder)

    def keep(self, batches: Iterable[pa.RecordBatch], number: int) -> Kept | None:
        """Keeps the rows of a task in a file, and writes its ledgers. Returns None if there are no rows.

        Args:
            number: of the task, the same in each attempt.
        """
        groups = _grouped(batches, self.options.columns.names)
        first = next(groups, None)
        if first is None:
            return None
        objects = self.work.location.objects()
        name = f"{self.folder}{number}-{objects.new_attempt()}"
        rows = digest = 0
        with (
            objects.create(f"{name}.parquet") as sink,
            pq.ParquetWriter(_File(sink), first.schema, compression="zstd") as writer,
        ):
            for group in chain([first], groups):
                rows, digest = rows + group.num_rows, digest + _digest(group)
                writer.write_table(group)
        root = self.work.location.root
        file = input_file(self.work.location, f"{root}/{name}.parquet", number)
        written_ms = clock.current().now_ms()
        parts = Divide(location=self.work.location, options=self.options, limits=self.work.limits)(file)
        write = WritePart(work=replace(self.work, rejects=f"{root}/{name}{_REJECTS}"))
        chunks = [write(part) for part in parts]
        return Kept(file=file, parts=parts, chunks=chunks, written_ms=written_ms, rows=rows, digest=digest)

    def commit(self, job: Job, kept: Sequence[Kept]) -> Imported:
        """Makes the ledgers live, or goes on with the run of the same rows that began before.

        Raises:
            InvalidValue: other rows have this token. Or rows cannot be sent, and `rejects` names no folder for them:
                either nothing was sent, or all others were, and a run with such a folder finishes the import.
            NotAllImported: kept files of the run that began before are damaged or gone.
        """
        token = str(self.options.token)
        settled = self._settled()
        before = settled.stored()
        if before is None and not kept:
            return Imported(token=token)
        if before is None and self.options.rejects is None:
            _refuse(_rejected(kept), "nothing was sent")
        given = self._input(kept)
        stored = settled.begin(given, token)
        finished = settled.finished()
        report = Imported(token=token, skipped=finished or 0)
        if finished is None:
            try:
                report = self._import(job, kept, stored, given)
                if report.failed:
                    raise NotAllImported(report)
                self._publish_rejects(job, stored)
                settled.finish_all(report.read)
            except (InvalidValue, NotAllImported, ObjectMissing):
                if settled.finished() is None:  # or another run did the rest, and deleted the files
                    raise
        job.service.objects.delete([each.name for each in job.service.objects.list(self.folder)])
        return report

    def give_up(self, kept: Sequence[Kept]) -> None:
        """Deletes the files of tasks, unless they are the import's. The orphan sweep deletes the ledgers."""
        stored = self._settled().stored()
        objects, prefix = self.work.location.objects(), f"{self.work.location.root}/"
        for each in kept:
            if stored is None or each.file.name not in stored.changed:
                name = each.file.name.removeprefix(prefix)
                objects.delete([name, *(found.name for found in objects.list(_rejects_of(name)))])

    def _import(self, job: Job, kept: Sequence[Kept], stored: Input, given: Input) -> Imported:
        """Commits the ledgers of this run's tasks, or imports the files of the run that began before."""
        fresh_ms = job.service.clock.now_ms() - _FRESH_MS
        mine = stored.changed == given.changed
        known = {each.file.name: each for each in kept if mine and each.written_ms > fresh_ms}
        files = [
            input_file(self.work.location, name, _number_of(name), changed)
            for name, changed in sorted(stored.changed.items(), key=lambda each: _number_of(each[0]))
        ]
        options = replace(self.options, rejects=f"{self.work.location.root}/{self.folder}{_LATE}{_REJECTS}")
        terms = replace(self.work.terms, earliest_ms=stored.earliest_ms)
        return import_files(job, options, files, _Known(known, in_children(job)), self.work.limits, given, terms)

    def _publish_rejects(self, job: Job, stored: Input) -> None:
        """Copies the rejects of the import's files to the folder for them.

        Raises:
            InvalidValue: there are rejects, and no folder for them.
        """
        prefix = f"{self.work.location.root}/"
        folders = [_rejects_of(name.removeprefix(prefix)) for name in stored.changed]
        found = {
            each.name.rpartition("/")[2]: each.name  # the driver's take the place of a task's
            for folder in (*folders, f"{self.folder}{_LATE}{_REJECTS}")
            for each in job.service.objects.list(folder)
            if each.size_bytes
        }
        if found and self.options.rejects is None:
            data = (job.service.objects.get_range(name, 0, _MOST_BYTES) for name in found.values())
            reasons = ([*json.loads(line).values()][-1] for each in data for line in each.splitlines())
            _refuse(Counter(reasons), "all others were sent")
        if self.options.rejects is not None:
            to, folder = folder_of(job.location, self.options.rejects)
            for name, source in found.items():
                to.put(f"{folder}{name}", job.service.objects.get_range(source, 0, _MOST_BYTES))

    def _settled(self) -> Settled:
        return Settled(self.work.location.objects(), self.options.topic, self.work.target.import_id)

    def _input(self, kept: Sequence[Kept]) -> Input:
        """Returns the input with a digest of all rows in place of the files, since each run has other files."""
        given = Input.of(self.options, [each.file for each in kept], self.work.limits)
        digest = sum(each.digest for each in kept) % _DIGESTS
        about = {"number of rows": str(sum(each.rows for each in kept)), "content of the rows": f"{digest:032x}"}
        return replace(given, files={}, options={**given.options, **about}, earliest_ms=self.work.terms.earliest_ms)


@dataclass(frozen=True, slots=True)
class _Known:
    """Gives the parts and chunks that are known, and runs the tasks of others."""

    known: Mapping[str, Kept]
    others: Tasks

    @property
    def side_by_side(self) -> int:
        return self.others.side_by_side

    def run(self, task: Any, items: Sequence[Any], /) -> Generator[tuple[int, Any], None, None]:
        left = []
        for place, item in enumerate(items):
            if isinstance(item, InputFile) and item.name in self.known:
                yield place, self.known[item.name].parts
            elif isinstance(item, Part) and item.file.name in self.known:
                yield place, self.known[item.file.name].chunks[item.number]
            else:
                left.append(place)
        for number, result in self.others.run(task, [items[place] for place in left]):
            yield left[number], result


class _File(io.RawIOBase):
    """A sink as a file that is written from its beginning to its end."""

    def __init__(self, sink: Sink) -> None:
        self._sink, self._position = sink, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._sink.write(bytes(data))
        self._position += size
        return size


def _rejected(kept: Sequence[Kept]) -> Counter[str]:
    chunks = (chunk for each in kept for part in each.chunks for chunk in part)
    return sum((chunk.rejected for chunk in chunks), Counter())


def _refuse(rejected: Counter[str], otherwise: str) -> None:
    if rejected:
        kinds = "; ".join(f"{count:,}: {kind}" for kind, count in rejected.most_common(_MOST_SHOWN))
        advice = f"{rejected.total():,} rows cannot be sent ({kinds}), and {otherwise}. Give a folder for such rows"
        raise InvalidValue("rejects", None, advice)


def _rejects_of(name: str) -> str:
    return name.removesuffix(".parquet") + _REJECTS


def _number_of(name: str) -> int:
    """Returns the number of the task that kept a file."""
    return int(name.rpartition("/")[2].partition("-")[0])


def _grouped(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yields row groups of these columns, as far as there are such."""
    chosen = (each.select([name for name in columns if name in each.schema.names]) for each in batches if each.num_rows)
    return map(pa.Table.from_batches, grouped(chosen, lambda batch: batch.nbytes, _GROUP_BYTES))


def _digest(table: pa.Table) -> int:
    """Returns the sum of the rows' hashes, below _DIGESTS."""
    texts = [pa.scalar(repr(table.column_names).encode()), *map(_binary, table.columns)]
    rows = pc.binary_join_element_wise(
        *texts, pa.scalar(_SEPARATOR), null_handling="replace", null_replacement=b"\x00null"
    )
    return sum(int.from_bytes(blake2b(row, digest_size=16).digest()) for row in rows.to_pylist()) % _DIGESTS


def _binary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if is_bytes(column.type) or is_text(column.type):
        return column.cast(pa.binary())
    try:
        return column.cast(pa.string()).cast(pa.binary())
    except pa.ArrowNotImplementedError:  # maps, structs and lists
        return pa.chunked_array([pa.array([repr(each).encode() for each in column.to_pylist()], pa.binary())])
