"""The port to queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tidewheel.model.park import ParkKey
from tidewheel.model.subscription_state import DeliveryKey


class QueueMessage(NamedTuple):
    """A message on its way to a queue.

    Attributes:
        group: becomes SQS's MessageGroupId.
    """

    deliver_at_ms: int
    text: str
    attributes: Mapping[str, str] | None
    header: str
    size: int
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message of a batch that SQS did not take.

    Attributes:
        index: the message's place in the batch.
        permanent: whether SQS will never take the message (the message's fault, not the service's).
    """

    index: int
    permanent: bool
    code: str
    reason: str


class Queues(Protocol):
    """The SQS queues of subscriptions, the work queue and the queue of refused messages."""

    def send(self, queue_url: str, batch: Sequence[tuple[QueueMessage, int]]) -> list[Refusal]:
        """Sends at most ten messages, each with its delay in seconds. Returns the refusals.

        Raises:
            QueueUnavailable: the queue is gone or access to it is denied. It took none of the messages.
        """
        ...

    def enqueue_parts(self, key: DeliveryKey, parts: Sequence[int]) -> None:
        """Puts parts of a delivery into the work queue."""
        ...

    def enqueue_parks(self, keys: Sequence[ParkKey], *, delay_s: int = 0) -> None:
        """Puts parks to drain into the work queue, hidden for some seconds."""
        ...

    def enqueue_catch_up(self, topic: str, subscription: str, generation: str) -> None:
        """Puts a task for a resumed subscription into the work queue.

        Raises:
            QueueUnavailable: the caller has no access, or there is no work queue.
        """
        ...

    def forward(self, topic: str, messages: int, pack: bytes, *, urgent: bool = False) -> None:
        """Puts a pack with some messages into the topic's bulk or urgent queue. Raises if SQS does not take it."""
        ...

    def delete(self, topic: str, receipt_handles: Sequence[str], *, urgent: bool) -> None:
        """Deletes messages from the topic's urgent or bulk queue, from which they were received."""
        ...

    def refuse(self, document: Mapping[str, object]) -> None:
        """Keeps a message that SQS or a function refused, with the reason, in the queue of refused messages."""
        ...
