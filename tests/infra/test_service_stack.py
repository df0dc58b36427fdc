"""Required properties of the template."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from infra.application import BUNDLING_STACKS
from tests.conftest import REPOSITORY
from tests.infra.variants import template_of
from tidewheel.cdk import Environment, TidewheelService
from tidewheel.ledger.bucket import bucket_id
from tidewheel.ledger.rows import SCHEMA
from tidewheel.model import object_names
from tidewheel.model.settings import ServiceSettings

if TYPE_CHECKING:
    from tests.infra.conftest import StackTemplate

FUNCTIONS = {
    "ingest": (60, 1024),
    "dispatch": (120, 1024),
    "deliver": (60, 1024),
    "sweep": (240, 512),
    "compact": (300, 3008),
}
JOBS = {
    "merge_buckets": ("merge", 10, 1, "FLEX"),
    "rebuild_index": ("rebuild", 10, 0, "STANDARD"),
    "import_messages": ("import", 10, 0, "STANDARD"),
}
SOURCES = {"IngestionUrgentQueue": "ingest", "IngestionBulkQueue": "ingest", "DeliveryWorkQueue": "deliver"}
ROLES = {
    "ingest": "IngestionIngestRole",
    "dispatch": "TimingWheelDispatchRole",
    "deliver": "DeliveryDeliverRole",
    "sweep": "TimingWheelSweepRole",
    "compact": "CompactionCompactRole",
}
HIVE_TYPES = {
    "int64": "bigint",
    "fixed_size_binary[16]": "binary",
    "string": "string",
    "map<string, string>": "map<string,string>",
    "binary": "binary",
    "int8": "tinyint",
}

VARIABLES = {
    "TIDEWHEEL_STACK",
    "TIDEWHEEL_TABLE",
    "TIDEWHEEL_S3_BUCKET",
    "TIDEWHEEL_URGENT_QUEUE_URL",
    "TIDEWHEEL_BULK_QUEUE_URL",
    "TIDEWHEEL_WORK_QUEUE_URL",
    "TIDEWHEEL_REFUSED_QUEUE_URL",
    "TIDEWHEEL_SCHEDULE_GROUP",
    "TIDEWHEEL_SCHEDULE_ROLE_ARN",
    "TIDEWHEEL_DISPATCH_ARN",
    "TIDEWHEEL_SCHEDULE_DEAD_LETTER_ARN",
    "TIDEWHEEL_COMPACT_FUNCTION",
    "TIDEWHEEL_MERGE_JOB",
    "TIDEWHEEL_MAX_SKEW_MS",
    "TIDEWHEEL_SEND_THREADS",
    "TIDEWHEEL_TOPIC_QUEUES",
}


def test_there_are_the_five_functions_on_python_3_13_and_arm64(stack: StackTemplate) -> None:
    functions = stack.functions()
    assert {name: (p["Timeout"], p["MemorySize"]) for name, p in functions.items()} == FUNCTIONS
    for name, properties in functions.items():
        assert properties["Runtime"] == "python3.13"
        assert properties["Architectures"] == ["arm64"]
        assert properties["TracingConfig"] == {"Mode": "PassThrough"}
        assert joined(properties["FunctionName"]) == f"<AWS::StackName>-{name}"


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


def test_each_function_has_exactly_the_variables_of_the_contract(stack: StackTemplate) -> None:
    for properties in stack.functions().values():
        assert set(properties["Environment"]["Variables"]) == VARIABLES | {"POWERTOOLS_LOG_LEVEL"}


def test_the_variables_are_the_fields_of_the_service_settings_and_the_key_is_one_where_there_is_a_key() -> None:
    known = {f"TIDEWHEEL_{field.name.upper()}" for field in fields(ServiceSettings)}
    assert known == VARIABLES | {"TIDEWHEEL_ENCRYPTION_KEY_ARN"}
    for template in map(template_of, ("a key of its own", "an existing key")):
        functions = [each["Properties"] for each in template["Resources"].values() if "Handler" in str(each)]
        named = [each["Environment"]["Variables"] for each in functions if "Environment" in each]
        assert len(named) == 5 and all(set(each) - {"POWERTOOLS_LOG_LEVEL"} == known for each in named)


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


def test_there_are_the_three_jobs_on_glue_6(stack: StackTemplate) -> None:
    jobs = stack.jobs()
    assert set(jobs) == set(JOBS)
    for script, (name, workers, retries, class_) in JOBS.items():
        job = jobs[script]
        assert joined(job["Name"]) == f"<AWS::StackName>-{name}"
        assert (job["GlueVersion"], job["WorkerType"], job["Timeout"]) == ("6.0", "G.1X", 120)
        assert (job["NumberOfWorkers"], job["MaxRetries"]) == (workers, retries)
        assert (job["ExecutionProperty"], job["ExecutionClass"]) == ({"MaxConcurrentRuns": 1}, class_)
        assert job["DefaultArguments"]["--enable-auto-scaling"] == "true"
        assert job["Command"]["Name"] == "glueetl"
        assert (REPOSITORY / "glue_jobs" / f"{script}.py").is_file()


def test_a_job_finds_its_stack_its_packages_and_its_logs(stack: StackTemplate) -> None:
    for job in stack.jobs().values():
        arguments = job["DefaultArguments"]
        assert joined(arguments["--stack"]) == "<AWS::StackName>"
        assert joined(arguments["--additional-python-modules"]).startswith("s3://")
        assert joined(arguments["--additional-python-modules"]).endswith(".gluewheels.zip")
        assert arguments["--python-modules-installer-option"] == "--no-index"
        assert joined(arguments["--extra-py-files"]).endswith(".zip")
        assert joined(arguments["--custom-logGroup-prefix"]) == f"/aws-glue/{joined(job['Name'])}"
        assert arguments["--enable-continuous-cloudwatch-log"] == "true"
        assert "--enable-metrics" in arguments
    groups = {joined(group["LogGroupName"]) for group in stack.of_type("AWS::Logs::LogGroup").values()}
    assert {"/aws-glue/<AWS::StackName>-merge/error", "/aws-glue/<AWS::StackName>-merge/output"} <= groups


def test_the_settings_name_the_compact_function_and_the_merge_job(stack: StackTemplate) -> None:
    variables = stack.functions()["sweep"]["Environment"]["Variables"]
    assert variables["TIDEWHEEL_COMPACT_FUNCTION"] == stack.functions()["compact"]["FunctionName"]
    assert variables["TIDEWHEEL_MERGE_JOB"] == stack.jobs()["merge_buckets"]["Name"]


def test_athena_sees_the_ledgers_as_they_are_named_and_written(stack: StackTemplate) -> None:
    table = stack.one("AWS::Glue::Table")["TableInput"]
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


def test_three_queues_are_read(stack: StackTemplate) -> None:
    mappings = stack.mappings()
    assert set(mappings) == set(SOURCES)


@pytest.mark.parametrize(
    ("queue", "batch_size", "window_s"),
    [("IngestionUrgentQueue", 10, 0), ("IngestionBulkQueue", 10_000, 300), ("DeliveryWorkQueue", 1, 0)],
)
def test_batches_are_as_large_and_as_patient_as_the_contract_says(
    stack: StackTemplate, queue: str, batch_size: int, window_s: int
) -> None:
    properties = stack.mappings()[queue]
    assert properties["BatchSize"] == batch_size
    assert properties.get("MaximumBatchingWindowInSeconds", 0) == window_s


def test_a_rule_starts_the_sweep_every_five_minutes_and_no_schedule_does(stack: StackTemplate) -> None:
    rule = stack.one("AWS::Events::Rule", "TimingWheelSweepRule")
    assert rule["ScheduleExpression"] == "rate(5 minutes)"
    [target] = rule["Targets"]
    assert "TimingWheelSweep" in str(target["Arn"]) and target["Input"] == "{}"
    assert not stack.of_type("AWS::Scheduler::Schedule")


def test_the_table_has_the_keys_and_the_index_of_the_contract(stack: StackTemplate) -> None:
    table = stack.one("AWS::DynamoDB::Table")
    assert {a["AttributeName"]: a["AttributeType"] for a in table["AttributeDefinitions"]} == {
        "pk": "S",
        "sk": "S",
        "check_shard": "S",
        "next_check_ms": "N",
    }
    assert [key["AttributeName"] for key in table["KeySchema"]] == ["pk", "sk"]
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    [index] = table["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "checks"
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["check_shard", "next_check_ms"]
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}


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
