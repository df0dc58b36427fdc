"""Compares random sequences of all requests to a topic, with clock jumps, crashes and repeats, with the oracle.

`TIDEWHEEL_STATEFUL_EXAMPLES=5000` makes a long run of it, by another seed each time.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, precondition, rule

from tests.behaviour.oracle import Fate, Oracle, Sent
from tests.flows.world import Crash, CrashingPorts
from tests.marks import topic_state
from tidewheel.client.changes import Rescheduled
from tidewheel.client.sender import URGENT_MS
from tidewheel.client.waiting import MessageState
from tidewheel.errors import PartLeased, UnknownMessage
from tidewheel.flows.upkeep.collect import collect
from tidewheel.flows.upkeep.merge import in_process, merge
from tidewheel.local import MemoryTidewheel
from tidewheel.memory import MemoryService
from tidewheel.model.message import Message, Receipt
from tidewheel.model.settings import TopicSettings
from tidewheel.model.triggers import KEYED_URGENT_MS

TOPIC = "orders"
SUBSCRIPTIONS = ("audit", "billing")
PROMISE_MS = 1000 + 100
HOUR_MS = 3_600_000
DAY_S = 86_400
REPEATED_FOR_MS = 13 * DAY_S * 1000
"""A queue keeps a message for 14 days, so it cannot bring it again after that."""
MOST_SENT = 60
MOST_CRASHES = 3
"""Five would make an ingest message a dead letter."""

A_DELAY_S = st.one_of(st.integers(0, 1200), st.integers(0, 6 * 3600), st.integers(0, 21 * DAY_S))
A_JUMP_S = st.one_of(st.integers(0, 1200), st.integers(900, 6 * 3600), st.integers(6 * 3600, 5 * DAY_S))
A_KEY = st.sampled_from("abc")
LONG_RUN = os.environ.get("TIDEWHEEL_STATEFUL_EXAMPLES")


class TopicMachine(RuleBasedStateMachine):
    """A topic with two subscriptions."""

    ids = Bundle("ids")

    @initialize(part_rows=st.sampled_from([1, 3]), inline_rows=st.sampled_from([1, 4, 2000]))
    def begin(self, part_rows: int, inline_rows: int) -> None:
        def wrap(service: MemoryService) -> Any:
            self.ports = CrashingPorts(service)
            return self.ports

        self.stack = MemoryTidewheel(wrap=wrap, part_rows=part_rows, inline_rows=inline_rows, max_buckets=4)
        self.client = self.stack.client()
        self.client.create_topic(TOPIC)
        self.queues = {name: self.client.create_subscription(TOPIC, name).queue_url for name in SUBSCRIPTIONS}
        self.oracle = Oracle(TopicSettings())
        self.got: dict[str, Counter[str]] = {name: Counter() for name in SUBSCRIPTIONS}
        # [from, until) of each pause, and what had been handed out by then to a subscription that is paused.
        self.pauses: dict[str, list[list[int]]] = {name: [] for name in SUBSCRIPTIONS}
        self.handed_out: dict[str, set[str]] = {}
        self.ingest_queues = {name: self.stack.queue(f"tidewheel_{name}") for name in ("urgent", "bulk")}
        self.packs: list[tuple[int, Any, Any]] = []
        self.copies = False
        self.armed = 0
        self.own_crashes: list[int] = []

    # ---- what is known

    @property
    def now_ms(self) -> int:
        return self.stack.clock.now_ms()

    @property
    def crashes(self) -> list[int]:
        """The times of the functions' deaths."""
        died = [each.at_ms for each in self.stack.failures if isinstance(each.error, Crash)]
        return sorted(died + self.own_crashes)

    def remember(self, receipts: list[Receipt], **message: Any) -> list[str]:
        for receipt in receipts:
            order = len(self.oracle.sent)
            due_ms = receipt.deliver_at_ms
            within_ms = KEYED_URGENT_MS if "key" in message else URGENT_MS
            by = "urgent" if due_ms <= self.now_ms + within_ms else "bulk"
            known = Sent(id=receipt.id, order=order, sent_ms=self.now_ms, due_ms=due_ms, by=by, **message)
            self.oracle.add(known, self.now_ms)
        known_packs = {id(pack) for _, _, pack in self.packs}
        for queue in self.ingest_queues.values():
            self.packs += ((self.now_ms, queue, pack) for pack in queue.everything if id(pack) not in known_packs)
        return [receipt.id for receipt in receipts]

    # ---- sending

    @precondition(lambda self: len(self.oracle.sent) < MOST_SENT)
    @rule(target=ids, delays_s=st.lists(A_DELAY_S, min_size=1, max_size=4))
    def send(self, delays_s: list[int]) -> Any:
        messages = [Message(body=f"after {delay} s", delay=delay) for delay in delays_s]
        return multiple(*self.remember(self.client.send_many(TOPIC, messages)))

    @precondition(lambda self: len(self.oracle.sent) < MOST_SENT)
    @rule(target=ids, delay_s=A_DELAY_S, key=A_KEY)
    def send_unless_one_waits(self, delay_s: int, key: str) -> str:
        return self.remember([self.client.send(TOPIC, "once", delay=delay_s, key=key)], key=key)[0]

    @precondition(lambda self: len(self.oracle.sent) < MOST_SENT)
    @rule(target=ids, delay_s=A_DELAY_S, key=A_KEY)
    def upsert(self, delay_s: int, key: str) -> str:
        receipt = self.client.send(TOPIC, "newest", delay=delay_s, key=key, replace=True)
        return self.remember([receipt], key=key, replace=True)[0]

    @precondition(lambda self: len(self.oracle.sent) < MOST_SENT)
    @rule(target=ids, delay_s=A_DELAY_S, expires_in_s=st.integers(5, 2 * DAY_S))
    def send_with_an_expiry(self, delay_s: int, expires_in_s: int) -> str:
        receipt = self.client.send(TOPIC, "milk", delay=delay_s, expires_in=expires_in_s)
        return self.remember([receipt], expires_ms=receipt.deliver_at_ms + expires_in_s * 1000)[0]

    # ---- changes

    @rule(ids=st.lists(ids, min_size=1, max_size=3))
    def cancel(self, ids: list[str]) -> None:
        targets = [self.oracle.sent[each].now for each in ids]
        certain = [each.fate is Fate.COMES and self.oracle.is_open(each, self.now_ms) for each in targets]
        results = [self.client.cancel(TOPIC, ids[0])] if len(ids) == 1 else self.client.cancel_many(TOPIC, ids)
        for target, result, must in zip(targets, results, certain, strict=True):
            assert result.id == target.id
            assert result or not must, "a message whose slot is open can be cancelled"
            if result:
                assert not any(got[target.id] for got in self.got.values()), "cancelled, but received before"
                self.oracle.cancel([target])

    @rule(key=A_KEY)
    def cancel_a_key(self, key: str) -> None:
        known = self.oracle.with_key(key)
        waiting = [each for each in known if each.due_ms > self.now_ms]
        if self.client.cancel(TOPIC, key=key):
            self.oracle.cancel(waiting)
        else:
            assert not all(self.oracle.is_open(each, self.now_ms) for each in known)
            self.oracle.too_late(waiting)
        for each in known:
            each.released = True
        # Due already, but perhaps in an ingest queue still.
        self.oracle.too_late(each for each in known if each.ingested_ms is None)

    @precondition(lambda self: len(self.oracle.sent) < MOST_SENT)
    @rule(target=ids, id=ids, delay_s=A_DELAY_S)
    def reschedule(self, id: str, delay_s: int) -> Any:
        old = self.oracle.sent[id].now
        waits = old.ingested_ms is not None and self.oracle.is_open(old, self.now_ms)
        try:
            result = self.client.reschedule(TOPIC, id, delay=delay_s)
        except UnknownMessage:
            assert not (old.fate is Fate.COMES and waits), "a message that waits in a ledger is known"
            return multiple()
        if not isinstance(result, Rescheduled):
            assert not (old.fate is Fate.COMES and waits), "a message that waits in a ledger can be moved"
            if result:
                self.oracle.cancel([old])
            return multiple()
        assert old.fate is not Fate.NEVER, "what never comes cannot be moved"
        assert (result.old_id, any(got[old.id] for got in self.got.values())) == (old.id, False)
        expires_ms = old.expires_ms
        if expires_ms is not None:
            expires_ms += result.receipt.deliver_at_ms - old.due_ms
        self.oracle.cancel([old])
        self.remember([result.receipt], key=old.key, replace=old.key is not None, expires_ms=expires_ms)
        old.moved_to = self.oracle.sent[result.receipt.id]
        return result.receipt.id

    @rule()
    def purge(self) -> None:
        self.client.purge(TOPIC)
        self.oracle.purge(0, 1 << 60, self.now_ms)

    @precondition(lambda self: len(topic_state(self.client, TOPIC).purges) < 15)
    @rule(start_s=A_DELAY_S, length_s=st.integers(1, 3 * DAY_S))
    def purge_a_range(self, start_s: int, length_s: int) -> None:
        start = self.now_ms // 1000 + start_s
        self.client.purge(TOPIC, start=start, end=start + length_s)
        self.oracle.purge(start * 1000, (start + length_s) * 1000, self.now_ms)

    @rule(name=st.sampled_from(SUBSCRIPTIONS))
    def pause(self, name: str) -> None:
        self.client.pause(TOPIC, name)
        if name in self.handed_out:
            return
        self.handed_out[name] = {
            each.id
            for each in self.oracle.sent.values()
            if each.ingested_ms is not None and not self.oracle.is_open(each, self.now_ms)
        }
        pauses = self.pauses[name]
        if pauses and pauses[-1][1] == self.now_ms:  # nothing was sent on in between
            pauses[-1][1] = 1 << 60
        else:
            pauses.append([self.now_ms, 1 << 60])

    @rule(name=st.sampled_from(SUBSCRIPTIONS))
    def resume(self, name: str) -> None:
        self.client.resume(TOPIC, name)
        if self.handed_out.pop(name, None) is not None:
            self.pauses[name][-1][1] = self.now_ms

    # ---- what the service does, and what it suffers

    @rule(duration_s=A_JUMP_S)
    def advance(self, duration_s: int) -> None:
        # By then, what was sent is ingested, and the oracle knows when that was.
        first_s = min(duration_s, 301)
        for step_s in (first_s, duration_s - first_s):
            self.stack.advance(seconds=step_s)
            for by, queue in self.ingest_queues.items():
                if not queue.everything:
                    self.oracle.ingested(by, self.now_ms)
            for name in SUBSCRIPTIONS:
                self.receive(name)
        self.nothing_fails_that_did_not_die()

    @rule()
    def merge_all(self) -> None:
        with self.dying():
            merge(self.ports, TOPIC, in_process(self.ports.objects), lease_s=300, everything=True)

    @rule()
    def collect(self) -> None:
        with self.dying():
            collect(self.ports, TOPIC)

    def dying(self) -> Any:
        machine = self

        class Dying(suppress):
            def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
                if isinstance(error, Crash):
                    machine.own_crashes.append(machine.now_ms)
                return super().__exit__(kind, error, trace)

        return Dying(Crash)

    @precondition(lambda self: self.armed < MOST_CRASHES)
    @rule(at=st.integers(1, 40), when=st.sampled_from(["before", "after"]))
    def let_something_die(self, at: int, when: str) -> None:
        self.armed += 1
        self.ports.plan.schedule(at, when)

    @rule(drop=st.booleans())
    def lose_schedules(self, drop: bool) -> None:
        self.stack.drop_schedules = drop

    @precondition(lambda self: self.packs)
    @rule(number=st.integers(0, MOST_SENT))
    def bring_a_pack_again(self, number: int) -> None:
        sent_ms, queue, pack = self.packs[number % len(self.packs)]
        if self.now_ms - sent_ms < REPEATED_FOR_MS:
            self.copies = True
            queue.put(pack.body, pack.message_attributes)

    # ---- what must be true

    def receive(self, name: str) -> None:
        for message in self.stack.receive(TOPIC, name):
            known = self.oracle.sent[message.id]
            assert known.fate is not Fate.NEVER, (name, known)
            assert message.visible_at is not None
            visible_ms = round(message.visible_at.timestamp() * 1000)
            assert visible_ms >= known.due_ms, ("early", name, known, visible_ms)
            if known.expires_ms is not None:
                assert visible_ms <= known.expires_ms + PROMISE_MS, ("expired", name, known, visible_ms)
            if name in self.handed_out:
                assert message.id in self.handed_out[name], ("entered a paused queue", name, known)
            if not self.got[name][message.id]:
                self.check_lateness(name, known, visible_ms)
            self.got[name][message.id] += 1
            assert self.got[name][message.id] == 1 or self.copies or self.crashes, ("twice", name, known)

    def check_lateness(self, name: str, known: Sent, visible_ms: int) -> None:
        resumed = [until for _, until in self.pauses[name] if until <= visible_ms]
        from_ms = max([known.due_ms, *resumed])
        allowed_ms = PROMISE_MS
        if self.crashes:
            from_ms, allowed_ms = max(from_ms, self.crashes[-1]), 2 * HOUR_MS
        assert visible_ms <= from_ms + allowed_ms, ("late", name, known, visible_ms, self.pauses[name])

    def may_have_expired(self, name: str, known: Sent) -> bool:
        """Whether a message may have expired before its delivery."""
        expires_ms = known.expires_ms
        if expires_ms is None:
            return False
        held = any(first <= known.due_ms and until >= expires_ms for first, until in self.pauses[name])
        return held or bool(self.crashes)

    @rule(id=ids)
    def look(self, id: str) -> None:
        known = self.oracle.sent[id]
        state = self.client.get(TOPIC, id).state
        if known.ingested_ms is None or not self.oracle.is_open(known, self.now_ms):
            return
        if known.fate is Fate.COMES:
            assert state is MessageState.WAITING
        if known.fate is Fate.NEVER:
            assert state in (MessageState.CANCELLED, MessageState.PURGED, MessageState.UNKNOWN)
        assert (known.moved_to is not None) <= (state in (MessageState.CANCELLED, MessageState.UNKNOWN))

    def nothing_fails_that_did_not_die(self) -> None:
        for failure in self.stack.failures:
            died = isinstance(failure.error, Crash)
            waits = isinstance(failure.error.__cause__, PartLeased) and self.crashes
            assert died or waits, failure

    def teardown(self) -> None:
        if not hasattr(self, "stack"):
            return
        self.ports.plan.disarm()
        self.stack.drop_schedules = False
        for name in sorted(self.handed_out):
            self.resume(name)
        last_ms = max((each.due_ms for each in self.oracle.sent.values()), default=0)
        while self.now_ms < last_ms:
            self.advance(5 * DAY_S)
        self.advance(3 * 3600)
        assert {each.ingested_ms is None for each in self.oracle.sent.values()} <= {False}
        for name in SUBSCRIPTIONS:
            for known in self.oracle.sent.values():
                if known.fate is Fate.COMES and not self.may_have_expired(name, known):
                    assert self.got[name][known.id], ("lost", name, known)


TestTopic = TopicMachine.TestCase
TestTopic.settings = settings(
    max_examples=int(LONG_RUN or 60),
    stateful_step_count=60 if LONG_RUN else 40,
    deadline=None,
    derandomize=not LONG_RUN,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
