"""Peak memory of a dispatch with 1,000 and with 1,000,000 messages waiting, and index bytes a message.

    python benchmarks/bench_memory.py [--json FILE]

Both dispatches send the same 1,000 due messages. Ledgers of 50,000 messages (of 1,000 for the small case) are written
to a folder by one process; another, fresh one, loads the buckets' metadata as a dispatcher does, dispatches, and
reports its peak resident size. Waiting messages are spread over 60 days.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tidewheel.aws.dynamodb_items import decode_bucket, encode_bucket
from tidewheel.bucket import Bucket, BucketId, content_id
from tidewheel.clock import ManualClock
from tidewheel.fence import new_fence
from tidewheel.flows.dispatch import dispatch
from tidewheel.flows.ports import Commit, Wake, in_order
from tidewheel.flows.subscribe import create_subscription
from tidewheel.memory import MemoryQueues, MemoryTopics, MemoryWheel
from tidewheel.settings import TopicSettings

START_MS = 1_767_225_600_000
SPAN_MS = 60 * 86_400_000
DUE_ROWS = 1000
LEDGER_ROWS = 50_000
DUE_MS = START_MS + 900_000


class FolderObjects:
    """The port `Objects` over a folder: ranges are read from files, as they are from S3."""

    def __init__(self, folder: Path) -> None:
        """Takes the folder."""
        self._folder = folder

    def new_ledger_name(self, topic: str, first_slot: int, slot_ms: int, bucket_id: BucketId) -> str:  # noqa: ARG002
        """Returns a name."""
        return f"{first_slot}-{bucket_id}"

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Writes a file."""
        (self._folder / name).write_bytes(data)

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Reads a range."""
        with (self._folder / name).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def delete(self, names: Iterable[str]) -> None:
        """Deletes files."""
        for name in names:
            (self._folder / name).unlink(missing_ok=True)


def write_ledgers(folder: Path, waiting: int) -> None:
    """Writes ledgers that together hold `waiting` messages, DUE_ROWS of them due in one slot."""
    from tidewheel.ledger import encode_ledger
    from tidewheel.ledger_rows import rows_table

    drawn = random.Random(5)
    objects = FolderObjects(folder)
    buckets = []
    ledgers = max(1, waiting // LEDGER_ROWS)
    for _ in range(ledgers):
        rows, due = waiting // ledgers, DUE_ROWS // ledgers
        times = [DUE_MS + drawn.randrange(300_000) for _ in range(due)]
        times += [START_MS + drawn.randrange(3_600_000, SPAN_MS) for _ in range(rows - due)]
        table = rows_table(
            deliver_at_ms=times,
            message_ids=[ms.to_bytes(6) + drawn.randbytes(10) for ms in times],
            payloads=[b'{"order":%d,"note":"%s"}' % (i, drawn.randbytes(40).hex().encode()) for i in range(rows)],
            encodings=[1] * rows,
            sent_at_ms=[START_MS] * rows,
        )
        ledger = encode_ledger(table, topic="t", generation="g", slot_ms=300_000)
        summary = ledger.summary
        bucket_id = content_id(ledger.data)
        name = objects.new_ledger_name("t", summary.first_deliver_at_ms // 300_000, 300_000, bucket_id)
        objects.put(name, ledger.data)
        buckets.append(encode_bucket("t", summary.bucket(bucket_id, name)))
    (folder / "buckets").write_bytes(pickle.dumps(buckets))


def read_buckets(folder: Path) -> list[Bucket]:
    """Decodes the buckets' items, as a dispatcher does."""
    return [decode_bucket(item) for item in pickle.loads((folder / "buckets").read_bytes())]


class Service:
    """The ports of the measured process."""

    def __init__(self, folder: Path) -> None:
        """Loads the buckets' metadata, as a dispatcher gets it from DynamoDB."""
        self.clock = ManualClock(START_MS)
        self.topics = MemoryTopics()
        self.objects = FolderObjects(folder)
        self.queues = MemoryQueues(self.clock)
        self.wheel = MemoryWheel()
        self.parallel = in_order
        self.max_skew_ms = 100
        fence = new_fence("t", "g", TopicSettings(), START_MS)
        self.topics.create_topic(fence)
        create_subscription(self.topics, self.clock, "t", "s", "queue")
        for bucket in read_buckets(folder):
            current = self.topics.fence("t")
            assert current is not None
            wake = Wake(wake_slot=bucket.first_slot, look_at_ms=None, collect_at_ms=None)
            lower = current.wake_slot is None or current.wake_slot > bucket.first_slot
            assert self.topics.commit_bucket(current, bucket, wake if lower else None) is Commit.COMMITTED


def measure(folder: Path) -> None:
    """Dispatches the due messages and prints the peak resident size in KiB."""
    service = Service(folder)
    service.clock.set_ms(DUE_MS - 480_000)
    done = dispatch(service, "t")
    assert done is not None
    assert len(service.queues.sent()) == DUE_ROWS, len(service.queues.sent())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def index_bytes(folder: Path) -> dict[str, float]:
    """Returns the index's bytes a message in ledgers of 50,000."""
    bucket = read_buckets(folder)[0]
    item = encode_bucket("t", bucket)
    size = sum(len(name) + len(str(next(iter(value.values())))) for name, value in item.items() if "B" not in value)
    size += sum(len(name) + len(value["B"]) for name, value in item.items() if "B" in value)
    return {
        "bitmap": len(item["slots"]["B"]) / bucket.rows,
        "segment_table": (len(item["segments"]["B"]) if "segments" in item else 0) / bucket.rows,
        "tail": (0 if bucket.tail is None else bucket.tail.length) / bucket.rows,
        "whole_item": size / bucket.rows,
    }


def main() -> dict[str, object]:
    """Runs both cases and returns the figures."""
    peaks: dict[str, float] = {}
    index: dict[str, float] = {}
    for waiting in (1_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, __file__, "--write", str(waiting), folder], check=True)
            runs = [
                int(
                    subprocess.run(
                        [sys.executable, __file__, "--measure", folder], check=True, capture_output=True
                    ).stdout
                )
                for _ in range(3)
            ]
            peaks[f"{waiting:,} waiting"] = sorted(runs)[1] / 1024
            index = index_bytes(Path(folder))
    ratio = peaks["1,000,000 waiting"] / peaks["1,000 waiting"]
    return {"dispatch_peak_mib": peaks, "dispatch_peak_ratio": ratio, "index_bytes_a_message": index}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", nargs=2)
    parser.add_argument("--measure")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.write:
        write_ledgers(Path(given.write[1]), int(given.write[0]))
    elif given.measure:
        measure(Path(given.measure))
    else:
        figures = main()
        print(json.dumps(figures, indent=1))
        if given.json:
            given.json.write_text(json.dumps(figures))
