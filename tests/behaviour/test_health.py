"""What is wrong is found, the worst first, with what to do. A part that cannot be read hides no other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner, Result

from tests.behaviour.topic import Here
from tidewheel import Consumer, Finding, InvalidValue, Message, Problem, Tidewheel, UnknownTopic
from tidewheel.cli.documentation import section_of
from tidewheel.cli.main import app
from tidewheel.client.operations import health
from tidewheel.client.operations.health import SWEEP_LATE_S
from tidewheel.client.operations.stats import queue_depth
from tidewheel.local import LocalTidewheel, MemoryTidewheel
from tidewheel.shipped import DOCS, shipped

TOPIC = "orders"


def topic(stack: MemoryTidewheel | LocalTidewheel, *subscriptions: str) -> Tidewheel:
    client = stack.client()
    client.create_topic(TOPIC)
    for name in subscriptions or ("billing",):
        client.create_subscription(TOPIC, name)
    return client


def found(client: Tidewheel, of: str | None = None) -> list[tuple[str, str | None, int | None]]:
    return [(each.problem.value, each.subscription, each.count) for each in client.health(of)]


def only(client: Tidewheel) -> Finding:
    [finding] = client.health()
    return finding


def slot_of_two(stack: MemoryTidewheel) -> datetime:
    return stack.now().replace(hour=2, minute=0, second=0)


def denied(code: str = "AccessDenied") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "not you"}}, "GetQueueAttributes")


# ---- topics


def test_nothing_is_wrong_with_a_service_that_works(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    client.send_many(TOPIC, [Message(body="x", delay=f"{i}h") for i in range(1, 40)])
    for _ in range(3):
        memory.advance(hours=5, seconds=17)
        assert client.health() == client.health(TOPIC) == []


def test_a_pause_is_told_with_the_messages_that_wait_for_it(memory: MemoryTidewheel) -> None:
    client = topic(memory, "audit", "billing")
    client.send_many(TOPIC, [Message(body="x", delay="2h") for _ in range(3)])
    memory.advance(minutes=6)
    client.pause(TOPIC, "audit")
    assert (only(client).what, only(client).since) == ("orders/audit is paused", None)
    memory.advance(hours=3)
    finding = only(client)
    assert finding.what == "orders/audit is paused, and about 3 messages are due"
    assert (finding.problem, finding.topic, finding.subscription) == (Problem.PAUSED, TOPIC, "audit")
    assert (finding.since, finding.count) == (slot_of_two(memory), 3)
    assert (finding.remedy, finding.page) == ("tidewheel subscriptions resume orders audit", "sdk#subscriptions")


def test_messages_that_nobody_gets_are_told(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    client.delete_subscription(TOPIC, "billing")
    assert found(client) == []
    client.send(TOPIC, "x", delay="2h")
    memory.advance(minutes=6)
    assert found(client) == [("no_subscription", None, 1)]


def test_a_queue_that_is_gone_is_told_before_and_after_its_messages_are_parked(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    client.send_many(TOPIC, [Message(body="x", delay="2h") for _ in range(3)])
    memory.advance(minutes=6)
    sqs = client.core.connection.sqs
    sqs.delete_queue(QueueUrl=client.subscriptions(TOPIC)[0].queue_url)
    assert found(client) == [("queue_refuses", "billing", 0)]
    memory.advance(hours=2)
    assert found(client) == [("queue_refuses", "billing", 3)]
    assert only(client).since == slot_of_two(memory)


def test_messages_that_wait_for_another_try_are_parked(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory)
    client.pause(TOPIC, "billing")
    client.send_many(TOPIC, [Message(body="x") for _ in range(4)])
    memory.advance(seconds=2)
    monkeypatch.setattr("tidewheel.aws.sqs_queues.SqsQueues.enqueue_catch_up", lambda *_: None)
    client.resume(TOPIC, "billing")
    assert found(client) == [("parked", "billing", 4)]
    assert only(client).since is not None


def test_messages_that_nobody_planned_are_late(memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch) -> None:
    client = topic(memory)
    client.send_many(TOPIC, [Message(body="x", delay="2h") for _ in range(2)])
    memory.advance(minutes=6)
    monkeypatch.setattr(memory.service.runs, "dispatch", lambda _: None)
    monkeypatch.setattr(memory.service.wheel, "take_due", lambda _: [])
    memory.advance(hours=2)
    assert (found(client), only(client).since) == ([("late", "billing", 2)], slot_of_two(memory))


def test_messages_that_cannot_be_read_are_one_finding_a_subscription(memory: MemoryTidewheel) -> None:
    client = topic(memory, "audit", "billing")
    for hours in (2, 3):
        client.send_many(TOPIC, [Message(body="x", delay=f"{hours}h") for _ in range(5)])
        memory.advance(minutes=6)
    storage = client.core.connection.storage
    for each in storage.buckets.all(TOPIC):
        storage.objects.put(each.object_name, b"rubbish" * 1000)
    memory.advance(hours=4)
    assert found(client) == [("damaged", "audit", 10), ("damaged", "billing", 10)]
    finding = client.health(TOPIC)[1]
    assert finding.what == "2 parts of orders/billing cannot be read: about 10 messages do not come"
    assert finding.since is not None and finding.since < memory.now()
    assert finding.remedy == "tidewheel damaged list orders"


def test_an_item_that_cannot_be_read_is_unreadable(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    client.send(TOPIC, "x", delay="2h")
    memory.advance(minutes=6)
    table: Any = client.core.connection.storage.buckets._table
    [bucket] = table.query_prefix("T#orders", "BUCKET#")
    rubbish = {"pk": bucket["pk"], "sk": bucket["sk"], "data": {"B": b"rubbish"}}
    table._client.put_item(TableName=table._name, Item=rubbish)
    assert found(client) == [("unreadable", None, 1)]


def test_dead_letters_are_told_of_each_subscription(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    client.send(TOPIC, "x")
    memory.advance(seconds=2)
    consumer = Consumer(client, TOPIC, "billing", max_attempts=1)
    consumer.retry_later(*consumer.receive())
    assert found(client) == [("dead_letters", "billing", 1)]
    assert "tidewheel redrive orders billing" in only(client).remedy


# ---- the service


def test_refused_messages_and_dead_letters_of_the_service_are_told(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    connection = client.core.connection
    settings, sqs = connection.settings, connection.sqs
    sqs.send_message(QueueUrl=settings.urgent_queue_url, MessageBody="not a message of ours")
    memory.advance(seconds=2)
    assert found(client) == [("refused", None, 1)] and found(client, TOPIC) == []
    dead_url = queue_depth(sqs, settings.bulk_queue_url)[1]
    assert dead_url is not None
    sqs.send_message(QueueUrl=dead_url, MessageBody="a pack")
    assert found(client) == [("service_dead_letters", None, 1), ("refused", None, 1)]
    assert "tidewheel redrive --service" in client.health()[0].remedy


def test_packs_that_no_function_takes_wait(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    for _ in range(2):
        client.send(TOPIC, "x", delay="3d")
    assert found(client) == [("packs_wait", None, 2)] and "tidewheel_bulk" in only(client).what
    memory.advance(minutes=1)
    assert client.health() == [], "the window gathers them"


def test_a_sweep_that_does_not_run_is_told_and_one_of_an_earlier_release_is_not(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory)
    with monkeypatch.context() as earlier:
        earlier.setattr(memory.service.checks, "beat", lambda _: None)
        memory.advance(hours=1)
        assert client.health() == []
    memory.advance(minutes=10)
    swept_at = memory.now() - timedelta(minutes=memory.now().minute % 5)
    monkeypatch.setattr(memory.service.checks, "beat", lambda _: None)
    memory.advance(seconds=SWEEP_LATE_S - 60)
    assert client.health() == []
    memory.advance(minutes=20)
    assert (only(client).problem, only(client).since) == (Problem.SWEEP_LATE, swept_at)
    assert client.health(TOPIC) == []


def test_sweeps_that_are_left_out_here_because_they_would_find_nothing_are_not_late(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    memory.advance(minutes=7)
    for days in (1, 40, 400):
        memory.advance(days=days, minutes=3)
        assert client.health() == []
        swept_ms = client.core.connection.storage.checks.swept_at_ms()
        assert swept_ms is not None and 0 <= memory.now().timestamp() * 1000 - swept_ms <= 300_000


def test_a_sweep_whose_heartbeat_is_refused_has_done_its_work(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(memory)

    def beat(_: int) -> None:
        raise denied()

    memory.advance(minutes=4)
    monkeypatch.setattr(memory.service.checks, "beat", beat)
    before = memory.invocations["sweep"]
    with pytest.raises(ClientError):
        memory.advance(days=2)
    assert memory.invocations["sweep"] > before


# ---- what cannot be read


def test_a_queue_that_denies_a_look_is_a_finding_with_the_reason_and_the_others_come(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory, "audit", "billing")
    client.pause(TOPIC, "audit")
    urls = {each.name: each.queue_url for each in client.subscriptions(TOPIC)}
    look = memory.sqs.get_queue_attributes
    bulk = client.core.connection.settings.bulk_queue_url

    def denying(**request: Any) -> Any:
        if request["QueueUrl"] in (urls["billing"], f"{urls['audit']}-dead", bulk):
            raise denied()
        return look(**request)

    monkeypatch.setattr(memory.sqs, "get_queue_attributes", denying)
    findings = client.health()
    assert [(each.problem.value, each.subscription) for each in findings] == [
        ("not_readable", None),
        ("not_readable", "audit"),
        ("not_readable", "billing"),
        ("paused", "audit"),
    ]
    assert all("AccessDenied" in each.what and "not you" in each.what for each in findings[:3])


def test_a_topic_that_cannot_be_read_hides_no_other_topic_and_nothing_of_the_service(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory)
    for name in ("a", "z"):
        client.create_topic(name)
        client.create_subscription(name, "billing")
        client.pause(name, "billing")
    original = health.topic_stats

    def stats(storage: Any, sqs: Any, state: Any, now_ms: int) -> Any:
        if state.topic == TOPIC:
            raise denied("ThrottlingException")
        return original(storage, sqs, state, now_ms)

    monkeypatch.setattr(health, "topic_stats", stats)
    findings = client.health()
    assert [(each.problem.value, each.topic) for each in findings] == [
        ("not_readable", TOPIC),
        ("paused", "a"),
        ("paused", "z"),
    ]
    assert "ThrottlingException" in findings[0].what
    monkeypatch.setattr(Tidewheel, "topics", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        client.health()


def test_a_service_whose_parts_cannot_be_read_is_told_part_by_part(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory)

    def refuse(*_: Any, **__: Any) -> Any:
        raise denied()

    monkeypatch.setattr(Tidewheel, "topics", refuse)
    monkeypatch.setattr(memory.sqs, "get_queue_attributes", refuse)
    monkeypatch.setattr(client.core.connection.storage.checks, "swept_at_ms", refuse)
    assert [each.what.partition(" cannot")[0] for each in client.health()] == [
        "The time of the last sweep",
        "Queue tidewheel_urgent",
        "Queue tidewheel_bulk",
        "Queue tidewheel_work",
        "The queue of refused messages",
        "The list of topics",
    ]


def test_a_topic_that_is_not_there_is_an_error_and_one_that_goes_meanwhile_is_not(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory)
    with pytest.raises(UnknownTopic):
        client.health("nothing")
    with pytest.raises(InvalidValue):
        client.health("a b")
    names = [*client.topics(), *client.topics()]
    client.delete_topic(TOPIC)
    monkeypatch.setattr(Tidewheel, "topics", lambda _: names)
    assert client.health() == []


# ---- order, pages, requests, and the command


def test_the_worst_is_first_and_of_one_kind_the_longest_known(memory: MemoryTidewheel) -> None:
    client = topic(memory, "audit", "billing", "fraud")
    for name, hours in (("fraud", 2), ("audit", 3)):
        memory.advance(minutes=6)
        client.send(TOPIC, "x", delay=f"{hours}h")
        client.pause(TOPIC, name)
    memory.advance(hours=4)
    client.pause(TOPIC, "billing")
    dead_url = f"{client.subscriptions(TOPIC)[1].queue_url}-dead"
    memory.sqs.send_message(QueueUrl=dead_url, MessageBody="x")
    kinds = [(each.problem.value, each.subscription) for each in client.health()]
    assert kinds[0] == ("dead_letters", "billing") and kinds[-1] == ("paused", "billing")
    assert {each for _, each in kinds[1:3]} == {"audit", "fraud"}


@pytest.mark.parametrize("problem", list(Problem))
def test_each_problem_has_a_section_of_the_documentation(problem: Problem) -> None:
    page, _, section = problem.page.partition("#")
    assert section_of((shipped(DOCS) / f"{page}.md").read_text(encoding="utf-8"), section)


def test_health_asks_as_much_of_aws_as_statistics_and_a_look_at_each_queue_of_the_service() -> None:
    with LocalTidewheel() as stack:
        client = topic(stack, "audit", "billing")
        stack.client().create_topic("carts")
        client.send_many(TOPIC, [Message(body="x", delay="2d") for _ in range(100)])
        stack.advance(minutes=20)

        def asked(look: Callable[[], object]) -> Counter[str]:
            before = Counter(stack.requests)
            look()
            return Counter(stack.requests) - before

        stats = asked(lambda: client.stats(TOPIC)) + asked(lambda: client.stats("carts"))
        assert asked(lambda: client.health(TOPIC)) + asked(lambda: client.health("carts")) == stats
        own = {"dynamodb.GetItem": 1, "sqs.GetQueueAttributes": 2 * 3 + 1}  # urgent, bulk, work; refused
        assert asked(client.health) == stats + Counter(own) + asked(client.topics)


def doctor(client: Tidewheel, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments], obj=Here(made=client))


def test_the_doctor_shows_what_is_wrong_and_fails_for_more_than_a_pause(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    done = doctor(client)
    assert (done.exit_code, done.stdout) == (0, "all is well\n")
    client.pause(TOPIC, "billing")
    done = doctor(client, TOPIC)
    assert done.exit_code == 0 and "orders/billing is paused" in done.stdout and "docs sdk#subscriptions" in done.stdout
    client.send(TOPIC, "x", delay="3d")
    done = doctor(client, "--json")
    assert done.exit_code == 1
    [waits, paused] = json.loads(done.stdout)
    assert (waits["problem"], waits["page"], paused["problem"]) == ("packs_wait", "runbook#queue-age", "paused")
