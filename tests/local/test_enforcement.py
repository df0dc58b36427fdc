"""With IAM enforced, functions and jobs have the rights of their own roles."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.iam.iam_policy import Request, allowed
from tests.iam.stack import EnforcedTidewheel
from tests.iam_requests import requests_of
from tidewheel.policies import queue_policy

TABLE = "arn:aws:dynamodb:us-east-1:123456789012:table/t"


def statement(**condition: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": "dynamodb:*Item", "Resource": TABLE, "Condition": condition}


def request(*partitions: str) -> Request:
    context = (("dynamodb:LeadingKeys", partitions),) if partitions else ()
    return Request(action="dynamodb:PutItem", resource=TABLE, context=context)


LIKE, NOT_LIKE, ANY = "ForAllValues:StringLike", "ForAllValues:StringNotLike", "ForAnyValue:StringLike"
KEYS = "dynamodb:LeadingKeys"


@pytest.mark.parametrize(
    ("condition", "partitions", "expected"),
    [
        ({LIKE: {KEYS: "T#*"}}, ("T#a", "T#a#TOMB"), True),
        ({LIKE: {KEYS: "T#*"}}, ("T#a", "S"), False),
        ({LIKE: {KEYS: "T#*"}}, (), True),
        ({LIKE: {KEYS: "T#*"}, "Null": {KEYS: "false"}}, (), False),
        ({LIKE: {KEYS: "T#*"}, NOT_LIKE: {KEYS: ["T#*#*"]}}, ("T#a",), True),
        ({LIKE: {KEYS: "T#*"}, NOT_LIKE: {KEYS: ["T#*#*"]}}, ("T#a", "T#a#TOMB"), False),
        ({ANY: {KEYS: "T#*"}}, ("S", "T#a"), True),
        ({ANY: {KEYS: "T#*"}}, (), False),
        ({"StringEquals": {KEYS: "T#a"}}, (), False),
        ({"StringNotEquals": {KEYS: "T#a"}}, (), True),
        ({"StringEqualsIfExists": {KEYS: "T#a"}}, (), True),
        ({"StringEquals": {"Dynamodb:leadingkeys": "T#a"}}, ("T#a",), True),
        ({LIKE: {KEYS: "T[a]"}}, ("Ta",), False),
    ],
)
def test_conditions_hold_as_iam_says(condition: Any, partitions: tuple[str, ...], expected: bool) -> None:
    assert allowed([statement(**condition)], request(*partitions)) is expected


def test_a_denial_wins_over_what_is_allowed() -> None:
    assert not allowed([statement(), {**statement(), "Effect": "Deny"}], request("T#a"))


@pytest.mark.parametrize(
    "unknown",
    [
        {"Condition": {"IpAddress": {KEYS: "10.0.0.0/8"}}},
        {"Condition": {"StringEquals": {"aws:SourceIp": "x"}}},
        {"NotPrincipal": "x"},
        {"Resource": "arn:aws:dynamodb:*:*:table/${aws:username}"},
    ],
)
def test_what_the_evaluator_does_not_know_is_an_error_and_no_guess(unknown: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError):
        allowed([{**statement(), **unknown}], request("T#a"))


def test_a_transaction_over_two_partitions_asks_for_its_items_one_by_one_and_for_all_keys_together() -> None:
    def of(*kinds_and_partitions: tuple[str, str]) -> list[tuple[str, tuple[str, ...]]]:
        items = [
            {kind: {"TableName": "t", "Key": {"pk": {"S": partition}}}} for kind, partition in kinds_and_partitions
        ]
        requests = requests_of("dynamodb", "TransactWriteItems", {"TransactItems": items})
        return [(each.action.partition(":")[2], dict(each.context)[KEYS]) for each in requests]

    assert of(("Update", "a"), ("Delete", "a")) == [("UpdateItem", ("a",)), ("DeleteItem", ("a",))]
    assert of(("Update", "b"), ("Delete", "a"), ("Update", "a")) == [
        ("UpdateItem", ("b",)),
        ("DeleteItem", ("a",)),
        ("UpdateItem", ("a",)),
        ("UpdateItem", ("a", "b")),
        ("DeleteItem", ("a", "b")),
    ]


def test_a_queue_of_ones_own_is_denied_until_its_policy_names_the_roles() -> None:
    with EnforcedTidewheel() as stack:
        sqs, ssm = stack.session.client("sqs"), stack.session.client("ssm")
        url = sqs.create_queue(QueueName="legacy")["QueueUrl"]
        client = stack.client()
        client.create_topic("orders")
        client.create_subscription("orders", "mail", queue_url=url)
        client.send("orders", "x", delay=5)
        stack.advance(minutes=1)
        assert {(each.action, each.resource.rpartition(":")[2]) for each in stack.denials} == {
            ("sqs:SendMessage", "legacy")
        }
        roles = ssm.get_parameter(Name="/tidewheel/tidewheel/delivery-roles")["Parameter"]["Value"].split(",")
        policy = queue_policy("arn:aws:sqs:us-east-1:123456789012:legacy", role_arns=roles)
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
        stack.denials.clear()
        stack.advance(hours=1)
        assert [each.body for each in stack.receive("orders", "mail")] == ["x"]
        assert stack.denials == []


def test_a_call_that_is_not_known_is_denied_if_no_statement_names_it() -> None:
    with EnforcedTidewheel() as stack:
        arn = stack.session.client("iam").list_roles()["Roles"][0]["Arn"]
        sns = stack._function_session(arn).create_client("sns")
        with pytest.raises(ClientError, match="not authorized to perform: sns:ListTopics"):
            sns.list_topics()
