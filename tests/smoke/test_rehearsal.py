"""The whole trial on the emulated AWS: what `make aws-smoke` does in an account."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from smoke.local_cloud import LocalCloud
from smoke.price import ESTIMATE_DOLLARS
from smoke.report import Report
from smoke.trial import run
from tests.smoke.clouds import STACK

PLAYED_S = 25 * 60


@pytest.fixture(scope="module")
def rehearsed() -> Iterator[tuple[LocalCloud, Report, list[str]]]:
    said: list[str] = []
    cloud = LocalCloud(STACK)
    try:
        yield cloud, run(cloud, rebuild_on="here", keep=False, say=said.append), said
    finally:
        cloud.close()


Rehearsed = tuple[LocalCloud, Report, list[str]]


def test_every_check_passes(rehearsed: Rehearsed) -> None:
    report = rehearsed[1]
    assert [check for check in report.checks if not check.passed] == []
    assert report.passed and report.took_s <= PLAYED_S
    names = " ".join(check.name for check in report.checks)
    for part in ("arrives", "early", "late", "cancelled", "BROKEN", "parked", "sweep", "paused", "merged", "rebuilt"):
        assert part in names
    for part in ("purged", "alarm", "dead letters", "throttled", "bodies", "must not"):
        assert part in names


def test_both_ways_of_a_message_are_measured(rehearsed: Rehearsed) -> None:
    report = rehearsed[1]
    assert {each.group for each in report.precision} == {"direct", "ledger"}
    assert all(each.messages >= 20 and 0 <= each.least_ms <= each.p99_ms <= 2_000 for each in report.precision)
    assert report.copies == 0 and report.received > report.sent


def test_every_function_was_used(rehearsed: Rehearsed) -> None:
    usage = rehearsed[1].usage
    assert usage is not None
    assert set(usage.invocations) == {"ingest", "dispatch", "deliver", "sweep", "compact"}
    assert min(usage.invocations.values()) >= 1


def test_it_costs_less_than_was_said_before(rehearsed: Rehearsed) -> None:
    assert 0 < sum(rehearsed[1].dollars.values()) < ESTIMATE_DOLLARS / 10


def test_nothing_is_left_in_the_account(rehearsed: Rehearsed) -> None:
    cloud, report, _ = rehearsed
    assert report.removal is not None and report.removal.finished and report.removal.leftovers == []
    session = cloud.session
    assert session.client("sqs").list_queues().get("QueueUrls", []) == []
    assert session.client("s3").list_buckets()["Buckets"] == []
    assert session.client("dynamodb").list_tables()["TableNames"] == []
    assert session.client("logs").describe_log_groups()["logGroups"] == []
    assert session.client("cloudformation").describe_stacks()["Stacks"] == []


def test_the_report_reads_as_lines_and_as_json(rehearsed: Rehearsed) -> None:
    report = rehearsed[1]
    lines = list(report.lines())
    assert lines[-1] == "passed" and any(line.startswith("ledger") for line in lines)
    assert max(len(line) for line in lines if not line.startswith("removed")) <= 120
    values = json.loads(report.to_json())
    assert values["passed"] is True and values["removal"]["leftovers"] == []
    assert {each["name"] for each in values["checks"]} == {check.name for check in report.checks}


def test_whoever_watches_sees_each_act_with_its_time(rehearsed: Rehearsed) -> None:
    said = rehearsed[2]
    assert said[0] == f"deploying {STACK}" and said[-1] == f"removing the stack {STACK}"
    assert sum(line.partition("  ")[2].startswith("ok: ") for line in said) >= 10
