"""Makes a one-time EventBridge schedule a message, which sends the body to a queue.

On the emulator a schedule fires at its second. On AWS it fires within the minute that begins there: "All schedule types
on EventBridge Scheduler invoke their targets with 60 second precision"
(https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html). So its requests are counted here, and its
lateness is not measured but taken from there.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.account import HOUR_MS, Account, Run
from benchmarks.peers.stream import Delivery, Timed, outcome
from tidewheel.local.meter import chunks

LATEST_MS = 60_000
"""How late a schedule may fire, by its documentation."""
_TARGET = "target"
_ROLE = "arn:aws:iam::123456789012:role/schedules"


class OneScheduleEach:
    """The client, and the part of EventBridge Scheduler."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._scheduler: Any = account.session.client("scheduler")
        self.target_url = account.make_queue(_TARGET)
        account.count_from_now()

    def send(self, messages: Sequence[Timed]) -> None:
        """Makes a schedule a message. Times are rounded up to whole seconds, so that no message is early."""
        for message in messages:
            when = dt.datetime.fromtimestamp(-(-message.due_ms // 1000), dt.UTC)
            self._scheduler.create_schedule(
                Name=f"message-{message.number}",
                ScheduleExpression=f"at({when:%Y-%m-%dT%H:%M:%S})",
                FlexibleTimeWindow={"Mode": "OFF"},
                ActionAfterCompletion="DELETE",
                Target={
                    "Arn": self._account.emulator.queue(_TARGET).arn,
                    "RoleArn": _ROLE,
                    "Input": message.body,
                },
            )

    def run_until(self, until_ms: int) -> list[Delivery]:
        """Fires the due schedules until then. Returns the arrivals."""
        clock, book, requests = self._account.clock, self._account.emulator.schedules, self._account.requests
        while (due := book.next_due()) is not None and due[0] <= until_ms:
            at_ms, schedule = due
            clock.set_ms(max(clock.now_ms(), at_ms))
            body = schedule.target["Input"]
            self._account.emulator.send(_TARGET, body, {})
            book.fired(schedule)
            requests["scheduler.Invoke"] += 1
            requests.units["scheduler.invocation"] += 1
            requests["sqs.SendMessage"] += 1
            requests.units["sqs.request"] += chunks(len(body.encode()))
        clock.set_ms(until_ms)
        return self._account.take(self.target_url)

    def waiting(self) -> int:
        """Returns how many schedules there are."""
        return sum(len(page["Schedules"]) for page in self._scheduler.get_paginator("list_schedules").paginate())


def run(messages: Sequence[Timed], *, until_ms: int) -> Run:
    """Sends a stream, lets all schedules fire until then, and counts."""
    with Account() as account:
        start_ms = account.clock.now_ms()
        schedules = OneScheduleEach(account)
        schedules.send(messages)
        deliveries = schedules.run_until(until_ms)
        requests, units = account.asked()
        left = schedules.waiting()
        assert not left, f"{left} schedules were not deleted when they had fired"
        return Run(
            outcome=outcome(messages, deliveries),
            requests=requests,
            units=units,
            hours=(until_ms - start_ms) / HOUR_MS,
        )
