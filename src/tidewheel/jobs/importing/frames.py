"""Sends the rows of a distributed table, such as a Spark DataFrame, as an import.

Each task keeps its rows as a Parquet file, and writes that file's ledgers. The driver then commits the ledgers, as an
import of these files:

    task     rows --> imports/<topic>/_<import id>/rows/<task>-<attempt>.parquet --> ledgers
    driver   input of the import := the files --> one commit a ledger --> files deleted

A table's rows may come in another order each time. So the token stands for the files of the first run that had them
all. If it stops
    before the input is stored: nothing is sent. The orphan sweep deletes the ledgers, the next run the files.
    between two commits: the next run with the token imports the first run's files, and passes over what is live.
    while the files are deleted: the import is finished. The next run sends nothing, and deletes the other files.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidewheel.errors import InvalidValue, NotAllImported, UnknownTopic
from tidewheel.jobs.importing.chunks import WritePart
from tidewheel.jobs.importing.dividing import Divide, needed
from tidewheel.jobs.importing.driver import Imported, import_files, in_children
from tidewheel.jobs.importing.files import input_file
from tidewheel.jobs.importing.options import ImportOptions, parse_options
from tidewheel.jobs.importing.parquet import refused_types
from tidewheel.jobs.importing.settled import Input, Settled
from tidewheel.jobs.importing.texts import is_bytes, is_text
from tidewheel.jobs.importing.work import LIMITS, Chunk, InputFile, Limits, Part, Target, Terms, Work
from tidewheel.jobs.job import Job
from tidewheel.jobs.tasks import Tasks
from tidewheel.ledger.sink import Sink
from tidewheel.model.object_names import import_name

_GROUP_BYTES = 32 * 1024 * 1024
"""Bytes of a row group of a kept file, in Arrow's memory."""
_NUMBER_DIGITS = 6
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The outcome of a task.

    Attributes:
        file: its rows.
        parts, chunks: of the file, as an import makes them.
        sums: of the rows, by name. They are the same in any order of the rows.
    """

    file: InputFile
    parts: list[Part]
    chunks: list[list[Chunk]]
    sums: Counter[str]


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
        for option, name in needed(options).items():
            if name not in schema.names:
                raise InvalidValue(option, name, f"the table has no such column; it has {', '.join(schema.names)}")
        for name, type_, advice in refused_types(schema, options.columns):
            raise InvalidValue(f"column {name}", type_, advice)
        state = job.service.topic_states.read(options.topic)
        if state is None:
            raise UnknownTopic(options.topic)
        target = Target.of(state, token)
        terms = Terms.of(state, job.service.clock.now_ms(), options)
        return cls(
            options=options,
            work=Work(
                target=target,
                terms=terms,
                location=job.location,
                source=job.location,
                rejects=options.rejects,
                limits=limits,
            ),
            folder=f"{import_name(options.topic, target.import_id).removesuffix('.json')}/rows/",
        )

    def keep(self, batches: Iterable[pa.RecordBatch], number: int) -> Kept | None:
        """Keeps the rows of a task in a file, and writes its ledgers. Returns None if there are no rows.

        Args:
            number: of the task, the same in each attempt.
        """
        groups = _grouped(batches)
        first = next(groups, None)
        if first is None:
            return None
        objects = self.work.location.objects()
        name = f"{self.folder}{number:0{_NUMBER_DIGITS}}-{objects.new_attempt()}.parquet"
        columns = self.options.columns.names
        sums = _sums(first, columns)
        with objects.create(name) as sink, pq.ParquetWriter(_File(sink), first.schema, compression="zstd") as writer:
            writer.write_table(first)
            for group in groups:
                sums.update(_sums(group, columns))
                writer.write_table(group)
        file = self._file(f"{self.work.location.root}/{name}")
        parts = Divide(location=self.work.location, options=self.options, limits=self.work.limits)(file)
        write = WritePart(work=self.work)
        return Kept(file=file, parts=parts, chunks=[write(part) for part in parts], sums=sums)

    def commit(self, job: Job, kept: Sequence[Kept]) -> Imported:
        """Makes the ledgers live, or goes on with the run of the same rows that began before.

        Raises:
            InvalidValue: other rows have this token. Or rows cannot be sent, and `rejects` names no folder for them.
            NotAllImported: kept files of the run that began before are damaged or gone.
        """
        token = str(self.options.token)
        if not kept:
            return Imported(token=token)
        settled = self._settled()
        if self.options.rejects is None and settled.stored() is None:
            _check_rejected(kept)
        given = self._input(kept)
        stored = settled.begin(given, token)
        finished = settled.finished()
        if finished is None:
            known = {each.file.name: each for each in kept} if stored.changed == given.changed else {}
            files = [each.file for each in known.values()] or [
                self._file(*file) for file in sorted(stored.changed.items())
            ]
            report = import_files(job, self.options, files, _Known(known, in_children(job)), self.work.limits, given)
            if not report.failed:
                settled.finish_all(report.read)
            elif settled.finished() is None:  # or another run did the rest, and deleted the files
                raise NotAllImported(report)
        else:
            report = Imported(token=token, skipped=finished)
        job.objects.delete([each.name for each in job.objects.list(self.folder)])
        return report

    def give_up(self, kept: Sequence[Kept]) -> None:
        """Deletes the files of tasks, unless the import has begun. The orphan sweep deletes the ledgers."""
        if self._settled().stored() is None:
            prefix = f"{self.work.location.root}/"
            self.work.location.objects().delete([each.file.name.removeprefix(prefix) for each in kept])

    def _settled(self) -> Settled:
        return Settled(self.work.location.objects(), self.options.topic, self.work.target.import_id)

    def _input(self, kept: Sequence[Kept]) -> Input:
        """Returns the input with sums in place of the files' sizes: another run has other files of the same rows."""
        files = sorted((each.file for each in kept), key=lambda file: file.name)
        given = Input.of(self.options, files, self.work.limits)
        sums = Counter[str]()
        for each in kept:
            sums.update(each.sums)
        return replace(given, files={}, options={**given.options, **{name: str(sums[name]) for name in sums}})

    def _file(self, name: str, changed: str | None = None) -> InputFile:
        number = int(name.rpartition("/")[2][:_NUMBER_DIGITS])
        return input_file(self.work.location, name, number, "parquet", changed)


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


