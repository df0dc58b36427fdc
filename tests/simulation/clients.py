"""Clients send, cancel, move and purge. Each client is a task with its own clock and may die or get no answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.simulation.consumers import Consumers
from tests.simulation.faults import FaultyPorts
from tests.simulation.promises import Family, KeyCancel, KeyHistory, Promises, Sent, TopicLife, Violation
from tests.simulation.triggers import Queued, Triggers
from tests.simulation.world import MAX_SKEW_MS, START_MS, World
from tidewheel.client import waiting
from tidewheel.client.changes import Rescheduled, reschedule
from tidewheel.client.history import history
from tidewheel.client.outcome import SubscriptionProgress
from tidewheel.errors import TidewheelError, UnknownMessage
from tidewheel.flows.delivery.cancel import Cancelled, CancelResult, TooLate, cancel, cancel_key, cancel_many
from tidewheel.flows.delivery.ingest_batch import pack_of
from tidewheel.model.message import IdSource, Message, MessageId, Receipt, id_text
from tidewheel.model.pack import PACK_ATTRIBUTE, Pack, packs
from tidewheel.model.received import QueuedMessage
from tidewheel.model.topic_state import TopicState
from tidewheel.model.validation import Options, OutgoingMessage, check_message
from tidewheel.storage.bodies import store_body

MOST_SENT = 60
KEYS = ("key-1", "key-2")
COLOURS = ("red", "blue", None)
UNSENDABLE = "SQS refuses this"
"""A body that queues are told to refuse for good."""


def _connection(ports: FaultyPorts) -> Any:
    settings = SimpleNamespace(s3_bucket="bucket")
    return SimpleNamespace(storage=ports, objects=ports.objects, settings=settings)


class Clients:
    """The clients of a world.

    Args:
        days: the longest delay of some messages, in days. All others are due within two hours.
    """

    def __init__(self, world: World, triggers: Triggers, *, days: int) -> None:
        self.world = world
        self.triggers = triggers
        self._ids = IdSource()
        self.days = days
        self.consumers: Consumers | None = None

    @property
    def promises(self) -> Promises:
        """The promises of the world."""
        return self.world.promises

    @property
    def random(self) -> Random:
        """The run's source of chance."""
        return self.world.random

    # ---- send
    def send(self, life: TopicLife) -> None:
        """Sends one to six messages."""
        random = self.random
        state = self.world.service.topic_states.read(life.name)
        if state is None or len(self.promises.sent) >= MOST_SENT:
            return
        delays = self.delays(state)
        kind = random.choice(["plain", "plain", "plain", "key", "upsert", "expiry", "large", "refused", "only"])
        wanted: list[tuple[Message, str]] = []
        for delay in delays:
            colour = random.choice(COLOURS)
            body = UNSENDABLE if kind == "refused" and random.random() < 0.3 else f"after {delay} s"
            attributes = {} if colour is None else {"colour": colour}
            message = Message(body=body, attributes=attributes, **self._when(state, delay))
            if kind in ("key", "upsert"):
                message = replace(message, key=random.choice(KEYS), replace=kind == "upsert")
            elif kind == "expiry":
                message = replace(message, expires_in=random.choice([1, 60, 3600]))
            wanted.append((message, kind))

        def call(ports: FaultyPorts) -> None:
            with self.world.unanswered("send"):
                self._send(ports, life, wanted)

        self.world.start("send", call, topic=life.name)

    def _when(self, state: TopicState, delay: int) -> dict[str, Any]:
        """Returns a delay, or as often a time on the edge of a slot, a minute, an hour or a day."""
        if self.random.random() < 0.5:
            return {"delay": delay}
        edges_ms = [state.slot_ms, 60_000, 3_600_000, *([86_400_000] if self.days else [])]
        edge_ms = self.random.choice(edges_ms)
        due_ms = -(-(self.world.now_ms + delay * 1000) // edge_ms) * edge_ms
        return {"deliver_at": due_ms / 1000}

    def delays(self, state: TopicState) -> list[int]:
        """Returns the delays of some messages in seconds."""
        random = self.random
        spans = [5, 120, 900, 1800, 3600, 3600, 7200, *([self.days * 86_400] if self.days else [])]
        delays = [random.randint(0, random.choice(spans)) for _ in range(random.randint(1, 6))]
        if random.random() < 0.5:  # about the slot that is sealed next
            edge_s = state.settings.lookahead_s + state.settings.slot_s
            delays = [max(0, edge_s + random.randint(-60, 60)) for _ in delays]
        return delays

    def _send(self, ports: FaultyPorts, life: TopicLife, wanted: list[tuple[Message, str]]) -> None:
        state = ports.topic_states.read(life.name)
        if state is None or state.generation != life.generation:
            return
        now_ms = ports.clock.now_ms()
        # As consumers send again what they could not do yet.
        resend = Options(only="audit", attempt=1) if wanted[0][1] == "only" else None
        checked = [check_message(message, self._ids, now_ms, resend=resend) for message, _ in wanted]
        if any(kind == "large" for _, kind in wanted):
            checked = [store_body(ports.objects, "bucket", life.name, each) for each in checked]
        self._put(ports, state, life, checked, now_ms)

    def put(self, ports: FaultyPorts, state: TopicState, life: TopicLife, early: list[OutgoingMessage]) -> None:
        """Sends the first occurrences of a recurring message, which are due too soon for the service to plan."""
        self._enqueue(ports, state, life, early, ports.clock.now_ms())

    def _put(
        self, ports: FaultyPorts, state: TopicState, life: TopicLife, checked: list[OutgoingMessage], now_ms: int
    ) -> list[Sent]:
        """Notes messages, and sends them."""
        sent = [self.noted(life, each, state.sent_at_ms(now_ms)) for each in checked]
        due_s = [(each.deliver_at_ms - START_MS) // 1000 for each in sent]
        shown = ", ".join(f"{each.id} due {at} s" for each, at in zip(sent, due_s, strict=True))
        self.world.note(f"{ports.task.name}: sends to {life.name}: {shown}")
        self._enqueue(ports, state, life, checked, now_ms)
        for each in sent:
            each.accepted, each.accepted_ms = True, self.world.now_ms
        self.world.exercised["client: messages"] += len(sent)
        return sent

    def _enqueue(
        self, ports: FaultyPorts, state: TopicState, life: TopicLife, checked: Sequence[OutgoingMessage], now_ms: int
    ) -> None:
        for _, data in packs(life.name, state.generation, state.sent_at_ms(now_ms), checked):
            pack = self._pack(data)
            queued = Queued(
                content=pack, visible_ms=self.triggers.comes_ms(pack), id=f"{ports.task.name}/{self.world.step}"
            )

            def take(queued: Queued = queued) -> None:
                self.triggers.packs.append(queued)

            ports.faults.around(ports.task, "ingest_queue.send", take, f" {len(pack)} to {life.name}")

    def _pack(self, data: bytes) -> Pack:
        """Returns the pack that ingest would read from a message sent now."""
        message = QueuedMessage(
            id="",
            body="",
            attributes={PACK_ATTRIBUTE: {"BinaryValue": data}},
            sent_at_ms=self.world.now_ms,
            receives=1,
            queue_arn="",
        )
        return pack_of(message)

    def noted(self, life: TopicLife, message: OutgoingMessage, sent_ms: int) -> Sent:
        """Notes a message before SQS takes it."""
        options = message.options or Options()
        moves = None if options.moves is None else MessageId(options.moves)
        message_id = id_text(message.id)
        sent = Sent(
            id=message_id,
            topic=life,
            deliver_at_ms=message.deliver_at_ms,
            sent_ms=sent_ms,
            seq=options.seq or 0,
            step=self.world.step,
            due_from=life.live(),
            family=Family(members=[message_id]) if moves is None else self.promises.sent[moves].family,
            text=message.text,
            key=options.key,
            replace=options.replace,
            colour=message.attributes.get("colour"),
            expires_at_ms=options.expires_at_ms,
            payload=options.payload,
            moves=moves,
            refused=message.text == UNSENDABLE,
            only=options.only,
            begun_ms=self.world.now_ms - 2 * MAX_SKEW_MS,
        )
        self.promises.add(sent)
        return sent

    # ---- look
    def look(self, life: TopicLife) -> None:
        """Asks what became of a message, and which messages were sent lately. None is named that no queue took."""
        message = self._one(life)
        if message is None:
            return

        def call(ports: FaultyPorts) -> None:
            connection, now_ms = _connection(ports), ports.clock.now_ms()
            with suppress(TidewheelError), self.world.unanswered("look"):
                self._told(life, message.id, waiting.get(connection, life.name, message.id, now_ms).subscriptions)
                core: Any = SimpleNamespace(connection=connection, clock=ports.clock)
                for each in islice(history(core, life.name), 10):
                    self._told(life, each.id, each.subscriptions)

        self.world.start(f"look at {message.id}", call, topic=life.name)

    def _told(self, life: TopicLife, message_id: MessageId, told: Sequence[SubscriptionProgress]) -> None:
        for each in told:
            self.world.exercised[f"client: told {each.place.value}"] += 1
            queues = [reader.queue_url for reader in life.readers if reader.name == each.name]
            if each.sent and not any(self.promises.copies[queue, message_id] for queue in queues):
                raise Violation(f"{message_id} was called sent to {each.name}, and was not", life.name, message_id)

    # ---- cancel
    def _one(self, life: TopicLife) -> Sent | None:
        known = [each for each in self.promises.sent.values() if each.topic is life and each.accepted]
        return self.random.choice(known) if known else None

    def cancel(self, life: TopicLife) -> None:
        """Cancels a message, or a few at once, by id."""
        found = [each for each in (self._one(life) for _ in range(self.random.choice([1, 1, 3]))) if each is not None]
        asked = list({each.id: each for each in found}.values())
        if not asked:
            return

        def call(ports: FaultyPorts) -> None:
            for each in asked:
                each.family.doubts += 1
                each.family.cancels += 1
            with self.world.unanswered("cancel"):
                now_ms, ids = ports.clock.now_ms(), [each.id for each in asked]
                outcomes: list[CancelResult]
                if len(ids) == 1:
                    outcomes = [cancel(ports, life.state, ids[0], now_ms)]
                else:
                    outcomes = cancel_many(ports, life.state, ids, now_ms)
            for each, outcome in zip(asked, outcomes, strict=True):
                self._cancelled(each, outcome)

        self.world.start(f"cancel {', '.join(each.id for each in asked)}", call, topic=life.name)

    def _cancelled(self, asked: Sent, outcome: CancelResult) -> None:
        asked.family.doubts -= 1
        assert outcome.id is not None
        named = self.promises.sent[outcome.id]
        self.world.count(f"client: cancel {'in time' if outcome else 'too late'}")
        if isinstance(outcome, Cancelled):
            self.promises.never(named, "was cancelled", self.world.step)
            self.promises.never(asked, "was cancelled", self.world.step)
            return
        if self.consumers is not None:
            self.consumers.told(named, outcome)
        state = self.world.service.topic_states.read(asked.topic.name)
        if self.world.was_at_rest(asked.topic.name) or asked.topic.ending:
            return  # a topic without a topic state counts as sealed, and another may have its name since
        if state is not None and named.deliver_at_ms // asked.topic.slot_ms >= state.sealed:
            raise Violation(f"{named.id}: too late, said a cancel, but its slot is open", asked.topic.name, named.id)

    def cancel_key(self, life: TopicLife) -> None:
        """Cancels by key."""
        key = self.random.choice(KEYS)
        history = life.keys.setdefault(key, KeyHistory())

        def call(ports: FaultyPorts) -> None:
            now_ms = ports.clock.now_ms()
            cancelling = KeyCancel(from_ms=now_ms)
            history.cancels.append(cancelling)
            for each in history.members:
                each.family.doubts += 1
                each.family.cancels += 1
            before = [each for each in history.members if each.accepted and each.sent_ms < now_ms]
            version = (now_ms, self._ids.sequence())
            try:
                with self.world.unanswered("cancel by key"):
                    outcome = cancel_key(ports, life.state, key, version, now_ms)
            finally:
                cancelling.until_ms = self.world.now_ms + 2 * self.world.service.max_skew_ms
            cancelling.answered = self.world.step
            self.world.count(f"client: cancel by key {'in time' if outcome else 'too late'}")
            if isinstance(outcome, Cancelled) and not life.ending:
                late_ms = self.world.now_ms + self.world.service.max_skew_ms
                for each in before:
                    # What was purged has freed its key, though it comes if it was handed out before.
                    if each.deliver_at_ms > late_ms and not each.purge_doubt:
                        self.promises.never(each, f"was cancelled with {key}", self.world.step)

        self.world.start(f"cancel {key} of {life.name}", call, topic=life.name)

    # ---- reschedule
    def reschedule(self, life: TopicLife) -> None:
        """Moves a message to another time, by id or by key."""
        message = self._one(life)
        if message is None:
            return
        key = message.key if message.key is not None and self.random.random() < 0.5 else None
        due_ms = self.world.now_ms + self.random.choice([1, 600, 1200, 3600]) * 1000

        def call(ports: FaultyPorts) -> None:
            made: list[Sent] = []
            for each in self.promises.sent.values():  # what was purged, and perhaps sent before, is cancelled instead
                if each.purge_doubt and (each is message or (key is not None and each.key == key)):
                    each.family.cancels += 1
            with self.world.unanswered("reschedule"):
                state = ports.topic_states.read(life.name)
                if state is None or state.generation != life.generation:
                    return
                now_ms = ports.clock.now_ms()

                def send_checked(messages: list[OutgoingMessage]) -> list[Receipt]:
                    [new] = messages
                    assert new.options is not None and new.options.moves is not None
                    self.promises.sent[new.options.moves].family.doubts += 1
                    if new.options.payload is not None:
                        self.world.count("client: large body moved")
                    made.extend(self._put(ports, state, life, messages, now_ms))
                    return [Receipt(id=id_text(new.id), topic=life.name, deliver_at_ms=new.deliver_at_ms)]

                core = SimpleNamespace(connection=_connection(ports), clock=ports.clock, ids=self._ids)
                sender: Any = SimpleNamespace(core=core, state=state, send_checked=send_checked)
                try:
                    outcome = reschedule(sender, due_ms, None if key is not None else message.id, key)
                except UnknownMessage:
                    self.world.count("client: reschedule of what is not there")
                    return
                finally:  # a purged message is not moved but cancelled
                    for each in [message] if key is None else life.keys[key].members:
                        each.family.cancels += each.purge_doubt
            if made:
                self._moved(made[-1], outcome)  # the move before lost against another

        self.world.start(f"reschedule {message.id}", call, topic=life.name)

    def _moved(self, new: Sent, outcome: Rescheduled | CancelResult) -> None:
        new.family.doubts -= 1
        assert new.moves is not None
        old = self.promises.sent[new.moves]
        if isinstance(outcome, Rescheduled):
            self.world.count("client: reschedule in time")
            self.promises.never(old, f"was moved to {new.id}", self.world.step)
            return
        if self.consumers is not None:
            self.consumers.told(old, outcome)
        self.world.count(f"client: reschedule {'too late' if isinstance(outcome, TooLate) else 'of a cancelled one'}")
        self.promises.never(new, f"did not take the place of {old.id}", self.world.step)
