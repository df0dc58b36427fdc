"""The AWS requests of plain messages, as in `tidewheel.cost.figures`. Changes here change the bill."""

from __future__ import annotations

import json

import pytest

from tests.conftest import TOPIC, Orders, orders
from tests.local.asked import assert_asks, batch_window, counts, send_plain, settle
from tidewheel.model.message import Message


def messages(count: int, delay: str) -> list[Message]:
    return [Message(body=f"message {i}", delay=delay) for i in range(count)]


def a_moment(service: Orders) -> None:
    """Lets the urgent queue's function run, and the bulk queue's not."""
    service.stack.advance(seconds=1)


@pytest.mark.parametrize("count", [1, 1000])
@pytest.mark.parametrize("delay", ["20m", "7d"])
def test_an_sqs_message_is_one_request_a_pack_that_is_forwarded_and_a_share_of_a_ledger(count: int, delay: str) -> None:
    with orders() as service:
        settle(service)
        service.client.send(TOPIC, "waits", delay="8d")
        batch_window(service)()
        assert_asks(service, lambda: send_plain(service, messages(count, delay)), plain={"call": 1})
        assert_asks(service, lambda: a_moment(service), forward={"call": 1, "ten_packs": 1, "topic": 1})
        one = {"call": 1, "ten_packs": 1, "topic": 1, "ledger": 1, "lowered": 1}
        assert_asks(service, batch_window(service), ingest=one)


def test_plain_messages_of_one_call_are_forwarded_as_one_pack() -> None:
    with orders() as service:
        settle(service)
        for each in messages(10, "7d"):
            send_plain(service, [each])
        assert_asks(service, lambda: a_moment(service), forward={"call": 1, "ten_packs": 1, "topic": 1})


def test_what_cannot_wait_reads_the_topic_state_twice_and_is_else_ingested_like_a_pack() -> None:
    with orders() as service:
        settle(service)
        service.client.send(TOPIC, "waits", delay="14m")
        a_moment(service)
        send_plain(service, messages(1, "16m"))
        taken = {"call": 1, "ten_packs": 1, "topic": 2}
        assert_asks(service, lambda: a_moment(service), ingest=taken | {"ledger": 1})
        send_plain(service, messages(1, "1m"))
        a_moment(service)
        send_plain(service, messages(1, "1m"))
        assert_asks(service, lambda: a_moment(service), ingest=taken | {"direct": 1, "sends": 1})


def test_an_envelope_renews_a_thousand_keys_with_six_requests_each_and_one_pack_of_what_comes_earlier() -> None:
    document = {
        "tidewheel": {"topic": TOPIC, "delay": "50m", "replace": True, "max_wait": "55m"},
        "messages": [{"body": "x", "key": str(i)} for i in range(1_100)],
    }
    with orders() as service:
        settle(service)
        connection = service.client.core.connection
        for asked in (1, 6):
            service.stack.advance(minutes=10)
            before = counts(service)[0]
            connection.sqs.send_message(QueueUrl=connection.settings.address(TOPIC), MessageBody=json.dumps(document))
            a_moment(service)
            made = counts(service)[0] - before
            of_keys = sum(count for name, count in made.items() if name.startswith("dynamodb."))
            assert of_keys // 1_000 == asked and of_keys % 1_000 < 10, of_keys
            assert made["sqs.SendMessage"] == (2 if asked == 1 else 3)  # the envelope, what is refused, and the pack
