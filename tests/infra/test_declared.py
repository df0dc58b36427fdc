"""Declared topics and subscriptions, with requests of CloudFormation to the function, rollbacks included."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from tidewheel import deadline
from tidewheel.aws.custom_resource import Kind, Request, answered
from tidewheel.client.connection import Connection
from tidewheel.client.operations.declared import (
    SUBSCRIPTION_TYPE,
    TOPIC_TYPE,
    DeclaredSubscription,
    DeclaredTopic,
    delete,
    fulfil,
)
from tidewheel.clock import ManualClock
from tidewheel.errors import OutOfTime
from tidewheel.flows.administration.subscribe import owner_of
from tidewheel.local import LocalTidewheel, MemoryTidewheel
from tidewheel.local.declarations import CustomResources
from tidewheel.local.handlers import FunctionSpec, Handler
from tidewheel.model.settings import ServiceSettings, TopicSettings, parameter_name
from tidewheel.shipped import FUNCTIONS, shipped
from tidewheel.storage.subscriptions import Adoptions

STACK = "arn:aws:cloudformation:us-east-1:123456789012:stack/team/1"
ANOTHER_STACK = "arn:aws:cloudformation:us-east-1:123456789012:stack/team/2"
SERVICE = "tidewheel"


@dataclass(slots=True)
class Resource:
    """A resource of a stack, as CloudFormation keeps its state between requests."""

    cloud: Cloud
    type: str
    stack_id: str = STACK
    logical_id: str = "Declared"
    physical_id: str | None = None
    properties: Mapping[str, str] | None = None

    def create(self, wanted: DeclaredTopic | DeclaredSubscription) -> dict[str, Any]:
        answer = self._ask(Kind.CREATE, wanted.properties())
        self.physical_id, self.properties = answer["PhysicalResourceId"], wanted.properties()
        return answer

    def update(self, wanted: DeclaredTopic | DeclaredSubscription) -> dict[str, Any]:
        answer = self._ask(Kind.UPDATE, wanted.properties())
        if answer["Status"] == "SUCCESS":
            self.physical_id, self.properties = answer["PhysicalResourceId"], wanted.properties()
        return answer

    def delete(self, physical_id: str | None = None) -> dict[str, Any]:
        return self._ask(Kind.DELETE, self.properties or {}, physical_id or self.physical_id)

    def _ask(self, kind: Kind, properties: Mapping[str, str], physical_id: str | None = None) -> dict[str, Any]:
        event = {
            "RequestType": kind.value,
            "ResponseURL": "https://answers",
            "RequestId": secrets.token_hex(8),
            "StackId": self.stack_id,
            "LogicalResourceId": self.logical_id,
            "ResourceType": self.type,
            "ResourceProperties": properties,
        }
        known = physical_id or self.physical_id
        if kind is not Kind.CREATE and known is not None:
            event["PhysicalResourceId"] = known
        return self.cloud.answer_to(event)


class Cloud:
    """A service in memory, and what the declaring function does there."""

    def __init__(self, stack: Any) -> None:
        self.stack = stack
        self.tw = stack.client()
        self.connection: Connection = self.tw.core.connection

    def topic(self, stack_id: str = STACK, logical_id: str = "Declared") -> Resource:
        return Resource(self, TOPIC_TYPE, stack_id, logical_id)

    def subscription(self, logical_id: str = "Declared") -> Resource:
        return Resource(self, SUBSCRIPTION_TYPE, STACK, logical_id)

    def answer_to(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the function's answer to a request."""
        answers: list[bytes] = []
        answered(
            Request.from_event(event),
            partial(fulfil, self.connection, self.stack.clock),
            remaining_s=lambda: 60,
            where="the logs",
            put=lambda _, answer: answers.append(answer),
        )
        [answer] = answers
        found: dict[str, Any] = json.loads(answer)
        return found

    def queue_url(self, name: str = "theirs") -> str:
        url: str = self.stack.sqs.create_queue(QueueName=name)["QueueUrl"]
        return url

    def settings(self, topic: str) -> TopicSettings | None:
        return next((each.settings for each in self.tw.topics() if each.name == topic), None)


