"""Measures fifty callers of one topic that commit ledgers, cancel and upsert, with simulated conflicts of DynamoDB.

    python -m benchmarks contention

DynamoDB refuses a transaction while another one, or a write, is at work on one of its items; moto does not. So the
metadata is in memory here, behind something that keeps every item of a write busy for 8 ms and refuses whoever
comes to it meanwhile, a condition check like a write. Fifty threads call the ports as ingest and the SDK do, at several
paces, and as fast as they can. Time is virtual: a machine that is busy gives the same figures. Counted are the
conflicts, the tries of a call, and the calls that gave up: the figure to look at, since such work is safe to repeat
but late.
"""

from __future__ import annotations

import heapq
import itertools
import random
import statistics
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from botocore.exceptions import ClientError
from pyroaring import BitMap

from tests.stored import altered
from tests.stored_ports import TABLE_PORTS
from tidewheel.clock import ManualClock
from tidewheel.errors import ConcurrentModification
from tidewheel.flows.delivery.cancel import cancel, cancel_key, cancel_many
from tidewheel.flows.delivery.commit import commit_and_schedule
from tidewheel.flows.delivery.keys import settle_keys
from tidewheel.ledger.bucket import Bucket, bucket_id
from tidewheel.memory import MemoryService
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import IdSource, Message, MessageId, id_text
from tidewheel.model.pack import decode_pack, packs
from tidewheel.model.plan import Segment
from tidewheel.model.settings import TopicSettings
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import new_topic_state
from tidewheel.model.validation import check_message
from tidewheel.storage.buckets import Commit
from tidewheel.storage.table import Table

CALLERS = 50
PACES = (25, 50, 75, 100)
"""Calls a second, of all callers."""
READ_S, BUSY_S = 0.003, 0.008
SECONDS = 60.0
NOW_MS = 1_767_225_600_000
TOPIC = "orders"
BATCH = 90
Key = tuple[str, str]
STATE: Key = ("STATE", "")


class Turns:
    """Runs callers in virtual time, one at a time. A wait ends when all earlier waits have ended."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._waits: list[tuple[float, int, threading.Semaphore]] = []
        self._numbers = itertools.count()
        self._returned = threading.Semaphore(0)
        self._errors: list[BaseException] = []

    def sleep(self, seconds: float) -> None:
        """Lets the others run until the caller's time has come."""
        turn = threading.Semaphore(0)
        heapq.heappush(self._waits, (self.now_s + seconds, next(self._numbers), turn))
        self._returned.release()
        turn.acquire()

    def run(self, callers: Sequence[Callable[[], None]]) -> None:
        """Runs callers to their ends. Raises the first error of a caller."""
        for caller in callers:
            threading.Thread(target=self._run_one, args=(caller,), daemon=True).start()
            self._returned.acquire()
        while self._waits and not self._errors:
            self.now_s, _, turn = heapq.heappop(self._waits)
            turn.release()
            self._returned.acquire()
        if self._errors:
            raise self._errors[0]

    def _run_one(self, caller: Callable[[], None]) -> None:
        try:
            caller()
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._returned.release()


