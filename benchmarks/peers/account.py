"""An empty emulated AWS with a meter, and the findings of a run.

It is the emulator under Tidewheel's local stack, with its virtual clock and its meter: every peer on AWS is counted
by the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from benchmarks.peers.stream import Delivery, Outcome, number_of
from tidewheel.clock import ManualClock
from tidewheel.local.emulator import Emulator
from tidewheel.local.meter import Requests

START_MS = 1_767_225_600_000
HOUR_MS = 3_600_000
_AT_ONCE = 10
"""Messages of one SQS request at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The findings of a peer's run.

    Attributes:
        outcome: how the stream arrived.
        requests: what was asked, by operation.
        units: what AWS bills for it, as `tidewheel.model.prices` names it.
        hours: of the stream's time, for which it ran.
        stored_bytes: what was stored when every message waited; None if that was not asked, or nobody can.
    """

    outcome: Outcome
    requests: Mapping[str, float]
    units: Mapping[str, float]
    hours: float
    stored_bytes: int | None = None


class Account:
    """An emulated account, empty at the start. A process has at most one account at a time.

    Attributes:
        clock: its time, which moves only when told to.
        emulator: the backends.
        requests: what was asked through `session` since `count_from_now`.
        session: whose requests are counted.
    """

    def __init__(self) -> None:
        self.clock = ManualClock(START_MS)
        self.emulator = Emulator(self.clock, virtual=True)
        self.requests = Requests(self.emulator.item_bytes)

    def __enter__(self) -> Self:
        self.emulator.open()
        self.session = self.emulator.wire.session(self.requests.observe)
        self._consumer: Any = self.emulator.wire.session().client("sqs")
        return self

    def __exit__(self, *_: object) -> None:
        self.emulator.close()

    def make_queue(self, name: str) -> str:
        """Creates a queue and returns the URL."""
        url: str = self._consumer.create_queue(QueueName=name)["QueueUrl"]
        return url

    def count_from_now(self) -> None:
        """Forgets the requests so far, which set up the peer and are not counted."""
        self.requests.clear()
        self.requests.units.clear()

    def take(self, queue_url: str) -> list[Delivery]:
        """Receives and deletes all that a consumer can have now. Nothing is counted, since every peer's consumers pay
        the same.
        """
        queue = self.emulator.queue(queue_url.rpartition("/")[2])
        deliveries: list[Delivery] = []
        while True:
            answer = self._consumer.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=_AT_ONCE)
            messages = answer.get("Messages", [])
            if not messages:
                return deliveries
            for message in messages:
                at_ms = queue.visible_at_ms(message["MessageId"])
                assert at_ms is not None
                deliveries.append(Delivery(number=number_of(message["Body"]), at_ms=at_ms))
            self._consumer.delete_message_batch(
                QueueUrl=queue_url,
                Entries=[{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)],
            )

    def asked(self) -> tuple[Counter[str], Counter[str]]:
        """Returns the requests and the billed units so far."""
        return Counter(self.requests), Counter(self.requests.units)


def send_in_tens(sqs: Any, queue_url: str, bodies: list[tuple[str, int]]) -> None:
    """Sends bodies with their delays in seconds, ten a request.

    Raises:
        RuntimeError: SQS refused one.
    """
    for first in range(0, len(bodies), _AT_ONCE):
        entries = [
            {"Id": str(n), "MessageBody": body, "DelaySeconds": delay_s}
            for n, (body, delay_s) in enumerate(bodies[first : first + _AT_ONCE])
        ]
        refused = sqs.send_message_batch(QueueUrl=queue_url, Entries=entries).get("Failed")
        if refused:
            raise RuntimeError(f"SQS refused {refused}")
