"""Replay: what was delivered to a subscription in a range of time comes again, while its ledgers are kept.

A plan that is behind the cursor is handed out once more, as a delivery with bounds of time. The messages have the ids
that they had, so a consumer that knows what it has done drops them. What went direct was never in a ledger and does
not come again; what was cancelled, purged or has expired stays dropped.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from tidewheel.clock import Clock
from tidewheel.errors import InvalidValue, QueueUnavailable, RetentionExpired, UnknownSubscription, UnknownTopic
from tidewheel.flows.ports import Topics
from tidewheel.flows.ports.administration import Replay
from tidewheel.model.plan import Piece, Plan
from tidewheel.model.subscription import Delivery, DeliveryKey, State, Subscription
from tidewheel.model.topic_state import TopicState

Enqueue = Callable[[DeliveryKey, Sequence[int]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What comes again.

    Attributes:
        plans: how many deliveries were opened.
        messages: estimate of how many they bring.
        skipped: plans of which a delivery to the subscription is still under way.
        first_ms, end_ms: rows due in [first_ms, end_ms) come; first_ms is later than asked if ledgers are gone.
    """

    plans: int
    messages: int
    skipped: int
    first_ms: int
    end_ms: int


def replay(
    topics: Topics,
    clock: Clock,
    topic: str,
    name: str,
    *,
    first_ms: int | None = None,
    end_ms: int | None = None,
    enqueue: Enqueue | None = None,
) -> ReplayResult:
    """Delivers again, to one subscription, what was due in [first_ms, end_ms) and went through ledgers.

    For each plan, a delivery is opened, then its parts are enqueued. If it stops
        after a delivery is opened: the sweep enqueues its parts.
        between two plans: those before come; a repetition brings them a second time once they are done.

    Args:
        first_ms: None: all that is kept.
        end_ms: at most now, which is also what None means.
        enqueue: puts parts into the work queue; None, or one that may not: the sweep does it within five minutes.

    Raises:
        InvalidValue: the range is empty, or the subscription is paused.
        UnknownTopic, UnknownSubscription: there is none of this name.
        RetentionExpired: nothing of the range is kept any more.
    """
    state = topics.state(topic)
    if state is None:
        raise UnknownTopic(topic)
    subscription = topics.subscription(topic, name)
    if subscription is None:
        raise UnknownSubscription(topic, name)
    now_ms = clock.now_ms()
    end_ms = now_ms if end_ms is None else min(end_ms, now_ms)
    if first_ms is not None and end_ms <= first_ms:
        raise InvalidValue("start", first_ms, f"give a start before the end ({end_ms}), and before now")
    run = _Run(topics, state, subscription, max(first_ms or 0, state.collected_until * state.slot_ms), end_ms)
    if subscription.state is State.PAUSED:
        raise run.paused
    if end_ms <= run.first_ms:
        raise RetentionExpired(topic, _text(state.collected_until * state.slot_ms), state.settings.retention_s)
    for a, b in topics.plan_ranges(topic):
        if a * state.slot_ms < end_ms and b * state.slot_ms > run.first_ms and b <= subscription.cursor:
            run.replay_plan(a, b, now_ms, enqueue)
    return run.result()


class _Run:
    """A replay under way: its bounds, and what it has done."""

    def __init__(self, topics: Topics, state: TopicState, to: Subscription, first_ms: int, end_ms: int) -> None:
        self._topics = topics
        self._state = state
        self._to = to
        self.first_ms = first_ms
        self._end_ms = end_ms
        self._plans = self._messages = self._skipped = 0
        self._open = {
            each.key.plan
            for each in topics.open_deliveries(state.topic)
            if (each.key.subscription, each.key.generation) == (to.name, to.generation)
        }

    @property
    def paused(self) -> InvalidValue:
        advice = "it is paused or gone, and a replay would enter its queue; resume it first"
        return InvalidValue("subscription", self._to.name, advice)

    def result(self) -> ReplayResult:
        return ReplayResult(
            plans=self._plans,
            messages=self._messages,
            skipped=self._skipped,
            first_ms=self.first_ms,
            end_ms=self._end_ms,
        )

    def replay_plan(self, first_slot: int, end_slot: int, now_ms: int, enqueue: Enqueue | None) -> None:
        """Opens a delivery of a plan with something in the range, and has its parts enqueued."""
        if first_slot in self._open:
            self._skipped += 1
            return
        plan = self._topics.plan(self._state.topic, first_slot)
        if plan is None:
            self.first_ms = max(self.first_ms, end_slot * self._state.slot_ms)
            return
        parts = plan.parts()
        untouched = frozenset(number for number, part in enumerate(parts) if not any(map(self._touches, part)))
        if len(untouched) == len(parts):
            return
        delivery = self._delivery(plan, len(parts), untouched, now_ms)
        match self._topics.open_replay(self._state, delivery):
            case Replay.COLLECTED:
                self.first_ms = max(self.first_ms, end_slot * self._state.slot_ms)
            case Replay.REFUSED:
                raise self.paused
            case Replay.OPENED:
                self._plans += 1
                self._messages += self._due(plan)
                self._start(delivery, now_ms, enqueue)

    def _delivery(self, plan: Plan, parts: int, untouched: frozenset[int], now_ms: int) -> Delivery:
        to = self._to
        return Delivery(
            key=DeliveryKey(
                topic=to.topic,
                subscription=to.name,
                generation=to.generation,
                plan=plan.first_slot,
                replay=secrets.token_hex(8),
            ),
            queue_url=to.queue_url,
            parts=parts,
            done=untouched,
            # What was asked for comes, even if it was due before the subscription began.
            start=0,
            # The sweep enqueues what the caller cannot.
            next_check_ms=now_ms,
            filter_policy=to.filter_policy,
            first_ms=self.first_ms,
            end_ms=self._end_ms,
        )

    def _start(self, delivery: Delivery, now_ms: int, enqueue: Enqueue | None) -> None:
        if enqueue is None:
            return
        with suppress(QueueUnavailable):
            enqueue(delivery.key, [part for part in range(delivery.parts) if part not in delivery.done])
            next_check_ms = now_ms + self._state.settings.redrive_s * 1000
            self._topics.stamp_delivery(delivery.key, delivery.next_check_ms, next_check_ms)

    def _touches(self, piece: Piece) -> bool:
        segment = piece.planned.segment
        return segment.last_deliver_at_ms >= self.first_ms and segment.first_deliver_at_ms < self._end_ms

    def _due(self, plan: Plan) -> int:
        """Estimates the rows of a plan in the range, as if they lay evenly over their segment's part of the plan."""
        total = 0.0
        for planned in plan.segments:
            first = max(planned.segment.first_deliver_at_ms, plan.first_slot * self._state.slot_ms)
            end = min(planned.segment.last_deliver_at_ms + 1, plan.end_slot * self._state.slot_ms)
            inside = min(end, self._end_ms) - max(first, self.first_ms)
            total += planned.due_rows * max(0, inside) / max(1, end - first)
        return round(total)


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
