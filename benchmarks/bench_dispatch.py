"""Dispatch beside a bare SendMessageBatch loop, both against an endpoint that costs next to nothing.

    python benchmarks/bench_dispatch.py [--json FILE]

5,000 real messages are due in one slot. Ours: seal, plan, hand out (metadata in memory), one range GET, decode, and
SendMessageBatch with attributes and delays, on eight threads. Bare: the same batches, built beforehand, sent by a
boto3 client on eight threads, once with boto3's defaults and once with our client's options (no parameter validation).
Wall time, medians of alternating runs; the ratio is bare time divided by ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from benchmarks.bench_ledger import DATA, messages
from benchmarks.endpoint import endpoint
from tidewheel.aws.s3_objects import S3Objects
from tidewheel.aws.service import client_config, parallel_of
from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.bucket import content_id
from tidewheel.clock import ManualClock
from tidewheel.fence import new_fence
from tidewheel.flows import release
from tidewheel.flows.dispatch import dispatch
from tidewheel.flows.ports import Commit, Wake
from tidewheel.flows.subscribe import create_subscription
from tidewheel.ledger import Ledger, decode_segment, encode_ledger
from tidewheel.memory import MemoryTopics, MemoryWheel
from tidewheel.settings import TopicSettings

ROWS = 5_000
THREADS = 8
RUNS = 9
START_MS = 1_767_225_600_000
DUE_MS = START_MS + 900_000
QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/orders"
GOAL = 0.9


class Service:
    """The ports: SQS and S3 at the endpoint, metadata in memory."""

    def __init__(self, url: str, ledger: Ledger) -> None:
        """Makes a topic with one ledger that is due."""
        config = client_config(THREADS)
        options = {"endpoint_url": url, "region_name": "us-east-1", "config": config}
        options |= {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
        self.clock = ManualClock(START_MS)
        self.topics = MemoryTopics()
        self.objects = S3Objects(boto3.client("s3", **options), s3_bucket="ledgers")  # type: ignore[call-overload]
        self.queues = SqsQueues(
            boto3.client("sqs", **options),  # type: ignore[call-overload]
            work_queue_url=QUEUE_URL,
            refused_queue_url=QUEUE_URL,
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
        self.topics.create_topic(new_fence(topic, "g", TopicSettings(inline_rows=1_000_000), START_MS))
        create_subscription(self.topics, self.clock, topic, "s", QUEUE_URL)
        fence = self.topics.fence(topic)
        assert fence is not None
        bucket = self._ledger.summary.bucket(content_id(self._ledger.data), "ledger")
        lowered = fence.wake_slot is None or fence.wake_slot > bucket.first_slot
        wake = Wake(wake_slot=bucket.first_slot, look_at_ms=None, collect_at_ms=None) if lowered else None
        assert self.topics.commit_bucket(fence, bucket, wake) is Commit.COMMITTED
        return topic


def due_ledger(data: Path) -> Ledger:
    """Returns real messages, all due in one slot, as a ledger of one segment."""
    table = messages(data, ROWS, "replay").sort_by("message_id")
    times = [DUE_MS + i * 50 for i in range(ROWS)]
    import pyarrow as pa

    ids = [ms.to_bytes(6) + each[6:] for ms, each in zip(times, table["message_id"].to_pylist(), strict=True)]
    table = table.set_column(0, table.schema.field(0), pa.array(times, pa.int64()))
    table = table.set_column(1, table.schema.field(1), pa.array(ids, pa.binary(16)))
    return encode_ledger(table, topic="t", generation="g", slot_ms=300_000, segment_bytes=1 << 30)


def bare_batches(ledger: Ledger) -> list[list[dict[str, Any]]]:
    """Returns the batches that dispatch sends, built beforehand."""
    (segment,) = ledger.summary.segments
    data = ledger.data[segment.offset : segment.offset + segment.length]
    found = release.releases(decode_segment(data, object_name="ledger", segment=segment))
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
    client: Any = boto3.client(
        "sqs",
        endpoint_url=url,
        region_name="us-east-1",
        config=config,
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    pool = ThreadPoolExecutor(THREADS)

    def send(batch: list[dict[str, Any]]) -> None:
        client.send_message_batch(QueueUrl=QUEUE_URL, Entries=batch)

    def loop() -> None:
        for _ in pool.map(send, batches):
            pass

    return loop


def timed(action: Callable[[], object]) -> float:
    """Returns an action's wall time in seconds."""
    before = time.perf_counter()
    action()
    return time.perf_counter() - before


def main(data: Path, runs: int = RUNS) -> dict[str, float]:
    """Runs all three in turns and returns the figures."""
    ledger = due_ledger(data)
    answer = json.dumps({"Successful": [{"Id": str(i), "MessageId": "m", "MD5OfMessageBody": "0"} for i in range(10)]})
    with endpoint({"SendMessageBatch": answer.encode()}, {"ledger": ledger.data}) as url:
        service = Service(url, ledger)
        batches = bare_batches(ledger)
        bare = bare_loop(url, batches, Config(max_pool_connections=THREADS))
        lean = bare_loop(url, batches, client_config(THREADS))
        times: dict[str, list[float]] = {"bare": [], "lean": [], "ours": []}
        for run in range(runs + 1):
            topic = service.due_topic()
            service.clock = ManualClock(DUE_MS - 480_000)
            measured = {
                "bare": timed(bare),
                "ours": timed(lambda topic=topic: dispatch(service, topic)),  # type: ignore[misc]
                "lean": timed(lean),
            }
            service.clock = ManualClock(START_MS)
            if run:
                for name, seconds in measured.items():
                    times[name].append(seconds)
    median = {name: statistics.median(own) for name, own in times.items()}
    return {
        "messages": ROWS,
        "dispatch_s": median["ours"],
        "bare_loop_s": median["bare"],
        "bare_loop_same_options_s": median["lean"],
        "dispatch_messages_a_second": ROWS / median["ours"],
        "dispatch_ratio": statistics.median(b / o for b, o in zip(times["bare"], times["ours"], strict=True)),
        "dispatch_ratio_same_options": statistics.median(
            b / o for b, o in zip(times["lean"], times["ours"], strict=True)
        ),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=next((path for path in DATA if path.exists()), DATA[-1]))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures = main(given.data)
    print(json.dumps(figures, indent=1))
    if given.json:
        given.json.write_text(json.dumps(figures))
