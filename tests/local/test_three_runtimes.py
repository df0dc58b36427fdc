"""One program of all features gets the same answers and arrivals in memory, in virtual time and in real time.

The service in real time is that of `tidewheel dev`, whose time is skipped. All topics have the deployed defaults.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tidewheel import Consumer, Rescheduled, TidewheelError, TooLate
from tidewheel.local import LocalTidewheel, MemoryTidewheel

HOUR_S = 3600
MINUTES_8 = 8 * 60 + 10
"""After the seal of the slot of what is due in a quarter of an hour."""
SECOND = 1.5
"""SQS delays by whole seconds, and in real time a call takes part of one."""

Told = tuple[str, float]
"""What happened, and at which second of the program it was or will be due."""


@dataclass
class Run:
    """A run of the program.

    Attributes:
        names: message id -> the body as which it was sent first.
        answers: what each call answered, in order.
        arrivals: what came, by subscription.
        due: the due time of each arrival, in the same order.
    """

    stack: Any
    base: dt.datetime
    names: dict[str, str] = field(default_factory=dict)
    answers: list[Told] = field(default_factory=list)
    arrivals: list[Told] = field(default_factory=list)
    due: list[float] = field(default_factory=list)
    read: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = self.stack.client()
        self.until(0)

    def topic(self, name: str, **subscriptions: dict[str, Any]) -> None:
        self.client.create_topic(name)
        for each, settings in subscriptions.items():
            self.client.create_subscription(name, each, reader="tidewheel", **settings)
        self.read += [(name, each) for each in subscriptions]

    def second(self, at: dt.datetime) -> float:
        return (at - self.base).total_seconds()

    def until(self, second: float) -> None:
        """Lets time pass, and receives all that came."""
        left = max(0.0, second - self.second(self.stack.now()))
        (self.stack.skip if isinstance(self.stack, LocalTidewheel) else self.stack.advance)(seconds=left)
        for topic, subscription in self.read:
            for message in self.stack.receive(topic, subscription):
                self.note(f"{topic}/{subscription}", message, message.visible_at)

    def note(self, place: str, message: Any, at: dt.datetime) -> None:
        first = self.names.get(message.original_id, message.original_id)
        self.arrivals.append((f"{place}: {message.body} {message.key} {message.attempt} of {first}", self.second(at)))
        self.due.append(self.second(message.deliver_at))

    def send(self, topic: str, body: str, **options: Any) -> str:
        receipt = self.client.send(topic, body, **options)
        self.names[receipt.id] = body
        until = receipt.cancellable_until
        self.answers.append((f"{body} is cancellable until", math.inf if until is None else self.second(until)))
        return str(receipt.id)

    def ask(self, call: Callable[..., Any], topic: str, id: str | None = None, **options: Any) -> None:
        """Notes what a call answers, with names instead of ids."""
        due = 0.0
        try:
            answer = call(topic, *([] if id is None else [id]), **options)
        except TidewheelError as error:
            said = f"{type(error).__name__} {error}"
        else:
            said = type(answer).__name__
            if isinstance(answer, Rescheduled):
                self.names[answer.receipt.id] = f"{self.names[answer.old_id]} moved"
                due = self.second(answer.receipt.deliver_at)
            elif said == "MessageStatus":
                places = [(each.name, each.place) for each in answer.subscriptions]
                said += f" {answer.state} {answer.moved_to} {answer.claimed_by} {places} {answer.explanation}"
                due = self.second(answer.seals_at)
            elif said in ("Cancelled", "TooLate"):
                said += f" {answer.id} {answer.reason if isinstance(answer, TooLate) else answer.found}"
        for each, name in self.names.items():
            said = said.replace(each, name)
        self.answers.append((f"{call.__name__} {id and self.names[id]} {options}: {said}", due))


def program(run: Run) -> None:
    """Uses all features for two hours. Nothing is due within a second of a step."""
    tw = run.client
    run.topic("orders", closer={})
    run.topic("mails", mailer={})
    run.topic("reminders", push={})
    run.topic("jobs", worker={})
    run.topic("events", all={}, red={"filter_policy": {"color": ["red"]}})
    run.topic("paused", held={})
    tw.create_topic("hooks")
    tw.create_subscription("hooks", "post", reader="tidewheel")
    post = Consumer(tw, "hooks", "post", max_attempts=3)

    def failing(second: float) -> None:
        run.until(second)
        for message in post.receive():
            run.note("hooks/post", message, message.deliver_at)
            again = post.retry_later(message, delay="2m")
            if again is not None:
                run.names[again.id] = f"{message.body} again"

    # An hour of waiting: a move, a replacement, a duplicate, a window, recurring messages.
    run.until(30)
    moved = run.send("reminders", "moved", delay="1h")
    run.send("reminders", "older", delay="70m", key="cart", replace=True)
    run.until(35)
    run.send("reminders", "newer", delay="70m", key="cart", replace=True)
    run.until(40)
    run.send("reminders", "dropped", delay="2h", key="cart")
    run.send("reminders", "spread", deliver_at=run.base + dt.timedelta(minutes=40), window="15m", key="peak")
    run.ask(tw.reschedule, "reminders", moved, delay="90m")  # an ingest queue has it for five minutes
    run.ask(tw.get, "reminders", moved)
    tw.send_recurring("jobs", "cron", "by cron", cron="*/20 * * * *")
    tw.send_recurring("jobs", "rate", "by rate", every="25m", start=run.base + dt.timedelta(minutes=7))

    # A quarter of an hour: what is paid late, moved late, brought forward late, and what has no key.
    begun = 60
    run.until(begun)
    for number in range(4):
        run.send("orders", f"time-out {number}", delay="15m", key=f"order-{number}")
    no_key = run.send("orders", "no key", delay="15m")
    run.send("hooks", "hook", delay="30s")
    run.send("events", "red", delay="3m", attributes={"color": "red"})
    run.send("events", "blue", delay="3m", attributes={"color": "blue"})
    tw.pause("paused", "held")
    run.send("paused", "held back", delay="4m")
    for number in range(6):  # a burst of a minute is one message
        run.until(begun + 10 * number)
        run.send("mails", f"mail {number}", delay="30s", key="digest", replace=True, max_wait="10m")
    failing(begun + 55)
    for number in range(9):  # and of three minutes two, since the maximum passes
        run.until(130 + 20 * number)
        run.send("mails", f"storm {number}", delay="30s", key="storm", replace=True, max_wait="130s")
        failing(130 + 20 * number + 2)

    run.until(400)
    run.ask(tw.get, "reminders", moved)
    run.ask(tw.reschedule, "reminders", moved, delay="90m")
    run.ask(tw.get, "reminders", moved)
    failing(430)
    run.until(MINUTES_8)
    run.ask(tw.cancel, "orders", key="order-0")
    run.ask(tw.cancel, "orders", key="order-9")
    run.ask(tw.reschedule, "orders", key="order-1", delay="30m")
    run.ask(tw.deliver_now, "orders", key="order-2")
    run.ask(tw.cancel, "orders", no_key)
    run.until(begun + 15 * 60 + 10)
    run.ask(tw.cancel, "orders", key="order-3")
    run.ask(tw.get, "orders", no_key)
    run.answers += [
        (f"dead: {each.body} {each.attempt} of {run.names[str(each.original_id)]}: {each.reason}", 0)
        for each in tw.dead_letters("hooks", "post")
    ]
    run.until(20 * 60 + 10)
    tw.resume("paused", "held")
    run.until(50 * 60 + 10)
    tw.cancel_recurring("jobs", "cron")
    run.ask(tw.cancel, "reminders", key="cart")
    run.until(2.5 * HOUR_S)
    run.ask(tw.get, "reminders", moved)


def result(stack: Any, base: dt.datetime) -> Run:
    """Runs the program from a full hour on, so that cron and slots have the same seconds in each run."""
    run = Run(stack, base)
    program(run)
    assert stack.failures == []
    assert all(at >= due for (_, at), due in zip(run.arrivals, run.due, strict=True)), "early"
    return run


BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def memory() -> Run:
    return result(MemoryTidewheel(start=BASE), BASE)


def test_the_deployed_defaults_keep_what_the_program_was_promised(memory: Run) -> None:
    def seconds(body: str) -> list[float]:
        return [at for text, at in memory.arrivals if f": {body} " in text]

    assert [seconds(f"mail {number}") for number in range(6)] == [[], [], [], [], [], [140]], "a burst is one message"
    assert (seconds("storm 6"), seconds("storm 8")) == ([260], [320]), "the maximum of the first, and the last"
    assert [seconds(f"time-out {number}") for number in range(4)] == [[], [2290], [MINUTES_8], [960]]
    assert [seconds(body) for body in ("older", "newer", "dropped", "moved")] == [[], [], [], [5800]]


def test_memory_and_virtual_time_agree_to_the_millisecond(memory: Run) -> None:
    with LocalTidewheel(start=BASE) as stack:
        virtual = result(stack, BASE)
    assert virtual.answers == memory.answers
    assert (virtual.arrivals, virtual.due) == (memory.arrivals, memory.due)


@pytest.mark.long
def test_real_time_agrees_to_the_second(memory: Run) -> None:
    with LocalTidewheel(clock="real") as stack:
        real = result(stack, stack.now().replace(minute=0, second=0, microsecond=0) + dt.timedelta(hours=1))
    for found, expected in ((real.answers, memory.answers), (ordered(real), ordered(memory))):
        assert [text for text, _ in found] == [text for text, _ in expected]
        assert [at for _, at in found] == pytest.approx([at for _, at in expected], abs=SECOND)


def ordered(run: Run) -> Sequence[Told]:
    """Returns the arrivals by subscription and body, whatever the order within a second."""
    return sorted(run.arrivals)
