"""Reads and compares the ledgers of a rebuild in this process. All ids are in memory, about 45 bytes a message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidewheel.flows.recovery.rebuild_engine import Overlaps
from tidewheel.flows.recovery.rebuild_keys import KeyPorts, KeyRestore
from tidewheel.flows.recovery.scan import KEYED, Scanned, ScanRange, scan
from tidewheel.jobs.tasks import Tasks
from tidewheel.ledger.inspection import Inspected
from tidewheel.model.groups import grouped
from tidewheel.model.key import KeyEntry
from tidewheel.storage.objects import Objects, StoredObject
from tidewheel.storage.read_ahead import THREADS

_GROUP_BYTES = 64 * 1024 * 1024
_FEW_TASKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanHere:
    """Implements the port `LedgerScan` in this process.

    Attributes:
        scanned: the ledgers that were still there, in the order of their names.
        ports: returns the ports to keys.
    """

    scanned: Sequence[Scanned]
    ports: Callable[[], KeyPorts]

    @property
    def inspected(self) -> Sequence[Inspected]:
        """The ledgers that were still there."""
        return [each.inspected for each in self.scanned]

    def overlaps(self, ledgers: Sequence[Inspected], /) -> Overlaps:
        """Sorts all ids, and compares neighbours."""
        found = self._of(ledgers)
        ids = np.concatenate([np.empty(0, np.int64), *(each.ids for each in found)])
        places = np.repeat(np.arange(len(found), dtype=np.uint32), [len(each.ids) for each in found])
        order = np.argsort(ids)
        ids, places = ids[order], places[order]
        same = (ids[1:] == ids[:-1]) & (places[1:] != places[:-1])
        pairs = np.unique(np.stack((places[:-1][same], places[1:][same]), axis=1), axis=0)
        return [(int(a), int(b)) for a, b in pairs]

    def restore_keys(self, ledgers: Sequence[Inspected], restore: KeyRestore, known: Sequence[KeyEntry], /) -> int:
        """Restores all keys at once."""
        rows = pa.concat_tables([KEYED.empty_table(), *(each.keyed for each in self._of(ledgers))])
        return restore.put(self.ports, rows, known)

    def close(self) -> None:
        """Does nothing."""

    def _of(self, ledgers: Sequence[Inspected]) -> list[Scanned]:
        """Returns the data of ledgers, in their order."""
        by_name = {each.inspected.object_name: each for each in self.scanned}
        return [by_name[each.object_name] for each in ledgers]


def scan_here(
    tasks: Tasks,
    objects: Objects,
    ports: Callable[[], KeyPorts],
    stored: Sequence[StoredObject],
    wanted: ScanRange,
    *,
    advance: Callable[[float, float], None] = lambda _done, _total: None,
    threads: int = THREADS,
) -> ScanHere:
    """Reads ledgers in this process, about 64 MiB a task.

    Args:
        tasks: runs the tasks in this process.
        objects: the objects.
        ports: returns the ports to keys.
        stored: the ledgers.
        wanted: the messages to compare.
        advance: takes the read and the total bytes.
        threads: requests of a task side by side, ahead of use.
    """
    size_bytes = sum(each.size_bytes for each in stored)
    # Less than 64 MiB if processors would be idle.
    most_bytes = min(_GROUP_BYTES, size_bytes // (_FEW_TASKS * tasks.side_by_side) + 1)
    groups = list(grouped(stored, lambda each: each.size_bytes, most_bytes))
    scanned: list[Scanned] = []
    read_bytes = 0
    for number, found in tasks.run(lambda group: list(scan(objects, group, wanted, threads)), groups):
        scanned += found
        read_bytes += sum(each.size_bytes for each in groups[number])
        advance(read_bytes, size_bytes)
    return ScanHere(scanned=sorted(scanned, key=lambda each: each.inspected.object_name), ports=ports)
