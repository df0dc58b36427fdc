"""Runs one scenario, which sends, listens and waits, and reports sent and received messages to the oracle.

A stage is a service of the artifact's scenario, too.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.artifact.oracle import Arrival, Oracle, Reader
from tests.artifact.scenario import COMMITS
from tests.e2e.cloud import Cloud
from tidewheel.client.consumer import Consumer
from tidewheel.errors import TidewheelError
from tidewheel.model.message import Message

if TYPE_CHECKING:
    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.model.message import Receipt

SLOT_S, LOOKAHEAD_S = 60, 120
"""A slot is sealed 120 s before it starts: 60 s for EventBridge Scheduler, which may be that late, and 60 s for the
work. So a message that is due in more than three minutes waits in a ledger."""
_ARRIVAL_S = 120
"""How long after the last message was due it may still arrive before it counts as lost."""
_QUIET_S = 30
"""How long to listen for what must not arrive."""
_POLL_S = 5
_SHOWN = 5


class Stage:
    """The client, oracle and listeners of a scenario.

    Attributes:
        cloud: where it runs.
        client: a client of the stack.
        oracle: what must arrive.
        arrivals: what `settle` found.
    """

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.client: Tidewheel = cloud.client()
        self.oracle = Oracle()
        self.arrivals: list[Arrival] = []
        self._sqs: Any = cloud.session.client("sqs")
        self._began_ms = self._last_due_ms = self.now_ms()
        self._listening: set[Reader] = set()
        self._late: set[Reader] = set()
        self._lock = threading.Lock()
        self._came: dict[Reader, list[Arrival]] = defaultdict(list)
        self._troubles: list[str] = []

    def now_ms(self) -> int:
        """Returns the time of the cloud."""
        return self.cloud.clock.now_ms()

    def wait_until(self, at_ms: int) -> None:
        """Returns at this time."""
        self.cloud.sleep((at_ms - self.now_ms()) / 1000)

    def tell(self, what: str) -> None:
        """Shows a line with the time since the scenario began."""
        minutes, seconds = divmod((self.now_ms() - self._began_ms) // 1000, 60)
        print(f"{minutes:02d}:{seconds:02d}  {what}", flush=True)

    def topic(self, name: str, **settings: int) -> None:
        """Makes a topic with short slots."""
        self.client.create_topic(name, slot_s=SLOT_S, lookahead_s=LOOKAHEAD_S, **settings)  # type: ignore[arg-type]

    def subscribe(self, topic: str, name: str, *, late: bool = False, **options: Any) -> str:
        """Makes a subscription and starts to listen. Returns the queue's URL.

        Args:
            late: whether the scenario breaks it, so that messages are late and a poll may fail.
        """
        if late:
            self._late.add((topic, name))
        url = self.client.create_subscription(topic, name, **options).queue_url
        self._listen((topic, name), url)
        return url

    def take(self, topic: str, subscription: str) -> list[Arrival]:
        """Returns the messages received since the last call. The first call starts the listening."""
        reader = (topic, subscription)
        if reader not in self._listening:
            [found] = [each for each in self.client.subscriptions(topic) if each.name == subscription]
            self._receive(reader, found.queue_url, wait_s=0)
            self._listen(reader, found.queue_url)
        with self._lock:
            return self._came.pop(reader, [])

    def lose_next_schedule(self) -> None:
        """Deletes the schedules of the artifact's scenario, if there are any."""
        self.delete_schedules(COMMITS)

    def delete_schedules(self, topic: str) -> int:
        """Deletes the schedules of a topic and returns how many there were."""
        scheduler, group = self.cloud.session.client("scheduler"), self.cloud.stack_name
        found = scheduler.list_schedules(GroupName=group, NamePrefix=f"{topic}.")["Schedules"]
        for each in found:
            scheduler.delete_schedule(GroupName=group, Name=each["Name"])
        return len(found)

    def expect(self, receipt: Receipt, body: str, *readers: str) -> None:
        """Expects a message at these subscriptions and no others."""
        self.oracle.expect([(receipt.topic, each) for each in readers], receipt.id, body, receipt.deliver_at_ms)
        self._last_due_ms = max(self._last_due_ms, receipt.deliver_at_ms if readers else 0)

    def send(self, topic: str, body: str, *readers: str, delay: float) -> None:
        """Sends a message for these subscriptions."""
        self.expect(self.client.send(topic, body, delay=delay), body, *readers)

    def send_many(self, topic: str, delays: Mapping[str, float], *readers: str) -> None:
        """Sends messages, given as body and delay in seconds."""
        messages = [Message(body=body, delay=delay_s) for body, delay_s in delays.items()]
        for body, receipt in zip(delays, self.client.send_many(topic, messages), strict=True):
            self.expect(receipt, body, *readers)

    def until(self, true: Callable[[], bool], *, within_s: float) -> bool:
        """Waits until a condition is true. Returns whether the condition became true in time."""
        end_ms = self.now_ms() + within_s * 1000
        while not true():
            if self.now_ms() >= end_ms:
                return False
            self.cloud.sleep(_POLL_S)
        return True

    def until_ledgers_hold(self, topic: str, messages: int) -> None:
        """Waits until so many messages wait in ledgers.

        Raises:
            AssertionError: ingest has not taken them within two minutes.
        """
        stats = self.client.stats
        assert self.until(lambda: stats(topic).waiting >= messages, within_s=120), stats(topic)

    def outstanding(self) -> int:
        """Returns how many deliveries are still to come."""
        for reader in self._listening:
            came = self.take(*reader)
            self.oracle.arrived(reader, came)
            self.arrivals += came
        return sum(self.oracle.waiting(reader) for reader in self._listening)

    def settle(self, *, within_s: float = _ARRIVAL_S, copies: bool = False) -> None:
        """Waits until all has arrived and a little longer, and fails if anything is wrong.

        Args:
            within_s: how long to wait after the last message was due.
            copies: whether repetitions are no fault, since calls failed on the way.
        """
        left_s = max(0, self._last_due_ms - self.now_ms()) / 1000
        self.tell(f"{self.outstanding():,} deliveries are still to come")
        self.until(lambda: not self.outstanding(), within_s=left_s + within_s)
        self.cloud.sleep(_QUIET_S)
        self.outstanding()
        for reader in self._late:
            self.oracle.may_be_late(reader, 0, self.now_ms())
        self.check(copies=copies)

    def check(self, *, copies: bool = False) -> None:
        """Fails unless the oracle accepts the received messages and all polls worked."""
        verdict = self.oracle.verdict()
        self.tell(str(verdict))
        faults = verdict.faults | ({"not received": self._troubles} if self._troubles else {})
        if copies:
            faults.pop("doubled", None)
        if faults or not verdict.copies:
            lines = [f"{kind}: {len(found)}, such as {found[:_SHOWN]}" for kind, found in faults.items()]
            pytest.fail("\n".join(lines) or "no message was expected", pytrace=False)

    def _listen(self, reader: Reader, url: str) -> None:
        def take(wait_s: int) -> bool:
            try:
                self._receive(reader, url, wait_s)
            except (ClientError, BotoCoreError, TidewheelError) as error:
                if reader not in self._late:
                    self._troubles.append(f"{'/'.join(reader)}: {type(error).__name__}: {error}")
                return False
            return True

        self._listening.add(reader)
        self.cloud.listen(url, take)

    def _receive(self, reader: Reader, url: str, wait_s: int) -> None:
        """Receives all available messages with `decode`, as consumers with their own polls do."""
        consumer = Consumer(self.client, *reader)
        while raws := self._sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=wait_s,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        ).get("Messages", []):
            messages = [consumer.decode(raw) for raw in raws]
            arrivals = [
                Arrival(
                    id=message.id,
                    body=message.body,
                    due_ms=round(message.deliver_at.timestamp() * 1000),
                    # When SQS handed it out first, by SQS's own clock.
                    earliest_ms=(received_ms := int(raw["Attributes"]["ApproximateFirstReceiveTimestamp"])),
                    latest_ms=received_ms,
                )
                for message, raw in zip(messages, raws, strict=True)
            ]
            with self._lock:
                self._came[reader] += arrivals
            self.client.delete(*reader, messages)
            wait_s = 0


def percentile(ascending: list[int], share: float) -> int:
    """Returns the smallest value not exceeded by the given share of the values."""
    return ascending[max(0, min(-(-round(share * len(ascending) * 1_000_000) // 1_000_000), len(ascending)) - 1)]