def _check_rejected(kept: Sequence[Kept]) -> None:
    rejected = Counter[str]()
    for chunks in (each.chunks for each in kept):
        for chunk in (chunk for part in chunks for chunk in part):
            rejected += chunk.rejected
    if rejected:
        kinds = "; ".join(f"{count:,}: {kind}" for kind, count in rejected.most_common(_MOST_SHOWN))
        advice = f"nothing was sent, since {rejected.total():,} rows cannot be ({kinds}). Give a folder for such rows"
        raise InvalidValue("rejects", None, advice)


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    group: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            group.append(batch)
        if sum(each.nbytes for each in group) >= _GROUP_BYTES:
            yield pa.Table.from_batches(group)
            group = []
    if group:
        yield pa.Table.from_batches(group)


def _sums(table: pa.Table, columns: Sequence[str]) -> Counter[str]:
    """Returns sums of the rows, which are the same in any order: other rows have other sums, as a rule."""
    sums = Counter({"rows": table.num_rows})
    for name in columns:
        if name in table.column_names:
            column = table.column(name)
            if is_text(column.type) or is_bytes(column.type):
                sums[f"bytes of {name}"] = pc.sum(pc.binary_length(column)).as_py() or 0
            elif pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
                sums[f"sum of {name}"] = pc.sum(column.cast(pa.int64())).as_py() or 0
            sums[f"nulls of {name}"] = column.null_count
    return sums
