"""Remembers the buckets that a merge took away, so that a pack that comes again commits no second ledger.

A pack comes again if its ingest died after the commit. Its ledger has the same content and the same id, and while the
bucket is there, the second commit is refused. A merge takes the bucket away, so it leaves a note first:

    merge     1 put the note of each source    2 swap the sources for the outputs; swap_version + 1
    ingest    1 read the topic state           2 read the note: done if it is there
              3 commit IF swap_version as read, else again from 1

If a merge stops after 1, the bucket is there still, so the answer is true all the same.
`tests/simulation/replaced_model.py` explores both flows.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.model.topic_state import TopicState
from tidewheel.model.triggers import RETENTION_S

_KEPT_S = 2 * RETENTION_S
"""Longer than one stay in the ingest queue, and one in the queue of dead letters."""


def remember_replaced(ports: Ports, topic: str, sources: Sequence[Bucket]) -> None:
    """Notes the buckets that a swap takes away, unless their packs are too old to come again.

    If it stops, the buckets that have a note are there still.
    """
    now_s = ports.clock.now_ms() // 1000
    young = [each for each in sources if not each.checked_ms or each.checked_ms // 1000 + _KEPT_S > now_s]
    ports.parallel(lambda each: ports.notes.put(topic, _name(each.id), 1, now_s + _KEPT_S), young)


def was_replaced(ports: Ports, state: TopicState, bucket_id: BucketId) -> bool:
    """Returns whether a merge took a bucket away. Reads nothing if the topic had no swap yet."""
    return bool(state.swap_version) and ports.notes.read(state.topic, _name(bucket_id)) is not None


def _name(bucket_id: BucketId) -> str:
    return f"replaced-{bucket_id}"
