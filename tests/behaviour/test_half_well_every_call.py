"""Each call of each port fails for an hour, or ends without an answer. No message is lost or early, and copies are few.

Messages go direct and through ledgers, of a topic with default settings and of a topic whose plans have many parts.
After the fault everything comes within 610 s.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest

from tests.half_well import HalfWell
from tests.recorded_queues import RecordedTidewheel, SentMessage
from tests.sampling import some_of
from tidewheel import Message

SOON = range(60, 5400, 180)
LATER = range(7200, 14_400, 600)
FAULT_MS = 3_600_000
LIVENESS_MS = 610_000
READERS = ("billing", "audit")
TOPICS = ("orders", "parts")


@dataclass(slots=True, kw_only=True)
class Run:
    """The figures of a run.

    Attributes:
        during: the calls of the hour of the fault.
        copies: (queue, message) -> how often it came.
        longest_ms: the longest that a message waited after it was due and the fault had ended.
    """

    faults: HalfWell = field(default_factory=HalfWell)
    hits: int = 0
    during: frozenset[str] = frozenset()
    copies: Counter[tuple[str, str]] = field(default_factory=Counter)
    early: list[SentMessage] = field(default_factory=list)
    longest_ms: int = 0


def run(calls: str | None, *, after: bool = False) -> Run:
    """Sends messages before and during a fault of some calls. Returns the figures of the run."""
    done = Run()
    stack = RecordedTidewheel(wrap=done.faults)
    client = stack.client()
    client.create_topic("orders", retention_days=0)
    client.create_topic("parts", inline_rows=1, part_rows=2, retention_days=0)
    for topic in TOPICS:
        for name in READERS:
            client.create_subscription(topic, name)
        client.send_many(topic, [Message(body=f"before {i}", delay=i) for i in [*SOON, *LATER]])
    stack.advance(minutes=6)
    end_ms = stack.clock.now_ms() + FAULT_MS
    fault = None if calls is None else done.faults.refuse(calls, minutes=FAULT_MS / 60_000, after=after)
    before = done.faults.calls.copy()
    for minute in range(0, 60, 10):
        for topic in TOPICS:
            client.send_many(topic, [Message(body=f"{minute} {i}", delay=i) for i in (30, 300, 1200, 4000, 9000)])
            client.send(topic, f"key {minute}", delay="2h", key="k", replace=True)
        stack.advance(minutes=10)
    done.during = frozenset(done.faults.calls - before)
    stack.advance(days=1)
    done.hits = 0 if fault is None else fault.hits
    for sent in stack.service.queues.sent():
        done.copies[sent.queue_url, sent.id] += 1
        if sent.visible_at_ms < sent.deliver_at_ms:
            done.early.append(sent)
        late_ms = sent.visible_at_ms - max(sent.deliver_at_ms, end_ms)
        if done.copies[sent.queue_url, sent.id] == 1:
            done.longest_ms = max(done.longest_ms, late_ms)
    return done


UNRECORDED = {"deliveries.part_done", "parks.delete"}
"""The writes that say that messages were sent. Where the table takes a lease and refuses only these, each try that the
lease allows adds a copy: one in 150 s. A table that refuses all writes refuses the lease."""
EVERY = [
    f"{port}.{call}"
    for port, calls in {
        "buckets": "commit delete in_order",
        "deliveries": "all delete ended finish lease_part part_done",
        "keys": "claim move not_in_ledgers",
        "merges": "last_trash put_trash trash",
        "objects": "delete get_range list new_attempt put",
        "parks": "delete lease put",
        "plans": "commit delete ranges read",
        "queues": "enqueue_parks enqueue_parts send",
        "subscriptions": "all read",
        "tombstones": "all ids read",
        "topic_states": "existing raise_collected_until read seal set_collect_at",
        "wheel": "schedule",
    }.items()
    for call in calls.split()
]
COPIES = len(TOPICS) * len(READERS) * (len(SOON) + len(LATER) + 6 * 5 + 1)


def test_nothing_fails_where_no_call_fails() -> None:
    calm = run(None)
    assert set(calm.copies.values()) == {1} and not calm.early
    assert len(calm.copies) == COPIES and calm.longest_ms < 2000
    assert sorted(call for call in calm.during if not call.startswith("checks.")) == EVERY


@pytest.mark.parametrize("calls", some_of(EVERY, 4))
def test_a_call_that_is_refused_for_an_hour_brings_no_copies(calls: str) -> None:
    done = run(calls)
    assert done.hits, "the fault hit nothing"
    assert len(done.copies) == COPIES, len(done.copies)
    assert not done.early
    assert max(done.copies.values()) <= (1 + FAULT_MS // 150_000 if calls in UNRECORDED else 1)
    assert done.longest_ms <= LIVENESS_MS


@pytest.mark.parametrize("calls", some_of(EVERY, 4))
def test_a_call_that_takes_effect_and_is_not_answered_adds_a_copy_at_most(calls: str) -> None:
    done = run(calls, after=True)
    assert done.hits, "the fault hit nothing"
    assert len(done.copies) == COPIES, len(done.copies)
    assert not done.early
    assert max(done.copies.values()) <= 1 + done.hits
    assert done.longest_ms <= LIVENESS_MS
