"""The main road of a deployed service. The service must be healthy at the end."""

from __future__ import annotations

import pytest

from tests.artifact.scenario import READERS, WORKER, Plan, Scenario
from tests.conftest import real_messages
from tests.e2e.cloud import Cloud, resources
from tests.e2e.stage import Stage
from tidewheel.model.message import Message

pytestmark = pytest.mark.long

HOUR_S = 3_600
INGESTED_S = 400
"""The bulk queue's window, and the poll's way."""
BATCHES = 10
MERGED_S = 2_700
"""A topic that needed no merge is considered again after half an hour. Then the merge takes its time."""


def test_real_messages_arrive_once_in_time_and_whole_whatever_is_done_with_them(stage: Stage) -> None:
    """They are cancelled, replaced, retried until dead, redriven, large, recurring, and lose their schedules."""
    plan = Plan(samples=real_messages()[::16][:300], hours=1.5, clusters=4, waves=8, wave_minutes=6)
    scenario = Scenario(stage, plan)
    scenario.run()
    stage.cloud.sleep(60)
    for reader in READERS:
        scenario.oracle.arrived(reader, stage.take(*reader))
    scenario.oracle.may_be_late(WORKER, 0, stage.now_ms())  # its consumer failed five times
    verdict = scenario.oracle.verdict()
    print(verdict)
    assert (verdict.faults, stage.troubles) == ({}, [])
    assert verdict.messages > 300


def test_the_service_merges_small_ledgers_and_keeps_their_messages(stage: Stage) -> None:
    tw, topic = stage.client, "small"
    tw.create_topic(topic, max_buckets=3)
    tw.create_subscription(topic, "reader")
    sent: set[str] = set()

    def is_ingested() -> bool:
        return tw.stats(topic).waiting == len(sent)

    for batch in range(BATCHES):
        messages = [Message(body=f"{batch} {i}", delay=(24 + 9 * i) * HOUR_S + batch) for i in range(5)]
        sent |= {each.id for each in tw.send_many(topic, messages)}
        assert stage.until(is_ingested, within_s=INGESTED_S)
    assert stage.until(lambda: tw.stats(topic).buckets < BATCHES, within_s=MERGED_S), tw.stats(topic)
    assert {each.id for each in tw.peek(topic, n=51)} == sent
    tw.purge(topic)
    assert tw.stats(topic).waiting == 0


def test_after_that_no_alarm_rings_and_no_letter_is_dead(cloud: Cloud) -> None:
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
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
        assert answer["Attributes"] == {"ApproximateNumberOfMessages": "0"}, url
