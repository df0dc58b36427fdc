"""Stores buckets in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator

from tidewheel import clock as clocks
from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Change, Put, Value, item_of
from tidewheel.flows.ports.buckets import Commit
from tidewheel.flows.ports.topic_states import NextWork
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.model.topic_state import TopicState, above

IMPORT_TTL_S = 90 * 86_400
"""Time in which an import can be repeated without adding messages, after its ledgers are merged or delivered."""


class DynamoBuckets:
    """Implements the port `Buckets`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def commit(
        self,
        state: TopicState,
        bucket: Bucket,
        next_work: NextWork | None,
        merge_at_ms: int | None = None,
        once: str | None = None,
        *,
        same_swaps: bool = False,
    ) -> Commit:
        """Commits a bucket in a single transaction.

        A bucket or import mark that exists is reported as existing, even if the topic state changed too.
        """
        first = bucket.first_slot
        sets: dict[str, Value | None] = {}
        if next_work is not None:
            sets = {"next_slot": next_work.next_slot, **items.check_fields(state.topic, next_work.next_check_ms)}
        if merge_at_ms is not None:
            sets |= {"merge_at_ms": merge_at_ms, **items.check_fields(state.topic, merge_at_ms)}
        values: dict[str, Value] = {"generation": state.generation, "first": first}
        if same_swaps:
            values["swap_version"] = state.swap_version
        change = Change(
            key=layout.topic_state_key(state.topic),
            condition=f"{items.SAME_TOPIC} AND sealed <= :first AND "
            + items.next_slot_comparison(above(state.next_slot, first), ":first")
            + (" AND swap_version = :swap_version" if same_swaps else ""),
            values=values,
            sets=sets,
            adds={"work_version": 1, "waiting": bucket.rows},
        )
        puts = [Put(item=items.encode_bucket(state.topic, bucket), if_absent=True)]
        if once is not None:
            puts.append(_import_mark(state.topic, once))
        failed = self._table.transact([*puts, change], action="commit_bucket", topic=state.topic)
        if any(i < len(puts) for i in failed):
            return Commit.EXISTS
        return Commit.MOVED if failed else Commit.COMMITTED

    def imported(self, topic: str, import_id: str) -> frozenset[int]:
        """Lists the marks of an import's committed chunks with a single query."""
        found = self._table.query_prefix(
            layout.topic_partition(topic), layout.imports_prefix(import_id), projection="pk, sk"
        )
        return frozenset(layout.import_cut(items.key_of(item)[1]) for item in found)

    def read(self, topic: str, bucket_id: BucketId) -> Bucket | None:
        """Reads a bucket with a single GetItem."""
        item = self._table.get(layout.bucket_key(topic, bucket_id))
        return None if item is None else items.decode_bucket(item)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Bucket]:
        found = self._table.query_prefix(layout.topic_partition(topic), layout.BUCKETS)
        return items.readable(found, items.decode_bucket, layout.BUCKETS, unreadable)

    def in_order(
        self,
        topic: str,
        unreadable: dict[str, Exception] | None = None,
        *,
        first_slot: int = 0,
        end_slot: int | None = None,
    ) -> Iterator[Bucket]:
        first, last = layout.bucket_range(first_slot, end_slot)
        found = self._table.query(
            "pk = :pk AND sk BETWEEN :first AND :last",
            {"pk": layout.topic_partition(topic), "first": first, "last": last},
        )
        return items.each_readable(found, items.decode_bucket, layout.BUCKETS, unreadable)

    def delete(self, topic: str, bucket_id: BucketId) -> None:
        """Deletes a bucket with a single DeleteItem."""
        self._table.delete(layout.bucket_key(topic, bucket_id), action="delete_bucket", topic=topic)

    def restore(self, topic: str, bucket: Bucket) -> None:
        """Restores a bucket with a single PutItem."""
        self._table.put(Put(item=items.encode_bucket(topic, bucket)), action="restore_bucket", topic=topic)

    def repair(self, topic: str, bucket: Bucket) -> bool:
        """Overwrites a bucket with a single PutItem."""
        put = Put(item=items.encode_bucket(topic, bucket), condition="attribute_exists(pk)")
        return self._table.put(put, action="repair_bucket", topic=topic)


def _import_mark(topic: str, once: str) -> Put:
    ttl_s = clocks.current().now_ms() // 1000 + IMPORT_TTL_S
    fields: dict[str, Value | None] = {"v": items.VERSION, layout.TTL_ATTRIBUTE: ttl_s}
    return Put(item=item_of(layout.import_key(topic, once), fields), if_absent=True)
