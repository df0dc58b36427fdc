"""Clients of recurring messages during a run."""

from __future__ import annotations

from random import Random

from tests.simulation.clients import COLOURS, Clients
from tests.simulation.faults import FaultyPorts
from tests.simulation.promises import Repeated, TopicLife
from tests.simulation.world import World
from tidewheel.client.recurring import _checked, end, make
from tidewheel.errors import UnknownRecurring
from tidewheel.model.message import Message
from tidewheel.model.recurrence import Rule, rule_of
from tidewheel.model.topic_state import TopicState
from tidewheel.model.validation import OutgoingMessage

MOST_RULES = 2
"""Of a topic, in all its life."""
_FOREVER_MS = 1 << 62


class Rules:
    """The clients of recurring messages in a world."""

    def __init__(self, world: World, clients: Clients) -> None:
        self.world = world
        self.clients = clients
        self._names = 0

    @property
    def random(self) -> Random:
        """The run's source of chance."""
        return self.world.random

    def make_or_end(self, life: TopicLife) -> None:
        """Makes or ends a recurring message."""
        under_way = [each for each in life.repeated.values() if each.made_ms is not None and each.planned is None]
        if under_way and (len(life.repeated) >= MOST_RULES or self.random.random() < 0.5):
            self.end(life, self.random.choice(under_way))
        elif len(life.repeated) < MOST_RULES:
            self._make(life)

    def _make(self, life: TopicLife) -> None:
        state = self.world.service.topic_states.read(life.name)
        if state is None or state.generation != life.generation:
            return
        self._names += 1
        now_ms = self.world.now_ms
        rule = Rule(period_s=self.random.choice([120, 600, 1200]), start_ms=-(-now_ms // 1000) * 1000)
        colour = self.random.choice(COLOURS)
        attributes = {} if colour is None else {"colour": colour}
        message = Message(body="again and again", attributes=attributes, window="15m" if self._names % 2 else None)
        name = f"rule-{self._names}"
        checked = _checked(state, name, message, rule, now_ms)
        made = Repeated(
            name=name,
            generation=checked.generation,
            rule=rule_of(checked),
            first_ms=_FOREVER_MS,
            due_from=life.live(),
            text="again and again",
            colour=colour,
        )
        life.repeated[name] = made

        def call(ports: FaultyPorts) -> None:
            state = ports.topic_states.read(life.name)
            if state is None or state.generation != life.generation:
                return

            def send_early(early: list[OutgoingMessage]) -> None:
                self.clients.put(ports, state, life, early)

            def read_topic_state() -> TopicState:
                found: TopicState | None = ports.topic_states.read(life.name)
                if found is None or found.generation != life.generation:
                    raise UnknownRecurring(life.name, name)
                return found

            client_ms = ports.clock.now_ms()
            try:
                make(
                    ports, send_early, read_topic_state, client_ms, name, message, rule, starts_now=True, replaces=False
                )
            finally:  # its maker may not create schedules: the next sweep does
                self.clients.triggers.sweep_in_time()
            item = self.world.service.recurring.read(life.name, name)
            if item is not None and made.planned is None:
                made.first_ms, made.made_ms = item.first_ms, self.world.now_ms

        self.world.start_client("make recurring", life.name, call)

    def end(self, life: TopicLife, rule: Repeated) -> None:
        """Ends a recurring message."""

        def call(ports: FaultyPorts) -> None:
            state = self.world.service.topic_states.read(life.name)
            if state is None or state.generation != life.generation:
                return
            rule.planned = state.planned if rule.planned is None else min(rule.planned, state.planned)

            def read_topic_state() -> TopicState:
                found: TopicState | None = ports.topic_states.read(life.name)
                if found is None or found.generation != life.generation:
                    raise UnknownRecurring(life.name, rule.name)
                return found

            try:
                end(ports, read_topic_state, rule.name)
            except UnknownRecurring:
                return
            after = self.world.service.topic_states.read(life.name)
            if rule.sealed is None and after is not None:
                rule.sealed = after.sealed

        self.world.start_client("end recurring", life.name, call)
