"""What messages that wait take up, stored by Tidewheel."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tidewheel.storage.items import encode_bucket

from benchmarks.bench_index import item_bytes
from benchmarks.peers.account import START_MS
from benchmarks.peers.stream import Timed, unordered
from tidewheel.ledger.bucket import bucket_id, content_id
from tidewheel.ledger.ledger import encode_ledger
from tidewheel.ledger.rows import rows_table
from tidewheel.model.message import Encoding

SPAN_MS = 14 * 86_400_000
"""Over which waiting messages are due: 7 days on average."""
LEDGER_ROWS = 50_000
"""Messages of one ledger at most, as merges leave them."""
_SLOT_MS = 300_000
_ID_RANDOM_BYTES = 10


def tidewheel_bytes(sizes: Sequence[int]) -> dict[str, dict[int, int]]:
    """Returns the bytes that Tidewheel stores for so many waiting messages: ledgers, and their items in DynamoDB."""
    found: dict[str, dict[int, int]] = {"Tidewheel, ledgers in S3": {}, "Tidewheel, items in DynamoDB": {}}
    for size in sizes:
        made = [_ledger(batch) for batch in _batches(_messages(size), LEDGER_ROWS)]
        for stored, whole in zip(found.values(), zip(*made, strict=True), strict=True):
            stored[size] = sum(whole)
    return found


def _messages(count: int) -> Iterator[Timed]:
    return unordered(count, first_ms=START_MS, span_ms=SPAN_MS)


def _batches(messages: Iterable[Timed], size: int) -> Iterator[Sequence[Timed]]:
    iterator = iter(messages)
    while batch := list(islice(iterator, size)):
        yield batch


def _ledger(messages: Sequence[Timed]) -> tuple[int, int]:
    """Returns the bytes of a ledger with these messages and of its bucket's item."""
    drawn = random.Random(5)
    rows = sorted(
        ((each.due_ms, each.due_ms.to_bytes(6) + drawn.randbytes(_ID_RANDOM_BYTES), each.body) for each in messages),
        key=lambda row: row[:2],
    )
    table = rows_table(
        deliver_at_ms=[due_ms for due_ms, _, _ in rows],
        message_id=[message_id for _, message_id, _ in rows],
        payload=[body.encode() for _, _, body in rows],
        encoding=[Encoding.TEXT] * len(rows),
        sent_at_ms=[START_MS] * len(rows),
    )
    ledger = encode_ledger(table, topic="peers", generation="g", slot_ms=_SLOT_MS)
    id = bucket_id(ledger.summary.slots.min(), content_id(ledger.data))
    bucket = ledger.summary.bucket(id, "ledgers/peers/0")
    return len(ledger.data), item_bytes(encode_bucket("peers", bucket))
