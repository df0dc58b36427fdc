"""How far this machine's clock is from SQS's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidewheel.clock import Clock

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

PROBES = 8
_POLLS = 30
"""Each waits a second: SQS finds a new message within a few polls."""


class SkewUnknown(Exception):
    """SQS did not return the messages by which the clocks are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """SQS's clock against this machine's.

    Attributes:
        offset_ms: what to add to this machine's time to have SQS's.
        uncertainty_ms: how wrong that may be: half a round trip.
    """

    offset_ms: int
    uncertainty_ms: int

    def sqs_ms(self, here_ms: int) -> int:
        """Returns SQS's time for a time of this machine."""
        return here_ms + self.offset_ms


def measure_skew(sqs: SQSClient, queue_url: str, clock: Clock) -> Skew:
    """Sends messages and compares their SentTimestamp with the middle of the call; the quickest call decides.

    Raises:
        SkewUnknown: none came back.
    """
    calls: dict[str, tuple[int, int]] = {}
    for i in range(PROBES):
        before_ms = clock.now_ms()
        sent = sqs.send_message(QueueUrl=queue_url, MessageBody=f"clock {i}")
        calls[sent["MessageId"]] = (before_ms, clock.now_ms())
    found: list[Skew] = []
    for _ in range(_POLLS):
        answer = sqs.receive_message(
            QueueUrl=queue_url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=1,
            MessageSystemAttributeNames=["SentTimestamp"],
        )
        for message in answer.get("Messages", []):
            before_ms, after_ms = calls.pop(message["MessageId"], (0, 0))
            if after_ms:
                sent_ms = int(message["Attributes"]["SentTimestamp"])
                half_ms = (after_ms - before_ms + 1) // 2
                found.append(Skew(offset_ms=sent_ms - before_ms - half_ms, uncertainty_ms=half_ms + 1))
        if not calls:
            break
    if not found:
        raise SkewUnknown(f"none of {PROBES} messages came back from {queue_url} within {_POLLS} polls")
    return min(found, key=lambda skew: skew.uncertainty_ms)