class DeployedCloud(Cloud):
    """A local stack with the function."""

    def __init__(self, stack: LocalTidewheel) -> None:
        super().__init__(stack)
        parameter = stack.session.client("ssm").get_parameter(Name=parameter_name(SERVICE))["Parameter"]["Value"]
        spec = FunctionSpec(
            function_name="tidewheel-declare",
            arn="arn:aws:lambda:us-east-1:123456789012:function:tidewheel-declare",
            handler="functions.declare.handler.handler",
            environment={f"TIDEWHEEL_{name.upper()}": str(value) for name, value in json.loads(parameter).items()},
            timeout_ms=60_000,
            memory_mb=256,
        )
        assert isinstance(stack.clock, ManualClock)
        self.handler = Handler(spec, shipped(FUNCTIONS), stack._emulator.wire.core_session, stack.clock, "DEBUG")
        self.connection = Connection.of(ServiceSettings.from_environment(spec.environment), stack.session)
        self._resources = CustomResources(stack.session, stack.endpoint_url)

    def answer_to(self, event: Mapping[str, Any]) -> dict[str, Any]:
        return self._resources.ask(self.handler, event)


def topic(name: str = "orders", **settings: Any) -> DeclaredTopic:
    return DeclaredTopic(topic=name, settings=TopicSettings(**settings))


def creation(wanted: DeclaredTopic, request_id: str) -> Request:
    """A request to create, for `fulfil` itself."""
    return Request(
        kind=Kind.CREATE,
        answer_url="https://nowhere",
        stack_id=STACK,
        request_id=request_id,
        logical_id="Declared",
        resource_type=TOPIC_TYPE,
        physical_id=None,
        properties=wanted.properties(),
    )


@pytest.fixture
def cloud() -> Cloud:
    return Cloud(MemoryTidewheel())


@pytest.fixture
def deployed() -> Iterator[DeployedCloud]:
    with LocalTidewheel() as stack:
        cloud = DeployedCloud(stack)
        try:
            yield cloud
        finally:
            cloud.handler.close()


# ---- topics


def test_a_declared_topic_is_created_with_its_settings(cloud: Cloud) -> None:
    answer = cloud.topic().create(topic(max_waiting=10))
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "tidewheel/orders")
    assert (answer["StackId"], answer["LogicalResourceId"]) == (STACK, "Declared")
    assert cloud.settings("orders") == TopicSettings(max_waiting=10)


def test_a_request_that_is_repeated_finds_it_done_and_another_one_adopts(cloud: Cloud) -> None:
    connection = cloud.connection
    first = creation(topic(), "first")
    for _ in range(2):
        assert fulfil(connection, cloud.stack.clock, first) == "tidewheel/orders"
    second = creation(topic(), "second")
    assert fulfil(connection, cloud.stack.clock, second) == "tidewheel/orders:adopted"


def test_a_stack_deletes_the_topic_that_it_created_and_may_ask_twice(cloud: Cloud) -> None:
    mine = cloud.topic()
    mine.create(topic())
    assert [mine.delete()["Status"] for _ in range(2)] == ["SUCCESS"] * 2
    assert cloud.settings("orders") is None


def test_a_topic_that_agrees_is_adopted_and_stays_when_the_stack_goes(cloud: Cloud) -> None:
    cloud.tw.create_topic("orders", max_waiting=10)
    adopted = cloud.topic()
    assert adopted.create(topic(max_waiting=10))["Status"] == "SUCCESS"
    assert adopted.delete()["Status"] == "SUCCESS"
    assert cloud.settings("orders") == TopicSettings(max_waiting=10)


