"""Stores merges and the objects that they replace."""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.ledger.bucket import Bucket
from tidewheel.model.topic_state import TopicState
from tidewheel.model.trash import Trash
from tidewheel.storage import items, layout
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Change, Delete, Put, as_seen


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
        lease = Change(key=layout.merge_key(topic), condition=condition, values=values, sets=sets)
        return self._table.change(lease, action="lease_merge", topic=topic)

    def release(self, topic: str, until_ms: int) -> None:
        """Releases a merge lease if its end is `until_ms`. Another run's lease stays."""
        release = Change(key=layout.merge_key(topic), sets={"until_ms": None}, **as_seen({"until_ms": until_ms}))
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
        deletes = [Delete(key=layout.bucket_key(topic, each.id)) for each in sources]
        kept = Put(item=items.encode_trash(topic, trash))
        adds = {"swap_version": 1, **({"waiting": -dropped} if dropped else {})}
        change = items.state_change(state, "planned <= :sealed", values={"sealed": trash.sealed}, adds=adds)
        return self._table.commit([*puts, *deletes, kept, change], action="swap", topic=topic)

    def trash(self, topic: str) -> list[Trash]:
        """Reads the trash."""
        return self._table.read_all(layout.topic_partition(topic), layout.TRASH, items.decode_trash)

    def delete_trash(self, topic: str, trash: Trash) -> None:
        """Deletes a trash item."""
        self._table.delete(layout.trash_key(topic, trash.sealed, trash.id), action="delete_trash", topic=topic)
