"""Merges many small ledgers into few, and swaps the ledgers in one transaction.

A merge needs no lock against ingest, dispatch, collection or another merge. Plans name immutable objects, which the
trash keeps until every plan that may name them is behind all cursors. The lease only saves work.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from tidewheel.errors import CorruptLedger, ObjectMissing, ObjectRefused
from tidewheel.flows.administration.purge import collect_in_time
from tidewheel.flows.delivery.load_index import complete
from tidewheel.flows.delivery.replaced import remember_replaced
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.merges import Trash
from tidewheel.flows.ports.objects import Objects
from tidewheel.flows.ports.runs import MergeSize
from tidewheel.flows.upkeep.consider_merge import certain_tombstones, most_of, nearest, size_of
from tidewheel.flows.upkeep.merge_planning import Merge, Most, choose
from tidewheel.flows.upkeep.merge_rows import MergeWork, write_output
from tidewheel.flows.upkeep.retention import NOTHING_DEAD, dead_of
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.delayed_index import waiting_rows
from tidewheel.model.message import id_bytes
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
        after the swap: the trash names the sources. The daily sweep sets the collection of an idle topic's trash.
        after the collection of an idle topic is set: it deletes the trash.

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
            if size_of(chosen.merge) is MergeSize.LARGE and largest is MergeSize.SMALL:
                merged.handed_over = True
                break
            progress(chosen.merge)
            _merge(ports, chosen, engine, merged)
            if merged.refused > _MOST_REFUSED or not time_left():
                break
    finally:
        ports.merges.release(topic, until_ms)
    if merged.merges:
        collect_in_time(ports, ports.clock, topic)
    if merged.handed_over:
        ports.runs.merge(topic, MergeSize.LARGE)
    return merged


class _Chosen(NamedTuple):
    """The next merge, with the topic state, the time and the cancelled messages that it was chosen by."""

    state: TopicState
    merge: Merge
    now_ms: int
    cancelled: frozenset[bytes]


def _choose(ports: Ports, topic: str, merged: Merged, most: Most, everything: bool) -> _Chosen | None:
    """Returns the next merge. The topic state is read before the buckets, and the buckets before the tombstones.

    Rows below the state's `planned` are in plans already.
    """
    state = ports.topic_states.read(topic)
    if state is None:
        return None
    # A run that merges everything skips its own outputs, so that it ends.
    left_alone = {error.object_name for error in merged.skipped} | (merged.written if everything else set())
    live = ports.buckets.in_order(topic, {}) if everything else nearest(ports, topic, unreadable={})
    buckets = [bucket for bucket in live if bucket.object_name not in left_alone]
    now_ms = ports.clock.now_ms()
    tombstones = certain_tombstones(ports, state, buckets)
    # Its own outputs have nothing dead to it, so that it ends: a clock that is ahead may have made a tombstone.
    others = [bucket for bucket in buckets if bucket.object_name not in merged.written]
    dead = NOTHING_DEAD if tombstones is None else dead_of(state, others, tombstones, now_ms)
    limit = state.settings.max_buckets
    chosen = choose(buckets, state.planned, state.slot_ms, limit, everything=everything, most=most, dead=dead)
    if chosen is None:
        return None
    cancelled = (each for each in tombstones or () if chosen.cuts[0] <= each.slot < chosen.cuts[-1])
    return _Chosen(state, chosen, now_ms, frozenset(id_bytes(each.id) for each in cancelled))


def _merge(ports: Ports, by: _Chosen, engine: Engine, merged: Merged) -> None:
    state, chosen = by.state, by.merge
    written: list[Bucket] = []
    try:
        work = MergeWork(
            topic=state.topic,
            generation=state.generation,
            settings=state.settings,
            merge=replace(chosen, sources=tuple(complete(ports.objects, each) for each in chosen.sources)),
            purge_ms=state.purge_ms,
            purges=state.purges,
            cancelled=by.cancelled,
            now_ms=by.now_ms,
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
    again. The plan also has a slot of the sources, so it begins below `read_until`. `collected_until` is never inside
    a plan.

    If it stops before the swap, the sources are live, and have notes that say nothing else.
    """
    remember_replaced(ports, state.topic, chosen.sources)
    for _ in range(_SWAPS):
        current = ports.topic_states.read(state.topic)
        # A rebuild lowers `planned`: rows that were left out as planned may be due again.
        if current is None or current.generation != state.generation or current.planned < state.planned:
            return False
        names = tuple(source.object_name for source in chosen.sources)
        read_until = max(_read_until(source, current.sealed) for source in chosen.sources)
        trash = Trash(sealed=current.sealed, id=secrets.token_hex(8), objects=names, read_until=read_until)
        # Rows that the outputs leave out wait no longer, and estimates give way to exact numbers.
        dropped = waiting_rows(chosen.sources, current.planned) - waiting_rows(written, current.planned)
        if ports.merges.swap(current, chosen.sources, written, trash, dropped):
            return True
        if any(ports.buckets.read(state.topic, source.id) is None for source in chosen.sources):
            return False
    return False


def _read_until(source: Bucket, sealed: int) -> int:
    """Returns the end of the last slot below `sealed` of which a ledger may have rows."""
    shift = source.slot_shift
    before = source.slots.rank((sealed - 1) >> shift) if sealed > 0 else 0
    return min(sealed, (int(source.slots[before - 1]) + 1) << shift) if before else 0


def _replaced(ports: Ports, state: TopicState, chosen: Merge, object_name: str) -> bool:
    """Whether the bucket of an unreadable source is gone, because of another merge or a collection."""
    source = next(each for each in chosen.sources if each.object_name == object_name)
    return ports.buckets.read(state.topic, source.id) is None
