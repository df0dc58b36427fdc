"""The service's AWS requests for inspection, cancellation, pauses, purges, replays and deletions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conftest import TOPIC, orders
from tests.local.asked import DAY_S, assert_asked, assert_asks, batch_window, counts, far, settle, sweep
from tests.local.client_requests import ALL_FLOWS, CALLS, NOT_COUNTED
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.model.message import Message

INGEST = {"call": 1, "ten_packs": 1, "topic": 1}
SOON = [Message(body=f"message {i}", delay="2m") for i in range(5)]


def test_every_call_of_a_client_is_counted_or_says_why_not() -> None:
    public = {name for name in dir(Tidewheel) if not name.startswith("_") and callable(getattr(Tidewheel, name))}
    assert {*CALLS, *NOT_COUNTED} == public and not CALLS.keys() & NOT_COUNTED.keys()
    assert {name for names in CALLS.values() for name in names} <= ALL_FLOWS.keys()


@pytest.mark.parametrize("subscriptions", [("billing",), ("billing", "audit")])
def test_looking_costs_some_queries_and_a_segment_a_slot(subscriptions: tuple[str, ...]) -> None:
    with orders(*subscriptions) as service:
        settle(service)
        client = service.client
        waits = client.send(TOPIC, "waits", delay="5d")
        batch_window(service)()
        far(service, 3, days=2)()
        batch_window(service)()
        assert_asks(service, lambda: client.stats(TOPIC), stats={"call": 1, "subscription": len(subscriptions)})
        assert_asks(service, lambda: client.get(TOPIC, waits.id), get={"call": 1})
        assert_asks(service, lambda: client.peek(TOPIC, 3), peek={"call": 1, "segment": 1})
        assert_asks(service, lambda: client.peek(TOPIC, 4), peek={"call": 1, "segment": 2})


def test_rescheduling_is_a_look_a_tombstone_and_a_pack_and_a_purge_two_writes() -> None:
    with orders() as service:
        settle(service)
        client = service.client
        waits = client.send(TOPIC, "waits", delay="5d")
        client.send(TOPIC, "sooner", delay="4d")
        batch_window(service)()
        assert_asks(service, lambda: client.reschedule(TOPIC, waits.id, delay="6d"), reschedule={"call": 1})
        assert_asks(service, batch_window(service), ingest=INGEST | {"ledger": 1, "moved": 1})
        later = service.stack.now() + timedelta(days=7)
        assert_asks(service, lambda: client.purge(TOPIC, start=later), purge={"call": 1})
        assert_asks(service, lambda: client.purge(TOPIC), purge={"call": 1, "emptied": 1})


def test_direct_messages_of_a_paused_subscription_cost_a_transaction_and_a_job_each_pack() -> None:
    with orders() as service:
        settle(service)
        client = service.client
        client.send_many(TOPIC, SOON)
        service.stack.advance(seconds=1)
        client.pause(TOPIC, "billing")
        for _ in range(2):
            client.send_many(TOPIC, SOON)
            parked = INGEST | {"direct": 1, "parked": 1}
            assert_asks(service, lambda: service.stack.advance(seconds=1), ingest=parked)
        client.resume(TOPIC, "billing")
        drained = {"catch_up": 1, "ten_parks": 1, "drain": 2, "sends": 2}
        assert_asks(service, lambda: service.stack.advance(seconds=2), deliver=drained)
        service.stack.advance(minutes=3)
        assert len(service.take()) == 15


def test_a_paused_subscription_s_slot_is_only_planned_and_read_when_it_catches_up() -> None:
    with orders(retention_s=9 * DAY_S) as service:
        settle(service)
        client = service.client
        far(service, 25, days=2)()
        batch_window(service)()
        client.pause(TOPIC, "billing")
        assert_asks(service, lambda: service.stack.advance(days=2, minutes=1), dispatch={"call": 1})
        client.resume(TOPIC, "billing")
        caught_up = {"catch_up": 1, "handed_out": 1, "segment": 1, "sends": 3, "complete": 1}
        assert_asks(service, lambda: service.stack.advance(seconds=2), deliver=caught_up)
        # Each plan that comes again is handed out by the client, and a job for each thousand messages.
        assert_asks(service, lambda: client.replay(TOPIC, "billing"), replay={"call": 1, "plan": 1})
        again = {"call": 1, "segment": 1, "sends": 3, "complete": 1}
        assert_asks(service, lambda: service.stack.advance(seconds=2), deliver=again)


def test_a_recurring_message_costs_an_object_a_slot() -> None:
    with orders() as service:
        settle(service)
        client = service.client
        client.send(TOPIC, "waits", delay="9d")
        batch_window(service)()
        service.stack.advance(minutes=10)
        sweep(service)
        start, sent = (
            service.stack.now() + timedelta(hours=12),
            {"client": {"minute": 1}, "send recurring": {"call": 1}},
        )
        before = counts(service)
        client.send_recurring(TOPIC, "reports", "body", every="10d", start=start)
        assert_asked(service, before, sent)
        # The next sweep arms the wheel.
        assert_asks(service, lambda: service.stack.advance(minutes=1), sweep={"call": 1, "topic": 1, "armed": 1})
        occurrence = {"call": 1, "subscription": 1, "armed": 1, "recurring": 1, "segment": 1, "sends": 1, "inline": 1}
        assert_asks(service, lambda: service.stack.advance(hours=12), dispatch=occurrence)
        assert len(service.take()) == 1
        assert_asks(service, lambda: client.cancel_recurring(TOPIC, "reports"), cancel_recurring={"call": 1})


def test_deleting_a_topic_is_a_write_and_two_looks_of_the_sweep() -> None:
    with orders() as service:
        settle(service)
        far(service, 3, days=5)()
        batch_window(service)()
        sweep(service)
        assert_asks(service, lambda: service.client.delete_topic(TOPIC), delete_topic={"call": 1})
        assert_asks(service, lambda: service.stack.advance(minutes=5), sweep={"call": 1, "emptied_topic": 1})
        assert_asks(service, lambda: service.stack.advance(minutes=5), sweep={"call": 1, "freed_topic": 1})
        assert_asks(service, lambda: service.stack.advance(days=5))
