"""Fifty at once on one topic: commits of ledgers, cancels and upserts, with DynamoDB's conflicts simulated.

    python -m benchmarks contention

DynamoDB refuses a transaction while another one, or a write, is at work on one of its items; moto does not. So the
metadata is in memory here, behind something that keeps every item of a write busy for 8 ms and refuses whoever
comes to it meanwhile, a condition check like a write. Fifty threads call the port `Topics` as ingest and the SDK do:
first about once a second each, then as fast as they can, which no topic does. Counted are the conflicts, the tries of a
call, and the calls that gave up (Contended): the figure to look at, since such work is safe to repeat but late.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.stored_ports import TABLE_PORTS
from tidewheel.aws.dynamodb.table import ATTEMPTS, backoff_s
from tidewheel.clock import SystemClock
from tidewheel.errors import ConcurrentModification
from tidewheel.flows.administration.cancel import cancel, cancel_key, cancel_many
from tidewheel.flows.delivery.commit import commit_and_schedule
from tidewheel.flows.delivery.keys import settle_keys
from tidewheel.flows.ports.buckets import Commit
from tidewheel.ledger.bucket import Bucket, bucket_id
from tidewheel.ledger.slots import slots_of
from tidewheel.memory import MemoryService
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import IdSource, Message, MessageId, id_text
from tidewheel.model.pack import decode_pack, packs
from tidewheel.model.segment import Segment
from tidewheel.model.settings import TopicSettings
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import new_topic_state
from tidewheel.model.validation import check_message

THREADS = 50
READ_S, BUSY_S = 0.003, 0.008
SECONDS = 5.0
TOPIC = "orders"
BATCH = 90
Key = tuple[str, str]
STATE: Key = ("STATE", "")


class BusyTable:
    """The table's ports in memory, whose items are busy for a while as DynamoDB's are, with the adapter's retries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: set[Key] = set()
        self.counts: Counter[str] = Counter()

    def call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a method that passes calls on: a read takes its time, a write has its items to itself."""
        keys = WRITES.get(name)

        def read(*arguments: Any) -> Any:
            time.sleep(READ_S)
            return call(*arguments)

        def write(*arguments: Any) -> Any:
            assert keys is not None
            return self._write(name, keys(*arguments), lambda: call(*arguments))

        return read if keys is None else write

    def _write(self, name: str, keys: list[Key], call: Callable[[], Any]) -> Any:
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(backoff_s(attempt))
            self.counts["tries"] += 1
            with self._lock:
                taken = any(key in self._busy for key in keys)
                if not taken:
                    self._busy.update(keys)
            if taken:
                self.counts["conflicts"] += 1
                time.sleep(READ_S)
                continue
            try:
                answer = call()
                time.sleep(BUSY_S)
                return answer
            finally:
                with self._lock:
                    self._busy.difference_update(keys)
        raise ConcurrentModification(name, TOPIC, ATTEMPTS)


class BusyPort:
    """One of the table's ports."""

    def __init__(self, name: str, port: Any, table: BusyTable) -> None:
        """Stands before a port."""
        self._name, self._port, self._table = name, port, table

    def __getattr__(self, name: str) -> Any:
        """Returns a method of the port, on the busy table."""
        return self._table.call(f"{self._name}.{name}", getattr(self._port, name))


def _of_state(*_: Any) -> list[Key]:
    return [STATE]


def _of_batch(_: str, tombstones: list[Tombstone]) -> list[Key]:
    return [STATE, *(("TOMB", each.id) for each in tombstones)]


def _of_tombstone(_: str, tombstone: Tombstone) -> list[Key]:
    return [("TOMB", tombstone.id)]


def _of_claim(_: str, entry: KeyEntry) -> list[Key]:
    return [("KEY", entry.key)]


def _of_move(_: str, __: KeyEntry, entry: KeyEntry, tombstone: Tombstone | None) -> list[Key]:
    return [("KEY", entry.key), *([] if tombstone is None else [("TOMB", tombstone.id)])]


# A new bucket's item, or that of a new tombstone, is nobody else's.
WRITES: dict[str, Callable[..., list[Key]]] = {
    "buckets.commit": _of_state,
    "tombstones.cancel": _of_state,
    "tombstones.cancel_batch": _of_batch,
    "tombstones.put": _of_tombstone,
    "keys.claim": _of_claim,
    "keys.move": _of_move,
}
"""The items that each write has to itself; condition checks count like writes."""


