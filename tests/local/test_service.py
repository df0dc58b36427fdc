"""The real service on the local runtime, with the packaged template, the functions' handlers and the SDK's client."""

from __future__ import annotations

import datetime as dt

from tidewheel.local import LocalTidewheel


def test_a_message_sent_with_three_days_delay_is_received_after_three_days() -> None:
    with LocalTidewheel(start="2026-01-01T00:00:00Z") as stack:
        tw = stack.client()
        tw.create_topic("orders")
        tw.create_subscription("orders", "billing")
        sent = tw.send("orders", {"id": 17}, delay="3d")
        stack.advance(days=2, hours=23, minutes=59, seconds=59)
        assert stack.receive("orders", "billing") == []
        stack.advance(seconds=1)
        [message] = stack.receive("orders", "billing")
        assert message.id == sent.id
        assert message.json() == {"id": 17}
        assert message.visible_at == dt.datetime(2026, 1, 4, tzinfo=dt.UTC)
        assert stack.receive("orders", "billing") == []
        assert stack.failures == []
        assert stack.requests["s3.PutObject"] == 3  # the ledger, and a checkpoint of a collection and of a day


def test_a_lost_schedule_is_healed_by_the_sweep() -> None:
    with LocalTidewheel(slot_s=60, lookahead_s=480) as stack:
        tw = stack.client()
        tw.create_topic("orders")
        tw.create_subscription("orders", "billing")
        stack.drop_schedules = True
        tw.send("orders", "anyway", delay="2h")
        stack.advance(hours=2, seconds=1)
        assert [message.body for message in stack.receive("orders", "billing")] == ["anyway"]
        assert stack.invocations["dispatch"] > 0  # the sweep has started it
        assert stack.invocations["sweep"] > 0 == stack.requests["scheduler.Invoke"]


def test_the_fixture_of_the_pytest_plugin_is_an_open_stack(local_tidewheel: LocalTidewheel) -> None:
    assert local_tidewheel.now() == dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
