"""The service's AWS requests in each flow, as in `tidewheel.cost.figures`. Changes here change the bill."""

from __future__ import annotations

import pytest

from tests.conftest import TOPIC, orders
from tests.local.asked import assert_asked, assert_asks, batch_window, counts, far, settle, sweep
from tidewheel.model.message import Message


@pytest.mark.parametrize("count", [1, 1000])
def test_sending_is_one_request_for_up_to_thousands_of_messages(count: int) -> None:
    with orders() as service:
        settle(service)
        service.client.send(TOPIC, "the client reads the topic's state once a minute", delay="3d")
        assert_asks(service, far(service, count, days=2), send={"call": 1})
        batch_window(service)()
        assert_asks(service, far(service, count, days=2), send={"call": 1}, client={"minute": 1})


@pytest.mark.parametrize("count", [1, 1000])
def test_one_ingest_call_asks_the_same_of_aws_whatever_the_number_of_messages(count: int) -> None:
    with orders("billing", "audit") as service:
        settle(service)
        one = {"call": 1, "ten_packs": 1, "topic": 1, "ledger": 1}
        far(service, count, days=3)()
        assert_asks(service, batch_window(service), ingest=one | {"woken": 1})
        far(service, count, days=2)()
        assert_asks(service, batch_window(service), ingest=one | {"lowered": 1})
        far(service, count, days=4)()
        # An earlier slot's schedule is to come, and leads to this one's.
        assert_asks(service, batch_window(service), ingest=one)


def test_forty_packs_are_taken_ten_at_a_time_and_make_one_ledger() -> None:
    with orders() as service:
        settle(service)
        far(service, 1, days=2)()
        batch_window(service)()
        for _ in range(40):
            far(service, 1, days=3)()
        assert_asks(service, batch_window(service), ingest={"call": 1, "ten_packs": 4, "topic": 1, "ledger": 1})


def test_what_is_due_soon_costs_ingest_what_the_rest_costs() -> None:
    with orders() as service:
        settle(service)
        service.client.send(TOPIC, "waits", delay="20m")
        service.stack.advance(seconds=1)
        service.client.send(TOPIC, "urgent", delay="30m")
        one = {"call": 1, "ten_packs": 1, "topic": 1, "ledger": 1}
        assert_asks(service, lambda: service.stack.advance(seconds=1), ingest=one)


@pytest.mark.parametrize("subscriptions", [("billing",), ("billing", "audit")])
def test_direct_messages_cost_two_queries_and_their_sends(subscriptions: tuple[str, ...]) -> None:
    with orders(*subscriptions) as service:
        settle(service)
        messages = [Message(body=f"message {i}", delay="5m") for i in range(25)]
        direct = {"call": 1, "ten_packs": 1, "topic": 1, "direct": 1, "sends": 3 * len(subscriptions)}
        service.client.send_many(TOPIC, messages)
        assert_asks(service, lambda: service.stack.advance(seconds=1), ingest=direct | {"sealed": 1})
        service.client.send_many(TOPIC, messages)
        assert_asks(service, lambda: service.stack.advance(seconds=1), ingest=direct)


@pytest.mark.parametrize("subscriptions", [("billing",), ("billing", "audit")])
def test_one_slots_dispatch_asks_for_each_subscription_only_its_sends_and_one_delete_more(
    subscriptions: tuple[str, ...],
) -> None:
    with orders(*subscriptions) as service:
        settle(service)
        far(service, 25, days=2)()
        far(service, 1, days=3)()
        batch_window(service)()
        before = dict(service.stack.invocations)
        n = len(subscriptions)
        assert_asks(
            service,
            lambda: service.stack.advance(days=2),
            dispatch={"call": 1, "subscription": n, "armed": 1, "segment": 1, "sends": 3 * n, "inline": n},
            record={"call": n},
        )
        assert service.stack.invocations == before | {"dispatch": before["dispatch"] + 1}
        for name in subscriptions:
            assert len(service.take(name)) == 25


@pytest.mark.parametrize("subscriptions", [("billing",), ("billing", "audit")])
def test_a_large_slots_parts_cost_a_job_each_and_the_segments_that_they_read(subscriptions: tuple[str, ...]) -> None:
    with orders(*subscriptions, inline_rows=2000) as service:
        settle(service)
        far(service, 2500, days=2)()
        far(service, 1, days=3)()
        batch_window(service)()
        n = len(subscriptions)
        assert_asks(
            service,
            lambda: service.stack.advance(days=2),
            dispatch={"call": 1, "subscription": n, "armed": 1, "ten_parts": n},
            deliver={"call": 3 * n, "segment": 3 * n, "sends": 250 * n, "complete": n},
            record={"call": n},
        )


def test_a_sweep_that_finds_nothing_asks_two_queries_a_shard_and_once_an_hour_a_third() -> None:
    with orders() as service:
        far(service, 10, days=3)()
        settle(service)
        service.stack.advance(minutes=10)
        sweep(service)  # the daily part is done
        assert_asks(service, lambda: sweep(service), sweep={"call": 1})
        service.stack.advance(minutes=50)
        assert_asks(service, lambda: sweep(service), sweep={"call": 1, "hour": 1, "hour_topic": 1})


