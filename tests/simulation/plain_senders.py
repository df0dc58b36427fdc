"""Programs that send plain messages, and the ingest function's calls with them. SQS may hand a message out twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.clients import COLOURS, KEYS, Clients
from tests.simulation.faults import FORWARDED, FaultyPorts
from tests.simulation.promises import KeyCancel, KeyHistory, Sent, TopicLife, Violation
from tests.simulation.triggers import URGENT_VISIBILITY_MS
from tests.simulation.world import World
from tidewheel.local import MemoryTidewheel
from tidewheel.local.event_source import record_of
from tidewheel.local.memory_functions import MemoryFunctions
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.model.message import MessageId
from tidewheel.model.pack import Cancellation, outgoing
from tidewheel.model.plain import PREFIX, read_plain
from tidewheel.model.received import QueuedMessage

MOST_SENT = 25
_MOST_BATCH = 5
_STACK = MemoryTidewheel()
"""Has the settings and the queues' names."""


@dataclass(slots=True, kw_only=True, eq=False)
class Plain:
    """A plain message in an ingest queue.

    Attributes:
        sent: its messages.
        cancels: its cancels, with their places in the history of the key.
        life: the topic's life in which it was sent.
    """

    message: MemoryMessage
    life: TopicLife
    bulk: bool
    visible_ms: int
    sent: list[Sent]
    cancels: list[tuple[Cancellation, KeyCancel]] = field(default_factory=list)

    @property
    def ids(self) -> list[MessageId]:
        """The ids of its messages."""
        return [each.id for each in self.sent]


