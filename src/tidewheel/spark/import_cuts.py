"""The cuts of an import: at which slots its rows are divided among ledgers.

They are made once and stored, so that a second run writes the same ledgers and knows which of them are there:

    imports/<topic>/_<import id>.json    sealed (`model.checksum`), a JSON object: starts, rows of each, rejected
                                         rows by kind, the input's fingerprint

The name starts with an underscore, since Spark takes such a file for no input.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidewheel.aws import s3_layout
from tidewheel.errors import CorruptMetadata, ObjectMissing
from tidewheel.flows.ports import Objects
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.duration import MAX_DELAY_MS
from tidewheel.model.untrusted import json_object_of, mapping, text, whole

CUT_ROWS = 1_000_000
CUT_RAW_BYTES = 160 * 1024 * 1024
"""About 64 MiB encoded."""
_ROW_BYTES = 24
"""What a row weighs besides payload, key and attributes."""
_GRAINS = 1_200_000
_MOST_BYTES = 1 << 30


class SlotWeight(NamedTuple):
    """What lies in one grain: some slots that are not divided."""

    first_slot: int
    rows: int
    raw_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """How an import is divided.

    Attributes:
        fingerprint: of the input that it was made for.
        starts: first slot of each cut; a cut ends where the next starts.
        rows: of each cut, those that are too soon or too far included.
        rejected: rows that are in no cut, by kind.
    """

    fingerprint: str
    starts: tuple[int, ...]
    rows: tuple[int, ...]
    rejected: Mapping[str, int]

    def position(self, slot: Column, wanted: Sequence[int]) -> Column:
        """Returns the place among the wanted cuts of the one that a slot is in; null if it is not among them."""
        places = {cut: place for place, cut in enumerate(wanted)}

        def search(first: int, end: int) -> Column:
            if end - first == 1:
                return F.lit(places.get(first)).cast("int")
            middle = (first + end) // 2
            return F.when(slot < self.starts[middle], search(first, middle)).otherwise(search(middle, end))

        return search(0, len(self.starts)) if self.starts else F.lit(None).cast("int")

    def cut_of(self, slot: int) -> int:
        """Returns the cut that a slot is in."""
        return max(0, bisect_right(self.starts, slot) - 1)

    def store(self, objects: Objects, name: str) -> None:
        """Writes them."""
        objects.put(name, sealed(json.dumps(asdict(self)).encode()))


def stored_cuts(objects: Objects, name: str) -> Cuts | None:
    """Returns what an earlier run has stored, if one has.

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


def cuts_name(topic: str, import_id: str) -> str:
    """Returns the name of the object with an import's cuts."""
    return f"{s3_layout.IMPORTS}{topic}/_{import_id}.json"


def grain_slots(slot_ms: int) -> int:
    """Returns how many slots are weighed as one, so that ten years of short slots fit into the driver."""
    return -(-MAX_DELAY_MS // slot_ms // _GRAINS) or 1


def make_cuts(
    weights: Iterable[SlotWeight],
    *,
    fingerprint: str,
    rejected: Mapping[str, int],
    most_rows: int = CUT_ROWS,
    most_bytes: int = CUT_RAW_BYTES,
) -> Cuts:
    """Divides rows into as few cuts as fit; a grain that is larger is a cut of its own.

    It depends on the input alone, not on the time: two runs at once store the same.
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
