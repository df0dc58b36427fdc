"""Consumers of a run whose messages are claimed, and what they were promised.

A copy that a queue took is claimed some time after it can be received. So the promises about what comes are about what
is handed out. A consumer that dies, or hears no answer, receives its copy again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.faults import FaultyPorts
from tests.simulation.interleaving import Task
from tests.simulation.promises import Reader, Sent, TopicLife, Violation
from tests.simulation.world import World
from tidewheel.flows.delivery.cancel import CancelResult, TooLate
from tidewheel.model.tombstone import LATEST_CANCEL_MS, Holder, claim_ttl_s

_AGAIN_MS = 30_000
_LONGEST_WAIT_MS = 120_000
"""How long a copy stays in its queue."""


@dataclass(slots=True, kw_only=True, eq=False)
class Copy:
    """A copy in a reader's queue.

    Attributes:
        generation: of the subscription, as its header says; None if it is not claimed.
        visible_ms: when a consumer receives it.
        handed: whether it was handed out before.
    """

    life: TopicLife
    reader: Reader
    sent: Sent
    generation: str | None
    visible_ms: int
    handed: bool = False


class Consumers:
    """All consumers of a run. A source of its triggers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.waiting: list[Copy] = []
        self._dropped: list[Copy] = []
        self._owed: list[tuple[TopicLife, str, Sent]] = []

    def took(self, life: TopicLife, reader: Reader, sent: Sent, generation: str | None, visible_ms: int) -> None:
        """Notes a copy that a queue took."""
        at_ms = visible_ms + self.world.random.choice([0, 1_000, _LONGEST_WAIT_MS])
        self.waiting.append(Copy(life=life, reader=reader, sent=sent, generation=generation, visible_ms=at_ms))

    def starts(self, limit_ms: int) -> list[Callable[[], None]]:
        """Returns the starts of consumers for the receivable copies."""
        now_ms = self.world.now_ms
        receivable = [each for each in self.waiting if each.visible_ms <= now_ms]
        return [lambda: self._start(self.world.random.choice(receivable))] if receivable else []

    def _start(self, copy: Copy) -> None:
        self.waiting.remove(copy)
        if copy.generation is None:
            self._hand_out(copy)
            return
        holder = Holder(subscription=copy.reader.name, generation=copy.generation)

        def call(ports: FaultyPorts) -> None:
            ttl_s = claim_ttl_s(copy.sent.deliver_at_ms, ports.clock.now_ms(), cancelled=False)
            if ports.claims.claim(copy.life.name, copy.sent.id, holder, ttl_s) is None:
                self.world.count("consumer: dropped what was cancelled")
                self._dropped.append(copy)
            else:
                self._hand_out(copy)

        def ended(task: Task) -> None:
            if task.dead or task.error is not None:
                copy.visible_ms = self.world.now_ms + _AGAIN_MS
                self.waiting.append(copy)

        self.world.start(f"consume {copy.sent.id}", call, ended=ended)

    def _hand_out(self, copy: Copy) -> None:
        sent, reader, promises = copy.sent, copy.reader, self.world.promises
        self.world.count("consumer: handed out")
        if not copy.handed:
            copy.handed = True
            promises.handed[reader.queue_url, sent.id] += 1
        if sent.never is not None:
            self._break(f"{sent.id} {sent.never}, and {reader.name} handed it out", copy)
        for other in promises.family(sent):
            linked = other.moves == sent.id or sent.moves == other.id
            if linked and promises.handed[reader.queue_url, other.id]:
                self._break(f"{sent.id} and {other.id}, one moved to the other, were handed out", copy)

    def _break(self, what: str, copy: Copy) -> None:
        self.world.broken.append(Violation(what, copy.life.name, copy.sent.id))

    def told(self, sent: Sent, outcome: CancelResult) -> None:
        """Notes an answer that a message is too late to cancel or to move.

        Raises:
            Violation: nobody has it.
        """
        if not sent.topic.state.claims(sent.id):
            return
        if not isinstance(outcome, TooLate) or sent.topic.ending or self.world.was_at_rest(sent.topic.name):
            return
        # A move that follows another move may find a message that went direct: its body is in no ledger.
        nobody = not outcome.subscriptions and not outcome.unread
        if nobody and self.world.now_ms - sent.deliver_at_ms < LATEST_CANCEL_MS // 2:
            raise Violation(f"{sent.id} is too late, said a cancel, and nobody has it", sent.topic.name, sent.id)
        self._owed += [(sent.topic, name, sent) for name in outcome.subscriptions]

    def check(self) -> None:
        """Checks what was dropped, and what a cancel said that somebody has.

        Raises:
            Violation: a message was dropped without a reason, or nobody got it.
        """
        handed = self.world.promises.handed
        for copy in self._dropped:
            sent = copy.sent
            if not (sent.never or sent.family.cancels or len(sent.family.members) > 1 or self._replaced(sent)):
                what = f"{copy.reader.name} dropped {sent.id}, which nobody had cancelled"
                raise Violation(what, copy.life.name, sent.id)
        for life, name, sent in self._owed:
            readers = [each for each in life.readers if each.name == name]
            gone = life.ending or any(each.ended for each in readers) or sent.key is not None
            if not gone and not any(handed[each.queue_url, sent.id] for each in readers):
                raise Violation(f"a cancel said that {name} has {sent.id}", life.name, sent.id)

    def _replaced(self, sent: Sent) -> bool:
        history: Any = None if sent.key is None else sent.topic.keys.get(sent.key)
        return history is not None and (
            bool(history.cancels) or any(each is not sent and each.replace for each in history.members)
        )
