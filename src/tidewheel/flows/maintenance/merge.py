"""Merges many small ledgers into few, in rounds, and swaps the ledgers of each merge in one transaction.

    plan     all disjoint merges of all topics   -> their outputs are the tasks of one run
    write    outputs side by side, on any machines
    swap     each merge as soon as its own outputs are written, while others are still written
             -> the next round, until nothing is to do

A merge needs no lock against ingest, dispatch, collection or another merge. Plans name immutable objects, which the
trash keeps until every plan that may name them is behind all cursors. The lease only saves work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tidewheel.errors import CorruptLedger, ObjectMissing, ObjectRefused
from tidewheel.flows.administration.purge import collect_in_time
from tidewheel.flows.maintenance.consider_merge import ask_sweep
from tidewheel.flows.maintenance.merge_outputs import UNREADABLE, Writer, Written, in_process
from tidewheel.flows.maintenance.merge_planning import Merge
from tidewheel.flows.maintenance.merge_round import Choice, plan_round
from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.flows.maintenance.merge_swaps import QuietTimes, ReadyMerge, swap
from tidewheel.flows.ports import MergeSize, Ports
from tidewheel.ledger.bucket import Bucket

__all__ = ["Merged", "Writer", "in_process", "merge", "merge_topics"]

_MOST_REFUSED = 3
_MOST_MERGES = 400
"""Of one round. The round has all its merges' buckets in memory, 82 a merge."""


