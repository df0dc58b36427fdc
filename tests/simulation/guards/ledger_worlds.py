"""Small worlds of merges, collections, purges and sweeps of ledgers."""

from __future__ import annotations

from typing import Any

from tests.flows.alone import sweep_orphans
from tests.simulation.actors import Fault, require
from tests.simulation.exploring import Scenario, scenario
from tests.simulation.healing import DAY, TOPIC, dispatch_as_function
from tests.simulation.small_world import SmallWorld
from tidewheel.flows.administration.pause import pause
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.administration.subscribe import create_subscription
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.merge import in_process, merge

FAR = 100
"""A slot beyond the hour whose ledgers are not merged."""


def merge_all(ports: Any) -> None:
    """A merge without a valid lease."""
    merge(ports, TOPIC, in_process(ports.objects), lease_s=0, everything=True)


def _two_ledgers(*subscriptions: str, paused: tuple[str, ...] = (), far: int = FAR, **settings: Any) -> SmallWorld:
    world = SmallWorld(*subscriptions, **settings)
    for name in paused:
        pause(world.service, TOPIC, name)
    world.send(a=5, y=far)
    world.send(b=5, z=far + 1)
    world.want(*subscriptions, messages="abyz")
    return world


# ---- worlds: merges
def _merge_and_dispatch() -> SmallWorld:
    """A merge hides ledgers between two pages of a dispatch."""
    world = _two_ledgers("billing")
    world.at(4)
    world.act("dispatch", dispatch_as_function)
    world.act("merge", merge_all)
    return world


def _merge_and_lagging() -> SmallWorld:
    """A merge replaces a plan's ledgers, and a paused subscription gets the plan later."""
    world = _two_ledgers("billing", "late", paused=("late",))
    world.at(4)
    world.act("merge", merge_all)
    world.act("dispatch", dispatch_as_function)
    world.looks.append(lambda: require(bool(world.service.merges.trash(TOPIC)), "the merge was refused each time"))
    return world


# ---- worlds: collections
@scenario("collect against a plan that is handed out", "billing", inline_rows=1)
def COLLECT_HAND_OUT(world: SmallWorld) -> None:
    """A plan of a dead dispatch is handed out, for the work queue, while the topic is collected."""
    world.send(a=5, b=5)
    world.at(4)
    world.plan_only()
    world.want("billing", messages="ab")
    world.act("collect", lambda ports: collect(ports, TOPIC))
    world.act("dispatch", dispatch_as_function)


@scenario("collect, one is paused", "billing", "late", most=0)
def COLLECT_PAUSED(world: SmallWorld) -> None:
    """A topic is collected while a subscription is paused."""
    pause(world.service, TOPIC, "late")
    world.send(a=5)
    world.send(b=6, c=7)
    for slot in (4, 5):
        world.at(slot)
        world.dispatch()
    world.want("billing", "late", messages="abc")
    world.act("collect", lambda ports: collect(ports, TOPIC))


@scenario("collect up to what waits", "billing", faults=(Fault.DIES,))
def COLLECT_NEXT(world: SmallWorld) -> None:
    """A topic is collected up to a slot in which a message waits. Each actor may die."""
    world.send(a=5)
    world.send(b=6)
    world.at(4)
    world.dispatch()
    world.want("billing", messages="ab")
    world.act("collect", lambda ports: collect(ports, TOPIC))


@scenario("collect an idle topic", "billing", faults=(Fault.DIES,))
def COLLECT_LAST(world: SmallWorld) -> None:
    """An idle topic is collected. The collection may die."""
    world.send(a=5)
    world.at(4)
    world.dispatch()
    world.want("billing", messages="a")
    world.act("collect", lambda ports: collect(ports, TOPIC))


def _subscribing(position: Any, *, settled: bool = True) -> SmallWorld:
    world = SmallWorld("billing", settled=settled)
    world.send(a=5)
    world.at(4)

    def subscribe(ports: Any) -> None:
        made = create_subscription(ports, ports.clock, TOPIC, "late", "queue-late", position)
        slot = world.slot_of("a")
        if made.cursor <= slot and made.start <= slot:
            world.want("late", messages="a")

    world.want("billing", messages="a")
    world.act("subscribe", subscribe)
    return world


def _subscribe_and_collect() -> SmallWorld:
    """A subscription to all kept messages is created during a collection."""
    world = _subscribing("earliest")
    world.dispatch()
    world.act("collect", lambda ports: collect(ports, TOPIC))
    return world


def _subscribe_and_dispatch() -> SmallWorld:
    """A subscription is created while a slot is dispatched."""
    world = _subscribing("latest")
    world.act("dispatch", dispatch_as_function)
    return world


