"""docs/limits.md lists exactly the limits enforced by the code."""

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
    "tidewheel.flows.maintenance.checkpoint.MOST_KEYS": "docs/disaster-recovery.md says what a rebuild restores",
    "tidewheel.model.settings.MAX_DELIVERY_S": "the longest time-out of a function that delivers",
    "tidewheel.cdk.names.MAX_SERVICE_NAME": "as long as every name",
    "tidewheel.deploy.words.MOST_NAMED": "a line with more names ends in dots",
    "tidewheel.cli.inspection.MOST_TOPICS": "the command says how many topics are left",
    "tidewheel.model.settings.MAX_FUNCTION_S": "the longest of the functions' time-outs",
    "tidewheel.storage.checks.MOST_DUE": "what one sweep sees; the next sees the rest",
    "tidewheel.flows.maintenance.due_checks.MOST_PARKS": "what one sweep handles; the next handles the rest",
    "tidewheel.flows.maintenance.checkpoint.MOST_RENEWED": "what a collection renews; the next renews the rest",
    "tidewheel.flows.maintenance.health.MOST_TOPICS": "how many topics a sweep measures",
    "tidewheel.model.pack.MAX_MESSAGES": "how messages are packed",
    "tidewheel.model.pack.MAX_PACK_BYTES": "how messages are packed",
    "tidewheel.model.pack.MAX_RAW_BYTES": "how messages are packed",
    "tidewheel.storage.plans.MAX_INLINE_MANIFEST_BYTES": "a larger plan is an object",
    "tidewheel.model.park.MAX_INLINE_PARK_BYTES": "a larger park is an object",
    "tidewheel.model.park.MAX_WAIT_S": "how long a park waits between tries",
    "tidewheel.flows.delivery.drain.MAX_UNREADABLE_WAIT_MS": "how long a park waits between tries",
    "tidewheel.flows.maintenance.merge_planning.MAX_MERGE_BYTES": "how merges are cut",
    "tidewheel.flows.maintenance.merge_planning.MAX_OUTPUT_BYTES": "how merges are cut",
    "tidewheel.flows.maintenance.merge_planning.MAX_OUTPUT_ROWS": "how merges are cut",
    "tidewheel.storage.tombstones.MAX_CANCELS": "how cancellations are shared out among transactions",
    "tidewheel.aws.scheduler_wheel.MAX_EVENT_AGE_S": "how the scheduler repeats; the sweep does the rest",
    "tidewheel.aws.scheduler_wheel.MAX_RETRIES": "how the scheduler repeats; the sweep does the rest",
    "tidewheel.flows.delivery.ingest_batch.MAX_HELD_BYTES": "how much ingest unpacks at a time",
    "tidewheel.model.marks.MOST_ITEMS": "more parts share the items of a delivery",
    "tidewheel.model.plan.MAX_PART_SEGMENTS": "how a delivery is cut into parts",
    "tidewheel.model.plan.MAX_PART_ROWS": "how a delivery is cut into parts",
    "tidewheel.model.plan.MAX_PART_RAW_BYTES": "how a delivery is cut into parts",
    "tidewheel.flows.maintenance.consider_merge.MOST_CONSIDERED": "which ledgers a merge chooses from",
    "tidewheel.flows.maintenance.merge_planning.MAX_ITEMS": "a swap is one transaction",
    "tidewheel.flows.maintenance.merge_planning.MAX_OUTPUTS": "how a merge is cut",
    "tidewheel.storage.topic_states.MAX_DELETED_ITEMS": "how many items a deletion reads at a time",
    "tidewheel.aws.s3_objects.MAX_DELETES": "S3's own, of a request",
    "tidewheel.flows.maintenance.health.MOST_DELIVERIES": "how many plans a sweep reads to measure lateness",
    "tidewheel.aws.custom_resource.MAX_REASON": "how long an error's text is cut in CloudFormation's console",
    "tidewheel.flows.maintenance.orphans.MOST_NAMES": "how many names a sweep of orphans holds at a time",
    "tidewheel.cdk.alarms.MOST_METRICS": "how metrics are shared out among alarms",
    "tidewheel.model.settings.MAX_VISIBILITY_TIMEOUT_S": "docs/settings.md has the range",
    "tidewheel.cdk.environment.MAX_SOURCE_CONCURRENCY": "docs/settings.md has the range",
    "tidewheel.model.settings.MAX_RETENTION_DAYS": "docs/settings.md has the range",
    "tidewheel.model.settings.MAX_SKEW_MS": "docs/settings.md has the range",
    "tidewheel.model.settings.MAX_SEND_THREADS": "docs/settings.md has the range",
    "tidewheel.cdk.environment.MAX_SWEEP_INTERVAL_S": "docs/settings.md has the range",
    "tidewheel.cdk.environment.MIN_QUEUE_AGE_ALARM_S": "docs/settings.md has the range",
    "tidewheel.cost.bill.MOST_TOPICS": "what the cost calculator calculates for",
    "tidewheel.cost.stream.MAX_EVENT_BYTES": "an assumption of the cost model about Lambda",
}
"""Constants whose names look like limits, and why no user has to know them."""


def rows() -> list[tuple[str, str, str]]:
    """Returns the table's rows, each with limit, value and full name of the constant."""
    cells = [
        line.strip("|").split("|") for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if "`tide" in line
    ]
    return [(limit.strip(), value.strip(), constant.strip().strip("`")) for limit, value, constant in cells]


def named_like_limits() -> set[str]:
    """Returns the full names of all public constants starting with MAX_, MIN_ or MOST_.

    Those of `tidewheel.memory` are left out, because they are AWS's own.
    """
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if PACKAGE / "memory" in path.parents:
            continue
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
    assert len(constants) == len(set(constants)) >= 40


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
