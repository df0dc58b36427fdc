"""Sent messages are found again: when their queues took them, who took them, and never what was not sent."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from itertools import islice
from typing import Any
from unittest.mock import patch

import pytest

from tests.behaviour.test_status import shell
from tidewheel import AsyncTidewheel, Consumer, History, Message, Tidewheel, UnknownMessage
from tidewheel.flows.waiting import passed
from tidewheel.local import MemoryTidewheel
from tidewheel.storage.deliveries import Deliveries

ORDERS = "orders"


@pytest.fixture
def stack() -> Any:
    with MemoryTidewheel() as stack:
        yield stack


def client_of(stack: MemoryTidewheel, *subscriptions: str, **settings: Any) -> Tidewheel:
    tw = stack.client()
    tw.create_topic(ORDERS, **settings)
    for name in subscriptions or ("billing",):
        tw.create_subscription(ORDERS, name, reader="tidewheel")
    return tw


def bodies(history: History) -> list[str]:
    return [each.message.body for each in history]


def places(tw: Tidewheel, id: str) -> dict[str, str]:
    return {each.name: each.place.value for each in tw.get(ORDERS, id).subscriptions}


def test_messages_come_newest_first_with_when_and_to_whom_they_went(stack: MemoryTidewheel) -> None:
    tw = client_of(stack, "billing", "mail")
    tw.set_filter(ORDERS, "mail", {"kind": ["mail"]})
    for hours in range(1, 5):
        kind = "mail" if hours % 2 else "other"
        tw.send(ORDERS, f"at {hours}", delay=f"{hours}h", key=f"user-{hours % 2}/{hours}", attributes={"kind": kind})
    stopped = tw.send(ORDERS, "cancelled", delay="2h")
    stack.advance(minutes=10)
    assert tw.cancel(ORDERS, stopped.id)
    stack.advance(hours=3)
    assert [each.body for each in tw.receive(ORDERS, "billing")] == ["at 1", "at 2", "at 3"]
    newest, *others = history = tw.history(ORDERS)
    assert [each.message.body for each in others] == ["at 2", "at 1"]
    to = {each.name: each for each in newest.subscriptions}
    assert (newest.message.key, {name: each.place for name, each in to.items()}) == (
        "user-1/3",
        {"billing": "sent", "mail": "sent"},
    )
    sent_from, sent_until = to["billing"].sent_from, to["billing"].sent_until
    assert sent_from is not None and sent_until is not None
    assert newest.message.deliver_at - timedelta(minutes=13) <= sent_from <= sent_until <= newest.message.deliver_at
    assert (to["billing"].taken_at, to["mail"].taken_at) == (stack.now(), None)
    left_out = {each.name: each for each in others[0].subscriptions}["mail"]
    assert (left_out.place, left_out.why) == ("left out", "its filter leaves the message out")
    assert history.complete and history.looked_back_to <= stack.now() - timedelta(hours=3)
    assert bodies(tw.history(ORDERS, "mail")) == ["at 3", "at 1"]
    assert bodies(tw.history(ORDERS, since=stack.now() - timedelta(hours=2))) == ["at 3", "at 2"]
    assert bodies(tw.history(ORDERS, until=newest.id)) == ["at 2", "at 1"]
    assert bodies(tw.history(ORDERS, key="user-1/1")) == ["at 1"]
    assert tw.get(ORDERS, key="user-1/3").subscriptions == newest.subscriptions
    with pytest.raises(UnknownMessage, match="history"):
        tw.get(ORDERS, key="nobody's")
    counted = [each for each in tw.sent_by_hour(ORDERS, days=1) if each.messages]
    assert [(each.start.hour, each.messages) for each in counted] == [(0, 2), (1, 1), (2, 2)]


def test_a_retry_and_a_moved_message_are_found_by_their_key_and_a_replay_is_told(stack: MemoryTidewheel) -> None:
    tw = client_of(stack)
    first = tw.send(ORDERS, "x", delay="1h", key="user-17")
    tw.send(ORDERS, "moved", delay="1h", key="other")
    stack.advance(minutes=10)
    tw.reschedule(ORDERS, key="other", delay="2h")
    stack.advance(hours=1)
    [message] = tw.receive(ORDERS, "billing")
    Consumer(tw, ORDERS, "billing").retry_later(message, delay="1h")
    stack.advance(hours=2)
    retry, original = tw.history(ORDERS, key="user-17")
    assert (retry.message.original_id, retry.message.attempt, original.id) == (first.id, 1, first.id)
    assert len(bodies(tw.history(ORDERS, key="other"))) == 1
    tw.replay(ORDERS, "billing", end=original.message.deliver_at + timedelta(seconds=1))
    stack.advance(minutes=6)
    assert [each.replayed for each in tw.get(ORDERS, first.id).subscriptions] == [False, True]


def paused(tw: Tidewheel, stack: MemoryTidewheel) -> None:
    tw.pause(ORDERS, "billing")
    stack.advance(hours=3)
    tw.resume(ORDERS, "billing")


def purged(tw: Tidewheel, stack: MemoryTidewheel) -> None:
    tw.pause(ORDERS, "billing")
    stack.advance(hours=3)
    tw.purge(ORDERS)
    stack.advance(minutes=2)
    tw.resume(ORDERS, "billing")


def filtered(tw: Tidewheel, stack: MemoryTidewheel) -> None:
    tw.set_filter(ORDERS, "billing", {"kind": ["mail"]})
    stack.advance(hours=3)
    tw.set_filter(ORDERS, "billing", None)


@pytest.mark.parametrize(
    ("happens", "place"),
    [(paused, "expired"), (purged, "purged"), (filtered, "left out")],
    ids=["expired", "purged", "filtered"],
)
def test_what_was_not_sent_is_never_named_as_sent(
    stack: MemoryTidewheel, happens: Callable[[Tidewheel, MemoryTidewheel], None], place: str
) -> None:
    tw = client_of(stack)
    sent = tw.send(ORDERS, "x", delay="1h", expires_in="1h")
    tw.send(ORDERS, "far", delay="2d")  # a purge does not swap out the ledger
    stack.advance(minutes=10)
    happens(tw, stack)
    stack.advance(hours=1)
    assert stack.receive(ORDERS, "billing") == []
    assert places(tw, sent.id) == {"billing": place}
    assert tw.get(ORDERS, sent.id).state == place
    assert bodies(tw.history(ORDERS)) == []


def test_a_message_without_a_ledger_is_known_by_its_claim_only(stack: MemoryTidewheel) -> None:
    tw = client_of(stack)
    plain, keyed = tw.send(ORDERS, "plain", delay="1m"), tw.send(ORDERS, "keyed", delay="1m", key="k")
    stack.advance(minutes=5)
    assert len(tw.receive(ORDERS, "billing")) == 2
    assert tw.get(ORDERS, plain.id).state == "unknown"
    [to] = tw.get(ORDERS, keyed.id).subscriptions
    assert (to.name, to.state, to.place, to.taken_at) == ("billing", "ACTIVE", "sent", stack.now())
    assert bodies(tw.history(ORDERS)) == []


def test_history_ends_with_the_retention_and_says_how_far_it_looked(stack: MemoryTidewheel) -> None:
    tw = client_of(stack, retention_days=2)
    for days in range(1, 7):
        tw.send(ORDERS, f"day {days}", delay=f"{days}d")
    stack.advance(days=6, hours=3)
    history = tw.history(ORDERS)
    assert bodies(history) == ["day 6", "day 5"]
    assert history.looked_back_to >= stack.now() - timedelta(days=2, hours=3)


def test_a_look_reads_no_more_than_asked_for_and_ends_after_a_number_of_reads(stack: MemoryTidewheel) -> None:
    tw = client_of(stack, segment_rows=10)
    tw.send_many(ORDERS, [Message(body=f"{i}", delay=7200 + i, key=f"k{i}") for i in range(200)])
    stack.advance(hours=3)
    history = tw.history(ORDERS)
    assert (next(history).message.body, history.reads) == ("199", 1)
    assert bodies(history) == [f"{i}" for i in reversed(range(199))]
    with patch.object(passed, "MOST_READS", 5):
        history = tw.history(ORDERS, key="k3")
        assert (bodies(history), history.complete, history.reads) == ([], False, 5)
        history = tw.history(ORDERS)
        first, back_to = bodies(history), history.looked_back_to
    assert bodies(tw.history(ORDERS, key="k3", until=history.looked_back_to)) == ["3"]
    assert first + bodies(tw.history(ORDERS, until=back_to)) == [f"{i}" for i in reversed(range(200))]


def test_who_stops_and_goes_on_misses_nothing(stack: MemoryTidewheel) -> None:
    tw = client_of(stack)
    for hours in range(1, 31):
        tw.send(ORDERS, f"{hours}", delay=f"{hours}h")
    stack.advance(hours=31)
    history = tw.history(ORDERS)
    page = [each.message.body for each in islice(history, 20)]
    assert (page[-1], history.complete) == ("11", False)
    assert bodies(tw.history(ORDERS, until=history.looked_back_to)) == [f"{i}" for i in range(11, 0, -1)]
    shown = shell(tw, "sent", ORDERS, "-n", "20")
    *_, last = islice(tw.history(ORDERS), 20)
    assert f"go on with --until {last.id}" in shown
    found = json.loads(shell(tw, "sent", ORDERS, "--until", last.id, "--json"))
    assert [each["body"] for each in found["messages"]] == [f"{i}" for i in range(10, 0, -1)]


def test_what_no_record_tells_any_more_is_not_called_complete(stack: MemoryTidewheel) -> None:
    tw = client_of(stack, "billing", "slow", retention_days=1)
    tw.pause(ORDERS, "slow")
    sent = tw.send(ORDERS, "x", delay="1h")
    stack.advance(days=5)  # the ledger stays for `slow`, the record of `billing` is gone
    assert places(tw, sent.id) == {"billing": "uncertain", "slow": "planned"}
    history = tw.history(ORDERS)
    assert (bodies(history), history.looked_back_to) == ([], stack.now() - timedelta(days=1))


def test_a_message_of_a_try_that_died_is_not_called_unsent(stack: MemoryTidewheel) -> None:
    tw = client_of(stack)
    tw.send(ORDERS, "far", delay="2d")  # a purge does not swap out the ledger
    sent = tw.send(ORDERS, "x", delay="1h")
    stack.advance(minutes=10)
    with (
        patch.object(Deliveries, "finish", side_effect=OSError),
        patch.object(Deliveries, "part_done", return_value=None),
    ):
        stack.advance(minutes=45)
    assert places(tw, sent.id) == {"billing": "delivering"}
    tw.purge(ORDERS)
    stack.advance(hours=2)
    assert [each.body for each in stack.receive(ORDERS, "billing")] == ["x"]
    assert places(tw, sent.id) == {"billing": "uncertain"}
    assert bodies(tw.history(ORDERS)) == ["x"]


def test_a_new_topic_of_a_deleted_topics_name_has_no_record_of_it_even_of_a_function_that_was_late(
    stack: MemoryTidewheel,
) -> None:
    tw = client_of(stack)
    tw.send(ORDERS, "old", delay="1h")
    stack.advance(hours=2)
    deliveries = stack.service.deliveries
    [record] = deliveries.sent(ORDERS, 0, 1 << 40)
    tw.delete_topic(ORDERS, delete_queues=True)
    stack.advance(minutes=5)
    deliveries.finish(record, 1 << 40)  # as a function that read the topic before the mark, at the end of its time
    stack.advance(minutes=15)
    client_of(stack)
    assert [*deliveries.sent(ORDERS, 0, 1 << 40), *tw.history(ORDERS)] == []
    assert sum(each.messages for each in tw.sent_by_hour(ORDERS)) == 0


def test_a_delivery_whose_record_is_to_come_is_told_by_get(stack: MemoryTidewheel) -> None:
    tw = client_of(stack)
    sent = tw.send(ORDERS, "x", delay="1h")
    with patch.object(Deliveries, "finish", side_effect=OSError):
        stack.advance(minutes=55)
        assert places(tw, sent.id) == {"billing": "sent"}
    stack.advance(minutes=10)
    assert bodies(tw.history(ORDERS)) == ["x"]


def test_a_cancel_after_the_sending_does_not_unsend(stack: MemoryTidewheel) -> None:
    tw = client_of(stack, claims="all")
    sent = tw.send(ORDERS, "x", delay="1h")
    stack.advance(hours=2)
    tw.create_subscription(ORDERS, "later", initial_position="earliest", reader="tidewheel")
    stack.advance(minutes=10)
    tw.cancel(ORDERS, sent.id)
    [found] = tw.history(ORDERS)
    assert found.cancelled
    assert {each.name: each.place for each in found.subscriptions} == {"billing": "sent", "later": "uncertain"}


def requests(stack: MemoryTidewheel, call: Callable[[], Any]) -> Counter[str]:
    """Counts what a call asks of the table, and its GETs of objects."""
    found: Counter[str] = Counter()
    service = stack.service

    def counted(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **options: Any) -> Any:
            found[name] += 1
            return of(*args, **options)

        return asked

    with ExitStack() as patches:
        for name in ("get_item", "batch_get_item", "query"):
            of = getattr(service.dynamodb, name)
            patches.enter_context(patch.object(service.dynamodb, name, counted(name, of)))
        of = service.objects.get_range
        patches.enter_context(patch.object(service.objects, "get_range", counted("get", of)))
        call()
    return found


def test_the_requests_of_get_and_of_a_page_of_history(stack: MemoryTidewheel) -> None:
    tw = client_of(stack, "billing", "mail")
    tw.send_many(ORDERS, [Message(body=f"{i}", delay=7200 + i, key=f"k{i}") for i in range(50)])
    stack.advance(hours=3)
    [*_, last] = tw.history(ORDERS)
    # Before the history, a get took as many: the record took the place of a second read of the plan.
    asked = requests(stack, lambda: tw.get(ORDERS, last.id))
    assert asked == {"get_item": 4, "query": 5, "get": 1}
    assert requests(stack, lambda: tw.get(ORDERS, key=str(last.message.key))) - asked == {"get_item": 1}
    asked = requests(stack, lambda: list(tw.history(ORDERS)))
    assert (asked["query"], asked["batch_get_item"], asked["get"]) == (4, 3, 1)


def test_the_command_and_the_async_client_show_the_same(stack: MemoryTidewheel) -> None:
    tw = client_of(stack)
    tw.send(ORDERS, "[red]x", delay="1h", key="user-17")
    stack.advance(hours=2)
    shown = shell(tw, "sent", ORDERS, "--key", "user-17")
    assert "billing: sent 2026-01-01 00:52:43" in shown and "looked back to 2026-01-01T00:00:00+00:00" in shown
    found = json.loads(shell(tw, "sent", ORDERS, "--json"))
    assert [(each["body"], each["to"][0]["place"]) for each in found["messages"]] == [("[red]x", "sent")]
    assert found["complete"]
    assert "user-17" in shell(tw, "get", ORDERS, "--key", "user-17")

    async def find() -> list[str]:
        async with AsyncTidewheel(client=tw) as client:
            return [each.message.body async for each in await client.history(ORDERS)]

    assert asyncio.run(find()) == ["[red]x"]
