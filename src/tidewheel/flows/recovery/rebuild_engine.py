"""The port to an engine that reads and writes the ledgers of a rebuild.

`tidewheel.jobs.rebuild_engine` implements the port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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

    def delete(self) -> None:
        """Deletes the objects of the scan."""
        ...


class RebuildEngine(Protocol):
    """Reads and writes ledgers, on any machine."""

    def scan(self, topic: str, stored: Sequence[StoredObject], wanted: ScanRange, /) -> LedgerScan:
        """Reads ledgers."""
        ...

    @property
    def write(self) -> Callable[[MergeWork], Iterable[Bucket | None]]:
        """Writes the outputs of a merge."""
        ...
