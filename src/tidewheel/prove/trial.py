"""Sends messages through two topics of its own, deletes a schedule, and notes how all messages come.

    topic "load"   half of the messages go direct, the others wait in ledgers for their slots
    topic "lost"   one message, whose schedule is deleted: the sweep must find it

The topics have slots of a minute, since with the default slots a message waits in a ledger for eight minutes or more.
Each slot is delivered by parts, so that all functions of the main road take part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from uuid import uuid4

from tidewheel.aws.tries import AWS_ERRORS
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.errors import TidewheelError, UnknownTopic
from tidewheel.model.checked_clock import CheckedClock
from tidewheel.model.message import Message
from tidewheel.model.settings import TopicSettings
from tidewheel.model.wheel import fires_at_ms, schedule_name

SETTINGS = TopicSettings(slot_s=60, lookahead_s=120)
PACK, DIRECT_S, LEDGER_S, LOST_S = 100, (20, 80), (200, 320), 240
"""Messages of a pack. Delays of direct messages, of messages in ledgers, and of that whose schedule is deleted."""
_MOST_S = 500
"""A message that has not come by then is lost."""
_FIRST_S, _SCHEDULE_S = 60, 50
_READER, _THREADS = "reader", 8
"""A thread has ten messages per two round trips. Far from AWS, one thread would make them late by itself."""


@dataclass(kw_only=True)
class Trial:
    """A run.

    Attributes:
        tw: a client of the stack.
        clock: the machine's clock, told the `Date` of each answer.
        sleep: waits for some seconds.
        say: told what happens.
        messages: to the topic "load", whole packs.
        wait_s: how long a receive waits for a message. 0: virtual time moves between two receives.
        due_ms: message -> when it is due.
        came: message -> its copies.
        late_ms: lateness of each message to the topic "load", of its first copy.
        first_s: from the first send until the message came. None: it did not.
        healed_s: from the lost schedule's time until the sweep had the message planned. None: it did not.
        lost_slot: whose schedule was deleted. 0: none could be.
        created_ms, began_ms, ended_ms: when `first` and `rest` began, and `rest` ended.
    """

    tw: Tidewheel
    clock: CheckedClock
    sleep: Callable[[float], None]
    say: Callable[[str], None]
    messages: int = 2_000
    wait_s: int = 1
    load: str = field(default_factory=lambda: f"prove-{uuid4().hex[:8]}")
    due_ms: dict[str, int] = field(default_factory=dict)
    came: Counter[str] = field(default_factory=Counter)
    late_ms: list[int] = field(default_factory=list)
    first_s: float | None = None
    healed_s: float | None = None
    created_ms: int = 0
    began_ms: int = 0
    ended_ms: int = 0
    lost_slot: int = 0

    @property
    def lost(self) -> str:
        """The topic whose schedule is deleted."""
        return f"{self.load}-lost"

    def now_ms(self) -> int:
        """Returns AWS's time, if the machine's differs by less than two seconds."""
        return round(self.clock.local.now_ms() - self.clock.error_ms)

    def first(self) -> None:
        """Makes the topics, waits for a first message, and deletes the schedule of another."""
        self.created_ms = self.now_ms()
        for topic in (self.load, self.lost):
            self.tw.create_topic(topic, slot_s=SETTINGS.slot_s, lookahead_s=SETTINGS.lookahead_s, inline_rows=PACK)
            self.tw.create_subscription(topic, _READER, reader="tidewheel")
        self.say("waiting for a first message")
        sent_ms = self.now_ms()
        self._send(self.load, [1])
        if self._take_until(self._all_came, _FIRST_S):
            self.first_s = (self.now_ms() - sent_ms) / 1000
        self.say("deleting a schedule")
        due_ms = self.now_ms() + LOST_S * 1000
        self._send(self.lost, [LOST_S])
        if self._take_until(lambda: self._deletes_schedule(due_ms // SETTINGS.slot_ms), _SCHEDULE_S):
            self.lost_slot = due_ms // SETTINGS.slot_ms

    def rest(self) -> None:
        """Sends all other messages, and receives them.

        A pack is sent each second, so that each is a call of ingest. All packs for ledgers have the same due times.
        """
        self.say("sending, and waiting for all messages and the sweep: up to eight minutes")
        self.began_ms = self.now_ms()
        self.late_ms.clear()
        for number in range(self.messages // PACK):
            least_s, most_s = LEDGER_S if number % 2 else DIRECT_S
            passed_s = (self.now_ms() - self.began_ms) / 1000 if number % 2 else 0
            self._send(self.load, [least_s + (most_s - least_s) * i / PACK - passed_s for i in range(PACK)])
            self._take_until(lambda: False, 1)
        left_s = _MOST_S - (self.now_ms() - self.began_ms) / 1000
        self._take_until(lambda: self._all_came() and self.healed_s is not None, left_s)
        self.ended_ms = self.now_ms()

    def _send(self, topic: str, delays_s: list[float]) -> None:
        receipts = self.tw.send_many(topic, [Message(body="prove" * 20, delay=each) for each in delays_s])
        self.due_ms |= {each.id: each.deliver_at_ms for each in receipts}

    def _all_came(self) -> bool:
        return self.due_ms.keys() == self.came.keys()

    def _deletes_schedule(self, slot: int) -> bool:
        """Deletes the schedule of a slot of the topic "lost". Returns False if ingest has not created it yet."""
        connection = self.tw.core.connection
        scheduler, group = connection.client("scheduler"), connection.settings.schedule_group
        try:
            scheduler.delete_schedule(GroupName=group, Name=schedule_name(self.lost, slot))
        except scheduler.exceptions.ResourceNotFoundException:
            return False
        return True

    def _take_until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Receives until a condition is true. Returns whether it became true in time."""
        end_ms = self.now_ms() + seconds * 1000
        while not (found := true()) and self.now_ms() < end_ms:
            if not self._take(self.load, self.wait_s):
                self.sleep(0.05 if self.wait_s else 0.5)
            if self.lost_slot and self.healed_s is None:
                state = self.tw.core.connection.storage.topic_states.existing(self.lost)
                if state.planned > self.lost_slot:
                    self.healed_s = (self.now_ms() - fires_at_ms(self.lost, self.lost_slot, SETTINGS)) / 1000
            elif self.lost_slot:
                self._take(self.lost, 0)
        return found

    def _take(self, topic: str, wait_s: int) -> bool:
        """Receives and deletes messages, by threads in real time. Returns whether any came."""
        times = _THREADS if wait_s else 1
        with ThreadPoolExecutor(_THREADS) as threads:  # begin with their first work
            run = threads.map if wait_s else map
            came = sorted(chain.from_iterable(run(self._received, [topic] * times, [wait_s] * times)))
        for now_ms, each in came:
            self.came[each] += 1
            if topic == self.load and self.came[each] == 1:
                self.late_ms.append(now_ms - self.due_ms[each])
        return bool(came)

    def _received(self, topic: str, wait_s: int) -> list[tuple[int, str]]:
        messages = self.tw.receive(topic, _READER, wait_s=wait_s)
        now_ms = self.now_ms()
        if messages:
            self.tw.delete(topic, _READER, messages)
        return [(now_ms, each.id) for each in messages]

    def clean(self) -> list[str]:
        """Deletes the topics and their queues, and returns the rest. The sweep deletes the data of both topics.

        SQS lists a deleted queue for up to a minute.
        """
        by_hand = " and ".join(f"`tidewheel topics delete {each} --delete-queues`" for each in (self.load, self.lost))
        self.say(f"deleting the topics. Ctrl-C leaves this to you: {by_hand}")
        left, connection, urls = [], self.tw.core.connection, list[str]()
        for topic in (self.load, self.lost):
            try:
                self.tw.delete_topic(topic, delete_queues=True)
            except UnknownTopic:
                continue
            except (*AWS_ERRORS, TidewheelError) as error:
                left.append(f"topic {topic}: {error}")
        for _ in range(15):
            answer = connection.sqs.list_queues(QueueNamePrefix=f"{connection.stack}-{self.load}-")
            urls = answer.get("QueueUrls", [])
            if not urls:
                break
            self.sleep(5)
        return [*left, *urls]
