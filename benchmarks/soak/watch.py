"""What the functions ask of their ports, counted: jobs, plans and their parts, and what one call holds at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from benchmarks.soak.outcome import Outcome
from tidewheel.flows.ports.queues import Refusal, Release
from tidewheel.ledger.bucket import Bucket
from tidewheel.memory import MemoryObjects, MemoryQueues, MemoryService
from tidewheel.model.object_names import LEDGERS
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.plan import MAX_PART_RAW_BYTES, MAX_PART_ROWS, MAX_PART_SEGMENTS, Plan
from tidewheel.model.subscription_state import DeliveryKey, State
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.buckets import Commit
from tidewheel.storage.deliveries import HandOut
from tidewheel.storage.parks import JobNote
from tidewheel.storage.topic_states import NextWork

_REMEMBERED_MS = 86_400_000
"""How long a job is remembered. Whatever enqueues a part again does it by `redrive_s`, half an hour by default, and
only while the delivery is open."""


def with_ports(service: MemoryService, **ports: Any) -> MemoryService:
    """Returns a copy of a service with other ports."""
    copied = copy(service)
    vars(copied).update(ports)
    return copied


class Forwarding:
    """A port that another one stands behind: what is not defined here is the other's."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@dataclass(slots=True, kw_only=True)
class Call:
    """What one call of a function held so far.

    Attributes:
        read_bytes: of ledgers, compressed.
        sent: messages that went to queues.
    """

    function: str
    read_bytes: int = 0
    sent: int = 0


