"""Small worlds of recurring messages."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.flows.alone import sweep_orphans
from tests.simulation.actors import require, step
from tests.simulation.exploring import Scenario
from tests.simulation.healing import DAY, HOUR, SLOT_S, START_MS, TOPIC, dispatch_as_function
from tests.simulation.small_world import SmallWorld
from tidewheel.client.recurring import end, make
from tidewheel.flows.administration.pause import pause
from tidewheel.model.message import Message
from tidewheel.model.recurrence import parse_rule

_EVERY_SLOTS = 3


def _recurs(world: SmallWorld, ports: Any) -> None:
    rule = parse_rule(None, _EVERY_SLOTS * SLOT_S, start_ms=START_MS)

    def state() -> Any:
        found = ports.topic_states.read(TOPIC)
        assert found is not None
        return found

    make(
        ports,
        lambda early: None,
        state,
        ports.clock.now_ms(),
        "tick",
        Message(body="tick"),
        rule,
        starts_now=False,
        replaces=True,
    )


def _recurring(world: SmallWorld) -> None:
    """Ends a recurring message after an hour, and checks each occurrence of the hour for exactly one copy."""

    def ends() -> None:
        found = world.service.recurring.read(TOPIC, "tick")
        require(found is not None, "arranging: there is no recurring message")
        end(world.service, lambda: world.state, "tick")
        first = -(-found.first_ms // (_EVERY_SLOTS * SLOT_S * 1000))
        last = world.clock.now_ms() // (_EVERY_SLOTS * SLOT_S * 1000)
        wanted = {number * _EVERY_SLOTS * SLOT_S * 1000 for number in range(first, last)}
        came = Counter(message.deliver_at_ms for message in world.service.queues.sent("queue-billing"))
        missing = sorted((due_ms - START_MS) // (SLOT_S * 1000) for due_ms in wanted if not came[due_ms])
        require(not missing, f"of a recurring message did not come what is due in slots {missing}")
        twice = [due_ms for due_ms, count in came.items() if count > 1]
        require(not twice, f"{len(twice)} occurrences came twice")

    world.before_days.append(ends)


def _recur_and_dispatch(slot: int | None, dispatched: int) -> SmallWorld:
    """A slow client makes a recurring message while a later slot is dispatched."""
    world = SmallWorld("billing")
    if slot is not None:
        world.send(a=slot)
        world.want("billing", messages="a")
    _recurring(world)
    world.at(1)

    def later(ports: Any) -> None:
        step(ports.actor, "time.passes", lambda: world.at(dispatched))
        dispatch_as_function(ports)

    world.act("recurring message", lambda ports: _recurs(world, ports))
    world.act("later dispatch", later)
    return world


def _recurring_again() -> SmallWorld:
    """One client ends a recurring message while another client ends and makes the same recurring message."""
    world = SmallWorld("billing")
    _recurs(world, world.service)
    seen = world.service.recurring.read(TOPIC, "tick")

    def ends(ports: Any) -> None:
        ports.recurring.delete(ports.topic_states.read(TOPIC), "tick", seen.generation)

    def anew(ports: Any) -> None:
        found = ports.recurring.read(TOPIC, "tick")
        if found is not None:
            ports.recurring.delete(ports.topic_states.read(TOPIC), "tick", found.generation)
        rule = parse_rule(None, 2 * _EVERY_SLOTS * SLOT_S, start_ms=START_MS)
        message = Message(body="another")
        made = lambda: ports.topic_states.read(TOPIC)  # noqa: E731
        make(
            ports,
            lambda early: None,
            made,
            ports.clock.now_ms(),
            "tick",
            message,
            rule,
            starts_now=False,
            replaces=True,
        )

    world.act("end", ends)
    world.act("end, and make anew", anew)

    def look() -> None:
        found = world.service.recurring.read(TOPIC, "tick")
        require(
            found is not None and found.text == "another", "a recurring message was ended by what was meant for the old"
        )
        require(world.state.recurring == 1, f"the topic state counts {world.state.recurring} recurring messages, of 1")
        end(world.service, lambda: world.state, "tick")

    world.looks.append(look)
    return world


def _recurring_and_paused() -> SmallWorld:
    """A plan with occurrences waits for a paused subscription for more than a day, and orphans are swept."""
    world = SmallWorld("billing", "late")
    _recurs(world, world.service)
    pause(world.service, TOPIC, "late")
    world.at(20)
    world.dispatch()
    end(world.service, lambda: world.state, "tick")
    world.clock.advance_ms(DAY + HOUR)
    world.act("sweep of orphans", sweep_orphans)
    world.at_end.append(
        lambda: require(
            sorted(world.received("late")) == sorted(world.received("billing")), "late did not get what billing got"
        )
    )
    return world


RECUR_DISPATCH = Scenario(name="a recurring message against dispatch", build=lambda: _recur_and_dispatch(9, 8))
RECUR_ALONE = Scenario(name="a recurring message against the seal", build=lambda: _recur_and_dispatch(None, 8))
RECUR_NEXT_SLOT = Scenario(
    name="a recurring message against a raise of the next slot", build=lambda: _recur_and_dispatch(5, 4)
)
RECURRING_AGAIN = Scenario(name="two ends of a recurring message", build=_recurring_again)
RECURRING_PAUSED = Scenario(name="orphans beside occurrences", build=_recurring_and_paused, most=0)
