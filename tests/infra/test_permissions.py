"""What each role may do, and what it may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import StackTemplate

INGEST, DISPATCH = "IngestionIngestRole", "TimingWheelDispatchRole"
DELIVER, SWEEP = "DeliveryDeliverRole", "TimingWheelSweepRole"
FUNCTION_ROLES = (INGEST, DISPATCH, DELIVER, SWEEP)


def test_no_statement_allows_a_wildcard_of_actions(stack: StackTemplate) -> None:
    for policy in stack.of_type("AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            assert "*" not in str(statement["Action"])


def test_only_traces_may_go_to_any_resource(stack: StackTemplate) -> None:
    for policy in stack.of_type("AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            if statement["Resource"] == "*":
                assert {action.split(":")[0] for action in statement["Action"]} == {"xray"}


def test_no_role_has_a_managed_policy(stack: StackTemplate) -> None:
    assert not any("ManagedPolicyArns" in role for role in stack.of_type("AWS::IAM::Role").values())


@pytest.mark.parametrize("role", FUNCTION_ROLES)
def test_no_function_may_scan_the_table(stack: StackTemplate, role: str) -> None:
    needed = {"ConditionCheckItem", "GetItem", "PutItem", "Query", "UpdateItem"}
    assert stack.actions(role, "dynamodb") - {"DeleteItem"} == needed


@pytest.mark.parametrize(
    ("role", "actions"),
    [
        (INGEST, {"PutObject", "DeleteObject"}),
        (DISPATCH, {"GetObject", "PutObject", "DeleteObject"}),
        (DELIVER, {"GetObject"}),
        (SWEEP, {"GetObject", "PutObject", "DeleteObject"}),
    ],
)
def test_each_function_has_the_s3_actions_that_it_needs(stack: StackTemplate, role: str, actions: set[str]) -> None:
    assert stack.actions(role, "s3") == actions


@pytest.mark.parametrize(("role", "prefix"), [(INGEST, "/ledgers/*"), (DISPATCH, "/plans/*")])
def test_objects_are_put_under_one_prefix_only(stack: StackTemplate, role: str, prefix: str) -> None:
    [statement] = [s for s in stack.statements(role) if "s3:PutObject" in s["Action"]]
    assert statement["Resource"]["Fn::Join"][1][-1] == prefix


@pytest.mark.parametrize(("role", "arms"), [(INGEST, True), (DISPATCH, True), (DELIVER, False), (SWEEP, True)])
def test_who_arms_the_wheel_may_pass_the_role_to_the_scheduler_only(
    stack: StackTemplate, role: str, arms: bool
) -> None:
    assert stack.actions(role, "scheduler") == ({"CreateSchedule"} if arms else set())
    passes = [s for s in stack.statements(role) if "iam:PassRole" in s["Action"]]
    assert len(passes) == arms
    for statement in passes:
        assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}


@pytest.mark.parametrize("role", FUNCTION_ROLES)
def test_every_function_may_send_to_the_queues_of_subscriptions(stack: StackTemplate, role: str) -> None:
    sends = [s for s in stack.statements(role) if "sqs:SendMessage" in s["Action"]]
    assert any("-*" in str(statement["Resource"]) for statement in sends)
    assert any("DeliveryRefusedQueue" in str(statement["Resource"]) for statement in sends)


@pytest.mark.parametrize("role", FUNCTION_ROLES)
def test_only_the_sweep_reads_the_wake_index(stack: StackTemplate, role: str) -> None:
    assert ("/index/wake" in str(stack.statements(role))) == (role == SWEEP)


def test_a_schedule_may_invoke_dispatch_and_sweep_and_nothing_else(stack: StackTemplate) -> None:
    role = "TimingWheelScheduleRole"
    invokes, dead_letters = stack.statements(role)
    assert invokes["Action"] == "lambda:InvokeFunction"
    assert referenced(invokes["Resource"]) == {"TimingWheelDispatch", "TimingWheelSweep"}
    assert dead_letters["Action"] == "sqs:SendMessage"
    assert referenced(dead_letters["Resource"]) == {"TimingWheelScheduleDeadLetters"}


def test_only_schedules_of_the_group_assume_the_schedule_role(stack: StackTemplate) -> None:
    role = stack.one("AWS::IAM::Role", "TimingWheelScheduleRole")
    [statement] = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert set(statement["Condition"]["StringEquals"]) == {"aws:SourceAccount", "aws:SourceArn"}


def referenced(value: Any) -> set[str]:
    """The logical ids, less their hashes, that a value takes attributes of."""
    if isinstance(value, list):
        return set().union(*(referenced(part) for part in value))
    if not isinstance(value, dict):
        return set()
    if "Fn::GetAtt" in value:
        return {value["Fn::GetAtt"][0][:-8]}
    return set().union(*(referenced(part) for part in value.values()))
