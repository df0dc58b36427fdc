"""Peak memory of a dispatch while a thousand, a million and a hundred million messages wait.

    python -m benchmarks memory

Every dispatch sends the same 1,000 due messages. Ledgers are written to a folder by one process; another, fresh one
loads the buckets' metadata as a dispatcher does, dispatches, and reports its peak resident size. Waiting messages are
spread over 60 days.

- 1,000 and 1,000,000: real ledgers of 1,000 and of 50,000 messages.
- 100,000,000: 64 ledgers, `max_buckets` of a topic that merges; of each the index, and the one segment that is due
  (`benchmarks.waiting`). Every ledger has a share of what is due, which the cuts of merges prevent: the worst case.
- The same in 2,000 ledgers of 50,000, as if nothing had ever been merged; 64 of them have a share of what is due.
"""

from __future__ import annotations

import pickle
import random
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.bench_ledger import SPAN_MS, START_MS
from benchmarks.waiting import SEGMENT_ROWS, waiting_ledger
from tests.stored_ports import TABLE_PORTS
from tidewheel.clock import ManualClock
from tidewheel.flows.administration.subscribe import create_subscription
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.ports import in_order
from tidewheel.ledger.bucket import Bucket, bucket_id, content_id
from tidewheel.ledger.ledger import Ledger, encode_ledger, rows_table
from tidewheel.ledger.rows import sort_rows
from tidewheel.memory import MemoryObjects, MemoryService, MemorySqs, MemoryWheel
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import NextWork, new_topic_state
from tidewheel.storage.buckets import Commit
from tidewheel.storage.items import decode_bucket, encode_bucket
from tidewheel.storage.writes import Item

DUE_ROWS = 1000
DUE_MS = START_MS + 900_000
LATER_MS = START_MS + 3_600_000
"""Before this nothing else is due."""
DUE_LEDGERS = 64
"""Ledgers that share what is due, if there are so many."""
RUNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """So many messages waiting in so many ledgers.

    Attributes:
        says: the case in words.
        indexed_only: ledgers are indexes with one real segment each.
    """

    says: str
    waiting: int
    ledgers: int
    indexed_only: bool = False


CASES = (
    Case(says="1,000", waiting=1_000, ledgers=1),
    Case(says="1,000,000", waiting=1_000_000, ledgers=20),
    Case(says="100,000,000", waiting=100_000_000, ledgers=64, indexed_only=True),
    Case(says="100,000,000, never merged", waiting=100_000_000, ledgers=2_000, indexed_only=True),
)
QUICK = (
    Case(says="1,000", waiting=1_000, ledgers=1),
    Case(says="1,000,000", waiting=1_000_000, ledgers=64, indexed_only=True),
)


class FolderObjects(MemoryObjects):
    """Reads ranges of ledgers from a folder's files, as from S3."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Reads a range of a ledger."""
        with (self._folder / name).open("rb") as file:
            file.seek(offset)
            return file.read(length)


def real_ledger(drawn: random.Random, rows: int, due: int) -> Ledger:
    """Returns a ledger in which some rows are due in the same slot, and the others over the 60 days."""
    times = [DUE_MS + drawn.randrange(300_000) for _ in range(due)]
    times += [LATER_MS + drawn.randrange(SPAN_MS - 3_600_000) for _ in range(rows - due)]
    table = rows_table(
        deliver_at_ms=times,
        message_id=[ms.to_bytes(6) + drawn.randbytes(10) for ms in times],
        payload=[b'{"order":%d,"note":"%s"}' % (i, drawn.randbytes(40).hex().encode()) for i in range(rows)],
        encoding=[1] * rows,
        sent_at_ms=[START_MS] * rows,
    )
    return encode_ledger(sort_rows(table), topic="t", generation="g", slot_ms=300_000)


def write_ledgers(folder: Path, case: Case) -> None:
    """Writes a case's ledgers, and their buckets' items beside them."""
    drawn, random_ = random.Random(5), np.random.default_rng(5)
    sharing = min(case.ledgers, DUE_LEDGERS)
    items: list[Item] = []
    for number in range(case.ledgers):
        due = DUE_ROWS // sharing + (number < DUE_ROWS % sharing) if number < sharing else 0
        rows = case.waiting // case.ledgers
        bucket = _index_ledger(folder, drawn, random_, rows, due) if case.indexed_only else None
        items.append(encode_bucket("t", bucket or _whole_ledger(folder, real_ledger(drawn, rows, due))))
    (folder / "buckets").write_bytes(pickle.dumps(items))


