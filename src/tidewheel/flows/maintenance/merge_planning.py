"""Chooses which small ledgers are merged, and how the result is cut.

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
from tidewheel.ledger.index import encode_slots

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


class Size(NamedTuple):
    """The estimated size of some rows, or the maximum of a merge."""

    encoded_bytes: float
    rows: float


MOST = Size(MAX_MERGE_BYTES, inf)


class Window(NamedTuple):
    """The rows of an output: one of some equal shares of the rows of slots [first_slot, end_slot), by their ids.

    Attributes:
        share: its number, from 0.
        shares: how many. More than one cut slots and milliseconds.
    """

    first_slot: int
    end_slot: int
    share: int = 0
    shares: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Sources to be rewritten as at most a ledger a window.

    Attributes:
        sources: in the order of their ids.
        windows: ascending and without a gap. Rows of slots below the first are planned, and not rewritten.
        live_bytes, live_rows: estimates of the rewritten part; bytes as encoded.
    """

    sources: tuple[Bucket, ...]
    windows: tuple[Window, ...]
    live_bytes: int

    @property
    def live_rows(self) -> int:
        """The sources' rows that are not planned."""
        return round(_size(self.sources, self.windows[0].first_slot, self.windows[-1].end_slot).rows)

    def output_id(self, window: Window) -> str:
        """Returns a hash of an output's sources and window, for its bucket's id."""
        text = "\n".join((*(source.id for source in self.sources), "-".join(map(str, window))))
        return blake2b(text.encode(), digest_size=16).hexdigest()


def choose(
    buckets: Iterable[Bucket],
    planned: int,
    slot_ms: int,
    max_buckets: int,
    *,
    everything: bool = False,
    most: Size = MOST,
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
        windows=_outputs(sources, planned),
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


def _that_fit(chosen: Iterable[tuple[int, Bucket]], planned: int, most: Size) -> Iterator[Bucket]:
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


def _size(sources: Sequence[Bucket], first_slot: int, end_slot: int) -> Size:
    """Estimates the rows and bytes in slots [first_slot, end_slot).

    Each bucket's rows are spread evenly over its occupied slots.
    """
    shares = [(source.share(first_slot, end_slot), source) for source in sources]
    return Size(
        sum(share * source.size_bytes for share, source in shares), sum(share * source.rows for share, source in shares)
    )


def _outputs(sources: Sequence[Bucket], planned: int) -> tuple[Window, ...]:
    """Returns the windows of the outputs, fewer than sources, so that merging ends.

    Windows are made coarser until their outputs are few enough. Only rows that fill too many ledgers are divided into
    larger shares, which are equal.
    """
    first = max(planned, min(source.next_slot(planned) or planned for source in sources))
    end = max(source.last_slot for source in sources) + 1
    total = _size(sources, first, end)
    # Far fewer outputs than sources: outputs may be small again.
    wanted = max(1, min(MAX_OUTPUTS, len(sources) // _SOURCES_AN_OUTPUT, int(total.encoded_bytes / WINDOW_BYTES)))
    most = min(MAX_OUTPUTS, max(1, len(sources) - 1))
    while wanted:
        found = [each for a, b in windows(first, end, wanted) for each in shares_of(a, b, _size(sources, a, b))]
        if len(found) <= most:
            return tuple(found)
        wanted //= 2
    return tuple(shares_of(first, end, total, most))


def shares_of(first_slot: int, end_slot: int, size: Size, most: float = inf) -> list[Window]:
    """Divides the rows of slots into shares that fit into a ledger each, but into at most `most` shares."""
    shares = int(min(most, 1 + max(size.encoded_bytes / MAX_OUTPUT_BYTES, size.rows / MAX_OUTPUT_ROWS)))
    return [Window(first_slot, end_slot, share, shares) for share in range(shares)]


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
