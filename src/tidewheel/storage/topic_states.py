"""Stores topic states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidewheel.errors import UnknownTopic
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import Purge, TopicState
from tidewheel.storage import items, layout
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import LAYOUT_READ, Change, Item, Put, Value, as_seen

AT_ONCE_MS = 0
"""Sentinel in `next_check_ms`: tells the sweep to create the missing schedule of the next slot."""


def check_again_at(state: TopicState, collect_at_ms: int | None) -> int | None:
    """Returns the next check of a topic whose next slot stays. A missing schedule stays missing."""
    if state.next_check_ms == AT_ONCE_MS:
        return AT_ONCE_MS
    return state.check_at(state.next_slot, collect_at_ms)


class TopicStates(StoredItems):
    """The state of each topic, one item a topic.

    A topic that is being deleted is absent here. `Deletions` sees it.
    """

    def create(self, state: TopicState) -> bool:
        """Creates the topic state if the topic is absent. Returns False if the topic exists."""
        put = Put(item=items.encode_topic_state(state), if_absent=True)
        return self._table.put(put, action="create_topic", topic=state.topic)

    def read(self, topic: str) -> TopicState | None:
        """Reads a topic's state. Returns None if the topic is absent or being deleted."""
        found = self._table.read(layout.topic_state_key(topic), items.decode_topic_state)
        return None if found is None or found.deleting_at_ms is not None else found

    def existing(self, topic: str) -> TopicState:
        """Reads a topic's state.

        Raises:
            UnknownTopic: the topic is absent or being deleted.
        """
        state = self.read(topic)
        if state is None:
            raise UnknownTopic(topic)
        return state

    def of(self, topics: Iterable[str]) -> list[TopicState]:
        """Reads the states of topics, by name, a hundred a request. Leaves out topics that are absent or deleted."""
        found = map(items.decode_topic_state, self._table.get_many(map(layout.topic_state_key, topics)))
        return sorted((each for each in found if each.deleting_at_ms is None), key=lambda state: state.topic)

    def all(self) -> list[TopicState]:
        """Lists all topics by name, from the whole table (eventually consistent)."""
        return sorted((items.decode_topic_state(item) for item in self._scanned()), key=lambda state: state.topic)

    def names_among(self, most_items: int) -> list[str]:
        """Names the topics among the table's first items, in one request (eventually consistent)."""
        return [layout.topic_of(items.key_of(item)[0]) for item in self._scanned(most_items)]

    def _scanned(self, limit: int | None = None) -> Iterator[Item]:
        condition = "sk = :state AND attribute_not_exists(deleting_at_ms)"
        found = self._table.scan(condition, {"state": layout.STATE}, limit=limit)
        return (item for item in found if layout.is_topic_partition(items.key_of(item)[0]))

    def seal(self, state: TopicState, slot: int) -> TopicState | None:
        """Seals all slots below `slot`.

        `sealed = slot IF sealed < slot and generation as read`.

        Returns the topic state afterwards; None if the topic is gone or was created again.
        """
        return self._raised(state, "seal", f"{LAYOUT_READ} AND sealed < :to", "sealed", slot)

    def raise_layout(self, state: TopicState, to: int) -> TopicState | None:
        """Moves the topic to a later layout permanently. Releases that do not know the layout then refuse the topic.

        `layout = to IF layout < to and generation as read`.

        Returns the topic state afterwards; None if the topic is gone or was created again.
        """
        condition = "(attribute_not_exists(layout) OR layout < :to)"
        return self._raised(state, "raise_layout", condition, "layout", to)

    def _raised(self, state: TopicState, action: str, clauses: str, mark: str, to: int) -> TopicState | None:
        condition = as_seen({"generation": state.generation}, clauses, to=to)
        change = Change(key=layout.topic_state_key(state.topic), sets={mark: to}, **condition)
        _, item = self._table.change_and_get(change, action=action, topic=state.topic)
        current = None if item is None else items.decode_topic_state(item)
        return current if current is not None and current.generation == state.generation else None

    def raise_collected_until(self, state: TopicState, collected_until: int) -> bool:
        """Raises `collected_until`. Returns False if refused.

        `collected_until = ... IF collected_until < the new value and subscriptions_version and generation as read`.
        """
        change = items.state_change(
            state,
            "collected_until < :until",
            seen={"subscriptions_version": state.subscriptions_version},
            values={"until": collected_until},
            sets={"collected_until": collected_until},
        )
        return self._table.change(change, action="raise_collected_until", topic=state.topic)

    def set_collect_at(
        self, state: TopicState, collect_at_ms: int | None, next_check_ms: int | None, merge_at_ms: int | None = None
    ) -> bool:
        """Sets the times of the next collection and the next check. Returns False if refused.

        `collect_at_ms, next_check_ms = ... IF work_version, generation and next_slot as read`.

        Args:
            merge_at_ms: when the sweep is to consider a merge. None: as it is.
        """
        sets: dict[str, Value | None] = {"collect_at_ms": collect_at_ms}
        if merge_at_ms is not None:
            sets["merge_at_ms"] = merge_at_ms
        return self._set_next_check(state, "set_collect_at", sets, next_check_ms)

    def merge_considered(self, state: TopicState, next_check_ms: int | None) -> bool:
        """Notes that a merge was considered. Returns False if refused.

        `merge_considered_version = work_version, merge_at_ms = None, next_check_ms = ... IF work_version, generation
        and next_slot as read`.
        """
        sets: dict[str, Value | None] = {"merge_considered_version": state.work_version, "merge_at_ms": None}
        return self._set_next_check(state, "merge_considered", sets, next_check_ms)

    def update_settings(self, state: TopicState, settings: TopicSettings) -> bool:
        """Changes the settings. Returns False if refused.

        `settings = ... IF generation and settings as read`.

        The GetItem is needed because another release may encode the same settings differently.
        """
        item = self._table.get(layout.topic_state_key(state.topic))
        if item is None or items.decode_topic_state(item).settings != state.settings:
            return False
        seen = item["settings"]["S"]
        change = items.state_change(state, seen={"settings": seen}, sets={"settings": settings.to_json(keeping=seen)})
        return self._table.change(change, action="update_settings", topic=state.topic)

    def set_purges(self, state: TopicState, purge_ms: int, purges: Sequence[Purge]) -> bool:
        """Changes the purge marks. Returns False if refused.

        `purge_ms, purges = ... IF generation, purge_ms and purges as read`.
        """
        seen = {"purge_ms": state.purge_ms, "purges": items.encode_purges(state.purges)}
        change = items.state_change(
            state, seen=seen, sets={"purge_ms": purge_ms, "purges": items.encode_purges(purges)}
        )
        return self._table.change(change, action="set_purges", topic=state.topic)

    def delete(self, topic: str) -> None:
        """Deletes the topic state. Does nothing if the topic state is gone.

        All writes that are conditional on the topic state are refused from then on.
        """
        self._table.delete(layout.topic_state_key(topic), action="delete_topic_state", topic=topic)

    def _set_next_check(
        self, state: TopicState, action: str, sets: dict[str, Value | None], next_check_ms: int | None
    ) -> bool:
        seen = {"work_version": state.work_version, "next_slot": state.next_slot}
        checks = items.check_fields(state.topic, next_check_ms)
        change = items.state_change(state, seen=seen, sets={**sets, **checks})
        return self._table.change(change, action=action, topic=state.topic)
