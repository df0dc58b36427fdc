"""Tests the client over moto's SQS, with the metadata in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from tests.marks import topic_state
from tests.stored import altered
from tidewheel.client.subscription_queues import MAX_QUEUE_NAME, queue_name
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.client.topic_cache import CACHE_MS
from tidewheel.clock import ManualClock, utc
from tidewheel.errors import (
    AlreadyExists,
    DeleteFailed,
    InvalidValue,
    NotConfigured,
    QueueUnavailable,
    SendFailed,
    UnknownSubscription,
    UnknownTopic,
)
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.administration.update_topic import FIXED
from tidewheel.ledger.bucket import Bucket, bucket_id
from tidewheel.ledger.slots import slots_of
from tidewheel.memory import MemoryService
from tidewheel.model.message import HEADER_ATTRIBUTE, Encoding, Message, id_text
from tidewheel.model.pack import PACK_ATTRIBUTE, decode_pack
from tidewheel.model.received import header_text
from tidewheel.model.segment import Segment
from tidewheel.model.setting import settings_of
from tidewheel.model.settings import (
    ChangeableSettings,
    NewSubscriptionSettings,
    NewTopicSettings,
    ServiceSettings,
    SubscriptionSettings,
    TopicSettings,
    TuningSettings,
    parameter_name,
)
from tidewheel.model.topic import Topic
from tidewheel.storage.subscriptions import Subscriptions
from tidewheel.storage.topic_states import TopicStates

NOW_MS = 1_800_000_000_000
SLOT_MS = TopicSettings().slot_ms
DURATIONS = ("slot_s", "lookahead_s", "retention_s")
"""Settings that the CDK takes as durations, by other names."""


class Stack:
    """A client with the service, SQS and clock behind the client."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_MS)
        self.storage = MemoryService.at(self.clock)
        self.session = boto3.Session(region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
        self.sqs = self.session.client("sqs")
        urls = {name: self.sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("urgent", "bulk")}
        self.settings = ServiceSettings(
            stack="tw",
            table="table",
            s3_bucket="objects",
            urgent_queue_url=urls["urgent"],
            bulk_queue_url=urls["bulk"],
            work_queue_url="work",
            refused_queue_url="refused",
            schedule_group="group",
            schedule_role_arn="role",
            dispatch_arn="dispatch",
            schedule_dead_letter_arn="dead",
            compact_function="compact",
            merge_job="merge",
        )
        self.client = Tidewheel(session=self.session, settings=self.settings, clock=self.clock, storage=self.storage)

    def deliver(self, queue_url: str, body: str, **attributes: str) -> str:
        """Puts a message into a queue as the deliver function does."""
        message_id = id_text(NOW_MS.to_bytes(6) + body.encode()[-10:].rjust(10, b"\0"))
        values = {HEADER_ATTRIBUTE: header_text(message_id, Encoding.TEXT, NOW_MS), **attributes}
        self.sqs.send_message(
            QueueUrl=queue_url,
            MessageBody=body,
            MessageAttributes={k: {"DataType": "String", "StringValue": v} for k, v in values.items()},
        )
        return message_id


@pytest.fixture
def stack() -> Iterator[Stack]:
    with mock_aws():
        yield Stack()


def in_python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- imports


def test_importing_tidewheel_loads_neither_boto3_nor_pyarrow() -> None:
    heavy = ("boto3", "botocore", "pyarrow", "typer")
    program = f"import sys, tidewheel; print([name for name in {heavy} if name in sys.modules])"
    assert in_python(program).strip() == "[]"


def test_the_sdk_needs_boto3_and_pyroaring_only() -> None:
    blocked = ["pyarrow", "aws_lambda_powertools", "numpy", "moto", "typer", "rich", "aws_cdk", "matplotlib"]
    program = (
        f"import sys\nfor name in {blocked}: sys.modules[name] = None\n"
        "import tidewheel\n"
        "for name in tidewheel.__all__: getattr(tidewheel, name)\n"
        "import tidewheel.storage.storage, tidewheel.aws.s3_objects\n"
        "print('ok')"
    )
    assert in_python(program).strip() == "ok"


def test_every_public_name_is_there_and_others_are_not() -> None:
    import tidewheel

    assert tidewheel.Message is Message
    assert set(tidewheel.__all__) <= set(dir(tidewheel))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = tidewheel.Nothing


def test_every_public_name_can_be_imported_and_is_told_by_dir() -> None:
    import tidewheel

    assert {"Tidewheel", "Message", "__version__"} <= set(tidewheel.__all__) <= set(dir(tidewheel))
    for name in tidewheel.__all__:
        assert getattr(tidewheel, name) is not None


def test_the_settings_that_calls_take_are_those_of_a_topic() -> None:
    named = {field.name for field in fields(TopicSettings)}
    assert NewTopicSettings.__optional_keys__ == named
    assert ChangeableSettings.__optional_keys__ == named - set(FIXED)
    assert TuningSettings.__optional_keys__ == {name for name in named if name not in DURATIONS}
    assert NewSubscriptionSettings.__optional_keys__ == settings_of(SubscriptionSettings).keys()


# ---- settings


def test_the_settings_come_from_the_ssm_parameter(stack: Stack) -> None:
    ssm = stack.session.client("ssm")
    ssm.put_parameter(Name=parameter_name("tw"), Value=json.dumps(asdict(stack.settings)), Type="String")
    client = Tidewheel("tw", session=stack.session, clock=stack.clock, storage=stack.storage)
    client.create_topic("orders")
    client.send("orders", "hello")
    assert stack.sqs.receive_message(QueueUrl=stack.settings.urgent_queue_url)["Messages"]


def test_a_new_topic_has_the_defaults_of_the_service(stack: Stack) -> None:
    ssm = stack.session.client("ssm")
    given = asdict(stack.settings) | {"topic_defaults": {"slot_s": 1, "part_rows": 9, "of_a_newer_release": 7}}
    ssm.put_parameter(Name=parameter_name("tw"), Value=json.dumps(given), Type="String")
    client = Tidewheel("tw", session=stack.session, clock=stack.clock, storage=stack.storage)
    client.core.connection.settings  # noqa: B018  # with the storage on AWS, the first call reads them
    assert client.create_topic("orders", part_rows=8).settings == TopicSettings(slot_s=1, part_rows=8)
    assert client.create_topic("orders").settings.slot_s == 1
    assert client.create_topic("other", settings=TopicSettings()).settings == TopicSettings()


def test_a_stack_that_is_not_deployed_is_told_with_advice(stack: Stack) -> None:
    client = Tidewheel("nowhere", session=stack.session)
    with pytest.raises(
        NotConfigured,
        match=r"no stack 'nowhere' in region us-east-1 \(no SSM parameter /tidewheel/nowhere/settings\): deploy",
    ):
        client.topics()


def test_a_stack_name_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(InvalidValue, match="stack_name"):
        Tidewheel("no/stack")


# ---- topics


def test_creating_a_topic_again_with_the_same_settings_returns_the_same(stack: Stack) -> None:
    made = stack.client.create_topic("orders", slot_s=60)
    assert made == Topic(name="orders", settings=TopicSettings(slot_s=60), created_at=utc(NOW_MS))
    assert stack.client.create_topic("orders", settings=TopicSettings(slot_s=60)) == made
    assert stack.client.topics() == [made]
    state = topic_state(stack.client, "orders")
    assert (state.sealed, state.planned, state.collected_until) == (NOW_MS // 60_000,) * 3


def test_creating_a_topic_with_other_settings_names_the_difference(stack: Stack) -> None:
    stack.client.create_topic("orders", slot_s=60)
    with pytest.raises(AlreadyExists, match=rf"with slot_s=60 \(asked for {SLOT_MS // 1000}\); use another name"):
        stack.client.create_topic("orders", slot_s=SLOT_MS // 1000)
    with pytest.raises(AlreadyExists, match=r"slot_s=60 .* lookahead_s=480 \(asked for 120\)"):
        stack.client.create_topic("orders", settings=TopicSettings(lookahead_s=120))


def test_settings_that_a_caller_leaves_out_keep_the_values_of_the_topic(stack: Stack) -> None:
    made = stack.client.create_topic("orders", slot_s=60, lookahead_s=150, retention_s=86_400)
    assert stack.client.create_topic("orders") == made
    assert stack.client.create_topic("orders", lookahead_s=150) == made
    with pytest.raises(AlreadyExists, match=r"retention_s=86400 \(asked for 0\)"):
        stack.client.create_topic("orders", retention_s=0)


def test_a_topic_with_another_release_s_defaults_is_the_one_asked_for_unless_one_is_asked_for(stack: Stack) -> None:
    made = stack.client.create_topic("orders", inline_rows=2000)
    assert stack.client.create_topic("orders") == made
    with pytest.raises(AlreadyExists, match=r"with inline_rows=2000 \(asked for 3000\); use another name"):
        stack.client.create_topic("orders", inline_rows=3000)


def test_two_creators_of_a_topic_agree() -> None:
    class Late(TopicStates):
        """A port whose creates always report a lost race."""

        def create(self, state: Any) -> bool:
            super().create(state)
            return False

    clock = ManualClock(NOW_MS)
    storage = MemoryService.at(clock)
    storage = altered(storage, topic_states=Late)
    state = create_topic(storage, clock, "orders", TopicSettings())
    assert state == storage.topic_states.read("orders")


@pytest.mark.parametrize("name", ["", "a b", "a" * 49, "é", "a/b", None, 5])
def test_a_bad_topic_name_is_refused_everywhere(stack: Stack, name: Any) -> None:
    for call in (
        lambda: stack.client.create_topic(name),
        lambda: stack.client.create_subscription(name, "billing"),
        lambda: stack.client.subscriptions(name),
        lambda: stack.client.stats(name),
        lambda: stack.client.send(name, "x"),
        lambda: stack.client.send_many(name, []),
        lambda: stack.client.receive(name, "billing"),
        lambda: stack.client.delete(name, "billing", []),
    ):
        with pytest.raises(InvalidValue, match="topic="):
            call()


def test_an_unknown_or_bad_setting_is_refused(stack: Stack) -> None:
    with pytest.raises(InvalidValue, match="a topic has no such setting; give one of: slot_s"):
        stack.client.create_topic("orders", slots=60)
    with pytest.raises(InvalidValue, match="must be at most 900"):
        stack.client.create_topic("orders", slot_s=600)
    with pytest.raises(InvalidValue, match="not both"):
        stack.client.create_topic("orders", settings=TopicSettings(), slot_s=60)
    assert stack.client.topics() == []


# ---- subscriptions


def test_a_subscription_gets_a_queue_with_a_dead_letter_queue(stack: Stack) -> None:
    stack.client.create_topic("orders")
    made = stack.client.create_subscription("orders", "billing", visibility_timeout_s=90)
    assert made.queue_url.endswith("/tw-orders-billing")
    attributes = stack.sqs.get_queue_attributes(QueueUrl=made.queue_url, AttributeNames=["All"])["Attributes"]
    assert (attributes["VisibilityTimeout"], attributes["MessageRetentionPeriod"]) == ("90", "1209600")
    redrive = json.loads(attributes["RedrivePolicy"])
    assert redrive["deadLetterTargetArn"].endswith(":tw-orders-billing-dead")
    assert int(redrive["maxReceiveCount"]) == 5
    dead = stack.sqs.get_queue_url(QueueName="tw-orders-billing-dead")["QueueUrl"]
    kept = stack.sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["MessageRetentionPeriod"])["Attributes"]
    assert kept == {"MessageRetentionPeriod": "1209600"}


def test_creating_a_subscription_again_returns_the_same(stack: Stack) -> None:
    stack.client.create_topic("orders")
    made = stack.client.create_subscription("orders", "billing")
    assert stack.client.create_subscription("orders", "billing", initial_position="earliest") == made
    assert stack.client.create_subscription("orders", "billing", queue_url=made.queue_url) == made
    assert stack.client.subscriptions("orders") == [made]
    assert (made.topic, made.name, made.state, made.created_at) == ("orders", "billing", "ACTIVE", utc(NOW_MS))
    with pytest.raises(AlreadyExists, match="asked for https://other"):
        stack.client.create_subscription("orders", "billing", queue_url="https://other")


def test_a_retry_after_a_crash_between_queue_and_subscription_uses_the_queue(stack: Stack) -> None:
    stack.client.create_topic("orders")
    made = stack.client.create_subscription("orders", "billing")
    other = Tidewheel(
        session=stack.session, settings=stack.settings, clock=stack.clock, storage=MemoryService.at(stack.clock)
    )
    other.create_topic("orders")
    assert other.create_subscription("orders", "billing").queue_url == made.queue_url


def test_subscriptions_whose_queues_would_have_one_name_get_queues_of_their_own(stack: Stack) -> None:
    for topic in ("a", "a-b"):
        stack.client.create_topic(topic)
    pairs = [("a-b", "c"), ("a", "b-c"), ("a", "x"), ("a", "x-dead")]
    urls = [stack.client.create_subscription(topic, name).queue_url for topic, name in pairs]
    assert len(set(urls)) == 4
    dead = stack.sqs.get_queue_url(QueueName="tw-a-x-dead")["QueueUrl"]
    assert dead not in urls
    assert len(stack.sqs.list_queues()["QueueUrls"]) == 2 + 2 * 4


def test_queue_names_fit_sqs_and_differ() -> None:
    long = "a" * 48
    names = {queue_name("tidewheel", long, long[:-1] + last) for last in "bcd"}
    assert len(names) == 3
    assert all(len(name + "-dead") <= MAX_QUEUE_NAME for name in names)
    assert queue_name("tidewheel", "orders", "billing") == "tidewheel-orders-billing"


def test_a_given_queue_is_used_and_must_exist(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewheel.client.subscription_queues.sleep", lambda seconds: None)
    stack.client.create_topic("orders")
    mine = stack.sqs.create_queue(QueueName="mine")["QueueUrl"]
    assert stack.client.create_subscription("orders", "billing", queue_url=mine).queue_url == mine
    with pytest.raises(QueueUnavailable, match="does not accept messages"):
        stack.client.create_subscription("orders", "other", queue_url=mine + "-not")
    with pytest.raises(InvalidValue, match="FIFO queues take no delay"):
        stack.client.create_subscription("orders", "other", queue_url=mine + ".fifo")
    with pytest.raises(InvalidValue, match="queue's URL"):
        stack.client.create_subscription("orders", "other", queue_url="mine")


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": "a b"}, "subscription="),
        ({"initial_position": "first"}, "initial_position="),
        ({"visibility_timeout_s": True}, "visibility_timeout_s="),
        ({"visibility_timeout_s": 43_201}, "visibility_timeout_s="),
        ({"visibility_timeout_s": 1.5}, "visibility_timeout_s="),
    ],
)
def test_a_bad_value_for_a_subscription_is_refused_before_a_queue_is_made(
    stack: Stack, fields: dict[str, Any], wrong: str
) -> None:
    stack.client.create_topic("orders")
    with pytest.raises(InvalidValue, match=wrong):
        stack.client.create_subscription("orders", **{"name": "billing", **fields})
    assert stack.storage.subscriptions.all("orders") == []
    assert len(stack.sqs.list_queues()["QueueUrls"]) == 2


def test_a_subscription_of_an_unknown_topic_makes_no_queue(stack: Stack) -> None:
    with pytest.raises(UnknownTopic):
        stack.client.create_subscription("orders", "billing")
    with pytest.raises(UnknownTopic):
        create_subscription(stack.storage, stack.clock, "orders", "billing", "https://q")
    assert len(stack.sqs.list_queues()["QueueUrls"]) == 2


def test_latest_starts_at_the_seal_and_earliest_at_what_is_kept() -> None:
    clock = ManualClock(NOW_MS)
    storage = MemoryService.at(clock)
    state = create_topic(storage, clock, "orders", TopicSettings())
    sealed = storage.topic_states.seal(state, state.sealed + 5)
    assert sealed is not None
    latest = create_subscription(storage, clock, "orders", "latest", "https://l")
    earliest = create_subscription(storage, clock, "orders", "earliest", "https://e", "earliest")
    assert (latest.cursor, latest.start) == (sealed.planned, sealed.sealed)
    assert (earliest.cursor, earliest.start) == (sealed.collected_until, 0)
    after = storage.topic_states.read("orders")
    assert after is not None
    assert (after.subscriptions_version, after.work_version, after.next_slot) == (
        2,
        state.work_version + 2,
        sealed.planned,
    )


def test_a_subscription_reads_the_topic_state_again_when_the_topic_changes_under_it() -> None:
    class Busy(Subscriptions):
        """Collects up to the plan between the read and the first write."""

        tries = 0

        def create(self, state: Any, subscription: Any) -> bool:
            self.tries += 1
            return self.tries > 1 and super().create(state, subscription)

    clock = ManualClock(NOW_MS)
    storage = MemoryService.at(clock)
    storage = altered(storage, subscriptions=Busy)
    create_topic(storage, clock, "orders", TopicSettings())
    made = create_subscription(storage, clock, "orders", "billing", "https://q", "earliest")
    assert storage.subscriptions.tries == 2
    assert storage.subscriptions.read("orders", "billing") == made


# ---- sending


def test_a_sent_message_is_in_the_ingest_queue_with_its_generation(stack: Stack) -> None:
    stack.client.create_topic("orders")
    generation = topic_state(stack.client, "orders").generation
    receipt = stack.client.send("orders", {"id": 17}, delay="3d", attributes={"kind": "reminder"})
    assert receipt.deliver_at_ms == NOW_MS + 3 * 86_400_000
    answer = stack.sqs.receive_message(QueueUrl=stack.settings.bulk_queue_url, MessageAttributeNames=["All"])
    [raw] = answer["Messages"]
    assert json.loads(raw["Body"]) == {"topic": "orders", "messages": 1}
    pack = decode_pack(raw["MessageAttributes"][PACK_ATTRIBUTE]["BinaryValue"], NOW_MS)
    assert (pack.generation, id_text(pack.ids), list(pack.texts)) == (generation, receipt.id, ['{"id":17}'])
    assert pack.attributes == [{"kind": "reminder"}]


def test_send_raises_the_messages_own_error(stack: Stack) -> None:
    stack.client.create_topic("orders")
    with pytest.raises(InvalidValue, match="a delay cannot be negative"):
        stack.client.send("orders", "x", delay=-1)


class Listing(TopicStates):
    """Counts its lists. Refuses them on demand."""

    lists = 0
    refuses = False

    def names_among(self, most_items: int) -> list[str]:
        self.lists += 1
        if self.refuses:
            raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "Scan")
        return super().names_among(most_items)


