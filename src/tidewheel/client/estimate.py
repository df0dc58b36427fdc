"""Estimates the cost of a find, and of a cancel or a move of each found message.

A page of `find` over ledgers has at most 1,000 messages. Each page opens the ledgers with messages of its time anew, so
ledgers that overlap cost a GET each a page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Unpack

from tidewheel.client.core import Core
from tidewheel.client.finding import Selected, find
from tidewheel.client.waiting import MAX_PEEK
from tidewheel.model.duration import at_ms
from tidewheel.model.prices import dollars
from tidewheel.storage.table_keys import KEY_SHARDS
from tidewheel.storage.tombstones import MAX_CANCELS

_MOVED = ("dynamodb.write", "dynamodb.read", "s3.get", "sqs.request")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The approximate cost of `find` or a dry run, by list prices of us-east-1 without free tiers.

    By a prefix, nothing tells beforehand how many keys there are. Then `requests` and `dollars` are those of an empty
    find, and each key that is read adds `key_dollars`, also if its message came in the last 28 days.

    Attributes:
        messages: messages of ledgers in this time, of any group and key, also replaced and cancelled ones. About as
            many match at most.
        requests: requests of DynamoDB and S3.
        read_bytes: bytes of ledgers that are read.
        dollars: dollars for these requests.
        key_dollars: dollars for each key that is read by a prefix.
        cancel_dollars: dollars for each message that `cancel_where` cancels before the seal.
        late_cancel_dollars: dollars for each message whose slot is sealed.
        move_dollars: dollars for each message that `reschedule_where` moves before the seal, without its ingest.
    """

    messages: int
    requests: int
    read_bytes: int
    dollars: float
    key_dollars: float
    cancel_dollars: float
    late_cancel_dollars: float
    move_dollars: float


def estimate(core: Core, topic: str, **selected: Unpack[Selected]) -> Estimate:
    """Estimates the cost of a find. See `Tidewheel.estimate`."""
    find(core, topic, **selected)  # checks what is selected, and reads nothing yet
    state, by_key = core.cache.read(topic), selected.get("key_prefix") is not None and selected.get("group") is None
    first, end = selected.get("first"), selected.get("end")
    end_slot = None if end is None else -(-at_ms("end", end) // state.slot_ms)
    first_slot = max(state.planned, (core.clock.now_ms() if first is None else at_ms("first", first)) // state.slot_ms)
    buckets = list(core.connection.storage.buckets.in_order(topic, {}, end_slot=end_slot))
    rows = [each.rows * each.share(first_slot, end_slot or each.last_slot + 1) for each in buckets]
    pages = math.ceil(sum(rows) / MAX_PEEK)
    gets = read_bytes = 0.0
    for bucket, inside in zip(buckets, rows, strict=True):
        if inside and not by_key:
            segments = len(bucket.segments) or bucket.size_bytes / 2**16
            read = max(1, segments * inside / bucket.rows) + min(inside, pages) - 1
            gets += read + (0 if bucket.complete else min(inside, pages))
            read_bytes += read * bucket.size_bytes / segments
    # A page reads the topic state, the buckets (1 KB each), and tombstones for every other segment. The last is empty.
    # By a prefix, the topic state is read once.
    index_reads = 1 + len(buckets) // 4
    queries = KEY_SHARDS + 1 if by_key else 2 * (pages + 1) + max(pages, round(gets / 2))
    reads = queries if by_key else queries + (index_reads - 1) * (pages + 1)
    return Estimate(
        messages=round(sum(rows)),
        requests=queries + round(gets),
        read_bytes=round(read_bytes),
        dollars=dollars("dynamodb.read", reads) + dollars("s3.get", gets),
        key_dollars=dollars("dynamodb.read", 160 / 4096 + 1),  # the bytes of a key's item, and a tombstone
        cancel_dollars=dollars("dynamodb.write", 2 + 2 / MAX_CANCELS),
        # The seal refuses a transaction, and is read. A claim, and a tombstone with a check of the topic state, follow,
        # and the readers are read.
        late_cancel_dollars=dollars("dynamodb.write", 4 if state.settings.claims == "none" else 9)
        + dollars("dynamodb.read", 1 if state.settings.claims == "none" else 2),
        move_dollars=sum(map(dollars, _MOVED, (5, 2 + index_reads, 1, 1))),
    )
