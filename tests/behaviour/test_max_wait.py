"""Tests messages that newer ones of their key put off, for no longer than a maximum."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel import BufferedSender, Cancelled, InvalidValue, MessageState


@pytest.fixture
def claimed(topic: Topic) -> Topic:
    """A topic with two subscriptions."""
    return topic.another("bursts", "billing", "audit")


def burst(topic: Topic, sends: int, every_s: int, body: str = "", **options: Any) -> list[str]:
    """Sends messages of one key, one after the other. Returns the bodies that came meanwhile, with the seconds."""
    found, begin_ms = [], topic.stack.clock.now_ms()
    for number in range(sends):
        topic.client.send(topic.name, f"{body}{number}", key="k", replace=True, **options)
        for _ in range(every_s):
            topic.advance(seconds=1)
            found += [(text, (topic.stack.clock.now_ms() - begin_ms) // 1000) for text in topic.bodies()]
    return found


def test_a_storm_of_sends_lets_a_message_come_each_time_the_maximum_has_passed(claimed: Topic) -> None:
    came = burst(claimed, 40, 10, delay="30s", max_wait="2m")
    assert [second for _, second in came] == pytest.approx([120, 240, 360], abs=12)
    assert [text for text, _ in came] == sorted({text for text, _ in came}, key=int)
    claimed.advance(minutes=2)
    assert claimed.bodies() == ["39"]
    assert claimed.bodies("audit") == [text for text, _ in came] + ["39"]


def test_when_it_is_quiet_the_last_message_comes_at_its_own_time(claimed: Topic) -> None:
    assert burst(claimed, 6, 5, delay="30s", max_wait="10m") == []
    claimed.advance(seconds=24)
    assert claimed.bodies() == []
    claimed.advance(seconds=3)
    assert claimed.bodies() == ["5"]
    claimed.advance(minutes=20)
    assert (claimed.bodies(), claimed.bodies("audit")) == ([], ["5"])


@pytest.mark.parametrize("settings", [{}, {"claims": "none"}])
def test_messages_in_ledgers_are_put_off_until_the_maximum(topic: Topic, settings: Any) -> None:
    orders = topic.another("ledgers", **settings)
    for number in range(6):
        receipt = orders.client.send(
            orders.name, str(number), delay="2h", key="k", replace=True, max_wait="3h" if number == 0 else None
        )
        orders.advance(minutes=20)
    earlier = orders.client.get(orders.name, receipt.id).moved_to
    assert earlier is not None
    status = orders.client.get(orders.name, earlier)
    assert status.state is MessageState.WAITING
    assert status.message is not None and status.message.key == "k"
    assert receipt.deliver_at - status.deliver_at == timedelta(minutes=40)
    orders.advance(minutes=59)
    assert orders.bodies() == []
    orders.advance(minutes=2)
    [message] = orders.take()
    assert (message.body, message.key) == ("5", "k")
    orders.advance(hours=3)
    assert orders.bodies() == []


def test_after_the_maximum_the_next_send_begins_anew(topic: Topic) -> None:
    orders = topic.another("anew")
    for number in range(4):
        orders.client.send(orders.name, str(number), delay="2h", key="k", replace=True, max_wait="150m")
        orders.advance(minutes=70)
    assert orders.bodies() == ["2"]
    orders.advance(minutes=49)
    assert orders.bodies() == []
    orders.advance(minutes=2)
    assert orders.bodies() == ["3"]


def test_of_two_maxima_the_earlier_end_counts(topic: Topic) -> None:
    orders = topic.another("two")
    for number, longest in enumerate(("10h", "150m", "9h")):
        orders.client.send(orders.name, str(number), delay="2h", key="k", replace=True, max_wait=longest)
        orders.advance(minutes=60)
    orders.advance(minutes=29)
    assert orders.bodies() == []
    orders.advance(minutes=2)
    assert orders.bodies() == ["2"]


def test_messages_of_one_batch_count_from_the_first(topic: Topic) -> None:
    orders = topic.another("batch")
    for number in range(3):
        orders.client.send(orders.name, str(number), delay="2h", key="k", replace=True, max_wait="121m")
        orders.advance(minutes=1)
    orders.advance(minutes=117)
    assert orders.bodies() == []
    orders.advance(minutes=2)
    assert orders.bodies() == ["2"]


@pytest.mark.story
def test_the_receipts_id_cancels_and_moves_the_message_that_came_earlier(topic: Topic) -> None:
    orders = topic.another("ids")
    first = orders.client.send(orders.name, "0", delay="2h", key="k", replace=True, max_wait="150m")
    orders.advance(minutes=60)
    second = orders.client.send(orders.name, "1", delay="2h", key="k", replace=True)
    orders.advance(minutes=10)
    assert orders.client.get(orders.name, first.id).state is MessageState.CANCELLED
    cancelled = orders.client.cancel(orders.name, second.id)
    assert isinstance(cancelled, Cancelled) and cancelled.id != second.id
    third = orders.client.send(orders.name, "2", delay="2h", key="k", replace=True)
    orders.advance(minutes=90)
    assert orders.bodies() == []  # a cancelled message promises nothing to a later one
    orders.client.reschedule(orders.name, third.id, delay="4h")
    orders.advance(minutes=239)
    assert orders.bodies() == []
    orders.advance(minutes=2)
    assert orders.bodies() == ["2"]


def test_a_cancel_by_key_ends_the_burst(claimed: Topic) -> None:
    burst(claimed, 5, 10, delay="30s", max_wait="1m")
    assert claimed.client.cancel(claimed.name, key="k")
    assert burst(claimed, 4, 10, "anew ", delay="30s", max_wait="2m") == []
    claimed.advance(seconds=40)
    assert claimed.bodies() == ["anew 3"]


def test_a_reschedule_ends_the_maximum(topic: Topic) -> None:
    orders = topic.another("moved")
    orders.send_and_store("0", delay="2h", key="k", replace=True, max_wait="3h")
    assert orders.client.reschedule(orders.name, key="k", delay="5h")
    orders.advance(minutes=10)
    orders.send("1", delay="6h", key="k", replace=True)
    orders.advance(minutes=359)
    assert orders.bodies() == []
    orders.advance(minutes=2)
    assert orders.bodies() == ["1"]


def test_a_reschedule_of_an_older_message_ends_the_maximum_of_the_newer_one(topic: Topic) -> None:
    orders = topic.another("older", retention_days=1)
    older = orders.send_and_store("0", delay="70m", key="k", replace=True)
    orders.advance(minutes=130)  # over an hour after its time, it is not replaced
    orders.send_and_store("1", delay="2h", key="k", replace=True, max_wait="3h")
    assert orders.client.reschedule(orders.name, older.id, delay="5h")
    orders.advance(minutes=299)
    assert orders.bodies() == []
    orders.advance(minutes=2)
    assert orders.bodies() == ["0"]


def test_a_large_body_an_expiry_and_a_group_come_along(topic: Topic) -> None:
    orders, body = topic.another("large"), "x" * 2_000_000
    orders.client.send(orders.name, "0", delay="2h", key="k", replace=True, max_wait="150m")
    orders.advance(minutes=60)
    orders.client.send(orders.name, body, delay="2h", key="k", replace=True, expires_in="1h", group="g")
    orders.advance(minutes=91)
    [message] = orders.take()
    assert (message.body, message.group, message.key) == (body, "g", "k")
    assert message.expires_at is not None
    assert message.expires_at - message.deliver_at == timedelta(hours=1)


def test_plain_and_buffered_messages_have_a_maximum(topic: Topic) -> None:
    orders = topic.another("plain")
    with BufferedSender(orders.client) as sender:
        sender.add(orders.name, "0", delay="2h", key="k", replace=True, max_wait="150m")
    orders.advance(minutes=60)
    wishes = {"topic": orders.name, "delay": "2h", "key": "k", "replace": True, "max_wait": "3h"}
    orders.sqs.send_message(
        QueueUrl=orders.ingest_urls()[0], MessageBody=json.dumps({"tidewheel": wishes, "body": "1"})
    )
    orders.advance(minutes=89)
    assert orders.bodies() == []
    orders.advance(minutes=2)
    assert orders.bodies() == ["1"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"delay": "1h", "max_wait": "1h"}, "max_wait='1h': give more than the delay, 3600 s"),
        ({"delay": "1h", "max_wait": "10s"}, "give more than the delay, 3600 s"),
        ({"delay": "1h", "window": "1h", "max_wait": "2h"}, "give more than the delay and the window, 7200 s"),
        ({"delay": "1h", "max_wait": "2h", "replace": False}, "max_wait='2h': give replace=True"),
        ({"delay": "1h", "max_wait": "2h", "replace": False, "key": None}, "give replace=True and a key"),
        ({"delay": "1h", "max_wait": "soon"}, "max_wait"),
    ],
)
def test_a_maximum_that_cannot_be_is_refused(topic: Topic, options: Any, named: str) -> None:
    with pytest.raises(InvalidValue, match=named):
        topic.client.send(topic.name, "x", **({"key": "k", "replace": True} | options))


SHORT: list[dict[str, Any]] = [
    {"delay": "779s"},
    {"delay_level": 5},
    {"delay": "30s", "max_wait": "10m"},
    {"deliver_at": 60, "max_wait": "10m"},
]


@pytest.mark.parametrize("options", SHORT, ids=repr)
def test_what_could_never_be_replaced_in_time_is_refused_without_claims(topic: Topic, options: Any) -> None:
    orders = topic.another("none", claims="none")
    if "deliver_at" in options:
        options = {**options, "deliver_at": orders.stack.now().timestamp() + options["deliver_at"]}
    with pytest.raises(InvalidValue, match=r"^(delay|deliver_at|delay_level)=.*give at least 780 s"):
        orders.send("x", key="k", replace=True, **options)
    with BufferedSender(orders.client) as sender, pytest.raises(InvalidValue, match="780 s"):
        sender.add(orders.name, "x", key="k", replace=True, **options)


def test_what_brings_forward_a_message_that_waits_is_no_mistake(topic: Topic) -> None:
    orders = topic.another("none", claims="none")
    for options in ({"delay": "780s"}, {"deliver_at": orders.stack.now().timestamp() + 60}, {}):
        orders.send("x", delay="3h", key="k", replace=True)
        orders.advance(seconds=1)
        orders.send("sooner", key="k", replace=True, **options)
        orders.advance(hours=4)
        assert orders.bodies() == ["sooner"]


def test_a_client_is_warned_once_that_plain_readers_get_what_is_replaced_late(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    orders = topic.another("plain", "billing")
    orders.client.create_subscription(orders.name, "audit", reader="plain")
    orders.advance(minutes=2)
    for options in ({"delay": "2h"}, *SHORT[:3]):
        orders.send("x", key="k", replace=True, **options)
    [warning] = [each.getMessage() for each in caplog.records]
    assert "plain readers (audit)" in warning and "at least 780 s" in warning


def test_a_message_that_came_earlier_is_found_by_its_key_when_it_was_moved(topic: Topic) -> None:
    orders = topic.another("moved")
    orders.client.send(orders.name, "0", delay="2h", key="k", replace=True, max_wait="150m")
    orders.advance(minutes=60)
    orders.client.send(orders.name, "1", delay="2h", key="k", replace=True)
    orders.advance(minutes=10)
    assert orders.client.reschedule(orders.name, key="k", delay="3h")
    orders.advance(minutes=10)
    assert orders.client.cancel(orders.name, key="k")
    orders.advance(hours=5)
    assert orders.bodies() == []


def test_ingest_that_fails_for_an_hour_sends_one_copy_of_what_comes_earlier(topic: Topic) -> None:
    orders = topic.another("outage", "billing")
    orders.client.send(orders.name, "0", delay="60m", key="k", replace=True, max_wait="90m")
    orders.advance(minutes=50)
    puts = orders.stack.service.objects.put
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders.stack.service.objects, "put", Outage())
        orders.client.send(orders.name, "1", delay="60m", key="k", replace=True)
        orders.client.send(orders.name, "far", delay="4h")
        orders.advance(hours=1)
    assert orders.stack.service.objects.put == puts
    assert len(orders.stack.failures) > 3
    orders.stack.failures.clear()
    orders.advance(hours=5)
    assert orders.bodies() == ["1", "far"]


class Outage:
    """S3, which refuses each object."""

    def __call__(self, name: str, data: bytes) -> None:
        raise OSError(f"{name} is not taken")
