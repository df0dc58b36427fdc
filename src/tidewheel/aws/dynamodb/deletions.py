"""Stores deletions of topics in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.topic_states import change_if_seen
from tidewheel.aws.dynamodb.writes import Delete, Value
from tidewheel.model.topic_state import ALL_SEALED, TopicState

MAX_DELETED_ITEMS = 500
"""Maximum items deleted by a `delete_items` call, which takes a few seconds."""


class DynamoDeletions:
    """Implements the port `Deletions`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def mark(self, state: TopicState, generation: str, now_ms: int) -> bool:
        """Marks the topic as being deleted with a single UpdateItem."""
        checks = items.check_fields(state.topic, now_ms)
        marks: dict[str, Value | None] = {"generation": generation, "sealed": ALL_SEALED, "deleting_at_ms": now_ms}
        return change_if_seen(self._table, state, "mark_deleting", {}, marks | checks)

    def read(self, topic: str) -> TopicState | None:
        """Reads the state of a topic being deleted with a single GetItem."""
        item = self._table.get(layout.topic_state_key(topic))
        found = None if item is None else items.decode_topic_state(item)
        return found if found is not None and found.deleting_at_ms is not None else None

    def claim(self, state: TopicState, next_check_ms: int) -> bool:
        """Claims the deletion with a single UpdateItem."""
        seen: dict[str, Value | None] = {layout.CHECK_SORT_KEY: state.next_check_ms}
        checks = items.check_fields(state.topic, next_check_ms)
        return change_if_seen(self._table, state, "claim_deletion", seen, checks)

    def delete_items(self, topic: str) -> bool:
        """Deletes up to 500 items, each with a DeleteItem, after some queries."""
        found = list(islice(self._keys_of(topic), MAX_DELETED_ITEMS))
        for key in found:
            self._table.delete(key, action="delete_items", topic=topic)
        return not found

    def forget(self, state: TopicState) -> bool:
        """Deletes the topic state if its generation is unchanged, in a transaction of a single write."""
        delete = Delete(
            key=layout.topic_state_key(state.topic),
            condition=items.SAME_TOPIC,
            values={"generation": state.generation},
        )
        return not self._table.transact([delete], action="forget_topic", topic=state.topic)

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
