"""The scenario to record. All stories, each for a kind of data, run in one stack and stop in the middle.

Each story has a topic of its own. Its bodies differ, so that what must come is told by due time and body.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from tests.compatibility.aftermath import counted, digest, taken
from tests.compatibility.recording import Story, settings_of
from tidewheel import Tidewheel
from tidewheel.aws.service import Service
from tidewheel.flows.delivery import parking
from tidewheel.flows.delivery.commit import commit_and_schedule
from tidewheel.flows.delivery.ingest import pack_rows
from tidewheel.ledger.bucket import bucket_id, content_id
from tidewheel.ledger.ledger import encode_ledger
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message, Receipt
from tidewheel.model.object_names import ledger_name
from tidewheel.model.pack import decode_pack, packs
from tidewheel.model.subscription_state import State
from tidewheel.model.validation import check_message
from tidewheel.storage import plans as dynamodb_plans
from tidewheel.storage.buckets import Commit

START = datetime(2026, 1, 1, tzinfo=UTC)
STOPPED = START + timedelta(hours=6)
SECONDS_A_BATCH = 301
"""The bulk queue's window, and one: what is sent is in a ledger by then."""


@dataclass(slots=True)
class Script:
    """A stack in the middle of its stories, and the expected messages of each subscription."""

    stack: LocalTidewheel
    expected: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    steps: list[list[Any]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    numbers: random.Random = field(default_factory=lambda: random.Random(1))

    @property
    def client(self) -> Tidewheel:
        return self.stack.client()

    def topic(self, name: str, *subscriptions: str, **settings: Any) -> None:
        """Creates a topic with subscriptions. Collections are rare, to save work in the test."""
        self.client.create_topic(name, **{"collect_interval_s": 86_400, **settings})
        for each in subscriptions or ("billing",):
            self.client.create_subscription(name, each)
            self.expected[f"{name}/{each}"] = []

    def send(self, topic: str, body: str | bytes, due: datetime, *to: str, **options: Any) -> Receipt:
        """Sends a message, expected at some subscriptions or else at "billing"."""
        receipt = self.client.send(topic, body, deliver_at=due, **options)
        text = body if isinstance(body, str) else base64.b64encode(body).decode()
        for each in to or ("billing",):
            self.expected[f"{topic}/{each}"].append((receipt.deliver_at_ms, digest(text)))
        return receipt

    def lost(self, topic: str, body: str, due: datetime, **options: Any) -> Receipt:
        """Sends a message without a receiver."""
        return self.client.send(topic, body, deliver_at=due, **options)

    def later(self, after: timedelta, verb: str, *arguments: str) -> None:
        """Notes a user's action after the recording."""
        self.steps.append([round((STOPPED + after).timestamp() * 1000), verb, *arguments])

    def store(self) -> None:
        """Waits until all sent messages are in a ledger."""
        self.stack.advance(seconds=SECONDS_A_BATCH)

    def service(self) -> Service:
        """The stack's ports, for actions beyond a user's client."""
        return Service.of(settings_of(self.stack), self.stack.session, self.stack.clock)

    def receive(self, whom: str) -> list[tuple[int, str]]:
        """Receives and returns the messages of "<topic>/<subscription>". Received messages are not expected again."""
        came = list(counted(taken(self.stack, whom)).elements())
        for each in came:
            self.expected[whom].remove(each)
        return came

    def story(self) -> Story:
        """Returns the expected aftermath of the recording, without all messages received until now."""
        for whom in self.expected:
            self.receive(whom)
        return Story(
            expected={whom: sorted(each) for whom, each in self.expected.items()},
            steps=sorted(self.steps),
            gone=self.gone,
        )


@contextmanager
def failing(stack: LocalTidewheel, function: str, name: str) -> Iterator[None]:
    """Makes calls of a function fail, to keep its work in place."""
    [handler] = [each for each in stack._handlers if each.spec.folder == function]
    with patch.object(handler.module, name, side_effect=RuntimeError("stopped for the recording")):
        yield


def drive(stack: LocalTidewheel) -> Story:
    """Tells all stories from START to STOPPED, in the order of time."""
    script = Script(stack)
    with patch.object(parking, "MAX_INLINE_PARK_BYTES", 4_000):
        with patch.object(dynamodb_plans, "MAX_INLINE_MANIFEST_BYTES", 100):
            first_hours(script)
        stack.advance_to(STOPPED - timedelta(minutes=20))
        with failing(stack, "deliver", "do_job"):
            last_minutes(script)
            return script.story()


def first_hours(script: Script) -> None:
    """Runs the stories with an end long before the recording."""
    waiting(script)
    merged(script)
    keys(script)
    recurring(script)
    purged(script)
    large(script)
    kept(script)
    script.topic("opened", inline_rows=1, part_rows=3)
    paused(script)
    broken(script)
    claimed(script)
    script.topic("sealed")
    imported(script)
    script.topic("idle")
    script.topic("deleting")
    script.gone.append("deleting")
    for number in range(6):
        script.send("sealed", f"sealed {number}", STOPPED + timedelta(minutes=10, seconds=40 * number))
        script.send("opened", f"opened {number}", STOPPED + timedelta(minutes=1, seconds=40 * number))
        script.send("opened", f"opened later {number}", STOPPED + timedelta(hours=number + 1))
    script.store()


def last_minutes(script: Script) -> None:
    """Runs the stories still under way at the recording. The deliver function does no work any more."""
    script.stack.advance_to(STOPPED - timedelta(minutes=2))
    resumed(script)
    replayed(script)
    script.lost("deleting", "deleted with its topic", STOPPED + timedelta(hours=2))
    script.client.delete_topic("deleting")
    script.stack.advance_to(STOPPED)
    state = script.service().topic_states.read("sealed")
    assert state is not None
    script.service().topic_states.seal(state, round((STOPPED + timedelta(minutes=15)).timestamp()) // 300)
    on_the_way(script)


# ---- at rest
def waiting(script: Script) -> None:
    """Ledgers up to two weeks ahead, with bytes, a group, a filter, an expiry, and cancelled and moved messages."""
    script.topic("waiting")
    script.client.create_subscription(
        "waiting", "invoices", filter_policy={"kind": ["invoice"], "sum": [{"exists": True}]}
    )
    script.expected["waiting/invoices"] = []
    for number in range(24):
        due = STOPPED + timedelta(hours=script.numbers.uniform(0.5, 24 * 8))
        to = ("billing", "invoices") if number % 3 == 0 else ("billing",)
        attributes = {"kind": "invoice" if number % 3 == 0 else "order", "sum": str(number)}
        script.send("waiting", f"waits {number}", due, *to, attributes=attributes)
    script.send("waiting", b"\x00\xff bytes", STOPPED + timedelta(days=3))
    script.send("waiting", "in two weeks, \u00fc\u4e16", STOPPED + timedelta(days=14))
    script.send("waiting", "expires long after", STOPPED + timedelta(days=2), expires_in="1h")
    script.send("waiting", "of a group", STOPPED + timedelta(days=7), group="tenant-1")
    early = script.lost("waiting", "cancelled before its ledger", STOPPED + timedelta(days=1))
    assert script.client.cancel("waiting", early.id)
    script.store()
    cancelled = script.lost("waiting", "cancelled in its ledger", STOPPED + timedelta(days=4))
    moved = script.lost("waiting", "moved", STOPPED + timedelta(days=5))
    to_cancel = script.lost("waiting", "cancelled after the recording", STOPPED + timedelta(days=6))
    script.store()
    assert script.client.cancel("waiting", cancelled.id)
    again = script.client.reschedule("waiting", moved.id, deliver_at=STOPPED + timedelta(days=1))
    assert again
    script.expected["waiting/billing"].append(
        (round((STOPPED + timedelta(days=1)).timestamp() * 1000), digest("moved"))
    )
    script.later(timedelta(days=1, hours=1), "cancel", "waiting", to_cancel.id)


def merged(script: Script) -> None:
    """A merged ledger beside small ledgers. No collection takes the old ledgers from the trash for a day."""
    script.topic("merged", max_buckets=8)
    for number in range(14):
        script.send("merged", f"merged {number}", STOPPED + timedelta(days=2, hours=7 * number))
        script.store()


def keys(script: Script) -> None:
    """Keys with a dropped duplicate, a replacement, a cancel, and another cancel after the recording."""
    script.topic("keys")
    script.send("keys", "first", STOPPED + timedelta(hours=3), key="kept")
    script.lost("keys", "to be replaced", STOPPED + timedelta(hours=4), key="replaced")
    script.lost("keys", "cancelled by its key", STOPPED + timedelta(hours=5), key="cancelled")
    script.lost("keys", "cancelled by its key later", STOPPED + timedelta(hours=6), key="cancelled later")
    script.store()
    script.lost("keys", "a duplicate", STOPPED + timedelta(hours=3), key="kept")
    script.send("keys", "the replacement", STOPPED + timedelta(hours=7), key="replaced", replace=True)
    script.store()
    assert script.client.cancel("keys", key="cancelled")
    script.later(timedelta(hours=1), "cancel_key", "keys", "cancelled later")


def recurring(script: Script) -> None:
    """A daily message at five and at nine, until its end after the recording."""
    script.topic("recurring")
    script.client.send_recurring("recurring", "daily", "good morning", cron="0 5,9 * * *", attributes={"kind": "hello"})
    for day, hour in product(range(3), (5, 9)):
        due = START.replace(hour=hour) + timedelta(days=day)
        script.expected["recurring/billing"].append((round(due.timestamp() * 1000), digest("good morning")))
    script.later(timedelta(days=2, hours=6), "cancel_recurring", "recurring", "daily")


def purged(script: Script) -> None:
    """A purged range of time, with unpurged messages in the same ledger."""
    script.topic("purged")
    script.lost("purged", "purged", STOPPED + timedelta(hours=30))
    script.send("purged", "due before the range", STOPPED + timedelta(hours=10))
    script.send("purged", "due after the range", STOPPED + timedelta(hours=50))
    script.store()
    start, end = STOPPED + timedelta(hours=24), STOPPED + timedelta(hours=48)
    script.client.purge("purged", start=start, end=end)
    script.send("purged", "sent after the purge", STOPPED + timedelta(hours=31))


def large(script: Script) -> None:
    """A body in S3, too large for SQS."""
    script.topic("large")
    script.send("large", "large " * 200_000, STOPPED + timedelta(days=8))


def kept(script: Script) -> None:
    """Ledgers kept for replay after delivery."""
    script.topic("kept", retention_s=86_400, collect_interval_s=3_600, inline_rows=1)
    for number in range(4):
        script.send("kept", f"kept {number}", START + timedelta(hours=2, minutes=number))
    script.send("kept", "kept and still waiting", STOPPED + timedelta(days=9))


def paused(script: Script) -> None:
    """Two paused subscriptions, with plans behind their cursors and with small and large parks of direct messages."""
    for topic in ("paused", "resumed"):
        script.topic(topic)
        for number in range(3):
            script.send(topic, f"{topic} {number}", START + timedelta(hours=3, minutes=number))
        script.send(topic, f"{topic} and still waiting", STOPPED + timedelta(days=1))
        script.store()
        script.client.pause(topic, "billing")
        now = script.stack.now()
        script.send(topic, f"{topic} direct", now + timedelta(minutes=2), group="tenant-1")
        script.stack.advance(minutes=4)
        noise = script.numbers.randbytes(6_000).hex()
        script.send(topic, f"{topic} direct and large {noise}", script.stack.now() + timedelta(minutes=2))
        script.stack.advance(minutes=4)
    script.later(timedelta(hours=1), "resume", "paused", "billing")


def broken(script: Script) -> None:
    """A subscription without its queue. Its work is parked until the queue is made again."""
    script.topic("broken")
    [subscription] = script.client.subscriptions("broken")
    script.stack.session.client("sqs").delete_queue(QueueUrl=subscription.queue_url)
    for number in range(3):
        script.send("broken", f"broken {number}", script.stack.now() + timedelta(hours=1, minutes=number))
    script.send("broken", "broken direct", script.stack.now() + timedelta(minutes=2))
    script.stack.advance(hours=2)
    [subscription] = script.client.subscriptions("broken")
    assert subscription.state is State.BROKEN
    script.later(timedelta(hours=2), "create_queue", subscription.queue_url.rpartition("/")[2])


def claimed(script: Script) -> None:
    """A topic whose messages are claimed, with a parked message that was cancelled late."""
    script.topic("claimed", cancel_until="consumed")
    script.send("claimed", "claimed", STOPPED + timedelta(days=2))
    script.client.pause("claimed", "billing")
    late = script.lost("claimed", "cancelled in its park", script.stack.now() + timedelta(minutes=2))
    script.send("claimed", "stays in its park", script.stack.now() + timedelta(minutes=2))
    script.store()
    assert script.client.cancel("claimed", late.id)
    script.later(timedelta(hours=1), "resume", "claimed", "billing")


def imported(script: Script) -> None:
    """A ledger committed by an import, and the mark of the import's commit."""
    script.topic("imported")
    service, now_ms = script.service(), script.stack.clock.now_ms()
    state = service.topic_states.read("imported")
    assert state is not None
    due = STOPPED + timedelta(hours=12)
    message = check_message(Message(body="imported", deliver_at=due), script.client.core.ids, now_ms)
    [(_, data)] = packs("imported", state.generation, now_ms, [message])
    rows: pa.Table = pack_rows(decode_pack(data, now_ms))
    ledger = encode_ledger(rows, topic="imported", generation=state.generation, slot_ms=state.slot_ms)
    id = bucket_id(round(due.timestamp() * 1000) // state.slot_ms, content_id(ledger.data))
    name = ledger_name("imported", id, state.slot_ms, service.objects.new_attempt())
    service.objects.put(name, ledger.data)
    commit = commit_and_schedule(service, state, ledger.summary.bucket(id, name), "an-import#0")
    assert commit is Commit.COMMITTED
    script.expected["imported/billing"].append((round(due.timestamp() * 1000), digest("imported")))


# ---- under way
def resumed(script: Script) -> None:
    """A resume whose job, and the draining of a park, are in the work queue."""
    script.client.resume("resumed", "billing")
    service = script.service()
    [park, *_] = service.parks.all("resumed")
    service.queues.enqueue_parks([park.key])


def replayed(script: Script) -> None:
    """A replay with its parts in the work queue. All delivered messages come again."""
    came = script.receive("kept/billing")
    assert len(came) == 4
    script.client.replay("kept", "billing", start=START + timedelta(hours=1), end=START + timedelta(hours=5))
    script.expected["kept/billing"] += came


def on_the_way(script: Script) -> None:
    """Packs of both versions in the urgent and the bulk queue, which ingest has not seen."""
    script.send("waiting", "a pack in the urgent queue", STOPPED + timedelta(minutes=30))
    script.send("waiting", "a pack in the bulk queue", STOPPED + timedelta(days=10))
    script.send("waiting", "with options, urgent", STOPPED + timedelta(minutes=25), expires_in="1h")
    script.send("sealed", "the first of a group, in the bulk queue", STOPPED + timedelta(days=12), group="tenant-1")
    script.send("keys", "with a key, in the bulk queue", STOPPED + timedelta(days=11), key="on its way")
    script.lost("keys", "a duplicate on its way", STOPPED + timedelta(days=11), key="kept")
