"""Stores buckets, the metadata of ledgers, and merges of ledgers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from tidewheel import clock as clocks
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.model.plan import Trash
from tidewheel.model.topic_state import NextWork, TopicState, above
from tidewheel.storage import items, table_keys
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Change, Delete, Item, Put, Value, as_seen, item_of


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
    ) -> Commit:
        """Commits a bucket.

        `T{put BUCKET IF absent; put IMPORT IF absent; STATE: work_version + 1, the next slot lowered IF generation
        same, sealed <= first slot, and next_slot compares with the first slot as in `state`}`.

        A bucket or import mark that exists is reported as existing, even if the topic state changed too.

        Args:
            state: as read; the write depends on its generation and on how its next_slot compares with the first slot.
            bucket: the new bucket.
            next_work: the lowered marks (collect_at_ms is not written), or None when next_slot is at or below the first
                slot already.
            merge_at_ms: when the sweep is to consider a merge; the next check is then no later than this time.
            once: `<import id>#<mark>` of a bucket of an import. The table keeps `once` for 90 days, even if
                the bucket is deleted. If `once` is there already, the answer is EXISTS.
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
            table_keys.topic_partition(topic), table_keys.imports_prefix(import_id), projection="pk, sk"
        )
        return frozenset(table_keys.import_mark(items.key_of(item)[1]) for item in found)

    def read(self, topic: str, bucket_id: BucketId) -> Bucket | None:
        """Reads a bucket."""
        return self._table.read(table_keys.bucket_key(topic, bucket_id), items.decode_bucket)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Bucket]:
        """Reads all buckets of a topic in the order of their ids, page by page.

        The result is a snapshot only together with a condition on swap_version.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        return self._table.read_all(
            table_keys.topic_partition(topic), table_keys.BUCKETS, items.decode_bucket, unreadable
        )

    def in_order(
        self,
        topic: str,
        unreadable: dict[str, Exception] | None = None,
        *,
        first_slot: int = 0,
        end_slot: int | None = None,
        after: BucketId | None = None,
        limit: int | None = None,
    ) -> Iterator[Bucket]:
        """Yields the buckets whose ids begin with slots of [first_slot, end_slot), in the order of their ids.

        Pages are read as the caller asks for buckets, so a caller that stops does not read the rest. A bucket behind a
        page that is read may be swapped before it is yielded. The result is a snapshot only together with a condition
        on swap_version.

        Args:
            unreadable: as for `all`; gets each name when its turn comes.
            end_slot: None: no end.
            after: only buckets behind this bucket, instead of `first_slot`.
            limit: how many are read, in one request. None: all.
        """
        behind = None if after is None else table_keys.bucket_key(topic, after)[1]
        partition = table_keys.topic_partition(topic)
        found = self._table.query_slots(partition, table_keys.BUCKETS, first_slot, end_slot, after=behind, limit=limit)
        return items.each_readable(found, items.decode_bucket, table_keys.BUCKETS, unreadable)

    def delete(self, topic: str, bucket_id: BucketId) -> None:
        """Deletes a bucket's item."""
        self._table.delete(table_keys.bucket_key(topic, bucket_id), action="delete_bucket", topic=topic)

    def restore(self, topic: str, bucket: Bucket) -> None:
        """Puts a bucket and overwrites an existing bucket."""
        self._table.put(Put(item=items.encode_bucket(topic, bucket)), action="restore_bucket", topic=topic)


def _import_mark(topic: str, once: str) -> Put:
    ttl_s = clocks.current().now_ms() // 1000 + IMPORT_TTL_S
    fields: dict[str, Value | None] = {"v": items.VERSION, table_keys.TTL_ATTRIBUTE: ttl_s}
    return Put(item=item_of(table_keys.import_key(topic, once), fields), if_absent=True)


class Merges(StoredItems):
    """Swaps of ledgers, the lease of a topic's merge, and the trash."""

    def lease(self, topic: str, now_ms: int, until_ms: int, held_until_ms: int | None = None) -> bool:
        """Leases a topic's merge, so that one run works at a time. Returns False if refused.

        `MERGE: until_ms = ... IF absent or its until_ms <= now_ms or its until_ms = held_until_ms`.

        Args:
            topic: the topic's name.
            now_ms: the time.
            until_ms: the end of the lease.
            held_until_ms: the end of this run's lease, which is renewed. None: this run has no lease.
        """
        condition, values = "attribute_not_exists(until_ms) OR until_ms <= :now", {"now": now_ms}
        if held_until_ms is not None:
            condition, values = f"{condition} OR until_ms = :held", {**values, "held": held_until_ms}
        sets = {"v": items.VERSION, "until_ms": until_ms}
        lease = Change(key=table_keys.merge_key(topic), condition=condition, values=values, sets=sets)
        return self._table.change(lease, action="lease_merge", topic=topic)

    def release(self, topic: str, until_ms: int) -> None:
        """Releases a merge lease if its end is `until_ms`. Another run's lease stays."""
        release = Change(key=table_keys.merge_key(topic), sets={"until_ms": None}, **as_seen({"until_ms": until_ms}))
        self._table.change(release, action="release_merge", topic=topic)

    def swap(
        self, state: TopicState, sources: Sequence[Bucket], outputs: Sequence[Bucket], trash: Trash, dropped: int = 0
    ) -> bool:
        """Swaps sources for outputs. Returns False if nothing was written.

        `T{put outputs; delete each source IF the source exists; put TRASH; STATE: swap_version + 1, waiting - dropped
        IF planned <= trash.sealed and generation as read}`.
        """
        topic = state.topic
        puts = [Put(item=items.encode_bucket(topic, each)) for each in outputs]
        deletes = [Delete(key=table_keys.bucket_key(topic, each.id)) for each in sources]
        kept = Put(item=items.encode_trash(topic, trash))
        adds = {"swap_version": 1, **({"waiting": -dropped} if dropped else {})}
        change = items.state_change(state, "planned <= :sealed", values={"sealed": trash.sealed}, adds=adds)
        return self._table.commit([*puts, *deletes, kept, change], action="swap", topic=topic)

    def put_trash(self, topic: str, trash: Trash) -> None:
        """Puts trash, before the buckets of its objects are deleted: names only move from buckets to the trash."""
        self._table.put(Put(item=items.encode_trash(topic, trash)), action="put_trash", topic=topic)

    def trash(self, topic: str, end_slot: int | None = None) -> list[Trash]:
        """Reads the trash that is dead from a slot below `end_slot` on, in this order. None: all."""
        return [items.decode_trash(item) for item in self._trash(topic, 0, end_slot)]

    def last_trash(self, topic: str) -> int | None:
        """Returns from which slot on the last trash is dead. None: there is no trash."""
        last = next(self._trash(topic, 0, None, projection="pk, sk", limit=1, backwards=True), None)
        return None if last is None else int(items.key_of(last)[1].split("#")[1])

    def _trash(self, topic: str, first_slot: int, end_slot: int | None, **how: Any) -> Iterator[Item]:
        return self._table.query_slots(table_keys.topic_partition(topic), table_keys.TRASH, first_slot, end_slot, **how)

    def delete_trash(self, topic: str, trash: Trash) -> None:
        """Deletes a trash item."""
        self._table.delete(table_keys.trash_key(topic, trash.dead_from, trash.id), action="delete_trash", topic=topic)
