"""Sends rows of sealed slots directly to queues, or parks the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from tidewheel import deadline
from tidewheel.flows.delivery import release
from tidewheel.flows.delivery.due_rows import (
    has_addressed,
    rows_for,
    unreadable,
    without_expired,
    without_ids,
    without_purged,
)
from tidewheel.flows.delivery.parking import (
    HOLDING_S,
    DrainHint,
    encoded,
    enqueue_drains,
    mark_broken,
    park_inline,
    park_ledger,
)
from tidewheel.flows.delivery.set_aside import set_aside_rows
from tidewheel.flows.ports import Ports
from tidewheel.model.message import id_bytes
from tidewheel.model.set_aside import UNKNOWN_GENERATION
from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.model.topic_state import TopicState


class Direct(NamedTuple):
    """The counts of rows that were not sent directly.

    Attributes:
        cancelled: dropped because they were cancelled or purged.
        expired: dropped because their time had passed.
        parked: parked, counted for each subscription.
        unread: subscriptions whose items or filters could not be read, so that the rows are set aside for them.
    """

    cancelled: int = 0
    expired: int = 0
    parked: int = 0
    unread: int = 0


class _ToPark(NamedTuple):
    """Rows to park for a subscription.

    Attributes:
        tried: whether its queue has just refused the rows.
        refused: whether the queue did so for the messages' own sake, and took others.
    """

    subscription: SubscriptionState
    rows: pa.Table
    tried: bool
    refused: bool = False

    @property
    def waiting(self) -> int:
        """How many rows are to wait. Rows in parts, which are drained at once, are none of these."""
        return self.rows.num_rows if self.tried or self.subscription.state is not State.ACTIVE else 0


def send_direct(ports: Ports, state: TopicState, rows: pa.Table) -> Direct:
    """Sends rows of sealed slots to active subscriptions, and parks rows for the others.

    Each queue gets one attempt. The messages that it does not take are parked for its subscription alone. More than
    `inline_rows` sends are parked in parts, and the work queue drains the parks at once.

    If it stops between subscriptions: a repetition sends copies with the same ids, and creates the same parks.

    Raises:
        Exception: neither the table nor the work queue took a subscription's messages. The other subscriptions received
            theirs, and a repetition sends copies.
    """
    wanted = _wanted(ports, state, rows)
    live = without_expired(wanted, ports.clock.now_ms())
    done = Direct(cancelled=rows.num_rows - wanted.num_rows, expired=wanted.num_rows - live.num_rows)
    if not live.num_rows:
        return done
    subscriptions, unread = _set_unreadable_aside(ports, state, live)
    shares = _shares(subscriptions, live)
    if live.num_rows * len(subscriptions) > state.settings.inline_rows:
        to_park = _in_parts(state, subscriptions, shares)
    else:
        to_park = _send_at_once(ports, state, subscriptions, shares)
    _park_all(ports, state, to_park)
    return done._replace(parked=sum(each.waiting for each in to_park), unread=unread)


def _set_unreadable_aside(ports: Ports, state: TopicState, live: pa.Table) -> tuple[list[SubscriptionState], int]:
    """Sets rows aside for the subscriptions that cannot be read, or their filters. Returns the others, and how many.

    Must come before the sends: if it fails, the packs come again, and nobody gets copies.
    """
    found, unread = [], 0
    unknown: dict[str, Exception] = {}
    for subscription in ports.subscriptions.all(state.topic, unknown):
        error = unreadable(subscription.filter_policy)
        if error is None:
            found.append(subscription)
        else:
            owner = subscription.name, subscription.generation
            set_aside_rows(ports, state, owner, live, error, subscription.filter_policy)
            unread += 1
    for name, error_of_item in unknown.items():
        set_aside_rows(ports, state, (name, UNKNOWN_GENERATION), live, error_of_item)
    return found, unread + len(unknown)


def send_or_park(ports: Ports, state: TopicState, subscription: SubscriptionState, rows: pa.Table) -> int:
    """Sends or parks rows of a subscription, depending on its state. Returns how many were parked.

    Raises:
        Exception: as `send_direct`.
    """
    to_park = _send_at_once(ports, state, [subscription], [rows])
    _park_all(ports, state, to_park)
    return sum(each.waiting for each in to_park)


def _wanted(ports: Ports, state: TopicState, rows: pa.Table) -> pa.Table:
    """Drops cancelled and purged rows.

    Tombstones are read after the topic state, so no further tombstone can appear for these slots.
    """
    times = rows.column("deliver_at_ms")
    cancelled = ports.tombstones.ids(
        state.topic, times[0].as_py() // state.slot_ms, times[-1].as_py() // state.slot_ms + 1
    )
    return without_purged(without_ids(rows, map(id_bytes, cancelled)), state)


def _shares(subscriptions: Sequence[SubscriptionState], live: pa.Table) -> list[pa.Table]:
    """Returns the rows of each subscription.

    Subscriptions with the same filter share a table, unless some rows are for a single subscription.
    """
    addressed = has_addressed(live)
    ready: dict[tuple[str | None, str | None], pa.Table] = {}
    found = []
    for each in subscriptions:
        share = each.filter_policy, each.name if addressed else None
        if share not in ready:
            ready[share] = rows_for(live, each.name, each.filter_policy)
        found.append(ready[share])
    return found


def _in_parts(
    state: TopicState, subscriptions: Sequence[SubscriptionState], shares: Sequence[pa.Table]
) -> list[_ToPark]:
    """Returns all rows of all subscriptions, in parts. Subscriptions that share a table share the parts."""
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
    kinds = [
        (id(rows), each.carry, state.claim(each.generation)) for rows, each in zip(shares, subscriptions, strict=True)
    ]
    messages = {kind: release.releases(rows, *kind[1:]) for kind, rows in dict(zip(kinds, shares, strict=True)).items()}
    active = [place for place, each in enumerate(subscriptions) if each.state is State.ACTIVE]
    sendings = [(subscriptions[place].queue_url, messages[kinds[place]]) for place in active]
    outcomes = dict(zip(active, release.send_all(ports, sendings), strict=True))
    found = []
    for place, subscription in enumerate(subscriptions):
        rows, outcome = shares[place], outcomes.get(place)
        if outcome is None:
            found.append(_ToPark(subscription, rows, tried=False))
        elif outcome.untaken:
            if outcome.down and not mark_broken(ports, subscription.topic, subscription.name, subscription.generation):
                continue
            after = replace(subscription, state=State.BROKEN) if outcome.down else subscription
            left = rows.take(pa.array(outcome.places))
            found.append(_ToPark(after, left, tried=True, refused=outcome.refused_some))
    return [each for each in found if each.rows.num_rows]


def _park_all(ports: Ports, state: TopicState, to_park: Sequence[_ToPark]) -> None:
    """Parks rows for each subscription, side by side, and enqueues their drains.

    Rows that cannot be parked are held. Nobody's failure stops the others.
    """
    ledgers: dict[int, bytes] = {}
    for each in to_park:
        if id(each.rows) not in ledgers:
            ledgers[id(each.rows)] = encoded(state, each.rows)
    hints: list[DrainHint | None] = []
    failures: list[Exception] = []

    def park(each: _ToPark) -> None:
        subscription, rows, tried, refused = each
        ledger = ledgers[id(rows)]
        try:
            with deadline.reserve(HOLDING_S):
                hints.append(
                    park_ledger(ports, state, subscription, ledger, rows.num_rows, tried=tried, refused=refused)
                )
        except Exception:
            try:
                hints.extend(park_inline(ports, state, subscription, rows, tried=tried, refused=refused))
            except Exception as error:
                failures.append(error)

    ports.parallel(park, to_park)
    enqueue_drains(ports, hints)
    if failures:
        raise failures[0]
