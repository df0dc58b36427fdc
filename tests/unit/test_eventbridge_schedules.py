"""What becomes of each field of a schedule, and why a schedule is not taken."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tidewheel.cli.main import app
from tidewheel.cli.target import Target
from tidewheel.integrations.eventbridge_schedules import ScheduledMessage, scheduled_message, schedules_in
from tidewheel.model.recurrence import parse_rule

NOW = datetime(2027, 1, 29, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp()) * 1000
SEND = "arn:aws:scheduler:::aws-sdk:sqs:sendMessage"


def schedule(**changes: Any) -> dict[str, Any]:
    """Returns a schedule as get-schedule does, with other fields. `Target` is merged."""
    target = {"Arn": "arn:aws:sqs:us-east-1:123456789012:jobs", "RoleArn": "role", "Input": "x"}
    given = {
        "CreationDate": "2027-01-05T00:00:00+00:00",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "GroupName": "default",
        "Name": "job",
        "ScheduleExpression": "at(2027-02-01T09:00:00)",
        "ScheduleExpressionTimezone": "UTC",
        "State": "ENABLED",
    }
    return given | changes | {"Target": target | changes.get("Target", {})}


def made(at: str = "at(2027-02-01T09:00:00)", zone: str = "UTC", **changes: Any) -> ScheduledMessage:
    document = schedule(ScheduleExpression=at, ScheduleExpressionTimezone=zone, **changes)
    return scheduled_message(document, NOW_MS)


def imported(file: Path | str, *options: str) -> Result:
    """Makes a dry run without AWS, in the year 2026 or later."""
    arguments = ["import", "jobs", str(file), "--format", "eventbridge-schedules", "--dry-run", *options]
    return CliRunner().invoke(
        app, [*arguments, "--from", "2027-01-29T12:00:00Z"], obj=Target(endpoint_url="no address")
    )


# ---- fields


def test_a_one_time_schedule_is_due_at_its_time_in_its_zone() -> None:
    assert made("at(2027-07-01T09:00:00)", "Europe/Berlin").message.deliver_at == datetime(2027, 7, 1, 7, tzinfo=UTC)
    assert made("at(2027-10-31T02:30:00)", "Europe/Berlin").message.deliver_at == datetime(
        2027, 10, 31, 0, 30, tzinfo=UTC
    )


def test_the_key_is_group_and_name_at_their_longest() -> None:
    assert made(GroupName="g" * 64, Name="n" * 64).message.key == "g" * 64 + "/" + "n" * 64


def test_a_call_of_send_message_gives_body_and_group() -> None:
    call = json.dumps({"QueueUrl": "https://sqs", "MessageBody": "hello", "MessageGroupId": "tenant-1"})
    message = made(Target={"Arn": SEND, "Input": call}).message
    assert (message.body, message.group) == ("hello", "tenant-1")


@pytest.mark.parametrize(("age_s", "expires_in"), [(60, 60), (86_399, 86_399), (86_400, None), (None, None)])
def test_an_age_below_eventbridges_own_is_an_expiry(age_s: int | None, expires_in: int | None) -> None:
    policy = {} if age_s is None else {"RetryPolicy": {"MaximumEventAgeInSeconds": age_s}}
    assert made(Target=policy).message.expires_in == expires_in


@pytest.mark.parametrize("expression", ["at(2027-02-01T09:00:00)", "rate(1 day)"])
def test_a_flexible_window_is_a_window(expression: str) -> None:
    flexible = {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15}
    assert made(expression, FlexibleTimeWindow=flexible).message.window == "15m"
    assert made(expression).message.window is None


@pytest.mark.parametrize(
    ("expression", "changes", "start"),
    [
        ("rate(5 minutes)", {}, "2027-01-05T00:00"),
        ("rate(5 minutes)", {"StartDate": "2027-03-01T00:00:00Z"}, "2027-03-01T00:00"),
        ("rate(1 day)", {"StartDate": 1_800_000_000.5}, "2027-01-15T08:00"),
        ("rate(1 day)", {"CreationDate": None}, "1970-01-01T00:00"),
        ("cron(0 9 * * ? *)", {}, None),
        ("cron(0 9 * * ? *)", {"StartDate": "2027-03-01T00:00:00+01:00"}, "2027-02-28T23:00"),
    ],
)
def test_a_rate_counts_from_start_or_creation(expression: str, changes: dict[str, Any], start: str | None) -> None:
    found = made(expression, **changes).recurring
    assert found is not None
    assert (f"{found['start']:%Y-%m-%dT%H:%M}" if "start" in found else None) == start


@pytest.mark.parametrize(
    ("hours", "first"), [(-1, "02-01T00"), (0, "02-01T00"), (1, "02-01T06"), (6, "02-01T06"), (50, "02-03T06")]
)
def test_from_a_later_time_on_a_rate_keeps_its_ticks(hours: int, first: str) -> None:
    begin = datetime(2027, 2, 1, tzinfo=UTC)
    document = schedule(ScheduleExpression="rate(6 hours)", StartDate=begin.isoformat())
    found = scheduled_message(document, NOW_MS, int((begin + timedelta(hours=hours)).timestamp() * 1000)).recurring
    assert found is not None and f"{found['start']:%m-%dT%H}" == first


# ---- cron


@pytest.mark.parametrize(
    ("of_eventbridge", "ours"),
    [
        ("0 9 * * ? *", "0 9 * * *"),
        ("0 9 ? * * *", "0 9 * * *"),
        ("0 9 ? * 7 *", "0 9 * * 6"),
        ("0 9 ? * 2-6 *", "0 9 * * 1-5"),
        ("0 9 ? * 1,3,7 *", "0 9 * * 0,2,6"),
        ("0 9 ? * SUN,TUE *", "0 9 * * SUN,TUE"),
        ("0 9 ? * 3#2 *", "0 9 * * 2#2"),
        ("0 9 ? * FRI#5 *", "0 9 * * FRI#5"),
        ("0 9 ? * 7L", "0 9 * * 6L"),
        ("0 9 L * ? *", "0 9 L * *"),
        ("0 9 13,31 JAN-MAR ? *", "0 9 13,31 JAN-MAR *"),
        ("5/20,59 0/6 1 1/5 ? *", "5/20,59 0/6 1 1/5 *"),
    ],
)
def test_cron_is_written_as_debians_whose_weekdays_begin_with_0(of_eventbridge: str, ours: str) -> None:
    found = made(f"cron({of_eventbridge})").recurring
    assert found is not None and found["cron"] == ours
    assert parse_rule(ours, None, "UTC", start_ms=NOW_MS).next_after(NOW_MS)


# ---- what is not taken


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"State": "DISABLED"}, "State='DISABLED'"),
        ({"ScheduleExpression": "at(2027-01-29T12:00:00)"}, "it is due before 2027-01-29T12:00"),
        ({"ScheduleExpression": "at(2037-03-01T00:00:00)"}, "ten years"),
        ({"ScheduleExpression": "at(tomorrow)"}, "write at(2026-01-31T12:00:00)"),
        ({"ScheduleExpression": "at(2027-02-30T12:00:00)"}, "day"),
        (
            {"ScheduleExpression": "at(2027-03-28T02:30:00)", "ScheduleExpressionTimezone": "Europe/Berlin"},
            "the clocks of Europe/Berlin skip this time",
        ),
        ({"ScheduleExpressionTimezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"ScheduleExpression": "cron(0 9 * * ? 2027-2028)"}, "years"),
        ({"ScheduleExpression": "cron(0 9 3W * ? *)"}, "3W"),
        ({"ScheduleExpression": "cron(0 9 * * MON *)"}, "not a cron expression of EventBridge"),
        ({"ScheduleExpression": "cron(0 9 ? * 0 *)"}, "day-of-week"),
        ({"ScheduleExpression": "cron(0 9 30 2 ? *)"}, "never due"),
        ({"ScheduleExpression": "cron(0 9 ? * MON/2 *)"}, "not a cron expression of EventBridge"),
        ({"ScheduleExpression": "rate(1 day)", "EndDate": "2027-03-01T00:00:00Z"}, "EndDate='2027-03-01T00:00:00Z'"),
        ({"ScheduleExpression": "rate(1 day)", "StartDate": "2027-03-01T00:00:00"}, "time zone"),
        ({"ScheduleExpression": "rate(1 day)", "StartDate": "soon"}, "soon"),
        ({"ScheduleExpression": "rate(4000 days)"}, "every"),
        ({"Target": {"Input": ""}}, "body"),
        ({"Target": {"Input": None}}, "Input=None"),
        ({"Target": {"Input": "<aws.scheduler.execution-id>"}}, "Input='<aws.scheduler.execution-id>'"),
        ({"Target": {"EcsParameters": {}}}, "EcsParameters"),
        ({"Target": {"Arn": "arn:aws:scheduler:::aws-sdk:sns:publish", "Input": "{}"}}, "sns:publish"),
        ({"Target": {"Arn": SEND, "Input": "hello"}}, "Input='hello'"),
        ({"Target": {"Arn": SEND, "Input": "[" * 100_000}}, "Input="),
        ({"Target": {"Arn": SEND, "Input": '{"MessageBody": "x", "DelaySeconds": 9}'}}, "DelaySeconds"),
        ({"Target": {"Arn": SEND, "Input": "{}"}}, "MessageBody=None"),
        ({"Target": {"SqsParameters": {"MessageGroupId": "a b"}}}, "group"),
        ({"Target": {"RetryPolicy": {"MaximumEventAgeInSeconds": "1h"}}}, "MaximumEventAgeInSeconds='1h'"),
        ({"ScheduleExpression": None}, "ScheduleExpression=None"),
        ({"FlexibleTimeWindow": {"MaximumWindowInMinutes": "a while"}}, "MaximumWindowInMinutes='a while'"),
    ],
    ids=str,
)
def test_what_a_message_cannot_be_is_told_with_its_field(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError) as caught:
        scheduled_message(schedule(**changes), NOW_MS)
    assert told in str(caught.value)


# ---- files


def test_objects_lists_and_lines_are_read(tmp_path: Path) -> None:
    one, two, three = (json.dumps({"Name": name}, indent=2) for name in "abc")
    assert [each["Name"] for each in schedules_in(f"{one}\n{two}[{three}, {one}]\n")] == ["a", "b", "c", "a"]
    assert list(schedules_in(" \n")) == []


def test_a_dry_run_needs_no_aws_and_tells_each_schedule_of_a_folder_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(schedule()).encode())
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.json").write_text(json.dumps([schedule(Name="off", State="DISABLED"), schedule(), 7]))
    (tmp_path / "_hidden.json").write_text("no JSON")
    result = imported(tmp_path)
    assert (result.exit_code, result.stdout.split("\t")[0]) == (0, "default/job")
    off, twice, number, all_told = result.stderr.splitlines()
    assert off.startswith("tidewheel: default/off: State='DISABLED'")
    assert twice.startswith("tidewheel: default/job: ") and "earlier schedule" in twice
    assert number.startswith(f"tidewheel: {tmp_path / 'deep' / 'b.json'}, schedule 3: ") and "get-schedule" in number
    assert all_told == "tidewheel: 1 schedules can be taken, 3 are not"


def test_json_has_an_object_for_each_schedule_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([schedule(), schedule(Name="off", State="DISABLED")]))
    target = "arn:aws:sqs:us-east-1:123456789012:jobs"
    due = {"key": "default/job", "target": target, "deliver_at": "2027-02-01T09:00:00+00:00", "id": None}
    assert json.loads(imported(tmp_path, "--json").stdout) == [due]


def test_a_file_that_is_not_json_is_told_and_all_before_the_error_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(schedule()) + "{")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe{\x00}\x00")
    (tmp_path / "c.json").write_text(json.dumps(schedule(Name="other")))
    result = imported(tmp_path)
    assert (result.exit_code, len(result.stdout.splitlines())) == (1, 2)
    assert [line.partition(".json: ")[2][:25] for line in result.stderr.splitlines()[:2]] == [
        "it cannot be read any fur"
    ] * 2


def test_nothing_taken_is_exit_code_1_and_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(schedule(State="DISABLED")))
    assert imported(tmp_path).exit_code == 1
    missing = imported(tmp_path / "b*.json")
    assert missing.exit_code == 1 and "there are no files" in missing.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--format", "eventbridge-schedules", "--token", "t"], "--token='t'"),
        (["--format", "json", "--dry-run"], "--dry-run=True"),
        (["--from", "2027-01-29T12:00:00Z"], "--from='2027-01-29T12:00:00Z'"),
        (["--format", "eventbridge-schedules", "--dry-run", "--from", "2027-01-29"], "time zone"),
    ],
)
def test_options_of_another_format_are_refused(options: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["import", "jobs", ".", *options], obj=Target(endpoint_url="no address"))
    assert result.exit_code == 1 and told in result.stderr
