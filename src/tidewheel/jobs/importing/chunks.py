"""Reads a part of a file, and writes its rows as ledgers, one a chunk.

A chunk ends at a fixed number of rows or bytes of the input, whatever the rows' outcome. So each run makes the same
chunks. A message id is 48 bits of due time and 79 bits that a hash of the import and the chunk gives to the row's
place. So each run makes the same ids, and equal rows are different messages. Ids tell nothing about each other.

    0              48   49                                  128
    +--------------+---+------------------------------------+
    | deliver_at_ms| 0 | shake_256(import, mark) at the row |
    +--------------+---+------------------------------------+

If it stops after a ledger is written: no metadata names the ledger, and the orphan sweep deletes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import shake_256

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.flows.maintenance.merge_rows import store_rows
from tidewheel.jobs.importing.checks import Checked, checked_rows
from tidewheel.jobs.importing.dividing import read_part
from tidewheel.jobs.importing.rejects import Rejects, columns_of
from tidewheel.jobs.importing.streams import check_expanded, most_bytes
from tidewheel.jobs.importing.work import Chunk, FileProblem, Part, Rows, Work
from tidewheel.ledger.rows import SCHEMA

_RANDOM_BYTES = 10
_BATCH_ROWS = (65_536, 1_024, 16)
_SHOWN = 1_000
_SLICE_ROWS = 65_536
_SLICE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePart:
    """Writes the ledgers of parts. The task is run in a process that a damaged file may end.

    Attributes:
        work: what all tasks of the import share.
        committed: marks of chunks that are live.
        only: the only chunks to write; None: all that are not live.
    """

    work: Work
    committed: frozenset[int] = frozenset()
    only: frozenset[int] | None = None

    def __call__(self, part: Part) -> list[Chunk]:
        """Writes the ledgers of a part. Returns all its chunks.

        Raises:
            FileProblem: the part cannot be read to its end. Its ledgers are deleted.
        """
        for batch_rows in _BATCH_ROWS:
            written: list[Chunk] = []
            try:
                for chunk in self._chunks(part, batch_rows):
                    written.append(chunk)
                return written
            except MemoryError:
                self._delete(written)
            except FileProblem:
                self._delete(written)
                raise
        raise FileProblem("it needs too much memory; write it with smaller row groups or pages, and shorter values")

    def _chunks(self, part: Part, batch_rows: int) -> Iterator[Chunk]:
        chunk: _OpenChunk | None = None
        number = expanded = 0
        committed = part.chunks(self.committed)
        for rows, checked in checked_rows(read_part(self.work.source, part, batch_rows), part, self.work.terms):
            if part.file.format == "parquet":  # text is bounded as it is read; here, a dictionary repeats values
                expanded += int(checked.weight.sum())
                check_expanded(part.file, expanded, most_bytes(part.file))
            start = 0
            first = True
            while start < len(rows) or first:
                if chunk is None:
                    wanted = number not in committed and (self.only is None or number in self.only)
                    chunk = _OpenChunk(self.work, part, number, wanted=wanted)
                if first:
                    chunk.add_malformed(rows)
                first = False
                end = chunk.end(checked, start)
                chunk.add(rows, checked, start, end)
                start = end
                if chunk.full:
                    yield chunk.close()
                    chunk, number = None, number + 1
        if chunk is not None:
            yield chunk.close()

    def _delete(self, chunks: list[Chunk]) -> None:
        self.work.location.objects().delete([each.bucket.object_name for each in chunks if each.bucket is not None])


class _OpenChunk:
    """Collects the rows of a chunk, and writes them."""

    def __init__(self, work: Work, part: Part, number: int, *, wanted: bool) -> None:
        self._work, self._part, self._wanted = work, part, wanted
        self._mark = part.mark(number)
        self._chunk = Chunk(number=number, rows=0)
        self._rows = self._bytes = 0
        self._tables: list[pa.Table] = []
        self._places: list[npt.NDArray[np.int64]] = []
        name = f"{work.target.import_id}-{part.file.number}-{part.number}-{number}.json"
        self._rejects = Rejects(work.location, work.rejects if wanted else None, name, part)

    @property
    def full(self) -> bool:
        """Whether the chunk has all its rows."""
        return self._rows >= self._work.limits.rows or self._bytes >= self._work.limits.raw_bytes

    def end(self, checked: Checked, start: int) -> int:
        """Returns where the chunk ends among rows of which it takes those from `start` on."""
        total = np.cumsum(checked.weight[start:])
        by_bytes = int(total.searchsorted(self._work.limits.raw_bytes - self._bytes)) + 1
        return min(start + by_bytes, start + self._work.limits.rows - self._rows, len(checked.weight))

    def add_malformed(self, rows: Rows) -> None:
        """Rejects lines that are no rows."""
        self._chunk.rows += len(rows.malformed)
        if not self._wanted:
            return
        for place, kind, text in rows.malformed:
            self._chunk.rejected[kind] += 1
            if self._rejects.wanted:
                given = columns_of(text) if self._part.file.format == "json" else {}
                self._rejects.add(place, given, f"{kind}: {text[:_SHOWN]}{'...' * (len(text) > _SHOWN)}")

    def add(self, rows: Rows, checked: Checked, start: int, end: int) -> None:
        """Adds rows [start, end)."""
        places = np.arange(self._rows, self._rows + end - start)
        self._rows += end - start
        self._bytes += int(checked.weight[start:end].sum())
        self._chunk.rows += end - start
        if not self._wanted:
            return
        table = pa.table(checked.columns).slice(start, end - start)
        problem = checked.problems.problem[start:end]
        good = problem < 0
        if not good.all():
            counts = Counter(problem[~good].tolist())
            self._chunk.rejected.update({checked.problems.kinds[kind]: count for kind, count in counts.items()})
            if self._rejects.wanted:
                for row in np.flatnonzero(~good) + start:
                    self._rejects.add(rows.place(int(row)), rows.given(int(row)), checked.problems.reason(int(row)))
            table, places = table.filter(pa.array(good)), places[good]
        if table.num_rows:
            self._tables.append(table)
            self._places.append(places)

    def close(self) -> Chunk:
        """Writes the rejects and the ledger."""
        self._rejects.close()
        if self._tables:
            target = self._work.target
            self._chunk.bucket = store_rows(
                self._work.location.objects(),
                self._sorted(),
                topic=target.topic,
                generation=target.generation,
                settings=target.settings,
                content=target.content(self._mark),
            )
        return self._chunk

    def _sorted(self) -> Iterator[pa.Table]:
        table = pa.concat_tables(self._tables).combine_chunks()
        places = np.concatenate(self._places)
        self._tables, self._places = [], []
        due = table.column("deliver_at_ms").to_numpy()
        ids = _ids(due, places, self._rows, f"{self._work.target.import_id}\n{self._mark}")
        order = np.argsort(due, kind="stable")
        tied = np.flatnonzero(due[order][1:] == due[order][:-1])
        if tied.size:
            halves = ids.view(">u8").astype(np.uint64)
            order = np.lexsort((halves[:, 1], halves[:, 0]))
        step = max(1, min(_SLICE_ROWS, _SLICE_BYTES * len(order) // max(1, table.nbytes)))
        for start in range(0, len(order), step):
            rows = order[start : start + step]
            taken = table.take(pa.array(rows))
            id_bytes = pa.py_buffer(np.ascontiguousarray(ids[rows]).tobytes())
            column = pa.Array.from_buffers(pa.binary(16), len(rows), [None, id_bytes])
            yield taken.append_column(SCHEMA.field("message_id"), column).select(SCHEMA.names)


def _ids(due: npt.NDArray[np.int64], places: npt.NDArray[np.int64], rows: int, seed: str) -> npt.NDArray[np.uint8]:
    random = np.frombuffer(shake_256(seed.encode()).digest(rows * _RANDOM_BYTES), np.uint8).reshape(-1, _RANDOM_BYTES)
    ids = np.empty((len(due), 16), np.uint8)
    ids[:, :6] = due.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 2:]
    ids[:, 6:] = random[places]
    ids[:, 6] &= 0x7F
    return ids
