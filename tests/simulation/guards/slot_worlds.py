"""Small worlds of a slot's way from open to planned."""

from __future__ import annotations

from typing import Any

from tests.simulation.actors import Fault, require
from tests.simulation.exploring import Scenario
from tests.simulation.healing import TOPIC, dispatch_as_function
from tests.simulation.small_world import SmallWorld
from tests.stored import stored
from tidewheel.flows.administration.pause import activate, delete_subscription, pause, resume
from tidewheel.flows.delivery.cancel import cancel
from tidewheel.flows.delivery.ingest import ingest as ingesting
from tidewheel.model.topic_state import new_topic_state


# ---- worlds
def _at_the_boundary() -> SmallWorld:
    """A dispatch seals the slot for which an ingest, whose clock is behind, has rows."""
    world = SmallWorld("billing", "audit")
    world.send(a=5)
    world.at(4)
    batch = world.pack(b=5, c=6)
    world.want("billing", "audit", messages="abc")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]), skew_ms=-50, again=True)
    world.act("dispatch", dispatch_as_function)
    return world


def _beyond_the_boundary() -> SmallWorld:
    """An ingest has rows for the slot after the dispatched slot."""
    world = SmallWorld("billing")
    world.send(a=5)
    world.at(4)
    batch = world.pack(c=6)
    world.want("billing", messages="ac")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]), again=True)
    world.act("dispatch", dispatch_as_function)
    return world


def _first_message() -> SmallWorld:
    """Nothing waits, and then something does, twice."""
    world = SmallWorld("billing")
    first, second = world.pack(a=9), world.pack(b=8)
    world.want("billing", messages="ab")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [first]), again=True)
    world.act("another ingest", lambda ports: ingesting(ports, TOPIC, [second]), again=True)
    return world


def _batch_again() -> SmallWorld:
    """A batch comes twice at once."""
    world = SmallWorld("billing")
    batch = world.pack(a=9)
    world.want("billing", messages="a")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]), again=True)
    world.act("ingest again", lambda ports: ingesting(ports, TOPIC, [batch]), again=True)
    world.looks.append(lambda: require(world.state.waiting <= 1, f"{world.state.waiting} messages wait, of 1"))
    return world


def _sealed_only() -> SmallWorld:
    """An ingest seals a slot in which a ledger has rows, while a dispatch raises the next slot."""
    world = SmallWorld("billing")
    world.send(a=5)
    world.send(b=6)
    world.at(4)
    world.plan_only()
    world.at(5)
    batch = world.pack(c=6)
    world.want("billing", messages="abc")
    world.act("dispatch", dispatch_as_function, skew_ms=-50)
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]))
    return world


def _gap() -> SmallWorld:
    """A cursor lies before an empty range. One dispatch plans the following slots while another hands out."""
    world = SmallWorld("billing")
    world.send(b=6)
    world.at(4)
    world.plan_only()
    world.at(5)
    world.want("billing", messages="b")
    world.act("dispatch", dispatch_as_function)
    world.act("another dispatch", dispatch_as_function, skew_ms=-50)
    return world


def _resumed() -> SmallWorld:
    """A client resumes a subscription while a dispatch raises the next slot, and dies before starting a dispatch."""
    world = SmallWorld("billing", "audit")
    pause(world.service, TOPIC, "billing")
    world.send(a=5)
    world.at(4)
    world.plan_only()
    world.want("billing", "audit", messages="a")
    world.act("dispatch", dispatch_as_function)
    world.act("resume", lambda ports: activate(ports, ports.subscriptions.read(TOPIC, "billing")))
    return world


def _unsubscribed() -> SmallWorld:
    """A subscription is deleted during the hand-out of a plan."""
    world = SmallWorld("billing", "audit")
    world.send(a=5)
    world.at(4)
    world.want("audit", messages="a")
    world.act("dispatch", dispatch_as_function)
    world.act("unsubscribe", lambda ports: delete_subscription(ports, TOPIC, "billing"))
    world.looks.append(
        lambda: require(len(stored(world.service).of(TOPIC).subscriptions) == 1, "it was deleted, and is back")
    )
    return world


def _planned_twice() -> SmallWorld:
    """A dispatch has planned and died. Two other dispatches finish its work at once."""
    world = SmallWorld("billing")
    world.send(a=5)
    world.at(4)
    world.plan_only()
    world.want("billing", messages="a")
    world.act("dispatch", dispatch_as_function)
    world.act("another dispatch", dispatch_as_function)
    return world


