"""Estimates which messages are late: due, and not in a subscription's queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidewheel.client.in_flight import Undelivered, due_from_ms
from tidewheel.model.park import Park
from tidewheel.model.set_aside import SetAside
from tidewheel.model.subscription_state import Delivery, SubscriptionState


class Unplanned(NamedTuple):
    """Messages of slots that are due and in no plan: the first slot, None if there is none, and the rows."""

    first_slot: int | None
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LateMessages:
    """Finds the late messages of each subscription of a topic, in what was read for its statistics.

    Attributes:
        now_slot: the slot of the current time.
        planned: slots below this are planned.
    """

    slot_ms: int
    now_ms: int
    planned: int
    unplanned: Unplanned
    left: Undelivered
    opened: Sequence[Delivery]
    parks: Sequence[Park]
    aside: Sequence[SetAside]

    def of(self, each: SubscriptionState) -> tuple[int | None, int]:
        """Returns since when the first message is due, and the number of messages."""
        due = [(due_ms, rows) for due_ms, rows in self._waiting(each) if due_ms <= self.now_ms]
        return min((due_ms for due_ms, _ in due if due_ms), default=None), round(sum(rows for _, rows in due))

    def _waiting(self, each: SubscriptionState) -> Iterator[tuple[int, float]]:
        """Yields due times of messages that the queue does not have, and their numbers. 0: unknown. No replays."""
        if self.unplanned.first_slot is not None:
            yield self.unplanned.first_slot * self.slot_ms, self.unplanned.rows
        for first_slot, plan in self.left.plans.items():
            if first_slot >= each.cursor:
                yield plan.first_slot * self.slot_ms, plan.rows
        unread = max(each.cursor, self.left.unread_from)
        due_slots = min(self.planned, self.now_ms // self.slot_ms + 1) - unread
        if due_slots > 0:
            yield unread * self.slot_ms, due_slots * self.left.unread_rows
        mean = sum(plan.rows for plan in self.left.plans.values()) / max(1, len(self.left.plans))
        for delivery in self.opened:
            if delivery.key.owner == (each.topic, each.name, each.generation) and delivery.key.replay is None:
                first_slot, rows = delivery.key.plan, mean
                if first_slot in self.left.plans:
                    rows, first_slot = self.left.plans[first_slot]
                yield first_slot * self.slot_ms, rows * (1 - len(delivery.done) / delivery.parts)
        for park in self.parks:
            if park.key.owner == (each.topic, each.name, each.generation):
                yield park.first_due_ms or 0, park.rows
        for item in self.aside:
            if item.key.is_of(each):
                yield due_from_ms(item.plan, self.slot_ms), item.rows
