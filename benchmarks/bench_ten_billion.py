"""Measures seconds, memory and requests of each flow while ten billion messages wait in a topic.

    python -m benchmarks ten_billion

200,000 ledgers of 50,000 messages begin evenly over ten years, and each covers a month. 1,833 of them have messages in
the slot that is dispatched: more than merges leave, since their cuts make ledgers narrower. There are
buckets and names of objects. The segments of this slot are the only messages (`benchmarks.waiting`): 600 of each
ledger, of which six are due.

The deployed functions and the client run on the emulated AWS, in virtual time, each once. The same with a tenth of the
ledgers in a tenth of the years, as many in any slot, tells what grows with the backlog.

- *CPU seconds* are those of the functions' and the client's own code, without the emulator's.
- *Memory* is the growth of the process's peak. It contains the emulator's copies of answers, so a function takes less.
- *Units* are what DynamoDB bills, *requests* those to all services.
"""

from __future__ import annotations

import ctypes
import gc
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from moto.s3.models import s3_backends
from pyroaring import BitMap

from benchmarks.bench_function_time import OwnTime
from benchmarks.waiting import SEGMENT_ROWS, SLOT_MS, waiting_ledger
from tidewheel.aws.service import Service
from tidewheel.flows.maintenance.consider_merge import consider_merge
from tidewheel.flows.ports import MergeSize
from tidewheel.ledger.bucket import Bucket, bucket_id
from tidewheel.ledger.ledger import encode_ledger, rows_table
from tidewheel.ledger.rows import sort_rows
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message
from tidewheel.model.object_names import ledger_name
from tidewheel.model.plan import Segment
from tidewheel.model.settings import ServiceSettings, parameter_name
from tidewheel.storage.items import encode_bucket

TOPIC = "orders"
LEDGERS, MONTHS, LEDGER_ROWS = 200_000, 120, 50_000
DAY_MS = 86_400_000
LEDGER_MS = 30 * DAY_MS
SEGMENT_MS = LEDGER_MS * SEGMENT_ROWS // LEDGER_ROWS
DUE_DAYS = 3
DUE_ROWS = 6
"""Of each ledger that occupies the slot that is dispatched."""
SENT = 100


def due_segment(drawn: random.Random, due_ms: int, generation: str) -> tuple[bytes, Segment]:
    """Returns the start of a ledger, up to the end of the first segment, and this segment."""
    times = sorted(
        [due_ms + drawn.randrange(SLOT_MS) for _ in range(DUE_ROWS)]
        + [due_ms + SLOT_MS + drawn.randrange(SEGMENT_MS) for _ in range(SEGMENT_ROWS - DUE_ROWS)]
    )
    rows = rows_table(
        deliver_at_ms=times,
        message_id=[ms.to_bytes(6) + drawn.randbytes(10) for ms in times],
        payload=[b'{"order":%d,"note":"%s"}' % (i, drawn.randbytes(20).hex().encode()) for i in range(SEGMENT_ROWS)],
        encoding=[1] * SEGMENT_ROWS,
        sent_at_ms=[due_ms - LEDGER_MS] * SEGMENT_ROWS,
    )
    ledger = encode_ledger(sort_rows(rows), topic=TOPIC, generation=generation, slot_ms=SLOT_MS)
    segment = ledger.summary.segments[0]
    return ledger.data[: segment.offset + segment.length], segment


