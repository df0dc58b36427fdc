"""What every act has in its hands: the cloud, a client, the record, and the checks so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from smoke.cloud import Cloud
from smoke.record import Reader, Record
from smoke.verdict import Check
from tidewheel.errors import TidewheelError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from tidewheel.message import Receipt
    from tidewheel.sdk.client import Tidewheel

SLOT_S = 60
LOOKAHEAD_S = 120
"""A slot is sealed 120 s before it starts: a minute for EventBridge Scheduler, which may be that late, and one for the
work. So a message that is due in more than three minutes waits in a ledger."""
_POLL_S = 5
_RECEIVE_BATCH = 10
_QUEUE_GONE = "NonExistentQueue"
"""In SQS's error of a queue that was deleted: one subscription's is, for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What every act has in its hands.

    Attributes:
        began_ms: when the scenario began.
        say: shows a line.
        checks: what the acts found, in order.
    """

    cloud: Cloud
    tw: Tidewheel
    sqs: SQSClient
    record: Record
    began_ms: int
    say: Callable[[str], None]
    checks: list[Check] = field(default_factory=list)

    def tell(self, what: str) -> None:
        """Shows a line with the time since the scenario began."""
        minutes, seconds = divmod(self.passed_s, 60)
        self.say(f"{minutes:02d}:{seconds:02d}  {what}")

    @property
    def passed_s(self) -> int:
        """Seconds since the scenario began."""
        return (self.cloud.clock.now_ms() - self.began_ms) // 1000

    def sleep_until(self, passed_s: int) -> None:
        """Waits until so many seconds have passed since the scenario began."""
        self.cloud.sleep(max(0, passed_s - self.passed_s))

    def until(self, true: Callable[[], bool], *, within_s: int) -> bool:
        """Waits until something is true, asking every few seconds; returns whether it became so in time."""
        end_s = self.passed_s + within_s
        while not true():
            if self.passed_s >= end_s:
                return False
            self.cloud.sleep(_POLL_S)
        return True

    def check(self, name: str, passed: bool, detail: str) -> None:
        """Notes and shows what was found."""
        self.checks.append(Check(name=name, passed=passed, detail=detail))
        self.tell(f"{'ok' if passed else 'FAILED'}: {name}: {detail}")

    def topic(self, name: str, **settings: Any) -> None:
        """Makes a topic with short slots."""
        self.tw.create_topic(name, slot_s=SLOT_S, lookahead_s=LOOKAHEAD_S, **settings)

    def subscribe(self, topic: str, name: str, *, late: bool = False, **options: Any) -> str:
        """Makes a subscription and listens to it; returns its queue's URL.

        Args:
            late: whether it will get its messages late on purpose.
        """
        if late:
            self.record.late_readers.add((topic, name))
        url = self.tw.create_subscription(topic, name, **options).queue_url

        self.cloud.listen(lambda wait_s: self._take((topic, name), wait_s))
        return url

    def _take(self, reader: Reader, wait_s: int) -> bool:
        """Receives and notes all that a subscription has."""
        try:
            while messages := self.tw.receive(*reader, max_messages=_RECEIVE_BATCH, wait_s=wait_s):
                received_ms = self.cloud.clock.now_ms()
                for message in messages:
                    self.record.arrived(reader, message, received_ms)
                self.tw.delete(*reader, messages)
                wait_s = 0
        except (ClientError, BotoCoreError, TidewheelError) as error:
            if not (reader in self.record.late_readers and _QUEUE_GONE in str(error)):
                self.record.trouble(f"{'/'.join(reader)}: {type(error).__name__}: {error}")
            return False
        return True

    def send(self, topic: str, body: str, *, readers: tuple[str, ...], group: str | None, **options: Any) -> Receipt:
        """Sends a message and notes who must get it."""
        receipt = self.tw.send(topic, body, **options)
        self.record.sent(receipt, body, readers=readers, group=group)
        return receipt
