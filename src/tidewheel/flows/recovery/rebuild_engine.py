"""Engines that read and write the ledgers of a rebuild, and an engine for this process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tidewheel.flows.delivery.buckets_again import inspect_object
from tidewheel.flows.ports.objects import Objects, StoredObject
from tidewheel.flows.upkeep.merge_rows import MergeWork, write_output
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.inspection import Inspected, read_segments
from tidewheel.ledger.ledger import decode_segment
from tidewheel.ledger.rows import times_of

Overlaps = Iterable[tuple[int, int]]
"""Pairs of places in a list of ledgers; the two ledgers share a message."""
Ids = npt.NDArray[np.int64]
"""One row per message: the upper and the lower half of its id, and the place of its ledger."""


class RebuildEngine(Protocol):
    """Reads and writes ledgers, on any machine."""

    def inspect(self, stored: Sequence[StoredObject], slot_ms: int, /) -> list[Inspected]:
        """Inspects objects with `inspect_object`. Leaves out missing objects."""
        ...

    def overlaps(self, ledgers: Sequence[Bucket], from_ms: int, /) -> Overlaps:
        """Returns which ledgers share a message due at or after a time.

        The result has enough pairs to connect all such ledgers.
        """
        ...

    def write(self, work: MergeWork, /) -> Iterable[Bucket | None]:
        """Writes each output with `write_output`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcess:
    """The engine for this process. Works sequentially and holds all message ids in memory."""

    objects: Objects

    def inspect(self, stored: Sequence[StoredObject], slot_ms: int, /) -> list[Inspected]:
        """Inspects objects."""
        found = (inspect_object(self.objects, each, slot_ms) for each in stored)
        return [each for each in found if each is not None]

    def overlaps(self, ledgers: Sequence[Bucket], from_ms: int, /) -> Overlaps:
        """Sorts all ids, and compares neighbours."""
        return sharing([message_ids(self.objects, each, place, from_ms) for place, each in enumerate(ledgers)])

    def write(self, work: MergeWork, /) -> Iterable[Bucket | None]:
        """Writes the outputs."""
        return (write_output(self.objects, work, i) for i in range(work.outputs))


def message_ids(objects: Objects, ledger: Bucket, place: int, from_ms: int) -> Ids:
    """Returns the ids of a ledger's messages that are due at or after a time.

    Each row has the id as two integers, and the place.
    """
    wanted = [segment for segment in ledger.segments if segment.last_deliver_at_ms >= from_ms]

    def read(offset: int, length: int) -> bytes:
        return objects.get_range(ledger.object_name, offset, length)

    found = [np.empty((0, 3), np.int64)]
    for segment, data in read_segments(read, wanted):
        columns = ("deliver_at_ms", "message_id")
        table = decode_segment(data, object_name=ledger.object_name, segment=segment, columns=columns)
        first = int(np.searchsorted(times_of(table), from_ms))
        ids = table.column("message_id").combine_chunks()
        pairs = np.frombuffer(ids.buffers()[1], ">i8", 2 * len(ids), 16 * ids.offset).reshape(-1, 2)[first:]
        found.append(np.column_stack((pairs.astype(np.int64), np.full(len(pairs), place))))
    return np.concatenate(found)


def sharing(ids: Sequence[Ids]) -> set[tuple[int, int]]:
    """Returns pairs of places with a common id, enough to connect all such places."""
    if not ids:
        return set()
    rows = np.concatenate(ids)
    rows = rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]
    before, after = rows[:-1], rows[1:]
    same = (before[:, :2] == after[:, :2]).all(axis=1) & (before[:, 2] != after[:, 2])
    return {(int(a), int(b)) for a, b in np.unique(np.stack((before[same, 2], after[same, 2]), axis=1), axis=0)}
