"""Small worlds of a slot's way from open to planned."""

from __future__ import annotations

from typing import Any

from tests.simulation.actors import Fault, require
from tests.simulation.exploring import scenario
from tests.simulation.healing import TOPIC, dispatch_as_function
from tests.simulation.small_world import SmallWorld
from tests.stored import stored
from tidewheel.flows.administration.pause import activate, delete_subscription, pause, resume
from tidewheel.flows.delivery.cancel import cancel
from tidewheel.flows.delivery.ingest import ingest as ingesting
from tidewheel.model.topic_state import new_topic_state


# ---- worlds
@scenario("ingest against dispatch", "billing", "audit", most=2)
def BOUNDARY(world: SmallWorld) -> None:
    """A dispatch seals the slot for which an ingest, whose clock is behind, has rows."""
    world.send(a=5)
    world.at(4)
    batch = world.pack(b=5, c=6)
    world.want("billing", "audit", messages="abc")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]), skew_ms=-50, again=True)
    world.act("dispatch", dispatch_as_function)


@scenario("ingest behind a dispatch", "billing", most=2)
def BEYOND(world: SmallWorld) -> None:
    """An ingest has rows for the slot after the dispatched slot."""
    world.send(a=5)
    world.at(4)
    batch = world.pack(c=6)
    world.want("billing", messages="ac")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]), again=True)
    world.act("dispatch", dispatch_as_function)


@scenario("a batch comes twice", "billing", most=1, faults=(Fault.TWICE,))
def AGAIN(world: SmallWorld) -> None:
    """A batch comes twice at once."""
    batch = world.pack(a=9)
    world.want("billing", messages="a")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]), again=True)
    world.act("ingest again", lambda ports: ingesting(ports, TOPIC, [batch]), again=True)
    world.looks.append(lambda: require(world.state.waiting <= 1, f"{world.state.waiting} messages wait, of 1"))


@scenario("ingest seals, dispatch raises the next slot", "billing")
def SEALED_ONLY(world: SmallWorld) -> None:
    """An ingest seals a slot in which a ledger has rows, while a dispatch raises the next slot."""
    world.send(a=5)
    world.send(b=6)
    world.at(4)
    world.plan_only()
    world.at(5)
    batch = world.pack(c=6)
    world.want("billing", messages="abc")
    world.act("dispatch", dispatch_as_function, skew_ms=-50)
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]))


@scenario("two dispatches over a gap", "billing", most=2, points=("topic_states.read", "subscriptions.all"))
def GAP(world: SmallWorld) -> None:
    """A cursor lies before an empty range. One dispatch plans the following slots while another hands out."""
    world.send(b=6)
    world.at(4)
    world.plan_only()
    world.at(5)
    world.want("billing", messages="b")
    world.act("dispatch", dispatch_as_function)
    world.act("another dispatch", dispatch_as_function, skew_ms=-50)


@scenario("resume against dispatch", "billing", "audit")
def RESUMED(world: SmallWorld) -> None:
    """A client resumes a subscription while a dispatch raises the next slot, and dies before starting a dispatch."""
    pause(world.service, TOPIC, "billing")
    world.send(a=5)
    world.at(4)
    world.plan_only()
    world.want("billing", "audit", messages="a")
    world.act("dispatch", dispatch_as_function)
    world.act("resume", lambda ports: activate(ports, ports.subscriptions.read(TOPIC, "billing")))


@scenario("unsubscribe against dispatch", "billing", "audit")
def UNSUBSCRIBED(world: SmallWorld) -> None:
    """A subscription is deleted during the hand-out of a plan."""
    world.send(a=5)
    world.at(4)
    world.want("audit", messages="a")
    world.act("dispatch", dispatch_as_function)
    world.act("unsubscribe", lambda ports: delete_subscription(ports, TOPIC, "billing"))
    world.looks.append(
        lambda: require(len(stored(world.service).of(TOPIC).subscriptions) == 1, "it was deleted, and is back")
    )


@scenario("two dispatches after a crash", "billing", most=2)
def PLANNED_TWICE(world: SmallWorld) -> None:
    """A dispatch has planned and died. Two other dispatches finish its work at once."""
    world.send(a=5)
    world.at(4)
    world.plan_only()
    world.want("billing", messages="a")
    world.act("dispatch", dispatch_as_function)
    world.act("another dispatch", dispatch_as_function)


@scenario("dispatches of two slots after a crash", "billing", most=1)
def PLANNED_BEHIND(world: SmallWorld) -> None:
    """A dispatch has planned and died. The next dispatch has another slot to plan."""
    world.send(a=5)
    world.send(b=6)
    world.at(4)
    world.plan_only()
    world.at(5)
    world.want("billing", messages="ab")
    world.act("dispatch", dispatch_as_function)
    world.act("another dispatch", dispatch_as_function, skew_ms=-50)


@scenario("cancel against dispatch", "billing", most=1)
def CANCELLED(world: SmallWorld) -> None:
    """A message is cancelled while its slot is dispatched."""
    world.send(a=5, b=5)
    world.at(4)
    message = world.id_of("a")

    def cancelling(ports: Any) -> None:
        done = cancel(ports, new_topic_state(TOPIC, "g", world.settings, 0), message, world.clock.now_ms())
        (world.unwanted if done else world.wanted).add(("billing", "a"))

    world.want("billing", messages="b")
    world.act("dispatch", dispatch_as_function)
    world.act("cancel", cancelling)


@scenario("cancel against ingest", "billing", most=1)
def QUEUED(world: SmallWorld) -> None:
    """A message is cancelled before its batch is ingested, while its slot is sealed."""
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


@scenario("a message is due soon", "billing", most=0)
def SOON(world: SmallWorld) -> None:
    """A message is due before the schedule of its slot can fire. No sweep runs."""
    world.alarms = True
    world.at(4)
    batch = world.pack(a=4, b=9)
    world.want("billing", messages="ab")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]))


@scenario("a ledger comes after a resume, in the next slot", "billing", most=0)
def LOWERED_OPEN(world: SmallWorld) -> None:
    """A ledger comes after a resume without missed messages, which has set the next slot to an open slot."""
    world.at(3)
    world.dispatch()
    pause(world.service, TOPIC, "billing")
    resume(world.service, world.service.queues, world.clock, TOPIC, "billing")
    world.run()
    world.alarms = True
    batch = world.pack(a=5)
    world.want("billing", messages="a")
    world.act("ingest", lambda ports: ingesting(ports, TOPIC, [batch]))


@scenario("two slots in one segment", "billing", most=0)
def SEGMENT(world: SmallWorld) -> None:
    """Two plans read the same segment."""
    world.send(a=5, b=6)
    world.at(4)
    world.want("billing", messages="ab")
    world.act("dispatch", dispatch_as_function)