class Load:
    """One topic, and what each kind of caller does to it."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.service = MemoryService.at(self.clock)
        self.settings = TopicSettings()
        self.state = new_topic_state(TOPIC, "g1", self.settings, self.clock.now_ms())
        self.service.topic_states.create(self.state)
        self.table = BusyTable()
        busy = {name: BusyPort(name, getattr(self.service, name), self.table) for name in TABLE_PORTS}
        self.ports: Any = replace(self.service, **busy)  # type: ignore[arg-type]
        self.ids = IdSource()

    def a_far_id(self) -> MessageId:
        """An id due in a day or so."""
        return id_text(self.ids.next(self.clock.now_ms() + random.randrange(80_000_000, 90_000_000)))

    def commit(self) -> None:
        """What ingest does with one ledger: the object is not put."""
        slot = self.state.sealed + random.randrange(300, 3_000)
        segment = Segment(
            offset=4,
            length=9,
            rows=1000,
            raw_bytes=9,
            first_deliver_at_ms=slot * 300_000,
            last_deliver_at_ms=slot * 300_000,
        )
        bucket = Bucket(
            id=bucket_id(slot, f"{random.getrandbits(128):032x}"),
            object_name="ledgers/x",
            size_bytes=9,
            rows=1000,
            slots=slots_of([slot]),
            segments=(segment,),
        )
        for _ in range(20):
            state = self.ports.topic_states.read(TOPIC)
            assert state is not None
            if commit_and_schedule(self.ports, state, bucket) is not Commit.MOVED:
                return
        raise ConcurrentModification("ingest", TOPIC, 20)

    def cancel(self) -> None:
        """A cancel by id."""
        assert cancel(self.ports, TOPIC, self.settings.slot_ms, self.a_far_id(), self.clock.now_ms())

    def cancel_batch(self) -> None:
        """Ninety cancels in one call."""
        ids = [self.a_far_id() for _ in range(BATCH)]
        assert all(cancel_many(self.ports, TOPIC, self.settings.slot_ms, ids, self.clock.now_ms()))

    def upsert(self) -> None:
        """A replacing message of one of a thousand keys, as ingest settles it."""
        now = self.clock.now_ms()
        message = Message(body="x", delay="1d", key=f"k{random.randrange(1000)}", replace=True)
        [(_, data)] = packs(TOPIC, "g1", now, [check_message(message, self.ids, now)])
        settle_keys(self.ports, self.state, [decode_pack(data, now)])

    def cancel_by_key(self) -> None:
        """A cancel by one of a thousand keys."""
        now = self.clock.now_ms()
        cancel_key(
            self.ports, TOPIC, self.settings.slot_ms, f"k{random.randrange(1000)}", (now, self.ids.sequence()), now
        )


def run(load: Load, kinds: list[Callable[[], None]], seconds: float, pause_s: float) -> dict[str, float]:
    """Runs fifty threads, each with its kind of call and about `pause_s` between two, and counts."""
    load.table.counts.clear()
    latencies: list[float] = []
    gave_up: list[str] = []
    ends = time.perf_counter() + seconds

    def caller(kind: Callable[[], None]) -> None:
        while True:
            time.sleep(random.uniform(0, 2 * pause_s))
            began = time.perf_counter()
            if began > ends:
                return
            try:
                kind()
            except ConcurrentModification as error:
                gave_up.append(str(error))
            latencies.append(time.perf_counter() - began)

    threads = [threading.Thread(target=caller, args=(kinds[i % len(kinds)],)) for i in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    counts = load.table.counts
    return {
        "calls_a_second": len(latencies) / seconds,
        "conflicts_a_call": counts["conflicts"] / len(latencies),
        "tries_a_call": counts["tries"] / len(latencies),
        "gave_up_a_thousand": 1000 * len(gave_up) / len(latencies),
        "p50_ms": 1000 * statistics.median(latencies),
        "p99_ms": 1000 * sorted(latencies)[int(len(latencies) * 0.99)],
    }


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Runs each mix, at about one call a second each and as fast as the callers can."""
    load = Load()
    mixes: dict[str, list[Callable[[], None]]] = {
        "commit": [load.commit],
        "cancel by id": [load.cancel],
        f"cancel {BATCH} at once": [load.cancel_batch],
        "upsert": [load.upsert],
        "all kinds": [*([load.commit] * 2), load.cancel, load.cancel_by_key, load.upsert],
    }
    paced, hasty = (
        {name: run(load, kinds, 0.5 if quick else SECONDS, pause_s) for name, kinds in mixes.items()}
        for pause_s in (1.0, 0.0)
    )
    return {
        "callers": THREADS,
        "commits_given_up": paced["commit"]["gave_up_a_thousand"],
        "cancels_given_up": paced["cancel by id"]["gave_up_a_thousand"],
        "one_call_a_second_each": paced,
        "as_fast_as_they_can": hasty,
    }
