"""Stores topic states in DynamoDB."""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Change, Put, Value
from tidewheel.flows.ports.topic_states import NextWork
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import Purge, TopicState


class DynamoTopicStates:
    """Implements the port `TopicStates`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def create(self, state: TopicState) -> bool:
        """Creates a topic with a single PutItem."""
        put = Put(item=items.encode_topic_state(state), if_absent=True)
        return self._table.put(put, action="create_topic", topic=state.topic)

    def read(self, topic: str) -> TopicState | None:
        """Reads a topic state with a single GetItem."""
        item = self._table.get(layout.topic_state_key(topic))
        found = None if item is None else items.decode_topic_state(item)
        return None if found is None or found.deleting_at_ms is not None else found

    def all(self) -> list[TopicState]:
        """Lists all topics by a scan of the whole table, for administrators only."""
        found = self._table.scan("sk = :state AND attribute_not_exists(deleting_at_ms)", {"state": layout.STATE})
        ours = (item for item in found if layout.is_topic_partition(items.key_of(item)[0]))
        return sorted((items.decode_topic_state(item) for item in ours), key=lambda state: state.topic)

    def seal(self, state: TopicState, slot: int) -> TopicState | None:
        """Seals slots with a single UpdateItem, even if nothing changes."""
        return self._raised(state, "seal", "sealed < :to", "sealed", slot)

    def raise_layout(self, state: TopicState, to: int) -> TopicState | None:
        """Raises the layout with a single UpdateItem, even if nothing changes."""
        condition = "(attribute_not_exists(layout) OR layout < :to)"
        return self._raised(state, "raise_layout", condition, "layout", to)

    def _raised(self, state: TopicState, action: str, condition: str, mark: str, to: int) -> TopicState | None:
        change = Change(
            key=layout.topic_state_key(state.topic),
            condition=f"{items.SAME_TOPIC} AND {condition}",
            values={"generation": state.generation, "to": to},
            sets={mark: to},
        )
        _, item = self._table.update(change, action=action, topic=state.topic, returns=True)
        current = None if item is None else items.decode_topic_state(item)
        return current if current is not None and current.generation == state.generation else None

    def raise_next_slot(self, state: TopicState, next_work: NextWork) -> bool:
        """Raises next_slot with a single UpdateItem."""
        return self._change_state(
            state,
            "raise_next_slot",
            condition="work_version = :work_version AND swap_version = :swap_version",
            values={"work_version": state.work_version, "swap_version": state.swap_version},
            sets=items.next_work_fields(state.topic, next_work),
        )

    def raise_collected_until(self, state: TopicState, collected_until: int) -> bool:
        """Raises collected_until with a single UpdateItem."""
        return self._change_state(
            state,
            "raise_collected_until",
            condition="collected_until < :until AND subscriptions_version = :subscriptions_version",
            values={"until": collected_until, "subscriptions_version": state.subscriptions_version},
            sets={"collected_until": collected_until},
        )

    def set_collect_at(
        self,
        state: TopicState,
        collect_at_ms: int | None,
        next_check_ms: int | None,
        merge_at_ms: int | None = None,
    ) -> bool:
        """Sets the time of the next collection with a single UpdateItem."""
        sets: dict[str, Value | None] = {"collect_at_ms": collect_at_ms}
        if merge_at_ms is not None:
            sets["merge_at_ms"] = merge_at_ms
        return self._set_next_check(state, "set_collect_at", sets, next_check_ms)

    def merge_considered(self, state: TopicState, next_check_ms: int | None) -> bool:
        """Records that a merge was considered, with a single UpdateItem."""
        sets: dict[str, Value | None] = {"merge_considered_version": state.work_version, "merge_at_ms": None}
        return self._set_next_check(state, "merge_considered", sets, next_check_ms)

    def update_settings(self, state: TopicState, settings: TopicSettings) -> bool:
        """Changes the settings with a GetItem and an UpdateItem.

        The GetItem is needed because another release may encode the same settings differently.
        """
        item = self._table.get(layout.topic_state_key(state.topic))
        if item is None or items.decode_topic_state(item).settings != state.settings:
            return False
        seen = item["settings"]["S"]
        return change_if_seen(
            self._table, state, "update_settings", {"settings": seen}, {"settings": settings.to_json(keeping=seen)}
        )

    def set_purges(self, state: TopicState, purge_ms: int, purges: Sequence[Purge]) -> bool:
        """Stores the purges with a single UpdateItem."""
        return change_if_seen(
            self._table,
            state,
            "set_purges",
            {"purge_ms": state.purge_ms, "purges": items.encode_purges(state.purges)},
            {"purge_ms": purge_ms, "purges": items.encode_purges(purges)},
        )

    def delete(self, topic: str) -> None:
        """Deletes a topic state with a single DeleteItem."""
        self._table.delete(layout.topic_state_key(topic), action="delete_topic_state", topic=topic)

    def _set_next_check(
        self, state: TopicState, action: str, sets: dict[str, Value | None], next_check_ms: int | None
    ) -> bool:
        condition, values = "work_version = :work_version AND ", {"work_version": state.work_version}
        if state.next_slot is None:
            condition += "attribute_not_exists(next_slot)"
        else:
            condition += "next_slot = :next_slot"
            values["next_slot"] = state.next_slot
        checks = items.check_fields(state.topic, next_check_ms)
        return self._change_state(state, action, condition=condition, values=values, sets={**sets, **checks})

    def _change_state(
        self,
        state: TopicState,
        action: str,
        *,
        condition: str,
        values: dict[str, int],
        sets: dict[str, Value | None],
    ) -> bool:
        done, _ = self._table.update(
            Change(
                key=layout.topic_state_key(state.topic),
                condition=f"{items.SAME_TOPIC} AND {condition}",
                values={"generation": state.generation, **values},
                sets=sets,
            ),
            action=action,
            topic=state.topic,
        )
        return done


def change_if_seen(
    table: Table, state: TopicState, action: str, seen: dict[str, Value | None], sets: dict[str, Value | None]
) -> bool:
    """Changes a topic state if its generation and the given attributes are unchanged. None means absent."""
    values: dict[str, Value] = {"generation": state.generation}
    condition = items.SAME_TOPIC
    for name, value in seen.items():
        if value is None:
            condition += f" AND attribute_not_exists({name})"
        else:
            condition += f" AND {name} = :{name}"
            values[name] = value
    change = Change(key=layout.topic_state_key(state.topic), condition=condition, values=values, sets=sets)
    done, _ = table.update(change, action=action, topic=state.topic)
    return done