def test_a_topic_that_differs_fails_the_stack_and_outlives_its_rollback(cloud: Cloud) -> None:
    cloud.tw.create_topic("orders", max_waiting=10)
    failing = cloud.topic()
    answer = failing.create(topic(max_waiting=11))
    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("topic 'orders' exists already with max_waiting=10 (asked for 11); use another")
    assert failing.delete()["Status"] == "SUCCESS"
    assert cloud.settings("orders") == TopicSettings(max_waiting=10)


def test_a_creation_that_went_through_without_an_answer_is_taken_back_by_the_rollback(cloud: Cloud) -> None:
    mine = cloud.topic()
    request_id = mine.create(topic())["RequestId"]
    assert mine.delete(physical_id="the id of another request")["Status"] == "SUCCESS"
    assert cloud.settings("orders") is not None
    assert mine.delete(physical_id=request_id)["Status"] == "SUCCESS"
    assert cloud.settings("orders") is None


def test_a_second_resource_of_the_stack_that_fails_leaves_the_topic_to_the_first(cloud: Cloud) -> None:
    first, second = cloud.topic(), cloud.topic(logical_id="Second")
    first.create(topic(max_waiting=10))
    answer = second.create(topic(max_waiting=11))
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("FAILED", answer["RequestId"])
    assert second.delete()["Status"] == "SUCCESS"
    assert cloud.settings("orders") == TopicSettings(max_waiting=10)
    first.delete()
    assert cloud.settings("orders") is None


def test_what_a_resource_had_retained_outlives_the_rollback_of_its_next_declaration(cloud: Cloud) -> None:
    cloud.topic().create(topic(max_waiting=10))  # and retained: no request tells that it is declared no more
    for wanted in (topic(max_waiting=10), topic(max_waiting=11)):
        again = cloud.topic()
        again.create(wanted)
        again.delete()
        assert cloud.settings("orders") == TopicSettings(max_waiting=10)


def test_a_change_of_name_to_what_is_there_does_not_delete_that_when_it_is_rolled_back(cloud: Cloud) -> None:
    cloud.tw.create_topic("invoices")
    mine = cloud.topic()
    mine.create(topic())
    adopted = mine.update(topic("invoices"))["PhysicalResourceId"]
    assert mine.update(topic())["PhysicalResourceId"] == "tidewheel/orders"
    mine.delete(physical_id=adopted)
    assert {each.name for each in cloud.tw.topics()} == {"orders", "invoices"}


def test_no_request_goes_out_any_more_once_the_creation_is_out_of_time(deployed: DeployedCloud) -> None:
    calls = 0
    allowed = 0

    def remaining_s() -> float:
        nonlocal calls
        calls += 1
        return 0 if calls > allowed else 60

    while True:
        calls = 0
        try:
            with deadline.ends_in(remaining_s):
                fulfil(deployed.connection, deployed.stack.clock, creation(topic(), "first"))
        except OutOfTime:
            assert calls == allowed + 1  # it is not tried again
            assert deployed.settings("orders") is None
            allowed += 1
        else:
            break
    assert allowed >= 3  # the topic state, a deletion, the write
    assert deployed.settings("orders") is not None


def test_an_update_changes_what_differs_and_takes_back_what_is_declared_no_more(cloud: Cloud) -> None:
    mine = cloud.topic()
    mine.create(topic(max_waiting=10, retention_days=30))
    cloud.tw.update_topic("orders", part_rows=7)  # by hand
    answer = mine.update(topic(retention_days=60))
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "tidewheel/orders")
    assert cloud.settings("orders") == TopicSettings(retention_days=60)


def test_the_slot_length_cannot_change_and_the_rollback_of_that_update_succeeds(cloud: Cloud) -> None:
    mine = cloud.topic()
    mine.create(topic(max_waiting=10))
    answer = mine.update(topic(slot_s=60, max_waiting=20))
    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("slot_s=60: this setting is fixed when a topic is created; create another topic")
    assert cloud.settings("orders") == TopicSettings(max_waiting=10)
    assert mine.update(topic(max_waiting=10))["Status"] == "SUCCESS"


