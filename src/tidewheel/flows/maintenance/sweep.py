"""Sweeps for work that a crash or a lost schedule left behind, and tries broken queues.

A sweep reads no rows and sends none: it starts functions, enqueues tasks and deletes. So a sweep of thousands of topics
takes seconds, a single topic cannot block it, and its function needs no pyarrow. Dispatches come first, cleanup comes
last. Each kind of work has a share of SWEEP_MS, and the time that the kinds before it left over. Within a kind, topics
take turns, and the subscriptions of a topic take turns. So neither a kind nor a topic nor a subscription keeps the
others from being served. What has no time left is seen by the next sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TypeVar

from tidewheel import deadline
from tidewheel.flows.administration.delete_topic import finish_deletion
from tidewheel.flows.delivery.commit import schedule_again
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.consider_merge import consider_merge, start_large
from tidewheel.flows.maintenance.due_checks import SweepResult, by_owner, check_delivery, check_parks, in_turn
from tidewheel.flows.maintenance.live_view import write_view
from tidewheel.flows.maintenance.orphans import sweep_orphans_daily
from tidewheel.flows.maintenance.payloads import sweep_payloads_daily
from tidewheel.flows.ports import MergeSize, Ports
from tidewheel.model.checked_clock import unchecked_ms
from tidewheel.model.topic_state import TopicState
from tidewheel.model.wheel import fires_at_ms
from tidewheel.storage.checks import Due
from tidewheel.storage.topic_states import AT_ONCE_MS

_Thing = TypeVar("_Thing")
SWEEP_MS = 180_000
"""How long a sweep starts new work, after it has read the index. Its function has a minute more, for the index and for
the work in progress."""
SHARES_S = {
    "dispatches": 45,
    "health": 15,
    "schedules": 10,
    "deliveries": 25,
    "parks": 15,
    "topics": 15,
    "views": 10,
    "deletions": 15,
    "orphans": 15,
    "payloads": 15,
}
"""The kinds of work in their order, with their shares of SWEEP_MS. A kind ends at the latest when its share and all
before it are over, and what it has begun by then is done. Each kind works on `send_threads` things at one time, but on
one live view."""
_INDEX_S = 30
"""How long a sweep reads the index of checks. Shards that were not read then count as failed."""
_DELETIONS_MS = 60_000
"""How long one sweep deletes the rest of deleted topics. The limit leaves time for the daily work, and the next sweep
continues."""


def sweep(
    ports: Ports, tell_health: Callable[[Due, Mapping[str, TopicState]], None] = lambda _due, _states: None
) -> SweepResult:
    """Handles the topics, open deliveries and parks whose next check has come.

    Every action is one of the other flows, or a stamp and an enqueue. If it stops, the next sweep sees the same items
    again. A failure of one action delays no other. Late dispatches are started before all else, so that nothing that
    fails can delay them.

    In the worst case every kind needs all its time: a sweep then ends SWEEP_MS after its beginning, plus its longest
    action. The next sweep serves each kind again.

    Args:
        ports: the service.
        tell_health: told the index of checks, and the states of its topics as read before any dispatch was started.
    """
    swept = SweepResult()
    # The index is read once. It may be old: each item is read again before any action, and all writes are conditional.
    # A wrong time finds other items, and the answers show that it is wrong.
    unread: dict[str, Exception] = {}
    due = _due(ports, unread)
    swept.failures |= unread
    begun_ms = ports.clock.now_ms()
    ends_ms = {
        kind: begun_ms + sum_s * 1000 for kind, sum_s in zip(SHARES_S, accumulate(SHARES_S.values()), strict=True)
    }
    states: dict[str, TopicState] = {}
    _dispatch_overdue(ports, due.topics, states, swept, ends_ms["dispatches"])
    if not unread:  # else the figures would be too good
        _in_time(ports, swept, "health", lambda: tell_health(due, states), ends_ms["health"])
    missing = [topic for topic in due.topics if topic in states and states[topic].next_check_ms == AT_ONCE_MS]
    _all(ports, swept, missing, lambda topic: schedule_again(ports, topic), ends_ms["schedules"])
    deliveries, parks = in_turn(due.deliveries), by_owner(due.parks)
    _all(ports, swept, deliveries, lambda key: check_delivery(ports, key, swept), ends_ms["deliveries"])
    _all(ports, swept, parks, lambda keys: check_parks(ports, keys, swept), ends_ms["parks"])
    _all(ports, swept, due.topics, lambda topic: check_topic(ports, topic, swept), ends_ms["topics"])
    views = [topic for topic, each in states.items() if each.view_at_ms is not None and each.view_at_ms <= begun_ms]
    for topic in views:  # one after the other, since a large one needs all of the function's CPU
        _in_time(ports, swept, topic, partial(write_view, ports, topic), ends_ms["views"])
    _in_time(ports, swept, "large merges", lambda: _start_large(ports, swept), ends_ms["deletions"])
    _finish_deletions(ports, swept, ends_ms["deletions"])
    _in_time(ports, swept, "orphans", lambda: _sweep_orphans(ports, swept, ends_ms["orphans"]), ends_ms["orphans"])
    _in_time(ports, swept, "payloads", lambda: _sweep_payloads(ports, swept, ends_ms["payloads"]), ends_ms["payloads"])
    try:
        ports.checks.beat(unchecked_ms(ports.clock))
    except Exception as error:
        swept.failures["heartbeat"] = error
    return swept


def _due(ports: Ports, failed: dict[str, Exception]) -> Due:
    """Reads the index of checks. Notes each failed query, and the rest of the sweep goes on."""
    try:
        with deadline.within(_INDEX_S):
            return ports.checks.due(unchecked_ms(ports.clock), failed)
    except Exception as error:
        failed["checks"] = error
        return Due([], [], [])


def _dispatch_overdue(
    ports: Ports, topics: Sequence[str], states: dict[str, TopicState], swept: SweepResult, ends_ms: int
) -> None:
    """Reads topics into `states`, and starts the dispatches of those whose next slot is due, the longest overdue first.

    The index of checks has another order: topics without a schedule come first, however often they are dispatched.
    """

    def read(topic: str) -> None:
        state = ports.topic_states.read(topic)
        if state is None:
            swept.ended.append(topic)
        else:
            states[topic] = state

    now_ms = ports.clock.now_ms()
    _all(ports, swept, topics, read, now_ms + (ends_ms - now_ms) // 2)
    fires = [
        (fires_at_ms(topic, each.next_slot, each.settings), topic)
        for topic, each in states.items()
        if each.next_slot is not None
    ]
    overdue = [topic for at_ms, topic in sorted(fires) if at_ms <= now_ms]
    _all(ports, swept, overdue, lambda topic: _start_dispatch(ports, topic, swept), ends_ms)


def _start_large(ports: Ports, swept: SweepResult) -> None:
    if start_large(ports, swept.large):
        swept.merging += swept.large


def _finish_deletions(ports: Ports, swept: SweepResult, ends_ms: int) -> None:
    """Deletes the rest of deleted topics, as far as the time allows."""
    deletions_end_ms = min(ends_ms, ports.clock.now_ms() + _DELETIONS_MS)

    def delete(topic: str) -> None:
        if finish_deletion(ports, topic, lambda: ports.clock.now_ms() < deletions_end_ms):
            swept.deleted.append(topic)

    _all(ports, swept, swept.ended, delete, deletions_end_ms)


def _sweep_orphans(ports: Ports, swept: SweepResult, ends_ms: int) -> None:
    swept.orphans = sweep_orphans_daily(ports, ends_ms)
    if swept.orphans is not None:
        swept.failures |= {f"orphans of {topic}": error for topic, error in swept.orphans.failures.items()}


def _sweep_payloads(ports: Ports, swept: SweepResult, ends_ms: int) -> None:
    swept.payloads, failures = sweep_payloads_daily(ports, ends_ms)
    swept.failures |= {f"payloads of {topic}": error for topic, error in failures.items()}


def _all(
    ports: Ports, swept: SweepResult, things: Sequence[_Thing], look_after: Callable[[_Thing], None], ends_ms: int
) -> None:
    """Calls `look_after` for things side by side."""
    ports.parallel(lambda thing: _in_time(ports, swept, thing, lambda: look_after(thing), ends_ms), things)


def _in_time(ports: Ports, swept: SweepResult, what: object, action: Callable[[], None], ends_ms: int) -> None:
    """Runs an action if time is left. Notes a failure."""
    if ports.clock.now_ms() >= ends_ms:
        with swept.lock:
            swept.left += 1
        return
    try:
        action()
    except Exception as error:
        swept.failures[str(what)] = error


def check_topic(ports: Ports, topic: str, swept: SweepResult) -> None:
    """Collects and merges a topic as due.

    The topic is collected if its collection is due, and merged if it has many new ledgers.
    """
    state = ports.topic_states.read(topic)
    now_ms = ports.clock.now_ms()
    if state is None:
        return
    if state.collect_at_ms is not None and state.collect_at_ms <= now_ms:
        collected = collect(ports, topic)
        swept.collected.append(topic)
        if collected is not None and collected.held is not None:
            swept.held[topic] = collected.held
        if collected is not None and collected.idle_leftovers and topic not in swept.dispatched:
            # Only a dispatch moves the marks of an idle topic past its trash.
            _start_dispatch(ports, topic, swept)
    if state.merge_at_ms is not None and state.merge_at_ms <= now_ms:
        # Read again: the steps above have moved the marks.
        current = ports.topic_states.read(topic)
        if current is not None and current.merge_at_ms is not None:
            size = consider_merge(ports, current)
            if size is MergeSize.LARGE:
                swept.large.append(topic)
            elif size is MergeSize.SMALL:
                swept.merging.append(topic)


def _start_dispatch(ports: Ports, topic: str, swept: SweepResult) -> None:
    ports.runs.dispatch(topic)
    with swept.lock:
        swept.dispatched.append(topic)