def test_topics_with_similar_names_are_looked_for_once_a_minute_however_many_calls_fail(stack: Stack) -> None:
    storage = altered(stack.storage, topic_states=Listing)
    for name in ("orders", "orders-eu", "invoices"):
        create_topic(storage, stack.clock, name, TopicSettings())
    client = Tidewheel(session=stack.session, settings=stack.settings, clock=stack.clock, storage=storage)
    for name, near in [("ordres", "'orders'"), ("orders-us", "'orders-eu' or 'orders'"), ("Invoice", "'invoices'")] * 5:
        with pytest.raises(UnknownTopic, match=f"did you mean {near}\\?$"):
            client.send(name, "x")
    assert storage.topic_states.lists == 1  # type: ignore[attr-defined]
    with pytest.raises(UnknownTopic, match=r"or correct the name$"):
        client.send("nothing-alike", "x")
    stack.clock.advance_ms(60_000)
    with pytest.raises(UnknownTopic, match="'orders'"):
        client.send("order", "x")
    assert storage.topic_states.lists == 2  # type: ignore[attr-defined]


def test_a_client_that_may_not_list_topics_knows_the_topics_it_has_used(stack: Stack) -> None:
    storage = altered(stack.storage, topic_states=Listing)
    storage.topic_states.refuses = True  # type: ignore[attr-defined]
    for name in ("orders", "invoices"):
        create_topic(storage, stack.clock, name, TopicSettings())
    client = Tidewheel(session=stack.session, settings=stack.settings, clock=stack.clock, storage=storage)
    with pytest.raises(UnknownTopic, match=r"or correct the name$"):
        client.send("ordres", "x")
    client.send("orders", "x")
    stack.clock.advance_ms(90_000)
    with pytest.raises(UnknownTopic, match="did you mean 'orders'"):
        client.send("ordres", "x")


