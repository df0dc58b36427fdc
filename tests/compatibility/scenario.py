"""The scenario to record. All stories, each for a kind of data, run in one service and stop in the middle.

Each story has a topic of its own. Its bodies differ, so that what must come is told by due time and body.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from unittest.mock import patch

from botocore.exceptions import ClientError

from tidewheel import Tidewheel
from tidewheel.errors import UnknownTopic
from tidewheel.flows.delivery import parking
from tidewheel.flows.delivery.commit import commit_and_schedule
from tidewheel.ledger.bucket import bucket_id, content_id
from tidewheel.ledger.ledger import encode_ledger
from tidewheel.ledger.rows import pack_rows
from tidewheel.local import MemoryTidewheel
from tidewheel.local.memory_functions import loaded
from tidewheel.model.message import Message, Receipt
from tidewheel.model.object_names import ledger_name
from tidewheel.model.pack import decode_pack, packs
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.subscription_state import State
from tidewheel.model.validation import check_message
from tidewheel.storage import plans
from tidewheel.storage.buckets import Commit

START = datetime(2026, 1, 1, tzinfo=UTC)
STOPPED = START + timedelta(hours=6)
SECONDS_A_BATCH = 301
"""The bulk queue's window, and one: what is sent is in a ledger by then."""


def told(messages: Iterable[ReceivedMessage]) -> list[tuple[int, str]]:
    """Returns when each message was due, and the digest of its body."""
    return [(ms_of(each.deliver_at), digest(each.body)) for each in messages]


def digest(body: str) -> str:
    """Returns the digest of a received body for a recording."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def ms_of(time: datetime) -> int:
    """Returns Unix milliseconds."""
    return round(time.timestamp() * 1000)


def taken(stack: MemoryTidewheel, whom: str) -> list[ReceivedMessage]:
    """Takes all receivable messages of "<topic>/<subscription>", or none if the topic or the queue is gone."""
    try:
        return stack.receive(*whom.split("/"))
    except UnknownTopic:
        return []
    except ClientError as error:
        if error.response["Error"]["Code"] != "AWS.SimpleQueueService.NonExistentQueue":
            raise
        return []


@dataclass(slots=True)
class Script:
    """A service in the middle of its stories, and the expected messages of each subscription."""

    stack: MemoryTidewheel
    expected: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    steps: list[list[Any]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    @property
    def client(self) -> Tidewheel:
        return self.stack.client()

    def topic(self, name: str, **settings: Any) -> None:
        """Creates a topic with a subscription. Collections are rare, to save work in the test."""
        self.client.create_topic(name, **{"collect_interval_s": 86_400, **settings})
        self.client.create_subscription(name, "billing", reader="tidewheel")
        self.expected[f"{name}/billing"] = []

    def comes(self, topic: str, body: str, due: datetime) -> None:
        """Expects a message."""
        self.expected[f"{topic}/billing"].append((ms_of(due), digest(body)))

    def send(self, topic: str, body: str | bytes, due: datetime, **options: Any) -> Receipt:
        """Sends a message that must come."""
        self.comes(topic, body if isinstance(body, str) else base64.b64encode(body).decode(), due)
        return self.lost(topic, body, due, **options)

    def lost(self, topic: str, body: str | bytes, due: datetime, **options: Any) -> Receipt:
        """Sends a message that must not come."""
        return self.client.send(topic, body, deliver_at=due, **options)

    def later(self, hours: float, verb: str, *arguments: str) -> None:
        """Notes a user's action after the recording."""
        self.steps.append([ms_of(STOPPED + timedelta(hours=hours)), verb, *arguments])

    def store(self) -> None:
        """Waits until all sent messages are in a ledger."""
        self.stack.advance(seconds=SECONDS_A_BATCH)

    def receive(self, whom: str) -> list[tuple[int, str]]:
        """Receives and returns the messages of a subscription. Received messages are not expected again."""
        came = told(taken(self.stack, whom))
        for each in came:
            self.expected[whom].remove(each)
        return came


def drive(stack: MemoryTidewheel) -> Script:
    """Tells all stories from START to STOPPED, in the order of time. At the end, deliver does no work any more."""
    script = Script(stack)
    stopped = RuntimeError("stopped for the recording")
    with patch.object(parking, "MAX_INLINE_PARK_BYTES", 4_000):
        with patch.object(plans, "MAX_INLINE_MANIFEST_BYTES", 100):
            for story in (waiting, merged, keys, recurring, purged, kept, paused, broken, claimed, imported, due_soon):
                story(script)
        stack.advance_to(STOPPED - timedelta(minutes=20))
        with patch.object(loaded("deliver"), "do_task", side_effect=stopped):
            on_the_way(script)
            for whom in script.expected:
                script.receive(whom)
    return script


