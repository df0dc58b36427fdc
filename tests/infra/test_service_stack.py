"""Required properties of the template."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from infra.application import BUNDLING_STACKS
from tests.infra.variants import template_of
from tidewheel.cdk import Environment, TidewheelService
from tidewheel.ledger.bucket import bucket_id
from tidewheel.ledger.rows import SCHEMA
from tidewheel.model import object_names
from tidewheel.model.settings import ServiceSettings

if TYPE_CHECKING:
    from tests.infra.conftest import StackTemplate

HIVE_TYPES = {
    "int64": "bigint",
    "fixed_size_binary[16]": "binary",
    "string": "string",
    "map<string, string>": "map<string,string>",
    "binary": "binary",
    "int8": "tinyint",
}


@pytest.mark.parametrize(
    ("variant", "table", "index"),
    [
        ("production", None, None),
        (
            "topics with queues of their own",
            {"ReadUnitsPerSecond": 20_000, "WriteUnitsPerSecond": 10_000},
            {"WriteUnitsPerSecond": 10_000},
        ),
    ],
)
def test_a_table_and_the_writes_of_its_index_are_warm_if_the_environment_says_so(
    variant: str, table: dict[str, int] | None, index: dict[str, int] | None
) -> None:
    tables = [each for each in template_of(variant)["Resources"].values() if each["Type"] == "AWS::DynamoDB::Table"]
    [properties] = [each["Properties"] for each in tables]
    [looks] = properties["GlobalSecondaryIndexes"]
    assert (properties.get("WarmThroughput"), looks.get("WarmThroughput")) == (table, index)


@pytest.mark.parametrize("variant", ["development", "a key of its own", "an existing key"])
def test_the_variables_are_the_fields_of_the_service_settings_and_the_key_is_one_where_there_is_a_key(
    variant: str,
) -> None:
    known = {f"TIDEWHEEL_{field.name.upper()}" for field in fields(ServiceSettings)}
    known -= {"TIDEWHEEL_ENCRYPTION_KEY_ARN"} if variant == "development" else set()
    resources = template_of(variant)["Resources"].values()
    functions = [each["Properties"] for each in resources if each["Type"] == "AWS::Lambda::Function"]
    named = [set(each["Environment"]["Variables"]) - {"POWERTOOLS_LOG_LEVEL"} for each in functions]
    assert named == [known] * 5


def test_the_settings_parameter_holds_the_same_values_as_the_variables(stack: StackTemplate) -> None:
    parameter = stack.one("AWS::SSM::Parameter", "Settings")
    assert joined(parameter["Name"]) == "/tidewheel/<AWS::StackName>/settings"
    settings = json.loads(joined(parameter["Value"]))
    variables = stack.functions()["ingest"]["Environment"]["Variables"]
    assert settings == {
        name.removeprefix("TIDEWHEEL_").lower(): joined(value)
        for name, value in variables.items()
        if name.startswith("TIDEWHEEL_")
    }
    assert ServiceSettings.from_mapping(settings, "the parameter").max_skew_ms == 100


def test_the_dispatch_arn_is_that_of_the_dispatch_function(stack: StackTemplate) -> None:
    dispatch = stack.functions()["dispatch"]
    arn = joined(dispatch["Environment"]["Variables"]["TIDEWHEEL_DISPATCH_ARN"])
    assert arn.endswith(f":function:{joined(dispatch['FunctionName'])}")


def test_athena_sees_the_ledgers_as_they_are_named_and_written(stack: StackTemplate) -> None:
    table = stack.one("AWS::Glue::Table", "BacklogLedgers")["TableInput"]
    columns = {column["Name"]: column["Type"] for column in table["StorageDescriptor"]["Columns"]}
    assert columns == {field.name: HIVE_TYPES[str(field.type)] for field in SCHEMA}
    assert [key["Name"] for key in table["PartitionKeys"]] == ["topic", "due_day"]
    parameters = table["Parameters"]
    template = joined(parameters["storage.location.template"]).partition(">/")[2]
    name = object_names.ledger_name("orders", bucket_id(5_890_752, "b"), 300_000, "a")
    folder, _, _ = name.rpartition("/")
    assert template.replace("${topic}", "orders").replace("${due_day}", "2026-01-01") == f"{folder}/"
    assert parameters["projection.enabled"] == "true"
    assert parameters["projection.topic.type"] == "injected"
    assert parameters["projection.due_day.range"] == "2020-01-01,NOW+11YEARS"


def test_athena_sees_the_live_views_as_they_are_named_and_written(stack: StackTemplate) -> None:
    table = stack.one("AWS::Glue::Table", "BacklogLive")["TableInput"]
    columns = {column["Name"]: column["Type"] for column in table["StorageDescriptor"]["Columns"]}
    assert columns == {"ledger": "string", "cancelled": "string"} | dict.fromkeys(
        ("first_ms", "end_ms", "sent_before_ms"), "bigint"
    )
    assert [key["Name"] for key in table["PartitionKeys"]] == ["topic"]
    template = joined(table["Parameters"]["storage.location.template"]).partition(">/")[2]
    assert object_names.view_name("orders").startswith(template.replace("${topic}", "orders"))
    assert table["Parameters"]["skip.header.line.count"] == "1"  # the view's first line names the columns


def joined(value: Any) -> str:
    """The text of a value, with references as `<name>`."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return f"<{value['Ref']}>"
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    if "Fn::Sub" in value:
        return str(value["Fn::Sub"])
    return "".join(joined(part) for part in value["Fn::Join"][1])


WITHOUT_TAGS = {
    "AWS::Glue::Database",
    "AWS::Glue::Table",
    "AWS::IAM::Policy",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::Permission",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::QueuePolicy",
}
"""The types that CloudFormation cannot tag."""


@pytest.mark.parametrize("environment", ["development", "production"])
def test_each_resource_that_can_have_tags_names_the_stack(environment: str) -> None:
    for name, resource in template_of(environment)["Resources"].items():
        tags = resource.get("Properties", {}).get("Tags", [])
        named = tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
        assert (resource["Type"] in WITHOUT_TAGS) is ("tidewheel:stack" not in named), name
        # Functions may send to queues with this tag and the role of a subscription.
        assert named.get("tidewheel:role") in (None, "service"), name


def test_functions_are_traced_only_if_the_environment_asks_for_it() -> None:
    assert not Environment.production().tracing and not Environment.development().tracing
    stack = cdk.Stack(cdk.App(context={BUNDLING_STACKS: []}), "traced")
    TidewheelService(stack, "Default", environment=Environment.production(tracing=True))
    traced = Template.from_stack(stack).find_resources("AWS::Lambda::Function").values()
    assert [each["Properties"]["TracingConfig"]["Mode"] for each in traced] == ["Active"] * 5
