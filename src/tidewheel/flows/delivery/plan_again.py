"""Makes plans again whose objects are gone.

The new plan is made from buckets, trash and tombstones, and takes the place of the old, as another edition. Its parts
need not be those of the old plan, so a delivery of an older edition begins anew. So the messages of parts that are done
already come again, as copies with the same ids. So do messages of ledgers that were merged between the seal and the
plan, because nobody knows whether the plan named the old ledgers or the new. `tests/simulation/protocol_model.py`
explores the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidewheel.errors import ObjectMissing
from tidewheel.flows.delivery.load_index import completed, unindexed
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Tail, due_rows_of, due_segments
from tidewheel.ledger.index import touching
from tidewheel.ledger.reader import segments_of
from tidewheel.model.object_names import PLANS, parse_occurrences_name, topic_prefix
from tidewheel.model.plan import Plan, PlannedSegment, Segment, Unindexed, part_rows_of
from tidewheel.model.tombstone import KEPT_S
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.objects import Objects


def plan_at(ports: Ports, state: TopicState, first_slot: int) -> Plan | None:
    """Reads the plan that begins at a slot. Makes it again if its object is gone or damaged. None: there is no plan.

    Raises:
        ObjectMissing: the plan's object is gone, and ledgers or cancellations of its messages may be gone, too.
    """
    try:
        return ports.plans.read(state.topic, first_slot)
    except ObjectMissing:
        kept = ports.clock.now_ms() < first_slot * state.slot_ms + KEPT_S * 1000
        forgotten = ports.plans.read(state.topic, first_slot, whole=False)
        if not kept or first_slot < state.collected_until or forgotten is None:
            raise
        ports.plans.again(state, forgotten, _again(ports, state, forgotten))
        return ports.plans.read(state.topic, first_slot)  # perhaps somebody else's


def _again(ports: Ports, state: TopicState, forgotten: Plan) -> Plan:
    """Makes a plan once more, of all messages that it can have named."""
    topic, first_slot, end_slot = state.topic, forgotten.first_slot, forgotten.end_slot
    indexes = completed(
        ports, list(ports.buckets.in_order(topic, end_slot=end_slot)), first_slot, end_slot, state.slot_ms
    )
    others = [*_merged_away(ports, topic, first_slot, end_slot), *_occurrences(ports, topic, first_slot)]
    segments = due_segments(indexes.buckets, first_slot, end_slot, state.slot_ms)
    return replace(
        forgotten,
        segments=segments,
        cancelled=ports.tombstones.ids(topic, first_slot, end_slot),
        part_rows=part_rows_of(sum(each.due_rows for each in segments), state.settings.part_rows),
        unindexed=(*map(unindexed, indexes.unreadable), *others),
    )


def _merged_away(ports: Ports, topic: str, first_slot: int, end_slot: int) -> Iterator[Unindexed]:
    """Yields ledgers that were merged after the plan was made, because a merge leaves out rows that are planned.

    Ledgers without a row from the plan's first slot on are left out. A collection may delete them at any time.
    """
    for trash in ports.merges.trash(topic):
        if trash.sealed >= end_slot and trash.dead_from > first_slot:
            for name in trash.objects:
                yield _whole(name)


def _occurrences(ports: Ports, topic: str, first_slot: int) -> Iterator[Unindexed]:
    """Yields the objects with the occurrences of recurring messages, one for each try to make the plan.

    Nobody knows which try was committed. Occurrences that are in several come as often, with the same ids.
    """
    prefix = topic_prefix(PLANS, topic) + f"{first_slot}-"
    for each in list(ports.objects.list(prefix)):
        if parse_occurrences_name(each.name) is not None:
            yield _whole(each.name)


def _whole(name: str) -> Unindexed:
    """Returns an object as a ledger of which only the footer tells the segments."""
    return Unindexed(object_name=name, tail="", rows=1)


def segments_of_unindexed(objects: Objects, unindexed: Unindexed, plan: Plan, slot_ms: int) -> list[PlannedSegment]:
    """Returns the segments of a ledger without an index that may hold rows of a plan. Reads its tail or its footer.

    Raises:
        ObjectMissing: the ledger is gone.
        CorruptLedger, ValueError: its index is damaged.
    """
    name, first_ms, end_ms = unindexed.object_name, plan.first_slot * slot_ms, plan.end_slot * slot_ms
    if unindexed.tail:
        tail = Tail.of_tag(unindexed.tail)
        segments: Sequence[Segment] = tail.index(objects.get_range(name, tail.offset, tail.length), name)[1]
    else:
        size_bytes = sum(each.size_bytes for each in objects.list(name))
        if not size_bytes:
            raise ObjectMissing(name)
        segments = segments_of(lambda offset, length: objects.get_range(name, offset, length), size_bytes, name)
    return [
        PlannedSegment(object_name=name, segment=each, due_rows=due_rows_of(each, first_ms, end_ms))
        for each in touching(segments, first_ms, end_ms)
    ]