# ---- at rest
def waiting(script: Script) -> None:
    """Ledgers up to two weeks ahead, with bytes, a group, a filter, an expiry, and cancelled and moved messages."""
    script.topic("waiting")
    script.client.create_subscription("waiting", "invoices", filter_policy={"kind": ["invoice"]})
    script.expected["waiting/invoices"] = []
    for number in range(8):
        due = STOPPED + timedelta(hours=0.5 + 23 * number)
        script.send("waiting", f"waits {number}", due, attributes={"kind": "order" if number % 2 else "invoice"})
    script.expected["waiting/invoices"] += script.expected["waiting/billing"][::2]
    script.send("waiting", b"\x00\xff bytes", STOPPED + timedelta(days=3))
    script.send("waiting", "in two weeks, \u00fc\u4e16", STOPPED + timedelta(days=14))
    script.send("waiting", "expires long after", STOPPED + timedelta(days=2), expires_in="1h")
    script.send("waiting", "of a group", STOPPED + timedelta(days=7), group="tenant-1")
    script.send("waiting", "large " * 200_000, STOPPED + timedelta(days=8))
    cancelled, moved, to_cancel = (
        script.lost("waiting", body, STOPPED + timedelta(days=4)) for body in ("cancelled", "moved", "to be cancelled")
    )
    script.store()
    assert script.client.cancel("waiting", cancelled.id)
    assert script.client.reschedule("waiting", moved.id, deliver_at=STOPPED + timedelta(days=1))
    script.comes("waiting", "moved", STOPPED + timedelta(days=1))
    script.later(25, "cancel", "waiting", to_cancel.id)


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
    for key in ("replaced", "cancelled", "cancelled later"):
        script.lost("keys", key, STOPPED + timedelta(hours=4), key=key)
    script.store()
    script.lost("keys", "a duplicate", STOPPED + timedelta(hours=3), key="kept")
    script.send("keys", "the replacement", STOPPED + timedelta(hours=7), key="replaced", replace=True)
    script.store()
    assert script.client.cancel("keys", key="cancelled")
    script.later(1, "cancel_key", "keys", "cancelled later")


def recurring(script: Script) -> None:
    """A daily message at five and at nine, until its end after the recording, and one that ended before it came."""
    script.topic("recurring")
    script.client.send_recurring("recurring", "daily", "good morning", cron="0 5,9 * * *", attributes={"kind": "hello"})
    for hours in (5, 9, 29, 33, 53):
        script.comes("recurring", "good morning", START + timedelta(hours=hours))
    script.later(48, "cancel_recurring", "recurring", "daily")
    script.client.send_recurring("recurring", "ended", "a happy new year", cron="0 0 1 1 *")
    script.client.cancel_recurring("recurring", "ended")


def purged(script: Script) -> None:
    """A purged range of time, with unpurged messages in the same ledger."""
    script.topic("purged")
    script.lost("purged", "purged", STOPPED + timedelta(hours=30))
    script.send("purged", "due before the range", STOPPED + timedelta(hours=10))
    script.store()
    script.client.purge("purged", start=STOPPED + timedelta(hours=24), end=STOPPED + timedelta(hours=48))
    script.send("purged", "sent after the purge", STOPPED + timedelta(hours=31))


def kept(script: Script) -> None:
    """Ledgers kept for replay after delivery, and a checkpoint."""
    script.topic("kept", retention_days=1, collect_interval_s=3_600, inline_rows=1)
    for number in range(4):
        script.send("kept", f"kept {number}", START + timedelta(hours=2, minutes=number))
    script.send("kept", "kept and still waiting", STOPPED + timedelta(days=9))


def paused(script: Script) -> None:
    """Two paused subscriptions, with plans behind their cursors and with small and large parks of direct messages."""
    for topic in ("paused", "resumed"):
        script.topic(topic)
        script.send(topic, f"{topic} in a plan", START + timedelta(hours=3))
        script.send(topic, f"{topic} and still waiting", STOPPED + timedelta(days=1))
        script.store()
        script.client.pause(topic, "billing")
        for body in ("direct", f"direct and large {Random(1).randbytes(6_000).hex()}"):
            script.send(topic, body, script.stack.now() + timedelta(minutes=2), group="tenant-1")
            script.stack.advance(minutes=4)
    script.later(1, "resume", "paused", "billing")


