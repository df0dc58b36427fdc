"""Chooses which small ledgers are merged, and the slots at which the result is cut.

Ledgers of similar size are merged. A bucket's *tier* is the power of eight in its bytes that are still to be planned.
Above `max_buckets` live buckets, the lowest tier with eight or more buckets is merged whole:

    tier      0             1             2            3
    bytes     32 KiB        256 KiB       2 MiB        16 MiB        ...    FULL_BYTES: left alone, not counted
              ||||||||||||  |||||         ||           |
              '----.-----'
                   '------> one bucket of tier 1

So a row is rewritten about once per tier, which is about twice in its life. Windows of time are the wider, the later
they are, so that ledgers due soon can be deleted soon. They end at multiples of powers of two, so that the windows of
an earlier merge are unions of the windows of a later merge. Windows are made coarser until each has WINDOW_BYTES,
because every ledger that overlaps a slot costs that slot's dispatch one GET, however small the ledger is.

Ledgers that end within the hour are left alone: their rows would be rewritten to be read once.

If the ledgers are few enough, the deadest are rewritten, as `retention` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import inf
from typing import NamedTuple

from tidewheel.flows.maintenance.retention import NOTHING_DEAD, Dead
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.slots import encode_slots

FULL_BYTES = 256 * 1024 * 1024
"""A ledger of this size needs no merging: its share of a dispatch's GETs is small beside its messages."""
WINDOW_BYTES = 32 * 1024 * 1024
MAX_OUTPUTS = 16
MAX_MERGE_BYTES = 4 * 1024 * 1024 * 1024
MAX_OUTPUT_BYTES = 512 * 1024 * 1024
MAX_OUTPUT_ROWS = 5_000_000
MAX_ITEMS = 98
"""Sources and outputs of one swap: a transaction has 100 items, two of them the trash and the topic state."""
_MAX_INDEX_BYTES = 3 * 1024 * 1024  # a transaction takes 4 MB
_TIER_FACTOR = 8
_TIER_MEMBERS = 8
_TIER_0_BYTES = 32 * 1024
_SOURCES_AN_OUTPUT = 4
_ENDS_SOON_MS = 3_600_000


class Most(NamedTuple):
    """The estimated maximum of a merge."""

    encoded_bytes: int
    rows: float


