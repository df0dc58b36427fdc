"""Makes plans anew that cannot be read, and delivers them.

A new plan is made from buckets, trash and tombstones, and is not stored: a delivery of the old plan becomes set-aside
items, one for each part of the new plan, with a job each. The parts need not be those of the old plan. So the messages
of parts that are done already come again, as copies with the same ids. So do messages of ledgers that were merged
between the seal and the plan, because nobody knows whether the plan named the old ledgers or the new.
`tests/simulation/plan_anew_model.py` explores the steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidewheel.flows.delivery.buckets_again import buckets_again
from tidewheel.flows.delivery.load_index import completed, unindexed
from tidewheel.flows.delivery.set_aside import set_aside_all
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import due_segments
from tidewheel.model.object_names import PLANS, parse_occurrences_name, topic_prefix
from tidewheel.model.plan import Plan, Unindexed
from tidewheel.model.subscription_state import Delivery
from tidewheel.model.tombstone import KEPT_S
from tidewheel.model.topic_state import TopicState

_DAY_MS = 86_400_000


def deliver_anew(ports: Ports, state: TopicState, delivery: Delivery, part: int, error: Exception) -> int | None:
    """Turns a delivery whose plan cannot be read into set-aside items. Returns how many were put.

    Returns None if cancellations of the plan's messages may be forgotten. Then none is sent. The sweep tries again
    a day later, because an operator may have restored the plan.

    Only the job of the least open part does so, under its lease. The jobs of other parts find the delivery gone, or
    nothing to do: if that job is lost, the sweep enqueues it.

    If it stops
        between two items, or before the delivery is deleted: the part comes again after its lease, and puts the same
            items. Those that were sent since are sent a second time.
        before the jobs are enqueued: the sweep enqueues them.
    """
    now_ms = ports.clock.now_ms()
    if now_ms >= delivery.key.plan * state.slot_ms + KEPT_S * 1000:
        ports.deliveries.release_part(delivery.key, part)
        ports.deliveries.set_next_check(delivery.key, delivery.next_check_ms, now_ms + _DAY_MS)
        return None
    if part != min(each for each in range(delivery.parts) if each not in delivery.done):
        ports.deliveries.release_part(delivery.key, part)
        return 0
    plan = plan_anew(ports, state, delivery.key.plan)
    put = set_aside_all(ports, plan, delivery, error)
    ports.deliveries.delete([delivery.key])
    return put


def plan_anew(ports: Ports, state: TopicState, first_slot: int) -> Plan:
    """Makes the plan that begins at a slot once more, of all messages that it can have named.

    The tombstones of its messages must be there still.

    Raises:
        CorruptMetadata: neither a ledger nor its item can be read. The messages of that ledger would be forgotten.
    """
    topic = state.topic
    ranges = ports.plans.ranges(topic)
    end_slot = min([b if a == first_slot else a for a, b in ranges if a >= first_slot] + [state.planned])
    unreadable: dict[str, Exception] = {}
    buckets = list(ports.buckets.in_order(topic, unreadable, end_slot=end_slot))
    buckets += buckets_again(ports, state, unreadable)
    for error in unreadable.values():
        raise error
    indexes = completed(ports, buckets, first_slot, end_slot, state.slot_ms)
    others = [*_merged_away(ports, topic, first_slot, end_slot), *_occurrences(ports, topic, first_slot)]
    return Plan(
        topic=topic,
        first_slot=first_slot,
        end_slot=end_slot,
        segments=due_segments(indexes.buckets, first_slot, end_slot, state.slot_ms),
        cancelled=ports.tombstones.ids(topic, first_slot, end_slot),
        part_rows=state.settings.part_rows,
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
    """Returns an object as a ledger of which only the footer tells the segments. Whoever reads it asks for its size."""
    return Unindexed(object_name=name, tail="", size_bytes=0, rows=1)
