"""Sends rows of sealed slots directly to queues, or parks the rows."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import ConcurrentModification, NotTaken, QueueUnavailable
from tidewheel.flows.delivery import release
from tidewheel.flows.delivery.addressed import has_addressed, rows_for
from tidewheel.flows.delivery.due_rows import without_expired, without_purged
from tidewheel.flows.delivery.parking import put_aside
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.parks import Parked
from tidewheel.flows.ports.queues import Release
from tidewheel.model.message import id_bytes
from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.model.topic_state import TopicState

_ATTEMPTS = 10


class Direct(NamedTuple):
    """The counts of rows that were not sent directly.

    Attributes:
        cancelled: dropped because they were cancelled or purged.
        expired: dropped because their time had passed.
        parked: put aside, counted for each subscription.
    """

    cancelled: int = 0
    expired: int = 0
    parked: int = 0


def send_direct(ports: Ports, state: TopicState, rows: pa.Table) -> Direct:
    """Sends rows of sealed slots to active subscriptions, and parks rows for the others.

    If it stops between subscriptions: a repetition sends copies with the same ids, and creates the same parks.

    Raises:
        NotTaken: a queue temporarily did not take all messages; the other subscriptions received theirs.
        ConcurrentModification: likewise, a subscription was paused and resumed each time.
    """
    wanted = _wanted(ports, state, rows)
    live = without_expired(wanted, ports.clock.now_ms())
    done = Direct(cancelled=rows.num_rows - wanted.num_rows, expired=wanted.num_rows - live.num_rows)
    if not live.num_rows:
        return done
    parked = 0
    addressed = has_addressed(live)
    ready: dict[tuple[str | None, str | None], tuple[pa.Table, list[Release]]] = {}
    failed: NotTaken | ConcurrentModification | None = None
    for subscription in ports.subscriptions.all(state.topic):
        # Subscriptions with the same filter share the work, unless some rows are for a single subscription.
        share = subscription.filter_policy, subscription.name if addressed else None
        if share not in ready:
            its_rows = rows_for(live, subscription.name, subscription.filter_policy)
            ready[share] = its_rows, release.releases(its_rows)
        try:
            parked += _send_or_park(ports, state, subscription, *ready[share])
        except (NotTaken, ConcurrentModification) as error:  # one queue must not delay the others
            failed = error
    if failed is not None:
        raise failed
    return done._replace(parked=parked)


def _wanted(ports: Ports, state: TopicState, rows: pa.Table) -> pa.Table:
    """Drops cancelled and purged rows.

    Tombstones are read after the topic state, so no further tombstone can appear for these slots.
    """
    times = rows.column("deliver_at_ms")
    cancelled = ports.tombstones.ids(
        state.topic, times[0].as_py() // state.slot_ms, times[-1].as_py() // state.slot_ms + 1
    )
    if cancelled:
        ids = pa.array([id_bytes(each) for each in cancelled], pa.binary())
        rows = rows.filter(pc.invert(pc.is_in(rows.column("message_id").cast(pa.binary()), ids)))
    return without_purged(rows, state)


def _send_or_park(
    ports: Ports, state: TopicState, subscription: SubscriptionState, rows: pa.Table, messages: list[Release]
) -> int:
    """Sends or parks messages, depending on the subscription's state. Returns how many were parked.

    Decides again when the state changes. A queue that refuses everything changes the state.
    """
    if not messages:
        return 0
    topic, name, generation = state.topic, subscription.name, subscription.generation
    current: SubscriptionState | None = subscription
    for _ in range(_ATTEMPTS):
        if current is None or current.generation != generation:
            return 0
        if current.state is State.ACTIVE:
            try:
                release.send(ports, current.queue_url, messages)
                return 0
            except QueueUnavailable as error:
                rows, messages = rows.take(pa.array(error.unsent)), [messages[place] for place in error.unsent]
                ports.subscriptions.mark_broken(topic, name, generation)
        elif put_aside(ports, state, current, rows) is not Parked.MOVED:
            return len(messages)
        current = ports.subscriptions.read(topic, name)
    raise ConcurrentModification("sending direct", topic, _ATTEMPTS)
