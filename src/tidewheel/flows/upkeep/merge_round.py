"""Plans all disjoint merges of a topic that can be written side by side.

Each merge is chosen as if the merges before it were done: their sources are gone, and their outputs count as live. A
merge of such an output belongs to the next round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.runs import MergeSize
from tidewheel.flows.upkeep.consider_merge import most_of, size_of
from tidewheel.flows.upkeep.merge_planning import Merge, choose
from tidewheel.flows.upkeep.merge_rows import MergeWork
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.slots import slots_of
from tidewheel.model.topic_state import TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Says which merges a run may do.

    Attributes:
        everything: merge all small ledgers, however few.
        largest: the largest merge of this run. A larger merge is handed over.
        split: whether larger merges are made small enough for this run, since there is no job to take them.
    """

    everything: bool
    largest: MergeSize
    split: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMerge:
    """A merge, and the topic state that was read before the buckets.

    Rows below the state's `planned` are in plans already.
    """

    state: TopicState
    merge: Merge

    @property
    def work(self) -> MergeWork:
        """The merge for a writer."""
        return MergeWork(
            topic=self.state.topic,
            generation=self.state.generation,
            settings=self.state.settings,
            merge=self.merge,
            purge_ms=self.state.purge_ms,
            purges=self.state.purges,
        )


class Round(NamedTuple):
    """The merges of a topic in one round, and whether the next is too large for this run."""

    merges: list[PlannedMerge]
    handed_over: bool


def plan_round(ports: Ports, topic: str, choice: Choice, left_alone: Iterable[str], most_merges: int) -> Round:
    """Plans the merges of one topic.

    Args:
        ports: the service.
        topic: its name.
        choice: the merges that this run may do.
        left_alone: names of ledgers that are not merged, nor counted.
        most_merges: the maximum.
    """
    state = ports.topic_states.read(topic)
    if state is None:
        return Round([], handed_over=False)
    names = frozenset(left_alone)
    buckets = {each.id: each for each in ports.buckets.all(topic, {}) if each.object_name not in names}
    most = most_of(MergeSize.SMALL if choice.split else MergeSize.LARGE)
    limit = state.settings.max_buckets
    expected: set[str] = set()
    planned: list[PlannedMerge] = []
    while len(planned) < most_merges:
        merge = choose(buckets.values(), state.planned, state.slot_ms, limit, everything=choice.everything, most=most)
        if merge is None or any(source.id in expected for source in merge.sources):
            break
        if size_of(merge) is MergeSize.LARGE and choice.largest is MergeSize.SMALL:
            return Round(planned, handed_over=True)
        planned.append(PlannedMerge(state=state, merge=merge))
        for source in merge.sources:
            del buckets[source.id]
        if not choice.everything:  # such a run never merges its own outputs
            outputs = {each.id: each for each in _expected(merge)}
            expected |= outputs.keys()
            buckets |= outputs
    return Round(planned, handed_over=False)


def _expected(merge: Merge) -> Iterator[Bucket]:
    """Yields the outputs that a merge will have, by its estimates."""
    for i, (first, end) in enumerate(pairwise(merge.cuts)):
        shares = [(share, source) for source in merge.sources if (share := source.share(first, end))]
        if shares:
            yield Bucket(
                id=merge.output_id(i),
                object_name="",
                size_bytes=int(sum(share * source.size_bytes for share, source in shares)),
                rows=int(sum(share * source.rows for share, source in shares)),
                slots=slots_of({first, end - 1}),
                segments=(),
            )
