"""Templates as CloudFormation reads them, on the local runtime."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tidewheel import InvalidValue
from tidewheel.local import LocalTidewheel

KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
ACCOUNT = "123456789012"
TOPIC_ARN = f"arn:aws:sns:us-east-1:{ACCOUNT}:team-alarms"
RESOURCES: dict[str, Any] = {
    "Alarms": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": {"Fn::Sub": "${Team}-alarms"}}},
    "Queue": {
        "Type": "AWS::SQS::Queue",
        "Properties": {
            "DelaySeconds": {"Fn::If": ["Slow", 9, {"Ref": "AWS::NoValue"}]},
            "VisibilityTimeout": {"Fn::If": ["Quick", {"Ref": "Timeout"}, {"Ref": "AWS::NoValue"}]},
            "Tags": [{"Key": "team", "Value": {"Ref": "Team"}}],
        },
    },
    "Ordered": {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True}},
    "Left": {"Type": "AWS::SQS::Queue", "Condition": "Slow"},
    "Bucket": {"Type": "AWS::S3::Bucket"},
    "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}},
    "Group": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/team"}},
    "Unknown": {"Type": "AWS::EC2::VPC", "Properties": {}},
}
VALUES: dict[str, tuple[Any, str]] = {
    "Ref of a parameter": ({"Ref": "Team"}, "team"),
    "Ref of a pseudo parameter": ({"Ref": "AWS::AccountId"}, ACCOUNT),
    "Ref of ours": ({"Ref": "Alarms"}, TOPIC_ARN),
    "Ref of moto's": ({"Ref": "Role"}, "stack-Role-ce29b57e7aa9"),
    "GetAtt of ours": ({"Fn::GetAtt": ["Group", "Arn"]}, f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:/team:*"),
    "GetAtt as text": ({"Fn::GetAtt": "Role.Arn"}, f"arn:aws:iam::{ACCOUNT}:role/stack-Role-ce29b57e7aa9"),
    "Join": ({"Fn::Join": ["-", ["a", {"Ref": "Team"}, 1]]}, "a-team-1"),
    "Split and Select": ({"Fn::Select": [5, {"Fn::Split": [":", {"Ref": "Alarms"}]}]}, "team-alarms"),
    "Sub": (
        {"Fn::Sub": "${!Team} ${Team} ${Group.Arn}"},
        f"${{Team}} team arn:aws:logs:us-east-1:{ACCOUNT}:log-group:/team:*",
    ),
    "Sub with values": ({"Fn::Sub": ["${Mine}${Team}", {"Mine": {"Ref": "AWS::Region"}}]}, "us-east-1team"),
    "FindInMap": ({"Fn::FindInMap": ["Sizes", {"Ref": "Team"}, "large"]}, "7"),
    "If": ({"Fn::If": ["Slow", {"Fn::GetAtt": ["Left", "Arn"]}, "no"]}, "no"),
    "Base64": ({"Fn::Base64": "abc"}, "YWJj"),
    "ToJsonString": ({"Fn::ToJsonString": {"a": [{"Ref": "Team"}]}}, '{"a": ["team"]}'),
}
TEMPLATE: dict[str, Any] = {
    "Parameters": {
        "Team": {"Type": "String", "Default": "team"},
        "Timeout": {"Type": "Number", "Default": 17},
        "BootstrapVersion": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cdk-bootstrap/version"},
    },
    "Rules": {"CheckBootstrapVersion": {"Assertions": []}},
    "Mappings": {"Sizes": {"team": {"large": 7}}},
    "Conditions": {
        "Slow": {"Fn::And": [{"Condition": "Quick"}, {"Fn::Not": [{"Condition": "Quick"}]}]},
        "Quick": {"Fn::Or": [{"Fn::Equals": [{"Ref": "Team"}, "team"]}, {"Fn::Equals": ["a", "b"]}]},
    },
    "Resources": RESOURCES,
    "Outputs": {f"O{i}": {"Value": value} for i, (value, _) in enumerate(VALUES.values())}
    | {"Left": {"Condition": "Slow", "Value": "x"}},
}


def opened(template: dict[str, Any]) -> LocalTidewheel:
    return LocalTidewheel(template=template, stack_name="stack")


def test_the_functions_of_a_template_are_resolved_and_a_client_reads_its_outputs() -> None:
    with opened(TEMPLATE) as stack:
        client = stack.session.client("cloudformation")
        [found] = client.describe_stacks(StackName="stack")["Stacks"]
        assert found["StackStatus"] == "CREATE_COMPLETE" and found["CreationTime"] == stack.now()
        outputs = {each["OutputKey"]: each["OutputValue"] for each in found["Outputs"]}
        assert dict(zip(VALUES, (outputs[f"O{i}"] for i in range(len(VALUES))), strict=True)) == {
            name: expected for name, (_, expected) in VALUES.items()
        }
        assert "Left" not in outputs
        plain = boto3.client("cloudformation", endpoint_url=stack.endpoint_url, region_name="us-east-1", **KEYS)
        assert plain.describe_stacks()["Stacks"][0]["Outputs"] == found["Outputs"]
        with pytest.raises(ClientError, match="Stack with id other does not exist"):
            client.describe_stacks(StackName="other")


def test_resources_are_made_with_names_that_are_the_same_at_each_start() -> None:
    made = []
    for _ in range(2):
        with opened(TEMPLATE) as stack:
            client = stack.session.client("cloudformation")
            resources = client.list_stack_resources(StackName="stack")["StackResourceSummaries"]
            made.append({each["LogicalResourceId"]: each["PhysicalResourceId"] for each in resources})
            sqs = stack.session.client("sqs")
            attributes = sqs.get_queue_attributes(QueueUrl=made[-1]["Queue"], AttributeNames=["All"])["Attributes"]
            assert (attributes["VisibilityTimeout"], attributes["DelaySeconds"]) == ("17", "0")
            assert sqs.list_queue_tags(QueueUrl=made[-1]["Queue"])["Tags"] == {"team": "team"}
            assert made[-1]["Bucket"] in [each["Name"] for each in stack.session.client("s3").list_buckets()["Buckets"]]
    assert made[0] == made[1]
    assert made[0].keys() == RESOURCES.keys() - {"Left"}
    assert made[0]["Ordered"].endswith(".fifo")
    names = [text.rpartition("/")[2] for text in made[0].values()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"Ref": "Absent"}, "template='Absent': the template has no resource or parameter of this name"),
        ({"Fn::GetAtt": ["Queue", "Colour"]}, "template='Queue.Colour': this attribute is not emulated"),
        ({"Fn::GetAtt": ["Left", "Arn"]}, "template='Left.Arn': this attribute is not emulated"),
        ({"Fn::Cidr": ["10.0.0.0/16", 2]}, "template='Fn::Cidr': this function is not emulated"),
    ],
)
def test_what_cannot_be_resolved_is_named(value: dict[str, Any], message: str) -> None:
    resources = {**RESOURCES, "Rule": {"Type": "AWS::Events::Rule", "Properties": {"Description": value}}}
    with pytest.raises(InvalidValue) as caught:
        opened({**TEMPLATE, "Resources": resources}).open()
    assert str(caught.value) == message
    with LocalTidewheel() as stack:  # nothing is left behind
        assert json.loads(stack._emulator.parameter("/tidewheel/tidewheel/settings").value)["stack"] == "tidewheel"


def test_a_template_of_another_stack_is_told_where_defaults_of_topics_are_given() -> None:
    with pytest.raises(
        Exception, match=r"no SSM parameter /tidewheel/other/settings; give the stack the service's own"
    ):
        LocalTidewheel(template=TEMPLATE, stack_name="other", slot_s=1).open()