def _whole_ledger(folder: Path, ledger: Ledger) -> Bucket:
    id = bucket_id(ledger.summary.slots.min(), content_id(ledger.data))
    (folder / id).write_bytes(ledger.data)
    return ledger.summary.bucket(id, id)


def _index_ledger(folder: Path, drawn: random.Random, random_: np.random.Generator, rows: int, due: int) -> Bucket:
    """Writes a sparse file with the due segment, if there is one, and the tail."""
    name, first = random_.bytes(8).hex(), None
    if due:
        # What is due lies with later rows in the ledger's first segment.
        real = real_ledger(drawn, SEGMENT_ROWS, due)
        first = real.summary.segments[0]
        (folder / name).write_bytes(real.data[: first.offset + first.length])
    from_ms = LATER_MS if first is None else first.last_deliver_at_ms
    made = waiting_ledger(random_, name, rows - SEGMENT_ROWS, from_ms, START_MS + SPAN_MS, first=first)
    if made.bucket.tail is not None:
        (folder / name).touch()
        with (folder / name).open("r+b") as file:
            file.seek(made.bucket.tail.offset)
            file.write(made.tail)
    return made.bucket


class Service:
    """The ports of the measured process."""

    def __init__(self, folder: Path) -> None:
        """Loads the buckets' metadata, as a dispatcher gets it from DynamoDB."""
        self.clock = ManualClock(START_MS)
        self.sqs = MemorySqs(self.clock, on_demand=True)
        self.stored = MemoryService.at(self.clock, self.sqs)
        for name in TABLE_PORTS:
            setattr(self, name, getattr(self.stored, name))
        self.objects = FolderObjects(folder)
        self.queues = self.stored.queues
        self.wheel = MemoryWheel()
        self.parallel = in_order
        self.max_skew_ms = 100
        self.stored.topic_states.create(new_topic_state("t", "g", TopicSettings(), START_MS))
        create_subscription(self.stored, self.clock, "t", "s", "queue")
        for item in pickle.loads((folder / "buckets").read_bytes()):
            bucket = decode_bucket(item)
            current = self.stored.topic_states.read("t")
            assert current is not None
            next_work = NextWork(next_slot=bucket.first_slot, next_check_ms=None, collect_at_ms=None)
            lower = current.next_slot is None or current.next_slot > bucket.first_slot
            assert self.stored.buckets.commit(current, bucket, next_work if lower else None) is Commit.COMMITTED


def dispatch_there(folder: Path) -> None:
    """Dispatches the due messages and prints the peak of resident memory in KiB."""
    service = Service(folder)
    service.clock.set_ms(DUE_MS - 480_000)
    done = dispatch(service, "t")  # type: ignore[arg-type]
    assert done is not None
    sent = len(service.sqs.queue("queue").everything)
    assert sent == DUE_ROWS, sent
    print(own_peak_kib())


def own_peak_kib() -> int:
    """Returns the most resident memory that this process had.

    Linux keeps `ru_maxrss` over an exec, so that a child would report what its parent had when it forked. The memory
    map's own mark begins anew.
    """
    status = Path("/proc/self/status")
    if status.exists():
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # macOS counts in bytes


def peak_mib(folder: Path) -> float:
    """Returns the peak of a fresh process."""
    command = [sys.executable, "-m", "benchmarks.bench_memory", str(folder)]
    return int(subprocess.check_output(command)) / 1024


def benchmark(*, quick: bool) -> dict[str, object]:
    """Runs the cases in turns and returns the middle one of each case's peaks."""
    cases = QUICK if quick else CASES
    with tempfile.TemporaryDirectory(prefix="tidewheel-bench-") as name:
        folders = {case.says: Path(name) / str(number) for number, case in enumerate(cases)}
        for case in cases:
            folders[case.says].mkdir()
            write_ledgers(folders[case.says], case)
        peaks: dict[str, list[float]] = {case.says: [] for case in cases}
        for _ in range(1 if quick else RUNS):
            for says, folder in folders.items():
                peaks[says].append(peak_mib(folder))
    middle = {says: sorted(own)[len(own) // 2] for says, own in peaks.items()}
    few, *more = (middle[case.says] for case in cases)
    return {
        "waiting": [case.waiting for case in cases],
        "ledgers": [case.ledgers for case in cases],
        "dispatch_peak_mib": middle,
        "dispatch_peak_ratio": middle["1,000,000"] / few,
        "dispatch_peak_ratio_most": more[-1 if quick else 1] / few,
    }


if __name__ == "__main__":
    dispatch_there(Path(sys.argv[1]))
