"""The port to buckets, the metadata of ledgers."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Protocol

from tidewheel.flows.ports.topic_states import NextWork
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.model.topic_state import TopicState


class Commit(Enum):
    """The outcome of a bucket's commit."""

    COMMITTED = "committed"
    EXISTS = "exists"
    """An earlier try committed the same content."""
    MOVED = "moved"
    """The topic state is not as read. Read the topic state again and route again."""


class Buckets(Protocol):
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
        ...

    def imported(self, topic: str, import_id: str) -> frozenset[int]:
        """Reads the marks of an import's committed chunks."""
        ...

    def read(self, topic: str, bucket_id: BucketId) -> Bucket | None:
        """Reads one bucket."""
        ...

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Bucket]:
        """Reads all buckets of a topic in the order of their ids, page by page.

        The result is a snapshot only together with a condition on swap_version.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        ...

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
        ...

    def delete(self, topic: str, bucket_id: BucketId) -> None:
        """Deletes a bucket's item."""
        ...

    def restore(self, topic: str, bucket: Bucket) -> None:
        """Puts a bucket and overwrites an existing bucket."""
        ...

    def repair(self, topic: str, bucket: Bucket) -> bool:
        """Overwrites the item of a bucket, which cannot be read. Returns False if the item is gone."""
        ...
