"""Stores topic states in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidewheel.flows.ports.topic_states import NextWork
from tidewheel.memory.store import MemoryStore
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import Purge, TopicState


class MemoryTopicStates:
    """Implements the port `TopicStates`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def create(self, state: TopicState) -> bool:
        with self._store.lock:
            items = self._store.of(state.topic)
            if items.state is not None:
                return False
            items.state = state
            return True

    def read(self, topic: str) -> TopicState | None:
        with self._store.lock:
            found = self._store.read(topic)
            return None if found is None or found.deleting_at_ms is not None else found

    def all(self) -> list[TopicState]:
        with self._store.lock:
            return [state for topic in sorted(self._store.topics) if (state := self.read(topic)) is not None]

    def seal(self, state: TopicState, slot: int) -> TopicState | None:
        with self._store.lock:
            self._store.read(state.topic)
            current = self._store.same(state)
            if current is not None and current.sealed < slot:
                current = self._store.of(state.topic).state = replace(current, sealed=slot)
            return current

    def raise_layout(self, state: TopicState, to: int) -> TopicState | None:
        with self._store.lock:
            self._store.read(state.topic)
            current = self._store.same(state)
            if current is not None and current.layout < to:
                current = self._store.of(state.topic).state = replace(current, layout=to)
            return current

    def raise_next_slot(self, state: TopicState, next_work: NextWork) -> bool:
        with self._store.lock:
            current = self._store.same(state)
            if current is None:
                return False
            if (current.work_version, current.swap_version) != (state.work_version, state.swap_version):
                return False
            self._store.of(state.topic).state = with_next_work(current, next_work)
            return True

    def raise_collected_until(self, state: TopicState, collected_until: int) -> bool:
        with self._store.lock:
            current = self._store.same(state)
            if (
                current is None
                or current.collected_until >= collected_until
                or current.subscriptions_version != state.subscriptions_version
            ):
                return False
            self._store.of(state.topic).state = replace(current, collected_until=collected_until)
            return True

    def set_collect_at(
        self,
        state: TopicState,
        collect_at_ms: int | None,
        next_check_ms: int | None,
        merge_at_ms: int | None = None,
    ) -> bool:
        with self._store.lock:
            current = self._store.same(state)
            if current is None or (current.work_version, current.next_slot) != (state.work_version, state.next_slot):
                return False
            self._store.of(state.topic).state = replace(
                current,
                collect_at_ms=collect_at_ms,
                next_check_ms=next_check_ms,
                merge_at_ms=current.merge_at_ms if merge_at_ms is None else merge_at_ms,
            )
            return True

    def merge_considered(self, state: TopicState, next_check_ms: int | None) -> bool:
        with self._store.lock:
            current = self._store.same(state)
            if current is None or (current.work_version, current.next_slot) != (state.work_version, state.next_slot):
                return False
            items = self._store.of(state.topic)
            items.state = replace(
                current, merge_considered_version=state.work_version, merge_at_ms=None, next_check_ms=next_check_ms
            )
            return True

    def update_settings(self, state: TopicState, settings: TopicSettings) -> bool:
        with self._store.lock:
            current = self._store.same(state)
            if current is None or current.settings != state.settings:
                return False
            self._store.of(state.topic).state = replace(current, settings=settings)
            return True

    def set_purges(self, state: TopicState, purge_ms: int, purges: Sequence[Purge]) -> bool:
        with self._store.lock:
            current = self._store.same(state)
            if current is None or (current.purge_ms, current.purges) != (state.purge_ms, state.purges):
                return False
            self._store.of(state.topic).state = replace(current, purge_ms=purge_ms, purges=tuple(purges))
            return True

    def delete(self, topic: str) -> None:
        with self._store.lock:
            self._store.of(topic).state = None


def with_next_work(state: TopicState, next_work: NextWork) -> TopicState:
    """Returns the topic state with a changed next slot."""
    return replace(
        state,
        next_slot=next_work.next_slot,
        next_check_ms=next_work.next_check_ms,
        collect_at_ms=next_work.collect_at_ms,
    )
