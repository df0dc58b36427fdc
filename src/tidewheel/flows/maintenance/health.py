"""Measures due and undelivered work, before the sweep repairs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidewheel.flows.delivery.recur import all_recurring, next_occupied_by
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import next_slot
from tidewheel.model.plan import Plan
from tidewheel.model.subscription_state import DeliveryKey
from tidewheel.model.topic_state import TopicState
from tidewheel.model.wheel import fires_at_ms
from tidewheel.storage.checks import Due

MOST_TOPICS = 1000
"""Topic states that one health check reads: 5 s of a function's time, and one read unit each."""
MOST_DELIVERIES = 50
"""Deliveries whose plans one health check reads; the others are counted."""
HOUR_MS = 3_600_000
_BACKLOG_MS = 300_000
"""The backlog is counted by each sweep in the first five minutes of an hour: by one sweep, at the usual interval."""
_EVER_MS = 100 * 365 * 86_400_000


@dataclass(slots=True, kw_only=True)
class Health:
    """The health of the service. All is zero when nothing is late.

    Attributes:
        late_ms: topic -> how long its oldest message that is due and undelivered has been due. An upper bound: a slot,
            a segment, a coarse slot of a wide ledger, or the range of a plan whose manifest is an object, that holds
            such a message may start before the message. Messages for a paused subscription do not count, nor messages
            still in an ingest queue.
        unplanned_slots: sealed slots that hold messages but are in no plan, though the dispatch that should have
            planned them is over; of a wide ledger, a coarse slot counts whole.
        open_deliveries: deliveries that the sweep is to check: `redrive_s` after they were handed out or enqueued
            again, and LEASE_MS after that if dispatch was to send them itself.
        backlog: messages waiting in ledgers; None if this check did not count them.
        failures: topic or delivery -> the read error.
    """

    late_ms: dict[str, int] = field(default_factory=dict)
    unplanned_slots: int = 0
    open_deliveries: int = 0
    backlog: int | None = None
    failures: dict[str, Exception] = field(default_factory=dict)

    @property
    def oldest_due_age_ms(self) -> int:
        """How long the oldest of these messages has been due."""
        return max(self.late_ms.values(), default=0)

    def add_age(self, topic: str, age_ms: int) -> None:
        """Takes the age of a topic's message into account."""
        if age_ms > self.late_ms.get(topic, 0):
            self.late_ms[topic] = age_ms


def health(ports: Ports, due: Due | None = None, states: Mapping[str, TopicState] | None = None) -> Health:
    """Measures the health from the index of checks, and from the topics and deliveries in it.

    Writes nothing, and reads no objects, because this function may not read messages. With nothing late it costs the 16
    queries of the index, and a read of the topic state of each topic that is to be checked for another reason. Of an
    overdue topic, the buckets are read. Once an hour it reads the whole index and the topic state of each topic in the
    index, unless there are over MOST_TOPICS.

    Args:
        ports: the service.
        due: the index of checks, if the caller just read it.
        states: the states of its topics, if the caller just read them. None: they are read.
    """
    if due is None:
        due = ports.checks.due(ports.clock.now_ms())
    now_ms = ports.clock.now_ms()
    found = Health()
    for topic in due.topics[:MOST_TOPICS]:
        try:
            state = ports.topic_states.read(topic) if states is None else states.get(topic)
            _add_topic(found, ports, state, now_ms)
        except Exception as error:  # an unreadable topic hides no other
            found.failures[topic] = error
    for key in due.deliveries:
        try:
            _add_delivery(found, ports, key, now_ms)
        except Exception as error:
            found.failures[str(key)] = error
    if now_ms % HOUR_MS < _BACKLOG_MS:
        found.backlog = _backlog(ports, now_ms)
    return found


def _add_topic(found: Health, ports: Ports, state: TopicState | None, now_ms: int) -> None:
    """Adds a topic whose dispatch is overdue.

    A topic that only waits for a collection or a merge has nothing late.
    """
    if state is None or state.next_slot is None or not _overdue(state, state.next_slot, now_ms):
        return
    if state.next_slot < state.planned:
        # Lowered to a subscription's cursor: the messages that the subscription waits for are planned.
        for due_ms in _waiting_plans(ports, state):
            found.add_age(state.topic, now_ms - due_ms)
    # The next slot is a lower bound: a new subscription may lower it to an empty slot.
    slot = _next_occupied(ports, state)
    if slot is not None and _overdue(state, slot, now_ms):
        found.unplanned_slots += max(0, state.sealed - slot)
        found.add_age(state.topic, now_ms - slot * state.slot_ms)


def _overdue(state: TopicState, slot: int, now_ms: int) -> bool:
    """Whether the dispatch of a slot is overdue, including the allowed lateness of a schedule."""
    return fires_at_ms(state.topic, slot, state.settings) + state.settings.heal_grace_ms <= now_ms


def _next_occupied(ports: Ports, state: TopicState) -> int | None:
    """Returns the first unplanned slot with a message, in a ledger or of a recurring message.

    A lower bound where a ledger's bitmap is coarse. The next slot is overdue all the same when this is called.
    """
    first = max(state.planned, state.next_slot or 0)
    recurring = all_recurring(ports, state, {}) if state.recurring else []
    slots = (
        next_slot(ports.buckets.in_order(state.topic, {}), first),
        next_occupied_by(recurring, state.slot_ms, first),
    )
    return min((slot for slot in slots if slot is not None), default=None)


def _waiting_plans(ports: Ports, state: TopicState) -> Iterable[int]:
    """Yields, for each subscription, the due time of the oldest message not handed out."""
    for subscription in ports.subscriptions.all(state.topic, {}):
        if not subscription.takes_plans or subscription.cursor >= state.planned:
            continue
        plan = ports.plans.next(state.topic, subscription.cursor, whole=False)
        if plan is not None and plan.first_slot < state.planned:
            yield _first_due_ms(plan, state, range(plan.part_count), subscription.start)


def _add_delivery(found: Health, ports: Ports, key: DeliveryKey, now_ms: int) -> None:
    """Adds an open delivery, unless its messages are not late. The age of a replay's messages does not count."""
    if found.open_deliveries < MOST_DELIVERIES:
        delivery = ports.deliveries.read(key)
        if delivery is None or delivery.complete or (delivery.stuck and delivery.lost):  # `Damaged` tells what is lost
            return
        plan = None if key.replay is not None else ports.plans.read(key.topic, key.plan, whole=False)
        state = None if plan is None else ports.topic_states.read(key.topic)
        if plan is not None and state is not None:
            parts = [part for part in range(delivery.parts) if part not in delivery.done]
            age_ms = now_ms - _first_due_ms(plan, state, parts, delivery.start)
            if age_ms <= 0:
                return
            found.add_age(key.topic, age_ms)
    found.open_deliveries += 1


def _first_due_ms(plan: Plan, state: TopicState, parts: Sequence[int], start: int) -> int:
    """Returns a lower bound of the first due time in some parts of a plan.

    Without segments, this is the plan's begin.
    """
    cut = plan.parts()
    firsts = [piece.planned.segment.first_deliver_at_ms for part in parts if part < len(cut) for piece in cut[part]]
    return max(max(plan.first_slot, start) * state.slot_ms, min(firsts, default=0))


def _backlog(ports: Ports, now_ms: int) -> int | None:
    topics = ports.checks.due(now_ms + _EVER_MS).topics
    if len(topics) > MOST_TOPICS:
        return None
    states = (ports.topic_states.read(topic) for topic in topics)
    return sum(max(0, state.waiting) for state in states if state is not None)
