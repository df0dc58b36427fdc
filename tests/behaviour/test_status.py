"""Results of get, peek and stats while messages are processed, in memory and on local AWS."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.behaviour.topic import Here
from tidewheel import (
    Consumer,
    LedgerPlace,
    Message,
    MessageState,
    PeekIncomplete,
    Receipt,
    Tidewheel,
    TopicStats,
    WaitingMessage,
)
from tidewheel.cli.main import app
from tidewheel.errors import CorruptMetadata
from tidewheel.ledger.bucket import Bucket
from tidewheel.local.memory_stack import MemoryTidewheel
from tidewheel.model.message import MessageId
from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.model.tombstone import tombstone
from tidewheel.storage import items

DAY_S = 86_400


def topic(stack: MemoryTidewheel, *subscriptions: str, **settings: int) -> Tidewheel:
    client = stack.client()
    client.create_topic("orders", **settings)
    for name in subscriptions or ("billing",):
        client.create_subscription("orders", name)
    return client


def state(client: Tidewheel, receipt: Receipt) -> str:
    return client.get("orders", receipt.id).state.value


# ---- get


def test_a_tombstone_that_came_too_late_is_not_believed(memory: MemoryTidewheel) -> None:
    client = topic(memory, retention_days=1)
    sent = client.send("orders", "x", delay="2h")
    memory.advance(hours=1, minutes=55)
    late = tombstone(MessageId(sent.id), 300_000, memory.clock.now_ms(), certain=False)
    memory.service.tombstones.put("orders", late)
    assert state(client, sent) == "sent"
    memory.advance(minutes=5)
    assert [each.id for each in memory.receive("orders", "billing")] == [sent.id]


def test_a_tombstone_put_between_seal_and_plan_decides_nothing_until_the_plan_does(memory: MemoryTidewheel) -> None:
    client = topic(memory, retention_days=1)
    sent = client.send("orders", "x", delay="2h")
    memory.advance(minutes=6)
    storage = memory.service
    topic_state = storage.topic_states.read("orders")
    assert topic_state is not None
    late = tombstone(MessageId(sent.id), 300_000, memory.clock.now_ms(), certain=False)
    assert storage.topic_states.seal(topic_state, late.slot + 1)
    storage.tombstones.put("orders", late)
    assert state(client, sent) == "sealed"
    memory.advance(hours=1, minutes=50)
    assert state(client, sent) == "cancelled"  # the plan read it
    memory.advance(hours=1)
    assert memory.receive("orders", "billing") == []


def test_a_message_is_sealed_until_every_subscription_has_it(memory: MemoryTidewheel) -> None:
    client = topic(memory, "billing", "audit")
    sent = client.send("orders", "x", delay="2h")
    client.pause("orders", "audit")
    memory.advance(hours=2)
    status = client.get("orders", sent.id)
    assert status.state is MessageState.SEALED
    progress = {each.name: (each.state, each.place, each.sent) for each in status.subscriptions}
    assert progress == {"audit": ("PAUSED", "planned", False), "billing": ("ACTIVE", "sent", True)}
    client.create_subscription("orders", "late")  # begins after it, so it does not count
    client.resume("orders", "audit")
    memory.advance(minutes=6)
    status = client.get("orders", sent.id)
    assert (status.state, [each.name for each in status.subscriptions]) == (MessageState.SENT, ["audit", "billing"])


def places(client: Tidewheel, receipt: Receipt) -> dict[str, str]:
    return {each.name: each.place.value for each in client.get("orders", receipt.id).subscriptions}


def test_a_message_is_delivering_until_its_part_is_done(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory, inline_rows=1)
    sent = client.send_many("orders", [Message(body=f"{i}", delay="2h") for i in range(5)])
    with monkeypatch.context() as lost:
        lost.setattr(memory.service.queues, "enqueue_parts", lambda *_: None)
        memory.advance(hours=1, minutes=58)
    assert places(client, sent[0]) == {"billing": "delivering"}
    memory.advance(hours=1)
    assert places(client, sent[0]) == {"billing": "sent"}


def test_a_message_of_a_damaged_ledger_is_delivering_and_its_neighbour_is_sent(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    lost, _ = client.send("orders", "x", delay="2h"), client.send("orders", "y", delay="5h")
    memory.advance(minutes=6)
    kept = client.send("orders", "z", delay="2h")
    memory.advance(minutes=6)
    storage = memory.service
    [first, *_] = [each for each in storage.buckets.all("orders") if each.rows == 2]
    data = storage.objects.get_range(first.object_name, 0, first.size_bytes)
    storage.objects.put(first.object_name, data[:40] + bytes(200) + data[240:])
    memory.advance(hours=2)
    storage.objects.put(first.object_name, data)
    assert (places(client, lost), places(client, kept)) == ({"billing": "delivering"}, {"billing": "sent"})


def test_a_status_tells_until_when_a_message_can_be_cancelled_and_where_it_is(memory: MemoryTidewheel) -> None:
    client = topic(memory, segment_rows=100, retention_days=1)
    sent = client.send_many("orders", [Message(body="x", delay=7200 + i) for i in range(250)])
    assert client.get("orders", sent[0].id).ledger is None
    memory.advance(minutes=6)
    found = [client.get("orders", each.id) for each in (sent[0], sent[-1])]
    [ledger] = client.core.connection.storage.buckets.all("orders")
    count = len(ledger.segments)
    assert count > 1
    assert [each.ledger for each in found] == [
        LedgerPlace(object=ledger.object_name, segment=number, segments=count) for number in (1, count)
    ]
    assert {each.seals_at for each in found} == {sent[0].deliver_at.replace(hour=1, minute=52, second=0, microsecond=0)}
    memory.advance(hours=1, minutes=45)
    assert client.cancel("orders", sent[1].id)
    memory.advance(minutes=3)
    assert not client.cancel("orders", sent[0].id)
    assert client.get("orders", sent[0].id).ledger == LedgerPlace(object=ledger.object_name)


def recipients(client: Tidewheel, receipt: Receipt) -> dict[str, bool]:
    return {each.name: each.excluded for each in client.get("orders", receipt.id).recipients}


def test_a_status_tells_which_subscriptions_get_a_message_by_their_filters_of_today(memory: MemoryTidewheel) -> None:
    client = topic(memory, "all", "large", retention_days=1)
    client.set_filter("orders", "large", {"amount": [{"numeric": [">=", 1000]}]})
    small = client.send("orders", "x", delay="2h", attributes={"amount": "5"})
    large = client.send("orders", "x", delay="2h", attributes={"amount": "5000", "traceparent": "x"})
    assert recipients(client, small) == {}
    memory.advance(minutes=6)
    assert recipients(client, small) == {"all": False, "large": True}
    assert recipients(client, large) == {"all": False, "large": False}
    assert "large      does not get it" in shell(client, "get", "orders", small.id)
    client.set_filter("orders", "large", {"amount": ["5"]})
    assert recipients(client, small) == {"all": False, "large": False}
    memory.advance(hours=2)
    client.create_subscription("orders", "later")
    assert recipients(client, large) == {"all": False, "large": True, "later": True}
    assert [each.name for each in client.get("orders", large.id).subscriptions] == ["all", "large"]


def test_a_message_that_a_consumer_sends_again_excludes_all_other_subscriptions(memory: MemoryTidewheel) -> None:
    client = topic(memory, "audit", "billing")
    client.set_filter("orders", "billing", {"tidewheel.group": [{"exists": False}]})
    client.send("orders", "x")
    memory.advance(minutes=1)
    [taken] = client.receive("orders", "billing")
    again = Consumer(client, "orders", "billing").retry_later(taken, delay="2h")
    memory.advance(minutes=6)
    assert again is not None and recipients(client, again) == {"audit": True, "billing": False}
    found = (client.get("orders", again.id).message, *client.peek("orders"), *client.find("orders", everything=True))
    assert [each and each.original_id for each in found] == [taken.id] * 3
    assert "original_id" in str(client.get("orders", taken.id).explanation), "nothing leads from it to its retries"


def test_what_no_record_has_is_told_in_words_and_with_exit_code_4(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    sent = client.send("orders", "far", delay="2h", key="k")
    queued = shell(client, "get", "orders", sent.id, code=4)
    assert "meaning" in queued and "still in an ingest queue" in queued and "nobody sent it" in queued
    memory.advance(minutes=6)
    assert "It can be cancelled or moved until its slot is sealed." in shell(client, "get", "orders", sent.id)
    direct = client.send("orders", "soon", delay="10s", key="soon")
    memory.advance(minutes=2)
    gone = json.loads(shell(client, "get", "orders", direct.id, "--json", code=4))
    assert "it was due soon after it was sent" in gone["explanation"] and "original_id" in gone["explanation"]
    client.receive("orders", "billing")
    taken = shell(client, "get", "orders", direct.id)
    assert "claimed by" in taken and "nobody sent it" not in taken and "original_id" in taken


def test_a_message_can_surely_be_cancelled_until_a_consumer_has_it_once_all_readers_claim(
    memory: MemoryTidewheel,
) -> None:
    client = topic(memory, "billing", "audit")
    sent = client.send("orders", "x", delay="2h", key="k")
    memory.advance(minutes=6)
    assert "until its slot is sealed" in client.get("orders", sent.id).explanation
    client.receive("orders", "billing")
    memory.advance(minutes=110)
    sealed = client.get("orders", sent.id)
    assert sealed.claimable and not sealed.can_be_stopped and "cancelled until" not in sealed.explanation
    client.receive("orders", "audit")
    sealed = client.get("orders", sent.id)
    assert sealed.can_be_stopped and "It can be cancelled until a consumer has it." in sealed.explanation


def test_a_status_of_a_waiting_message_comes_though_a_subscription_cannot_be_read(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory)
    sent = client.send("orders", "x", delay="2h")
    memory.advance(minutes=6)
    damaged = CorruptMetadata("subscription audit is damaged")
    original = memory.service.subscriptions.all

    def listed(topic: str, unreadable: dict[str, Exception]) -> list[SubscriptionState]:
        unreadable["audit"] = damaged
        return original(topic, unreadable)

    monkeypatch.setattr(memory.service.subscriptions, "all", listed)
    assert (state(client, sent), recipients(client, sent)) == ("waiting", {"billing": False})


def test_a_message_held_back_for_a_broken_queue_is_not_called_sent(memory: MemoryTidewheel) -> None:
    client = topic(memory, inline_rows=1)
    sent = client.send_many("orders", [Message(body=f"{i}", delay="2h") for i in range(5)])
    memory.advance(minutes=6)
    memory.sqs.delete_queue(QueueUrl=client.subscriptions("orders")[0].queue_url)
    memory.advance(hours=2)
    assert {state(client, each) for each in sent} == {"sealed"}
    assert places(client, sent[0]) == {"billing": "parked"}


# ---- peek


def test_bytes_come_back_as_bytes(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    client.send("orders", b"\x00\xff", delay="2h")
    client.send("orders", "é", delay="3h")
    memory.advance(minutes=6)
    first, second = client.peek("orders")
    assert (first.bytes(), second.bytes()) == (b"\x00\xff", "é".encode())


# ---- ledgers


def test_ledgers_are_listed_by_their_first_slots_page_by_page(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    sent = []
    for days in (3, 1, 2):
        sent.append(client.send_many("orders", [Message(body="x", delay=days * DAY_S + i) for i in range(5)]))
        memory.advance(minutes=6)
    first, second = client.ledgers("orders", 2)
    assert [(first.messages, second.messages)] == [(5, 5)]
    assert (first.first_due_at, first.last_due_at) == (sent[1][0].deliver_at, sent[1][-1].deliver_at)
    assert second.first_due_at == sent[2][0].deliver_at
    [third] = client.ledgers("orders", after=second.after)
    assert third.first_due_at == sent[0][0].deliver_at and client.ledgers("orders", after=third.after) == []
    stored = {each.object_name: each.size_bytes for each in client.core.connection.storage.buckets.all("orders")}
    assert {each.object: each.size_bytes for each in (first, second, third)} == stored


def test_ledgers_of_one_first_slot_are_all_listed_and_one_that_cannot_be_read_hides_no_other(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory)
    for _ in range(3):
        client.send("orders", "x", deliver_at=memory.now() + timedelta(days=2))
        memory.advance(minutes=1)
        memory.advance(minutes=5)
    seen: list[str] = []
    while page := client.ledgers("orders", 1, after=seen[-1] if seen else None):
        seen += [each.after for each in page]
    assert seen == [each.id for each in memory.service.buckets.all("orders")] and len(seen) == 3
    decode = items.decode_bucket

    def damaged(item: Any) -> Bucket:
        found = decode(item)
        if found.id == seen[1]:
            raise CorruptMetadata("bucket is damaged")
        return found

    monkeypatch.setattr(items, "decode_bucket", damaged)
    assert [each.after for each in client.ledgers("orders")] == [seen[0], seen[2]]


def test_a_large_ledgers_times_are_those_of_its_slots(memory: MemoryTidewheel) -> None:
    client = topic(memory, segment_rows=1)
    sent = client.send_many(
        "orders", [Message(body="x" * (1 + i * i % 97), delay=DAY_S + i * i % 3600) for i in range(500)]
    )
    memory.advance(minutes=6)
    [found] = client.ledgers("orders")
    [bucket] = memory.service.buckets.all("orders")
    assert not bucket.segments
    due = [each.deliver_at for each in sent]
    assert timedelta() <= min(due) - found.first_due_at < timedelta(minutes=5)
    assert timedelta() <= max(due) - found.last_due_at < timedelta(minutes=5)


# ---- without pyarrow


def in_python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


MADE = """
import sys
from tidewheel import ExtraMissing, ServiceSettings, Tidewheel
from tidewheel.clock import SystemClock
from tidewheel.memory import MemoryService
tw = Tidewheel(storage=MemoryService.at(SystemClock()))
tw.create_topic("orders")
"""


def test_a_client_loads_no_pyarrow_until_it_reads_a_ledger() -> None:
    program = f"{MADE}print('pyarrow' in sys.modules)\nprint(tw.peek('orders'))\nprint('pyarrow' in sys.modules)"
    assert in_python(program).split("\n")[:3] == ["False", "[]", "True"]


# ---- the command line


def shell(client: Tidewheel, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), obj=Here(made=client))
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def test_the_command_line_shows_a_message_and_the_next_ones(memory: MemoryTidewheel) -> None:
    client = topic(memory, retention_days=1)
    sent = client.send("orders", "a [red]body[/] " + "x" * 100, delay="2h", key="k", attributes={"kind": "x"})
    memory.advance(minutes=6)
    shown = shell(client, "get", "orders", sent.id)
    for expected in ("state", "waiting", "2026-01-01 02:00:00.000 UTC", "key", "kind=x", "a [red]body[/]"):
        assert expected in shown
    found = json.loads(shell(client, "get", "orders", sent.id, "--json"))
    assert (found["state"], found["message"]["key"], found["moved_to"]) == ("waiting", "k", None)
    assert (found["seals_at"], found["ledger"]["segment"]) == ("2026-01-01T01:52:00+00:00", 1)
    assert found["recipients"] == [{"name": "billing", "filter_policy": None, "excluded": False}]
    table = shell(client, "peek", "orders", "-n", "3")
    assert sent.id in table and "2026-01-01 02:00:00" in table and "a [red]body[/] xxx" in table
    [listed] = json.loads(shell(client, "peek", "orders", "--json"))
    assert listed == found["message"]
    assert "nothing waits" in shell(client, "peek", "orders", "--after", sent.id)
    assert "nothing waits" in shell(client, "peek", "orders", "--after", "2026-01-02T00:00:00Z")
    memory.advance(hours=1, minutes=50)
    assert "sent 2026-01-01 01:52:43" in shell(client, "get", "orders", sent.id)


# ---- damage


def two_ledgers(stack: MemoryTidewheel) -> tuple[Tidewheel, str]:
    """Sends a message each to two ledgers. Returns the first ledger."""
    client = topic(stack)
    for body in ("first", "second"):
        client.send("orders", body, delay="2h")
        stack.advance(minutes=6)
    first, _ = client.core.connection.storage.buckets.all("orders")
    return client, first.object_name


@pytest.mark.parametrize("damage", ["the object is gone", "the object is rubbish", "the item is rubbish"])
def test_peek_shows_what_can_be_read_and_names_the_ledger_that_cannot(memory: MemoryTidewheel, damage: str) -> None:
    client, bad = two_ledgers(memory)
    if damage == "the object is gone":
        memory.service.objects.delete([bad])
    elif damage == "the object is rubbish":
        memory.service.objects.put(bad, b"rubbish" * 1000)
    else:
        table: Any = memory.service.buckets._table
        [item] = [each for each in memory.service.dynamodb.items("T#orders") if each.get("object_name") == {"S": bad}]
        bad = item["sk"]["S"].partition("#")[2]
        rubbish = {"pk": item["pk"], "sk": item["sk"], "data": {"B": b"rubbish"}}
        table._client.put_item(TableName=table._name, Item=rubbish)
    with pytest.raises(PeekIncomplete, match=bad) as caught:
        client.peek("orders")
    assert len(caught.value.failures) == 1
    [other] = caught.value.messages
    assert isinstance(other, WaitingMessage) and other.body in ("first", "second")

    done = CliRunner().invoke(app, ["peek", "orders"], obj=Here(made=client))
    assert done.exit_code == 1 and other.id in done.stdout
    assert done.stderr.startswith("tidewheel: 1 ledgers of topic 'orders' cannot be read") and bad in done.stderr
    listed = CliRunner().invoke(app, ["peek", "orders", "--json"], obj=Here(made=client))
    assert [each["id"] for each in json.loads(listed.stdout)] == [other.id]


def test_stats_tell_of_damaged_messages_and_a_line_of_each_topic_does(memory: MemoryTidewheel) -> None:
    client, bad = two_ledgers(memory)
    client.create_topic("empty")
    assert client.stats("orders").damaged == 0
    memory.service.objects.put(bad, b"rubbish" * 1000)
    memory.advance(hours=3)
    found = client.stats("orders")
    assert (found.damaged, found.waiting, len(client.damaged("orders"))) == (1, 0, 1)
    assert "damaged     1 (see tidewheel damaged list orders)" in shell(client, "stats", "orders")
    heading, empty, orders = shell(client, "stats").splitlines()
    assert heading.split("  ")[0] == "topic" and heading.split()[-2:] == ["damaged", "stopped"]
    assert empty.split()[0] == "empty" and empty.split()[-2:] == ["0", "0"]
    assert orders.split()[0] == "orders" and orders.split()[-2:] == ["1", "0"]


def test_all_topics_are_shown_though_one_cannot_be_read(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidewheel.cli.inspection.MOST_TOPICS", 3)
    client = memory.client()
    for name in ("a", "b", "c", "d", "e"):
        client.create_topic(name)

    def stats(name: str) -> TopicStats:
        if name == "b":
            raise CorruptMetadata("plan 17 is damaged")
        return Tidewheel.stats(client, name)

    monkeypatch.setattr(client, "stats", stats)
    done = CliRunner().invoke(app, ["stats"], obj=Here(made=client))
    assert done.exit_code == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["topic", "a", "c", "b:", "and"]
    assert "b: cannot be read: plan 17 is damaged\nand 2 more topics" in done.stdout
    listed = CliRunner().invoke(app, ["stats", "--json"], obj=Here(made=client))
    found = json.loads(listed.stdout)
    assert [each["topic"] for each in found["topics"]] == ["a", "c"] and list(found["failures"]) == ["b"]
