"""Requests, divided into those of each message and those of each hour.

A poller asks whether or not anything is due, and asks again for each message. The first is what an idle run counts, the
second the difference of two runs over the same time, with few messages and with more. What a month or a million
messages would ask is a straight line through both. That is exact for what is asked once a message. Of what is asked for
up to ten at once it is too much where more messages are due at a time than in the runs, too little where fewer are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.peers.account import Run
from tidewheel.errors import InvalidValue

_NOTHING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A straight line for each of several counts.

    Attributes:
        a_message: name -> how many for each message.
        an_hour: name -> how many in each hour, whether or not there are messages.
    """

    a_message: Mapping[str, float]
    an_hour: Mapping[str, float]

    def at(self, messages: float, hours: float) -> dict[str, float]:
        """Returns the counts of so many messages in so many hours."""
        names = {**self.a_message, **self.an_hour}
        return {name: self.a_message.get(name, 0.0) * messages + self.an_hour.get(name, 0.0) * hours for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a peer asks.

    Attributes:
        requests: by operation.
        units: as AWS bills them.
        stored_a_message_bytes: what a waiting message takes up; None if the peer's runs do not say.
    """

    requests: Line
    units: Line
    stored_a_message_bytes: float | None


def counted(idle: Run, few: Run, more: Run) -> Counted:
    """Divides what three runs asked.

    Args:
        idle: without messages.
        few, more: over the same time, the second with more messages.

    Raises:
        InvalidValue: the runs do not differ so, or a message was lost: what does not arrive costs less.
    """
    sent = more.outcome.sent - few.outcome.sent
    if sent <= 0:
        raise InvalidValue("more", more.outcome.sent, f"give a run with more than {few.outcome.sent} messages")
    for run in (few, more):
        if not run.outcome.sound:
            raise InvalidValue("run", run.outcome, "all messages must arrive once and not early to be counted")

    def line(idle: Mapping[str, float], hours: float, few: Mapping[str, float], more: Mapping[str, float]) -> Line:
        each = {name: (more.get(name, 0) - few.get(name, 0)) / sent for name in {**few, **more}}
        return Line(
            a_message={name: count for name, count in sorted(each.items()) if abs(count) > _NOTHING},
            an_hour={name: count / hours for name, count in sorted(idle.items()) if count},
        )

    return Counted(
        requests=line(idle.requests, idle.hours, few.requests, more.requests),
        units=line(idle.units, idle.hours, few.units, more.units),
        stored_a_message_bytes=None if more.stored_bytes is None else more.stored_bytes / more.outcome.sent,
    )
