"""The harness finds a flow with a wrong order of writes, and names the point of its death."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.conftest import TOPIC
from tests.crash import stories_delivery, stories_ingest, stories_upkeep
from tests.crash.death import Point, When
from tests.crash.story import Report, Story, explore
from tests.crash.verdict import _unexplained
from tests.crash.world import MortalTidewheel, World
from tidewheel.errors import PartLeased, QueueUnavailable
from tidewheel.flows.delivery import deliver, drain, ingest, release
from tidewheel.flows.upkeep import sweep
from tidewheel.local.pump import Failure, PartialFailure


def dying_after(operation: str) -> Any:
    """Chooses deaths after one operation only, since a broken flow need not die everywhere."""

    def chosen(point: Point) -> bool:
        return point.when is When.AFTER and point.operation == operation

    return chosen


def found(report: Report, what: str, point: str) -> bool:
    """Whether a problem of a kind was found in a run with a given happening."""
    return any(what in problem and point in problem for problem in report.problems)


def test_a_delivery_that_is_deleted_before_it_is_sent_is_found(
    stack: MortalTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = deliver._send_ready

    def delete_first(ports: Any, state: Any, ready: Any, failures: Any) -> Any:
        ports.deliveries.delete([each.delivery.key for each in ready])
        return send(ports, state, ready, failures)

    monkeypatch.setattr(deliver, "_send_ready", delete_first)
    report = explore(stack, stories_delivery.dispatching_a_small_plan, dying_after("dynamodb.DeleteItem"))
    assert found(report, "lost: 'one'", "dispatch died after call")
    assert not report.undisturbed.problems


def test_a_park_that_is_deleted_before_it_is_sent_is_found(
    stack: MortalTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, send = drain.parked_rows, release.send
    drained = []

    def remember(objects: Any, park: Any) -> Any:
        drained.append(park.key)
        return read(objects, park)

    def delete_first(ports: Any, queue_url: str, messages: Any) -> Any:
        ports.parks.delete(drained)
        return send(ports, queue_url, messages)

    monkeypatch.setattr(drain, "parked_rows", remember)
    monkeypatch.setattr(release, "send", delete_first)
    report = explore(stack, stories_delivery.catching_up, dying_after("dynamodb.DeleteItem"))
    assert found(report, "lost: 'parked'", "deliver died after call")
    assert not report.undisturbed.problems


def test_a_message_that_is_sent_twice_for_no_reason_is_found(
    stack: MortalTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = release.send_all

    def twice(ports: Any, sendings: Any) -> Any:
        send(ports, sendings)
        return send(ports, sendings)

    monkeypatch.setattr(release, "send_all", twice)
    report = explore(stack, stories_ingest.ingesting_urgent, lambda _: False)
    assert found(report, "too many copies: 'soon'", "undisturbed")


def test_a_copy_after_a_death_that_had_handed_nothing_over_is_found(
    stack: MortalTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(ingest, "content_id", lambda _: f"{next(numbers):032x}")  # so a batch is never known again
    monkeypatch.setattr(deliver, "without_repeats", lambda rows: rows)
    report = explore(stack, stories_ingest.ingesting_bulk, dying_after("dynamodb.TransactWriteItems"))
    assert found(report, "too many copies: 'far'", "ingest died after call")
    assert not report.undisturbed.problems


def test_a_message_that_is_early_is_found(stack: MortalTidewheel, monkeypatch: pytest.MonkeyPatch) -> None:
    delay_s = release.fine_delay_s

    def too_short(due_ms: int, now_ms: int, skew_ms: int) -> int:
        return max(0, delay_s(due_ms, now_ms, skew_ms) - 2)

    monkeypatch.setattr(release, "fine_delay_s", too_short)
    report = explore(stack, stories_ingest.ingesting_urgent, lambda _: False)
    assert found(report, "early by", "undisturbed")


def test_an_object_that_nobody_deletes_is_found(stack: MortalTidewheel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "sweep_orphans_daily", lambda *_: None)
    report = explore(stack, stories_ingest.ingesting_urgent, dying_after("s3.PutObject"))
    assert found(report, "object left behind: ledgers/orders/", "ingest died after call")
    assert not report.undisturbed.problems


def test_a_story_that_does_not_come_to_what_it_is_about_is_found(stack: MortalTidewheel) -> None:
    def nothing(_: Any) -> None:
        """Does nothing."""

    empty = Story(name="empty", tell=nothing, reaches=frozenset({"s3.PutObject"}))
    assert found(explore(stack, empty, lambda _: True), "never came to s3.PutObject", "undisturbed")


def test_a_job_that_fails_after_a_death_is_no_problem_only_if_another_had_its_lease() -> None:
    reported = Failure(function="deliver", at_ms=0, event={}, error=PartialFailure("1 of 1"))
    leased, refused = PartLeased("plan 1", 0), QueueUnavailable("queue", "not now")

    assert list(_unexplained([reported], [leased], died=True)) == []
    assert list(_unexplained([reported], [], died=True)) != []
    assert list(_unexplained([reported], [leased, refused], died=True)) != []
    assert list(_unexplained([reported], [leased], died=False)) != []


def test_what_died_asks_nothing_more_of_aws(stack: MortalTidewheel) -> None:
    """A dead merge does not return its lease, although the return is in a `finally`."""

    def tell(world: World) -> None:
        with world.killed("compact", "dynamodb.TransactWriteItems"):
            stories_upkeep.send_four_ledgers(world)
        assert world.stack.invocations["compact"] == 1
        dynamodb = world.aws("dynamodb")
        [table] = dynamodb.list_tables()["TableNames"]
        found = dynamodb.get_item(TableName=table, Key={"pk": {"S": f"T#{TOPIC}"}, "sk": {"S": "MERGE"}})
        assert "until_ms" in found["Item"]

    killed = Story(name="killed", tell=tell, reaches=frozenset(), settings=stories_upkeep.FEW_LEDGERS)
    assert not explore(stack, killed, lambda _: False).problems