class PlainSenders:
    """The plain messages of a world."""

    def __init__(self, world: World, clients: Clients) -> None:
        self.world = world
        self.clients = clients
        self.waiting: list[Plain] = []
        self._number = 0

    @property
    def random(self) -> Random:
        """The run's source of chance."""
        return self.world.random

    # ---- send
    def send(self, life: TopicLife) -> None:
        """Sends a plain message, or several as an envelope, or a cancel."""
        state = self.world.service.topic_states.read(life.name)
        if state is None or self._number >= MOST_SENT:
            return
        random = self.random
        delays = self.clients.delays(state)
        if random.random() < 0.5:  # far enough to be forwarded
            delays = [random.randint(1_000, 7_200) for _ in delays]
        key = random.choice([None, *KEYS])
        keyed = {} if key is None else {"key": key, **random.choice([{}, {"replace": "true"}])}
        if key is not None and random.random() < 0.4:
            attributes, body = self._attributes(topic=life.name, key=key, cancel="true"), "-"
        elif random.random() < 0.5:
            when = {"delay": f"{delays[0]}"}
            if random.random() < 0.3:
                when = {"deliver_at": f"{(self.world.now_ms + delays[0] * 1000) / 1000:.3f}"}
            attributes, body = self._attributes(topic=life.name, **when, **keyed), f"plain after {delays[0]} s"
        else:
            attributes, body = {}, self._envelope(life.name, delays, keyed)
        colour = random.choice(COLOURS)
        if colour is not None:
            attributes["colour"] = {"DataType": "String", "StringValue": colour}
        bulk = random.random() < 0.15

        def call(ports: FaultyPorts) -> None:
            put: list[Plain] = []
            with self.world.unanswered("plain send"):
                what = f" {body} to {life.name}"
                ports.faults.around(
                    ports.task, "ingest_queue.send", lambda: self._put(attributes, body, bulk, put), what
                )
            for sent in (sent for plain in put for sent in plain.sent):
                # Only the address is advertised. What is in the bulk queue may be late.
                sent.accepted, sent.accepted_ms = True, None if bulk else self.world.now_ms

        self.world.start("plain send", call, topic=life.name)

    def _attributes(self, **wishes: str) -> dict[str, Mapping[str, Any]]:
        return {PREFIX + name: {"DataType": "String", "StringValue": value} for name, value in wishes.items()}

    def _envelope(self, topic: str, delays: list[int], keyed: dict[str, str]) -> str:
        """Returns an envelope whose messages have their own delays. Some cancel the key first, or are bad."""
        parts: list[dict[str, Any]] = [{"body": f"part after {delay} s", "delay": delay} for delay in delays]
        if keyed and self.random.random() < 0.3:
            parts.insert(0, {"key": keyed["key"], "cancel": True})
        if self.random.random() < 0.2:
            parts.append({"body": "bad", "delay": "never"})
        parts = [part if "cancel" in part else part | keyed for part in parts]
        return json.dumps({"tidewheel": {"topic": topic}, "messages": parts})

    def _put(self, attributes: Mapping[str, Mapping[str, Any]], body: str, bulk: bool, put: list[Plain]) -> None:
        """Takes a message as SQS does. Notes its promises, unless its topic is being deleted."""
        now_ms = self.world.now_ms
        self._number += 1
        message = MemoryMessage(
            id=f"plain-{self._number}",
            body=body,
            message_attributes=attributes,
            size_bytes=100,
            arrival=self._number,
            sent_at_ms=now_ms,
            ready_at_ms=now_ms,
            visible_at_ms=now_ms,
            receipt_handle="queue/1",
        )
        read = read_plain(QueuedMessage.of_record(record_of(message, self._arn(bulk))), None)
        life = self.world.promises.life(read.topic)
        assert life is not None
        if life.ending:
            return
        cancels = [(each, self._cancelling(life, each)) for each in read.cancellations]
        sent = [self.clients.noted(life, each, now_ms) for each in outgoing(read.pack(None))]
        plain = Plain(message=message, life=life, bulk=bulk, visible_ms=0, sent=sent, cancels=cancels)
        plain.visible_ms = self._comes_ms(plain)
        self.waiting.append(plain)
        put.append(plain)
        self.world.exercised["client: plain messages"] += len(sent)
        self.world.note(f"{message.id}: {', '.join(plain.ids)} {[f'cancels {each.key}' for each, _ in cancels] or ''}")

    def _cancelling(self, life: TopicLife, cancel: Cancellation) -> KeyCancel:
        """Notes a cancel, which may stop what is older and nothing else."""
        history = life.keys.setdefault(cancel.key, KeyHistory())
        noted = KeyCancel(from_ms=cancel.sent_at_ms, until_ms=cancel.sent_at_ms)
        history.cancels.append(noted)
        for each in history.members:
            if each.sent_ms <= cancel.sent_at_ms:
                each.family.doubts += 1
                each.family.cancels += 1
        return noted

    def _arn(self, bulk: bool) -> str:
        return _STACK.queue(f"tidewheel_{'bulk' if bulk else 'urgent'}").arn

    def _comes_ms(self, plain: Plain, *, again: bool = False) -> int:
        if plain.bulk:
            return self.clients.triggers.bulk_ms(again=again)
        return self.world.now_ms + again * URGENT_VISIBILITY_MS

    # ---- ingest
    def starts(self, limit_ms: int) -> list[Callable[[], None]]:
        """Returns a start of the ingest function if messages can be received."""
        due = [each for each in self.waiting if each.visible_ms <= self.world.now_ms]
        return [lambda: self._receive(due, limit_ms)] if due else []

    def _receive(self, due: list[Plain], limit_ms: int) -> None:
        first = self.random.choice(due)
        alike = [each for each in due if (each.life.name, each.bulk) == (first.life.name, first.bulk)]
        batch = self.random.sample(alike, min(len(alike), self.random.randint(1, _MOST_BATCH)))
        for each in batch:
            each.visible_ms = self._comes_ms(each, again=True)
            each.message.receive_count += 1
        ids = [id for each in batch for id in each.ids]
        self.world.promises.tried(ids)

        def call(ports: FaultyPorts) -> None:
            functions = MemoryFunctions(ports, _STACK._settings)  # type: ignore[arg-type]
            failed = functions.batch("ingest", self._arn(first.bulk), [each.message for each in batch])
            for error in failed.values():
                if error is not None and not self.world.tolerates(error, first.life.name):
                    raise error
            forwarded = {id for call, id in ports.task.sent if call == FORWARDED}
            for each in batch:
                if each.message.id not in failed:
                    self._ingested(each, forwarded)

        self.world.start("ingest plain", call, topic=first.life.name, limit_ms=limit_ms)
        self.world.note(f"ingest plain {self.world.names}: {', '.join(each.message.id for each in batch)}")
        if self.world.happens(0.1):
            self.world.count("trigger: plain messages twice")
            for each in batch:
                each.message.receive_count += 1
            self.world.start("ingest plain again", call, topic=first.life.name, limit_ms=limit_ms)

    def _ingested(self, plain: Plain, forwarded: set[str]) -> None:
        self.waiting = [each for each in self.waiting if each is not plain]
        state = self.world.service.topic_states.read(plain.life.name)
        if state is None or state.generation != plain.life.generation or plain.life.ending:
            return
        for cancel, noted in plain.cancels:
            self._settled(plain.life, cancel, noted, state.sealed)
        self.world.promises.ingested([each for each in plain.ids if each not in forwarded], state.sealed)

    def _settled(self, life: TopicLife, cancel: Cancellation, noted: KeyCancel, sealed: int) -> None:
        """Notes that older messages do not come whose slots are open, or with which ingest begins from now on."""
        self.world.count("client: plain cancel")
        noted.answered = self.world.step if noted.answered is None else noted.answered
        if any(purge.sent_before_ms >= cancel.sent_at_ms for purge in life.purges):
            return  # a purge raises versions
        soon_ms = self.world.now_ms + self.world.service.max_skew_ms
        for each in life.keys[cancel.key].members:
            older = (each.sent_ms, each.seq) < (cancel.sent_at_ms, cancel.seq) and each.moves is None
            waits = each.deliver_at_ms > soon_ms and each.deliver_at_ms // life.slot_ms >= sealed
            if older and not each.purge_doubt and (waits or each.tried is None):
                self.world.count("client: plain cancel in time")
                self.world.promises.never(each, f"was cancelled with {cancel.key}", self.world.step)

    def check(self) -> None:
        """Checks that no message is left.

        Raises:
            Violation: one still comes again.
        """
        for each in self.waiting:
            raise Violation(f"{each.message.id} is still in its queue", each.life.name, each.message.id)
