"""Each alarm fires for its cause only, and has a page in the runbook."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from infra.application import BUNDLING_STACKS
from tests.conftest import REPOSITORY, SKEW, TOPIC, Orders
from tests.infra.cloudwatch import STACK, Points, Series, fires, reference, series_in
from tests.infra.variants import template_of
from tests.local.told import TELLING, points
from tidewheel.aws.scheduler_wheel import SchedulerWheel
from tidewheel.cdk.alarms import anchor
from tidewheel.clock import Clock
from tidewheel.cost.figures import ASSUMED
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message
from tidewheel.model.prices import LOGS_GB
from tidewheel.telemetry import function as telemetry
from tidewheel.telemetry import metrics

RUNBOOK = REPOSITORY / "docs" / "runbook.md"
SUBSCRIPTION_PAGE = "Dead letters of a subscription"
PERIOD_S = 300
OWN = ("OldestDue", "BrokenSubscriptions", "Damaged")
"""Alarms that read nothing but the service's own metrics."""
ALARM = "AWS::CloudWatch::Alarm"


@pytest.fixture(scope="module")
def production() -> dict[str, Any]:
    """The resources of the production stack."""
    resources: dict[str, Any] = template_of("production")["Resources"]
    return resources


@pytest.fixture(scope="module")
def alarms(production: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The alarms' properties by their names, less the service's."""
    found = [resource["Properties"] for resource in production.values() if resource["Type"] == ALARM]
    return {reference(alarm["AlarmName"]).removeprefix(f"{STACK}-"): alarm for alarm in found}


@pytest.fixture
def service() -> Iterator[Orders]:
    """A local stack whose functions emit metrics."""
    with LocalTidewheel(environment=SKEW | TELLING) as stack:
        client = stack.client()
        client.create_topic(TOPIC, inline_rows=1, part_rows=1)
        client.create_subscription(TOPIC, "billing")
        yield Orders(stack, client)


def called(alarms: dict[str, dict[str, Any]]) -> dict[str, Series]:
    """Returns the invocation series read by the alarm on failures, by function."""
    read = [series for series in series_in(alarms["Failures"]) if series.name == "Invocations"]
    names = ("ingest", "dispatch", "deliver", "sweep")
    return {name: next(each for each in read if name.capitalize() in str(each.dimensions)) for name in names}


def watch(
    service: Orders, capsys: pytest.CaptureFixture[str], *, minutes: int, calls: dict[str, Series] | None = None
) -> Points:
    """Advances time, with a sweep in each period. Returns the service's own metrics as CloudWatch has them.

    With the calls of its functions, if their series are given.
    """
    found: dict[Series, list[float | None]] = {series: [] for series in (calls or {}).values()}
    for period in range(minutes * 60 // PERIOD_S):
        before = Counter(service.stack.invocations)
        service.stack.advance(seconds=PERIOD_S)
        service.invoke("sweep")
        now = Counter(service.stack.invocations) - before + Counter(sweep=1)
        for name, series in (calls or {}).items():
            found[series].append(now[name] or None)
        for point in points(capsys.readouterr().out):
            if not point.billed:
                continue
            series = Series(namespace=metrics.NAMESPACE, name=point.name, dimensions=point.dimensions)
            values = found.setdefault(series, [])
            values += [None] * (period + 1 - len(values))
            gauge = metrics.BY_NAME[point.name].gauge
            values[period] = (
                max([values[period] or 0, *point.values]) if gauge else (values[period] or 0) + sum(point.values)
            )
    periods = minutes * 60 // PERIOD_S
    return {series: [*values, *[None] * (periods - len(values))] for series, values in found.items()}


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("broken for this test")


def no_dispatch(service: Orders, patch: pytest.MonkeyPatch) -> None:
    service.client.send(TOPIC, "x", delay="70m")
    patch.setattr(service.function("dispatch"), "dispatch", fail)


def no_deliver(service: Orders, patch: pytest.MonkeyPatch) -> None:
    service.client.send_many(TOPIC, [Message(body="x", delay="70m")] * 5)
    patch.setattr(service.function("deliver"), "do_task", fail)


def no_queue(service: Orders, patch: pytest.MonkeyPatch) -> None:
    service.client.send_many(TOPIC, [Message(body="x", delay="70m")] * 5)
    service.stack.session.client("sqs").delete_queue(
        QueueUrl=service.stack.session.client("sqs").get_queue_url(QueueName=f"tidewheel-{TOPIC}-billing")["QueueUrl"]
    )


def no_merge(service: Orders, patch: pytest.MonkeyPatch) -> None:
    for _ in range(4):
        service.client.send(TOPIC, "x", delay="2d")
        service.stack.advance(minutes=10)
    s3 = service.stack.session.client("s3")
    [bucket] = [each["Name"] for each in s3.list_buckets()["Buckets"]]
    name = s3.list_objects_v2(Bucket=bucket, Prefix=f"ledgers/{TOPIC}/")["Contents"][0]["Key"]
    s3.delete_object(Bucket=bucket, Key=name)
    service.client.update_topic(TOPIC, max_buckets=2)
    service.stack.session.client("lambda").invoke(
        FunctionName=f"{STACK}-compact", InvocationType="Event", Payload=json.dumps({"topic": TOPIC}).encode()
    )


def no_schedules(service: Orders, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SchedulerWheel, "schedule", fail)
    service.client.send_recurring(TOPIC, "ticks", "x", every="1m")


class Ahead:
    """A clock four minutes ahead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return self._clock.now_ms() + 240_000


def wrong_clock(service: Orders, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(telemetry, "_DOUBT_S", 0)
    patch.setattr(service.function("ingest").handler.telemetry._clock, "local", Ahead(service.stack.clock))
    service.client.send(TOPIC, "x", delay="70m")


def no_object(service: Orders, patch: pytest.MonkeyPatch) -> None:
    service.client.send(TOPIC, "x", delay="70m")
    service.stack.advance(minutes=10)
    s3 = service.stack.session.client("s3")
    [bucket] = [each["Name"] for each in s3.list_buckets()["Buckets"]]
    for found in s3.list_objects_v2(Bucket=bucket, Prefix=f"ledgers/{TOPIC}/")["Contents"]:
        s3.delete_object(Bucket=bucket, Key=found["Key"])


SCENARIOS: list[tuple[str, Callable[[Orders, pytest.MonkeyPatch], None], int]] = [
    ("OldestDue", no_dispatch, 90),
    ("OldestDue", no_deliver, 120),
    ("BrokenSubscriptions", no_queue, 90),
    ("Failures", no_deliver, 90),
    ("Failures", wrong_clock, 30),
    ("Scheduler", no_schedules, 20),
    ("Damaged", no_object, 110),
    ("Damaged", no_merge, 10),
]
"""Alarm, what breaks the service, and the minutes after which the alarm has fired."""
SAMPLE = (no_dispatch, no_queue, wrong_clock, no_object)
"""What `make test` breaks."""


@pytest.mark.parametrize(
    ("name", "breaking", "minutes"),
    [pytest.param(*each, marks=[] if each[1] in SAMPLE else pytest.mark.long) for each in SCENARIOS],
)
def test_an_alarm_on_the_services_own_metrics_fires_when_the_service_is_broken_so(
    name: str,
    breaking: Callable[[Orders, pytest.MonkeyPatch], None],
    minutes: int,
    alarms: dict[str, dict[str, Any]],
    service: Orders,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = called(alarms)
    breaking(service, monkeypatch)
    seen = watch(service, capsys, minutes=minutes, calls=calls)
    own = {series for series in series_in(alarms[name]) if series.namespace == metrics.NAMESPACE}
    assert own and own <= set(seen)
    assert fires(alarms[name], seen)


def test_no_alarm_on_the_services_own_metrics_fires_while_all_goes_well(
    alarms: dict[str, dict[str, Any]], service: Orders, capsys: pytest.CaptureFixture[str]
) -> None:
    service.client.send_many(TOPIC, [Message(body="x", delay=timedelta(minutes=m)) for m in range(1, 180, 7)])
    seen = watch(service, capsys, minutes=200)
    assert seen == {}  # nothing is billed
    assert [name for name in {each[0] for each in SCENARIOS} if fires(alarms[name], seen)] == []


AWS_METRICS = {
    "DeadLetters": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", 4),
    "Refused": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", 1),
    "QueueAge": ("AWS/SQS", "ApproximateAgeOfOldestMessage", 3),
    "Scheduler": ("AWS/Scheduler", "InvocationDroppedCount", 1),
}

EMITTED = {
    ("AWS/Lambda", "FunctionName"): ("Errors", "Invocations"),
    ("AWS/SQS", "QueueName"): ("ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"),
    ("AWS/Scheduler", "ScheduleGroup"): ("InvocationDroppedCount",),
    (metrics.NAMESPACE, metrics.DIMENSION): tuple(metrics.BY_NAME),
}
"""Namespace and the names of all dimensions -> metrics that are emitted under precisely these.

https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html,
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html,
https://docs.aws.amazon.com/scheduler/latest/UserGuide/monitoring-cloudwatch.html
"""
VALUES = {"FunctionName": "AWS::Lambda::Function", "QueueName": "AWS::SQS::Queue"}
"""Dimensions whose value is a resource of the template -> its type."""


@pytest.mark.parametrize("name", AWS_METRICS)
def test_an_alarm_on_metrics_of_aws_fires_for_each_of_them_alone(
    name: str, alarms: dict[str, dict[str, Any]], production: dict[str, Any]
) -> None:
    namespace, metric, count = AWS_METRICS[name]
    read, threshold = series_in(alarms[name]), alarms[name]["Threshold"]
    read = [series for series in read if series.namespace != metrics.NAMESPACE]
    assert len(set(read)) == count
    for series in read:
        assert series.namespace == namespace and metric in (None, series.name)
        assert fires(alarms[name], {series: [threshold] * 3})
        assert not fires(alarms[name], {series: [0] * 3})
    assert not fires(alarms[name], {})


def test_each_metric_that_an_alarm_reads_is_emitted_under_its_dimensions(
    alarms: dict[str, dict[str, Any]], production: dict[str, Any]
) -> None:
    read = [series for alarm in alarms.values() for series in series_in(alarm)]
    # The sweep's calls are read twice: as a share of them, and for their absence.
    assert [series.name for series, times in Counter(read).items() if times > 1] == ["Invocations"]
    [group] = [each["Properties"] for each in production.values() if each["Type"] == "AWS::Scheduler::ScheduleGroup"]
    named = {"ScheduleGroup": {reference(group["Name"])}, metrics.DIMENSION: {STACK}}
    for series in read:
        assert series.name in EMITTED[series.namespace, *(name for name, _ in series.dimensions)]
        for name, value in series.dimensions:
            if name in VALUES:
                assert production[value.partition(".")[0]]["Type"] == VALUES[name]
            else:
                assert value in named[name]


def load(alarms: dict[str, dict[str, Any]], calls: float, **each: list[float | None]) -> Points:
    """Returns the data points of three periods, with calls of each function and errors of some.

    `failures` are the service's own.
    """
    series = called(alarms)
    found: dict[Series, list[float | None]] = {one: [calls] * 3 for one in series.values()}
    found[series["sweep"]] = [1.0] * 3
    for name, values in each.items():
        own = Series(namespace=metrics.NAMESPACE, name="Failures", dimensions=((metrics.DIMENSION, STACK),))
        key = own if name == "failures" else replace(series[name], name="Errors")
        assert key in series_in(alarms["Failures"])
        found[key] = values
    return found


@pytest.mark.parametrize("calls", [1, 12, 3_000, 300_000])
@pytest.mark.parametrize("name", ["ingest", "dispatch", "deliver", "sweep"])
def test_a_function_that_always_fails_is_told_within_ten_minutes(
    alarms: dict[str, dict[str, Any]], name: str, calls: float
) -> None:
    all_fail = 1.0 if name == "sweep" else calls
    assert fires(alarms["Failures"], load(alarms, calls, **{name: [None, all_fail, all_fail]}))
    assert fires(alarms["Failures"], load(alarms, calls, **{name: [all_fail, None, all_fail]}))


@pytest.mark.parametrize("calls", [1, 12, 3_000, 300_000])
def test_calls_that_leave_all_their_work_are_told_within_ten_minutes(
    alarms: dict[str, dict[str, Any]], calls: float
) -> None:
    """Covers calls which end in time and hold their work, because the table is throttled."""
    assert fires(alarms["Failures"], load(alarms, calls, failures=[None, calls, calls]))
    assert not fires(alarms["Failures"], load(alarms, calls, failures=[None, None, calls]))


@pytest.mark.parametrize("name", ["ingest", "dispatch", "deliver", "failures"])
def test_a_retry_now_and_then_wakes_nobody_at_a_thousand_calls_a_second(
    alarms: dict[str, dict[str, Any]], name: str
) -> None:
    for few in ([1.0, 1.0, 1.0], [300.0, 300.0, 300.0]):  # of 300,000 in each period
        assert not fires(alarms["Failures"], load(alarms, 300_000, **{name: few}))


@pytest.mark.parametrize("name", ["ingest", "dispatch", "deliver", "sweep", "failures"])
def test_one_failure_of_a_small_service_wakes_nobody(alarms: dict[str, dict[str, Any]], name: str) -> None:
    for once in ([1.0, None, None], [None, 1.0, None], [None, None, 1.0]):
        assert not fires(alarms["Failures"], load(alarms, 1, **{name: once}))


def test_functions_that_are_not_called_wake_nobody(alarms: dict[str, dict[str, Any]]) -> None:
    assert not fires(alarms["Failures"], {called(alarms)["sweep"]: [1.0] * 3})
    assert not fires(alarms["Failures"], {})


def test_a_merge_that_fails_is_a_dead_letter(production: dict[str, Any]) -> None:
    [merging] = [
        each["Properties"]
        for each in production.values()
        if each["Type"] == "AWS::Lambda::EventInvokeConfig" and "Compact" in str(each["Properties"]["FunctionName"])
    ]
    assert merging["MaximumRetryAttempts"] == 0
    assert merging["DestinationConfig"]["OnFailure"]


def test_a_pack_whose_call_failed_once_is_younger_than_the_age_that_raises_an_alarm(
    alarms: dict[str, dict[str, Any]], production: dict[str, Any]
) -> None:
    read = {dict(series.dimensions)["QueueName"].partition(".")[0] for series in series_in(alarms["QueueAge"])}
    mappings = [each["Properties"] for each in production.values() if each["Type"] == "AWS::Lambda::EventSourceMapping"]
    windows = {
        each["EventSourceArn"]["Fn::GetAtt"][0]: each.get("MaximumBatchingWindowInSeconds", 0) for each in mappings
    }
    assert read <= set(windows)
    for queue in read:
        # It is visible again a visibility time-out after its first batch began to gather; the second gathers, too.
        again_s = production[queue]["Properties"]["VisibilityTimeout"]
        assert again_s + windows[queue] <= alarms["QueueAge"]["Threshold"]


def test_dead_letters_are_those_of_every_queue_that_has_such(
    alarms: dict[str, dict[str, Any]], production: dict[str, Any]
) -> None:
    targets = {
        target
        for resource in production.values()
        for target in re.findall(r'"deadLetterTargetArn": \{"Fn::GetAtt": \["(\w+)"', json.dumps(resource))
        + re.findall(
            r'"(?:DeadLetterConfig|OnFailure)": \{"(?:Arn|Destination)": \{"Fn::GetAtt": \["(\w+)"',
            json.dumps(resource),
        )
    }
    watched = {dict(series.dimensions)["QueueName"].partition(".")[0] for series in series_in(alarms["DeadLetters"])}
    assert watched == targets


def test_a_sweep_that_stops_is_told_after_four_periods_and_until_it_runs(alarms: dict[str, dict[str, Any]]) -> None:
    alarm = alarms["SweepMissing"]
    [series] = series_in(alarm)
    assert (series.namespace, series.name) == ("AWS/Lambda", "Invocations")
    assert dict(series.dimensions)["FunctionName"].startswith("TimingWheelSweep")
    assert fires(alarm, {series: [1, 1, *[None] * 4]})
    assert fires(alarm, {series: [1, 1, *[None] * 300]})  # though nothing is left that could be filled
    assert not fires(alarm, {series: [1, 1, *[None] * 300, 1, 1, 1]})
    assert not fires(alarm, {series: [1, *[None, 2] * 10]})  # late by turns
    assert not fires(alarm, {series: [1, None, None, None]})


def test_a_sweep_that_has_never_run_is_not_missed_during_the_first_deployment(
    alarms: dict[str, dict[str, Any]],
) -> None:
    [series] = series_in(alarms["SweepMissing"])
    assert not fires(alarms["SweepMissing"], {})
    assert not fires(alarms["SweepMissing"], {series: [None] * 50})
    for runs in range(1, 8):
        assert not fires(alarms["SweepMissing"], {series: [*[None] * 50, *[1] * runs]})
    assert alarms["SweepMissing"]["TreatMissingData"] == "ignore"


def test_every_bad_end_of_every_job_is_told_to_the_topic(production: dict[str, Any]) -> None:
    rules = [each["Properties"] for each in production.values() if each["Type"] == "AWS::Events::Rule"]
    [rule] = [each for each in rules if "EventPattern" in each]
    jobs = [name for name, each in production.items() if each["Type"] == "AWS::Glue::Job"]
    assert sorted(reference(each) for each in rule["EventPattern"]["detail"]["jobName"]) == sorted(jobs)
    assert rule["EventPattern"]["source"] == ["aws.glue"]
    assert rule["EventPattern"]["detail"]["state"] == ["FAILED", "TIMEOUT", "ERROR"]
    [topic] = [name for name, each in production.items() if each["Type"] == "AWS::SNS::Topic"]
    assert [target["Arn"] for target in rule["Targets"]] == [{"Ref": topic}]


def test_every_alarm_tells_the_topic_once_when_it_begins_and_when_it_ends(
    alarms: dict[str, dict[str, Any]], production: dict[str, Any]
) -> None:
    [topic] = [name for name, each in production.items() if each["Type"] == "AWS::SNS::Topic"]
    for name, alarm in alarms.items():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": topic}], name


def test_every_alarm_has_its_page_in_the_runbook_and_every_page_an_alarm(alarms: dict[str, dict[str, Any]]) -> None:
    pages = {anchor(title) for title in re.findall(r"^## (.+)$", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)}
    linked = {
        alarm["AlarmDescription"].rpartition(" What to do: tidewheel docs runbook#")[2] for alarm in alarms.values()
    }
    # The alarm of each queue that a construct makes for a subscription, and the rule that tells failed jobs.
    assert linked | {anchor(SUBSCRIPTION_PAGE), "job-failures"} == pages
    assert {anchor(metric.alarm) for metric in metrics.METRICS if metric.alarm is not None} <= linked


def test_every_page_says_what_it_means_how_to_look_what_to_do_and_when_it_clears() -> None:
    _, *pages = re.split(r"^## ", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for page in pages:
        assert re.findall(r"^\*\*(Means|Look|Do|Clears)\*\*", page, re.MULTILINE) == ["Means", "Look", "Do", "Clears"]


def test_each_alarm_is_made_to_fire_here(alarms: dict[str, dict[str, Any]]) -> None:
    assert set(alarms) == {*(each[0] for each in SCENARIOS), *AWS_METRICS, "SweepMissing"}


def test_the_documents_count_alarms_and_logs_as_they_are(alarms: dict[str, dict[str, Any]]) -> None:
    text = (REPOSITORY / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert f"about {ASSUMED['log_bytes'] / 1000:.0f} KB a call, at ${LOGS_GB:.2f} a GB" in text
    assert f"in {len(alarms)} alarms" in text


def test_development_has_no_alarms_no_dashboard_and_tells_of_jobs_all_the_same() -> None:
    types = [each["Type"] for each in template_of("development")["Resources"].values()]
    assert ALARM not in types and "AWS::CloudWatch::Dashboard" not in types
    assert types.count("AWS::Events::Rule") == 2 and types.count("AWS::SNS::Topic") == 1


def test_alarms_on_metrics_that_nothing_emits_are_left_out(alarms: dict[str, dict[str, Any]]) -> None:
    from tidewheel.cdk import Environment, TidewheelService

    stack = Stack(App(context={BUNDLING_STACKS: []}), "quiet")
    service = TidewheelService(stack, "Default", environment=Environment.production(metrics=False))
    own = {
        name for name, alarm in alarms.items() if all(each.namespace == metrics.NAMESPACE for each in series_in(alarm))
    }
    assert own == set(OWN)
    assert {alarm.node.id for alarm in service.alarms.alarms} == set(alarms) - own
    for alarm in Template.from_stack(stack).find_resources(ALARM).values():
        assert all(series.namespace != metrics.NAMESPACE for series in series_in(alarm["Properties"]))
        assert " f " not in json.dumps(alarm["Properties"]) and "(f " not in json.dumps(alarm["Properties"])


def test_more_than_ten_queues_of_dead_letters_have_more_than_one_alarm() -> None:
    from tidewheel.cdk import Environment, TidewheelService

    stack = Stack(App(context={BUNDLING_STACKS: []}), "many")
    topics = tuple(f"topic{number}" for number in range(6))
    service = TidewheelService(stack, "Default", environment=Environment.production(dedicated_topics=topics))
    names = [alarm.node.id for alarm in service.alarms.alarms]
    assert [name for name in names if name.startswith("DeadLetters")] == ["DeadLetters", "DeadLetters10"]