def test_another_name_is_a_replacement_and_its_clean_up_deletes_the_old_topic(cloud: Cloud) -> None:
    mine = cloud.topic()
    old = mine.create(topic())["PhysicalResourceId"]
    answer = mine.update(topic("invoices"))
    assert answer["PhysicalResourceId"] == "tidewheel/invoices" != old
    assert cloud.settings("orders") is not None  # until everything else is updated
    mine.delete(physical_id=old)
    assert [each.name for each in cloud.tw.topics()] == ["invoices"]


def test_a_replacement_that_is_rolled_back_leaves_the_old_topic_to_the_stack(cloud: Cloud) -> None:
    mine = cloud.topic()
    mine.create(topic())
    new = mine.update(topic("invoices"))["PhysicalResourceId"]
    assert mine.update(topic())["PhysicalResourceId"] == "tidewheel/orders"
    mine.delete(physical_id=new)
    assert [each.name for each in cloud.tw.topics()] == ["orders"]
    mine.delete()
    assert cloud.tw.topics() == []


def test_a_topic_that_somebody_deleted_is_created_again_by_an_update(cloud: Cloud) -> None:
    mine = cloud.topic()
    mine.create(topic())
    cloud.tw.delete_topic("orders")
    assert mine.update(topic(max_waiting=10))["Reason"].startswith("topic 'orders' is being deleted; wait about")
    cloud.stack.advance(minutes=20)
    assert mine.update(topic(max_waiting=10))["Status"] == "SUCCESS"
    assert cloud.settings("orders") == TopicSettings(max_waiting=10)


def test_a_topic_that_moved_to_another_stack_stays_with_what_waits_when_the_old_one_lets_go(cloud: Cloud) -> None:
    old, new = cloud.topic(), cloud.topic(ANOTHER_STACK)
    old.create(topic())
    cloud.tw.create_subscription("orders", "mail")
    cloud.tw.send("orders", "waits", delay="1d")
    assert new.create(topic())["PhysicalResourceId"] == "tidewheel/orders:adopted"
    assert old.delete()["Status"] == "SUCCESS"
    cloud.stack.advance(days=1, minutes=1)
    assert [each.body for each in cloud.stack.receive("orders", "mail")] == ["waits"]


def test_a_move_that_is_rolled_back_leaves_the_topic_to_the_stack_that_created_it(cloud: Cloud) -> None:
    old, new = cloud.topic(), cloud.topic(ANOTHER_STACK)
    old.create(topic())
    new.create(topic())
    new.delete()
    assert cloud.settings("orders") is not None
    old.delete()
    assert cloud.settings("orders") is None