def backlog(start_ms: int, generation: str, ledgers: int, months: int) -> Iterator[tuple[Bucket, bytes]]:
    """Yields each ledger's bucket, and the start of its object.

    Those that began before the slot that is dispatched have their next messages there.
    """
    drawn, random_ = random.Random(29), np.random.default_rng(29)
    due_ms, overlapping = start_ms + DUE_DAYS * DAY_MS, ledgers // months
    for number in range(ledgers):
        began_ms = start_ms + (number - overlapping) * LEDGER_MS // overlapping
        id = bucket_id(began_ms // SLOT_MS, drawn.randbytes(16).hex())
        name = ledger_name(TOPIC, id, SLOT_MS, drawn.randbytes(8).hex())
        head, first, from_ms = b"PAR1", None, began_ms
        if began_ms <= due_ms:
            head, first = due_segment(drawn, due_ms, generation)
            from_ms = first.last_deliver_at_ms
        rows = LEDGER_ROWS if first is None else LEDGER_ROWS - first.rows
        bucket = waiting_ledger(random_, name, rows, from_ms, from_ms + LEDGER_MS, first=first).bucket
        yield replace(bucket, id=id, slots=bucket.slots | BitMap([began_ms // SLOT_MS])), head


class NoRuns:
    """Starts no merge. The ledgers have no messages that could be merged."""

    largest = MergeSize.LARGE

    def merge(self, _topic: str) -> None:
        """Does nothing."""


class Backlog:
    """A topic with so many ledgers, and the costs of each flow."""

    def __init__(self, stack: LocalTidewheel, own: OwnTime, ledgers: int, months: int) -> None:
        self.stack, self.own = stack, own
        self.client = stack.client()
        self.client.create_topic(TOPIC)
        self.client.create_subscription(TOPIC, "mail")
        stack.advance(days=1)  # the sweep has seen the new topic
        text = stack.session.client("ssm").get_parameter(Name=parameter_name(stack.stack_name))["Parameter"]["Value"]
        self.settings = ServiceSettings.from_json(text, "ssm")
        self.service = Service.of(self.settings, stack.session, stack.clock)
        self.start_ms = stack.clock.now_ms() // DAY_MS * DAY_MS
        self.item_bytes = self._fill(ledgers, months)
        self.found: dict[str, dict[str, float]] = {}

    def _fill(self, ledgers: int, months: int) -> int:
        """Writes buckets and objects where the emulator keeps them, and returns the bytes of the buckets' items.

        Through the emulated API this would take hours.
        """
        state = self.service.topic_states.read(TOPIC)
        assert state is not None
        table = self.stack._emulator.table(self.settings.table)
        assert table is not None
        [objects] = [each["aws"] for each in s3_backends.values() if self.settings.s3_bucket in each["aws"].buckets]
        size = 0
        for bucket, head in backlog(self.start_ms, state.generation, ledgers, months):
            item = encode_bucket(TOPIC, bucket)
            table.put_item(TableName=self.settings.table, Item=item)
            size += table.item_bytes(item)
            objects.put_object(self.settings.s3_bucket, bucket.object_name, head)
        return size

    def count(self, name: str, action: Callable[[], object], *functions: str) -> None:
        """Runs an action, and keeps the costs.

        Args:
            name: of the flow.
            action: does it.
            functions: whose time it is; none: the client's.
        """
        asked, units = Counter(self.stack.requests), Counter(self.stack.requests.units)
        self.own.calls.clear()
        base = _fresh_peak()
        began_ns = self.own.client_ns()
        action()
        client_s = (self.own.client_ns() - began_ns) / 1e9
        peak = _peak_mb()
        assert not self.stack.failures, self.stack.failures[0]
        units = Counter(self.stack.requests.units) - units
        own_s = sum(ms for function in functions for ms, _ in self.own.calls.get(function, [])) / 1e3
        self.found[name] = {
            "cpu_s": own_s if functions else client_s,
            "memory_mb": peak - base,
            "requests": float((Counter(self.stack.requests) - asked).total()),
            "read_units": units["dynamodb.read"],
            "write_units": units["dynamodb.write"],
        }

    def consider(self) -> None:
        """Plans a merge, as the sweep does after new ledgers."""
        state = self.service.topic_states.read(TOPIC)
        self.service.runs = NoRuns()  # type: ignore[assignment]
        assert state is not None and consider_merge(self.service, state) is not None

    def sweep(self) -> None:
        """Invokes the sweep."""
        [handler] = [each for each in self.stack._handlers if each.spec.folder == "sweep"]
        handler.invoke({})

    def flows(self) -> dict[str, dict[str, float]]:
        """Runs all flows, and returns the costs of each."""
        due_s = self.start_ms // 1000 + DUE_DAYS * 86_400
        messages = [Message(body="x" * 300, deliver_at=due_s + i % 100) for i in range(SENT)]
        ids = [receipt.id for receipt in self.client.send_many(TOPIC, messages)]
        self.count("ingest", lambda: self.stack.advance(minutes=5), "ingest")
        self.count("get", lambda: self.client.get(TOPIC, ids[0]))
        self.count("cancel", lambda: self.client.cancel(TOPIC, ids[0]))
        self.count("stats", lambda: self.client.stats(TOPIC))
        self.count("peek", lambda: self.client.peek(TOPIC, 10))
        self.count("merge_plan", self.consider)
        self.stack.advance(days=1)
        self.count("sweep", self.sweep, "sweep")
        self.stack.advance(milliseconds=self.start_ms + DUE_DAYS * DAY_MS - 1_200_000 - self.stack.clock.now_ms())
        self.count("dispatch_and_deliver", lambda: self.stack.advance(seconds=900), "dispatch", "deliver")
        return self.found


def _fresh_peak() -> float:
    """Returns unused memory to the system, resets the peak, and returns the memory in MB."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _peak_mb()


def _peak_mb() -> float:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1000


def of(ledgers: int, months: int) -> dict[str, Any]:
    """Measures all flows in a topic with so many ledgers, which begin evenly over some months."""
    began = time.monotonic()
    with LocalTidewheel() as stack, OwnTime(stack) as own:
        case = Backlog(stack, own, ledgers, months)
        return {
            "waiting": ledgers * LEDGER_ROWS,
            "ledgers": ledgers,
            "bucket_items_mb": case.item_bytes / 1e6,
            **case.flows(),
            "minutes": (time.monotonic() - began) / 60,
        }


def benchmark(*, quick: bool) -> dict[str, object]:
    """Measures ten billion messages, and a tenth of them."""
    sizes = ((480, 12), (960, 24)) if quick else ((LEDGERS // 10, MONTHS // 10), (LEDGERS, MONTHS))
    return {f"{ledgers * LEDGER_ROWS:,}": of(ledgers, months) for ledgers, months in sizes}