class BusyTable:
    """The table's ports in memory, whose items are busy for a while as DynamoDB's are, with the adapter's retries."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._table = Table(cast(Any, None), "table", sleep=turns.sleep)
        self._busy: set[Key] = set()
        self.counts: Counter[str] = Counter()

    def call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a method that passes calls on. Reads take time, and writes lock their items."""
        keys = WRITES.get(name)

        def read(*arguments: Any, **named: Any) -> Any:
            self._turns.sleep(READ_S)
            return call(*arguments, **named)

        def write(*arguments: Any, **named: Any) -> Any:
            assert keys is not None
            items = keys(*arguments)
            return self._table._retrying(lambda: self._try(name, items, lambda: call(*arguments, **named)), name, TOPIC)

        return read if keys is None else write

    def _try(self, name: str, keys: list[Key], call: Callable[[], Any]) -> Any:
        self.counts["tries"] += 1
        if not self._busy.isdisjoint(keys):
            self.counts["conflicts"] += 1
            self._turns.sleep(READ_S)
            reasons = {"CancellationReasons": [{"Code": "TransactionConflict"}]}
            raise ClientError(cast(Any, {"Error": {"Code": "TransactionCanceledException"}, **reasons}), name)
        self._busy.update(keys)
        try:
            answer = call()
            self._turns.sleep(BUSY_S)
            return answer
        finally:
            self._busy.difference_update(keys)


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
    if tombstone is None:
        return [("KEY", entry.key)]
    return [("KEY", entry.key), ("TOMB", tombstone.id), *([STATE] if tombstone.certain else [])]


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
    """A topic with the calls of each kind of caller."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_MS)
        self.turns = Turns()
        self.service = MemoryService.at(self.clock)
        self.settings = TopicSettings()
        self.state = new_topic_state(TOPIC, "g1", self.settings, self.clock.now_ms())
        self.service.topic_states.create(self.state)
        self.table = BusyTable(self.turns)
        busy = {name: BusyPort(name, getattr(self.service, name), self.table) for name in TABLE_PORTS}
        self.ports: Any = altered(self.service, **busy)
        self.ids = IdSource()

    def a_far_id(self) -> MessageId:
        """An id due in a day or so."""
        return id_text(self.ids.next(self.clock.now_ms() + random.randrange(80_000_000, 90_000_000)))

    def commit(self) -> None:
        """Commits a ledger as ingest does, without the object."""
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
            slots=BitMap([slot]),
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
        assert cancel(self.ports, new_topic_state(TOPIC, "g", self.settings, 0), self.a_far_id(), self.clock.now_ms())

    def cancel_batch(self) -> None:
        """Ninety cancels in one call."""
        ids = [self.a_far_id() for _ in range(BATCH)]
        assert all(cancel_many(self.ports, new_topic_state(TOPIC, "g", self.settings, 0), ids, self.clock.now_ms()))

    def upsert(self) -> None:
        """Settles a replacing message for a random key of a thousand, as ingest does."""
        now = self.clock.now_ms()
        message = Message(body="x", delay="1d", key=f"k{random.randrange(1000)}", replace=True)
        [(_, data)] = packs(TOPIC, "g1", now, [check_message(message, self.ids, now)])
        settle_keys(self.ports, self.state, [decode_pack(data, now)], {})

    def cancel_by_key(self) -> None:
        """Cancels by a random key of a thousand."""
        now = self.clock.now_ms()
        state = new_topic_state(TOPIC, "g", self.settings, 0)
        cancel_key(self.ports, state, f"k{random.randrange(1000)}", (now, self.ids.sequence()), now)


def run(load: Load, kinds: list[Callable[[], None]], seconds: float, pause_s: float) -> dict[str, float]:
    """Runs fifty callers, with about `pause_s` between two calls of each, and counts."""
    load.table.counts.clear()
    turns, random_ = load.turns, random.Random(1)
    latencies: list[float] = []
    gave_up: list[str] = []
    ends_s = turns.now_s + seconds

    def caller(kind: Callable[[], None]) -> None:
        while True:
            turns.sleep(random_.uniform(0, 2 * pause_s))
            began_s = turns.now_s
            if began_s > ends_s:
                return
            try:
                kind()
            except ConcurrentModification as error:
                gave_up.append(str(error))
            latencies.append(turns.now_s - began_s)

    turns.run([partial(caller, kinds[i % len(kinds)]) for i in range(CALLERS)])
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
    """Runs each mix at each pace."""
    random.seed(1)  # the adapter's waits
    load = Load()
    mixes: dict[str, list[Callable[[], None]]] = {
        "commit": [load.commit],
        "cancel by id": [load.cancel],
        f"cancel {BATCH} at once": [load.cancel_batch],
        "upsert": [load.upsert],
        "upsert and cancel by key": [load.upsert, load.cancel_by_key],
        "all kinds": [*([load.commit] * 2), load.cancel, load.cancel_by_key, load.upsert],
    }
    found = {
        f"{pace}_calls_a_second": {
            name: run(load, kinds, 2.0 if quick else SECONDS, CALLERS / pace) for name, kinds in mixes.items()
        }
        for pace in PACES
    }
    found["as_fast_as_they_can"] = {name: run(load, kinds, 0.2 if quick else 5.0, 0.0) for name, kinds in mixes.items()}
    at_fifty = found["50_calls_a_second"]
    return {
        "callers": CALLERS,
        "commits_given_up": at_fifty["commit"]["gave_up_a_thousand"],
        "cancels_given_up": at_fifty["cancel by id"]["gave_up_a_thousand"],
        **found,
    }
