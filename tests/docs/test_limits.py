"""docs/limits.md says what the code enforces, all of it, and nothing else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import infra  # noqa: F401 - finds node for the modules that import aws_cdk

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "tidewheel"
DOCUMENT = ROOT / "docs" / "limits.md"

NOT_LIMITS = {
    "tidewheel.aws.custom_resource.MAX_REASON": "how long an error's text is cut in CloudFormation's console",
    "tidewheel.flows.upkeep.orphans.MOST_NAMES": "how many names a sweep of orphans holds at a time",
    "tidewheel.jobs.tasks.MOST_TRIES": "how often a task is tried whose process dies",
    "tidewheel.cdk.alarms.MOST_METRICS": "how metrics are shared out among alarms",
    "tidewheel.cost.bill.MOST_TOPICS": "what the cost calculator calculates for",
    "tidewheel.cost.stream.MAX_EVENT_BYTES": "an assumption of the cost model about Lambda",
    "tidewheel.memory.sqs_client.MAX_BATCH": "SQS's own, in memory",
    "tidewheel.memory.sqs_message.MAX_ATTRIBUTES": "SQS's own, in memory",
    "tidewheel.memory.sqs_queue.MAX_VISIBILITY_S": "SQS's own, in memory",
}
"""Constants whose names look like limits, and why no user has to know them."""


def rows() -> list[tuple[str, str, str]]:
    """Returns the table's rows: limit, value, the constant's full name."""
    cells = [
        line.strip("|").split("|") for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if "`tide" in line
    ]
    return [(limit.strip(), value.strip(), constant.strip().strip("`")) for limit, value, constant in cells]


def named_like_limits() -> set[str]:
    """Returns the full names of all public constants that are called MAX_, MIN_ or MOST_ something."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(("tidewheel", *path.relative_to(PACKAGE).with_suffix("").parts))
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if re.match(r"(?:MAX|MIN|MOST)_", name):
                    found.add(f"{module}.{name}")
    return found


def test_every_limit_is_documented() -> None:
    documented = {constant for _, _, constant in rows()}
    assert named_like_limits() - documented == set(NOT_LIMITS)


def test_every_limit_is_listed_once() -> None:
    constants = [constant for _, _, constant in rows()]
    assert len(constants) == len(set(constants)) >= 50


def test_the_limits_in_prose_are_the_ones_that_are_enforced() -> None:
    from tidewheel.errors import InvalidValue
    from tidewheel.flows.delivery import dispatch
    from tidewheel.model.topic import check_name

    text = DOCUMENT.read_text(encoding="utf-8")
    assert f"Above {dispatch._ONE_STEP_SUBSCRIPTIONS} active subscriptions" in text
    assert "1 to 48 letters" in text
    check_name("topic", "a" * 48)
    with pytest.raises(InvalidValue):
        check_name("topic", "a" * 49)
