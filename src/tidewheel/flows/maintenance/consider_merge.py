"""Decides whether a topic needs a merge, and starts the merge. Reads no rows (see `merge`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tidewheel.flows.maintenance.merge_planning import MOST, Merge, Size, choose, those_that_last
from tidewheel.flows.maintenance.retention import Dead, dead_of
from tidewheel.flows.ports import MergeSize, Ports
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.topic_states import check_again_at

SMALL_BYTES = 512 * 1024 * 1024
SMALL_ROWS = 5_000_000
"""Together with SMALL_BYTES: the merge that a function completes in half of its time. Larger merges go to Spark. Five
million messages of 338 B, 570 MB in ledgers, are half a minute of its CPU, in 400 MB of its memory, independent of the
number of ledgers (`benchmarks/bench_merge.py`)."""

MOST_CONSIDERED = 10_000
"""Ledgers that a merge chooses from, those that begin first: 11 MB of the table, three seconds' worth of a partition's
reads. Those that begin later are considered when these are merged or delivered."""

_AGAIN_MS = 1_800_000
_MOST_TOPICS = 500
"""Topics of a run, whose names are one argument."""
_ATTEMPTS = 20


def size_of(merge: Merge) -> MergeSize:
    """Returns the service on which a merge runs."""
    small = merge.live_bytes <= SMALL_BYTES and merge.live_rows <= SMALL_ROWS
    return MergeSize.SMALL if small else MergeSize.LARGE


def most_of(size: MergeSize) -> Size:
    """Returns the maximum that a merge of a size may rewrite."""
    return Size(SMALL_BYTES, SMALL_ROWS) if size is MergeSize.SMALL else MOST


def dead_among(ports: Ports, state: TopicState, buckets: Sequence[Bucket], tombstones: Iterable[Tombstone]) -> Dead:
    """Returns the dead bytes of a topic's ledgers, of which some tombstones surely took effect."""
    return dead_of(state, buckets, [each for each in tombstones if each.certain], ports.clock.now_ms())


class Rewrite(NamedTuple):
    """Whether a topic's dead bytes need a merge now or later.

    Attributes:
        now: the topic has more dead bytes than it may have, in ledgers that do not end soon.
        later: strict erasure rewrites ledgers that were written less than 20 hours ago.
    """

    now: bool
    later: bool = False


NO_REWRITE = Rewrite(now=False)


def rewrite_of(ports: Ports, state: TopicState, buckets: Sequence[Bucket], tombstones: Sequence[Tombstone]) -> Rewrite:
    """Returns whether a topic's dead bytes need a merge now or later.

    Args:
        state: read before the buckets.
        buckets: those of the topic that are not collected, in a topic of very many ledgers only the `nearest`.
        tombstones: all of the topic's.
    """
    dead = dead_among(ports, state, buckets, tombstones)
    now = bool(dead.deadest(those_that_last(buckets, state.planned, state.slot_ms)))
    return Rewrite(now, later=dead.due is not None and bool(dead.size_bytes))


def nearest(
    ports: Ports, topic: str, planned: int = 0, unreadable: dict[str, Exception] | None = None
) -> Iterator[Bucket]:
    """Yields the buckets with the earliest slots: all that begin below `planned`, and at most MOST_CONSIDERED others.

    Args:
        unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
    """
    others = 0
    for bucket in ports.buckets.in_order(topic, unreadable):
        others += bucket.first_slot >= planned
        if others > MOST_CONSIDERED:
            return
        yield bucket


def consider_merge(ports: Ports, state: TopicState) -> MergeSize | None:
    """Starts a merge in a function if a topic has too many ledgers or dead bytes. Notes the consideration.

    If it stops before the note, the next sweep considers a merge again; a second run finds the lease, or nothing to do.

    Returns:
        The size of the merge, None without one. One that is LARGE is neither started nor noted.
    """
    buckets, most = list(nearest(ports, state.topic, unreadable={})), most_of(ports.runs.largest)
    dead = dead_among(ports, state, buckets, ports.tombstones.all(state.topic))
    merge = choose(buckets, state.planned, state.slot_ms, state.settings.max_buckets, most=most, dead=dead)
    size = None if merge is None else size_of(merge)
    if size is MergeSize.SMALL:
        ports.runs.merge(state.topic)
    if size is not MergeSize.LARGE:
        note_considered(ports, state)
    return size


def note_considered(ports: Ports, state: TopicState) -> None:
    """Notes that a merge was considered."""
    ports.topic_states.merge_considered(state, check_again_at(replace(state, merge_at_ms=None), state.collect_at_ms))


def start_large(ports: Ports, topics: Sequence[str]) -> bool:
    """Starts one run for the large merges of topics. Returns False if another run is under way.

    The sweep considers these merges again in half an hour, whether the run has begun, is refused or dies. A run asks it
    to do so at its end. If it stops before the topics are noted, the next sweep considers them.
    """
    try:
        return bool(topics) and ports.runs.merge_large(topics[:_MOST_TOPICS])
    finally:
        at_ms = ports.clock.now_ms() + _AGAIN_MS
        for topic in topics:
            ask_sweep(ports, topic, at_ms)


def ask_sweep(ports: Ports, topic: str, at_ms: int) -> None:
    """Asks the sweep to consider a topic's merge at a time."""
    for _ in range(_ATTEMPTS):
        state = ports.topic_states.read(topic)
        if state is None:
            return
        check_ms = check_again_at(replace(state, merge_at_ms=at_ms), state.collect_at_ms)
        if ports.topic_states.set_collect_at(state, state.collect_at_ms, check_ms, at_ms):
            return
