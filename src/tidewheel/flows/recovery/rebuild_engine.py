"""The port to an engine that reads and writes the ledgers of a rebuild.

`tidewheel.jobs.rebuild_engine` reads in this process, `tidewheel.spark.ledger_scan` on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.flows.recovery.rebuild_keys import KeyRestore
from tidewheel.flows.recovery.scan import ScanRange
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.inspection import Inspected
from tidewheel.model.key import KeyEntry
from tidewheel.storage.objects import StoredObject

Overlaps = Iterable[tuple[int, int]]
"""Pairs of places in a list of ledgers; the two ledgers share a message."""


class LedgerScan(Protocol):
    """The findings of one reading of all ledgers."""

    @property
    def inspected(self) -> Sequence[Inspected]:
        """The ledgers that were still there."""
        ...

    def overlaps(self, ledgers: Sequence[Inspected], /) -> Overlaps:
        """Returns which of these ledgers share a message that is due in the scan's range.

        The result has enough pairs to connect all such ledgers.
        """
        ...

    def restore_keys(self, ledgers: Sequence[Inspected], restore: KeyRestore, known: Sequence[KeyEntry], /) -> int:
        """Restores the keys of these ledgers and of a checkpoint. Returns how many. A repetition is harmless."""
        ...

    def close(self) -> None:
        """Frees the data of the scan."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildEngine:
    """Reads and writes ledgers, on any machine.

    Attributes:
        scan: reads ledgers.
        write: writes the outputs of a merge. A failed or repeated task leaves only orphans.
    """

    scan: Callable[[Sequence[StoredObject], ScanRange], LedgerScan]
    write: Callable[[MergeWork], Iterable[Bucket | None]]
