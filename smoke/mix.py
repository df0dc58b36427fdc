"""The topic with all kinds of messages: direct and from ledgers, filtered, cancelled, replaced, expired, paused."""

from __future__ import annotations

from collections.abc import Iterable

from smoke.stage import Stage
from smoke.verdict import DIRECT, LEDGER
from tidewheel.message import Message

TOPIC = "mix"
ALL, RED, PAUSED = "all", "red", "paused"
EVERYBODY = (ALL, RED, PAUSED)
NOT_RED = (ALL, PAUSED)
_MINUTE_S = 60
DIRECT_MESSAGES = 20
BATCHES, BATCH_MESSAGES = 6, 25
LONG_S = 16 * _MINUTE_S
"""Longer than SQS itself can delay: 900 s."""
RESUME_S = 9 * _MINUTE_S
_LARGE_CHARACTERS = 1_200_000
"""More than SQS takes: 1 MiB."""


class Mix:
    """Everything that is done with this topic, in order: `prepare`, `send`, `change`, `resume`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def prepare(self) -> None:
        """Makes the topic and its three subscriptions."""
        self._stage.topic(TOPIC)
        self._stage.subscribe(TOPIC, ALL)
        self._stage.subscribe(TOPIC, RED, filter_policy={"colour": ["red"]})
        self._stage.subscribe(TOPIC, PAUSED, late=True)

    def send(self) -> None:
        """Sends what is delivered in the ordinary way: within seconds, minutes, and after sixteen minutes."""
        stage = self._stage
        self._send_many((f"direct {i}", i + 1) for i in range(DIRECT_MESSAGES))
        for batch in range(BATCHES):
            self._send_many((f"batch {batch} {i}", 300 + 27 * i + batch) for i in range(BATCH_MESSAGES))
            stage.cloud.sleep(3)
        for i in range(3):
            stage.send(TOPIC, f"long {i}", readers=NOT_RED, group=LEDGER, delay=LONG_S + i)
        body = "tide" * (_LARGE_CHARACTERS // 4)
        # Its body comes by a GET of the receiver, which is no part of the precision.
        stage.send(TOPIC, body, readers=NOT_RED, group=None, delay=6 * _MINUTE_S)
        count = DIRECT_MESSAGES + BATCHES * BATCH_MESSAGES + 4
        stage.tell(f"sent {count} messages, due within 1 s to {LONG_S // _MINUTE_S} minutes, one of them over 1 MiB")

    def change(self) -> None:
        """Pauses a subscription; cancels, replaces and drops messages, while they wait in a ledger."""
        stage, tw = self._stage, self._stage.tw
        tw.pause(TOPIC, PAUSED)
        # Due while one subscription is paused, and worth nothing to it afterwards.
        stage.send(TOPIC, "expires", readers=(ALL,), group=LEDGER, delay=5 * _MINUTE_S, expires_in=_MINUTE_S)
        withdrawn = [stage.send(TOPIC, f"cancel {i}", readers=NOT_RED, group=None, delay=360 + i).id for i in range(5)]
        first = stage.send(TOPIC, "old", readers=NOT_RED, group=None, delay=600, key="replaced")
        keyed = stage.send(TOPIC, "by key", readers=NOT_RED, group=None, delay=400, key="cancelled")
        stage.send(TOPIC, "first", readers=NOT_RED, group=LEDGER, delay=420, key="once")
        stage.cloud.sleep(20)  # ingest has them then: what follows changes ledgers, not what is on its way
        results = [tw.cancel(TOPIC, each) for each in withdrawn]
        results.append(tw.cancel(TOPIC, key="cancelled"))
        stage.send(TOPIC, "new", readers=NOT_RED, group=LEDGER, delay=380, key="replaced", replace=True)
        dropped = stage.send(TOPIC, "second", readers=NOT_RED, group=None, delay=430, key="once")
        for message_id in (*withdrawn, first.id, keyed.id, dropped.id):
            stage.record.withdrawn(message_id)
        in_time = sum(bool(result) for result in results)
        stage.check("what waits in a ledger can be cancelled", in_time == len(results), f"{in_time} of {len(results)}")

    def resume(self) -> None:
        """Resumes the paused subscription: all that it missed follows."""
        self._stage.sleep_until(RESUME_S)
        waited = sum(reader == PAUSED for _, reader in self._stage.record.outstanding())
        self._stage.tw.resume(TOPIC, PAUSED)
        name = "a paused subscription gets nothing new"
        self._stage.check(name, waited > 0, f"{waited} messages waited for {PAUSED} until it was resumed")

    def _send_many(self, bodies: Iterable[tuple[str, int]]) -> None:
        """Sends a batch, every third message red."""
        planned = [(body, delay_s, place % 3 == 0) for place, (body, delay_s) in enumerate(bodies)]
        receipts = self._stage.tw.send_many(
            TOPIC,
            [
                Message(body=body, delay=delay_s, attributes={"colour": "red" if red else "blue"})
                for body, delay_s, red in planned
            ],
        )
        for (body, delay_s, red), receipt in zip(planned, receipts, strict=True):
            group = DIRECT if delay_s < _MINUTE_S else LEDGER
            self._stage.record.sent(receipt, body, readers=EVERYBODY if red else NOT_RED, group=group)
