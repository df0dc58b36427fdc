"""Watches a run. Checks each message that a queue takes, each deletion and each change of a topic state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.simulation.consumers import Consumers
from tests.simulation.lasting import FAULTY_TOPIC
from tests.simulation.promises import Promises, Reader, Repeated, Sent, TopicLife, Violation
from tests.simulation.world import LONGEST_MS, MAX_SKEW_MS, World
from tests.stored import TopicItems, stored
from tidewheel.flows.ports import QueueMessage
from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms, id_text
from tidewheel.model.recurring import occurrence_id
from tidewheel.model.topic_state import TopicState

_GROWING = ("sealed", "planned", "collected_until", "work_version", "swap_version", "subscriptions_version", "purge_ms")


class Watch:
    """Watches a world.

    A promise that is broken inside a function is kept, since the function's own error handling must not hide it.
    """

    def __init__(self, world: World, consumers: Consumers | None = None) -> None:
        self._world = world
        self._consumers = consumers
        self._calm = world.calm
        self._states: dict[str, TopicState] = {}
        self._writes = 0
        self._cursors: dict[tuple[str, str, str], int] = {}
        world.faults.took = self.took
        world.faults.refused = self.refused
        world.faults.removed = self.removed

    @property
    def _promises(self) -> Promises:
        return self._world.promises

    def _break(self, what: str, *about: str) -> None:
        self._world.broken.append(Violation(what, *about))

    # ---- a message enters a queue
    def took(self, queue_url: str, release: QueueMessage, delay_s: int) -> None:
        """Checks a message accepted by a queue."""
        header = json.loads(release.header)
        message_id = MessageId(header["id"])
        sent = self._promises.sent.get(message_id)
        # What the service makes of the time is no measure of it: the sender's own word is, or that of the id.
        due_ms = id_deliver_at_ms(id_bytes(message_id)) if sent is None else sent.deliver_at_ms
        visible_ms = self._world.now_ms + delay_s * 1000
        if visible_ms < due_ms - self._world.most_early_ms:
            self._break(f"{message_id} can be received {due_ms - visible_ms} ms before its time", message_id)
        owner = self._promises.reader_of(queue_url)
        if owner is None:
            self._break(f"{message_id} went to {queue_url}, which is nobody's", message_id)
            return
        life, reader = self._where_it_is(*owner)
        self._promises.copies[queue_url, message_id] += 1
        if sent is not None:
            self._check_sent(life, reader, sent)
            if self._consumers is not None:
                self._consumers.took(life, reader, sent, header.get("claim"), visible_ms)
            else:
                self._check_given(life, reader, sent)
            came, asked = (release.text, (release.attributes or {}).get("colour")), (sent.text, sent.colour)
            if came != asked:
                self._break(f"{message_id} came as {came}, and was sent as {asked}", life.name, message_id)
            if reader in sent.due_from and reader.takes(sent) == {True}:
                self._check_late(life, reader, message_id, due_ms, sent.accepted_ms, visible_ms)
        elif (rule := self._rule_of(life, message_id, due_ms, header.get("key"))) is not None:
            self._check_occurrence(life, reader, rule, message_id, release)
            if reader in rule.due_from and reader.takes_colour(rule.colour) == {True}:
                self._check_late(life, reader, message_id, due_ms, rule.made_ms, visible_ms)
        else:
            self._break(f"{message_id} came to {reader.name}, but nobody sent it", life.name, message_id)
        if "ref" in header:
            self._check_body(life, message_id, header)

    def _check_body(self, life: TopicLife, message_id: MessageId, header: Mapping[str, Any]) -> None:
        objects, name = self._world.service.objects, header["ref"]
        if not objects.names(name):
            self._break(f"{message_id} was handed out without its body {name}", life.name, message_id)
            return
        data = objects.get_range(name, 0, 1 << 20)
        if (hashlib.sha256(data).hexdigest(), len(data)) != (header["sha256"], header["bytes"]):
            self._break(f"{message_id} was handed out with another body {name}", life.name, message_id)

    def _where_it_is(self, life: TopicLife, reader: Reader) -> tuple[TopicLife, Reader]:
        """Moves a subscription into the topic's next life, if the subscription was made there by a dead maker."""
        storage = self._world.service
        state, there = storage.topic_states.read(life.name), storage.subscriptions.read(life.name, reader.name)
        if state is None or there is None or there.queue_url != reader.queue_url:
            return life, reader
        return self._promises.belongs(reader, life, state.generation), reader

    def _check_sent(self, life: TopicLife, reader: Reader, sent: Sent) -> None:
        now_ms = self._world.now_ms
        if sent.topic is not life:
            self._break(f"{sent.id} of a deleted topic came to {reader.name} of its successor", life.name, sent.id)
        # A function with a clock that may be behind has read the time, and may then have stood still.
        if (
            sent.expires_at_ms is not None
            and now_ms > sent.expires_at_ms + LONGEST_MS + MAX_SKEW_MS + self._world.most_early_ms
        ):
            self._break(f"{sent.id} came to {reader.name} long after it had expired", life.name, sent.id)
        if reader.takes(sent) == {False}:
            self._break(f"{sent.id} came to {reader.name}, which does not take it", life.name, sent.id)
        pause, slot = reader.pause, sent.deliver_at_ms // life.slot_ms
        if pause is not None and (sent.step > pause.step or slot >= pause.sealed):
            self._break(f"{sent.id} came to {reader.name}, which is paused", life.name, sent.id)

    def _check_given(self, life: TopicLife, reader: Reader, sent: Sent) -> None:
        if sent.never is not None:
            self._break(f"{sent.id} {sent.never}, and came to {reader.name}", life.name, sent.id)
        for other in self._promises.family(sent):
            linked = other.moves == sent.id or sent.moves == other.id
            if linked and self._promises.copies[reader.queue_url, other.id]:
                self._break(f"{sent.id} and {other.id}, one moved to the other, both came", life.name, sent.id)

    def _check_occurrence(
        self, life: TopicLife, reader: Reader, rule: Repeated, message_id: MessageId, release: QueueMessage
    ) -> None:
        came, asked = (release.text, (release.attributes or {}).get("colour")), (rule.text, rule.colour)
        if came != asked:
            self._break(f"{message_id} came as {came}, and {rule.name} says {asked}", life.name, rule.name)
        if reader.takes_colour(rule.colour) == {False}:
            self._break(f"{message_id} came to {reader.name}, which does not take {rule.name}", life.name, rule.name)

    def _check_late(
        self, life: TopicLife, reader: Reader, message_id: MessageId, due_ms: int, known_ms: int | None, visible_ms: int
    ) -> None:
        """Bounds the lateness of a first copy in a calm run. `known_ms` is the time of the sender's answer."""
        first = self._promises.copies[reader.queue_url, message_id] == 1
        if known_ms is None or not self._timely(life, reader) or not first:
            return
        late_ms = visible_ms - max(due_ms, known_ms)
        if late_ms > self._world.most_late_ms(due_ms):
            self._break(f"{message_id} came to {reader.name} {late_ms} ms late", message_id)

    def _timely(self, life: TopicLife, reader: Reader) -> bool:
        """Whether all messages of a reader must be in time."""
        lasting = self._world.lasting
        if lasting is None:
            return self._calm and not reader.hindered
        spared = lasting.family in ("queues", "key", "wheel") or (
            lasting.family == "topic" and life.name != FAULTY_TOPIC
        )
        return spared and not reader.hindered and not reader.refused_for_long

    def _rule_of(self, life: TopicLife, message_id: MessageId, due_ms: int, name: str | None) -> Repeated | None:
        """Returns the recurring message of an occurrence. Returns None for any other message."""
        rule = None if name is None else life.repeated.get(name)
        if rule is None or id_text(occurrence_id(rule.generation, rule.name, due_ms)) != message_id:
            return None
        if rule.sealed is not None and due_ms >= rule.first_ms and due_ms // life.slot_ms >= rule.sealed:
            self._break(
                f"{message_id} of {name} came, which was ended before its slot was sealed", life.name, name or ""
            )
        return rule if rule.rule.between(due_ms, due_ms + 1, 1) else None

    def refused(self, document: Mapping[str, object]) -> None:
        """Notes a message that SQS refuses, which was kept with the reason."""
        if "header" not in document:  # of another program
            return
        header = json.loads(str(document["header"]))
        self._promises.refused.add((str(document["queue_url"]), header["id"]))

    # ---- something is deleted
    def removed(self) -> None:
        """Checks after a deletion that all needed items and objects still exist."""
        there = self._world.service.objects._objects
        for topic, items in stored(self._world.service).topics().items():
            if items.state is None or items.state.deleting_at_ms is not None:
                continue
            for name, why in _needed(items):
                if name not in there:
                    self._break(f"{name} is gone, but {why} needs it", topic, name)

    # ---- marks
    def marks(self) -> None:
        """Looks at each topic whose topic state has changed.

        Raises:
            Violation: a mark has gone back, or has passed one that goes before it.
        """
        if (writes := self._world.service.dynamodb.writes(but="")) == self._writes:
            return
        self._writes = writes
        for topic, items in stored(self._world.service).topics().items():
            state, last = items.state, self._states.get(topic)
            if state is None and last is not None:  # deleted; or at rest: a rebuild begins anew, with marks of its own
                del self._states[topic]
                self._cursors = {key: cursor for key, cursor in self._cursors.items() if key[0] != topic}
            if state is last or state is None:
                continue
            self._states[topic] = state
            if state.deleting_at_ms is not None:
                continue
            if not state.collected_until <= state.planned <= state.sealed:
                raise Violation(f"{topic}: not collected_until <= planned <= sealed: {state}", topic)
            if last is not None and last.generation == state.generation:
                for name in _GROWING:
                    before, after = getattr(last, name), getattr(state, name)
                    if after < before:
                        raise Violation(f"{topic}: {name} went back from {before} to {after}", topic)
            self._check_cursors(topic, items, state)

    def _check_cursors(self, topic: str, items: TopicItems, state: TopicState) -> None:
        for name, subscription in items.subscriptions.items():
            key = topic, name, subscription.generation
            before = self._cursors.get(key, state.collected_until)
            if subscription.cursor < before:
                raise Violation(f"{topic}/{name}: its cursor {subscription.cursor} is below {before}", topic)
            if subscription.cursor > state.planned:
                raise Violation(f"{topic}/{name}: its cursor has passed planned {state.planned}", topic)
            self._cursors[key] = subscription.cursor


def _needed(items: TopicItems) -> Iterator[tuple[str, str]]:
    """Yields the needed objects, and their users."""
    owners = {each.name: each for each in items.subscriptions.values()}
    for bucket in items.buckets.values():
        yield bucket.object_name, f"bucket {bucket.id[:8]}"
    for park in items.parks.values():
        owner = owners.get(park.key.subscription)
        if park.object_name is not None and owner is not None and owner.generation == park.key.generation:
            yield park.object_name, f"a park of {owner.name}"
    cursors = [each.cursor for each in owners.values()]
    wanted = {plan for plan in items.plans if any(cursor <= plan for cursor in cursors)}
    for each in items.deliveries.values():
        owner = owners.get(each.key.subscription)
        if owner is not None and owner.generation == each.key.generation:
            if not each.quarantined:
                wanted.add(each.key.plan)
            for name in each.unread_objects:
                yield name, f"delivery {each.key.plan} of {owner.name}"
    for plan in items.plans.values():
        if plan.first_slot in wanted:
            for segment in plan.segments:
                yield segment.object_name, f"plan {plan.first_slot}"