MOST = Most(MAX_MERGE_BYTES, inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Sources to be rewritten as at most len(cuts) - 1 ledgers.

    Attributes:
        sources: in the order of their ids.
        cuts: ascending slots; the i-th output has the rows of slots [cuts[i], cuts[i + 1]). Rows of slots below the
            first cut are planned, and not rewritten.
        live_bytes, live_rows: estimates of the rewritten part; bytes as encoded.
    """

    sources: tuple[Bucket, ...]
    cuts: tuple[int, ...]
    live_bytes: int

    @property
    def live_rows(self) -> int:
        """The sources' rows that are not planned."""
        return round(_weight(self.sources, self.cuts[0], self.cuts[-1]).rows)

    def output_id(self, i: int) -> str:
        """Returns a hash of the i-th output's sources and slots, for its bucket's id."""
        text = "\n".join((*(source.id for source in self.sources), f"{self.cuts[i]}-{self.cuts[i + 1]}"))
        return blake2b(text.encode(), digest_size=16).hexdigest()


def choose(
    buckets: Iterable[Bucket],
    planned: int,
    slot_ms: int,
    max_buckets: int,
    *,
    everything: bool = False,
    most: Most = MOST,
    dead: Dead = NOTHING_DEAD,
) -> Merge | None:
    """Returns the next merge that a topic needs, of a single ledger too. Returns None if none is needed.

    Args:
        buckets: all of the topic's.
        planned: the topic state's mark; rows below it are not rewritten.
        slot_ms: the topic's slot length.
        max_buckets: live buckets up to which nothing is merged.
        everything: merge all small ledgers, however few.
        most: the maximum that the merge may rewrite; it limits the number of ledgers.
        dead: the dead bytes of the ledgers.
    """
    sized = [(_live_bytes(bucket, planned), bucket) for bucket in those_that_last(buckets, planned, slot_ms)]
    small = sorted(((size, each) for size, each in sized if size < FULL_BYTES), key=lambda s: (s[0], s[1].id))
    sources: list[Bucket] = []
    if len(small) > max_buckets or everything:
        sources = list(_that_fit(small if everything else _tier(small, max_buckets), planned, most))
    if len(sources) < 2:
        deadest = dead.deadest(bucket for _, bucket in sized)
        sources = list(_that_fit(((_live_bytes(each, planned), each) for each in deadest), planned, most))
    if not sources:
        return None
    sources.sort(key=lambda bucket: bucket.id)
    return Merge(
        sources=tuple(sources),
        cuts=_cuts(sources, planned),
        live_bytes=sum(_live_bytes(source, planned) for source in sources),
    )


def those_that_last(buckets: Iterable[Bucket], planned: int, slot_ms: int) -> list[Bucket]:
    """Returns the ledgers that do not end within the hour."""
    soon = planned + max(1, _ENDS_SOON_MS // slot_ms)
    return [bucket for bucket in buckets if bucket.last_slot >= soon]


def _live_bytes(bucket: Bucket, planned: int) -> int:
    return int(bucket.size_bytes * bucket.share(planned, bucket.last_slot + 1))


def _tier(small: Sequence[tuple[int, Bucket]], max_buckets: int) -> list[tuple[int, Bucket]]:
    """Returns the lowest tier with enough members, or the smaller half of all if none has enough."""
    tiers: dict[int, list[tuple[int, Bucket]]] = {}
    for size, bucket in small:
        tier, limit = 0, _TIER_0_BYTES * _TIER_FACTOR
        while size >= limit:
            tier, limit = tier + 1, limit * _TIER_FACTOR
        tiers.setdefault(tier, []).append((size, bucket))
    for tier in sorted(tiers):
        if len(tiers[tier]) >= _TIER_MEMBERS:
            return tiers[tier]
    return list(small[: max(2, max_buckets // 2)])


def _that_fit(chosen: Iterable[tuple[int, Bucket]], planned: int, most: Most) -> Iterator[Bucket]:
    """Yields as many buckets as fit into a transaction and a run."""
    index_bytes = live_bytes = 0
    rows = 0.0
    for number, (size, bucket) in enumerate(chosen):
        index_bytes += len(encode_slots(bucket.slots))
        live_bytes += size
        rows += bucket.rows * bucket.share(planned, bucket.last_slot + 1)
        if number == MAX_ITEMS - MAX_OUTPUTS or index_bytes > _MAX_INDEX_BYTES:
            return
        if live_bytes > most.encoded_bytes or rows > most.rows:
            return
        yield bucket


class _Weight(NamedTuple):
    encoded_bytes: float
    rows: float


def _weight(sources: Sequence[Bucket], first_slot: int, end_slot: int) -> _Weight:
    """Estimates the rows and bytes in slots [first_slot, end_slot).

    Each bucket's rows are spread evenly over its occupied slots.
    """
    shares = [(source.share(first_slot, end_slot), source) for source in sources]
    return _Weight(
        sum(share * source.size_bytes for share, source in shares), sum(share * source.rows for share, source in shares)
    )


def _cuts(sources: Sequence[Bucket], planned: int) -> tuple[int, ...]:
    first = max(planned, min(source.next_slot(planned) or planned for source in sources))
    end = max(source.last_slot for source in sources) + 1
    total = _weight(sources, first, end)
    # Far fewer outputs than sources: outputs may be small again, and merging must end.
    wanted = max(1, min(MAX_OUTPUTS, len(sources) // _SOURCES_AN_OUTPUT, int(total.encoded_bytes / WINDOW_BYTES)))
    found = windows(first, end, wanted)
    cuts = [first]
    for a, b in found:
        cuts += _bounded(sources, a, b, MAX_OUTPUTS // len(found))
    return tuple(cuts) if len(cuts) <= len(sources) else (first, end)


def _bounded(sources: Sequence[Bucket], first_slot: int, end_slot: int, most: int) -> list[int]:
    """Halves a window until each part fits into a ledger. Returns the ends of the parts."""
    weight = _weight(sources, first_slot, end_slot)
    if (
        end_slot - first_slot < 2
        or most < 2
        or (weight.encoded_bytes <= MAX_OUTPUT_BYTES and weight.rows <= MAX_OUTPUT_ROWS)
    ):
        return [end_slot]
    middle = (first_slot + end_slot) // 2
    return _bounded(sources, first_slot, middle, most // 2) + _bounded(sources, middle, end_slot, most // 2)


def windows(first: int, end: int, most: int) -> list[tuple[int, int]]:
    """Cuts slots [first, end) into at most `most` windows, as fine as possible."""
    finest = 1
    while len(found := _windows(first, end, finest)) > most:
        finest *= 2
    return found


def _windows(first: int, end: int, finest: int) -> list[tuple[int, int]]:
    """Cuts slots [first, end) at multiples of powers of two that are at least `finest`, and as far as the distance."""
    found = []
    start = first
    while start < end:
        width = finest
        while width < (cut := (start // width + 1) * width) - first:
            width *= 2
        found.append((start, min(cut, end)))
        start = cut
    return found
