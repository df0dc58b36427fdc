"""The permissions of each role."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.conftest import StackTemplate
from tests.infra.roles import (
    COMPACT,
    DELIVER,
    DISPATCH,
    FUNCTION_ROLES,
    IMPORT,
    INGEST,
    JOB_ROLES,
    MERGE,
    REBUILD,
    SENDERS,
    SWEEP,
)
from tests.infra.variants import READER_ARN, template_of
from tidewheel.model.object_names import topic_prefixes
from tidewheel.storage import layout as table_layout

WRITING = {"GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload"}


def test_no_statement_allows_a_wildcard_of_actions(stack: StackTemplate) -> None:
    for policy in stack.of_type("AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            assert "*" not in str(statement["Action"])


def test_only_traces_glues_own_metrics_and_lists_of_schedules_may_go_to_any_resource(stack: StackTemplate) -> None:
    for policy in stack.of_type("AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            if statement["Resource"] != "*":
                continue
            if statement["Action"] == "cloudwatch:PutMetricData":
                assert statement["Condition"] == {"StringEquals": {"cloudwatch:namespace": "Glue"}}
            else:
                # AWS knows no resource for the list.
                others = set(statement["Action"]) - {"scheduler:ListSchedules"}
                assert {action.split(":")[0] for action in others} == {"xray"}


def test_no_role_has_a_managed_policy(stack: StackTemplate) -> None:
    assert not any("ManagedPolicyArns" in role for role in stack.of_type("AWS::IAM::Role").values())


TOPICS, TOMBSTONES = table_layout.EVERY_TOPIC, table_layout.EVERY_TOMBSTONES
KEYS, DAILY = table_layout.EVERY_KEYS, table_layout.SERVICE
NOTES, LISTED = table_layout.EVERY_NOTES, table_layout.LISTED
CLAIMS = table_layout.EVERY_CLAIMS
OF_PACKS = f"{table_layout.EVERY_MOVES} {table_layout.EVERY_NOTES}"
TOGETHER = f"{TOPICS}, {TOMBSTONES} and {KEYS}"
"""The same pattern as TOPICS without an exception: for transactions over several of these partitions."""
PARKS = f"{TOPICS} and {NOTES}"
EXCEPTED = {
    (): TOGETHER,
    (table_layout.EVERY_BESIDE,): TOPICS,
    (
        table_layout.EVERY_CLAIMS,
        table_layout.EVERY_KEYS,
        table_layout.EVERY_MOVES,
        table_layout.EVERY_TOMBSTONES,
    ): PARKS,
}
"""What a statement excepts of TOPICS -> what it then allows."""
READS = {"GetItem", "Query"}
WRITES = READS | {"DeleteItem", "PutItem", "UpdateItem"}
ERASING = {"DeleteObjectVersion", "ListBucketVersions"}
"""Of strict erasure."""


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (
            INGEST,
            {
                TOPICS: READS,
                TOMBSTONES: READS,
                OF_PACKS: {"GetItem"},
                KEYS: {"GetItem"},
                CLAIMS: {"GetItem"},
                TOGETHER: {"ConditionCheckItem", "PutItem", "UpdateItem"},
            },
        ),
        (DISPATCH, {TOPICS: WRITES, TOMBSTONES: {"DeleteItem", "PutItem", "Query"}, KEYS: {"Query"}}),
        (
            DELIVER,
            {
                TOPICS: WRITES - {"PutItem"},
                TOMBSTONES: {"Query"},
                NOTES: {"GetItem"},
                PARKS: {"ConditionCheckItem", "PutItem"},
            },
        ),
        (
            SWEEP,
            {
                TOPICS: WRITES - {"PutItem"},
                TOMBSTONES: {"DeleteItem", "PutItem", "Query"},
                KEYS: {"DeleteItem", "Query"},
                OF_PACKS: {"DeleteItem", "Query"},
                NOTES: {"PutItem"},
                DAILY: {"GetItem", "UpdateItem"},
                LISTED: {"DeleteItem", "PutItem", "Query"},
            },
        ),
        (COMPACT, {TOPICS: WRITES, TOMBSTONES: {"Query"}, NOTES: {"PutItem"}}),
        (MERGE, {TOPICS: WRITES, TOMBSTONES: {"Query"}, NOTES: {"PutItem"}}),
        (
            REBUILD,
            {TOPICS: WRITES, TOMBSTONES: {"PutItem", "Query"}, NOTES: {"PutItem"}, KEYS: {"PutItem", "Query"}},
        ),
        (IMPORT, {TOPICS: READS | {"PutItem", "UpdateItem"}}),
    ],
)
def test_items_are_allowed_by_partition_and_nobody_may_scan_the_table(
    stack: StackTemplate, role: str, allowed: dict[str, set[str]]
) -> None:
    found: dict[str, set[str]] = {}
    for statement in stack.statements(role):
        actions = {action.split(":")[1] for action in as_list(statement["Action"]) if action.startswith("dynamodb:")}
        if not actions or "/index/" in str(statement["Resource"]):
            continue
        condition = statement["Condition"]
        pattern = " ".join(as_list(condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]))
        excepted = condition.get("ForAllValues:StringNotLike", {}).get("dynamodb:LeadingKeys", [])
        if pattern == TOPICS or excepted:
            assert pattern == TOPICS
            pattern = EXCEPTED[tuple(as_list(excepted))]
        assert condition["Null"] == {"dynamodb:LeadingKeys": "false"}
        found.setdefault(pattern, set()).update(actions)
    assert found == allowed


def as_list(value: Any) -> list[Any]:
    """Returns a value as a list."""
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize(
    ("role", "actions"),
    [
        (INGEST, {"PutObject", "DeleteObject"}),
        (DISPATCH, {"GetObject", "PutObject", "DeleteObject", "ListBucket"} | ERASING),
        (DELIVER, {"GetObject", "PutObject", "DeleteObject", "ListBucket"}),
        (SWEEP, {"GetObject", "PutObject", "DeleteObject", "ListBucket"} | ERASING),
        (COMPACT, WRITING | {"ListBucket"}),
        (MERGE, WRITING | {"ListBucket"}),
        (REBUILD, WRITING | {"ListBucket"}),
        (IMPORT, WRITING | {"ListBucket"}),
    ],
)
def test_each_function_and_job_has_the_s3_actions_that_it_needs(
    stack: StackTemplate, role: str, actions: set[str]
) -> None:
    assert stack.actions(role, "s3") == actions


@pytest.mark.parametrize(
    ("role", "prefixes"),
    [
        (INGEST, {"ledgers", "parked", "payloads", "refused"}),
        (DELIVER, {"parked", "aside", "refused"}),
        (DISPATCH, {"plans", "checkpoints"}),
        (SWEEP, {"checkpoints", "payloads/*/collected.json"}),
        (COMPACT, {"ledgers"}),
        (MERGE, {"ledgers"}),
        (REBUILD, {"ledgers", "checkpoints", "aside", "plans"}),
        (IMPORT, {"ledgers", "imports"}),
    ],
)
def test_objects_are_put_under_these_prefixes_only(stack: StackTemplate, role: str, prefixes: set[str]) -> None:
    expected = {f"/{prefix}*" if prefix.endswith(".json") else f"/{prefix}/*" for prefix in prefixes}
    assert objects_of(stack, role, "s3:PutObject") == expected


@pytest.mark.parametrize("role", (DISPATCH, DELIVER, SWEEP, COMPACT, *JOB_ROLES))
def test_who_reads_objects_may_list_them_so_that_a_missing_one_is_no_denied_one(
    stack: StackTemplate, role: str
) -> None:
    [statement] = [s for s in stack.statements(role) if "s3:ListBucket" in s["Action"]]
    assert set(as_list(statement["Action"])) - {"s3:ListBucketVersions"} == {"s3:ListBucket"}
    assert "Condition" not in statement
    assert referenced(statement["Resource"]) == {"StorageS3Bucket"}


@pytest.mark.parametrize("role", JOB_ROLES)
def test_a_job_reads_its_own_code_and_no_other_asset(stack: StackTemplate, role: str) -> None:
    code = {name for name in objects_of(stack, role, "s3:GetObject") if name.endswith((".py", ".zip"))}
    assert len(code) == 3
    for other in set(JOB_ROLES) - {role}:
        shared = code & objects_of(stack, other, "s3:GetObject")
        assert {name.rpartition(".")[2] for name in shared} == {"zip"}


def test_only_the_import_touches_what_users_put_there_for_it_and_the_sweep_deletes_it_with_its_topic(
    stack: StackTemplate,
) -> None:
    for role in (*FUNCTION_ROLES, *JOB_ROLES):
        for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
            allowed = role == IMPORT or (role, action) == (SWEEP, "s3:DeleteObject")
            assert ("/imports/*" in objects_of(stack, role, action)) == allowed


def test_the_sweep_may_delete_all_that_a_deleted_topic_leaves(stack: StackTemplate) -> None:
    prefixes = {prefix.removesuffix("t/") for prefix in topic_prefixes("t")}
    prefixes = {prefix.partition("/")[0] for prefix in prefixes}
    assert objects_of(stack, SWEEP, "s3:DeleteObject") == {f"/{prefix}/*" for prefix in prefixes}


@pytest.mark.parametrize("role", JOB_ROLES)
def test_a_job_reads_the_settings_and_writes_its_own_logs(stack: StackTemplate, role: str) -> None:
    [settings] = [s for s in stack.statements(role) if s["Action"] == "ssm:GetParameter"]
    assert settings["Resource"]["Fn::Join"][1][-3:] == [
        ":parameter/tidewheel/",
        {"Ref": "AWS::StackName"},
        "/settings",
    ]
    [logs] = [s for s in stack.statements(role) if "logs:PutLogEvents" in s["Action"]]
    assert set(logs["Action"]) == {"logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"}
    name = role.removesuffix("Role")
    assert referenced(logs["Resource"]) == {f"{name}ErrorLogs", f"{name}OutputLogs"}


@pytest.mark.parametrize("role", JOB_ROLES)
def test_a_job_may_use_these_services_only(stack: StackTemplate, role: str) -> None:
    arms = {"iam", "scheduler"} if role == IMPORT else set()
    assert stack.services(role) == {"cloudwatch", "dynamodb", "logs", "s3", "ssm"} | arms


def test_the_import_may_assume_the_roles_that_are_named_for_it() -> None:
    stack = StackTemplate(template_of("topics with queues of their own"))
    for role in (*FUNCTION_ROLES, *JOB_ROLES):
        assumed = [s["Resource"] for s in stack.statements(role) if s["Action"] == "sts:AssumeRole"]
        assert assumed == ([READER_ARN] if role == IMPORT else [])


@pytest.mark.parametrize("role", (*FUNCTION_ROLES, *JOB_ROLES))
def test_only_the_sweep_starts_merges(stack: StackTemplate, role: str) -> None:
    assert stack.actions(role, "lambda") == ({"InvokeFunction"} if role == SWEEP else set())
    assert stack.actions(role, "glue") == ({"StartJobRun"} if role == SWEEP else set())
    for statement in stack.statements(role):
        if statement["Action"] == "lambda:InvokeFunction":
            assert referenced(statement["Resource"]) == {"CompactionCompact", "TimingWheelDispatch"}
        if statement["Action"] == "glue:StartJobRun":
            [job] = [part for part in statement["Resource"]["Fn::Join"][1] if "CompactionMerge" in str(part)]
            assert set(job) == {"Ref"}


@pytest.mark.parametrize(
    ("role", "arms"), [(INGEST, True), (DISPATCH, True), (DELIVER, False), (SWEEP, True), (COMPACT, False)]
)
def test_who_arms_the_wheel_may_pass_the_role_to_the_scheduler_only(
    stack: StackTemplate, role: str, arms: bool
) -> None:
    disarms = {"DeleteSchedule", "ListSchedules"} if role == SWEEP else set()
    assert stack.actions(role, "scheduler") == ({"CreateSchedule"} if arms else set()) | disarms
    passes = [s for s in stack.statements(role) if "iam:PassRole" in s["Action"]]
    assert len(passes) == arms
    for statement in passes:
        assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}


@pytest.mark.parametrize("role", FUNCTION_ROLES)
def test_only_functions_that_deliver_may_send_to_the_queues_of_subscriptions(stack: StackTemplate, role: str) -> None:
    sends = [s for s in stack.statements(role) if "sqs:SendMessage" in s["Action"]]
    assert any("-*" in str(statement["Resource"]) for statement in sends) == (role in SENDERS)
    assert any("DeliveryRefusedQueue" in str(statement["Resource"]) for statement in sends) == (role in SENDERS)


@pytest.mark.parametrize("role", FUNCTION_ROLES)
def test_who_hands_out_or_drains_may_put_jobs_into_the_work_queue(stack: StackTemplate, role: str) -> None:
    sends = [s for s in stack.statements(role) if "sqs:SendMessage" in s["Action"]]
    assert any("DeliveryWorkQueue" in str(s["Resource"]) for s in sends) == (role in (*SENDERS, SWEEP))


@pytest.mark.parametrize("role", FUNCTION_ROLES)
def test_only_the_sweep_reads_the_wake_index(stack: StackTemplate, role: str) -> None:
    assert ("/index/checks" in str(stack.statements(role))) == (role == SWEEP)


def test_a_schedule_may_invoke_dispatch_and_nothing_else(stack: StackTemplate) -> None:
    role = "TimingWheelScheduleRole"
    invokes, dead_letters = sorted(stack.statements(role), key=lambda statement: str(statement["Action"]))
    assert invokes["Action"] == "lambda:InvokeFunction"
    assert referenced(invokes["Resource"]) == {"TimingWheelDispatch"}
    assert dead_letters["Action"] == "sqs:SendMessage"
    assert referenced(dead_letters["Resource"]) == {"TimingWheelScheduleDeadLetters"}


def test_only_schedules_of_the_group_assume_the_schedule_role(stack: StackTemplate) -> None:
    role = stack.one("AWS::IAM::Role", "TimingWheelScheduleRole")
    [statement] = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert set(statement["Condition"]["StringEquals"]) == {"aws:SourceAccount", "aws:SourceArn"}


def objects_of(stack: StackTemplate, role: str, action: str) -> set[str]:
    """The ends of the ARNs of objects on which a role is allowed an action."""
    return {resource["Fn::Join"][1][-1] for resource in stack.resources(role, action)}


def referenced(value: Any) -> set[str]:
    """Returns the logical ids, less hashes, in a value's Fn::GetAtt references."""
    if isinstance(value, list):
        return set().union(*(referenced(part) for part in value))
    if not isinstance(value, dict):
        return set()
    if "Fn::GetAtt" in value:
        return {value["Fn::GetAtt"][0][:-8]}
    return set().union(*(referenced(part) for part in value.values()))
