"""Runs Tidewheel's local stack with a topic and a subscription.

Its messages are sent as late as those of a deployed service are: with the reserve for clocks that differ, which the
local stack leaves out by itself, since it has one clock.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields

from benchmarks.peers.account import HOUR_MS, START_MS, Run
from benchmarks.peers.stream import Delivery, Timed, number_of, outcome
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message
from tidewheel.model.settings import ServiceSettings

BATCH = 100
"""Messages that the client sends at once, as `tidewheel cost` assumes."""
MAX_SKEW_MS: int = next(each.default for each in fields(ServiceSettings) if each.name == "max_skew_ms")
"""What a deployed service adds to every delay, unless it is told otherwise."""
_SKEW = {"TIDEWHEEL_MAX_SKEW_MS": str(MAX_SKEW_MS)}
_TOPIC, _SUBSCRIPTION = "peers", "only"


def run(messages: Sequence[Timed], *, until_ms: int) -> Run:
    """Sends a stream, moves the clock until then, and counts.

    Raises:
        RuntimeError: a function failed.
    """
    with LocalTidewheel(start=_time(START_MS), environment=_SKEW) as stack:
        _open(stack)
        stack.requests.clear()
        stack.requests.units.clear()
        _send(stack, messages)
        stack.advance_to(_time(until_ms))
        deliveries = _take(stack)
        requests, units = Counter(stack.requests), Counter(stack.requests.units)
        if stack.failures:
            raise RuntimeError(f"{len(stack.failures)} runs of functions failed, the first: {stack.failures[0]}")
    return Run(
        outcome=outcome(messages, deliveries),
        requests=requests,
        units=units,
        hours=(until_ms - START_MS) / HOUR_MS,
    )


def _open(stack: LocalTidewheel) -> None:
    client = stack.client()
    client.create_topic(_TOPIC)
    client.create_subscription(_TOPIC, _SUBSCRIPTION)


def _send(stack: LocalTidewheel, messages: Sequence[Timed]) -> None:
    client = stack.client()
    for first in range(0, len(messages), BATCH):
        batch = messages[first : first + BATCH]
        client.send_many(_TOPIC, [Message(body=each.body, deliver_at=_time(each.due_ms)) for each in batch])


def _take(stack: LocalTidewheel) -> list[Delivery]:
    deliveries = []
    for message in stack.receive(_TOPIC, _SUBSCRIPTION):
        assert message.visible_at is not None
        at_ms = round(message.visible_at.timestamp() * 1000)
        assert isinstance(message.body, str)
        deliveries.append(Delivery(number=number_of(message.body), at_ms=at_ms))
    return deliveries


def _time(at_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC)