def test_send_many_to_an_unknown_topic_does_not_touch_the_iterable(stack: Stack) -> None:
    with pytest.raises(UnknownTopic, match="create it, or correct the name"):
        stack.client.send_many("orders", (pytest.fail("read") for _ in range(1)))


def test_a_topic_is_looked_up_once_a_minute_and_an_unknown_one_each_time(stack: Stack) -> None:
    class Counting(TopicStates):
        reads = 0

        def read(self, topic: str) -> Any:
            self.reads += 1
            return super().read(topic)

    storage = altered(stack.storage, topic_states=Counting)
    states = storage.topic_states
    client = Tidewheel(session=stack.session, settings=stack.settings, clock=stack.clock, storage=storage)
    for expected in (1, 2):
        with pytest.raises(UnknownTopic):
            client.send("orders", "x")
        assert states.reads == expected
    create_topic(storage, stack.clock, "orders", TopicSettings())
    states.reads = 0
    for _ in range(3):
        client.send("orders", "x")
    assert states.reads == 1
    stack.clock.advance_ms(CACHE_MS)
    client.send("orders", "x")
    assert states.reads == 2


def test_a_good_message_beside_a_bad_one_is_sent(stack: Stack) -> None:
    stack.client.create_topic("orders")
    with pytest.raises(SendFailed) as caught:
        stack.client.send_many("orders", [Message(body=""), Message(body="good")])
    assert list(caught.value.failures) == [0]
    assert len(stack.sqs.receive_message(QueueUrl=stack.settings.urgent_queue_url)["Messages"]) == 1


