"""What the roles of functions and jobs may do that no client may. `reach.txt` has all other permissions."""

from __future__ import annotations

from tests.infra.conftest import StackTemplate
from tests.infra.roles import FUNCTION_ROLES, IMPORT, JOB_ROLES
from tests.infra.variants import READER_ARN, template_of


def test_the_import_may_assume_the_roles_that_are_named_for_it() -> None:
    stack = StackTemplate(template_of("topics with queues of their own"))
    for role in (*FUNCTION_ROLES, *JOB_ROLES):
        assumed = [s["Resource"] for s in stack.statements(role) if s["Action"] == "sts:AssumeRole"]
        assert assumed == ([READER_ARN] if role == IMPORT else [])


def test_only_schedules_of_the_group_assume_the_schedule_role(stack: StackTemplate) -> None:
    role = stack.one("AWS::IAM::Role", "TimingWheelScheduleRole")
    [statement] = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert set(statement["Condition"]["StringEquals"]) == {"aws:SourceAccount", "aws:SourceArn"}
