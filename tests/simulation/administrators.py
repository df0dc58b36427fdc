"""Administrators create, delete, pause, filter, purge and replay topics and subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from random import Random
from typing import Any

from tests.flows.alone import local_engine
from tests.simulation.faults import FaultyPorts
from tests.simulation.interleaving import Task
from tests.simulation.promises import Pause, Purging, Reader, TopicLife
from tests.simulation.world import LONGEST_MS, MAX_SKEW_MS, Ended, World
from tests.stored import stored
from tidewheel.errors import AlreadyExists, InvalidValue, RetentionExpired, TooManyPurges, UnknownSubscription
from tidewheel.flows.administration.delete_topic import delete_topic
from tidewheel.flows.administration.pause import delete_subscription, pause, resume, update_subscription
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.administration.replay import replay
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.administration.update_topic import update_topic
from tidewheel.flows.maintenance.checkpoint import find_checkpoints
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.memory import MemoryService
from tidewheel.model.settings import StoredSettings, TopicSettings
from tidewheel.model.subscription_state import Delivery
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.deliveries import Replay

LASTING = ("audit", "billing")
"""Subscriptions that each topic has from the beginning to the end."""
POLICIES = (None, '{"colour":["red"]}', '{"colour":["blue","red"]}')
REBUILD_LEASE_S = LONGEST_MS // 1000
"""It outlives whatever is under way, a rebuild as well."""
_FOREVER_MS = 1 << 62


class Administrators:
    """The administrators of a world.

    Args:
        crowd: how many subscriptions the first topic has besides the others.
    """

    def __init__(self, world: World, settings: dict[str, TopicSettings], *, crowd: int = 0) -> None:
        self.world = world
        self.settings = settings
        self.crowd = crowd
        self.queues_gone: set[str] = set()
        self._names = 0

    @property
    def random(self) -> Random:
        """The run's source of chance."""
        return self.world.random

    def _start(
        self, kind: str, life: TopicLife, call: Callable[[FaultyPorts], None], ended: Ended | None = None
    ) -> None:
        self.world.start_client(kind, life.name, call, ended)

    # ---- topics
    def prepare(self) -> None:
        """Makes all topics and their subscriptions, before anything goes wrong."""
        for topic in self.settings:
            life = self._begun(topic, create_topic(self.world.service, self.world.clock, topic, self.settings[topic]))
            for name in LASTING:
                reader = self._reader(life, name, self.random.choice(POLICIES) if name == "billing" else None)
                self._subscribe(self.world.service, life, reader, "latest")
        first = self.world.promises.life(next(iter(self.settings)))
        assert first is not None
        for number in range(self.crowd):
            reader = self._reader(first, f"crowd-{number}", self.random.choice(POLICIES))
            self._subscribe(self.world.service, first, reader, "latest")

    def _begun(self, topic: str, state: TopicState) -> TopicLife:
        known = self.world.promises.of_generation(topic, state.generation)
        if known is not None:
            return known
        life = TopicLife(
            name=topic,
            generation=state.generation,
            slot_ms=state.slot_ms,
            lookahead_ms=state.settings.lookahead_ms,
            claims=state.settings.claims,
        )
        self.world.promises.lives.append(life)
        return life

    def delete_topic(self, life: TopicLife) -> None:
        """Deletes a topic, or creates a deleted topic again."""
        if not life.ending:
            life.ending = True
            self.world.deleted.add(life.name)
            self._start("delete topic", life, lambda ports: delete_topic(ports, ports.clock, life.name))
            return

        def create(ports: FaultyPorts) -> None:
            again = self._begun(life.name, create_topic(ports, ports.clock, life.name, self.settings[life.name]))
            for name in LASTING:
                if again.reader(name) is None and not again.ending:
                    self._subscribe(ports, again, self._reader(again, name, None), "latest")

        self._start("create topic again", life, create)

    def change_settings(self, life: TopicLife) -> None:
        """Changes a topic's part sizes and retention."""
        random = self.random
        changes = {
            "inline_rows": random.choice([1, 3, 2000]),
            "part_rows": random.choice([1, 2, 1000]),
            "segment_rows": random.choice([1, 2, 5000]),
            "retention_days": random.choice([0, 1]),
        }

        def change(ports: FaultyPorts) -> None:
            update_topic(ports, ports.clock, life.name, changes)

        self._start("change settings", life, change)

    # ---- subscriptions
    def _reader(self, life: TopicLife, name: str, policy: str | None) -> Reader:
        self._names += 1
        reader = Reader(name=name, queue_url=f"{life.name}-{name}-{self._names}", policies=[policy])
        life.readers.append(reader)
        return reader

    def _subscribe(self, ports: FaultyPorts | MemoryService, life: TopicLife, reader: Reader, position: str) -> None:
        create_subscription(
            ports,
            self.world.clock,
            life.name,
            reader.name,
            reader.queue_url,
            "earliest" if position == "earliest" else "latest",
            settings=StoredSettings(filter_policy=reader.policies[0], reader="tidewheel"),
        )
        reader.made = True
        state = self.world.service.topic_states.read(life.name)
        if state is not None:
            self.world.promises.belongs(reader, life, state.generation)

    def subscribe_or_not(self, life: TopicLife) -> None:
        """Adds or removes a third subscription."""
        there = self.world.service.subscriptions.read(life.name, "third")
        if there is None:
            reader = self._reader(life, "third", self.random.choice(POLICIES))
            position = self.random.choice(["latest", "earliest"])

            def create(ports: FaultyPorts) -> None:
                try:
                    self._subscribe(ports, life, reader, position)
                except AlreadyExists:  # another attempt was made meanwhile
                    reader.ended = True

            self._start("subscribe", life, create)
            return

        def end() -> None:
            for reader in life.readers:
                if reader.name == "third":
                    reader.ended = True

        def delete(ports: FaultyPorts) -> None:
            try:
                delete_subscription(ports, life.name, "third")
            except UnknownSubscription:
                return
            finally:  # also one that was made after this began
                end()

        end()

        self._start("unsubscribe", life, delete)

    def subscribe_where_nobody_is(self) -> None:
        """Subscribes to each rebuilt topic without a subscription, so that the waiting messages have a receiver."""
        for topic in self.world.rested_ms:
            state, life = self.world.service.topic_states.read(topic), self.world.promises.life(topic)
            if state is None or life is None or life.ending or self.world.service.subscriptions.all(topic):
                continue
            self._subscribe(self.world.service, life, self._reader(life, LASTING[0], None), "earliest")

    def pause_or_resume(self, life: TopicLife) -> None:
        """Pauses or resumes a lasting subscription."""
        reader = life.reader(self.random.choice(LASTING))
        if reader is None or not reader.made:
            return
        promises, owner = self.world.promises, (life.name, reader.name)

        def stop(ports: FaultyPorts) -> None:
            # Of a resume and a pause at one time, either may be the last.
            resumes, at_once = promises.resumes[owner], promises.resuming[owner]
            try:
                self._hinder(life.name, reader.name)
                pause(ports, life.name, reader.name)
            finally:
                self._hinder(life.name, reader.name)
            state = self.world.service.topic_states.read(life.name)
            at_once += promises.resumes[owner] - resumes
            if not at_once and state is not None:
                if reader.pause is None:
                    reader.pause = Pause(step=self.world.step, sealed=state.sealed)
                self.world.note(f"{owner} is paused")

        def go_on(ports: FaultyPorts) -> None:
            reader.pause = None
            promises.resumes[owner] += 1
            promises.resuming[owner] += 1
            try:
                resume(ports, ports.queues, ports.clock, life.name, reader.name)
            finally:
                promises.resuming[owner] -= 1

        if self.random.random() < 0.5:
            self._start("pause", life, stop)
        else:
            self._start("resume", life, go_on)

    def _hinder(self, topic: str, name: str) -> None:
        for reader in self.world.promises.named(topic, name):
            reader.hindered = True

    def set_filter(self, life: TopicLife) -> None:
        """Changes the filter of a subscription."""
        reader = life.reader("billing")
        if reader is None or not reader.made:
            return
        policy = self.random.choice(POLICIES)

        def change(ports: FaultyPorts) -> None:
            # Who has the name when the call takes effect; not always who had it when the call began.
            self._allow_filter(life.name, policy)
            try:
                update_subscription(ports, life.name, "billing", {"filter_policy": policy})
            finally:
                self._allow_filter(life.name, policy)

        self._start("set filter", life, change)

    def _allow_filter(self, topic: str, policy: str | None) -> None:
        for reader in self.world.promises.named(topic, "billing"):
            if policy not in reader.policies:
                reader.policies.append(policy)

    def queue_comes_and_goes(self, life: TopicLife) -> None:
        """Breaks or heals a queue."""
        reader = life.reader("audit")
        if reader is None:
            return
        queue, reader.hindered = reader.queue_url, True
        if queue in self.queues_gone:
            self.world.service.queues.restore(queue)
            self.queues_gone.discard(queue)
        else:
            self.world.service.queues.remove(queue)
            self.queues_gone.add(queue)
            reader.broken_off += any(each.topic in (None, life.name) for each in self.world.running)
            self.world.count("client: a queue is gone")
        self.world.note(f"{queue} {'is gone' if queue in self.queues_gone else 'is back'}")

    def something_lasts(self, life: TopicLife) -> None:
        """Begins a lasting fault, if there is room for one."""
        lasting = self.world.lasting
        assert lasting is not None
        reader = life.reader(lasting.victim)
        fault = lasting.begin(self.world.now_ms, None if reader is None or not reader.made else reader.queue_url)
        if fault is None:
            return
        if reader is not None and fault.queue_url is not None:
            reader.refused_for_long = True
        last_s = (fault.until_ms - self.world.now_ms) // 1000
        self.world.count(f"fault: {fault.kind} for long")
        self.world.note(f"{fault.kind} {fault.queue_url or ''} refused for {last_s} s, share {fault.share}")

    # ---- purge, replay
    def purge(self, life: TopicLife) -> None:
        """Purges all messages sent until now, or the messages due in a range."""
        first_ms: int | None = None
        end_ms: int | None = None
        if self.random.random() < 0.7:
            first_ms = self.world.now_ms + self.random.randint(-600, 3600) * 1000
            end_ms = first_ms + self.random.randint(1, 1800) * 1000

        def call(ports: FaultyPorts) -> None:
            promises = self.world.promises
            purging = Purging(first_ms=first_ms or 0, end_ms=end_ms or _FOREVER_MS, sent_before_ms=_FOREVER_MS)
            life.purges.append(purging)
            for each in [each for each in promises.sent.values() if each.topic is life and purging.drops(each)]:
                each.purge_doubt = True
            try:
                done = purge(ports, ports.clock, life.name, first_ms=first_ms, end_ms=end_ms)
            except TooManyPurges:
                return
            finally:
                # It is not after its caller's clock, nor after an earlier purge by a clock that was ahead.
                state = self.world.service.topic_states.read(life.name)
                known_ms = 0 if state is None else state.sent_at_ms(0)
                purging.sent_before_ms = max(known_ms, self.world.now_ms + 2 * MAX_SKEW_MS)
            if state is None or state.generation != life.generation:
                for other in promises.lives:  # a topic of the same name was purged in its place
                    if other is not life and other.name == life.name:
                        other.purges.append(purging)
                for each in promises.sent.values():
                    each.purge_doubt = each.purge_doubt or (each.topic.name == life.name and purging.drops(each))
                return
            self.world.count("client: purged")
            purging.sent_before_ms = done.sent_before_ms
            for each in [each for each in promises.sent.values() if each.topic is life and purging.drops(each)]:
                # What SQS takes after the purge is not purged, though its sender began before.
                taken = each.accepted_ms is not None and each.accepted_ms < purging.sent_before_ms
                # What came while its slot was sealed had come rightly. A rebuild opens the slots of its plans again.
                taken = taken and (each.ingested_open or not promises.came(each))
                if taken and each.deliver_at_ms // life.slot_ms >= state.sealed:
                    promises.never(each, "was purged", self.world.step)

        self._start("purge", life, call)

    def replay(self, life: TopicLife) -> None:
        """Replays messages of a past range of time."""
        reader = life.reader(self.random.choice(LASTING))
        if reader is None or not reader.made:
            return
        alone = self.random.random() < 0.3

        def call(ports: FaultyPorts) -> None:
            try:
                enqueue = None if alone else ports.queues.enqueue_parts
                storage: Any = copy(ports)
                storage.deliveries = _Opening(ports.deliveries, self.world)
                done = replay(storage, ports.clock, life.name, reader.name, enqueue=enqueue)
            except (InvalidValue, RetentionExpired):
                return
            self.world.exercised["client: plans replayed"] += done.plans

        self._start("replay", life, call)

    # ---- rebuild
    def rebuild(self, life: TopicLife) -> None:
        """Rebuilds a topic's index, or continues a rebuild after a crash. No other administrator works on the topic.

        Senders, cancels, functions and merges go on, as they do in service.
        """
        world = self.world
        if life.ending or world.administered(life.name):
            return
        storage = world.service
        items = stored(storage).of(life.name)
        for reader in life.readers:
            reader.hindered = True
            reader.replays = [replace(each, before={}) for each in reader.replays]
            there = items.subscriptions.get(reader.name)
            opened = [each.key.plan for each in items.deliveries.values() if each.key.subscription == reader.name]
            if there is not None:
                reader.again_from.append(min([there.cursor, *opened]))

        loses_keys = world.random.random() < 0.5

        def call(ports: FaultyPorts) -> None:
            def settle() -> None:
                world.wait_for_others(ports.task, life.name)
                if loses_keys:
                    self._lose_keys(life)

            engine = local_engine(ports)
            rebuild(ports, life.name, engine, lease_s=REBUILD_LEASE_S, replace_index=True, settle=settle)
            world.count("client: rebuilt")

        def ended(_: Task) -> None:
            if storage.topic_states.read(life.name) is not None:
                world.at_rest.discard(life.name)
                world.rested_ms[life.name] = world.now_ms

        world.at_rest.add(life.name)
        self._start("rebuild", life, call, ended)

    def _lose_keys(self, life: TopicLife) -> None:
        """Removes the keys of a topic at rest, which remain in ledgers and the checkpoint. So no promise is weaker.

        What was cancelled, or sent directly, since the checkpoint is lost with a table. It stays here.
        """
        storage = self.world.service
        checkpoint = find_checkpoints(storage.objects, life.name).newest
        items = stored(storage).of(life.name)
        if checkpoint is None:
            return
        known = set(checkpoint.keys)
        for key, entry in list(items.keys.items()):
            waits = entry.deliver_at_ms // life.slot_ms >= checkpoint.sealed
            if entry in known or (entry.floor == (0, 0) and not entry.tail_ms and waits):
                del items.keys[key]
                self.world.count("client: keys lost")


class _Opening:
    """The deliveries of a replaying administrator. Notes each opened delivery, also if the answer is lost."""

    def __init__(self, deliveries: Any, world: World) -> None:
        self._deliveries, self._world = deliveries, world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deliveries, name)

    def open_replay(self, state: TopicState, delivery: Delivery) -> Replay:
        """Opens a delivery. The sweep may hand out the delivery before the answer arrives."""
        items = stored(self._world.service).of(delivery.key.topic)
        try:
            answer: Replay = self._deliveries.open_replay(state, delivery)
            return answer
        finally:
            plan = items.plans.get(delivery.key.plan)
            owner = self._world.promises.reader_of(delivery.queue_url)
            if delivery.key in items.deliveries and plan is not None and owner is not None:
                self._world.promises.replaying(*owner, delivery, plan.end_slot)
