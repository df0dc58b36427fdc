"""Tests IAM statements as values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.iam_requests import requests_of
from tidewheel.errors import InvalidValue
from tidewheel.local.emulator.iam_policy import Request, allowed
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId
from tidewheel.model.settings import ServiceSettings
from tidewheel.model.tombstone import Tombstone
from tidewheel.policies import (
    address_arn,
    consumer_statements,
    queue_policy,
    sender_statements,
    source_key_statements,
    source_statements,
)
from tidewheel.storage import items
from tidewheel.storage import layout as table_layout

MINE, SHARED = "orders", "invoices"
ARN = "arn:aws:sqs:us-east-1:123456789012:mine"
ROLE = "arn:aws:iam::123456789012:role/tidewheel-Deliver"

NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,48}", fullmatch=True)
SETTINGS = ServiceSettings(
    stack="tw",
    table="table",
    s3_bucket="objects",
    urgent_queue_url="https://sqs.eu-west-1.amazonaws.com/111122223333/urgent",
    bulk_queue_url="https://sqs.eu-west-1.amazonaws.com/111122223333/bulk",
    work_queue_url="https://sqs.eu-west-1.amazonaws.com/111122223333/work",
    refused_queue_url="https://sqs.eu-west-1.amazonaws.com/111122223333/refused",
    schedule_group="group",
    schedule_role_arn="role",
    dispatch_arn="arn:aws:lambda:eu-west-1:111122223333:function:tw-dispatch",
    schedule_dead_letter_arn="dead",
    compact_function="compact",
    merge_job="merge",
)


def item(partition: str) -> Request:
    """A request to read an item of a partition."""
    keys = (("dynamodb:LeadingKeys", (partition,)),)
    return Request(
        action="dynamodb:GetItem", resource="arn:aws:dynamodb:eu-west-1:111122223333:table/table", context=keys
    )


def read_by_clients(topic: str) -> list[str]:
    """The partitions of a topic but moves and notes."""
    own = table_layout.moves_partition(topic), table_layout.note_key(topic, "")[0]
    return [each for each in table_layout.partitions(topic) if each not in own]


@given(NAMES, NAMES)
def test_all_partitions_of_a_topic_are_its_own_and_none_of_any_other(mine: str, other: str) -> None:
    queue = "https://sqs.eu-west-1.amazonaws.com/111122223333/queue"
    for given_ in (sender_statements(SETTINGS, mine), consumer_statements(SETTINGS, mine, queue)):
        assert all(allowed(given_, item(each)) for each in read_by_clients(mine))
        if other != mine:
            assert not any(allowed(given_, item(each)) for each in table_layout.partitions(other))


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
CANCELLATION = (("ConditionCheck", TOPIC), ("Put", TOMBSTONES))


def test_a_cancellation_is_allowed_whether_iam_compares_each_item_or_all_keys_of_the_transaction() -> None:
    requests = transaction(*CANCELLATION)
    keys = [dict(each.context)["dynamodb:LeadingKeys"] for each in requests]
    assert keys == [(TOPIC,), (TOMBSTONES,), (TOPIC, TOMBSTONES), (TOPIC, TOMBSTONES)]
    given_ = sender_statements(SETTINGS, MINE, actions=("cancel",))
    assert all(allowed(given_, each) for each in requests)
    # The shape that fits one of the two readings only.
    marks = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [TOMBSTONES]}}
    narrow = [{**each, "Condition": marks} if "dynamodb:PutItem" in each["Action"] else each for each in given_]
    assert [allowed(narrow, each) for each in requests] == [True, True, True, False]


@pytest.mark.parametrize(
    "writes",
    [
        [("Put", TOPIC)],
        [("Put", TOPIC), ("Put", TOPIC)],
        [("Put", TOPIC), ("Put", TOMBSTONES)],
        [("Update", TOPIC), ("Put", TOMBSTONES)],
        [("Delete", TOMBSTONES)],
        [*CANCELLATION, ("Put", "T#orders2")],
        [("ConditionCheck", "T#orders2"), ("Put", TOMBSTONES)],
        [("ConditionCheck", TOPIC), ("Put", "T#orders2#TOMB")],
    ],
)
def test_a_sender_may_make_no_other_transaction(writes: list[tuple[str, str]]) -> None:
    given_ = sender_statements(SETTINGS, MINE)
    assert not all(allowed(given_, each) for each in transaction(*writes))


@given(
    st.lists(st.tuples(st.sampled_from(["ConditionCheck", "Put"]), st.sampled_from([TOPIC, TOMBSTONES, KEY]))), NAMES
)
def test_neither_reading_lets_a_transaction_touch_another_topic(writes: list[tuple[str, str]], other: str) -> None:
    given_ = sender_statements(SETTINGS, MINE)
    for partition in table_layout.partitions(other if other != MINE else "x"):
        requests = transaction(*writes, ("ConditionCheck", partition))
        one_by_one, together = (
            [each for each in requests if (len(dict(each.context)["dynamodb:LeadingKeys"]) == 1) is single]
            for single in (True, False)
        )
        assert not all(allowed(given_, each) for each in one_by_one)
        assert not (together and all(allowed(given_, each) for each in together))


def put(partition: str, **fields: Any) -> dict[str, Any]:
    """A put of an item with these fields."""
    item = {"pk": {"S": partition}, "sk": {"S": "x"}, **{name: {"N": "0"} for name in fields}}
    return {"TableName": "arn:aws:dynamodb:eu-west-1:111122223333:table/table", "Item": item}


MARKS = [*table_layout.partitions(MINE)[1:3], KEY]
CHECKING = {"Key": {"pk": {"S": TOPIC}, "sk": {"S": "STATE"}}, "ConditionExpression": "sealed <= :s"}


@pytest.mark.parametrize("actions", [("cancel",), ("reschedule",), ("send", "cancel", "reschedule", "look")])
@pytest.mark.parametrize("name", [table_layout.CHECK_PARTITION_KEY, table_layout.CHECK_SORT_KEY, "generation"])
@pytest.mark.parametrize("partition", MARKS)
def test_a_sender_puts_no_item_with_an_attribute_that_its_items_do_not_have_in_whatever_request(
    actions: Any, name: str, partition: str
) -> None:
    given_ = sender_statements(SETTINGS, MINE, actions=actions)
    forged, honest = put(partition, **{name: 0}), put(KEY, ttl=0)
    check = {"ConditionCheck": {**CHECKING, "TableName": forged["TableName"]}}
    for writes in ([{"Put": forged}], [check, {"Put": forged}], [{"Put": honest}, {"Put": forged}]):
        requests = requests_of("dynamodb", "TransactWriteItems", {"TransactItems": writes})
        puts = [each for each in requests if each.action == "dynamodb:PutItem"]
        named = [each for each in puts if name in dict(each.context)["dynamodb:Attributes"]]
        assert named and not any(allowed(given_, each) for each in named)
    [alone] = requests_of("dynamodb", "PutItem", forged)
    assert not allowed(given_, alone)
    asks = {**honest, "ConditionExpression": f"attribute_exists({name})"}
    assert not any(allowed(given_, each) for each in requests_of("dynamodb", "PutItem", asks))


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
    keys = {table_layout.PARTITION_KEY, table_layout.SORT_KEY}
    assert {kind: frozenset(item) - keys for kind, item in written.items()} == table_layout.CLIENT_ITEMS


@pytest.mark.parametrize(
    ("operation", "params", "expected"),
    [
        ("PutItem", {"Item": {"pk": {"S": "a"}, "x": {"N": "1"}}}, "pk x"),
        ("PutItem", {"Item": {"pk": {"S": "a"}}, "ConditionExpression": "attribute_not_exists(y) OR y > :y"}, "pk y"),
        ("PutItem", {"Item": {"pk": {"S": "a"}}, "Expected": {"z": {"Exists": False}}}, "pk z"),
        (
            "UpdateItem",
            {
                "Key": {"pk": {"S": "a"}},
                "UpdateExpression": "SET m.#inner = :v, l[0] = if_not_exists(n, :x) REMOVE #r ADD c :c",
                "ExpressionAttributeNames": {"#inner": "i", "#r": "set"},
            },
            "c l m n pk set",
        ),
        ("UpdateItem", {"Key": {"pk": {"S": "a"}}, "AttributeUpdates": {"u": {}}}, "pk u"),
        ("DeleteItem", {"Key": {"pk": {"S": "a"}}, "ConditionExpression": "NOT d IN (:a, :b)"}, "d pk"),
        ("GetItem", {"Key": {"pk": {"S": "a"}}, "ProjectionExpression": "p, q.r"}, "p pk q"),
        (
            "Query",
            {
                "KeyConditionExpression": "pk = :pk AND begins_with(sk, :s)",
                "FilterExpression": "size(f) BETWEEN :a AND :b",
                "ExpressionAttributeValues": {":pk": {"S": "a"}},
            },
            "f pk sk",
        ),
    ],
)
def test_iam_is_told_the_attributes_that_a_request_names(operation: str, params: Any, expected: str) -> None:
    [request] = requests_of("dynamodb", operation, {"TableName": "t", **params})
    assert dict(request.context)["dynamodb:Attributes"] == tuple(expected.split())


def test_what_is_denied_is_not_allowed_and_an_unknown_condition_is_an_error() -> None:
    anything = {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"}
    assert allowed([anything], item("T#a"))
    assert not allowed([anything, {**anything, "Effect": "Deny", "Action": "dynamodb:get*"}], item("T#a"))
    with pytest.raises(NotImplementedError):
        allowed([{**anything, "Condition": {"DateLessThan": {"aws:CurrentTime": "2026-01-01"}}}], item("T#a"))


KEY_ARN = "arn:aws:kms:eu-west-1:111122223333:key/own"
SNS, RULE = "arn:aws:sns:eu-west-1:111122223333:sales", "arn:aws:events:eu-west-1:111122223333:rule/late"


@pytest.mark.parametrize(("topic", "queue"), [(MINE, "mine"), (SHARED, "urgent")])
def test_a_plain_sender_may_send_to_the_address_and_nothing_else(topic: str, queue: str) -> None:
    url = SETTINGS.urgent_queue_url.replace("urgent", "mine")
    settings = replace(SETTINGS, topic_queues={MINE: (url, f"{url}-bulk")}, encryption_key_arn=KEY_ARN)
    [send, *keys] = sender_statements(settings, topic, actions=("plain",))
    arn = f"arn:aws:sqs:eu-west-1:111122223333:{queue}"
    assert send == {"Effect": "Allow", "Action": ["sqs:SendMessage"], "Resource": [arn]}
    assert address_arn(settings, topic) == arn
    assert [each["Action"] for each in keys] == [["kms:Decrypt"], ["kms:GenerateDataKey"]]
    assert all(each["Condition"]["StringEquals"]["kms:ViaService"] == ["sqs.eu-west-1.amazonaws.com"] for each in keys)
    with_cancel = sender_statements(settings, topic, actions=("plain", "cancel"))
    assert [each["Resource"] for each in with_cancel if "sqs:SendMessage" in each["Action"]] == [[arn]]


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
        consumer_statements(SETTINGS, MINE, ARN, actions=actions)


@pytest.mark.parametrize("topic", ["or*", "a#TOMB", "", "x" * 49])
def test_what_is_no_topic_gets_no_statements(topic: str) -> None:
    with pytest.raises(InvalidValue, match="topic="):
        sender_statements(SETTINGS, topic)
    with pytest.raises(InvalidValue, match="topic="):
        consumer_statements(SETTINGS, topic, ARN)


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
        consumer_statements(SETTINGS, MINE, "http://localhost:4566/123456789012/mine", dead_letter_queue=dead)[2]
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
