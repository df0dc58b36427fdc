"""With `carry="id"`, each copy has its message's id where EventBridge Pipes can read it, and nothing is lost for it."""

from __future__ import annotations

import json

import pytest

from tests.behaviour.topic import Topic
from tidewheel import AlreadyExists, Consumer, InvalidValue, parse_received

NINE = {f"name-{number}": f"value {number}" for number in range(9)}


@pytest.fixture
def carrying(topic: Topic) -> Topic:
    """A topic whose subscription "piped" carries ids, beside "billing" without."""
    topic.client.create_subscription(topic.name, "piped", carry="id")
    return topic


def carried_in(topic: Topic, subscription: str = "piped") -> dict[str, tuple[str | None, str | None]]:
    """Returns body -> the attribute `tidewheel_id` and the group, of the receivable messages."""
    return {
        each["Body"]: (
            each["MessageAttributes"].get("tidewheel_id", {}).get("StringValue"),
            each.get("Attributes", {}).get("MessageGroupId"),
        )
        for each in topic.receive_raw(subscription)
    }


@pytest.mark.story
def test_a_copy_carries_its_id_and_a_group_whether_it_went_direct_waited_or_was_parked(carrying: Topic) -> None:
    direct = carrying.send("direct", delay=1, group="tenant-1")
    waits = carrying.send("waits", delay="2h")
    carrying.advance(hours=1)
    carrying.client.pause(carrying.name, "piped")
    parked = carrying.send("parked", delay=1)
    carrying.advance(minutes=1)
    carrying.client.resume(carrying.name, "piped")
    carrying.advance(hours=1)
    assert carried_in(carrying) == {
        "direct": (direct.id, "tenant-1"),
        "waits": (waits.id, waits.id),
        "parked": (parked.id, parked.id),
    }
    assert carried_in(carrying, "billing") == {
        "direct": (None, "tenant-1"),
        "waits": (None, None),
        "parked": (None, None),
    }


def test_copies_sent_in_parts_and_replayed_carry_the_same_id_as_the_first(topic: Topic) -> None:
    kept = topic.another("kept", retention_days=1, inline_rows=1, part_rows=1)
    kept.client.create_subscription(kept.name, "piped", carry="id")
    sent = {body: kept.send(body, delay="2h").id for body in ("a", "b", "c")}
    kept.advance(hours=3)
    first = carried_in(kept)
    assert first == {body: (id_, id_) for body, id_ in sent.items()}
    kept.sqs.purge_queue(QueueUrl=kept.queue_url("piped"))
    kept.client.replay(kept.name, "piped")
    kept.advance(minutes=10)
    assert carried_in(kept) == first


def test_nine_attributes_all_arrive_though_sqs_takes_ten_with_header_and_id(carrying: Topic) -> None:
    for delay in (1, "2h"):
        carrying.send("x", delay=delay, attributes=NINE)
    carrying.advance(hours=3)
    found = carrying.receive_raw("piped")
    assert len(found) == 2
    for each in found:
        assert set(each["MessageAttributes"]) == {*NINE, "tidewheel", "tidewheel_id"} - {"name-8"}
        assert json.loads(each["MessageAttributes"]["tidewheel"]["StringValue"])["attributes"] == {"name-8": "value 8"}
        assert parse_received(each).attributes == NINE


def test_a_sender_s_own_tidewheel_id_arrives_and_the_copy_still_carries_ours(carrying: Topic) -> None:
    own = {**dict(list(NINE.items())[:8]), "tidewheel_id": "mine"}
    sent = carrying.send(b"\xff", delay=1, attributes={**own})
    carrying.advance(seconds=2)
    [copy] = carrying.receive_raw("piped")
    assert copy["MessageAttributes"]["tidewheel_id"]["StringValue"] == sent.id
    assert parse_received(copy).attributes == own
    [plain] = carrying.take()
    assert plain.attributes == own


def test_an_attribute_in_the_header_is_not_taken_for_a_field_of_it(carrying: Topic) -> None:
    attributes = {**dict(list(NINE.items())[:8]), "ref": "only"}
    carrying.send(b"\xff", delay="2h", attributes=attributes)
    carrying.advance(hours=3)
    [message] = carrying.take("piped")
    assert (message.bytes(), message.attributes, message.payload, message.only) == (b"\xff", attributes, None, None)


def test_a_message_that_is_retried_or_buried_keeps_its_nine_attributes(carrying: Topic) -> None:
    carrying.send("x", delay=1, attributes=NINE, key="cart-17")
    carrying.advance(seconds=2)
    [message] = carrying.take("piped")
    assert (message.attributes, message.group) == (NINE, None)
    Consumer(carrying.client, carrying.name, "piped").retry_later(message, delay="1m")
    carrying.advance(minutes=2)
    [again] = carrying.receive_raw("piped")
    retried = parse_received(again)
    assert again["MessageAttributes"]["tidewheel_id"]["StringValue"] == retried.id != message.id
    assert (retried.attributes, retried.key, retried.original_id) == (NINE, "cart-17", message.id)


def test_a_filter_reads_the_sender_s_attributes_and_never_the_carried_id(topic: Topic) -> None:
    exists = {"tidewheel_id": [{"exists": True}]}
    topic.client.create_subscription(topic.name, "piped", carry="id", filter_policy=exists)
    topic.send("x", delay=1)
    topic.advance(seconds=2)
    assert topic.receive_raw("piped") == []


def test_what_a_subscription_carries_is_chosen_once(carrying: Topic) -> None:
    client = carrying.client
    assert client.create_subscription(carrying.name, "piped", carry="id").carry == "id"
    assert client.create_subscription(carrying.name, "piped").carry == "id"
    assert client.set_filter(carrying.name, "piped", {"kind": ["a"]}).carry == "id"
    with pytest.raises(AlreadyExists, match=r"carry none \(asked for id\); it cannot change"):
        client.create_subscription(carrying.name, "billing", carry="id")
    with pytest.raises(InvalidValue, match="carry='key': give one of: id, or None"):
        client.create_subscription(carrying.name, "other", carry="key")  # type: ignore[arg-type]
