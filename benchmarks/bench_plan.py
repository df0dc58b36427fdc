"""Planning beside its floors: which segments of many ledgers are due, and which slot comes next.

    python -m benchmarks plan

Each bucket has 30,000 messages, due at random over 60 days; a plan is made for one slot in the middle, which four out
of five buckets occupy. CPU time of this process, medians of interleaved rounds.

- *choose*: from buckets in memory to due segments, the next slot and the number that waits. Floor: two calls of the
  bitmap a bucket, the least that answers which buckets have something to do with the slot.
- *read and choose*: from items as DynamoDB returns them. Floor: `BitMap.deserialize`, `zlib.decompress`, the two calls.
- *query*: 64 buckets, from DynamoDB, which is an endpoint that costs next to nothing. Floor: boto3's Query of these
  items.
"""

from __future__ import annotations

import base64
import json
import zlib

import numpy as np
from pyroaring import BitMap
from tidewheel.storage.items import decode_bucket, encode_bucket
from tidewheel.storage.storage import Storage
from tidewheel.storage.writes import Item

from benchmarks.bench_ledger import SPAN_MS, START_MS
from benchmarks.endpoint import client, endpoint
from benchmarks.rounds import cpu_ms, interleaved
from benchmarks.waiting import SLOT_MS, waiting_ledger
from tidewheel.aws.service import client_config
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.delayed_index import due_segments, next_slot, waiting_rows
from tidewheel.memory import MemoryObjects
from tidewheel.model.checksum import CHECKSUM_BYTES
from tidewheel.model.plan import PlannedSegment

BUCKETS = (10, 64, 300, 1_000)
ROWS = 30_000
SLOT = (START_MS + SPAN_MS // 2) // SLOT_MS
QUERIED = 64
"""`max_buckets` of a topic, above which it is merged."""
RUNS = 9


def waiting_buckets(count: int) -> list[Bucket]:
    """Returns the buckets of so many ledgers, with their segments."""
    random = np.random.default_rng(17)
    made = (waiting_ledger(random, f"ledgers/t/{i}", ROWS, START_MS, START_MS + SPAN_MS) for i in range(count))
    return [each.bucket for each in made]


def choose(buckets: list[Bucket]) -> tuple[PlannedSegment, ...]:
    """Returns what is due, having asked what else a dispatch asks of the index."""
    found = due_segments(buckets, SLOT, SLOT + 1, SLOT_MS)
    assert found and next_slot(buckets, SLOT + 1) is not None and waiting_rows(buckets, SLOT + 1)
    return found


def look(bitmaps: list[BitMap]) -> int:
    """The floor: whether each bitmap has the slot, and its next one."""
    return sum(bitmap.next_set_bit(SLOT) == SLOT and bitmap.next_set_bit(SLOT + 1) > SLOT for bitmap in bitmaps)


def bare_read(items: list[Item]) -> int:
    """The floor: what an item holds, made readable."""
    for item in items:
        zlib.decompress(item["segments"]["B"][CHECKSUM_BYTES:])
    return look([BitMap.deserialize(item["slots"]["B"][CHECKSUM_BYTES:]) for item in items])


def in_memory(count: int, runs: int) -> dict[str, object]:
    """Measures planning from buckets, and from items."""
    buckets = waiting_buckets(count)
    items = [encode_bucket("t", bucket) for bucket in buckets]
    bitmaps = [bucket.slots for bucket in buckets]
    rounds = interleaved(
        runs,
        cpu_ms,
        {
            "look": lambda: look(bitmaps),
            "choose": lambda: choose(buckets),
            "bare read": lambda: bare_read(items),
            "read": lambda: choose([decode_bucket(item) for item in items]),
        },
    )
    return {
        "buckets": count,
        "due_segments": len(choose(buckets)),
        "choose_ms": rounds.median_ms("choose"),
        "bitmaps_ms": rounds.median_ms("look"),
        **rounds.ratio("choose_ratio", "look", "choose"),
        "read_and_choose_ms": rounds.median_ms("read"),
        "bare_read_ms": rounds.median_ms("bare read"),
        **rounds.ratio("read_and_choose_ratio", "bare read", "read"),
    }


def queried(runs: int) -> dict[str, object]:
    """Measures planning from a query."""
    items = [encode_bucket("t", bucket) for bucket in waiting_buckets(QUERIED)]
    wire = [
        {name: {kind: base64.b64encode(value).decode() if kind == "B" else value} for name, [(kind, value)] in each}
        for each in ([(name, list(value.items())) for name, value in item.items()] for item in items)
    ]
    answer = json.dumps({"Items": wire, "Count": len(wire)}).encode()
    with endpoint({"Query": answer}) as url:
        dynamodb = client("dynamodb", url, client_config(1))
        storage = Storage(dynamodb, table="t", objects=MemoryObjects())
        names = {":pk": {"S": "T#t"}, ":prefix": {"S": "BUCKET#"}}

        def bare() -> None:
            found = dynamodb.query(
                TableName="t",
                KeyConditionExpression="pk = :pk AND begins_with(sk, :prefix)",
                ExpressionAttributeValues=names,
                ConsistentRead=True,
            )["Items"]
            assert len(found) == QUERIED

        rounds = interleaved(runs, cpu_ms, {"bare": bare, "ours": lambda: choose(storage.buckets.all("t"))})
    return {
        "query_bytes": len(answer),
        "query_ms": rounds.median_ms("ours"),
        "bare_query_ms": rounds.median_ms("bare"),
        **rounds.ratio("query_ratio", "bare", "ours"),
    }


def benchmark(*, quick: bool) -> dict[str, object]:
    """Measures planning at several numbers of ledgers."""
    counts, runs = (BUCKETS[:2], 2) if quick else (BUCKETS, RUNS)
    return {"by_buckets": [in_memory(count, runs) for count in counts], **queried(3 * runs)}
