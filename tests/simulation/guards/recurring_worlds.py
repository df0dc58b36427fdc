"""Small worlds of recurring messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tests.flows.alone import sweep_orphans
from tests.simulation.actors import require, step
from tests.simulation.exploring import Scenario, scenario
from tests.simulation.healing import DAY, HOUR, SLOT_S, START_MS, TOPIC, dispatch_as_function
from tests.simulation.small_world import SmallWorld
from tidewheel.client.recurring import end, make
from tidewheel.flows.administration.pause import pause
from tidewheel.flows.delivery.work import do_task
from tidewheel.flows.maintenance.collect import collect
from tidewheel.model.message import Message
from tidewheel.model.recurrence import parse_rule
from tidewheel.model.validation import OutgoingMessage

_EVERY_SLOTS = 3


def _recurs(world: SmallWorld, ports: Any, early: Callable[[list[OutgoingMessage]], None] = lambda _: None) -> None:
    rule = parse_rule(None, _EVERY_SLOTS * SLOT_S, start_ms=START_MS)

    def state() -> Any:
        found = ports.topic_states.read(TOPIC)
        assert found is not None
        return found

    make(ports, early, state, ports.clock.now_ms(), "tick", Message(body="tick"), rule, starts_now=False, replaces=True)


def _recurring(world: SmallWorld, early: Sequence[OutgoingMessage] = ()) -> None:
    """Ends a recurring message after an hour, and checks each occurrence of the hour for exactly one copy.

    Args:
        early: what clients send themselves, once the message is there.
    """
    begun = world.service.recurring.read(TOPIC, "tick")

    def ends() -> None:
        found = world.service.recurring.read(TOPIC, "tick")
        require(found is not None, "arranging: there is no recurring message")
        end(world.service, lambda: world.state, "tick")
        first = -(-(begun or found).first_ms // (_EVERY_SLOTS * SLOT_S * 1000))
        last = world.clock.now_ms() // (_EVERY_SLOTS * SLOT_S * 1000)
        wanted = {number * _EVERY_SLOTS * SLOT_S * 1000 for number in range(first, last)}
        came = Counter(message.deliver_at_ms for message in (*world.service.queues.sent("queue-billing"), *early))
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


@scenario(
    "a deployment against dispatch",
    "billing",
    most=2,
    points=("buckets.in_order", "recurring.", "topic_states.read"),
    orders=((1, 0), (0, 1)),
)
def REMOVED_AND_ADDED(world: SmallWorld) -> None:
    """A deployment ends a recurring message and makes the same again while a dispatch plans it."""
    _recurs(world, world.service)
    early: list[OutgoingMessage] = []
    _recurring(world, early)
    world.at(8)

    def deploys(ports: Any) -> None:
        end(ports, lambda: ports.topic_states.read(TOPIC), "tick")
        _recurs(world, ports, early.extend)

    world.act("deployment", deploys)
    world.act("dispatch", dispatch_as_function)


@scenario("orphans beside occurrences", "billing", "late", most=0)
def RECURRING_PAUSED(world: SmallWorld) -> None:
    """A plan with occurrences waits for a paused subscription for more than a day, and orphans are swept."""
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


@scenario("collect beside the last occurrences", "billing", inline_rows=1)
def RECURRING_COLLECT(world: SmallWorld) -> None:
    """The last plan of a recurring message, which no ledger has, is delivered while its topic is collected."""
    _recurs(world, world.service)
    world.at(14)
    dispatch_as_function(world.service)
    end(world.service, lambda: world.state, "tick")
    world.at(17)
    dispatch_as_function(world.service)
    require(world.state.next_slot is None, "arranging: another dispatch will come")
    [only] = world.service.queues.take_jobs()
    world.act("collect", lambda ports: collect(ports, TOPIC))
    world.act("deliver", lambda ports: do_task(ports, only), again=True)
    world.at_end.append(lambda: require(len(world.received("billing")) == 3, "occurrences are missing, or came twice"))


RECUR_DISPATCH = Scenario(name="a recurring message against dispatch", build=lambda: _recur_and_dispatch(9, 8))
