"""Merges many small ledgers into few, and swaps the ledgers in one transaction.

A merge needs no lock against ingest, dispatch, collection or another merge. Plans name immutable objects, which the
trash keeps until every plan that may name them is behind all cursors. The lease only saves work.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from tidewheel.errors import CorruptLedger, ObjectMissing, ObjectRefused
from tidewheel.flows.delivery.load_index import complete
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.merges import Trash
from tidewheel.flows.ports.objects import Objects
from tidewheel.flows.ports.runs import MergeSize
from tidewheel.flows.upkeep.consider_merge import most_of, nearest, size_of
from tidewheel.flows.upkeep.merge_planning import Merge, Most, choose
from tidewheel.flows.upkeep.merge_rows import MergeWork, write_output
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.delayed_index import waiting_rows
from tidewheel.model.topic_state import TopicState

_MOST_REFUSED = 3
_SWAPS = 5


class Engine(Protocol):
    """Writes the outputs of a merge, on any machine."""

    def __call__(self, work: MergeWork, /) -> Iterable[Bucket | None]:
        """Writes each output with `write_output`, in any order. Raises the errors of `write_output`."""
        ...


def in_process(objects: Objects) -> Engine:
    """Returns the engine that writes the outputs one by one in this process."""

    def write(work: MergeWork) -> Iterable[Bucket | None]:
        return (write_output(objects, work, i) for i in range(work.outputs))

    return write


@dataclass(slots=True, kw_only=True)
class Merged:
    """The result of a run.

    Attributes:
        merges: committed swaps.
        sources, outputs: ledgers replaced, ledgers written.
        written: names of the outputs.
        rows, live_bytes: rewritten; live_bytes is an estimate made before the merge.
        refused: merges done in vain, since another merge had taken a source.
        skipped: unreadable sources; they stay, and the others are merged without them.
        handed_over: the next merge is too large for a function; a job was started.
    """

    merges: int = 0
    sources: int = 0
    outputs: int = 0
    written: set[str] = field(default_factory=set)
    rows: int = 0
    live_bytes: int = 0
    refused: int = 0
    skipped: list[ObjectMissing | ObjectRefused | CorruptLedger] = field(default_factory=list)
    handed_over: bool = False


def merge(
    ports: Ports,
    topic: str,
    engine: Engine,
    *,
    lease_s: int,
    largest: MergeSize = MergeSize.LARGE,
    everything: bool = False,
    time_left: Callable[[], bool] = lambda: True,
    progress: Callable[[Merge], None] = lambda _: None,
) -> Merged | None:
    """Merges a topic's ledgers until few enough are left.

    Returns None if the topic is absent or another run holds the lease.

    If it stops
        after the lease: the next run begins when the lease has run out.
        while outputs are written, or before the swap: nothing names the outputs, and the orphan sweep deletes them.
        after the swap: the trash names the sources until they are collected.

    Args:
        engine: writes the outputs.
        lease_s: longer than this run can live, in seconds.
        largest: the largest merge that this run may do. A larger merge is handed over, or split where there is no job
            to take it.
        everything: merge all small ledgers, however few.
        time_left: asked before each further merge.
        progress: called with each merge before the merge begins.
    """
    state = ports.topic_states.read(topic)
    now_ms = ports.clock.now_ms()
    until_ms = now_ms + lease_s * 1000
    # Without a job for larger merges, all merges are small enough for this run.
    most = most_of(MergeSize.SMALL if {largest, ports.runs.largest} == {MergeSize.SMALL} else MergeSize.LARGE)
    if state is None or not ports.merges.lease(topic, now_ms, until_ms):
        return None
    merged = Merged()
    try:
        while (chosen := _choose(ports, topic, merged, most, everything)) is not None:
            state, next_merge = chosen
            if size_of(next_merge) is MergeSize.LARGE and largest is MergeSize.SMALL:
                merged.handed_over = True
                break
            progress(next_merge)
            _merge(ports, state, next_merge, engine, merged)
            if merged.refused > _MOST_REFUSED or not time_left():
                break
    finally:
        ports.merges.release(topic, until_ms)
    if merged.handed_over:
        ports.runs.merge(topic, MergeSize.LARGE)
    return merged


def _choose(ports: Ports, topic: str, merged: Merged, most: Most, everything: bool) -> tuple[TopicState, Merge] | None:
    """Returns the next merge, and the topic state read before the buckets.

    Rows below the state's `planned` are in plans already.
    """
    state = ports.topic_states.read(topic)
    if state is None:
        return None
    # A run that merges everything skips its own outputs, so that it ends.
    left_alone = {error.object_name for error in merged.skipped} | (merged.written if everything else set())
    live = ports.buckets.in_order(topic, {}) if everything else nearest(ports, topic)
    buckets = (bucket for bucket in live if bucket.object_name not in left_alone)
    chosen = choose(buckets, state.planned, state.slot_ms, state.settings.max_buckets, everything=everything, most=most)
    return None if chosen is None else (state, chosen)


def _merge(ports: Ports, state: TopicState, chosen: Merge, engine: Engine, merged: Merged) -> None:
    written: list[Bucket] = []
    try:
        work = MergeWork(
            topic=state.topic,
            generation=state.generation,
            settings=state.settings,
            merge=replace(chosen, sources=tuple(complete(ports.objects, each) for each in chosen.sources)),
            purge_ms=state.purge_ms,
            purges=state.purges,
        )
        written += (output for output in engine(work) if output is not None)
    except (ObjectMissing, ObjectRefused, CorruptLedger) as error:
        ports.objects.delete(output.object_name for output in written)
        if _replaced(ports, state, chosen, error.object_name):
            merged.refused += 1
        else:
            merged.skipped.append(error)
        return
    if not _swap(ports, state, chosen, written):
        ports.objects.delete(output.object_name for output in written)
        merged.refused += 1
        return
    merged.merges += 1
    merged.written |= {output.object_name for output in written}
    merged.sources += len(chosen.sources)
    merged.outputs += len(written)
    merged.rows += sum(output.rows for output in written)
    merged.live_bytes += chosen.live_bytes


def _swap(ports: Ports, state: TopicState, chosen: Merge, written: list[Bucket]) -> bool:
    """Swaps sources for outputs. The trash is stamped with the current `sealed`.

    A plan made after the sources were read may name the sources. It ends at or below `planned`, which is at or below
    the stamp at the time of the swap. Only a dispatch between the two steps can refuse the swap, so the swap is tried
    again.
    """
    for _ in range(_SWAPS):
        current = ports.topic_states.read(state.topic)
        # A rebuild lowers `planned`: rows that were left out as planned may be due again.
        if current is None or current.generation != state.generation or current.planned < state.planned:
            return False
        names = tuple(source.object_name for source in chosen.sources)
        trash = Trash(sealed=current.sealed, id=secrets.token_hex(8), objects=names)
        # Rows that the outputs leave out wait no longer, and estimates give way to exact numbers.
        dropped = waiting_rows(chosen.sources, current.planned) - waiting_rows(written, current.planned)
        if ports.merges.swap(current, chosen.sources, written, trash, dropped):
            return True
        if any(ports.buckets.read(state.topic, source.id) is None for source in chosen.sources):
            return False
    return False


def _replaced(ports: Ports, state: TopicState, chosen: Merge, object_name: str) -> bool:
    """Whether the bucket of an unreadable source is gone, because of another merge or a collection."""
    source = next(each for each in chosen.sources if each.object_name == object_name)
    return ports.buckets.read(state.topic, source.id) is None
