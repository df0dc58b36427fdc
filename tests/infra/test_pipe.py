"""Pipes from a subscription's queue to a FIFO queue or an HTTPS endpoint."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, SecretValue, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from cdk_nag import AwsSolutionsChecks

from infra.application import BUNDLING_STACKS
from infra.local_template import Template
from tests.infra.linted import findings
from tests.infra.resolved import resolved, statements_of
from tests.infra.test_constructs import of_type, service_in, synthesized
from tidewheel import parse_received
from tidewheel.cdk import Subscription
from tidewheel.errors import InvalidValue
from tidewheel.local import LocalTidewheel

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cdk_app" / "pipes.py"
DESTINATION = "arn:aws:events:us-east-1:123456789012:api-destination/partner/0e3a"


def subscription(
    stack: Stack, *, carry: Any = "id", queue: sqs.IQueue | None = None, reader: Any = "plain", **service: Any
) -> Subscription:
    topic = service_in(stack, **service).add_topic("orders")
    return topic.add_subscription("mail", carry=carry, queue=queue, reader=reader)


def with_pipe(queue: Callable[[Stack], sqs.IQueue] | None = None, **properties: Any) -> Template:
    def make(stack: Stack) -> None:
        given = {} if queue is None else {"queue": queue(stack)}
        subscription(stack).pipe_to(**given, **properties)

    return synthesized(make)


@cache
def to_a_fifo_queue() -> Template:
    """A pipe without options."""
    return with_pipe()


def example() -> App:
    spec = importlib.util.spec_from_file_location("cdk_app_pipes", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    scope = App(analytics_reporting=False, context={BUNDLING_STACKS: []})
    module.ShippingStack(scope, "shipping")
    return scope


@cache
def shipping() -> Template:
    template: Template = example().synth().get_stack_by_name("shipping").template
    return template


def pipe_of(template: Template) -> dict[str, Any]:
    [pipe] = of_type(template, "AWS::Pipes::Pipe")
    return pipe


def role_of(template: Template, pipe: dict[str, Any]) -> list[dict[str, Any]]:
    return statements_of(template, pipe["RoleArn"]["Fn::GetAtt"][0][:-8])


# ---- to a FIFO queue


def test_a_message_goes_to_the_fifo_queue_with_its_group_and_its_id_for_deduplication() -> None:
    template = to_a_fifo_queue()
    pipe = pipe_of(template)
    assert pipe["TargetParameters"] == {
        "SqsQueueParameters": {
            "MessageGroupId": "$.attributes.MessageGroupId",
            "MessageDeduplicationId": "$.messageAttributes.tidewheel_id.stringValue",
        }
    }
    assert pipe["SourceParameters"] == {"SqsQueueParameters": {"BatchSize": 10}}
    [declared] = of_type(template, "Custom::TidewheelSubscription")
    assert declared["Carry"] == "id"
    assert "MessagesQueue" in str(pipe["Source"]) and "PipeQueue" in str(pipe["Target"])


def test_a_new_fifo_queue_has_high_throughput_and_dead_letters_and_keeps_messages_for_14_days() -> None:
    queues = [each for each in of_type(to_a_fifo_queue(), "AWS::SQS::Queue") if each.get("FifoQueue")]
    assert [each["MessageRetentionPeriod"] for each in queues] == [14 * 86_400] * 2
    [queue] = [each for each in queues if "RedrivePolicy" in each]
    assert (queue["DeduplicationScope"], queue["FifoThroughputLimit"]) == ("messageGroup", "perMessageGroupId")
    assert "PipeDeadLetters" in str(queue["RedrivePolicy"]["deadLetterTargetArn"])
    assert queue["VisibilityTimeout"] == 180


def test_the_role_may_read_one_queue_and_send_to_the_other_and_nothing_else() -> None:
    template = to_a_fifo_queue()
    pipe = pipe_of(template)
    assert role_of(template, pipe) == [
        {
            "Effect": "Allow",
            "Action": ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"],
            "Resource": [resolved(template, pipe["Source"])],
        },
        {"Effect": "Allow", "Action": ["sqs:SendMessage"], "Resource": [resolved(template, pipe["Target"])]},
    ]
    role = template["Resources"][pipe["RoleArn"]["Fn::GetAtt"][0]]["Properties"]
    region, account = {"Ref": "AWS::Region"}, {"Ref": "AWS::AccountId"}
    pipes = ["arn:", {"Ref": "AWS::Partition"}, ":pipes:", region, ":", account, ":pipe/*"]
    assert role["AssumeRolePolicyDocument"]["Statement"] == [
        {
            "Action": "sts:AssumeRole",
            "Condition": {
                "StringEquals": {"aws:SourceAccount": account},
                "ArnLike": {"aws:SourceArn": {"Fn::Join": ["", pipes]}},
            },
            "Effect": "Allow",
            "Principal": {"Service": "pipes.amazonaws.com"},
        }
    ]
    assert "Policies" not in role and "ManagedPolicyArns" not in role


def test_a_pipe_is_created_after_its_roles_policy() -> None:
    [pipe] = [each for each in to_a_fifo_queue()["Resources"].values() if each["Type"] == "AWS::Pipes::Pipe"]
    assert [name for name in pipe["DependsOn"] if "PipeRoleDefaultPolicy" in name]


def test_with_a_customers_key_the_pipe_may_use_it_and_queue_and_logs_are_encrypted() -> None:
    def make(stack: Stack) -> None:
        subscription(stack, encryption_key=kms.Key(stack, "Key")).pipe_to()

    template = synthesized(make)
    used = [each for each in role_of(template, pipe_of(template)) if "kms" in str(each["Action"])]
    assert {action for each in used for action in each["Action"]} == {"kms:Decrypt", "kms:GenerateDataKey"}
    for each in used:
        [key_arn] = each["Resource"]
        assert ":Key" in key_arn
        assert each["Condition"] == {"StringEquals": {"kms:ViaService": "sqs.us-east-1.amazonaws.com"}}
    fifo = [each for each in of_type(template, "AWS::SQS::Queue") if each.get("FifoQueue")]
    groups = [each for each in of_type(template, "AWS::Logs::LogGroup") if "pipes" in str(each["LogGroupName"])]
    assert all("KmsMasterKeyId" in each for each in fifo) and all("KmsKeyId" in each for each in groups)
    [key] = of_type(template, "AWS::KMS::Key")
    assert ":log-group:/aws/vendedlogs/pipes/shop-*" in str(resolved(template, key["KeyPolicy"]))


def test_a_queue_with_a_key_of_its_own_may_be_sent_to() -> None:
    def fifo(stack: Stack) -> sqs.IQueue:
        return sqs.Queue(stack, "Theirs", fifo=True, encryption_master_key=kms.Key(stack, "Own"))

    template = with_pipe(fifo)
    of_keys = [each for each in role_of(template, pipe_of(template)) if "kms" in str(each["Action"])]
    assert [each["Action"] for each in of_keys] == [["kms:Decrypt", "kms:GenerateDataKey"]]
    assert [each for each in of_type(template, "AWS::SQS::Queue") if each.get("FifoQueue")] != []


def test_a_queue_of_another_app_may_be_sent_to() -> None:
    arn = "arn:aws:sqs:us-east-1:123456789012:theirs.fifo"
    pipe = pipe_of(with_pipe(lambda stack: sqs.Queue.from_queue_arn(stack, "Theirs", arn), batch_size=3))
    assert (pipe["Target"], pipe["SourceParameters"]["SqsQueueParameters"]["BatchSize"]) == (arn, 3)


def test_dead_letters_of_a_new_fifo_queue_ring_where_the_environment_has_alarms() -> None:
    names = [str(each.get("AlarmName")) for each in of_type(shipping(), "AWS::CloudWatch::Alarm")]
    assert {name for name in names if "DeadLetters-" in name} == {
        f"shipping-DeadLetters-parcels.{name}" for name in ("packing", "packing.pipe", "refunds")
    }
    assert of_type(to_a_fifo_queue(), "AWS::CloudWatch::Alarm") == []


def test_errors_are_logged_without_bodies() -> None:
    template = to_a_fifo_queue()
    logged = pipe_of(template)["LogConfiguration"]
    assert logged["Level"] == "ERROR" and "IncludeExecutionData" not in logged
    [group] = [each for each in of_type(template, "AWS::Logs::LogGroup") if "pipes" in str(each["LogGroupName"])]
    assert resolved(template, group["LogGroupName"]) == "/aws/vendedlogs/pipes/shop-orders.mail"


# ---- to an HTTPS endpoint


@pytest.mark.parametrize("given", ["construct", "arn"])
def test_an_api_destination_gets_each_message_alone_with_its_id_in_a_header(given: str) -> None:
    def make(stack: Stack) -> None:
        destination: Any = DESTINATION
        if given == "construct":
            key = events.Authorization.basic("us", SecretValue.secrets_manager("partner"))
            connection = events.Connection(stack, "Connection", authorization=key)
            destination = events.ApiDestination(stack, "Partner", connection=connection, endpoint="https://example.com")
        subscription(stack).pipe_to(
            api_destination=destination,
            id_header="Idempotency-Key",
            filter_pattern={"body": {"kind": ["refund"]}},
            input_template="<$.body>",
        )

    template = synthesized(make)
    pipe = pipe_of(template)
    assert pipe["TargetParameters"] == {
        "HttpParameters": {"HeaderParameters": {"Idempotency-Key": "$.messageAttributes.tidewheel_id.stringValue"}},
        "InputTemplate": "<$.body>",
    }
    assert pipe["SourceParameters"] == {
        "SqsQueueParameters": {"BatchSize": 1},
        "FilterCriteria": {"Filters": [{"Pattern": '{"body": {"kind": ["refund"]}}'}]},
    }
    *_, statement = role_of(template, pipe)
    assert statement["Action"] == ["events:InvokeApiDestination"]
    assert statement["Resource"] == [resolved(template, pipe["Target"])]
    assert [each for each in of_type(template, "AWS::SQS::Queue") if each.get("FifoQueue")] == []


def test_an_api_destination_without_a_header_needs_no_ids_in_copies() -> None:
    template = synthesized(lambda stack: subscription(stack, carry=None).pipe_to(api_destination=DESTINATION))
    [declared] = of_type(template, "Custom::TidewheelSubscription")
    assert "Carry" not in declared


# ---- refusals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: subscription(s, reader="tidewheel").pipe_to(), "subscription='shop/.*mail'.*reader=\"plain\""),
        (lambda s: subscription(s, carry=None).pipe_to(), "subscription='shop/.*mail'.*carry=\"id\""),
        (
            lambda s: subscription(s, carry=None).pipe_to(api_destination=DESTINATION, id_header="X-Id"),
            'subscription=.*carry="id"',
        ),
        (lambda s: subscription(s).pipe_to(queue=sqs.Queue(s, "Q")), "queue='shop/Q'.*FIFO"),
        (
            lambda s: subscription(s).pipe_to(queue=sqs.Queue(s, "Q", fifo=True), api_destination=DESTINATION),
            "queue='shop/Q'.*or an API destination",
        ),
        (lambda s: subscription(s).pipe_to(id_header="X-Id"), "id_header='X-Id'"),
        (lambda s: subscription(s).pipe_to(batch_size=11), "batch_size=11.*1 to 10"),
        (lambda s: subscription(s).pipe_to(batch_size=0), "batch_size=0"),
        (lambda s: subscription(s).pipe_to(api_destination=DESTINATION, batch_size=2), "batch_size=2.*alone"),
        (lambda s: subscription(s, queue=sqs.Queue(s, "Q")).pipe_to(), "queue='shop/Q'.*dead-letter queue"),
        (lambda s: [each.pipe_to() for each in [subscription(s)] * 2], "subscription=.*it has a pipe"),
    ],
)
def test_a_pipe_that_would_lose_or_never_pass_messages_is_refused(
    make: Callable[[Stack], object], message: str
) -> None:
    with pytest.raises(InvalidValue, match=message):
        synthesized(make)


# ---- the example


@pytest.mark.long
def test_the_example_passes_cfn_lint() -> None:
    assert findings(shipping()) == []


def test_cdk_nag_finds_nothing_in_the_pipes_of_the_example() -> None:
    scope = example()
    report = AwsSolutionsChecks(scope).validate_scope(scope)
    found = {
        (resource.construct_path, violation.rule_name)
        for violation in report.violations
        for resource in violation.violating_resources
    }
    assert found == set()


def test_what_a_pipe_takes_from_a_copy_deduplicates_copies_and_gives_each_group_its_turn() -> None:
    """The pipe's paths, applied to the copies of a local queue as Pipes reads them, and sent to a FIFO queue."""
    paths = pipe_of(to_a_fifo_queue())["TargetParameters"]["SqsQueueParameters"]
    with LocalTidewheel() as stack:
        tw, client = stack.client(), stack.session.client("sqs")
        tw.create_topic("orders", retention_days=1)
        source = tw.create_subscription("orders", "mail", carry="id").queue_url
        fifo = client.create_queue(QueueName="moved.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        sent = [tw.send("orders", f"{n}", delay="2h", group=group) for n, group in enumerate(["a", "a", None])]
        stack.advance(hours=3)
        copies = records(client, source)
        tw.replay("orders", "mail")
        stack.advance(minutes=10)
        copies += records(client, source)
        assert len(copies) == 6
        for copy in copies:
            values = {name: at(copy, path) for name, path in paths.items()}
            client.send_message(QueueUrl=fifo, MessageBody=json.dumps(copy), **values)
        answer = client.receive_message(
            QueueUrl=fifo, MaxNumberOfMessages=10, MessageSystemAttributeNames=["MessageGroupId"]
        )
    moved = [
        (parse_received(json.loads(each["Body"])), each["Attributes"]["MessageGroupId"]) for each in answer["Messages"]
    ]
    assert sorted((message.id, group) for message, group in moved) == sorted(
        (each.id, group or each.id) for each, group in zip(sent, ["a", "a", None], strict=True)
    )


def records(client: Any, url: str) -> list[dict[str, Any]]:
    """Takes a queue's messages as the records that Pipes, like Lambda, makes of them."""
    answer = client.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )
    found = []
    for each in answer.get("Messages", []):
        client.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
        attributes = each.get("MessageAttributes", {})
        found.append(
            {
                "messageId": each["MessageId"],
                "receiptHandle": each["ReceiptHandle"],
                "body": each["Body"],
                "attributes": each["Attributes"],
                "messageAttributes": {
                    name: {"stringValue": value["StringValue"], "dataType": "String"}
                    for name, value in attributes.items()
                },
            }
        )
    return found


def at(record: dict[str, Any], path: str) -> str:
    """Returns the value at a path such as `$.attributes.MessageGroupId`."""
    value: Any = record
    for name in path.removeprefix("$.").split("."):
        value = value[name]
    return str(value)