def _planned_behind() -> SmallWorld:
    """A dispatch has planned and died. The next dispatch has another slot to plan."""
    world = SmallWorld("billing")
    world.send(a=5)
    world.send(b=6)
    world.at(4)
    world.plan_only()
    world.at(5)
    world.want("billing", messages="ab")
    world.act("dispatch", dispatch_as_function)
    world.act("another dispatch", dispatch_as_function, skew_ms=-50)
    return world


def _cancelled() -> SmallWorld:
    """A message is cancelled while its slot is dispatched."""
    world = SmallWorld("billing")
    world.send(a=5, b=5)
    world.at(4)
    message = world.id_of("a")

    def cancelling(ports: Any) -> None:
        done = cancel(ports, new_topic_state(TOPIC, "g", world.settings, 0), message, world.clock.now_ms())
        (world.unwanted if done else world.wanted).add(("billing", "a"))

    world.want("billing", messages="b")
    world.act("dispatch", dispatch_as_function)
    world.act("cancel", cancelling)
    return world


def _cancelled_in_the_queue() -> SmallWorld:
    """A message is cancelled before its batch is ingested, while its slot is sealed."""
    world = SmallWorld("billing")
    world.send(b=5)
    world.at(4)
    batch = world.pack(a=5)
    message = world.id_of("a")

    def cancelling(ports: Any) -> None:
        done = cancel(ports, new_topic_state(TOPIC, "g", world.settings, 0), message, world.clock.now_ms())
        (world.unwanted if done else world.wanted).add(("billing", "a"))

    world.want("billing", messages="b")
    world.act("cancel", cancelling)
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]), again=True)
    return world


def _due_soon() -> SmallWorld:
    """A message is due before the schedule of its slot can fire. No sweep runs."""
    world = SmallWorld("billing")
    world.alarms = True
    world.at(4)
    batch = world.pack(a=4, b=9)
    world.want("billing", messages="ab")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]))
    return world


def _lowered_behind() -> SmallWorld:
    """A resume has lowered the next slot. A ledger comes, and no sweep runs."""
    world = SmallWorld("billing")
    pause(world.service, TOPIC, "billing")
    world.send(a=4)
    world.at(3)
    world.dispatch()
    resume(world.service, world.service.queues, world.clock, TOPIC, "billing")
    world.run()
    world.alarms = True
    batch = world.pack(b=9)
    world.want("billing", messages="ab")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]))
    return world


def _lowered_to_an_open_slot() -> SmallWorld:
    """A ledger comes after a resume without missed messages, which has set the next slot to an open slot."""
    world = SmallWorld("billing")
    world.at(3)
    world.dispatch()
    pause(world.service, TOPIC, "billing")
    resume(world.service, world.service.queues, world.clock, TOPIC, "billing")
    world.run()
    world.alarms = True
    batch = world.pack(a=5)
    world.want("billing", messages="a")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]))
    return world


def _two_slots_of_one_segment() -> SmallWorld:
    """Two plans read the same segment."""
    world = SmallWorld("billing")
    world.send(a=5, b=6)
    world.at(4)
    world.want("billing", messages="ab")
    world.act("dispatch", dispatch_as_function)
    return world


BOUNDARY = Scenario(name="ingest against dispatch", build=_at_the_boundary, most=2)
BEYOND = Scenario(name="ingest behind a dispatch", build=_beyond_the_boundary, most=2)
FIRST = Scenario(name="the first messages", build=_first_message, most=1)
AGAIN = Scenario(name="a batch comes twice", build=_batch_again, most=1, faults=(Fault.TWICE,))
SEALED_ONLY = Scenario(name="ingest seals, dispatch raises the next slot", build=_sealed_only)
GAP = Scenario(name="two dispatches over a gap", build=_gap, most=2, points=("topic_states.read", "subscriptions.all"))
RESUMED = Scenario(name="resume against dispatch", build=_resumed)
UNSUBSCRIBED = Scenario(name="unsubscribe against dispatch", build=_unsubscribed)
PLANNED_TWICE = Scenario(name="two dispatches after a crash", build=_planned_twice, most=2)
PLANNED_BEHIND = Scenario(name="dispatches of two slots after a crash", build=_planned_behind, most=1)
CANCELLED = Scenario(name="cancel against dispatch", build=_cancelled, most=1)
QUEUED = Scenario(name="cancel against ingest", build=_cancelled_in_the_queue, most=1)
SOON = Scenario(name="a message is due soon", build=_due_soon, most=0)
LOWERED = Scenario(name="a ledger comes after a resume", build=_lowered_behind, most=0)
LOWERED_OPEN = Scenario(name="a ledger comes after a resume, in the next slot", build=_lowered_to_an_open_slot, most=0)
SEGMENT = Scenario(name="two slots in one segment", build=_two_slots_of_one_segment, most=0)
