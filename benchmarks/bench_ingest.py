"""Ingest beside a bare Arrow write and PUT, both against an endpoint that costs next to nothing.

    python -m benchmarks ingest

50,000 real messages, due over 60 days. Ours, from Arrow rows: order, ledger, PUT, topic state, commit of the bucket.
Bare: `pyarrow.parquet.write_table` of the same sorted rows (zstd level 1, Arrow's defaults), PUT. Two further figures
start from decoded packs (Python texts become Arrow), and from packs as they come out of SQS (inflate, JSON, checks).
CPU time of this process, medians of interleaved rounds; the ratio is bare time divided by ours.
"""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_ledger import START_MS, messages
from benchmarks.endpoint import client, endpoint
from benchmarks.rounds import cpu_ms, interleaved
from tests.stored_ports import TABLE_PORTS
from tidewheel.aws.s3_objects import S3Objects
from tidewheel.aws.service import client_config
from tidewheel.clock import ManualClock
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.ports import in_order
from tidewheel.ledger.rows import pack_rows
from tidewheel.memory import MemorySqs, MemoryWheel
from tidewheel.memory.service import memory_queues
from tidewheel.model.message import Encoding
from tidewheel.model.pack import decode_pack, packs
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.model.validation import OutgoingMessage
from tidewheel.storage.items import encode_topic_state
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import Table

ROWS = 50_000
RUNS = 9
NOW_MS = START_MS - 3_600_000
"""An hour before the first row is due, so that no row goes direct."""


class Service:
    """Has the ports of ingest, with S3 and DynamoDB at the endpoint."""

    def __init__(self, url: str) -> None:
        """Makes the clients."""
        self.clock = ManualClock(NOW_MS)
        self.objects = S3Objects(client("s3", url, client_config(1)), s3_bucket="ledgers")
        stored = Storage(Table(client("dynamodb", url, client_config(1)), "t"), self.objects)
        for name in TABLE_PORTS:
            setattr(self, name, getattr(stored, name))
        self.queues = memory_queues(MemorySqs(self.clock, on_demand=True))
        self.wheel = MemoryWheel()
        self.parallel = in_order
        self.max_skew_ms = 100


def packed(table: pa.Table) -> list[bytes]:
    """Returns rows as the SDK packs them, with ids of messages without a key."""
    ids = table["message_id"].cast(pa.binary()).to_pylist()
    texts = table["payload"].cast(pa.string()).to_pylist()
    checked = [
        OutgoingMessage(
            id=each[:6] + bytes([each[6] & 0x3F]) + each[7:], text=text, encoding=Encoding.JSON, attributes={}
        )
        for each, text in zip(ids, texts, strict=True)
    ]
    return [data for _, data in packs("t", "g", NOW_MS, checked)]


def benchmark(*, quick: bool) -> dict[str, object]:
    """Measures all three ways in."""
    rows, runs = (5_000, 3) if quick else (ROWS, RUNS)
    table = messages(rows, "replay")
    raw = packed(table)
    decoded = [decode_pack(each, NOW_MS) for each in raw]
    state = encode_topic_state(new_topic_state("t", "g", TopicSettings(), NOW_MS))
    item = json.dumps({"Item": state}).encode()
    with endpoint({"GetItem": item}) as url:
        ports: Any = Service(url)
        s3 = client("s3", url)

        def bare() -> None:
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd", compression_level=1)
            s3.put_object(Bucket="ledgers", Key="bare", Body=sink.getvalue().to_pybytes())

        def ours() -> None:
            assert ingest(ports, "t", decoded).ledger_rows == rows

        prepared = {each.ids: pack_rows(each) for each in decoded}

        def from_rows() -> None:
            with patch(
                "tidewheel.flows.delivery.ingest.pack_rows",
                lambda *packs: pa.concat_tables(prepared[pack.ids] for pack in packs),
            ):
                ours()

        def from_queue() -> None:
            assert ingest(ports, "t", [decode_pack(each, NOW_MS) for each in raw]).ledger_rows == rows

        rounds = interleaved(runs, cpu_ms, {"bare": bare, "rows": from_rows, "packs": ours, "queue": from_queue})
    return {
        "messages": rows,
        "ingest_ms": rounds.median_ms("rows"),
        "bare_write_and_put_ms": rounds.median_ms("bare"),
        **rounds.ratio("ingest_ratio", "bare", "rows"),
        "ingest_from_packs_ms": rounds.median_ms("packs"),
        **rounds.ratio("ingest_from_packs_ratio", "bare", "packs"),
        "ingest_from_queue_ms": rounds.median_ms("queue"),
        **rounds.ratio("ingest_from_queue_ratio", "bare", "queue"),
        "ingest_from_queue_messages_a_second": rows / rounds.median_ms("queue") * 1000,
    }
