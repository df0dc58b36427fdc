"""The dashboard fits its grid, and shows every existing metric of the service and no others."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from infra.application import BUNDLING_STACKS
from tests.infra.cloudwatch import STACK, reference
from tidewheel.cdk import Environment, TidewheelService
from tidewheel.telemetry.metrics import DIMENSION, METRICS, NAMESPACE


@pytest.fixture(scope="module")
def resources() -> list[dict[str, Any]]:
    stack = cdk.Stack(cdk.App(context={BUNDLING_STACKS: []}), STACK)
    TidewheelService(stack, "Default", environment=Environment.production(dashboard=True))
    found: dict[str, dict[str, Any]] = Template.from_stack(stack).to_json()["Resources"]
    return list(found.values())


@pytest.fixture(scope="module")
def widgets(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    [dashboard] = [each for each in resources if each["Type"] == "AWS::CloudWatch::Dashboard"]
    assert reference(dashboard["Properties"]["DashboardName"]) == STACK
    body: dict[str, Any] = json.loads(reference(dashboard["Properties"]["DashboardBody"]))
    found: list[dict[str, Any]] = body["widgets"]
    return found


def test_the_widgets_fill_the_grid_without_overlaps(widgets: list[dict[str, Any]]) -> None:
    cells = [
        (x, y)
        for each in widgets
        for x in range(each["x"], each["x"] + each["width"])
        for y in range(each["y"], each["y"] + each["height"])
    ]
    height = max(y for _, y in cells) + 1
    assert len(cells) == len(set(cells)) == 24 * height


def test_the_first_row_says_whether_anything_is_late(
    widgets: list[dict[str, Any]], resources: list[dict[str, Any]]
) -> None:
    row = [each["properties"] for each in widgets if each["y"] == 3]
    assert [each["title"] for each in row] == [
        "Lateness of what was delivered (ms)",
        "Oldest due message that is not delivered (s)",
        "Alarms",
    ]
    assert "stats max(Lateness) as" in reference(row[0]["query"])
    assert len(row[2]["alarms"]) == [each["Type"] for each in resources].count("AWS::CloudWatch::Alarm") > 0


def test_every_metric_of_the_service_is_shown_with_the_one_dimension(widgets: list[dict[str, Any]]) -> None:
    shown = [metric for each in widgets for metric in each["properties"].get("metrics", ()) if metric[0] == NAMESPACE]
    assert {metric[1] for metric in shown} == {metric.name for metric in METRICS if metric.alarm is not None}
    assert {tuple(metric[2:4]) for metric in shown} == {(DIMENSION, STACK)}


def test_every_field_of_a_record_is_shown_from_the_logs_of_all_functions(widgets: list[dict[str, Any]]) -> None:
    queries = [reference(each["properties"]["query"]) for each in widgets if each["type"] == "log"]
    shown = [name for query in queries for name in re.findall(r"(?:sum|max)\((\w+)\)", query)]
    assert sorted(shown) == sorted(metric.name for metric in METRICS if metric.alarm is None)
    for query in queries:
        assert query.count("SOURCE") == len({*re.findall(r"SOURCE '(\w+)", query)}) == 5


def test_each_row_says_how_to_read_it_and_the_runbook_is_named(widgets: list[dict[str, Any]]) -> None:
    texts = [each["properties"]["markdown"] for each in widgets if each["type"] == "text"]
    assert len(texts) == 4 and all(text.startswith("#") for text in texts)
    assert "`tidewheel docs runbook`" in texts[0]
    titles = [each["properties"]["title"] for each in widgets if each["type"] != "text"]
    assert len(titles) == len(set(titles)) == 16