@dataclass(slots=True, kw_only=True)
class Watch:
    """Counts over a whole run.

    Attributes:
        calls: calls of ingest and deliver.
        plans: committed ones; `small` of them were delivered by the dispatcher.
        parts: of all plans; `most_part`: the largest one's segments, rows and raw bytes.
        part_jobs: parts of deliveries that were enqueued, each time; `twice`: those that had been before.
        expected_jobs: parts times subscriptions of the plans that were not small.
        drain_jobs: parks that were enqueued, each time.
        parks: made; `most_park_rows` of the largest.
        commits: ledgers; `most_commit_rows` of the largest.
        most_event_bytes: the largest batch that a queue brought.
        most_read_bytes, most_sent: function -> the most that one call read of ledgers, and sent.
        most_row_bytes: function -> the most that rows held in memory while it sent them.
        planned_segments: of all plans.
        small_jobs: parts times subscriptions of the small plans; the work queue gets one when a queue refuses its
            messages, or when far more rows are due than was estimated.
        sends: SendMessageBatch requests.
    """

    calls: Counter[str] = field(default_factory=Counter)
    plans: int = 0
    small: int = 0
    parts: int = 0
    most_part_segments: int = 0
    most_part_rows: int = 0
    most_part_raw_bytes: int = 0
    part_jobs: int = 0
    twice: int = 0
    expected_jobs: int = 0
    drain_jobs: int = 0
    parks: int = 0
    most_park_rows: int = 0
    commits: int = 0
    most_commit_rows: int = 0
    most_event_bytes: int = 0
    most_read_bytes: Counter[str] = field(default_factory=Counter)
    most_sent: Counter[str] = field(default_factory=Counter)
    most_row_bytes: Counter[str] = field(default_factory=Counter)
    planned_segments: int = 0
    small_jobs: int = 0
    sends: int = 0
    _call: Call = field(default_factory=lambda: Call(function="dispatch"))
    _jobs: dict[tuple[DeliveryKey, int], int] = field(default_factory=dict)

    def over(self, service: MemoryService) -> MemoryService:
        """Returns the ports with this between them and the functions."""
        return with_ports(
            service,
            plans=_Plans(service.plans, self),
            deliveries=_Deliveries(service.deliveries, self),
            buckets=_Buckets(service.buckets, self),
            merges=_Merges(service.merges, self),
            parks=_Parks(service.parks, self),
            objects=_Objects(service.objects, self),
            queues=_Queues(service.queues, self, service),
        )

    def begin(self, function: str, event_bytes: int = 0) -> None:
        """Notes that a call begins."""
        self.calls[function] += 1
        self._call = Call(function=function)
        self.most_event_bytes = max(self.most_event_bytes, event_bytes)

    def planned(self, plan: Plan, takers: int, *, small: bool) -> None:
        """Notes a plan that was handed out to so many subscriptions; those to come are counted by `handed_out`."""
        parts = plan.parts()
        self.plans += 1
        self.small += small
        self.parts += len(parts)
        self.small_jobs += len(parts) * takers if small else 0
        self.planned_segments += len(plan.segments)
        self.expected_jobs += 0 if small else len(parts) * takers
        for part in parts:
            self.most_part_segments = max(self.most_part_segments, len({piece.planned for piece in part}))
            self.most_part_rows = max(self.most_part_rows, sum(piece.end_row - piece.first_row for piece in part))
            raw = sum(p.planned.segment.raw_bytes * (p.end_row - p.first_row) // p.planned.segment.rows for p in part)
            self.most_part_raw_bytes = max(self.most_part_raw_bytes, raw)

    def enqueued(self, key: DeliveryKey, parts: Sequence[int], now_ms: int) -> None:
        """Notes parts that were put into the work queue."""
        for part in parts:
            self.part_jobs += 1
            self.twice += (key, part) in self._jobs
            self._jobs[key, part] = now_ms
        # In the order of time: the oldest are at the front.
        while self._jobs and next(iter(self._jobs.values())) < now_ms - _REMEMBERED_MS:
            del self._jobs[next(iter(self._jobs))]

    def read(self, read_bytes: int) -> None:
        """Notes what a call read of a ledger."""
        call = self._call
        call.read_bytes += read_bytes
        self.most_read_bytes[call.function] = max(self.most_read_bytes[call.function], call.read_bytes)

    def sent(self, messages: int) -> None:
        """Notes a batch that a call sends."""
        call = self._call
        call.sent += messages
        self.sends += 1
        self.most_sent[call.function] = max(self.most_sent[call.function], call.sent)
        self.most_row_bytes[call.function] = max(self.most_row_bytes[call.function], pa.total_allocated_bytes())

    def report(self, outcome: Outcome) -> None:
        """Writes down the figures, and the promises: nothing enqueued twice, parts and calls bounded."""
        outcome.figures |= {
            "ingest_calls": self.calls["ingest"],
            "deliver_calls": self.calls["deliver"],
            "ledgers": self.commits,
            "plans": self.plans,
            "parts": self.parts,
            "part_jobs": self.part_jobs,
            "part_jobs_twice": self.twice,
            "drain_jobs": self.drain_jobs,
            "send_batches": self.sends,
            "part_most_rows": self.most_part_rows,
            "part_most_sent": self.most_sent["deliver"],
            "part_most_read_bytes": self.most_read_bytes["deliver"],
            "inline_most_read_bytes": self.most_read_bytes["dispatch"],
            "part_most_row_bytes": self.most_row_bytes["deliver"],
            "inline_most_row_bytes": self.most_row_bytes["dispatch"],
            "ingest_most_row_bytes": self.most_row_bytes["ingest"],
            "event_most_bytes": self.most_event_bytes,
            "ledger_most_rows": self.most_commit_rows,
        }
        outcome.exactly("parts enqueued twice", self.twice, 0)
        least, most = self.expected_jobs, self.expected_jobs + self.small_jobs
        outcome.promise(
            least <= self.part_jobs <= most,
            f"parts enqueued, by plans and subscriptions: {self.part_jobs:,}, of {least:,} to {most:,}",
        )
        outcome.at_most("segments of a part", self.most_part_segments, MAX_PART_SEGMENTS)
        outcome.at_most("rows of a part", self.most_part_rows, MAX_PART_ROWS)
        # A segment is cut by rows: one of uneven rows may be above its share.
        outcome.at_most("bytes of a part before compression", self.most_part_raw_bytes, 2 * MAX_PART_RAW_BYTES)


class _Watched(Forwarding):
    def __init__(self, port: Any, watch: Watch) -> None:
        super().__init__(port)
        self._watch = watch


class _Plans(_Watched):
    def commit(
        self,
        state: TopicState,
        plan: Plan | None,
        end_slot: int,
        hand_outs: Sequence[HandOut] = (),
        next_work: NextWork | None = None,
        *,
        rows: int = 0,
    ) -> bool:
        """Looks at the plan: its deliveries hold leases if the dispatcher delivers them itself."""
        done: bool = self._real.commit(state, plan, end_slot, hand_outs, next_work, rows=rows)
        if done and plan is not None:
            deliveries = [step.delivery for step in hand_outs if step.delivery is not None]
            small = any(delivery.leases for delivery in deliveries)
            self._watch.planned(plan, len(deliveries), small=small)
            self._watch.begin("dispatch")
        return done


class _Deliveries(_Watched):
    def hand_out(self, step: HandOut) -> bool:
        """Counts the jobs of a plan that is handed out in a step of its own."""
        done: bool = self._real.hand_out(step)
        if done and step.delivery is not None and not step.delivery.leases:
            self._watch.expected_jobs += step.delivery.parts
        return done


class _Buckets(_Watched):
    def commit(
        self,
        state: TopicState,
        bucket: Bucket,
        next_work: NextWork | None,
        merge_at_ms: int | None = None,
        once: str | None = None,
        *,
        same_swaps: bool = False,
    ) -> Commit:
        """Looks at the ledger."""
        commit: Commit = self._real.commit(state, bucket, next_work, merge_at_ms, once, same_swaps=same_swaps)
        if commit is Commit.COMMITTED:
            self._watch.commits += 1
            self._watch.most_commit_rows = max(self._watch.most_commit_rows, bucket.rows)
        return commit


class _Merges(_Watched):
    def lease(self, topic: str, now_ms: int, until_ms: int, held_until_ms: int | None = None) -> bool:
        """Notes that a merge begins, which reads ledgers, too."""
        self._watch.begin("compact")
        leased: bool = self._real.lease(topic, now_ms, until_ms, held_until_ms)
        return leased


class _Parks(_Watched):
    def put(self, park: Park, state: State, note: JobNote | None = None) -> Any:
        """Looks at a park of direct messages."""
        self._note(park)
        return self._real.put(park, state, note)

    def park_part(self, key: DeliveryKey, part: int, park: Park) -> Any:
        """Looks at a park of a part."""
        self._note(park)
        return self._real.park_part(key, part, park)

    def _note(self, park: Park) -> None:
        self._watch.parks += 1
        self._watch.most_park_rows = max(self._watch.most_park_rows, park.rows)


class _Objects(Forwarding):
    def __init__(self, objects: MemoryObjects, watch: Watch) -> None:
        super().__init__(objects)
        self._watch = watch

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Counts the bytes of ledgers."""
        data: bytes = self._real.get_range(name, offset, length)
        if name.startswith(LEDGERS):
            self._watch.read(len(data))
        return data


class _Queues(Forwarding):
    def __init__(self, queues: MemoryQueues, watch: Watch, service: MemoryService) -> None:
        super().__init__(queues)
        self._watch = watch
        self._clock = service.clock

    def send(self, queue_url: str, batch: Sequence[tuple[Release, int]]) -> list[Refusal]:
        """Counts the batch."""
        self._watch.sent(len(batch))
        refusals: list[Refusal] = self._real.send(queue_url, batch)
        return refusals

    def enqueue_parts(self, key: DeliveryKey, parts: Sequence[int]) -> None:
        """Counts the jobs."""
        self._watch.enqueued(key, parts, self._clock.now_ms())
        self._real.enqueue_parts(key, parts)

    def enqueue_parks(self, keys: Sequence[ParkKey], *, delay_s: int = 0) -> None:
        """Counts the jobs."""
        self._watch.drain_jobs += len(keys)
        self._real.enqueue_parks(keys, delay_s=delay_s)
