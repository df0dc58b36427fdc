"""Estimates how many waiting messages are due when, from metadata alone.

A segment has a number of rows and a time span. Its bucket says which slots of this span are occupied. The rows are
assumed to be spread evenly over these slots. So a bar is exact up to the rows of the segments that cross its edges, and
all bars and `later` add up to the number of waiting messages. Beyond the nearest ledgers, a whole ledger counts as one
segment, because the tables of many thousand segments would not fit into memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from tidewheel.clock import utc
from tidewheel.ledger.bucket import Bucket

HOUR_S = 3600
DAY_S = 86_400
HOURS = 48
DAYS = 60
DUE_S = (1, 10, 60, 600, HOUR_S, 6 * HOUR_S, DAY_S, 7 * DAY_S, 30 * DAY_S, 365 * DAY_S, 3650 * DAY_S)
"""Ends of the bars by time until due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedHistogram:
    """Estimated numbers of waiting messages by due time.

    Attributes:
        start_at: where the first bar begins: the current hour or day, UTC. Overdue messages are in the first bar.
        bar_s: length of a bar, in seconds.
        bars: messages of each bar.
        later: messages that are due after the last bar.
    """

    start_at: datetime
    bar_s: int
    bars: tuple[int, ...]
    later: int

    @property
    def total(self) -> int:
        """All messages together."""
        return sum(self.bars) + self.later

    def with_total(self, total: int) -> EstimatedHistogram:
        """Returns the histogram with as many later messages as make a known total."""
        return replace(self, later=max(0, total - sum(self.bars)))

    def starts(self) -> Iterator[datetime]:
        """Returns the start time of each bar."""
        return (self.start_at + timedelta(seconds=i * self.bar_s) for i in range(len(self.bars)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBar:
    """Estimated number of waiting messages by time until due.

    Attributes:
        until_s: the messages are due less than so many seconds from now, and later than those of the bar before.
        messages: their number. The first bar includes overdue messages, the last bar all messages due later.
    """

    until_s: int
    messages: int


class Load(NamedTuple):
    """Rows spread evenly over the occupied slots [first_slot, end_slot) of a bucket.

    Attributes:
        whole: whether these are all rows of the bucket from first_slot on, and not those of a segment.
    """

    bucket: Bucket
    first_slot: int
    end_slot: int
    rows: float
    whole: bool

    def later(self, slot: int) -> Load:
        """Returns the part at or after a slot within the load."""
        rows = float(self.bucket.rows_from(slot)) if self.whole else self.rows_of(slot, self.end_slot)
        return self._replace(first_slot=slot, rows=rows)

    def rows_of(self, first: int, end: int) -> float:
        """Returns the rows of slots [first, end) within the load."""
        everything = _occupied(self.bucket, self.first_slot, self.end_slot)
        return self.rows * _occupied(self.bucket, first, end) / max(1, everything)


def loads(buckets: Iterable[Bucket], from_slot: int, slot_ms: int, detailed: int) -> list[Load]:
    """Returns the rows at or after `from_slot`.

    Args:
        buckets: in the order of their ids.
        from_slot: where the waiting rows begin.
        slot_ms: the topic's slot length.
        detailed: how many buckets are taken segment by segment, if complete. Of the others, all rows are one load.
    """
    found = []
    for number, bucket in enumerate(buckets):
        if bucket.last_slot < from_slot:
            continue
        if number >= detailed or not bucket.complete:
            first = max(from_slot, bucket.first_slot)
            found.append(Load(bucket, first, bucket.last_slot + 1, float(bucket.rows_from(first)), True))
            continue
        for segment in bucket.segments:
            first, end = segment.first_deliver_at_ms // slot_ms, segment.last_deliver_at_ms // slot_ms + 1
            if end > from_slot:
                found.append(Load(bucket, first, end, float(segment.rows), False))
    return later(found, from_slot)


def later(loads: Iterable[Load], slot: int) -> list[Load]:
    """Returns the parts of loads at or after a slot."""
    return [each if each.first_slot >= slot else each.later(slot) for each in loads if each.end_slot > slot]


def histogram(loads: Sequence[Load], now_ms: int, slot_ms: int, *, bar_s: int, bars: int) -> EstimatedHistogram:
    """Estimates how many messages are due in each of the next bars.

    Args:
        loads: the waiting rows.
        now_ms: the current time, which lies in the first bar.
        slot_ms: the topic's slot length; where slots do not divide a bar, it begins at the nearest slot.
        bar_s: length of a bar.
        bars: how many.
    """
    start_ms = now_ms - now_ms % (bar_s * 1000)
    rounded = _counts(loads, [round((start_ms + i * bar_s * 1000) / slot_ms) for i in range(1, bars + 1)])
    return EstimatedHistogram(start_at=utc(start_ms), bar_s=bar_s, bars=tuple(rounded[:-1]), later=rounded[-1])


def due_bars(loads: Sequence[Load], now_ms: int, slot_ms: int, total: int) -> tuple[DueBar, ...]:
    """Estimates how many messages are due within a second, ten seconds and so on, as `histogram` does.

    Args:
        total: the sum of all bars.
    """
    counts = _counts(loads, [round((now_ms + each * 1000) / slot_ms) for each in DUE_S[:-1]])
    found, left = [], total
    for until_s, count in zip(DUE_S, [*counts[:-1], total], strict=True):
        left -= (messages := min(count, left))
        found.append(DueBar(until_s=until_s, messages=messages))
    return tuple(found)


def _counts(loads: Sequence[Load], edges: list[int]) -> list[int]:
    """Returns the rows before each edge, from the edge before on, and the rows after the last edge."""
    counts = [0.0] * (len(edges) + 1)
    for load in loads:
        _spread(load, edges, counts)
    # Sums are rounded, not bars, so that rounding neither adds nor loses a message.
    rounded, total = [], 0.0
    for count in counts:
        before, total = round(total), total + count
        rounded.append(round(total) - before)
    return rounded


def _spread(load: Load, edges: list[int], counts: list[float]) -> None:
    """Adds a load's rows to the bars before the edges. Rows beyond the edges go to the last count."""
    last = len(edges)
    bar = bisect_right(edges, load.first_slot)
    if bar == last or load.end_slot <= edges[bar]:  # of ten million rows, nearly all
        counts[bar] += load.rows
        return
    first = load.first_slot
    while first < load.end_slot:
        while bar < last and edges[bar] <= first:
            bar += 1
        end = load.end_slot if bar == last else min(load.end_slot, edges[bar])
        counts[bar] += load.rows_of(first, end)
        first = end


def _occupied(bucket: Bucket, first: int, end: int) -> int:
    """Counts the occupied slots of [first, end). The counts of adjoining ranges add up, of coarse slots too."""
    return int(bucket.slots.range_cardinality(first >> bucket.slot_shift, end >> bucket.slot_shift))
