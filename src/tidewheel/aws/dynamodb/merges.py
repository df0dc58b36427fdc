"""Stores merges and trash in DynamoDB."""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Change, Delete, Put
from tidewheel.flows.ports.merges import Trash
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.topic_state import TopicState


class DynamoMerges:
    """Implements the port `Merges`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def lease(self, topic: str, now_ms: int, until_ms: int, held_until_ms: int | None = None) -> bool:
        """Leases a topic's merge with a single UpdateItem."""
        mine = "" if held_until_ms is None else " OR until_ms = :held"
        lease = Change(
            key=layout.merge_key(topic),
            condition=f"attribute_not_exists(until_ms) OR until_ms <= :now{mine}",
            values={"now": now_ms, **({} if held_until_ms is None else {"held": held_until_ms})},
            sets={"v": items.VERSION, "until_ms": until_ms},
        )
        done, _ = self._table.update(lease, action="lease_merge", topic=topic)
        return done

    def release(self, topic: str, until_ms: int) -> None:
        """Releases a merge's lease with a single UpdateItem."""
        release = Change(
            key=layout.merge_key(topic),
            condition="until_ms = :until",
            values={"until": until_ms},
            sets={"until_ms": None},
        )
        self._table.update(release, action="release_merge", topic=topic)

    def swap(
        self, state: TopicState, sources: Sequence[Bucket], outputs: Sequence[Bucket], trash: Trash, dropped: int = 0
    ) -> bool:
        """Swaps ledgers in a single transaction with an item for each bucket, the trash and the topic state."""
        topic = state.topic
        failed = self._table.transact(
            [
                *(Put(item=items.encode_bucket(topic, each)) for each in outputs),
                *(Delete(key=layout.bucket_key(topic, each.id)) for each in sources),
                Put(item=items.encode_trash(topic, trash)),
                Change(
                    key=layout.topic_state_key(topic),
                    condition=f"{items.SAME_TOPIC} AND planned <= :sealed",
                    values={"generation": state.generation, "sealed": trash.sealed},
                    adds={"swap_version": 1, **({"waiting": -dropped} if dropped else {})},
                ),
            ],
            action="swap",
            topic=topic,
        )
        return not failed

    def trash(self, topic: str) -> list[Trash]:
        found = self._table.query_prefix(layout.topic_partition(topic), layout.TRASH)
        return [items.decode_trash(item) for item in found]

    def delete_trash(self, topic: str, trash: Trash) -> None:
        """Deletes a trash item with a single DeleteItem."""
        self._table.delete(layout.trash_key(topic, trash.sealed, trash.id), action="delete_trash", topic=topic)
