"""Stores recurring messages in DynamoDB."""

from __future__ import annotations

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Change, Delete, Put, Value
from tidewheel.flows.ports.topic_states import AT_ONCE_MS
from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import TopicState


class DynamoRecurring:
    """Implements the port `RecurringMessages`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def put(self, state: TopicState, recurring: Recurring, seen: Recurring | None, next_slot: int | None) -> bool:
        """Puts a recurring message in a single transaction."""
        item = items.encode_recurring(recurring)
        put = Put(item=item, if_absent=True)
        if seen is not None:
            put = Put(item=item, condition="generation = :generation", values={"generation": seen.generation})
        condition = f"{items.SAME_TOPIC} AND sealed <= :first AND "
        values: dict[str, Value] = {
            "generation": state.generation,
            "first": recurring.first_ms // state.slot_ms,
        }
        if state.next_slot is None:
            condition += "attribute_not_exists(next_slot)"
        else:
            condition += "next_slot = :next_slot"
            values["next_slot"] = state.next_slot
        sets: dict[str, Value | None] = {}
        if next_slot is not None:
            sets = {"next_slot": next_slot, **items.check_fields(state.topic, AT_ONCE_MS)}
        change = Change(
            key=layout.topic_state_key(state.topic),
            condition=condition,
            values=values,
            sets=sets,
            adds={"work_version": 1, "recurring": 1 if seen is None else 0},
        )
        return not self._table.transact([put, change], action="put_recurring", topic=state.topic)

    def read(self, topic: str, name: str) -> Recurring | None:
        """Reads a recurring message with a single GetItem."""
        item = self._table.get(layout.recurring_key(topic, name))
        return None if item is None else items.decode_recurring(item)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Recurring]:
        """Lists recurring messages with a query for each page."""
        found = self._table.query_prefix(layout.topic_partition(topic), layout.RECURRING)
        return items.readable(found, items.decode_recurring, layout.RECURRING, unreadable)

    def note_missed(self, topic: str, name: str, slot: int) -> None:
        """Notes a slot with a single UpdateItem, whatever else the item holds."""
        change = Change(
            key=layout.recurring_key(topic, name),
            condition="attribute_exists(pk) AND attribute_not_exists(missed_slot)",
            sets={"missed_slot": slot},
        )
        self._table.update(change, action="note_missed", topic=topic)

    def delete(self, state: TopicState, name: str, generation: str | None) -> bool:
        """Deletes a recurring message in a single transaction."""
        condition, values = "attribute_exists(pk)", dict[str, Value]()
        if generation is not None:
            condition, values = "generation = :generation", {"generation": generation}
        delete = Delete(key=layout.recurring_key(state.topic, name), condition=condition, values=values)
        change = Change(
            key=layout.topic_state_key(state.topic),
            condition=items.SAME_TOPIC,
            values={"generation": state.generation},
            adds={"recurring": -1},
        )
        return not self._table.transact([delete, change], action="delete_recurring", topic=state.topic)

    def restore(self, recurring: Recurring) -> None:
        """Restores a recurring message with a single PutItem."""
        self._table.put(Put(item=items.encode_recurring(recurring)), action="restore_recurring", topic=recurring.topic)