# ---- receiving


def test_delivered_messages_are_received_and_acknowledged(stack: Stack) -> None:
    stack.client.create_topic("orders")
    queue_url = stack.client.create_subscription("orders", "billing").queue_url
    sent = {stack.deliver(queue_url, f"m{i}", kind="k") for i in range(25)}
    found = stack.client.receive("orders", "billing", max_messages=100)
    assert {each.id for each in found} == sent
    assert found[0].attributes == {"kind": "k"}
    assert found[0].receive_count == 1
    stack.client.delete("orders", "billing", found)
    depth = stack.client.stats("orders").subscriptions[0].queue
    assert depth is not None
    assert (depth.visible, depth.in_flight) == (0, 0)


def test_receive_takes_at_most_what_was_asked(stack: Stack) -> None:
    stack.client.create_topic("orders")
    queue_url = stack.client.create_subscription("orders", "billing").queue_url
    for i in range(15):
        stack.deliver(queue_url, f"m{i}")
    assert len(stack.client.receive("orders", "billing", max_messages=12)) == 12


def test_a_foreign_message_is_passed_over_with_a_warning(stack: Stack, caplog: pytest.LogCaptureFixture) -> None:
    stack.client.create_topic("orders")
    queue_url = stack.client.create_subscription("orders", "billing").queue_url
    stack.sqs.send_message(QueueUrl=queue_url, MessageBody="foreign")
    ours = stack.deliver(queue_url, "ours")
    assert [each.id for each in stack.client.receive("orders", "billing")] == [ours]
    assert "not a message that Tidewheel delivered" in caplog.text


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"max_messages": 0}, "max_messages="),
        ({"max_messages": True}, "max_messages="),
        ({"wait_s": 21}, "wait_s="),
        ({"wait_s": -1}, "wait_s="),
        ({"wait_s": 1.5}, "wait_s="),
    ],
)
def test_receive_refuses_what_sqs_would(stack: Stack, fields: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidValue, match=wrong):
        stack.client.receive("orders", "billing", **fields)


