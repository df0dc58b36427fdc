"""Writes checked rows as ledgers and lines of rejects, which nothing names yet.

Message ids are drawn at random. So equal rows are different messages, and ids tell nothing about each other.

If it stops: the orphan sweep deletes the ledgers, and the rejects stay until the import is finished.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidewheel.flows.maintenance.merge_rows import store_rows
from tidewheel.jobs.importing.checks import Checked, read_parts
from tidewheel.jobs.importing.work import Part, Work
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.rows import SCHEMA, Int64s, sorted_order, taken, times_of
from tidewheel.model.message import RANDOM_BITS, id_of

_SLICE_ROWS = 65_536
_SLICE_BYTES = 32 * 1024 * 1024
REJECTS_BYTES = 16 * 1024 * 1024
"""Bytes of an object with rejected rows, without its last row."""


@dataclass(slots=True, kw_only=True)
class Staged:
    """What a task has written.

    Attributes:
        ledgers: the good rows.
        rejects: names of objects with rejected rows.
        good, rejected: numbers of rows; the rejected rows by kind.
        failed: problems of files, by name. If there are any, nothing of the task counts.
        files: names of all files with these rows.
        digest: of the rows, in any order.
    """

    ledgers: list[Bucket] = field(default_factory=list)
    rejects: list[str] = field(default_factory=list)
    good: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    digest: int = 0

    @classmethod
    def of(cls, found: Iterable[Staged]) -> Staged:
        """Returns the results of all tasks together."""
        whole = cls()
        for each in found:
            whole.ledgers += each.ledgers
            whole.rejects += each.rejects
            whole.good += each.good
            whole.rejected += each.rejected
            whole.failed |= each.failed
            whole.files |= each.files
            whole.digest += each.digest
        return whole

    @property
    def names(self) -> list[str]:
        """The names of all objects."""
        return [*(bucket.object_name for bucket in self.ledgers), *self.rejects]


def stage_parts(work: Work, parts: Sequence[Part]) -> Iterator[int | Staged]:
    """Reads and writes parts of files. Yields the place of each part before it is read, and at the end the outcome."""
    stage = Stage(work)
    for told in read_parts(work, parts):
        if isinstance(told, int):
            yield told
        else:
            stage.reject(told)
            stage.add(told.table, told.weights)
    yield stage.close()


class Stage:
    """Collects the checked rows of a task, and writes them."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._objects = work.location.objects()
        self._tables: list[pa.Table] = []
        self._lines: list[bytes] = []
        self._rows = self._bytes = self._line_bytes = 0
        self.staged = Staged()

    def reject(self, checked: Checked) -> None:
        """Takes the problems and the rejected rows of some rows."""
        self.staged.failed |= checked.failed
        self.staged.rejected += checked.rejected
        for line in checked.lines:
            self._lines.append(line)
            self._line_bytes += len(line)
            if self._line_bytes >= REJECTS_BYTES:
                self._write_lines()

    def add(self, table: pa.Table, weights: Int64s) -> None:
        """Takes good rows, with the approximate bytes of each, unless a file has a problem."""
        if self.staged.failed:
            return
        limits = self._work.limits
        self.staged.good += table.num_rows
        while table.num_rows:
            by_bytes = int(np.cumsum(weights).searchsorted(limits.raw_bytes - self._bytes)) + 1
            end = min(by_bytes, limits.rows - self._rows, len(weights))
            self._tables.append(table.slice(0, end))
            self._rows, self._bytes = self._rows + end, self._bytes + int(weights[:end].sum())
            table, weights = table.slice(end), weights[end:]
            if self._rows >= limits.rows or self._bytes >= limits.raw_bytes:
                self._write()

    def close(self) -> Staged:
        """Writes the rest. Returns what was written."""
        self._write()
        self._write_lines()
        return self.staged

    def _write_lines(self) -> None:
        if self._lines:
            name = f"{self._work.folder}rejects/{self._objects.new_attempt()}.json"
            self._objects.put(name, b"".join(self._lines))
            self.staged.rejects.append(name)
            self._lines, self._line_bytes = [], 0

    def _write(self) -> None:
        """Writes a ledger."""
        state, tables = self._work.state, self._tables
        self._tables, self._rows, self._bytes = [], 0, 0
        if tables:
            bucket = store_rows(
                self._objects,
                _sorted(tables),
                topic=state.topic,
                generation=state.generation,
                settings=state.settings,
                content=f"{self._work.run}{secrets.token_hex(16)}",
            )
            assert bucket is not None  # there are rows
            self.staged.ledgers.append(bucket)


def _sorted(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Gives the rows ids, and yields them in slices, by due time and id. Empties the list."""
    table = pa.concat_tables(tables).combine_chunks()
    tables.clear()
    keyed, noise = table.column("key").is_valid().to_pylist(), os.urandom(10 * table.num_rows)
    drawn = (int.from_bytes(noise[i : i + 10]) & RANDOM_BITS for i in range(0, len(noise), 10))
    rows = zip(times_of(table).tolist(), drawn, keyed, strict=True)
    ids = pa.array([id_of(due_ms, bits, keyed=is_keyed) for due_ms, bits, is_keyed in rows], pa.binary(16))
    table = table.append_column(SCHEMA.field("message_id"), ids).select(SCHEMA.names)
    order = sorted_order(table)
    step = max(1, min(_SLICE_ROWS, _SLICE_BYTES * len(order) // max(1, table.nbytes)))
    for start in range(0, len(order), step):
        yield taken(table, order[start : start + step])
