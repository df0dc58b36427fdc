"""Plans all disjoint merges of a topic that can be written side by side.

Each merge is chosen among the ledgers that no merge before it takes. A merge of an output belongs to the next round.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidewheel.flows.maintenance.consider_merge import most_of, nearest, size_of
from tidewheel.flows.maintenance.merge_planning import choose
from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.flows.maintenance.retention import dead_of
from tidewheel.flows.ports import MergeSize, Ports
from tidewheel.model.message import id_bytes


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


def plan_round(
    ports: Ports, topic: str, choice: Choice, left_alone: Iterable[str], written: Iterable[str], most_merges: int
) -> tuple[list[MergeWork], bool]:
    """Plans the merges of one topic.

    Returns:
        The merges, and whether the next merge is too large for this run.

    Args:
        ports: the service.
        topic: its name.
        choice: the merges that this run may do.
        left_alone: names of ledgers that are not merged, nor counted.
        written: names of the run's own outputs. They have nothing dead to the run, so that it ends: a clock that is
            ahead may have made a tombstone.
        most_merges: the maximum.
    """
    state = ports.topic_states.read(topic)
    if state is None:
        return [], False
    names = frozenset(left_alone)
    live = ports.buckets.in_order(topic, {}) if choice.everything else nearest(ports, topic, unreadable={})
    buckets = {each.id: each for each in live if each.object_name not in names}
    now_ms = ports.clock.now_ms()
    tombstones = [each for each in ports.tombstones.all(topic) if each.certain]
    own = frozenset(written)
    others = [each for each in buckets.values() if each.object_name not in own]
    dead = dead_of(state, others, tombstones, now_ms)
    most = most_of(MergeSize.SMALL if choice.split else MergeSize.LARGE)
    limit, first_slot = state.settings.max_buckets, state.planned
    cancelled = b"".join(sorted(id_bytes(each.id) for each in tombstones if each.slot >= first_slot))
    merges: list[MergeWork] = []
    while len(merges) < most_merges:
        merge = choose(
            buckets.values(), first_slot, state.slot_ms, limit, everything=choice.everything, most=most, dead=dead
        )
        if merge is None:
            break
        if size_of(merge) is MergeSize.LARGE and choice.largest is MergeSize.SMALL:
            return merges, True
        merges.append(MergeWork(state=state, merge=merge, now_ms=now_ms, cancelled=cancelled))
        for source in merge.sources:
            del buckets[source.id]
    return merges, False
