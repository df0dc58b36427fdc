"""Stores recurring messages."""

from __future__ import annotations

from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import TopicState
from tidewheel.storage import items, table_keys
from tidewheel.storage.table import StoredItems
from tidewheel.storage.topic_states import AT_ONCE_MS
from tidewheel.storage.writes import Change, Delete, Put, Value, as_seen


class RecurringMessages(StoredItems):
    """The recurring messages of each topic. The topic state counts them in `recurring`."""

    def put(self, state: TopicState, recurring: Recurring, seen: Recurring | None, next_slot: int | None) -> bool:
        """Creates or replaces a recurring message. Returns False if refused.

        `T{put RECUR IF absent, or its generation as seen; STATE: work_version + 1, recurring + 1 if new, the next slot
        lowered, the sweep looks at once IF sealed <= slot of first_ms and generation, next_slot as read}`.

        Args:
            seen: the recurring message to replace.
            next_slot: the lowered next slot; None if it is low enough, or nothing is due.
        """
        item = items.encode_recurring(recurring)
        put = Put(item=item, if_absent=True)
        if seen is not None:
            put = Put(item=item, **as_seen({"generation": seen.generation}))
        sets: dict[str, Value | None] = {}
        if next_slot is not None:
            sets = {"next_slot": next_slot, **items.check_fields(state.topic, AT_ONCE_MS)}
        change = items.state_change(
            state,
            "sealed <= :first",
            seen={"next_slot": state.next_slot},
            values={"first": recurring.first_ms // state.slot_ms},
            sets=sets,
            adds={"work_version": 1, "recurring": 1 if seen is None else 0},
        )
        return self._table.commit([put, change], action="put_recurring", topic=state.topic)

    def read(self, topic: str, name: str) -> Recurring | None:
        """Reads a recurring message."""
        return self._table.read(table_keys.recurring_key(topic, name), items.decode_recurring)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Recurring]:
        """Reads all recurring messages of a topic, by name.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        return self._table.read_all(
            table_keys.topic_partition(topic), table_keys.RECURRING, items.decode_recurring, unreadable
        )

    def note_missed(self, topic: str, name: str, slot: int) -> None:
        """Notes on a recurring message the first slot that was not planned. An earlier note stays.

        `RECUR: missed_slot = slot if absent IF the recurring message exists`.
        """
        change = Change(
            key=table_keys.recurring_key(topic, name),
            condition="attribute_exists(pk) AND attribute_not_exists(missed_slot)",
            sets={"missed_slot": slot},
        )
        self._table.change(change, action="note_missed", topic=topic)

    def delete(self, state: TopicState, name: str, generation: str | None) -> bool:
        """Deletes a recurring message. Returns False if refused.

        `T{delete RECUR IF its generation is as seen; STATE: recurring - 1, swap_version + 1 IF generation, planned as
        read}`. So no occurrence is planned from `planned` on, even by a dispatch that has read the message.

        Args:
            generation: the recurring message's, as seen. None: it cannot be read, and any is deleted.
        """
        seen = {} if generation is None else {"generation": generation}
        delete = Delete(key=table_keys.recurring_key(state.topic, name), **as_seen(seen, "attribute_exists(pk)"))
        change = items.state_change(state, seen={"planned": state.planned}, adds={"recurring": -1, "swap_version": 1})
        return self._table.commit([delete, change], action="delete_recurring", topic=state.topic)

    def restore(self, recurring: Recurring) -> None:
        """Puts a recurring message for a rebuild and overwrites an existing recurring message."""
        self._table.put(Put(item=items.encode_recurring(recurring)), action="restore_recurring", topic=recurring.topic)
