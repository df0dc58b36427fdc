"""Faults caused by users lose no messages, and delayed messages follow once the cause is repaired."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.e2e.cloud import resources
from tests.e2e.local import LocalCloud
from tests.e2e.stage import Stage
from tidewheel.errors import SendFailed, TopicDeleting, UnknownTopic
from tidewheel.model.settings import roles_parameter_name
from tidewheel.model.subscription_state import State
from tidewheel.policies import queue_policy

READER = "reader"
SETTLED_S = 75
"""For up to 60 s SQS takes messages for a deleted queue, loses them, and refuses a new one of the same name. A changed
policy or key takes effect within the same time."""
OUTAGE_S = 330
"""All messages of a scenario are due within it."""
HEALED_S = 900
"""Three sweeps: a sweep each 300 s tries one park, then the others follow. Calls that failed come again sooner."""
FREE_S = 1_200
"""The name of a deleted topic is free after about ten minutes."""

Trouble = Callable[[Stage, str, str], AbstractContextManager[None]]
"""Breaks something, given a topic and the URL of its queue. The end of the block mends it."""


@contextmanager
def queue_deleted(stage: Stage, topic: str, url: str) -> Iterator[None]:
    sqs = stage.cloud.session.client("sqs")
    names: Any = ["MessageRetentionPeriod", "RedrivePolicy", "VisibilityTimeout", "KmsMasterKeyId"]
    attributes: Any = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    tags = sqs.list_queue_tags(QueueUrl=url)["Tags"]  # by these the functions know the queues of their service
    sqs.delete_queue(QueueUrl=url)
    stage.cloud.sleep(SETTLED_S)
    yield
    check_parked(stage, topic)
    sqs.create_queue(QueueName=url.rpartition("/")[2], Attributes=attributes, tags=tags)


@contextmanager
def queue_policy_taken_away(stage: Stage, topic: str, url: str) -> Iterator[None]:
    sqs = stage.cloud.session.client("sqs")
    policy = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
    stage.cloud.sleep(SETTLED_S)
    yield
    check_parked(stage, topic)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})


@contextmanager
def key_disabled(stage: Stage, topic: str, url: str) -> Iterator[None]:
    [(_, key)] = resources(stage.cloud.session, stage.cloud.stack_name)["AWS::KMS::Key"]
    kms = stage.cloud.session.client("kms")
    kms.disable_key(KeyId=key)
    try:
        stage.cloud.sleep(SETTLED_S)
        yield
    finally:
        kms.enable_key(KeyId=key)
    stage.cloud.sleep(SETTLED_S)


def throttled(function: str) -> Trouble:
    @contextmanager
    def trouble(stage: Stage, topic: str, url: str) -> Iterator[None]:
        with stage.cloud.throttled(function):
            yield

    return trouble


def is_felt_late(stage: Stage, trouble: Trouble) -> bool:
    """Whether a fault may go unnoticed on an account. DynamoDB and S3 cache data keys for minutes, SQS for hours."""
    return trouble is key_disabled and not isinstance(stage.cloud, LocalCloud)


def check_parked(stage: Stage, topic: str) -> None:
    """The trouble is reported, and none of the twenty messages is lost."""
    [stats] = stage.client.stats(topic).subscriptions
    assert (stats.state, stats.parked) == (State.BROKEN, 20)


def own_queue(stage: Stage) -> str:
    """Makes a queue with a policy for deliveries by the service, as described in docs/permissions.md."""
    sqs, ssm, stack = stage.cloud.session.client("sqs"), stage.cloud.session.client("ssm"), stage.cloud.stack_name
    roles = ssm.get_parameter(Name=roles_parameter_name(stack))["Parameter"]["Value"].split(",")
    url = sqs.create_queue(QueueName=f"{stack}-own")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps(queue_policy(arn, role_arns=roles))
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    return url


@pytest.mark.parametrize(
    ("topic", "trouble"),
    [
        ("queue-deleted", queue_deleted),
        ("policy-taken-away", queue_policy_taken_away),
        ("ingest-throttled", throttled("ingest")),
        ("dispatch-throttled", throttled("dispatch")),
        ("deliver-throttled", throttled("deliver")),
        ("key-disabled", key_disabled),
    ],
)
def test_nothing_is_lost_early_or_unwanted_after_trouble(stage: Stage, topic: str, trouble: Trouble) -> None:
    # With parts of four messages, deliver has work to do.
    stage.topic(topic, inline_rows=1, part_rows=4)
    options = {"queue_url": own_queue(stage)} if trouble is queue_policy_taken_away else {}
    url = stage.subscribe(topic, READER, late=True, **options)
    stage.send_many(topic, {f"before {i}": 240 + i for i in range(10)}, READER)
    stage.until_ledgers_hold(topic, 10)
    with trouble(stage, topic, url):
        for i in range(5):
            for body, delay_s in ((f"direct {i}", 5 + i), (f"ledger {i}", 300 + i)):
                try:
                    stage.send(topic, body, READER, delay=delay_s)
                except (SendFailed, ClientError) as error:  # the sender knows
                    assert trouble is key_disabled, error
        stage.cloud.sleep(OUTAGE_S)
        held_up = stage.outstanding()
    stage.tell(f"{held_up} deliveries were held up")
    assert held_up or is_felt_late(stage, trouble), "the trouble was not felt"
    stage.settle(within_s=HEALED_S, copies=True)
    [subscription] = stage.client.subscriptions(topic)
    assert subscription.state is State.ACTIVE


def test_the_sweep_finds_what_a_deleted_schedule_has_left(stage: Stage) -> None:
    topic = "schedule-deleted"
    stage.topic(topic)
    stage.subscribe(topic, READER, late=True)
    stage.send_many(topic, {f"before {i}": 240 + i for i in range(10)}, READER)
    stage.until_ledgers_hold(topic, 10)
    assert stage.delete_schedules(topic), "no schedule waits for the ledger"
    # Nothing is sent any more: with a new message ingest would make a schedule.
    stage.settle(within_s=HEALED_S)


def test_a_topic_deleted_under_way_delivers_nothing_more_and_its_name_comes_back(stage: Stage) -> None:
    tw, topic = stage.client, "deleted"
    stage.topic(topic)
    stage.subscribe(topic, READER, late=True)
    stage.send_many(topic, {f"never {i}": 300 + i for i in range(10)})
    stage.until_ledgers_hold(topic, 10)
    tw.delete_topic(topic)
    with pytest.raises(UnknownTopic):
        stage.cloud.client().send(topic, "too late", delay=5)
    with pytest.raises(TopicDeleting):
        stage.topic(topic)

    def is_free() -> bool:
        try:
            stage.topic(topic)
        except TopicDeleting:
            return False
        return True

    assert stage.until(is_free, within_s=FREE_S)
    tw.create_subscription(topic, READER)
    stage.send(topic, "anew", READER, delay=5)
    stage.settle()
