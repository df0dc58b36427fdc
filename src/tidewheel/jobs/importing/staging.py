"""Writes checked rows as ledgers and lines of rejects, which nothing names yet.

A ledger has the rows of whole files, or a piece of one file. So a file that turns out to be bad takes no other file's
rows with it. A message id is 48 bits of due time and 79 random bits. So equal rows are different messages, and ids tell
nothing about each other.

If it stops: the orphan sweep deletes the ledgers, and the rejects stay until the import is finished.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.flows.maintenance.merge_rows import store_rows
from tidewheel.jobs.importing.checks import Checked, read_checked
from tidewheel.jobs.importing.work import FileProblem, Part, Work
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.rows import SCHEMA, Int64s, sorted_order, taken, times_of
from tidewheel.ledger.sink import Sink

_SLICE_ROWS = 65_536
_SLICE_BYTES = 32 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Staged:
    """What a task has written.

    Attributes:
        ledgers: with the number of the file of which each is a piece, if it is one.
        rejects: objects with rejected rows, with the number of the file.
        good, rejected: rows of each file; the rejected rows by kind.
        failed: problems of files, of which nothing counts.
        digest: of the rows, in any order.
    """

    ledgers: list[tuple[int | None, Bucket]] = field(default_factory=list)
    rejects: list[tuple[int, str]] = field(default_factory=list)
    good: Counter[int] = field(default_factory=Counter)
    rejected: Counter[tuple[int, str]] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)
    digest: int = 0

    @classmethod
    def of(cls, found: Iterable[Staged]) -> Staged:
        """Returns what all tasks have written together."""
        whole = cls()
        for each in found:
            whole.ledgers += each.ledgers
            whole.rejects += each.rejects
            whole.good += each.good
            whole.rejected += each.rejected
            whole.failed |= each.failed
            whole.digest += each.digest
        return whole

    @property
    def names(self) -> list[str]:
        """The names of all objects."""
        return [*(bucket.object_name for _, bucket in self.ledgers), *(name for _, name in self.rejects)]

    def without_failed(self) -> tuple[Staged, list[str]]:
        """Returns what is left without the files that failed, and the names of their objects."""
        kept = Staged(
            ledgers=[each for each in self.ledgers if each[0] not in self.failed],
            rejects=[each for each in self.rejects if each[0] not in self.failed],
            good=Counter({file: rows for file, rows in self.good.items() if file not in self.failed}),
            rejected=Counter({kind: rows for kind, rows in self.rejected.items() if kind[0] not in self.failed}),
            failed=self.failed,
            digest=self.digest,
        )
        return kept, sorted(set(self.names) - set(kept.names))


@dataclass(frozen=True, slots=True)
class StageParts:
    """Reads and writes the parts of a task. Runs in a process that a damaged file may end."""

    work: Work

    def __call__(self, parts: list[Part]) -> Iterator[int | Staged]:
        """Yields the place of each part before it is read, and at the end what was written."""
        stage = Stage(self.work)
        for place, part in enumerate(parts):
            yield place
            with stage.file(part.file.number, whole=part.is_whole):
                for checked in read_checked(self.work, part):
                    stage.add(checked)
        yield stage.close()


class Stage:
    """Collects the checked rows of a task, and writes them."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._objects = work.location.objects()
        self._held: list[tuple[pa.Table, int]] = []
        self._rows = self._bytes = 0
        self._staged = Staged()
        self._number = self._begin = 0
        self._in_pieces = False
        self._sink: Sink | None = None
        self._stack = ExitStack()

    @contextmanager
    def file(self, number: int = 0, *, whole: bool = True) -> Iterator[None]:
        """Takes the rows of a file, or of a part of a file. A FileProblem ends the file, and drops its rows."""
        self._number, self._begin, self._in_pieces, self._sink = number, len(self._held), not whole, None
        try:
            with ExitStack() as self._stack:
                yield
        except FileProblem as problem:
            self._take(self._begin, None)
            self._staged.failed[number] = str(problem)
        if self._in_pieces:
            self._write(self._take(self._begin, None), number)

    def add(self, checked: Checked) -> None:
        """Takes rows of the file."""
        self._staged.good[self._number] += checked.table.num_rows
        self._staged.rejected.update({(self._number, kind): rows for kind, rows in checked.rejected.items()})
        for line in checked.lines:
            self._reject(line)
        start = 0
        while start < checked.table.num_rows:
            end = self._end(checked, start)
            some_bytes = int(checked.weights[start:end].sum())
            self._held.append((checked.table.slice(start, end - start), some_bytes))
            self._rows, self._bytes, start = self._rows + end - start, self._bytes + some_bytes, end
            if self._is_full and self._begin:
                self._write(self._take(0, self._begin), None)
                self._begin = 0
            if self._is_full:
                self._write(self._take(0, None), self._number)
                self._in_pieces = True

    def close(self) -> Staged:
        """Writes the rest. Returns what was written."""
        self._write(self._take(0, None), None)
        return self._staged

    @property
    def _is_full(self) -> bool:
        return self._rows >= self._work.limits.rows or self._bytes >= self._work.limits.raw_bytes

    def _end(self, checked: Checked, start: int) -> int:
        """Returns where the ledger ends among rows of which it takes those from `start` on."""
        total = np.cumsum(checked.weights[start:])
        by_bytes = int(total.searchsorted(self._work.limits.raw_bytes - self._bytes)) + 1
        return min(start + by_bytes, start + self._work.limits.rows - self._rows, len(checked.weights))

    def _reject(self, line: bytes) -> None:
        if self._sink is None:
            name = f"{self._work.target.folder}rejects/{self._objects.new_attempt()}.json"
            self._sink = self._stack.enter_context(self._objects.create(name))
            self._staged.rejects.append((self._number, name))
        self._sink.write(line)

    def _take(self, first: int, end: int | None) -> list[pa.Table]:
        taken = self._held[first:end]
        del self._held[first:end]
        self._rows -= sum(table.num_rows for table, _ in taken)
        self._bytes -= sum(some_bytes for _, some_bytes in taken)
        return [table for table, _ in taken]

    def _write(self, tables: list[pa.Table], piece_of: int | None) -> None:
        """Writes a ledger."""
        if not tables:
            return
        target = self._work.target
        bucket = store_rows(
            self._objects,
            _sorted(tables),
            topic=target.topic,
            generation=target.generation,
            settings=target.settings,
            content=secrets.token_hex(16),
        )
        assert bucket is not None  # there are rows
        self._staged.ledgers.append((piece_of, bucket))


def _sorted(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Gives the rows ids, and yields them in slices, by due time and id. Empties the list."""
    table = pa.concat_tables(tables).combine_chunks()
    tables.clear()
    ids = pa.Array.from_buffers(pa.binary(16), table.num_rows, [None, pa.py_buffer(_ids(times_of(table)))])
    table = table.append_column(SCHEMA.field("message_id"), ids).select(SCHEMA.names)
    order = sorted_order(table)
    step = max(1, min(_SLICE_ROWS, _SLICE_BYTES * len(order) // max(1, table.nbytes)))
    for start in range(0, len(order), step):
        yield taken(table, order[start : start + step])


def _ids(due: Int64s) -> npt.NDArray[np.uint8]:
    """Returns an id for each due time: 48 bits of the time, a zero, and 79 random bits."""
    ids = np.frombuffer(os.urandom(16 * len(due)), np.uint8).reshape(-1, 16).copy()
    ids[:, :6] = due.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 2:]
    ids[:, 6] &= 0x7F
    return ids
