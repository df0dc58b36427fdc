"""Stores topic states, the list of all topics, and the deletions of topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from tidewheel.errors import CorruptMetadata, UnknownTopic, UnsupportedLayout
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import ALL_SEALED, Purge, TopicState
from tidewheel.storage import items, table_keys
from tidewheel.storage.deliveries import Deliveries
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import LAYOUT_READ, Delete, Item, Put, Value, as_seen, item_of

AT_ONCE_MS = 0
"""Sentinel in `next_check_ms`: tells the sweep to create the missing schedule of the next slot."""
_DELETED = "deleted"
"""The note with the time in ms when the last topic of a name was deleted. No pack's progress has this name."""
MAX_DELETED_ITEMS = 500
"""Maximum items deleted by a `delete_items` call, which takes a few seconds."""


def check_again_at(state: TopicState, collect_at_ms: int | None) -> int | None:
    """Returns the next check of a topic whose next slot stays. A missing schedule stays missing."""
    if state.next_check_ms == AT_ONCE_MS:
        return AT_ONCE_MS
    return state.check_at(state.next_slot, collect_at_ms)


class TopicStates(StoredItems):
    """The topic states, an item a topic.

    A topic that is being deleted is absent here. `Deletions` sees it.
    """

    def create(self, state: TopicState) -> bool:
        """Creates the topic state if the topic is absent. Returns False if the topic exists."""
        put = Put(item=items.encode_topic_state(state), if_absent=True)
        return self._table.put(put, action="create_topic", topic=state.topic)

    def read(self, topic: str) -> TopicState | None:
        """Reads a topic's state. Returns None if the topic is absent or being deleted."""
        found = self._table.read(table_keys.topic_state_key(topic), items.decode_topic_state)
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

    def of(self, topics: Iterable[str], unreadable: dict[str, Exception] | None = None) -> list[TopicState]:
        """Reads the states of topics, by name, a hundred a request. Leaves out topics that are absent or deleted.

        Puts the name and the error of each state that cannot be read into a dict. Without a dict, the error is raised.
        """
        found = self._table.get_many(map(table_keys.topic_state_key, topics))
        return _decoded((item for item in found if "deleting_at_ms" not in item), unreadable)

    def seal(self, state: TopicState, slot: int) -> TopicState | None:
        """Seals all slots below `slot`.

        `sealed = slot IF sealed < slot and generation as read`.

        Returns the topic state afterwards; None if the topic is gone or was created again.
        """
        change = items.state_change(state, "sealed < :to", values={"to": slot}, sets={"sealed": slot})
        _, item = self._table.change_and_get(change, action="seal", topic=state.topic)
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

        `collect_at_ms, next_check_ms = ... IF work_version, generation, next_slot, next_check_ms and view_at_ms as
        read`.

        Args:
            merge_at_ms: when the sweep is to consider a merge. None: as it is.
        """
        sets: dict[str, Value | None] = {"collect_at_ms": collect_at_ms}
        if merge_at_ms is not None:
            sets["merge_at_ms"] = merge_at_ms
        return self._set_next_check(state, "set_collect_at", sets, next_check_ms)

    def merge_considered(self, state: TopicState, next_check_ms: int | None) -> bool:
        """Notes a considered merge. Returns False if refused.

        `merge_considered_version = work_version, merge_at_ms = None, next_check_ms = ... IF work_version, generation,
        next_slot, next_check_ms and view_at_ms as read`.
        """
        sets: dict[str, Value | None] = {"merge_considered_version": state.work_version, "merge_at_ms": None}
        return self._set_next_check(state, "merge_considered", sets, next_check_ms)

    def set_view_at(self, state: TopicState, view_at_ms: int | None) -> bool:
        """Sets when the sweep writes the next live view. None: never. Returns False if refused.

        `view_at_ms, next_check_ms = ... IF work_version, generation, next_slot, next_check_ms and view_at_ms as read`.
        So the write is refused if `update_settings` lets a live view begin or end meanwhile.
        """
        next_check_ms = check_again_at(replace(state, view_at_ms=view_at_ms), state.collect_at_ms)
        return self._set_next_check(state, "set_view_at", {"view_at_ms": view_at_ms}, next_check_ms)

    def update_settings(self, state: TopicState, settings: TopicSettings, now_ms: int) -> bool:
        """Changes the settings. Returns False if refused.

        `settings = ... IF generation and settings as read`. If a live view is to begin or end:
        `view_at_ms = now, next_check_ms = ... IF next_check_ms as read`, too.

        The GetItem is needed because another release may encode the same settings differently.
        """
        item = self._table.get(table_keys.topic_state_key(state.topic))
        current = None if item is None else items.decode_topic_state(item)
        before = state.settings
        if item is None or current is None or current.settings != before:
            return False
        seen: dict[str, Value | None] = {"settings": item["settings"]["S"]}
        sets: dict[str, Value | None] = {"settings": settings.to_json(keeping=item["settings"]["S"])}
        if settings.live_view != before.live_view:
            asked = replace(current, view_at_ms=now_ms)
            seen[table_keys.CHECK_SORT_KEY] = current.next_check_ms
            sets["view_at_ms"] = now_ms
            sets |= items.check_fields(state.topic, check_again_at(asked, current.collect_at_ms))
        change = items.state_change(state, seen=seen, sets=sets)
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
        self._table.delete(table_keys.topic_state_key(topic), action="delete_topic_state", topic=topic)

    def _set_next_check(
        self, state: TopicState, action: str, sets: dict[str, Value | None], next_check_ms: int | None
    ) -> bool:
        seen: dict[str, Value | None] = {
            "work_version": state.work_version,
            "next_slot": state.next_slot,
            # The new check would not know what another write asked of the sweep meanwhile.
            table_keys.CHECK_SORT_KEY: state.next_check_ms,
            # `update_settings` sets it, and a missing schedule's next check stays.
            "view_at_ms": state.view_at_ms,
        }
        checks = items.check_fields(state.topic, next_check_ms)
        change = items.state_change(state, seen=seen, sets={**sets, **checks})
        return self._table.change(change, action=action, topic=state.topic)


def _decoded(found: Iterable[Item], unreadable: dict[str, Exception] | None) -> list[TopicState]:
    states: list[TopicState] = []
    for item in found:
        try:
            states.append(items.decode_topic_state(item))
        except (CorruptMetadata, UnsupportedLayout) as error:
            if unreadable is None:
                raise
            unreadable[table_keys.topic_of(items.key_of(item)[0])] = error
    return sorted(states, key=lambda state: state.topic)


class TopicList(StoredItems):
    """The names of the topics, which are listed without a read of the whole table.

    A name is listed before its topic is created, and until it is gone.
    """

    def read(self) -> list[str]:
        """Reads the names in their order. A topic that is gone may be among them."""
        found = self._table.query("pk = :pk", {"pk": table_keys.LISTED}, projection="pk, sk")
        return [items.key_of(item)[1] for item in found]

    def add(self, name: str) -> None:
        """Lists a topic. `put LISTED`."""
        self._table.put(
            Put(item=item_of((table_keys.LISTED, name), {"v": items.VERSION})), action="list_topic", topic=name
        )

    def remove(self, name: str) -> None:
        """Takes a topic from the list. `delete LISTED`."""
        self._table.delete((table_keys.LISTED, name), action="unlist_topic", topic=name)


class Deletions(StoredItems):
    """The topics that are being deleted.

    A topic state's life:  created -> deleting (another generation) -> forgotten
    """

    def mark(self, state: TopicState, generation: str, now_ms: int) -> bool:
        """Marks a topic as being deleted. Returns False if refused.

        `generation = another, sealed = all, deleting_at_ms, next_check_ms = now IF generation as read`.

        Writes that are conditional on the old generation, or on an open slot, are refused from then on.
        """
        checks = items.check_fields(state.topic, now_ms)
        marks: dict[str, Value | None] = {"generation": generation, "sealed": ALL_SEALED, "deleting_at_ms": now_ms}
        change = items.state_change(state, sets=marks | checks)
        return self._table.change(change, action="mark_deleting", topic=state.topic)

    def read(self, topic: str) -> TopicState | None:
        """Reads the state of a topic that is being deleted. Returns None if the topic is absent or lives."""
        found = self._table.read(table_keys.topic_state_key(topic), items.decode_topic_state)
        return found if found is not None and found.deleting_at_ms is not None else None

    def claim(self, state: TopicState, next_check_ms: int) -> bool:
        """Claims a deletion, so that one sweep works at a time. Returns False if refused.

        `next_check_ms = ... IF generation and next_check_ms as read`.
        """
        checks = items.check_fields(state.topic, next_check_ms)
        change = items.state_change(state, seen={table_keys.CHECK_SORT_KEY: state.next_check_ms}, sets=checks)
        return self._table.change(change, action="claim_deletion", topic=state.topic)

    def delete_items(self, topic: str) -> bool:
        """Deletes some of a topic's items, subscriptions first. Returns True if none were left.

        The topic state stays.
        """
        found = list(islice(self._keys_of(topic), MAX_DELETED_ITEMS))
        for key in found:
            if key[1].startswith(table_keys.DELIVERIES) and key[0] == table_keys.topic_partition(topic):
                Deliveries(self._table).delete([table_keys.parse_delivery_key(key)])
            else:
                self._table.delete(key, action="delete_items", topic=topic)
        return not found

    def forget(self, state: TopicState, ttl_s: int) -> bool:
        """Notes when the topic was deleted, then deletes the topic state. Returns False if refused.

        `put NOTE`, `delete STATE IF generation as read`. If it stops in between, the next call does both again.

        Args:
            ttl_s: when no message that was sent before the deletion can come any more, in seconds of Unix time.
        """
        condition = as_seen({"generation": state.generation}, LAYOUT_READ)
        delete = Delete(key=table_keys.topic_state_key(state.topic), **condition)
        note = items.Note(state.deleting_at_ms or 0)
        put = Put(item=items.encode_note(table_keys.note_key(state.topic, _DELETED), note, ttl_s))
        self._table.put(put, action="put_note", topic=state.topic)
        return self._table.commit([delete], action="forget_topic", topic=state.topic)

    def deleted_at_ms(self, topic: str) -> int:
        """Returns when the last topic of a name was deleted, or 0 if that is over 28 days ago."""
        item = self._table.get(table_keys.note_key(topic, _DELETED))
        return 0 if item is None else items.decode_note(item).number

    def _keys_of(self, topic: str) -> Iterator[table_keys.Key]:
        """Yields the keys of all items except the topic state.

        Subscriptions come first, since no plan is handed out to a deleted subscription.
        """
        partition = table_keys.topic_partition(topic)
        subscriptions = map(
            items.key_of, self._table.query_prefix(partition, table_keys.SUBSCRIPTIONS, projection="pk, sk")
        )
        seen = set()
        for key in subscriptions:
            seen.add(key)
            yield key
        for partition in table_keys.partitions(topic):
            for key in map(items.key_of, self._table.query("pk = :pk", {"pk": partition}, projection="pk, sk")):
                if key[1] != table_keys.STATE and key not in seen:
                    yield key
