"""The constructs for other teams, with the granted policies and refused inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Template

from tidewheel.cdk import SubscriberQueue, grant_deliveries
from tidewheel.errors import InvalidValue
from tidewheel.model.settings import DELIVERY_ROLES
from tidewheel.policies import queue_policy

if TYPE_CHECKING:
    from tests.infra.conftest import StackTemplate

ARN = "arn:aws:sqs:us-east-1:123456789012:theirs"
ROLES = [f"arn:aws:iam::111122223333:role/tidewheel-{name}" for name in ("a", "b")]


def synthesized(make: Callable[[Stack], object]) -> dict[str, Any]:
    """Returns the template of another team's stack."""
    stack = Stack(App(analytics_reporting=False), "theirs")
    make(stack)
    template: dict[str, Any] = Template.from_stack(stack).to_json()
    return template


def of_type(template: dict[str, Any], type_: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in template["Resources"].values() if each["Type"] == type_]


def test_the_service_publishes_the_roles_of_all_functions_that_send_to_subscriptions(stack: StackTemplate) -> None:
    published = stack.one("AWS::SSM::Parameter", "DeliveryRoles")
    assert published["Type"] == "StringList"
    assert published["Name"]["Fn::Join"][1] == ["/tidewheel/", {"Ref": "AWS::StackName"}, "/delivery-roles"]
    roles = [each["Fn::GetAtt"][0] for each in published["Value"]["Fn::Join"][1]]
    senders = {
        policy["Roles"][0]["Ref"]
        for policy in stack.of_type("AWS::IAM::Policy").values()
        if "AWS::StackName" in str([s["Resource"] for s in sending(policy["PolicyDocument"])])
    }
    assert set(roles) == senders and len(roles) == DELIVERY_ROLES


def sending(policy: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in policy["Statement"] if each["Action"] == "sqs:SendMessage"]


def test_a_queue_allows_the_published_roles_to_send_and_nobody_anything_else() -> None:
    template = synthesized(lambda stack: SubscriberQueue(stack, "Billing", stack_name="reminders"))
    [parameter] = [
        p for p in template["Parameters"].values() if p["Type"] == "AWS::SSM::Parameter::Value<List<String>>"
    ]
    assert parameter["Default"] == "/tidewheel/reminders/delivery-roles"
    of_dead_letters, policy = of_type(template, "AWS::SQS::QueuePolicy")
    without_tls, statement = policy["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Allow", "sqs:SendMessage")
    for denied in (without_tls, *of_dead_letters["PolicyDocument"]["Statement"]):
        assert (denied["Effect"], denied["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert [each["Fn::Select"][0] for each in statement["Principal"]["AWS"]] == list(range(DELIVERY_ROLES))
    [queue] = policy["Queues"]
    assert statement["Resource"] == {"Fn::GetAtt": [queue["Ref"], "Arn"]}


def test_a_subscribers_queue_has_a_dead_letter_queue_and_both_keep_messages_for_14_days() -> None:
    queues = of_type(synthesized(lambda stack: SubscriberQueue(stack, "Billing")), "AWS::SQS::Queue")
    assert [each["MessageRetentionPeriod"] for each in queues] == [14 * 86_400] * 2
    [redrive] = [each["RedrivePolicy"] for each in queues if "RedrivePolicy" in each]
    assert redrive["maxReceiveCount"] == 5 and "DeadLetters" in str(redrive["deadLetterTargetArn"])


def test_dead_letters_ring_where_a_topic_is_given_and_nowhere_else() -> None:
    assert of_type(synthesized(lambda stack: SubscriberQueue(stack, "Billing")), "AWS::CloudWatch::Alarm") == []

    def make(stack: Stack) -> None:
        made = SubscriberQueue(stack, "Billing", alarm_topic=sns.Topic(stack, "Ops"))
        assert made.queue.dead_letter_queue is not None

    template = synthesized(make)
    [alarm] = of_type(template, "AWS::CloudWatch::Alarm")
    [topic] = [name for name, each in template["Resources"].items() if each["Type"] == "AWS::SNS::Topic"]
    assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": topic}]
    assert alarm["AlarmDescription"].endswith(" tidewheel docs runbook#dead-letters-of-a-subscription")
    assert (alarm["MetricName"], alarm["Threshold"]) == ("ApproximateNumberOfMessagesVisible", 1)
    [dimension] = alarm["Dimensions"]
    assert dimension["Value"]["Fn::GetAtt"][0].startswith("BillingDeadLetters")
    assert alarm["TreatMissingData"] == "notBreaching"


def test_the_construct_and_the_printed_policy_say_the_same() -> None:
    template = synthesized(lambda stack: grant_deliveries(sqs.Queue(stack, "Queue"), role_arns=ROLES))
    [policy] = of_type(template, "AWS::SQS::QueuePolicy")
    [statement] = policy["PolicyDocument"]["Statement"]
    [printed] = queue_policy(ARN, role_arns=ROLES)["Statement"]
    # The Sid is for whoever reads; two services that send to one queue would have the same.
    assert {**statement, "Resource": ARN, "Sid": "TidewheelDelivers"} == printed


def test_the_key_of_an_encrypted_queue_lets_the_roles_encrypt() -> None:
    def make(stack: Stack) -> None:
        key = kms.Key(stack, "Key")
        grant_deliveries(sqs.Queue(stack, "Queue", encryption_master_key=key), role_arns=ROLES)

    [key] = of_type(synthesized(make), "AWS::KMS::Key")
    _, statement = key["KeyPolicy"]["Statement"]
    assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    assert statement["Principal"] == {"AWS": ROLES}
    assert str(statement["Condition"]["StringEquals"]["kms:ViaService"]).startswith("{'Fn::Join': ['', ['sqs.'")


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        (lambda stack: sqs.Queue(stack, "Queue", fifo=True), "takes no delay for a single message"),
        (lambda stack: sqs.Queue.from_queue_arn(stack, "Queue", f"{ARN}.fifo"), "takes no delay for a single message"),
        (lambda stack: sqs.Queue.from_queue_arn(stack, "Queue", ARN), "made elsewhere; .* `tidewheel policy queue"),
    ],
)
def test_a_queue_that_cannot_have_the_policy_is_refused_with_the_reason(
    queue: Callable[[Stack], sqs.IQueue], reason: str
) -> None:
    with pytest.raises(InvalidValue, match=f"queue='theirs/Queue': .*{reason}"):
        synthesized(lambda stack: grant_deliveries(queue(stack)))
