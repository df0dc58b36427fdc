"""Tracks the messages that a worker holds of one subscription, and says which request of SQS is due. Does no I/O.

    received --> buffer --> running --> done --DeleteMessageBatch--> gone
                   |           +-- failed: comes again after its visibility time-out
                   +-- stopped, or not begun within BUFFERED_S: visible again at once

A receive asks for as many messages as are free to begin, and more, up to ten, if all can begin within BUFFERED_S by the
slowest of the last calls. It asks for no more than have begun before, beside those that are free. So a worker that ends
early gives few messages back.

All held messages are kept invisible. Each extension lasts for the queue's own visibility time-out, so that a killed
worker's messages come again within one time-out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from tidewheel.client.receiving import RECEIVE_BATCH
from tidewheel.model.received import ReceivedMessage

BUFFERED_S = 5.0
"""How long a received message may wait before it begins."""
GATHERED_S = 1.0
"""How long a handled message may wait for others to be acknowledged with."""
_UNACKNOWLEDGED = 100
"""So many handled messages that SQS has not deleted yet end the receiving."""
_EXTENDED = 2 / 3
"""A message is extended when less than this share of its visibility time-out is left."""
_FORGOTTEN = 0.9
"""How much the time of a slow call counts after each later call."""


@dataclass(slots=True, eq=False)
class Held:
    """A message in the hands of a worker, with times in seconds of the monotonic clock.

    Attributes:
        received_s: when it was received.
        visible_s: when SQS shows it to others. inf: the worker lets SQS do so.
        begun_s: when it left the buffer.
        done_s: when it was handled.
    """

    message: ReceivedMessage
    received_s: float
    visible_s: float
    begun_s: float = inf
    done_s: float = inf


@dataclass(slots=True)
class Holding:
    """The messages of one subscription that a worker holds. The caller locks.

    Attributes:
        at_once: how many messages may run.
        hidden_s: the queue's visibility time-out in seconds.
        timeout_s: how long a running message is kept invisible.
        waits: those of the running messages that wait for AWS before they begin.
    """

    at_once: int
    hidden_s: float
    timeout_s: float
    waits: set[Held] = field(default_factory=set)
    _buffer: deque[Held] = field(default_factory=deque)
    _running: set[Held] = field(default_factory=set)
    _done: deque[Held] = field(default_factory=deque)
    _begun: int = 0
    _slowest_s: float = 0.0

    @property
    def running(self) -> int:
        """How many messages are running."""
        return len(self._running)

    @property
    def buffered(self) -> bool:
        """Whether messages wait in the buffer."""
        return bool(self._buffer)

    @property
    def acknowledges(self) -> bool:
        """Whether to acknowledge now: ten messages are handled, or the queue hides none."""
        return len(self._done) >= RECEIVE_BATCH or bool(self._done and not self.hidden_s)

    def room(self) -> int:
        """Returns how many messages to receive."""
        if self._buffer or self.waits or len(self._done) > (_UNACKNOWLEDGED if self.hidden_s else 0):
            return 0
        soon = self.buffered_s * self.at_once / self._slowest_s if self._slowest_s else inf
        return int(min(RECEIVE_BATCH, max(self.at_once - len(self._running), min(self._begun, soon))))

    @property
    def buffered_s(self) -> float:
        """How long a message may wait in the buffer."""
        return min(BUFFERED_S, self.hidden_s / 2)

    def take(self, messages: Iterable[ReceivedMessage], now_s: float) -> None:
        """Takes received messages. Those with more receives begin first.

        SQS gives a message again that was not kept in time, as after an outage: its last handle counts.
        """
        held = {each.message.sqs_message_id: each for each in (*self._buffer, *self._running, *self._done)}
        found = []
        for each in sorted(messages, key=lambda each: -each.receive_count):
            again = held.get(each.sqs_message_id)
            if again is None or now_s - again.begun_s > self.timeout_s:
                found.append(each)
            else:
                again.message, again.visible_s = each, now_s + self.hidden_s
        self._buffer.extend(Held(each, now_s, now_s + self.hidden_s) for each in found)

    def begin(self, now_s: float) -> Held | None:
        """Returns the next message to handle, if one may begin."""
        if not self._buffer or len(self._running) >= self.at_once:
            return None
        held = self._buffer.popleft()
        held.begun_s = now_s
        self._running.add(held)
        self._begun += 1
        return held

    def end(self, held: Held, now_s: float, *, done: bool) -> None:
        """Takes back a message that ran. A message that is not done is no longer held."""
        self._running.remove(held)
        self._slowest_s = max(now_s - held.begun_s, self._slowest_s * _FORGOTTEN)
        if done:
            held.done_s = now_s
            self._done.append(held)

    def unbegun(self, now_s: float, *, everything: bool) -> list[Held]:
        """Lets go of messages that waited too long in the buffer, or of all in it. Give them back."""
        found = [each for each in self._buffer if everything or now_s - each.received_s >= self.buffered_s]
        for each in found:
            self._buffer.remove(each)
        if found:  # a running call is slow: what is received now would wait, too, and go back again and again
            self._slowest_s = max(self._slowest_s, 2 * self.buffered_s * self.at_once)
        return found

    def handled(self, now_s: float, *, everything: bool) -> list[Held]:
        """Lets go of up to ten handled messages, once there are ten or one has waited. Acknowledge them."""
        if not (everything or self.acknowledges or (self._done and now_s - self._done[0].done_s >= GATHERED_S)):
            return []
        return [self._done.popleft() for _ in range(min(RECEIVE_BATCH, len(self._done)))]

    def unacknowledged(self, messages: list[Held]) -> None:
        """Takes handled messages back that SQS did not delete."""
        self._done.extendleft(reversed(messages))

    def fading(self, now_s: float) -> list[Held]:
        """Returns messages that SQS would soon show to others. Extend them."""
        if not self.hidden_s:
            return []
        held = (*self._buffer, *self._running, *self._done)
        return [each for each in held if each.visible_s - now_s < _EXTENDED * self.hidden_s]

    def outlasting(self, now_s: float) -> list[Held]:
        """Lets SQS show messages that have run for longer than their time-out. Returns them."""
        found = [each for each in self._running if now_s - each.begun_s > self.timeout_s and each.visible_s < inf]
        for each in found:
            each.visible_s = inf
        return found
