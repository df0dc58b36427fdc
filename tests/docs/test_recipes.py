"""Tests each recipe's promise on the in-memory service in virtual time."""

from __future__ import annotations

import runpy
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.docs.recipe import RECIPES, RECURRING, Service, load
from tests.docs.test_snippets import region
from tidewheel import RetryLater, Worker

PROGRAMS = ("order_timeout", "debounce", "reminders", "webhook_retries", "nightly_job", "one_worker", "web_worker")
"""Recipes of a short program with its own tests."""
SHOWN = [path for path in sorted(RECIPES.glob("*.py")) if path.stem not in PROGRAMS]


@pytest.mark.parametrize("path", [*SHOWN, RECURRING], ids=lambda path: path.stem)
def test_every_recipe_runs_and_shows_something(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_tests_in_a_recipe_pass_with_the_default_settings_of_topics(name: str) -> None:
    tests = [made for made in vars(load(name)).values() if getattr(made, "__name__", "").startswith("test_")]
    assert tests
    for test in tests:
        test()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_recipe_is_short(name: str) -> None:
    assert sum(map(bool, region(f"examples/recipes/{name}.py#recipe").splitlines())) <= 17


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
    fails, worker = True, Worker()

    def work(body: Any) -> None:
        bill.execute("INSERT INTO bills VALUES (?)", (body["order"],))
        if fails:
            raise RetryLater(delay="1m")

    worker.handles(f"{recipe.TOPIC}/{recipe.SUBSCRIPTION}")(lambda message: recipe.once(bill, message, work))
    service.stack.drain(worker, "2s")
    assert bills(bill) == []
    fails = False
    service.stack.drain(worker, "2m")
    assert bills(bill) == [17]


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
