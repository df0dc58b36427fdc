"""Dispatch beside a bare SendMessageBatch loop, both against an endpoint that costs next to nothing.

    python -m benchmarks dispatch

5,000 real messages are due in one slot. Ours: seal, plan, hand out (metadata in memory), one range GET, decode, and
SendMessageBatch with attributes and delays, on eight threads. Bare: the same batches, built beforehand, sent by a
boto3 client on eight threads, once with our client's options (no parameter validation), which is like for like and has
the goal, and once with boto3's defaults.
Wall time, medians of interleaved rounds; the ratio is bare time divided by ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from botocore.config import Config

from benchmarks.bench_ledger import START_MS, messages
from benchmarks.endpoint import client, endpoint
from benchmarks.rounds import interleaved, wall_ms
from tests.stored_ports import TABLE_PORTS
from tidewheel.aws.s3_objects import S3Objects
from tidewheel.aws.service import client_config, parallel_of
from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.clock import ManualClock
from tidewheel.flows.administration.subscribe import create_subscription
from tidewheel.flows.delivery import sending
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.ledger.bucket import bucket_id, content_id
from tidewheel.ledger.ledger import Ledger, decode_segment, encode_ledger
from tidewheel.memory import MemoryService, MemoryWheel
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import NextWork, new_topic_state
from tidewheel.storage.buckets import Commit

ROWS = 5_000
THREADS = 8
RUNS = 9
DUE_MS = START_MS + 900_000
QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/orders"


class Service:
    """Has SQS and S3 at the endpoint, and metadata in memory."""

    def __init__(self, url: str, ledger: Ledger) -> None:
        """Makes a topic with a due ledger."""
        config = client_config(THREADS)
        self.clock = ManualClock(START_MS)
        self.stored = MemoryService.at(self.clock)
        for name in TABLE_PORTS:
            setattr(self, name, getattr(self.stored, name))
        self.objects = S3Objects(client("s3", url, config), s3_bucket="ledgers")
        self.queues = SqsQueues(
            client("sqs", url, config),
            work_queue_url=QUEUE_URL,
            refused_queue_url=QUEUE_URL,
            ingest_queues=lambda _: (QUEUE_URL, QUEUE_URL),
        )
        self.wheel = MemoryWheel()
        self.parallel = parallel_of(THREADS)
        self.max_skew_ms = 100
        self._ledger = ledger
        self._topic = 0

    def due_topic(self) -> str:
        """Returns a new topic, with the ledger due."""
        self._topic += 1
        topic = f"t{self._topic}"
        self.stored.topic_states.create(new_topic_state(topic, "g", TopicSettings(inline_rows=1_000_000), START_MS))
        create_subscription(self.stored, self.clock, topic, "s", QUEUE_URL)
        state = self.stored.topic_states.read(topic)
        assert state is not None
        summary = self._ledger.summary
        bucket = summary.bucket(bucket_id(summary.slots.min(), content_id(self._ledger.data)), "ledger")
        lowered = state.next_slot is None or state.next_slot > bucket.first_slot
        next_work = NextWork(next_slot=bucket.first_slot, next_check_ms=None, collect_at_ms=None) if lowered else None
        assert self.stored.buckets.commit(state, bucket, next_work) is Commit.COMMITTED
        return topic


def due_ledger() -> Ledger:
    """Returns real messages due in the same slot, as a ledger with a single segment."""
    table = messages(ROWS, "replay").sort_by("message_id")
    times = [DUE_MS + i * 50 for i in range(ROWS)]
    ids = [ms.to_bytes(6) + each[6:] for ms, each in zip(times, table["message_id"].to_pylist(), strict=True)]
    table = table.set_column(0, table.schema.field(0), pa.array(times, pa.int64()))
    table = table.set_column(1, table.schema.field(1), pa.array(ids, pa.binary(16)))
    return encode_ledger(table, topic="t", generation="g", slot_ms=300_000, segment_bytes=1 << 30)


def bare_batches(ledger: Ledger) -> list[list[dict[str, Any]]]:
    """Returns the batches that dispatch sends, built beforehand."""
    (segment,) = ledger.summary.segments
    data = ledger.data[segment.offset : segment.offset + segment.length]
    found = sending.queue_messages(decode_segment(data, object_name="ledger", segment=segment))
    entries = [
        {
            "Id": str(i % 10),
            "MessageBody": each.text,
            "DelaySeconds": 480 + i // 20,
            "MessageAttributes": {"tidewheel": {"DataType": "String", "StringValue": each.header}},
        }
        for i, each in enumerate(found)
    ]
    return [entries[i : i + 10] for i in range(0, len(entries), 10)]


def bare_loop(url: str, batches: list[list[dict[str, Any]]], config: Config) -> Callable[[], None]:
    """Returns a loop that sends the batches with nothing but boto3."""
    sqs = client("sqs", url, config)
    pool = ThreadPoolExecutor(THREADS)

    def send(batch: list[dict[str, Any]]) -> None:
        sqs.send_message_batch(QueueUrl=QUEUE_URL, Entries=batch)

    def loop() -> None:
        for _ in pool.map(send, batches):
            pass

    return loop


def benchmark(*, quick: bool) -> dict[str, object]:
    """Measures ours beside both loops."""
    runs = 2 if quick else RUNS
    ledger = due_ledger()
    answer = json.dumps({"Successful": [{"Id": str(i), "MessageId": "m", "MD5OfMessageBody": "0"} for i in range(10)]})
    with endpoint({"SendMessageBatch": answer.encode()}, {"ledger": ledger.data}) as url:
        service = Service(url, ledger)
        batches = bare_batches(ledger)
        bare = bare_loop(url, batches, Config(max_pool_connections=THREADS))
        lean = bare_loop(url, batches, client_config(THREADS))
        # Each round dispatches a topic of its own; making it is not timed.
        topics = [service.due_topic() for _ in range(runs + 1)]
        service.clock.set_ms(DUE_MS - 480_000)

        def ours() -> None:
            done = dispatch(service, topics.pop())  # type: ignore[arg-type]
            assert done is not None and not done.failures and done.sent.messages == ROWS, done

        rounds = interleaved(runs, wall_ms, {"bare": bare, "ours": ours, "lean": lean})
    return {
        "messages": ROWS,
        "dispatch_s": rounds.median_ms("ours") / 1000,
        "bare_loop_s": rounds.median_ms("bare") / 1000,
        "bare_loop_same_options_s": rounds.median_ms("lean") / 1000,
        "dispatch_messages_a_second": ROWS / rounds.median_ms("ours") * 1000,
        **rounds.ratio("dispatch_ratio", "bare", "ours"),
        **rounds.ratio("dispatch_ratio_same_options", "lean", "ours"),
    }
