"""The topic with many small ledgers, of which the service makes few by itself."""

from __future__ import annotations

from smoke.stage import Stage
from smoke.verdict import LEDGER
from tidewheel.errors import UnknownMessage
from tidewheel.message import Message
from tidewheel.sdk.changes import Rescheduled

TOPIC = "merged"
READER = "reader"
LEDGERS = 10
"""Two more than a tier needs to be merged: the service may take two batches as one."""
_BATCH_MESSAGES = 5
_HOUR_S = 3_600
_MOVED = 5
_MERGED_S = 660
"""Two sweeps, and the time of a merge: the first sweep may come while the last ledger is being written."""


class Merging:
    """Everything that is done with this topic, in order: `prepare`, `send`, `check_merged`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._ids: list[str] = []
        self._ledgers = 0

    def prepare(self) -> None:
        """Makes the topic, with a limit of three ledgers."""
        self._stage.topic(TOPIC, max_buckets=3)
        self._stage.subscribe(TOPIC, READER)

    def send(self) -> None:
        """Sends batches due in hours and days; each becomes a ledger of its own."""
        stage = self._stage
        stage.cloud.hasten_bulk()
        for batch in range(LEDGERS):
            messages = [
                Message(body=f"far {batch} {i}", delay=(2 + 9 * i) * _HOUR_S + batch) for i in range(_BATCH_MESSAGES)
            ]
            for message, receipt in zip(messages, stage.tw.send_many(TOPIC, messages), strict=True):
                stage.record.sent(receipt, message.body, readers=(), group=None)
                self._ids.append(receipt.id)
            sent = batch + 1
            stage.until(lambda sent=sent: self._waiting() >= sent * _BATCH_MESSAGES, within_s=60)  # type: ignore[misc]
        self._ledgers = stage.tw.stats(TOPIC).buckets
        stage.tell(f"sent {len(self._ids)} messages, due in hours and days: {self._ledgers} ledgers")

    def check_merged(self) -> None:
        """Waits for the merge, then moves messages of the new ledger to the next minutes."""
        stage = self._stage
        merged = stage.until(lambda: stage.tw.stats(TOPIC).buckets < self._ledgers, within_s=_MERGED_S)
        now = stage.tw.stats(TOPIC).buckets
        stage.check("small ledgers are merged", merged, f"{self._ledgers} became {now}")
        found = {each.id for each in stage.tw.peek(TOPIC, n=len(self._ids) + 1)}
        detail = f"{len(found & set(self._ids))} of {len(self._ids)} messages are there"
        stage.check("a merge keeps every message", found == set(self._ids), detail)
        moved = sum(self._move(place) for place in range(_MOVED))
        stage.check("a message of a merged ledger can be moved", moved == _MOVED, f"{moved} of {_MOVED}")

    def _move(self, place: int) -> bool:
        """Reschedules one message to some minutes from now."""
        stage, old = self._stage, self._ids[place * _BATCH_MESSAGES]
        try:
            moved = stage.tw.reschedule(TOPIC, old, delay=240 + place)
        except UnknownMessage:
            return False
        if not isinstance(moved, Rescheduled):
            return False
        body = stage.record.withdrawn(old).body
        stage.record.sent(moved.receipt, body, readers=(READER,), group=LEDGER)
        return True

    def _waiting(self) -> int:
        return self._stage.tw.stats(TOPIC).waiting