def test_an_unknown_subscription_or_topic_is_named(stack: Stack) -> None:
    with pytest.raises(UnknownTopic):
        stack.client.receive("orders", "billing")
    stack.client.create_topic("orders")
    with pytest.raises(UnknownSubscription, match="has no subscription 'billing'"):
        stack.client.receive("orders", "billing")


def test_what_cannot_be_acknowledged_is_named(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    stack.client.create_topic("orders")
    queue_url = stack.client.create_subscription("orders", "billing").queue_url
    stack.deliver(queue_url, "m")
    found = stack.client.receive("orders", "billing")
    calls: list[Any] = []

    def refuse(**request: Any) -> dict[str, Any]:
        calls.append(request)
        return {"Failed": [{"Id": "0", "SenderFault": False, "Code": "InternalError", "Message": "m"}]}

    monkeypatch.setattr(stack.client.core.connection.sqs, "delete_message_batch", refuse)
    with pytest.raises(DeleteFailed, match="InternalError: m") as caught:
        stack.client.delete("orders", "billing", found)
    assert [message for message, _ in caught.value.failures] == found
    assert len(calls) == 2
    with pytest.raises(InvalidValue, match="that receive returned"):
        stack.client.delete("orders", "billing", ["m"])  # type: ignore[list-item]


# ---- stats


def bucket(first_slot: int, last_slot: int, rows: int) -> Bucket:
    span = Segment(
        offset=4,
        length=1000,
        rows=rows,
        raw_bytes=4000,
        first_deliver_at_ms=first_slot * SLOT_MS,
        last_deliver_at_ms=(last_slot + 1) * SLOT_MS - 1,
    )
    return Bucket(
        id=bucket_id(first_slot, "b"),
        object_name=f"ledgers/orders/{first_slot}",
        size_bytes=1004,
        rows=rows,
        slots=slots_of([first_slot, last_slot]),
        segments=(span,),
    )


def test_stats_tell_what_waits_from_metadata(stack: Stack) -> None:
    stack.client.create_topic("orders")
    stack.client.create_subscription("orders", "billing")
    slot = NOW_MS // SLOT_MS
    for each in (bucket(slot + 10, slot + 20, 100), bucket(slot + 5, slot + 30, 50)):
        state = stack.storage.topic_states.read("orders")
        assert state is not None
        stack.storage.buckets.commit(state, each, None)
    stats = stack.client.stats("orders")
    assert (stats.waiting, stats.buckets, stats.ledger_bytes) == (150, 2, 2008)
    assert stats.next_due_at is not None
    assert stats.last_due_at is not None
    assert stats.next_due_at.timestamp() == (slot + 5) * SLOT_MS / 1000
    assert stats.last_due_at.timestamp() == (slot + 30) * SLOT_MS / 1000
    assert [(each.name, each.lag_slots, each.open_parts) for each in stats.subscriptions] == [("billing", 0, 0)]


def test_stats_of_a_partly_planned_topic_count_what_is_left_and_the_lag(stack: Stack) -> None:
    stack.client.create_topic("orders")
    stack.client.create_subscription("orders", "billing")
    slot = NOW_MS // SLOT_MS
    state = stack.storage.topic_states.read("orders")
    assert state is not None
    stack.storage.buckets.commit(state, bucket(slot, slot + 9, 100), None)
    sealed = stack.storage.topic_states.seal(state, slot + 5)
    assert sealed is not None
    assert stack.storage.plans.commit(sealed, None, slot + 5)
    stats = stack.client.stats("orders")
    assert 40 <= stats.waiting <= 60
    assert stats.oldest_slot_at is not None
    assert stats.next_due_at is not None
    assert (stats.oldest_slot_at.timestamp(), stats.next_due_at.timestamp()) == (
        slot * SLOT_MS / 1000,
        (slot + 9) * SLOT_MS / 1000,
    )
    assert stats.subscriptions[0].lag_slots == 5


def test_stats_of_an_empty_topic_and_of_a_lost_queue(stack: Stack) -> None:
    stack.client.create_topic("orders")
    made = stack.client.create_subscription("orders", "billing")
    stack.sqs.delete_queue(QueueUrl=made.queue_url)
    stats = stack.client.stats("orders")
    assert (stats.waiting, stats.next_due_at, stats.last_due_at, stats.oldest_slot_at) == (0, None, None, None)
    assert stats.subscriptions[0].queue is None
    with pytest.raises(UnknownTopic):
        stack.client.stats("nothing")
