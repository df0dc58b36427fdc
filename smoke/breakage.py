"""The topic whose only queue is gone for a while: its messages are parked, and follow when the queue is back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoke.stage import Stage
from tidewheel.subscription import State

if TYPE_CHECKING:
    from mypy_boto3_sqs.literals import QueueAttributeNameType

TOPIC = "broken"
READER = "gone"
GONE_S = 75
"""SQS may take messages for a deleted queue for up to a minute, and loses them; and so long it refuses to make one of
the same name."""
_HEALED_S = 480
"""A sweep each 300 s tries one park; then the others follow."""


class Breakage:
    """Everything that is done with this topic, in order: `prepare`, `send`, `mend`, `check_mended`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._queue_url = ""
        self._attributes: dict[QueueAttributeNameType, str] = {}

    def prepare(self) -> None:
        """Makes the topic and its subscription, and deletes the queue, long enough before the first message."""
        stage = self._stage
        stage.topic(TOPIC)
        self._queue_url = stage.subscribe(TOPIC, READER, late=True)
        names: list[QueueAttributeNameType] = ["MessageRetentionPeriod", "RedrivePolicy", "VisibilityTimeout"]
        found = stage.sqs.get_queue_attributes(QueueUrl=self._queue_url, AttributeNames=names)["Attributes"]
        self._attributes = {name: found[name] for name in names}
        # By its tags the functions know a queue of their service's.
        self._tags = stage.sqs.list_queue_tags(QueueUrl=self._queue_url)["Tags"]
        stage.sqs.delete_queue(QueueUrl=self._queue_url)

    def send(self) -> None:
        """Sends to the queue that is gone: some directly, some through a ledger."""
        stage = self._stage
        stage.sleep_until(GONE_S)
        for i in range(5):
            stage.send(TOPIC, f"direct {i}", readers=(READER,), group=None, delay=5 + i)
            stage.send(TOPIC, f"ledger {i}", readers=(READER,), group=None, delay=210 + i)
        broken = stage.until(lambda: self._state() is State.BROKEN, within_s=90)
        stage.check("a queue that is gone makes its subscription BROKEN", broken, f"it is {self._state().value}")

    def mend(self) -> None:
        """Makes the queue again, once all its messages are parked."""
        stage = self._stage
        last_ms = max(each.deliver_at_ms for each in stage.record.all_sent() if each.topic == TOPIC)
        stage.sleep_until((last_ms - stage.began_ms) // 1000 + 10)
        [stats] = stage.tw.stats(TOPIC).subscriptions
        stage.check("what a queue does not take is parked", stats.parked == 10, f"{stats.parked} of 10 messages")
        name = self._queue_url.rpartition("/")[2]
        stage.sqs.create_queue(QueueName=name, Attributes=self._attributes, tags=self._tags)

    def check_mended(self) -> None:
        """Waits until the sweep has found the queue, and all parks are drained."""
        active = self._stage.until(lambda: self._state() is State.ACTIVE, within_s=_HEALED_S)
        self._stage.check("the sweep finds a queue that is back", active, f"it is {self._state().value}")

    def _state(self) -> State:
        [subscription] = self._stage.tw.subscriptions(TOPIC)
        return subscription.state
