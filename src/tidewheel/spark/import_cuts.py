"""Divides the rows of an import among ledgers, by slot.

Each ledger takes one cut, a range of slots. The cuts are made once and stored, so that a second run writes the same
ledgers and knows which ledgers exist:

    imports/<topic>/_<import id>.json    sealed (`model.checksum`), a JSON object: starts, rows of each, rejected
                                         rows by kind, the input's fingerprint

The name starts with an underscore because Spark ignores such files when it reads a folder.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidewheel.errors import CorruptMetadata, ObjectMissing
from tidewheel.flows.ports.objects import Objects
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.duration import MAX_DELAY_MS
from tidewheel.model.untrusted import json_object_of, mapping, text, whole

CUT_ROWS = 1_000_000
CUT_RAW_BYTES = 160 * 1024 * 1024
"""About 64 MiB encoded."""
_ROW_BYTES = 24
"""Bytes of a row besides payload, key and attributes."""
_GRAINS = 1_200_000
_MOST_BYTES = 1 << 30


class SlotWeight(NamedTuple):
    """Counts the rows and bytes of one grain, the smallest run of slots in a cut."""

    first_slot: int
    rows: int
    raw_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """Describes how an import is divided into cuts.

    Attributes:
        fingerprint: hash of the input from which the cuts were made.
        starts: first slot of each cut; a cut ends where the next starts.
        rows: rows of each cut, including rows due too soon or too far ahead.
        rejected: rows outside every cut, by kind.
    """

    fingerprint: str
    starts: tuple[int, ...]
    rows: tuple[int, ...]
    rejected: Mapping[str, int]

    def position(self, slot: Column, wanted: Sequence[int]) -> Column:
        """Returns the index in `wanted` of a slot's cut. Null if the cut is not wanted."""
        places = {cut: place for place, cut in enumerate(wanted)}

        def search(first: int, end: int) -> Column:
            if end - first == 1:
                return F.lit(places.get(first)).cast("int")
            middle = (first + end) // 2
            return F.when(slot < self.starts[middle], search(first, middle)).otherwise(search(middle, end))

        return search(0, len(self.starts)) if self.starts else F.lit(None).cast("int")

    def cut_of(self, slot: int) -> int:
        """Returns the cut of a slot."""
        return max(0, bisect_right(self.starts, slot) - 1)

    def store(self, objects: Objects, name: str) -> None:
        """Writes the cuts to an object."""
        objects.put(name, sealed(json.dumps(asdict(self)).encode()))


def stored_cuts(objects: Objects, name: str) -> Cuts | None:
    """Returns the cuts stored by an earlier run. Returns None if there are none.

    Raises:
        CorruptMetadata: the object is damaged.
    """
    try:
        data = objects.get_range(name, 0, _MOST_BYTES)
    except ObjectMissing:
        return None
    try:
        values = json_object_of(opened(data))
        return Cuts(
            fingerprint=text(values["fingerprint"]),
            starts=tuple(map(whole, values["starts"])),
            rows=tuple(map(whole, values["rows"])),
            rejected={text(kind): whole(rows) for kind, rows in mapping(values["rejected"]).items()},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptMetadata(
            f"object {name}, bytes 0-{len(data) - 1}, does not hold an import's cuts ({error}): restore the object "
            "from a backup, or delete it and run the import again with the same files, which makes the same cuts"
        ) from None


def grain_slots(slot_ms: int) -> int:
    """Returns the number of slots in a grain.

    Grains keep ten years of short slots small enough for the driver's memory.
    """
    return -(-MAX_DELAY_MS // slot_ms // _GRAINS) or 1


def make_cuts(
    weights: Iterable[SlotWeight],
    *,
    fingerprint: str,
    rejected: Mapping[str, int],
    most_rows: int = CUT_ROWS,
    most_bytes: int = CUT_RAW_BYTES,
) -> Cuts:
    """Divides rows into as few cuts as possible. A grain over the limit becomes a cut alone.

    The cuts depend on the input alone, not on the time, so two runs at once store the same cuts.
    """
    starts: list[int] = []
    rows: list[int] = []
    raw_bytes = 0
    for weight in sorted(weights):
        added = weight.raw_bytes + weight.rows * _ROW_BYTES
        if not starts or rows[-1] + weight.rows > most_rows or raw_bytes + added > most_bytes:
            starts.append(weight.first_slot)
            rows.append(0)
            raw_bytes = 0
        rows[-1] += weight.rows
        raw_bytes += added
    return Cuts(fingerprint=fingerprint, starts=tuple(starts), rows=tuple(rows), rejected=dict(rejected))
