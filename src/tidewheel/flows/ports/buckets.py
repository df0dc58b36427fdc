"""The port to buckets, the metadata of ledgers."""

from __future__ import annotations

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
    ) -> Commit:
        """Commits a bucket.

        `T{put BUCKET IF absent; put IMPORT IF absent; STATE: work_version + 1, the next slot lowered IF generation
        same, sealed <= first slot and next_slot compares with the first slot as in `state`}`.

        Args:
            state: as read; the write depends on its generation and on how its next_slot compares with the first slot.
            bucket: the new bucket.
            next_work: the lowered marks (collect_at_ms is not written), or None when next_slot is at or below the first
                slot already.
            merge_at_ms: when the sweep is to consider a merge; the next check is then no later than this time.
            once: `<import id>#<mark>` of a bucket of an import. The table keeps `once` for 90 days, even if
                the bucket is deleted. If `once` is there already, the answer is EXISTS.
        """
        ...

    def imported(self, topic: str, import_id: str) -> frozenset[int]:
        """Reads the marks of an import's committed chunks."""
        ...

    def read(self, topic: str, bucket_id: BucketId) -> Bucket | None:
        """Reads one bucket."""
        ...

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Bucket]:
        """Reads all buckets of a topic, page by page.

        The result is a snapshot only together with a condition on swap_version.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
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
