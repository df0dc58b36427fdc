"""Makes metadata of waiting messages without the messages, for large backlogs.

A dispatch reads buckets, and of their ledgers no more than tails and the segments that are due. So a backlog of a
hundred million messages needs buckets that look like real ones, tails, and one real segment a ledger, the one that is
due:

    4            real segment   segments that nobody reads          tail
    |            |              | a hole in a sparse file           |

Messages are due at random, and only where segments end is drawn: the time of every 600th of many random times is a sum
of 600 gaps, which is a gamma variate. A slot is empty with the probability that a Poisson count is 0. A segment has
about 600 messages and 64 KiB before compression, as ingest cuts real messages (`benchmarks.bench_ledger`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from tidewheel.ledger.bucket import Bucket, bucket_id, encode_tail
from tidewheel.model.plan import Segment

SEGMENT_ROWS = 600
SEGMENT_BYTES = SEGMENT_ROWS * 113
"""Stored bytes of a segment: `bytes_a_message` of `benchmarks.bench_ledger`."""
RAW_BYTES = 64 * 1024
SLOT_MS = 300_000
_FIRST_BYTE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLedger:
    """A ledger of which there is an index only.

    Attributes:
        bucket: complete, whether or not its item could hold all of it.
        tail: the bytes at `bucket.tail.offset`; empty if the item holds the whole index.
    """

    bucket: Bucket
    tail: bytes


def waiting_ledger(
    random: np.random.Generator,
    name: str,
    rows: int,
    from_ms: int,
    to_ms: int,
    *,
    slot_ms: int = SLOT_MS,
    first: Segment | None = None,
) -> WaitingLedger:
    """Returns a ledger whose messages are due at random times.

    Args:
        random: draws them.
        name: of the object.
        rows: how many messages.
        from_ms, to_ms: between which times they are due.
        slot_ms: the topic's slot length.
        first: a real segment, at the start of the object and of the ledger's time.
    """
    segments = [] if first is None else [first]
    offset = _FIRST_BYTE if first is None else first.offset + first.length
    counts = [SEGMENT_ROWS] * (rows // SEGMENT_ROWS) + [rows % SEGMENT_ROWS] * (rows % SEGMENT_ROWS > 0)
    gaps = np.cumsum(random.standard_gamma(counts))
    ends_ms = (from_ms + (gaps / gaps[-1] * (to_ms - 1 - from_ms))).astype(np.int64).tolist()
    lengths = random.integers(SEGMENT_BYTES * 95 // 100, SEGMENT_BYTES * 105 // 100, len(counts)).tolist()
    start_ms = from_ms
    for count, end_ms, length in zip(counts, ends_ms, lengths, strict=True):
        segments.append(
            Segment(
                offset=offset,
                length=length,
                rows=count,
                raw_bytes=RAW_BYTES - length % 400,
                first_deliver_at_ms=start_ms,
                last_deliver_at_ms=end_ms,
            )
        )
        offset, start_ms = offset + length, end_ms
    numbers = np.arange(from_ms // slot_ms, (to_ms - 1) // slot_ms + 1)
    empty = np.exp(-rows / len(numbers))
    slots = BitMap(numbers[random.random(len(numbers)) >= empty].tolist())
    # Where a segment begins or ends, there is a message.
    slots.update(each // slot_ms for each in (from_ms, *ends_ms))
    if first is not None:
        slots.update(range(first.first_deliver_at_ms // slot_ms, first.last_deliver_at_ms // slot_ms + 1))
    data, tail = encode_tail(slots, segments, offset=offset)
    bucket = Bucket(
        id=bucket_id(slots.min(), random.bytes(16).hex()),
        object_name=name,
        size_bytes=offset + len(data),
        rows=sum(segment.rows for segment in segments),
        slots=slots,
        segments=tuple(segments),
        tail=tail if tail.needed else None,
    )
    return WaitingLedger(bucket=bucket, tail=data if tail.needed else b"")
