"""Decides whether a topic needs a merge, and starts the merge. Reads no rows (see `merge`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.runs import MergeSize
from tidewheel.flows.ports.topic_states import check_again_at
from tidewheel.flows.upkeep.merge_planning import MOST, Merge, Most, choose
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.topic_state import TopicState

SMALL_BYTES = 512 * 1024 * 1024
SMALL_ROWS = 5_000_000
"""Together with SMALL_BYTES: the merge that a function completes in half of its time. Larger merges go to Spark. Five
million messages of 338 B, 570 MB in ledgers, are half a minute of its CPU, in 400 MB of its memory, independent of the
number of ledgers (`benchmarks/bench_merge.py`)."""


MOST_CONSIDERED = 10_000
"""Ledgers that a merge chooses from, those that begin first: 11 MB of the table, three seconds' worth of a partition's
reads. Those that begin later are considered when these are merged or delivered."""


def size_of(merge: Merge) -> MergeSize:
    """Returns the service on which a merge runs."""
    small = merge.live_bytes <= SMALL_BYTES and merge.live_rows <= SMALL_ROWS
    return MergeSize.SMALL if small else MergeSize.LARGE


def most_of(size: MergeSize) -> Most:
    """Returns the maximum that a merge of a size may rewrite."""
    return Most(SMALL_BYTES, SMALL_ROWS) if size is MergeSize.SMALL else MOST


def nearest(ports: Ports, topic: str) -> Iterator[Bucket]:
    """Yields a topic's buckets that a merge considers: those with the earliest slots, at most MOST_CONSIDERED."""
    return islice(ports.buckets.in_order(topic, {}), MOST_CONSIDERED)


def consider_merge(ports: Ports, state: TopicState) -> MergeSize | None:
    """Starts a merge if a topic has too many ledgers. Notes that a merge was considered.

    If it stops before the note, the next sweep considers a merge again; a second run finds the lease, or nothing to do.
    """
    buckets, most = nearest(ports, state.topic), most_of(ports.runs.largest)
    merge = choose(buckets, state.planned, state.slot_ms, state.settings.max_buckets, most=most)
    size = None if merge is None else size_of(merge)
    if size is not None:
        ports.runs.merge(state.topic, size)
    considered = replace(state, merge_at_ms=None)
    ports.topic_states.merge_considered(state, check_again_at(considered, state.collect_at_ms))
    return size
