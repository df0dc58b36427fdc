"""Tests each recipe's promise on the in-memory service in virtual time."""

from __future__ import annotations

import runpy
import sqlite3
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.docs.recipe import RECIPES, RECURRING, Service, load
from tidewheel import Consumer, RetryLater


@pytest.mark.parametrize("path", [*sorted(RECIPES.glob("*.py")), RECURRING], ids=lambda path: path.stem)
def test_every_recipe_runs_and_shows_something(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


# ---- reminders


def test_reminders_come_a_day_and_an_hour_before_the_appointment_wherever_it_was_moved() -> None:
    recipe, service = load("reminders"), Service()
    service.make(recipe.TOPIC, "mailer")
    for hours in (90, 40, 60):
        recipe.book(service.tw, "dentist", service.start + timedelta(hours=hours), service.start)
    came = service.arrivals(recipe.TOPIC, "mailer", minutes=100 * 60)
    assert [minute for minute, _ in came] == [36 * 60, 59 * 60]
    calendar = {"dentist": service.start + timedelta(hours=60)}
    assert all(recipe.is_wanted(message, calendar) for _, message in came)
    assert not any(recipe.is_wanted(message, {}) for _, message in came)


def test_a_reminder_whose_time_has_passed_is_not_sent_and_the_one_before_a_move_is_called_back() -> None:
    recipe, service = load("reminders"), Service()
    service.make(recipe.TOPIC, "mailer")
    recipe.book(service.tw, "dentist", service.start + timedelta(hours=60), service.start)
    recipe.book(service.tw, "dentist", service.start + timedelta(hours=6), service.start)
    assert [minute for minute, _ in service.arrivals(recipe.TOPIC, "mailer", minutes=70 * 60)] == [5 * 60]


def test_no_reminder_comes_of_what_was_called_off() -> None:
    recipe, service = load("reminders"), Service()
    service.make(recipe.TOPIC, "mailer")
    recipe.book(service.tw, "dentist", service.start + timedelta(hours=60), service.start)
    service.stack.advance(hours=40)
    assert len(service.stack.receive(recipe.TOPIC, "mailer")) == 1
    recipe.call_off(service.tw, "dentist")
    assert service.arrivals(recipe.TOPIC, "mailer", minutes=30 * 60) == []


# ---- order time-out


@pytest.fixture
def db() -> sqlite3.Connection:
    """A shop's table of orders."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)")
    return connection


def state(db: sqlite3.Connection, order: int) -> str:
    return str(db.execute("SELECT state FROM orders WHERE id = ?", (order,)).fetchone()[0])


def test_the_time_out_of_a_paid_order_never_comes(db: sqlite3.Connection) -> None:
    recipe, service = load("order_timeout"), Service()
    recipe.set_up(service.tw)
    recipe.place(service.tw, db, 1)
    service.stack.advance(minutes=11)
    assert recipe.pay(service.tw, db, 1)
    assert service.arrivals(recipe.TOPIC, "orders", minutes=60) == []
    assert state(db, 1) == "paid"


def test_an_order_that_is_not_paid_is_closed_after_a_quarter_of_an_hour(db: sqlite3.Connection) -> None:
    recipe, service = load("order_timeout"), Service()
    recipe.set_up(service.tw)
    recipe.place(service.tw, db, 1)
    [(minute, message)] = service.arrivals(recipe.TOPIC, "orders", minutes=60)
    assert minute == 15
    assert recipe.close(message, db) and state(db, 1) == "closed"
    assert not recipe.close(message, db)  # a copy does no harm
    assert not recipe.pay(service.tw, db, 1)


def test_an_order_that_is_paid_at_the_last_moment_stays_paid(db: sqlite3.Connection) -> None:
    recipe, service = load("order_timeout"), Service()
    consumer = recipe.set_up(service.tw)
    recipe.place(service.tw, db, 1)
    service.stack.advance(minutes=14, seconds=50)
    assert recipe.pay(service.tw, db, 1)
    assert not service.tw.cancel(recipe.TOPIC, key="order:1")  # its slot is sealed
    service.stack.advance(seconds=11)
    plain = service.tw.receive(recipe.TOPIC, "orders")
    assert not recipe.close(plain[0], db) and state(db, 1) == "paid"
    service.stack.advance(minutes=2)  # its visibility time-out
    assert consumer.receive() == [] and consumer.counts.superseded == 1


# ---- debounce


def test_ten_changes_within_an_hour_make_one_message_an_hour_after_the_last() -> None:
    recipe, service = load("debounce"), Service()
    recipe.set_up(service.tw)
    for _ in range(10):
        service.stack.advance(minutes=6)
        recipe.changed(service.tw, "a.md")
    [(minute, message)] = service.arrivals(recipe.TOPIC, "indexer", minutes=180)
    assert (minute, message.json()) == (120, {"document": "a.md"})


def test_a_change_in_the_last_minutes_is_debounced_by_the_consumer() -> None:
    recipe, service = load("debounce"), Service()
    consumer = recipe.set_up(service.tw)
    recipe.changed(service.tw, "a.md")
    service.stack.advance(minutes=59)
    recipe.changed(service.tw, "a.md")
    service.stack.advance(minutes=2)
    assert consumer.receive() == [] and consumer.counts.superseded == 1
    service.stack.advance(minutes=58, seconds=1)
    [message] = consumer.receive()
    assert message.json() == {"document": "a.md"}


def test_without_replace_the_message_comes_an_hour_after_the_first_change_and_then_the_next_begins() -> None:
    recipe, service = load("debounce"), Service()
    recipe.set_up(service.tw)
    for _ in range(8):
        recipe.changed_first(service.tw, "a.md")
        service.stack.advance(minutes=10)
    assert service.minutes() == 80
    assert len(service.stack.receive(recipe.TOPIC, "indexer")) == 1
    came = service.arrivals(recipe.TOPIC, "indexer", minutes=180)
    assert [minute for minute, _ in came] == [120]  # of the change at 60 minutes


# ---- retry


def test_a_retry_comes_after_one_two_and_four_minutes_and_then_goes_to_the_dead_letters() -> None:
    recipe, service = load("retry_with_backoff"), Service()
    consumer = recipe.set_up(service.tw)
    attempts: list[tuple[int, str]] = []

    def call(body: Any, key: str) -> None:
        attempts.append((service.minutes(), key))
        raise recipe.Unavailable

    receipt = service.tw.send(recipe.TOPIC, {"order": 17})
    for _ in range(60 * 60):
        service.stack.advance(seconds=1)
        recipe.work(service.tw, consumer, call, 0)
    assert attempts == [(minute, receipt.id) for minute in (0, 1, 3, 7)]
    assert service.tw.stats(recipe.TOPIC).dead == 1


# ---- once


@pytest.fixture
def bill() -> sqlite3.Connection:
    """A database with bills and the recipe's ids."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE bills (number INTEGER)")
    load("once").set_up(connection)
    return connection


def bills(db: sqlite3.Connection) -> list[int]:
    return [number for (number,) in db.execute("SELECT number FROM bills ORDER BY number")]


def test_a_copy_changes_nothing_in_a_database_that_keeps_the_ids(bill: sqlite3.Connection) -> None:
    recipe, service = load("once"), Service()
    service.make(recipe.TOPIC, recipe.SUBSCRIPTION)
    service.tw.send(recipe.TOPIC, {"order": 17})
    service.stack.advance(seconds=1)

    def work(body: Any) -> None:
        bill.execute("INSERT INTO bills VALUES (?)", (body["order"],))

    [message] = service.tw.receive(recipe.TOPIC, recipe.SUBSCRIPTION)
    assert recipe.once(bill, message, work)
    service.stack.advance(minutes=30)  # the worker died before it acknowledged
    [copy] = service.tw.receive(recipe.TOPIC, recipe.SUBSCRIPTION)
    assert not recipe.once(bill, copy, work)
    assert bills(bill) == [17]
    recipe.forget(bill)
    assert not recipe.once(bill, copy, work)  # remembered for weeks


def test_what_failed_leaves_nothing_and_is_done_at_its_next_attempt(bill: sqlite3.Connection) -> None:
    recipe, service = load("once"), Service()
    service.make(recipe.TOPIC, recipe.SUBSCRIPTION)
    service.tw.send(recipe.TOPIC, {"order": 17})
    service.stack.advance(seconds=1)
    stop, tries = threading.Event(), 0

    def work(body: Any) -> None:
        nonlocal tries
        tries += 1
        bill.execute("INSERT INTO bills VALUES (?)", (body["order"],))
        if tries == 1:
            stop.set()
            raise RetryLater(delay="1m")

    consumer = Consumer(service.tw, recipe.TOPIC, recipe.SUBSCRIPTION)
    consumer.run(lambda message: recipe.once(bill, message, work), stop=stop)
    assert bills(bill) == []
    service.stack.advance(minutes=2)
    [again] = service.tw.receive(recipe.TOPIC, recipe.SUBSCRIPTION)
    assert again.original_id is not None
    assert recipe.once(bill, again, work) and not recipe.once(bill, again, work)
    assert bills(bill) == [17]


# ---- trial expiry


def days(came: list[tuple[int, Any]]) -> list[tuple[int, str]]:
    return [(minute // 1440, message.attributes["step"]) for minute, message in came]


def test_a_trial_is_announced_twice_and_ends() -> None:
    recipe, service = load("trial_expiry"), Service()
    recipe.set_up(service.tw)
    ends_at = service.start + timedelta(days=14)
    recipe.begin(service.tw, "ann", ends_at, service.start)
    mails = service.arrivals(recipe.TOPIC, "mailer", minutes=15 * 1440)
    assert days(mails) == [(11, "three-days-left"), (13, "ends-tomorrow")]
    [end] = service.stack.receive(recipe.TOPIC, "accounts")
    assert end.deliver_at == ends_at and end.attributes == {"step": "ended"}
    assert recipe.still_ends(end, {"ann": ends_at})
    assert not recipe.still_ends(end, {"ann": ends_at + timedelta(days=7)}) and not recipe.still_ends(end, {})


def test_a_trial_that_is_extended_ends_later_and_once() -> None:
    recipe, service = load("trial_expiry"), Service()
    recipe.set_up(service.tw)
    recipe.begin(service.tw, "bob", service.start + timedelta(days=14), service.start)
    service.stack.advance(days=10)
    recipe.begin(service.tw, "bob", service.start + timedelta(days=20), service.stack.now())
    assert days(service.arrivals(recipe.TOPIC, "accounts", minutes=15 * 1440)) == [(20, "ended")]
    assert len(service.stack.receive(recipe.TOPIC, "mailer")) == 2


def test_a_trial_ends_in_silence_when_the_customer_buys() -> None:
    recipe, service = load("trial_expiry"), Service()
    recipe.set_up(service.tw)
    recipe.begin(service.tw, "eve", service.start + timedelta(days=14), service.start)
    service.stack.advance(days=12)
    recipe.bought(service.tw, "eve")
    assert days(service.arrivals(recipe.TOPIC, "accounts", minutes=5 * 1440)) == []
    assert [message.attributes["step"] for message in service.stack.receive(recipe.TOPIC, "mailer")] == [
        "three-days-left"
    ]


# ---- recurring


def test_the_recurring_example_comes_on_working_days_at_nine_in_berlin_until_it_is_moved() -> None:
    example, service = load("recurring", RECURRING.parent), Service()
    example.set_up(service.tw)
    thursday_and_friday = service.arrivals("reports", "writer", minutes=2 * 1440)
    example.change(service.tw)
    until_tuesday = service.arrivals("reports", "writer", minutes=4 * 1440)
    daily = [message for _, message in [*thursday_and_friday, *until_tuesday] if message.key == "daily"]
    assert [f"{message.deliver_at:%a %H:%M}" for message in daily] == [
        "Thu 08:00",
        "Fri 08:00",
        "Mon 09:00",
        "Tue 09:00",
    ]
    beats = [minute for minute, message in thursday_and_friday if message.body == "tick"]
    assert beats == [1, *range(15, 2 * 1440 + 1, 15)]  # that of the start came in its first minute
    assert [minute for minute, message in until_tuesday if message.body == "tick" and minute > 2 * 1440 + 15] == []
