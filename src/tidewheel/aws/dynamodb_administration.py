"""What administrators change of a topic as a whole, in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tidewheel.aws import dynamodb_items as items
from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb_table import Table
from tidewheel.aws.dynamodb_writes import Change, Check, Delete, Put, Value
from tidewheel.flows.ports.administration import Replay
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription import Delivery, State
from tidewheel.model.topic_state import ALL_SEALED, Purge, TopicState

MAX_DELETED_ITEMS = 500
"""Items of one `delete_items`: a few seconds' worth."""


class DynamoAdministration:
    """The part of the port `Topics` of `tidewheel.flows.ports.administration`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def update_settings(self, state: TopicState, settings: TopicSettings) -> bool:
        """One GetItem and one UpdateItem: another release may have written the same settings in other words."""
        item = self._table.get(layout.topic_state_key(state.topic))
        if item is None or items.decode_topic_state(item).settings != state.settings:
            return False
        seen = item["settings"]["S"]
        return self._change_if_seen(
            state, "update_settings", {"settings": seen}, {"settings": settings.to_json(keeping=seen)}
        )

    def set_purges(self, state: TopicState, purge_ms: int, purges: Sequence[Purge]) -> bool:
        """One UpdateItem."""
        return self._change_if_seen(
            state,
            "set_purges",
            {"purge_ms": state.purge_ms, "purges": items.encode_purges(state.purges)},
            {"purge_ms": purge_ms, "purges": items.encode_purges(purges)},
        )

    def open_replay(self, state: TopicState, delivery: Delivery) -> Replay:
        """One transaction."""
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
        """One UpdateItem."""
        looks = items.check_fields(state.topic, now_ms)
        marks: dict[str, Value | None] = {"generation": generation, "sealed": ALL_SEALED, "deleting_at_ms": now_ms}
        return self._change_if_seen(state, "mark_deleting", {}, marks | looks)

    def deletion(self, topic: str) -> TopicState | None:
        """One GetItem."""
        item = self._table.get(layout.topic_state_key(topic))
        found = None if item is None else items.decode_topic_state(item)
        return found if found is not None and found.deleting_at_ms is not None else None

    def claim_deletion(self, state: TopicState, next_check_ms: int) -> bool:
        """One UpdateItem."""
        seen: dict[str, Value | None] = {layout.CHECK_SORT_KEY: state.next_check_ms}
        looks = items.check_fields(state.topic, next_check_ms)
        return self._change_if_seen(state, "claim_deletion", seen, looks)

    def delete_items(self, topic: str) -> bool:
        """Some queries, and one DeleteItem each: at most 500 a call."""
        found = list(islice(self._keys_of(topic), MAX_DELETED_ITEMS))
        for key in found:
            self._table.delete(key, action="delete_items", topic=topic)
        return not found

    def _keys_of(self, topic: str) -> Iterator[layout.Key]:
        """Yields the keys of what there is: subscriptions first, since no plan is handed out to one that is gone."""
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
        """One transaction of one item: deletes it only if it is the one that was read."""
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
        """Changes the topic state if its generation is as read and these attributes are as seen; None is absent."""
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