@scenario("subscribe between seal and plan", "billing", most=0)
def SUBSCRIBE_BETWEEN(world: SmallWorld) -> None:
    """A subscription is created after a slot is sealed, and the slot is planned later, together with the next slot."""
    world.send(a=5)
    world.send(b=7)
    world.at(4)
    world.service.topic_states.seal(world.state, world.slot_of("a") + 1)
    world.subscribe("late")
    world.at(6)
    world.want("billing", messages="ab")
    world.want("late", messages="b")
    world.unwanted.add(("late", "a"))
    world.act("dispatch", dispatch_as_function)


@scenario("subscribe to what is kept", "billing", kept_s=90, most=0)
def EARLIEST(world: SmallWorld) -> None:
    """A subscription to all kept messages is created while the retention keeps delivered ledgers."""
    world.send(a=5, b=7)
    world.at(6)
    world.dispatch()
    world.at(8.5)
    world.dispatch()
    world.at(8.6)
    collect(world.service, TOPIC)
    kept = world.state.collected_until

    def subscribe(ports: Any) -> None:
        create_subscription(ports, ports.clock, TOPIC, "late", "queue-late", "earliest")
        for name in "ab":
            if world.slot_of(name) >= kept:
                world.want("late", messages=name)

    world.want("billing", messages="ab")
    world.act("subscribe", subscribe)


# ---- worlds: orphans
@scenario("orphans against a retry", "billing")
def ORPHAN_RETRY(world: SmallWorld) -> None:
    """A batch comes again a day after its first ingest died, while orphans are swept."""
    batch = world.pack(a=5000)
    world.dies(lambda ports: ingest(ports, TOPIC, [batch]), before="buckets.commit")
    world.clock.advance_ms(DAY + 1)
    world.want("billing", messages="a")
    world.act("ingest", lambda ports: ingest(ports, TOPIC, [batch]), again=True)
    world.act("sweep of orphans", sweep_orphans, skew_ms=50)


def _orphans_and_merge() -> SmallWorld:
    """An object of a paused subscription moves from a bucket to the trash, while orphans are swept."""
    world = _two_ledgers("billing", "late", paused=("late",), far=5000)
    world.at(4)
    world.dispatch()
    world.clock.advance_ms(DAY + 1)
    world.act("sweep of orphans", sweep_orphans)
    world.act("merge", merge_all)
    return world


# ---- worlds: purges
@scenario("purge against send", "billing")
def PURGE_SEND(world: SmallWorld) -> None:
    """A topic with a waiting message is purged while another message is sent and ingested."""
    world.send(a=5)
    world.unwanted.add(("billing", "a"))

    def send(ports: Any) -> None:
        state = ports.topic_states.read(TOPIC)
        batch = world.pack(state.sent_at_ms(ports.clock.now_ms()), b=5)
        ingest(ports, TOPIC, [batch])
        (world.wanted if state.purge_ms else world.unwanted).add(("billing", "b"))

    world.act("purge", lambda ports: purge(ports, ports.clock, TOPIC))
    world.act("send", send, skew_ms=0)


@scenario("purge against dispatch", "billing", "late")
def PURGE_PLAN(world: SmallWorld) -> None:
    """A purge swaps out a plan's ledger, and a paused subscription gets the plan later."""
    pause(world.service, TOPIC, "late")
    world.send(a=5)
    world.at(4)
    world.unwanted.add(("late", "a"))
    world.act("purge", lambda ports: purge(ports, ports.clock, TOPIC))
    world.act("dispatch", dispatch_as_function)
    world.looks.append(lambda: require(bool(world.service.merges.trash(TOPIC)), "the ledger was not swapped out"))


@scenario("purge before ingest", "billing", most=0)
def PURGE_DIRECT(world: SmallWorld) -> None:
    """After a purge, a message sent before and a message sent after go direct."""
    world.at(4)
    before = world.pack(a=4)
    purge(world.service, world.clock, TOPIC)
    after = world.pack(world.state.sent_at_ms(world.clock.now_ms()), b=4)
    world.unwanted.add(("billing", "a"))
    world.want("billing", messages="b")
    world.act("ingest", lambda ports: ingest(ports, TOPIC, [before]))
    world.act("another ingest", lambda ports: ingest(ports, TOPIC, [after]))


MERGE_DISPATCH = Scenario(name="merge against dispatch", build=_merge_and_dispatch, most=2)
MERGE_LAGGING = Scenario(name="merge against dispatch, one is paused", build=_merge_and_lagging)
SUBSCRIBE_COLLECT = Scenario(name="subscribe against collect", build=_subscribe_and_collect)
SUBSCRIBE_DISPATCH = Scenario(name="subscribe against dispatch", build=_subscribe_and_dispatch)
ORPHAN_MERGE = Scenario(name="orphans against merge", build=_orphans_and_merge, points=("buckets.", "merges."))