@dataclass(slots=True, kw_only=True)
class Merged:
    """The result of a run, for one topic.

    Attributes:
        merges: committed swaps.
        sources, outputs: ledgers replaced, ledgers written.
        written: names of the outputs.
        rows, live_bytes: rewritten; live_bytes is an estimate made before the merge.
        refused: merges done in vain, since another merge had taken a source.
        skipped: unreadable sources; they stay, and the others are merged without them.
        handed_over: the next merge is too large for a function; the sweep was asked to start a job.
        error: what ended the topic's merges before their end. Other topics' merges went on.
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
    error: Exception | None = None


def merge(ports: Ports, topic: str, writer: Writer, **options: Any) -> Merged | None:
    """Merges one topic's ledgers until few enough are left, with the options of `merge_topics`.

    Returns None if the topic is absent or another run holds the lease.
    """
    merged = merge_topics(ports, [topic], writer, **options).get(topic)
    if merged is not None and merged.error is not None:
        raise merged.error
    return merged


def merge_topics(
    ports: Ports,
    topics: Iterable[str],
    writer: Writer,
    *,
    lease_s: int,
    largest: MergeSize = MergeSize.LARGE,
    everything: bool = False,
    time_left: Callable[[], bool] = lambda: True,
    progress: Callable[[str, Merge], None] = lambda _topic, _merge: None,
    pause: Callable[[int], None] = lambda _: None,
) -> dict[str, Merged]:
    """Merges the ledgers of many topics until few enough are left of each.

    Returns the results by topic, without topics that are absent or that another run is merging.

    If it stops
        after a lease: the topic's next run begins when the lease has run out.
        while outputs are written, or before a swap: nothing names the outputs, and the orphan sweep deletes them.
        after a swap: the trash names the sources until they are collected. The other merges are independent. The daily
            sweep sets the collection of an idle topic's trash.
        after the collection of an idle topic is set: it deletes the trash.

    Args:
        ports: the service.
        topics: their names.
        writer: writes the outputs.
        lease_s: of a topic; longer than the longest task, since leases are renewed when tasks end.
        largest: the largest merge that this run may do. A larger merge is handed over, or split where there is no job
            to take it.
        everything: merge all small ledgers, however few.
        time_left: asked after each merge. Without time, the run ends after the swaps of all written merges.
        progress: called with each merge of a round before the round begins.
        pause: waits some milliseconds before a swap, or returns at once if only its caller moves the clock.
    """
    # Without a job for larger merges, all merges are small enough for this run.
    small_only = {largest, ports.runs.largest} == {MergeSize.SMALL}
    run = _Run(
        ports=ports,
        writer=writer,
        lease_ms=lease_s * 1000,
        choice=Choice(everything=everything, largest=largest, split=small_only),
        progress=progress,
        times=QuietTimes(ports, pause),
    )
    try:
        for topic in topics:
            run.begin(topic)
        while planned := run.plan():
            run.write(planned, time_left)
            if not time_left():
                break
    finally:
        run.release()
    run.collect()
    run.hand_over()
    return {each.name: each.merged for each in run.topics}


@dataclass(slots=True, kw_only=True, eq=False)
class _Topic:
    """A topic of a run.

    Attributes:
        until_ms: end of its lease; None: it has none.
        over: no further merge is planned.
        ready: written merges that wait for their swaps.
        swapped_ms: when the last merge was swapped.
    """

    name: str
    until_ms: int | None = None
    over: bool = False
    ready: deque[ReadyMerge] = field(default_factory=deque)
    swapped_ms: int | None = None
    merged: Merged = field(default_factory=Merged)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Keeps an error to this topic, whose merges end."""
        try:
            yield
        except Exception as error:
            self.merged.error = self.merged.error or error
            self.over = True
            self.ready.clear()


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run over some topics."""

    ports: Ports
    writer: Writer
    lease_ms: int
    choice: Choice
    progress: Callable[[str, Merge], None]
    times: QuietTimes
    topics: list[_Topic] = field(default_factory=list)

    def begin(self, name: str) -> None:
        """Leases an existing topic, unless another run has the lease."""
        topic = _Topic(name=name)
        with topic.guarded():
            now_ms = self.ports.clock.now_ms()
            state = self.ports.topic_states.read(name)
            if state is None or not self.ports.merges.lease(name, now_ms, now_ms + self.lease_ms):
                return
            topic.until_ms = now_ms + self.lease_ms
        self.topics.append(topic)

    def plan(self) -> list[tuple[_Topic, MergeWork]]:
        """Plans a round: disjoint merges of all topics that are not over."""
        planned: list[tuple[_Topic, MergeWork]] = []
        for topic in self.topics:
            if topic.over or len(planned) >= _MOST_MERGES:
                continue
            with topic.guarded():
                merged = topic.merged
                left_alone = {error.object_name for error in merged.skipped}
                if self.choice.everything:  # without its own outputs, so that it ends
                    left_alone |= merged.written
                most = _MOST_MERGES - len(planned)
                works, merged.handed_over = plan_round(
                    self.ports, topic.name, self.choice, left_alone, merged.written, most
                )
                topic.over = not works or merged.handed_over
                for each in works:
                    self.progress(topic.name, each.merge)
                    planned.append((topic, each))
        return planned

    def write(self, planned: list[tuple[_Topic, MergeWork]], time_left: Callable[[], bool]) -> None:
        """Writes the merges of a round, and swaps each merge at a quiet time."""
        with closing(self.writer.write_all([work for _, work in planned])) as outcomes:
            for place, written in outcomes:
                topic, work = planned[place]
                with topic.guarded():
                    self._take(topic, work, written)
                self._swap_some()
                self._renew_leases()
                if not time_left():
                    break
        while any(topic.ready for topic in self.topics):
            if not self._swap_some():
                self.times.pause()
                self._renew_leases()

    def _take(self, topic: _Topic, work: MergeWork, written: Written) -> None:
        """Lets a written merge wait for its swap, or deletes the outputs of a failed merge."""
        merged, error = topic.merged, written.error
        if error is None and merged.error is None:
            topic.ready.append(ReadyMerge(work, written.outputs, self.times.now_ms()))
            return
        self._delete(written.outputs)
        if isinstance(error, UNREADABLE):
            source = next(each for each in work.merge.sources if each.object_name == error.object_name)
            # It is gone because of another merge or a collection, or it is damaged.
            if self.ports.buckets.read(topic.name, source.id) is None:
                self._refuse(topic)
            elif error.object_name not in {each.object_name for each in merged.skipped}:
                merged.skipped.append(error)
        elif error is not None:
            raise error

    def _swap_some(self) -> bool:
        """Swaps the next merge of each topic, if the time is quiet. Returns whether any was swapped."""
        any_swapped = False
        for topic in self.topics:
            with topic.guarded():
                if topic.ready and self.times.allow(topic.ready[0], topic.swapped_ms):
                    any_swapped = True
                    self._swap(topic, topic.ready.popleft())
                    topic.swapped_ms = self.times.now_ms()
        return any_swapped

    def _swap(self, topic: _Topic, ready: ReadyMerge) -> None:
        if not swap(self.ports, ready):
            self._delete(ready.outputs)
            self._refuse(topic)
            return
        merged = topic.merged
        merged.merges += 1
        merged.written |= {output.object_name for output in ready.outputs}
        merged.sources += len(ready.work.merge.sources)
        merged.outputs += len(ready.outputs)
        merged.rows += sum(output.rows for output in ready.outputs)
        merged.live_bytes += ready.work.merge.live_bytes

    def _refuse(self, topic: _Topic) -> None:
        topic.merged.refused += 1
        topic.over = topic.over or topic.merged.refused > _MOST_REFUSED

    def _delete(self, outputs: Iterable[Bucket]) -> None:
        self.ports.objects.delete(output.object_name for output in outputs)

    def _renew_leases(self) -> None:
        now_ms = self.ports.clock.now_ms()
        for topic in self.topics:
            if topic.until_ms is not None and topic.until_ms - now_ms < self.lease_ms // 2:
                with topic.guarded():
                    held_ms, topic.until_ms = topic.until_ms, None
                    if self.ports.merges.lease(topic.name, now_ms, now_ms + self.lease_ms, held_ms):
                        topic.until_ms = now_ms + self.lease_ms
                    else:  # another run has begun; what this run has written is swapped if its sources are there
                        topic.over = True

    def release(self) -> None:
        """Releases all leases."""
        for topic in self.topics:
            if topic.until_ms is not None:
                with topic.guarded():
                    self.ports.merges.release(topic.name, topic.until_ms)

    def collect(self) -> None:
        """Sets the collection of the trash of idle topics."""
        for topic in self.topics:
            if topic.merged.merges:
                with topic.guarded():
                    collect_in_time(self.ports, self.ports.clock, topic.name)

    def hand_over(self) -> None:
        """Asks the sweep to consider the remaining merges, after a large run or if the next merge is too large."""
        for topic in self.topics:
            large = self.choice.largest is MergeSize.LARGE and topic.merged.merges > 0
            if (topic.merged.handed_over or large) and topic.merged.error is None:
                with topic.guarded():
                    ask_sweep(self.ports, topic.name, self.ports.clock.now_ms())
