"""Reads and writes the ledgers of a rebuild with tasks, in this process or on Spark.

Each ledger is read once. What is compared between ledgers is cut into shares, and each share is compared in a task, so
that no process holds all ids: 12 bytes a message, about 2,000,000 messages a share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.flows.recovery.rebuild_engine import Overlaps
from tidewheel.flows.recovery.rebuild_keys import KeyPorts, KeyRestore
from tidewheel.flows.recovery.scan import (
    KEYS,
    Array,
    Compare,
    ScanRange,
    ScanTask,
    Spool,
    key_share,
    keys_in,
    read_share,
)
from tidewheel.jobs.tasks import Tasks
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.inspection import Inspected
from tidewheel.model.groups import grouped
from tidewheel.model.key import KeyEntry
from tidewheel.storage.objects import Objects, StoredObject
from tidewheel.storage.read_ahead import THREADS

_GROUP_BYTES = 64 * 1024 * 1024
_SHARE_BYTES = 256 * 1024 * 1024
"""Ledgers whose messages are compared in one task, on average."""
_SMALL_BYTES = 256 * 1024
_FEW_TASKS = 4
_EASE = 8
"""Bytes of ledgers that a scan reads while a merge works on one raw byte: it decodes few columns and writes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Implements the port `RebuildEngine` with tasks. A failed or repeated task leaves only orphans.

    Attributes:
        tasks: returns what runs tasks, given the raw bytes of a merge that takes as long.
        objects: returns the objects, in any process.
        ports: returns the ports to keys, in any process.
        write: writes the outputs of a merge.
        advance: takes the read and the total bytes.
        share_bytes: bytes of the ledgers whose messages are compared in one task.
        small_bytes: what a task found is its result up to this size, and an object above.
        threads: requests of a task side by side, ahead of use.
    """

    tasks: Callable[[int], Tasks]
    objects: Callable[[], Objects]
    ports: Callable[[], KeyPorts]
    write: Callable[[MergeWork], Iterable[Bucket | None]]
    advance: Callable[[float, float], None] = lambda _done, _total: None
    share_bytes: int = _SHARE_BYTES
    small_bytes: int = _SMALL_BYTES
    threads: int = THREADS

    def scan(self, topic: str, stored: Sequence[StoredObject], wanted: ScanRange, /) -> Scan:
        """Reads ledgers, about 64 MiB a task."""
        size_bytes = sum(each.size_bytes for each in stored)
        tasks, shares = self.tasks(size_bytes // _EASE), 1 + size_bytes // self.share_bytes
        task = ScanTask(
            objects=self.objects,
            topic=topic,
            attempt=self.objects().new_attempt(),
            wanted=wanted,
            shares=shares,
            small_bytes=self.small_bytes,
            threads=self.threads,
        )
        found: list[tuple[int, Inspected]] = []
        spools: list[Spool] = []
        # Less than 64 MiB if processors would be idle.
        most_bytes = min(_GROUP_BYTES, size_bytes // (_FEW_TASKS * tasks.side_by_side) + 1)
        groups = list(enumerate(grouped(enumerate(stored), lambda each: each[1].size_bytes, most_bytes)))
        read_bytes = 0
        for place, (inspected, spool) in tasks.run(task, groups):
            found += inspected
            spools.append(spool)
            read_bytes += sum(each.size_bytes for _, each in groups[place][1])
            self.advance(read_bytes, size_bytes)
        found.sort(key=lambda pair: pair[0])
        return Scan(
            engine=self,
            tasks=tasks,
            stored=stored,
            shares=shares,
            spools=tuple(spools),
            inspected=[each for _, each in found],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Implements the port `LedgerScan`."""

    engine: Engine
    tasks: Tasks
    stored: Sequence[StoredObject]
    shares: int
    spools: tuple[Spool, ...]
    inspected: Sequence[Inspected]

    def overlaps(self, ledgers: Sequence[Inspected], /) -> Overlaps:
        """Compares ids, one share a task."""
        task = Compare(objects=self.engine.objects, spools=self.spools, live=self._places(ledgers))
        return {pair for _, pairs in self.tasks.run(task, range(self.shares)) for pair in pairs}

    def restore_keys(self, ledgers: Sequence[Inspected], restore: KeyRestore, known: Sequence[KeyEntry], /) -> int:
        """Restores keys, one share a task."""
        if not known and not any(each.keyed for each in self.spools):
            return 0
        task = _RestoreKeys(
            objects=self.engine.objects,
            ports=self.engine.ports,
            spools=self.spools,
            live=self._places(ledgers),
            restore=restore,
        )
        shares: list[list[KeyEntry]] = [[] for _ in range(self.shares)]
        for each in known:
            shares[key_share(each.key, self.shares)].append(each)
        return sum(count for _, count in self.tasks.run(task, list(enumerate(shares))))

    def delete(self) -> None:
        """Deletes the objects of the scan."""
        self.engine.objects().delete([each.object_name for each in self.spools if each.object_name is not None])

    def _places(self, ledgers: Sequence[Inspected]) -> Array:
        """Returns the place of each scanned object among some ledgers, or -1."""
        places = {each.object_name: place for place, each in enumerate(ledgers)}
        return np.array([places.get(each.name, -1) for each in self.stored], np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RestoreKeys:
    objects: Callable[[], Objects]
    ports: Callable[[], KeyPorts]
    spools: tuple[Spool, ...]
    live: Array
    restore: KeyRestore

    def __call__(self, share: tuple[int, list[KeyEntry]]) -> int:
        number, known = share
        spools = [each for each in self.spools if each.keyed]
        rows = [keys_in(data) for data in read_share(self.objects(), spools, number)]
        count = 0
        if rows or known:
            entries = list(self.restore.of_share(self._counting(rows), known))
            self.restore.put(self.ports(), entries)
            count = len(entries)
        return count

    def _counting(self, rows: list[pa.Table]) -> pa.Table:
        table = pa.concat_tables([KEYS.empty_table(), *rows])
        counts = self.live[table.column("place").to_numpy()] >= 0
        return table.filter(pa.array(counts)) if table.num_rows else table
