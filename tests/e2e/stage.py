"""A scenario's client, listeners and oracle, as the service of the artifact's scenario."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from tests.artifact.oracle import Arrival, Reader
from tests.artifact.scenario import COMMITS
from tests.e2e.cloud import Cloud
from tidewheel.client.worker.consumer import Consumer
from tidewheel.errors import TidewheelError

if TYPE_CHECKING:
    from tidewheel.client.tidewheel import Tidewheel

_POLL_S = 5


class Stage:
    """A cloud with listeners.

    Attributes:
        cloud: where it runs.
        client: a client of the stack.
        troubles: the polls that failed.
    """

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.client: Tidewheel = cloud.client()
        self.troubles: list[str] = []
        self._sqs: Any = cloud.session.client("sqs")
        self._listening: set[Reader] = set()
        self._lock = threading.Lock()
        self._came: dict[Reader, list[Arrival]] = defaultdict(list)

    def now_ms(self) -> int:
        """Returns the time of the cloud."""
        return self.cloud.clock.now_ms()

    def wait_until(self, at_ms: int) -> None:
        """Returns at this time."""
        self.cloud.sleep((at_ms - self.now_ms()) / 1000)

    def until(self, true: Callable[[], bool], *, within_s: float) -> bool:
        """Waits until a condition is true. Returns whether the condition became true in time."""
        end_ms = self.now_ms() + round(within_s * 1000)
        while not true():
            if self.now_ms() >= end_ms:
                return False
            self.cloud.sleep(_POLL_S)
        return True

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
        scheduler, group = self.cloud.session.client("scheduler"), self.cloud.stack_name
        for each in scheduler.list_schedules(GroupName=group, NamePrefix=f"{COMMITS}.")["Schedules"]:
            scheduler.delete_schedule(GroupName=group, Name=each["Name"])

    def _listen(self, reader: Reader, url: str) -> None:
        def take(wait_s: int) -> bool:
            try:
                self._receive(reader, url, wait_s)
            except (ClientError, BotoCoreError, TidewheelError) as error:
                self.troubles.append(f"{'/'.join(reader)}: {type(error).__name__}: {error}")
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
