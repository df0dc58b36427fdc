"""Stores deletions of whole topics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tidewheel.model.topic_state import ALL_SEALED, TopicState
from tidewheel.storage import items, layout
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import LAYOUT_READ, Delete, Put, Value, as_seen

_DELETED = "deleted"
"""The note with the time in ms when the last topic of a name was deleted. No pack's progress has this name."""
MAX_DELETED_ITEMS = 500
"""Maximum items deleted by a `delete_items` call, which takes a few seconds."""


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
        found = self._table.read(layout.topic_state_key(topic), items.decode_topic_state)
        return found if found is not None and found.deleting_at_ms is not None else None

    def claim(self, state: TopicState, next_check_ms: int) -> bool:
        """Claims a deletion, so that one sweep works at a time. Returns False if refused.

        `next_check_ms = ... IF generation and next_check_ms as read`.
        """
        checks = items.check_fields(state.topic, next_check_ms)
        change = items.state_change(state, seen={layout.CHECK_SORT_KEY: state.next_check_ms}, sets=checks)
        return self._table.change(change, action="claim_deletion", topic=state.topic)

    def delete_items(self, topic: str) -> bool:
        """Deletes some of a topic's items, subscriptions first. Returns True if none were left.

        The topic state stays.
        """
        found = list(islice(self._keys_of(topic), MAX_DELETED_ITEMS))
        for key in found:
            self._table.delete(key, action="delete_items", topic=topic)
        return not found

    def forget(self, state: TopicState, ttl_s: int) -> bool:
        """Notes when the topic was deleted, then deletes the topic state. Returns False if refused.

        `put NOTE`, `delete STATE IF generation as read`. If it stops in between, the next call does both again.

        Args:
            ttl_s: when no message that was sent before the deletion can come any more, in seconds of Unix time.
        """
        condition = as_seen({"generation": state.generation}, LAYOUT_READ)
        delete = Delete(key=layout.topic_state_key(state.topic), **condition)
        note = items.Note(state.deleting_at_ms or 0)
        put = Put(item=items.encode_note(layout.note_key(state.topic, _DELETED), note, ttl_s))
        self._table.put(put, action="put_note", topic=state.topic)
        return self._table.commit([delete], action="forget_topic", topic=state.topic)

    def deleted_at_ms(self, topic: str) -> int:
        """Returns when the last topic of a name was deleted, or 0 if that is over 28 days ago."""
        item = self._table.get(layout.note_key(topic, _DELETED))
        return 0 if item is None else items.decode_note(item).number

    def _keys_of(self, topic: str) -> Iterator[layout.Key]:
        """Yields the keys of all items except the topic state.

        Subscriptions come first, since no plan is handed out to a deleted subscription.
        """
        partition = layout.topic_partition(topic)
        subscriptions = map(
            items.key_of, self._table.query_prefix(partition, layout.SUBSCRIPTIONS, projection="pk, sk")
        )
        seen = set()
        for key in subscriptions:
            seen.add(key)
            yield key
        for partition in layout.partitions(topic):
            for key in map(items.key_of, self._table.query("pk = :pk", {"pk": partition}, projection="pk, sk")):
                if key[1] != layout.STATE and key not in seen:
                    yield key
