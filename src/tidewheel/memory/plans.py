"""Stores plans in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidewheel.flows.ports.deliveries import HandOut
from tidewheel.flows.ports.topic_states import NextWork
from tidewheel.memory.deliveries import move, unmoved
from tidewheel.memory.store import MemoryStore
from tidewheel.memory.topic_states import with_next_work
from tidewheel.model.plan import Plan
from tidewheel.model.topic_state import TopicState


class MemoryPlans:
    """Implements the port `Plans`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

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
        with self._store.lock:
            current = self._store.same(state)
            if current is None or (current.planned, current.swap_version) != (state.planned, state.swap_version):
                return False
            if next_work is not None and current.work_version != state.work_version:
                return False
            if not all(unmoved(self._store, step) for step in hand_outs):
                return False
            items = self._store.of(state.topic)
            items.state = replace(current, planned=end_slot, waiting=current.waiting - rows)
            if next_work is not None:
                items.state = with_next_work(items.state, next_work)
            if plan is not None:
                items.plans[plan.first_slot] = plan
            for step in hand_outs:
                move(self._store, step)
            return True

    def read(self, topic: str, first_slot: int, *, whole: bool = True) -> Plan | None:  # noqa: ARG002
        with self._store.lock:
            return self._store.of(topic).plans.get(first_slot)

    def next(self, topic: str, at_or_after: int, *, whole: bool = True) -> Plan | None:  # noqa: ARG002
        with self._store.lock:
            plans = self._store.of(topic).plans
            first = min((a for a in plans if a >= at_or_after), default=None)
            return None if first is None else plans[first]

    def ranges(self, topic: str) -> list[tuple[int, int]]:
        with self._store.lock:
            return sorted((plan.first_slot, plan.end_slot) for plan in self._store.of(topic).plans.values())

    def objects(self, topic: str) -> frozenset[str]:
        """Returns the names of recurring messages' objects. Manifests in memory are not objects."""
        with self._store.lock:
            plans = self._store.of(topic).plans.values()
            return frozenset(plan.occurrences for plan in plans if plan.occurrences is not None)

    def delete(self, topic: str, first_slot: int) -> str | None:
        with self._store.lock:
            plan = self._store.of(topic).plans.pop(first_slot, None)
            return None if plan is None else plan.occurrences
