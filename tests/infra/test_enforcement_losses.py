"""Removes grants from the template. The flow fails or survives, and the denial names role and grant."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass

import pytest

from tests.iam.stack import EnforcedTidewheel
from tests.infra.enforced import FLOWS, World
from tests.infra.roles import DELIVER, INGEST, SCHEDULE
from tests.infra.variants import Template, local_template_of


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A removed grant, and the flow affected by the loss.

    Attributes:
        where: what the statement says beside the action.
        survived: whether the flow goes on without it.
    """

    role: str
    action: str
    where: str
    flow: str
    survived: bool = False


LOSSES = (
    Loss(role=INGEST, action="s3:PutObject", where="/ledgers/", flow="goes_direct"),
    Loss(role=INGEST, action="iam:PassRole", where="ScheduleRole", flow="goes_direct", survived=True),
    Loss(role=SCHEDULE, action="lambda:InvokeFunction", where="Dispatch", flow="goes_direct"),
)


def without(loss: Loss) -> Template:
    """The template less a grant."""
    less = deepcopy(local_template_of("development"))
    [policy] = [name for name in less["Resources"] if name.startswith(f"{loss.role}DefaultPolicy")]
    document = less["Resources"][policy]["Properties"]["PolicyDocument"]
    taken = 0
    for statement in document["Statement"]:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        if loss.action in actions and loss.where in json.dumps(statement):
            taken += 1
            statement["Action"] = [action for action in actions if action != loss.action]
    assert taken == 1
    document["Statement"] = [statement for statement in document["Statement"] if statement["Action"]]
    return less


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.role}-{loss.action}")
def test_a_flow_whose_role_lacks_a_grant_is_denied_exactly_that(loss: Loss) -> None:
    jobs: list[tuple[str, str]] = []
    with EnforcedTidewheel(template=without(loss), job_runner=World.runner(jobs)) as stack:
        try:
            FLOWS[loss.flow](World(stack=stack, jobs=jobs))
        except Exception:
            failed = True
        else:
            failed = bool(stack.failures)
        denied = {(each.role.split("-")[1].rstrip("0123456789ABCDEF"), each.action) for each in stack.denials}
    assert failed is not loss.survived and denied == {(loss.role, loss.action)}


def test_a_function_that_may_not_read_its_queue_is_no_event_source() -> None:
    loss = Loss(role=DELIVER, action="sqs:ReceiveMessage", where="WorkQueue", flow="")
    with pytest.raises(PermissionError, match=r"DeliveryDeliverRole.*sqs:ReceiveMessage on resource: \S+WorkQueue"):
        EnforcedTidewheel(template=without(loss)).open()
