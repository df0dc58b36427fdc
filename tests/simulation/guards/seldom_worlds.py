"""Small worlds of seldom work, such as rebuilds, imports and the daily sweep of large bodies."""

from __future__ import annotations

from typing import Any

from tests.flows.alone import local_engine, sweep_orphans, sweep_payloads
from tests.simulation.actors import Actor, ActorPorts, require, step, void
from tests.simulation.exploring import scenario
from tests.simulation.healing import DAY, HOUR, TOPIC
from tests.simulation.interleaving import Task
from tests.simulation.small_world import SmallWorld
from tidewheel.errors import ConcurrentModification, UnknownTopic
from tidewheel.flows.administration.pause import pause
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.model.object_names import payload_name
from tidewheel.model.subscription_state import State


@scenario("rebuild after a loss", "billing", most=0)
def LOST(world: SmallWorld) -> None:
    """A topic's metadata is lost, and orphans are swept before the rebuild."""
    world.send(a=5000)
    collect(world.service, TOPIC)
    world.service.deletions.delete_items(TOPIC)
    world.service.topic_states.delete(TOPIC)
    world.clock.advance_ms(DAY + HOUR)
    world.want("billing", messages="a")

    def sweep_and_rebuild(ports: Any) -> None:
        sweep_orphans(ports)
        rebuild(ports, TOPIC, local_engine(ports), lease_s=300)

    world.act("sweep of orphans, and rebuild", sweep_and_rebuild)


@scenario("rebuild after a clock that is ahead", "billing", most=0)
def REBUILD_AHEAD(world: SmallWorld) -> None:
    """A function with a fast clock writes a checkpoint. Then a subscription is paused, and the topic is rebuilt."""
    world.send(a=9)
    ahead = ActorPorts(world.service, Actor(name="ahead", call=void, skew_ms=world.service.max_skew_ms))
    collecting = Task("collection", lambda _: void(collect(ahead, TOPIC)), world.clock.now_ms())
    ahead.actor.task = collecting
    while not collecting.over:
        collecting.step()
    pause(world.service, TOPIC, "billing")
    world.want("billing", messages="a")

    def rebuilds(ports: Any) -> None:
        rebuild(ports, TOPIC, local_engine(ports), lease_s=300, replace_index=True)

    world.act("rebuild", rebuilds)
    world.looks.append(
        lambda: require(
            world.service.subscriptions.read(TOPIC, "billing").state is State.PAUSED,
            "a pause is lost by a rebuild after it",
        )
    )


@scenario("rebuild against ingest", "billing")
def REBUILD_INGEST(world: SmallWorld) -> None:
    """A topic is rebuilt while a batch is ingested. Both may have to retry."""
    world.send(a=9)
    batch = world.pack(b=9)
    world.want("billing", messages="ab")

    def rebuilds(ports: Any) -> None:
        rebuild(ports, TOPIC, local_engine(ports), lease_s=300, replace_index=True)

    def ingests(ports: Any) -> None:
        try:
            ingest(ports, TOPIC, [batch])
        except UnknownTopic:  # at rest: the queue brings it again
            raise ConcurrentModification("ingest", TOPIC, 1) from None

    world.act("rebuild", rebuilds)
    world.act("ingest", ingests, again=True)


@scenario("payloads of what waits", "billing", most=0)
def LARGE_BODY(world: SmallWorld) -> None:
    """A message's body stays in S3 as long as the message, and is deleted after the hand-out."""
    far = 3 * 1440
    world.send(a=far)
    name = payload_name(TOPIC, world.slot_ms(far), "a", world.service.objects.new_attempt())
    world.service.objects.put(name, b"a large body")
    world.want("billing", messages="a")

    def sweeps(ports: Any) -> None:
        for _ in range(2):
            sweep_payloads(ports)
            step(ports.actor, "time.passes", lambda: world.clock.advance_ms(DAY))
        sweep_payloads(ports)

    world.act("sweep of payloads", sweeps)
    world.looks.append(
        lambda: require(name in world.service.objects.names(), "the body of a message that waits is gone")
    )