def test_a_live_view_asks_in_each_sweep_and_is_put_if_it_changed() -> None:
    with orders(live_view=1) as service:
        settle(service)
        five = batch_window(service)
        five()  # the daily part is done
        assert_asks(service, five, sweep={"call": 1, "topic": 1, "view": 1})
        far(service, 10, days=30)()
        service.stack.advance(minutes=4)
        five()  # ingests
        assert_asks(service, five, sweep={"call": 1, "topic": 1, "view": 1, "view_changed": 1})


def test_a_waiting_topic_asks_nothing_of_aws_until_its_slot_is_near() -> None:
    with orders("billing", "audit") as service:
        far(service, 10, days=30)()
        settle(service)
        assert_asks(service, lambda: service.stack.advance(days=28))


@pytest.mark.parametrize(
    ("days", "measures"),
    [(0, {"plan": 1, "bucket": 1}), (7, {"plan": 1, "trash": 1, "passed": 1, "passed_together": 1, "again": 1})],
    ids=["deleted", "kept"],
)
def test_a_collection_costs_a_checkpoint_and_a_delete_for_each_plan_and_ledger(
    days: int, measures: dict[str, int]
) -> None:
    with orders(retention_days=days) as service:
        settle(service)
        for due in {2, 2 + days}:
            far(service, 10, days=due)()
            batch_window(service)()
        service.stack.advance(days=1 + days, hours=23, minutes=30)
        service.invoke("sweep")  # the daily part is done
        service.stack.advance(minutes=20)
        assert service.stack.invocations["dispatch"] >= 1
        assert_asks(
            service,
            lambda: service.stack.advance(hours=3),
            sweep={"call": 1, "topic": 1},
            collect={"call": 1, "checkpoint": 1, **measures},
        )
        assert service.client.stats(TOPIC).buckets == 0


def test_the_daily_look_for_orphans_costs_six_listings() -> None:
    with orders(retention_days=0) as service:
        far(service, 10, days=9)()
        settle(service)
        sweep(service)
        service.stack.advance(days=2, minutes=10)
        assert_asks(service, lambda: sweep(service), sweep={"call": 1, "orphans": 1, "orphans_topic": 1})


def test_a_merge_in_the_function_costs_a_get_a_source_and_a_put_an_output() -> None:
    with orders(max_buckets=16) as service:
        settle(service)
        service.invoke("sweep")  # the daily part is done
        before, waiting = counts(service), 0
        while not service.stack.invocations["compact"]:
            waiting = service.client.stats(TOPIC).buckets  # reads the topic state for the client's next minute
            before = counts(service)
            far(service, 20, days=4)()
            batch_window(service)()
        assert_asked(
            service,
            before,
            {
                "send": {"call": 1},
                "ingest": {"call": 1, "ten_packs": 1, "topic": 1, "ledger": 1},
                "sweep": {"call": 1, "topic": 1, "merge": 1},
                "merge": {"call": 1, "source": waiting + 1, "output": 1},
            },
        )
        assert waiting + 1 > 16
        assert service.client.stats(TOPIC).buckets == 1


def test_cancelling_costs_a_transaction_and_a_key_two_requests_more() -> None:
    with orders() as service:
        settle(service)
        client = service.client
        by_id = client.send(TOPIC, "body", delay="5d")
        client.send(TOPIC, "body", delay="5d", key="a")
        batch_window(service)()
        assert_asks(service, lambda: client.cancel(TOPIC, by_id.id), cancel_by_id={"call": 1}, client={"minute": 1})
        assert_asks(service, lambda: client.cancel(TOPIC, key="a"), cancel_by_key={"call": 1})


def test_a_key_costs_a_write_a_message_and_an_upsert_a_transaction_more() -> None:
    with orders() as service:
        settle(service)
        client = service.client
        client.send(TOPIC, "soon", delay="2h")
        batch_window(service)()
        one = {"call": 1, "ten_packs": 1, "topic": 1, "ledger": 1}
        client.send_many(TOPIC, [Message(body="first", delay="5d", key=key) for key in "abc"])
        assert_asks(service, batch_window(service), ingest=one | {"key": 3})
        client.send(TOPIC, "second", delay="6d", key="a", replace=True)
        assert_asks(service, batch_window(service), ingest=one | {"upsert": 1})
        client.send(TOPIC, "too late", delay="6d", key="b")
        assert_asks(service, batch_window(service), ingest=one | {"loser": 1})


@pytest.mark.parametrize(
    ("claims", "keyed", "claimed"), [("none", True, 0), ("keyed", False, 0), ("keyed", True, 10), ("all", False, 10)]
)
def test_a_consumer_pays_two_requests_for_ten_messages_and_a_write_for_each_claim(
    claims: str, keyed: bool, claimed: int
) -> None:
    with orders(claims=claims) as service:
        settle(service)
        client = service.client
        keys = [f"key {i}" if keyed else None for i in range(11)]
        client.send_many(TOPIC, [Message(body="x", delay="10s", key=key) for key in keys])
        service.stack.advance(seconds=20)
        shows = claims != "none"
        first = {"one": 1, "first": 1, "shown": shows, "claim": claimed // 10}
        assert_asks(service, lambda: client.receive(TOPIC, "billing", max_messages=1), receive=first)

        def take() -> None:
            messages = client.receive(TOPIC, "billing")
            assert len(messages) == 10
            client.delete(TOPIC, "billing", messages)

        assert_asks(service, take, receive={"ten": 1, "claim": claimed})