def broken(script: Script) -> None:
    """A subscription without its queue. Its work is parked until the queue is made again."""
    script.topic("broken")
    [subscription] = script.client.subscriptions("broken")
    script.stack.sqs.delete_queue(QueueUrl=subscription.queue_url)
    script.send("broken", "broken", script.stack.now() + timedelta(hours=1))
    script.send("broken", "broken direct", script.stack.now() + timedelta(minutes=2))
    script.stack.advance(hours=2)
    assert script.client.subscriptions("broken")[0].state is State.BROKEN
    script.later(2, "create_queue", subscription.queue_url.rpartition("/")[2])


def claimed(script: Script) -> None:
    """A topic whose messages are claimed, with a parked message that was cancelled late."""
    script.topic("claimed", claims="all")
    script.send("claimed", "claimed", STOPPED + timedelta(days=2))
    script.client.pause("claimed", "billing")
    late = script.lost("claimed", "cancelled in its park", script.stack.now() + timedelta(minutes=2))
    script.send("claimed", "stays in its park", script.stack.now() + timedelta(minutes=2))
    script.store()
    assert script.client.cancel("claimed", late.id)
    script.later(1, "resume", "claimed", "billing")


def imported(script: Script) -> None:
    """A ledger committed by an import, and the mark of the import's commit."""
    script.topic("imported")
    service, now_ms = script.stack.service, script.stack.clock.now_ms()
    state = service.topic_states.read("imported")
    assert state is not None
    due = STOPPED + timedelta(hours=12)
    message = check_message(Message(body="imported", deliver_at=due), script.client.core.ids, now_ms)
    [(_, data)] = packs("imported", state.generation, now_ms, [message])
    rows = pack_rows(decode_pack(data, now_ms))
    ledger = encode_ledger(rows, topic="imported", generation=state.generation, slot_ms=state.slot_ms)
    id = bucket_id(ms_of(due) // state.slot_ms, content_id(ledger.data))
    name = ledger_name("imported", id, state.slot_ms, service.objects.new_attempt())
    service.objects.put(name, ledger.data)
    bucket = ledger.summary.bucket(id, name)
    assert commit_and_schedule(service, state, bucket, "an-import#0") is Commit.COMMITTED
    script.comes("imported", "imported", due)


def due_soon(script: Script) -> None:
    """Messages whose slots are sealed, or whose delivery is open, at the recording. Topics that are idle or deleted."""
    script.topic("opened", inline_rows=1, part_rows=3)
    for topic in ("sealed", "idle", "deleting"):
        script.topic(topic)
    for number in range(6):
        script.send("sealed", f"sealed {number}", STOPPED + timedelta(minutes=10, seconds=40 * number))
        script.send("opened", f"opened {number}", STOPPED + timedelta(minutes=1, seconds=40 * number))
    script.store()


# ---- under way
def on_the_way(script: Script) -> None:
    """A resume, a drain and a replay in the work queue, a deletion, a seal, and packs that ingest has not seen."""
    service = script.stack.service
    script.stack.advance_to(STOPPED - timedelta(minutes=2))
    script.client.resume("resumed", "billing")
    service.queues.enqueue_parks([service.parks.all("resumed")[0].key])
    came = script.receive("kept/billing")
    assert len(came) == 4
    script.client.replay("kept", "billing", start=START + timedelta(hours=1), end=START + timedelta(hours=5))
    script.expected["kept/billing"] += came
    script.lost("deleting", "deleted with its topic", STOPPED + timedelta(hours=2))
    script.client.delete_topic("deleting")
    script.gone.append("deleting")
    script.stack.advance_to(STOPPED)
    state = service.topic_states.read("sealed")
    assert state is not None
    service.topic_states.seal(state, ms_of(STOPPED + timedelta(minutes=15)) // 300_000)
    script.send("waiting", "a pack in the urgent queue", STOPPED + timedelta(minutes=30), expires_in="1h")
    script.send("waiting", "a pack in the bulk queue", STOPPED + timedelta(days=10), group="tenant-1")
    script.lost("keys", "a duplicate on its way", STOPPED + timedelta(days=11), key="kept")
