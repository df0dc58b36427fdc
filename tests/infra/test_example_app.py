"""The example of a team's own app synthesizes, lints clean, and works with the granted rights."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from aws_cdk import App

from infra.application import BUNDLING_STACKS
from infra.local_template import Template
from tests.iam.stack import EnforcedTidewheel
from tests.infra.linted import findings
from tests.infra.resolved import settings_of, statements_of
from tidewheel import Message
from tidewheel.errors import InvalidValue
from tidewheel.local import LocalTidewheel
from tidewheel.policies import sender_statements

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cdk_app"
SERVICE = "shop-reminders"
DECLARE = "RemindersDeclarationsDeclareRole"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"cdk_app_{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def shop() -> Template:
    scope = App(analytics_reporting=False, context={BUNDLING_STACKS: []})
    load(EXAMPLE / "app.py").ShopStack(scope, "shop")
    template: Template = scope.synth().get_stack_by_name("shop").template
    return template


def test_the_example_passes_cfn_lint() -> None:
    assert findings(shop()) == []


def test_a_policy_of_the_example_has_no_wildcard_in_an_action() -> None:
    policies = [
        statement
        for each in shop()["Resources"].values()
        if each["Type"] == "AWS::IAM::Policy"
        for statement in each["Properties"]["PolicyDocument"]["Statement"]
    ]
    assert len(policies) > 30
    assert [each for each in policies if "*" in str(each["Action"])] == []


def test_the_functions_of_the_example_send_cancel_and_consume(tmp_path: Path) -> None:
    written = tmp_path / "shop.template.json"
    written.write_text(json.dumps(shop()), encoding="utf-8")
    with LocalTidewheel(template=written, stack_name=SERVICE) as stack:
        tw = stack.client()
        with patch.dict(os.environ, {"TIDEWHEEL_SERVICE": SERVICE}), patch("tidewheel.Tidewheel", lambda _: tw):
            sender = load(EXAMPLE / "sender" / "handler.py")
            consumer = load(EXAMPLE / "consumer" / "handler.py")
        for order in (1, 2):
            sender.handler({"order": order, "paid": False}, None)
        stack.advance(hours=1)
        sender.handler({"order": 2, "paid": True}, None)
        stack.advance(days=3)
        [due] = stack.receive("orders", "mail")
        assert json.loads(due.body) == {"order": 1}
        url = tw.subscriptions("orders")[0].queue_url
        sqs = stack.session.client("sqs")
        records = [record(raw) for raw in sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]]
        stranger = {**records[0], "messageId": "stranger", "body": "{}"}
        answer = consumer.handler({"Records": [*records, stranger]}, None)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "stranger"}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "No such file.*: give a template, or the path"), ("[", "Expecting value"), ("{}", "it has no Resources")],
)
def test_a_file_that_is_no_template_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "it.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidValue, match=f"template='.*it.json': .*{message}"):
        LocalTidewheel(template=str(tmp_path / "it.json")).open()


def record(raw: Any) -> dict[str, Any]:
    """Returns a message as an event source passes messages."""
    return {
        "messageId": raw["MessageId"],
        "receiptHandle": raw["ReceiptHandle"],
        "body": raw["Body"],
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in raw["MessageAttributes"].items()
        },
    }


def test_the_functions_may_do_what_they_do_and_the_consumer_reads_its_queue_only() -> None:
    expected = sender_statements(settings_of(shop(), SERVICE), "orders", actions=("send", "cancel"))
    given = statements_of(shop(), "SenderServiceRole")
    for statement in expected:
        assert statement in given
    consumer = statements_of(shop(), "ConsumerServiceRole")
    assert {action.split(":")[0] for each in consumer for action in each["Action"]} == {
        "dynamodb",
        "kms",
        "s3",
        "sqs",
        "ssm",
    }
    assert [each for each in consumer if "dynamodb:UpdateItem" in each["Action"]]  # of claims
    of_queues = [each for each in consumer if any(action.startswith("sqs:") for action in each["Action"])]
    assert of_queues and all("billing" in resource for each in of_queues for resource in each["Resource"])


@pytest.fixture(scope="module")
def enforced() -> Iterator[EnforcedTidewheel]:
    """The example with IAM enforced. Only for the last tests of this file, since no other stack can be open at once."""
    with EnforcedTidewheel(template=shop(), stack_name=SERVICE) as stack:
        yield stack


def test_what_the_example_declares_is_there_and_delivers_with_no_call_denied(enforced: EnforcedTidewheel) -> None:
    tw = enforced.client()
    [topic] = tw.topics()
    assert (topic.name, topic.settings.retention_days, topic.settings.max_waiting) == ("orders", 30, 5_000_000)
    denied = len(enforced.denials)
    for kind in ("reminder", "other"):
        tw.send_many("orders", [Message(body=kind, delay=delay, attributes={"kind": kind}) for delay in (5, "2h")])
    enforced.advance(hours=3)
    assert len(enforced.receive("orders", "billing")) == 4
    assert [each.body for each in enforced.receive("orders", "mail")] == ["reminder"] * 2
    assert (enforced.failures, enforced.denials[denied:]) == ([], [])


def test_the_function_that_declares_may_change_items_of_topics_and_nothing_that_holds_messages() -> None:
    given = {action: each for each in statements_of(shop(), DECLARE) for action in each["Action"]}
    items = {f"dynamodb:{name}Item" for name in ("ConditionCheck", "Delete", "Get", "Put", "Update")}
    others = {"s3:DeleteObject", "sqs:GetQueueAttributes", "kms:Decrypt", "kms:GenerateDataKey"}
    told = {"logs:CreateLogStream", "logs:PutLogEvents", "xray:PutTraceSegments", "xray:PutTelemetryRecords"}
    assert given.keys() == items | {"dynamodb:Query"} | others | told
    of_topics = {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["T#*"]},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }
    for action in items:
        assert given[action]["Condition"] == of_topics
        assert [each.rpartition(":")[2][:21] for each in given[action]["Resource"]] == ["RemindersStorageTable"]
    assert [each.partition("/")[2] for each in given["s3:DeleteObject"]["Resource"]] == ["parked/*"]
    assert all("Subscription" in each for each in given["sqs:GetQueueAttributes"]["Resource"])