def test_what_is_deleted_before_its_claim_could_be_seen_is_created_anew_or_refused(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.topic().create(topic())
    wanted = DeclaredSubscription(topic="orders", subscription="mail", queue_url=cloud.queue_url())
    cloud.subscription().create(wanted)
    connection, clock, put = cloud.connection, cloud.stack.clock, Adoptions.put

    def put_too_late(claims: Adoptions, topic: str, subscription: str | None, owner: str) -> None:
        assert delete(connection, clock, owner_of(f"{STACK}/Declared"), topic, subscription)
        put(claims, topic, subscription, owner)

    monkeypatch.setattr(Adoptions, "put", put_too_late)
    moved = cloud.subscription(logical_id="Moved")
    assert moved.create(wanted)["PhysicalResourceId"] == "tidewheel/orders/mail"
    assert [each.name for each in cloud.tw.subscriptions("orders")] == ["mail"]
    moved.delete()
    assert cloud.tw.subscriptions("orders") == []
    answer = cloud.topic(ANOTHER_STACK).create(topic())
    assert answer["Reason"].startswith("topic 'orders' is being deleted")


# ---- subscriptions


def test_a_declared_subscription_gets_what_it_takes_and_goes_with_its_stack(cloud: Cloud) -> None:
    cloud.topic().create(topic())
    mine = cloud.subscription()
    wanted = DeclaredSubscription(
        topic="orders", subscription="mail", queue_url=cloud.queue_url(), filter_policy='{"kind":["a"]}'
    )
    assert mine.create(wanted)["PhysicalResourceId"] == "tidewheel/orders/mail"
    for kind in "ab":
        cloud.tw.send("orders", kind, delay="1h", attributes={"kind": kind})
    cloud.stack.advance(hours=2)
    assert [each.body for each in cloud.stack.receive("orders", "mail")] == ["a"]
    assert [mine.delete()["Status"] for _ in range(2)] == ["SUCCESS"] * 2
    assert cloud.tw.subscriptions("orders") == []
    cloud.stack.queue(wanted.queue_url)  # is CloudFormation's: it is still there
    assert cloud.stack.failures == []


def test_the_filter_of_a_declared_subscription_may_change_and_its_queue_may_not(cloud: Cloud) -> None:
    cloud.topic().create(topic())
    mine = cloud.subscription()
    mine.create(DeclaredSubscription(topic="orders", subscription="mail", queue_url=cloud.queue_url()))
    filtered = DeclaredSubscription(
        topic="orders", subscription="mail", queue_url=cloud.queue_url(), filter_policy='{"kind":["a"]}'
    )
    assert mine.update(filtered)["Status"] == "SUCCESS"
    assert [each.filter_policy for each in cloud.tw.subscriptions("orders")] == ['{"kind":["a"]}']
    moved = DeclaredSubscription(topic="orders", subscription="mail", queue_url=cloud.queue_url("another"))
    answer = mine.update(moved)
    assert answer["Status"] == "FAILED"
    assert "subscription 'mail' exists already with queue" in answer["Reason"]
    assert [each.queue_url for each in cloud.tw.subscriptions("orders")] == [cloud.queue_url()]


def test_what_a_declared_subscription_carries_may_not_change_and_nothing_else_changes_with_it(cloud: Cloud) -> None:
    cloud.topic().create(topic())
    mine = cloud.subscription()
    first = DeclaredSubscription(topic="orders", subscription="mail", queue_url=cloud.queue_url(), carry="id")
    assert mine.create(first)["Status"] == "SUCCESS"
    answer = mine.update(replace(first, carry=None, filter_policy='{"kind":["a"]}'))
    assert answer["Status"] == "FAILED"
    assert "carry id (asked for none); it cannot change" in answer["Reason"]
    [kept] = cloud.tw.subscriptions("orders")
    assert (kept.carry, kept.filter_policy) == ("id", None)
    assert mine.update(replace(first, filter_policy='{"kind":["a"]}'))["Status"] == "SUCCESS"


def test_a_subscription_is_adopted_only_if_its_filter_agrees_and_stays_when_the_stack_goes(cloud: Cloud) -> None:
    cloud.tw.create_topic("orders")
    url = cloud.queue_url()
    cloud.tw.create_subscription("orders", "mail", queue_url=url, filter_policy={"kind": ["a"]})
    mine = cloud.subscription()
    answer = mine.create(DeclaredSubscription(topic="orders", subscription="mail", queue_url=url))
    assert answer["Reason"].startswith("subscription 'mail' exists already with filter")
    mine.create(
        DeclaredSubscription(topic="orders", subscription="mail", queue_url=url, filter_policy='{"kind":["a"]}')
    )
    mine.delete()
    assert [each.name for each in cloud.tw.subscriptions("orders")] == ["mail"]


def test_another_resource_leaves_the_subscription_to_the_first_when_it_fails_and_when_it_adopted(cloud: Cloud) -> None:
    cloud.topic().create(topic())
    mine = cloud.subscription()
    mine.create(DeclaredSubscription(topic="orders", subscription="mail", queue_url=cloud.queue_url()))
    for url, status, ending in ((cloud.queue_url("another"), "FAILED", ""), (cloud.queue_url(), "SUCCESS", ":adopted")):
        second = cloud.subscription(logical_id="Second")
        answer = second.create(DeclaredSubscription(topic="orders", subscription="mail", queue_url=url))
        assert answer["Status"] == status and answer["PhysicalResourceId"].endswith(ending)
        assert second.delete()["Status"] == "SUCCESS"
        assert [each.queue_url for each in cloud.tw.subscriptions("orders")] == [cloud.queue_url()]
    mine.delete()
    assert cloud.tw.subscriptions("orders") == []


def test_the_old_subscription_is_deleted_when_its_name_or_its_topic_changes(cloud: Cloud) -> None:
    for name in ("orders", "invoices"):
        cloud.topic().create(topic(name))
    mine = cloud.subscription()
    old = mine.create(DeclaredSubscription(topic="orders", subscription="mail", queue_url=cloud.queue_url()))
    new = mine.update(DeclaredSubscription(topic="invoices", subscription="mail", queue_url=cloud.queue_url()))
    assert (old["PhysicalResourceId"], new["PhysicalResourceId"]) == (
        "tidewheel/orders/mail",
        "tidewheel/invoices/mail",
    )
    mine.delete(physical_id=old["PhysicalResourceId"])
    assert cloud.tw.subscriptions("orders") == [] and len(cloud.tw.subscriptions("invoices")) == 1


# ---- failures


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"Topic": "no name"}, "Topic='no name': use 1 to 48 letters"),
        ({"Topic": "orders", "Subscription": "mail"}, "queue_url='': give the queue's URL"),
        (
            {"Topic": "orders", "Subscription": "mail", "QueueUrl": "https://sqs.us-east-1.amazonaws.com/1/none"},
            "queue https://sqs.us-east-1.amazonaws.com/1/none does not accept messages",
        ),
        (
            {"Topic": "orders", "Subscription": "mail", "InitialPosition": "middle"},
            "initial_position='middle': give one of",
        ),
        ({"Topic": "orders", "Subscription": "mail", "FilterPolicy": "["}, "filter_policy='[': "),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason_and_its_deletion_succeeds(
    cloud: Cloud, properties: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidewheel.client.operations.subscription_queues.sleep", lambda _: None)
    mine = cloud.subscription()
    answer = mine._ask(Kind.CREATE, properties)
    assert (answer["Status"], answer["Reason"][: len(reason)]) == ("FAILED", reason)
    mine.properties = properties
    assert mine.delete(physical_id=answer["PhysicalResourceId"])["Status"] == "SUCCESS"


def test_a_subscription_of_no_topic_is_refused(cloud: Cloud) -> None:
    wanted = DeclaredSubscription(topic="orders", subscription="mail", queue_url=cloud.queue_url())
    assert cloud.subscription().create(wanted)["Reason"].startswith("topic 'orders' does not exist")


def test_an_error_that_nobody_foresaw_is_answered_and_says_where_to_read_more(deployed: DeployedCloud) -> None:
    deployed.stack.session.client("dynamodb").delete_table(
        TableName=deployed.handler.spec.environment["TIDEWHEEL_TABLE"]
    )
    answer = deployed.topic().create(topic())
    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("ResourceNotFoundException: ")
    assert answer["Reason"].endswith("(see log stream local of /aws/lambda/tidewheel-declare)")


def test_the_log_says_what_was_done_and_not_where_the_answer_goes(
    caplog: pytest.LogCaptureFixture, deployed: DeployedCloud
) -> None:
    caplog.set_level("INFO", logger="declare")  # whatever level earlier tests have left
    deployed.topic().create(topic())
    deployed.topic().create(topic(slot_s=60))
    [handler] = logging.getLogger("declare").handlers
    logged = "".join(handler.format(record) for record in caplog.records)
    assert '"message":"declared"' in logged and '"message":"not declared"' in logged
    assert '"resource":"Declared"' in logged
    assert "cloudformation-answers" not in logged and "Signature" not in logged
