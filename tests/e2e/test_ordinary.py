"""Ordinary use with every kind of message, merges and precision. The service must be healthy at the end."""

from __future__ import annotations

import pytest

from tests.artifact.scenario import READERS, WORKER, Plan, Scenario
from tests.conftest import real_messages
from tests.e2e.cloud import Cloud, resources
from tests.e2e.stage import Stage, percentile
from tidewheel.client.changes import Rescheduled

MINUTE_S, HOUR_S = 60, 3_600
STORY = Plan(samples=real_messages()[::16][:300], hours=1.5, clusters=4, waves=8, wave_minutes=6)
"""What the archives are tested with, in the least time that has room for all of it."""
LATE_P99_MS = 3_000
"""SQS counts delays in whole seconds, and 100 ms are added for skew: 1.1 s at most. The rest is for the poll's way."""
RATE = 5
"""Messages a second while precision is measured."""
MERGED_S = 660
"""Two sweeps and the time of a merge: the first sweep may come while the last ledger is being written."""


def test_real_messages_arrive_once_in_time_and_whole_whatever_is_done_with_them(stage: Stage) -> None:
    scenario = Scenario(stage, STORY)
    stage.oracle = scenario.oracle
    scenario.run()
    stage.cloud.sleep(MINUTE_S)
    for reader in READERS:
        stage.oracle.arrived(reader, stage.take(*reader))
    stage.oracle.may_be_late(WORKER, 0, stage.now_ms())  # its consumer failed five times
    stage.check()
    assert stage.oracle.verdict().messages > 300


def test_the_service_merges_small_ledgers_and_keeps_their_messages(stage: Stage) -> None:
    tw, topic = stage.client, "small"
    stage.topic(topic, max_buckets=3)
    stage.subscribe(topic, "reader")
    with stage.cloud.hastened_bulk():
        for batch in range(10):
            stage.send_many(topic, {f"far {batch} {i}": (2 + 9 * i) * HOUR_S + batch for i in range(5)})
            stage.until_ledgers_hold(topic, 5 * (batch + 1))
    ledgers = tw.stats(topic).buckets
    assert ledgers > 3

    assert stage.until(lambda: tw.stats(topic).buckets < ledgers, within_s=MERGED_S), ledgers
    waiting = {each.body: each.id for each in tw.peek(topic, n=51)}
    assert set(waiting) == {f"far {batch} {i}" for batch in range(10) for i in range(5)}
    for batch in range(5):
        body = f"far {batch} 0"
        result = tw.reschedule(topic, waiting[body], delay=240 + batch)
        assert isinstance(result, Rescheduled), result
        stage.expect(result.receipt, body, "reader")
    stage.settle()
    tw.purge(topic)
    assert tw.stats(topic).waiting == 0


def test_messages_are_on_time_for_as_long_as_they_are_sent(stage: Stage, pytestconfig: pytest.Config) -> None:
    """Each minute, messages fall due in every second, four minutes after sending."""
    usual = 60 if pytestconfig.getoption("account", False) else 1
    minutes, rate = pytestconfig.getoption("minutes", None) or usual, pytestconfig.getoption("rate", RATE)
    stage.topic("precise")
    stage.subscribe("precise", "reader")
    for minute in range(minutes):
        stage.send_many("precise", {f"{minute} {i}": 4 * MINUTE_S + i / rate for i in range(MINUTE_S * rate)}, "reader")
        stage.cloud.sleep(MINUTE_S)
    stage.settle()
    late_ms = sorted(each.latest_ms - each.due_ms for each in stage.arrivals)
    assert len(late_ms) >= minutes * MINUTE_S * rate
    stage.tell(f"late by ms: least {late_ms[0]:,}, p50 {percentile(late_ms, 0.5):,}, most {late_ms[-1]:,}")
    assert percentile(late_ms, 0.99) <= LATE_P99_MS


def test_after_that_no_alarm_rings_no_letter_is_dead_and_no_call_failed(cloud: Cloud) -> None:
    found = resources(cloud.session, cloud.stack_name)
    cloudwatch, sqs = cloud.session.client("cloudwatch"), cloud.session.client("sqs")
    names = [name for _, name in found["AWS::CloudWatch::Alarm"]]
    alarms = cloudwatch.describe_alarms(AlarmNames=names[:100])["MetricAlarms"]
    assert [each["AlarmName"] for each in alarms if each["StateValue"] == "ALARM"] == []

    urls = [url for id_, url in found["AWS::SQS::Queue"] if "DeadLetters" in id_ or "Refused" in id_]
    urls += [
        url for url in sqs.list_queues(QueueNamePrefix=f"{cloud.stack_name}-")["QueueUrls"] if url.endswith("-dead")
    ]
    assert len(urls) > 3
    for url in urls:
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])[
            "Attributes"
        ]
        assert int(attributes["ApproximateNumberOfMessages"]) == 0, url

    usage = cloud.usage()
    assert {"ingest", "dispatch", "deliver", "sweep", "compact"} <= {name for name, n in usage.invocations.items() if n}
    assert not any(usage.errors.values()), usage.errors
    assert not any(usage.throttles.values()), usage.throttles
