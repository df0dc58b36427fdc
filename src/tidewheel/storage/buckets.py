"""Stores buckets, the metadata of ledgers."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from tidewheel import clock as clocks
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.model.topic_state import NextWork, TopicState, above
from tidewheel.storage import items, layout
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Put, Value, item_of


class Commit(Enum):
    """The outcome of a bucket's commit."""

    COMMITTED = "committed"
    EXISTS = "exists"
    """An earlier try committed the same content."""
    MOVED = "moved"
    """The topic state is not as read. Read the topic state again and route again."""


IMPORT_TTL_S = 90 * 86_400
"""Time in which an import can be repeated without adding messages, after its ledgers are merged or delivered."""


class Buckets(StoredItems):
    """The buckets of each topic."""

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
        """Commits a bucket.

        `T{put BUCKET IF absent; put IMPORT IF absent; STATE: work_version + 1, the next slot lowered IF generation
        same, sealed <= first slot, next_slot compares with the first slot as in `state`, and swap_version is as read if
        `same_swaps`}`.

        A bucket or import mark that exists is reported as existing, even if the topic state changed too.

        Args:
            state: as read; the write depends on its generation and on how its next_slot compares with the first slot.
            bucket: the new bucket.
            next_work: the lowered marks (collect_at_ms is not written), or None when next_slot is at or below the first
                slot already.
            merge_at_ms: when the sweep is to consider a merge; the next check is then no later than this time.
            once: `<import id>#<mark>` of a bucket of an import. The table keeps `once` for 90 days, even if
                the bucket is deleted. If `once` is there already, the answer is EXISTS.
            same_swaps: refuse the commit if a merge or a purge swapped ledgers since the topic state was read.
        """
        first = bucket.first_slot
        sets: dict[str, Value | None] = {}
        if next_work is not None:
            sets = {"next_slot": next_work.next_slot, **items.check_fields(state.topic, next_work.next_check_ms)}
        if merge_at_ms is not None:
            sets |= {"merge_at_ms": merge_at_ms, **items.check_fields(state.topic, merge_at_ms)}
        change = items.state_change(
            state,
            "sealed <= :first",
            items.next_slot_comparison(above(state.next_slot, first), ":first"),
            seen={"swap_version": state.swap_version} if same_swaps else {},
            values={"first": first},
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
        """Reads the marks of an import's committed chunks."""
        found = self._table.query_prefix(
            layout.topic_partition(topic), layout.imports_prefix(import_id), projection="pk, sk"
        )
        return frozenset(layout.import_cut(items.key_of(item)[1]) for item in found)

    def read(self, topic: str, bucket_id: BucketId) -> Bucket | None:
        """Reads one bucket."""
        return self._table.read(layout.bucket_key(topic, bucket_id), items.decode_bucket)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Bucket]:
        """Reads all buckets of a topic in the order of their ids, page by page.

        The result is a snapshot only together with a condition on swap_version.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        return self._table.read_all(layout.topic_partition(topic), layout.BUCKETS, items.decode_bucket, unreadable)

    def in_order(
        self,
        topic: str,
        unreadable: dict[str, Exception] | None = None,
        *,
        first_slot: int = 0,
        end_slot: int | None = None,
    ) -> Iterator[Bucket]:
        """Yields the buckets whose ids begin with slots of [first_slot, end_slot), in the order of their ids.

        Pages are read as the caller asks for buckets, so a caller that stops does not read the rest. A bucket behind a
        page that is read may be swapped before it is yielded. The result is a snapshot only together with a condition
        on swap_version.

        Args:
            unreadable: as for `all`; gets each name when its turn comes.
            end_slot: None: no end.
        """
        first, last = layout.bucket_range(first_slot, end_slot)
        found = self._table.query(
            "pk = :pk AND sk BETWEEN :first AND :last",
            {"pk": layout.topic_partition(topic), "first": first, "last": last},
        )
        return items.each_readable(found, items.decode_bucket, layout.BUCKETS, unreadable)

    def page(self, topic: str, count: int, after: BucketId | None) -> list[Bucket]:
        """Reads up to `count` buckets behind a bucket, in the order of their ids, in one request.

        Leaves out buckets that cannot be read.
        """
        first, last = layout.bucket_range(0, None)
        found = self._table.query(
            "pk = :pk AND sk BETWEEN :first AND :last",
            # No character of an id is before a blank.
            {
                "pk": layout.topic_partition(topic),
                "first": first if after is None else f"{layout.bucket_key(topic, after)[1]} ",
                "last": last,
            },
            limit=count,
        )
        return list(items.each_readable(found, items.decode_bucket, layout.BUCKETS, {}))

    def delete(self, topic: str, bucket_id: BucketId) -> None:
        """Deletes a bucket's item."""
        self._table.delete(layout.bucket_key(topic, bucket_id), action="delete_bucket", topic=topic)

    def restore(self, topic: str, bucket: Bucket) -> None:
        """Puts a bucket and overwrites an existing bucket."""
        self._table.put(Put(item=items.encode_bucket(topic, bucket)), action="restore_bucket", topic=topic)

    def repair(self, topic: str, bucket: Bucket) -> bool:
        """Overwrites the item of a bucket, which cannot be read. Returns False if the item is gone."""
        put = Put(item=items.encode_bucket(topic, bucket), condition="attribute_exists(pk)")
        return self._table.put(put, action="repair_bucket", topic=topic)


def _import_mark(topic: str, once: str) -> Put:
    ttl_s = clocks.current().now_ms() // 1000 + IMPORT_TTL_S
    fields: dict[str, Value | None] = {"v": items.VERSION, layout.TTL_ATTRIBUTE: ttl_s}
    return Put(item=item_of(layout.import_key(topic, once), fields), if_absent=True)
