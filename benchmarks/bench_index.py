"""Measures the index bytes of a message, in DynamoDB and in the ledgers' tails.

    python -m benchmarks index

Real messages in ledgers of several sizes, due at random over 60 days, and the ledgers that the real merge makes of
ledgers of 2,000. `item` is the bucket's whole item, names and all; `tail` is in the ledger. A ledger of few messages
has nothing to share its item with.
"""

from __future__ import annotations

from benchmarks.bench_ledger import START_MS, encode, messages
from tidewheel.clock import ManualClock
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.ledger.bucket import Bucket, bucket_id, content_id
from tidewheel.memory import MemoryService
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.storage.items import encode_bucket
from tidewheel.storage.writes import Item

SIZES = (1, 10, 100, 1_000, 5_000, 50_000, 200_000)
MERGED_ROWS, MERGED_SOURCES = 2_000, 60
TOPIC = "commits"


def item_bytes(item: Item) -> int:
    """Returns an item's bytes as DynamoDB counts names and values."""
    return sum(len(name) + len(next(iter(value.values()))) for name, value in item.items())


def index_bytes(bucket: Bucket) -> dict[str, float]:
    """Returns the bytes of a bucket's index, divided by its messages."""
    item = encode_bucket(TOPIC, bucket)
    tail = 0 if bucket.tail is None else bucket.tail.length
    return {
        "rows": bucket.rows,
        "slots": len(bucket.slots),
        "segments": len(bucket.segments),
        "bitmap": len(item["slots"]["B"]) / bucket.rows,
        "segment_table": (len(item["segments"]["B"]) if "segments" in item else 0) / bucket.rows,
        "item": item_bytes(item) / bucket.rows,
        "tail": tail / bucket.rows,
        "index": (item_bytes(item) + tail) / bucket.rows,
    }


def of_size(rows: int) -> dict[str, float]:
    """Measures one ledger of real messages."""
    ledger = encode(messages(rows, "shuffled"))
    id = bucket_id(ledger.summary.slots.min(), content_id(ledger.data))
    return index_bytes(ledger.summary.bucket(id, f"ledgers/{TOPIC}/2026-01-01/{id}-{'0' * 16}"))


def merged(rows: int, sources: int) -> dict[str, float]:
    """Merges ledgers of so many messages each, and returns the index bytes a message of all outputs."""
    clock = ManualClock(START_MS - 7_200_000)
    service = MemoryService.at(clock)
    # The encoder's own cut: slots of 300 s.
    state = new_topic_state(TOPIC, "1", TopicSettings(max_buckets=8), clock.now_ms())
    service.topic_states.create(state)
    table = messages(rows * sources, "shuffled")
    for number in range(sources):
        # Rows at even distances: each ledger has messages of the whole time, as ingest's have.
        ledger = encode(table.take(list(range(number, rows * sources, sources))))
        id = bucket_id(ledger.summary.slots.min(), content_id(ledger.data))
        bucket = ledger.summary.bucket(id, f"ledgers/{TOPIC}/{id}")
        service.objects.put(bucket.object_name, ledger.data)
        service.buckets.commit(state, bucket, None)
    before = service.buckets.all(TOPIC)
    done = merge(service, TOPIC, in_process(service.objects), lease_s=900)
    assert done is not None and done.rows, done
    after = service.buckets.all(TOPIC)
    waiting = sum(bucket.rows for bucket in after)
    assert waiting == rows * sources, waiting
    whole = [index_bytes(bucket) for bucket in after]
    names = ("item", "tail", "index")
    return {
        "sources": len(before),
        "ledgers": len(after),
        "rows": waiting,
        **{name: sum(each[name] * each["rows"] for each in whole) / waiting for name in names},
    }


def benchmark(*, quick: bool) -> dict[str, object]:
    """Measures all sizes, and a merge."""
    sizes = [of_size(rows) for rows in (SIZES[:4] if quick else SIZES)]
    many = merged(500, 20) if quick else merged(MERGED_ROWS, MERGED_SOURCES)
    found: dict[str, object] = {"by_rows": sizes, "merged": many, "index_bytes_a_message_merged": many["index"]}
    if not quick:
        [whole] = [each for each in sizes if each["rows"] == 50_000]
        found["index_bytes_a_message"] = whole["index"]
    return found
