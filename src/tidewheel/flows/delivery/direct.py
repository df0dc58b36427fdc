"""Sends rows of sealed slots directly to queues, or parks the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from tidewheel.flows.delivery import sending
from tidewheel.flows.delivery.due_rows import rows_for, without_expired, without_ids, without_purged
from tidewheel.flows.delivery.parking import DrainHint, encoded, enqueue_drains, mark_broken, park_rows
from tidewheel.flows.ports import Ports, each_alone
from tidewheel.model.message import id_bytes
from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.model.topic_state import TopicState


class Direct(NamedTuple):
    """The counts of rows that were dropped or parked. All others were sent.

    Attributes:
        cancelled: dropped because they were cancelled or purged.
        expired: dropped because their time had passed.
        parked: parked, counted for each subscription.
    """

    cancelled: int = 0
    expired: int = 0
    parked: int = 0


class _ToPark(NamedTuple):
    """Rows to park for a subscription.

    Attributes:
        tried: whether its queue has just refused the rows.
    """

    subscription: SubscriptionState
    rows: pa.Table
    tried: bool

    @property
    def waiting(self) -> int:
        """How many rows wait. 0 for rows that are parked only so that the work queue sends them in parts at once."""
        return self.rows.num_rows if self.tried or self.subscription.state is not State.ACTIVE else 0


def send_direct(ports: Ports, state: TopicState, rows: pa.Table) -> Direct:
    """Sends rows of sealed slots to active subscriptions, and parks rows for the others.

    Each queue gets one attempt. The messages that it does not take are parked for its subscription alone. More than
    `inline_rows` sends are parked in parts, and the work queue drains the parks at once.

    If it stops between subscriptions: a repetition sends copies with the same ids, and creates the same parks.

    Raises:
        Exception: a park was not taken. Other subscriptions received their messages, and a repetition sends copies.
    """
    # Read before the tombstones. A late cancel reads them after its tombstone is put, and tells its caller who may
    # still get the message. So the caller knows of each reader that gets the message here, or this finds the tombstone.
    subscriptions = ports.subscriptions.all(state.topic)
    kept = _without_cancelled(ports, state, rows)
    live = without_expired(kept, ports.clock.now_ms())
    done = Direct(cancelled=rows.num_rows - kept.num_rows, expired=kept.num_rows - live.num_rows)
    if not live.num_rows:
        return done
    shares = [rows_for(live, each.name, each.filter_policy) for each in subscriptions]
    if live.num_rows * len(subscriptions) > state.settings.inline_rows:
        to_park = _in_parts(state, subscriptions, shares)
    else:
        to_park = _send_at_once(ports, state, subscriptions, shares)
    _park_all(ports, state, to_park)
    return done._replace(parked=sum(each.waiting for each in to_park))


def _without_cancelled(ports: Ports, state: TopicState, rows: pa.Table) -> pa.Table:
    """Drops cancelled and purged rows.

    Tombstones are read after the topic state, so no further tombstone can appear for these slots, except of late
    cancels.
    """
    times = rows.column("deliver_at_ms")
    cancelled = ports.tombstones.ids(
        state.topic, times[0].as_py() // state.slot_ms, times[-1].as_py() // state.slot_ms + 1
    )
    return without_purged(without_ids(rows, map(id_bytes, cancelled)), state)


def _in_parts(
    state: TopicState, subscriptions: Sequence[SubscriptionState], shares: Sequence[pa.Table]
) -> list[_ToPark]:
    """Returns all rows of all subscriptions, in parts. Subscriptions without a filter share a table, and its parts."""
    step = state.settings.part_rows
    parts = {id(rows): [rows.slice(first, step) for first in range(0, rows.num_rows, step)] for rows in shares}
    return [
        _ToPark(subscription, part, tried=False)
        for subscription, rows in zip(subscriptions, shares, strict=True)
        for part in parts[id(rows)]
    ]


def _send_at_once(
    ports: Ports, state: TopicState, subscriptions: Sequence[SubscriptionState], shares: Sequence[pa.Table]
) -> list[_ToPark]:
    """Sends rows to all active subscriptions. Returns the rows that were not sent."""
    active = {place: each for place, each in enumerate(subscriptions) if each.state is State.ACTIVE}
    sendings = [
        (to.queue_url, sending.queue_messages(shares[place], state.settings, carry=to.carry, claim=to.generation))
        for place, to in active.items()
    ]
    outcomes = dict(zip(active, sending.send_all(ports, sendings), strict=True))
    to_park = []
    for place, subscription in enumerate(subscriptions):
        rows, outcome = shares[place], outcomes.get(place)
        if outcome is None:
            to_park.append(_ToPark(subscription, rows, tried=False))
        elif outcome.untaken:
            after = mark_broken(ports, subscription) if outcome.down else subscription
            to_park.append(_ToPark(after, rows.take(pa.array(outcome.places)), tried=True))
    return [each for each in to_park if each.rows.num_rows]


def _park_all(ports: Ports, state: TopicState, to_park: Sequence[_ToPark]) -> None:
    """Parks rows for each subscription, side by side, and enqueues their drains.

    A failure stops no other park, unless many more fail than succeed.
    """
    ledgers: dict[int, bytes] = {}
    for each in to_park:
        if id(each.rows) not in ledgers:
            ledgers[id(each.rows)] = encoded(state, each.rows)
    hints: list[DrainHint] = []

    def park_one(place: int) -> None:
        subscription, rows, tried = to_park[place]
        hints.extend(park_rows(ports, state, subscription, rows, tried=tried, ledger=ledgers[id(rows)]))

    failures = each_alone(ports.parallel, park_one, range(len(to_park)))
    enqueue_drains(ports, hints)
    for error in failures.values():
        raise error
