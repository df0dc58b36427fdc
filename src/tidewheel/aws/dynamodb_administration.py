"""Stores administrators' changes to whole topics in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tidewheel.aws import dynamodb_items as items
from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb_table import Table
from tidewheel.aws.dynamodb_writes import Change, Check, Delete, Put, Value
from tidewheel.flows.ports.administration import Replay
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription_state import Delivery, State
from tidewheel.model.topic_state import ALL_SEALED, Purge, TopicState

MAX_DELETED_ITEMS = 500
"""Maximum items deleted by a `delete_items` call, which takes a few seconds."""


class DynamoAdministration:
    """Implements `tidewheel.flows.ports.administration`, a part of the port `Topics`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def update_settings(self, state: TopicState, settings: TopicSettings) -> bool:
        """Changes the settings with a GetItem and an UpdateItem.

        The GetItem is needed because another release may encode the same settings differently.
        """
        item = self._table.get(layout.topic_state_key(state.topic))
        if item is None or items.decode_topic_state(item).settings != state.settings:
            return False
        seen = item["settings"]["S"]
        return self._change_if_seen(
            state, "update_settings", {"settings": seen}, {"settings": settings.to_json(keeping=seen)}
        )

    def set_purges(self, state: TopicState, purge_ms: int, purges: Sequence[Purge]) -> bool:
        """Stores the purges with a single UpdateItem."""
        return self._change_if_seen(
            state,
            "set_purges",
            {"purge_ms": state.purge_ms, "purges": items.encode_purges(state.purges)},
            {"purge_ms": purge_ms, "purges": items.encode_purges(purges)},
        )

    def open_replay(self, state: TopicState, delivery: Delivery) -> Replay:
        """Starts a replay in a single transaction."""
        key = delivery.key
        failed = self._table.transact(
            [
                Put(item=items.encode_delivery(delivery)),
                Check(
                    key=layout.subscription_key(key.topic, key.subscription),
                    condition="generation = :generation AND #state <> :paused",
                    values={"generation": key.generation, "paused": State.PAUSED.value},
                ),
                Change(
                    key=layout.topic_state_key(state.topic),
                    condition=f"{items.SAME_TOPIC} AND collected_until <= :a",
                    values={"generation": state.generation, "a": key.plan},
                    adds={"subscriptions_version": 1},
                ),
            ],
            action="open_replay",
            topic=state.topic,
        )
        if 2 in failed:
            return Replay.COLLECTED
        return Replay.REFUSED if failed else Replay.OPENED

    def mark_deleting(self, state: TopicState, generation: str, now_ms: int) -> bool:
        """Marks the topic as being deleted with a single UpdateItem."""
        looks = items.check_fields(state.topic, now_ms)
        marks: dict[str, Value | None] = {"generation": generation, "sealed": ALL_SEALED, "deleting_at_ms": now_ms}
        return self._change_if_seen(state, "mark_deleting", {}, marks | looks)

    def deletion(self, topic: str) -> TopicState | None:
        """Reads the state of a topic being deleted with a single GetItem."""
        item = self._table.get(layout.topic_state_key(topic))
        found = None if item is None else items.decode_topic_state(item)
        return found if found is not None and found.deleting_at_ms is not None else None

    def claim_deletion(self, state: TopicState, next_check_ms: int) -> bool:
        """Claims the deletion with a single UpdateItem."""
        seen: dict[str, Value | None] = {layout.CHECK_SORT_KEY: state.next_check_ms}
        looks = items.check_fields(state.topic, next_check_ms)
        return self._change_if_seen(state, "claim_deletion", seen, looks)

    def delete_items(self, topic: str) -> bool:
        """Deletes up to 500 items, each with a DeleteItem, after some queries."""
        found = list(islice(self._keys_of(topic), MAX_DELETED_ITEMS))
        for key in found:
            self._table.delete(key, action="delete_items", topic=topic)
        return not found

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

    def forget_topic(self, state: TopicState) -> bool:
        """Deletes the topic state if its generation is unchanged, in a transaction of a single write."""
        delete = Delete(
            key=layout.topic_state_key(state.topic),
            condition=items.SAME_TOPIC,
            values={"generation": state.generation},
        )
        return not self._table.transact([delete], action="forget_topic", topic=state.topic)

    def _change_if_seen(
        self,
        state: TopicState,
        action: str,
        seen: dict[str, Value | None],
        sets: dict[str, Value | None],
    ) -> bool:
        """Changes the topic state if its generation and the given attributes are unchanged. None means absent."""
        values: dict[str, Value] = {"generation": state.generation}
        condition = items.SAME_TOPIC
        for name, value in seen.items():
            if value is None:
                condition += f" AND attribute_not_exists({name})"
            else:
                condition += f" AND {name} = :{name}"
                values[name] = value
        change = Change(key=layout.topic_state_key(state.topic), condition=condition, values=values, sets=sets)
        done, _ = self._table.update(change, action=action, topic=state.topic)
        return done
