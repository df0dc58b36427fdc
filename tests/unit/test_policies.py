"""Tests IAM statements as values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.iam.iam_policy import Request, allowed
from tests.iam_requests import requests_of
from tests.service_settings import service_settings
from tidewheel.errors import InvalidValue
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId
from tidewheel.model.tombstone import Tombstone
from tidewheel.policies import (
    consumer_statements,
    queue_policy,
    sender_statements,
    source_key_statements,
    source_statements,
)
from tidewheel.storage import items, table_keys

MINE = "orders"
ARN = "arn:aws:sqs:us-east-1:123456789012:mine"
LOCAL_URL = "http://localhost:4566/123456789012/mine"
ROLE = "arn:aws:iam::123456789012:role/tidewheel-Deliver"

ROLES = ("urgent", "bulk", "work", "refused")
SETTINGS = service_settings(
    dispatch_arn="arn:aws:lambda:eu-west-1:111122223333:function:tw-dispatch",
    **{f"{role}_queue_url": f"https://sqs.eu-west-1.amazonaws.com/111122223333/{role}" for role in ROLES},
)


def item(partition: str) -> Request:
    """A request to read an item of a partition."""
    keys = (("dynamodb:LeadingKeys", (partition,)),)
    return Request(
        action="dynamodb:GetItem", resource="arn:aws:dynamodb:eu-west-1:111122223333:table/table", context=keys
    )


def test_a_request_that_names_no_partition_is_not_allowed() -> None:
    nameless = replace(item(""), context=())
    assert not allowed(sender_statements(SETTINGS, MINE), nameless)
    condition = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["T#orders"]}}
    assert allowed([{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": condition}], nameless)


def transaction(*writes: tuple[str, str]) -> list[Request]:
    """Returns the IAM requests of a transaction, by the kind and partition of each write."""
    table = {"TableName": "arn:aws:dynamodb:eu-west-1:111122223333:table/table"}
    parts = [
        {kind: {**table, "Item" if kind == "Put" else "Key": {"pk": {"S": partition}, "sk": {"S": "x"}}}}
        for kind, partition in writes
    ]
    return requests_of("dynamodb", "TransactWriteItems", {"TransactItems": parts})


TOPIC, TOMBSTONES, KEY = "T#orders", "T#orders#TOMB", "T#orders#KEY#07"


def test_a_cancellation_is_allowed_whether_iam_compares_each_item_or_all_keys_of_the_transaction() -> None:
    requests = transaction(("ConditionCheck", TOPIC), ("Put", TOMBSTONES))
    keys = [dict(each.context)["dynamodb:LeadingKeys"] for each in requests]
    assert keys == [(TOPIC,), (TOMBSTONES,), (TOPIC, TOMBSTONES), (TOPIC, TOMBSTONES)]
    given_ = sender_statements(SETTINGS, MINE, actions=("cancel",))
    assert all(allowed(given_, each) for each in requests)
    # The shape that fits one of the two readings only.
    marks = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [TOMBSTONES]}}
    narrow = [{**each, "Condition": marks} if "dynamodb:PutItem" in each["Action"] else each for each in given_]
    assert [allowed(narrow, each) for each in requests] == [True, True, True, False]


def put(partition: str, **fields: Any) -> dict[str, Any]:
    """A put of an item with these fields."""
    item = {"pk": {"S": partition}, "sk": {"S": "x"}, **{name: {"N": "0"} for name in fields}}
    return {"TableName": "arn:aws:dynamodb:eu-west-1:111122223333:table/table", "Item": item}


def test_a_put_is_not_allowed_where_iam_is_told_no_attributes() -> None:
    [told] = requests_of("dynamodb", "PutItem", put(KEY))
    given_ = sender_statements(SETTINGS, MINE, actions=("cancel",))
    assert allowed(given_, told)
    assert not allowed(given_, replace(told, context=told.context[:1]))


def test_the_attributes_that_clients_may_write_are_those_of_their_items() -> None:
    id = MessageId("0" * 26)
    written = {
        "tombstone": items.encode_tombstone(MINE, Tombstone(1, id, 9, to=id, certain=False, put_ms=1)),
        "key": items.encode_key(
            MINE,
            KeyEntry(
                key="k",
                id=id,
                sent_ms=1,
                seq=1,
                ttl_s=9,
                replace=True,
                cancelled=True,
                floor=(1, 1),
                tail_ms=1,
                latest_ms=1,
            ),
        ),
        "move": items.encode_move(MINE, id, id, 9),
    }
    keys = {table_keys.PARTITION_KEY, table_keys.SORT_KEY}
    assert {kind: frozenset(item) - keys for kind, item in written.items()} == table_keys.CLIENT_ITEMS


SNS, RULE = "arn:aws:sns:eu-west-1:111122223333:sales", "arn:aws:events:eu-west-1:111122223333:rule/late"


def test_topics_of_sns_and_rules_may_send_and_use_the_key_on_their_own_behalf_only() -> None:
    policies = [source_statements(ARN, [SNS, RULE, f"{SNS}-2"]), source_key_statements([SNS, RULE])]
    told = [[(each["Principal"]["Service"], each.get("Condition")) for each in policy] for policy in policies]
    sns, events = "sns.amazonaws.com", "events.amazonaws.com"
    assert told[0] == [
        (sns, {"ArnEquals": {"aws:SourceArn": [SNS, f"{SNS}-2"]}}),
        (events, {"ArnEquals": {"aws:SourceArn": [RULE]}}),
    ]
    assert told[1] == [(sns, {"ArnEquals": {"aws:SourceArn": [SNS]}}), (events, None)]
    assert {(each["Action"], each["Resource"]) for each in policies[0]} == {("sqs:SendMessage", ARN)}


@pytest.mark.parametrize("source", ["sales", ARN, "arn:aws:pipes:eu-west-1:111122223333:pipe/outbox"])
def test_what_sends_with_a_role_is_no_source_of_a_queues_policy(source: str) -> None:
    with pytest.raises(InvalidValue, match="give the ARN of an SNS topic or an EventBridge rule"):
        source_statements(ARN, [source])


def test_where_the_service_is_comes_from_its_settings_or_from_the_caller() -> None:
    [read, *_] = sender_statements(SETTINGS, MINE)
    assert read["Resource"] == ["arn:aws:ssm:eu-west-1:111122223333:parameter/tidewheel/tw/settings"]
    nowhere = replace(SETTINGS, dispatch_arn="dispatch")
    [read, *_] = sender_statements(nowhere, MINE, region="cn-north-1", account="1" * 12, partition="aws-cn")
    assert read["Resource"] == ["arn:aws-cn:ssm:cn-north-1:111111111111:parameter/tidewheel/tw/settings"]
    with pytest.raises(InvalidValue, match=r"region=.*dispatch_arn='dispatch' does not name it; give region="):
        sender_statements(nowhere, MINE, partition="aws", account="1" * 12)


@pytest.mark.parametrize("actions", [(), ("send", "fly"), "send"])
def test_an_action_that_nobody_can_do_is_refused_with_those_that_exist(actions: Any) -> None:
    with pytest.raises(InvalidValue, match="give some of send, plain, cancel, reschedule, look, large_bodies"):
        sender_statements(SETTINGS, MINE, actions=actions)
    with pytest.raises(InvalidValue, match="give some of receive, retry_later, redrive"):
        consumer_statements(SETTINGS, MINE, ARN, subscription="mail", actions=actions)


@pytest.mark.parametrize("topic", ["or*", "a#TOMB", "", "x" * 49])
def test_what_is_no_topic_gets_no_statements(topic: str) -> None:
    with pytest.raises(InvalidValue, match="topic="):
        sender_statements(SETTINGS, topic)
    with pytest.raises(InvalidValue, match="topic="):
        consumer_statements(SETTINGS, topic, ARN, subscription="mail")
    with pytest.raises(InvalidValue, match="subscription="):
        consumer_statements(SETTINGS, MINE, ARN, subscription=topic)


# ---- queues


@pytest.mark.parametrize(
    ("queue", "arn"),
    [
        (ARN, ARN),
        ("https://sqs.us-east-1.amazonaws.com/123456789012/mine", ARN),
        ("https://us-east-1.queue.amazonaws.com/123456789012/mine", ARN),
        ("https://vpce-1.sqs.us-east-1.vpce.amazonaws.com/123456789012/mine", ARN),
    ],
)
def test_the_policy_of_a_queue_allows_the_roles_to_send_to_it_and_nobody_anything_else(queue: str, arn: str) -> None:
    [statement] = queue_policy(queue, role_arns=[ROLE])["Statement"]
    assert statement == {
        "Sid": "TidewheelDelivers",
        "Effect": "Allow",
        "Principal": {"AWS": [ROLE]},
        "Action": "sqs:SendMessage",
        "Resource": arn,
    }


def test_the_dead_letter_queue_is_the_one_that_tidewheel_makes_unless_another_is_given() -> None:
    made_, given_ = (
        consumer_statements(SETTINGS, MINE, LOCAL_URL, subscription="mail", dead_letter_queue=dead)[2]
        for dead in (None, ARN)
    )
    assert made_["Resource"] == [f"arn:aws:sqs:eu-west-1:123456789012:mine{end}" for end in ("", "-dead")]
    assert given_["Resource"][1] == ARN


@pytest.mark.parametrize(
    ("queue", "advice"),
    [
        ("https://sqs.us-east-1.amazonaws.com/123456789012/mine.fifo", "use a standard queue"),
        (ARN + ".fifo", "use a standard queue"),
        ("mine", "give the queue's ARN, or its URL"),
        ("https://queue.amazonaws.com/123456789012/mine", "give the queue's ARN, or its URL"),
        ("https://sqs.us-east-1.amazonaws.com/mine", "give the queue's ARN, or its URL"),
        ("arn:aws:sns:us-east-1:123456789012:mine", "give the queue's ARN, or its URL"),
    ],
)
def test_a_queue_that_cannot_be_a_subscriptions_is_refused_with_the_reason(queue: str, advice: str) -> None:
    with pytest.raises(InvalidValue, match=f"queue=.*{advice}"):
        queue_policy(queue, role_arns=[ROLE])


@pytest.mark.parametrize("roles", [[], ["*"], [ROLE, "arn:aws:iam::123456789012:root"]])
def test_the_policy_of_a_queue_is_for_roles_only(roles: list[str]) -> None:
    with pytest.raises(InvalidValue, match="role_arns="):
        queue_policy(ARN, role_arns=roles)
