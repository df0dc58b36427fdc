"""Small worlds of topics during creation, deletion and changes of settings."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tests.simulation.actors import require, step
from tests.simulation.exploring import scenario
from tests.simulation.healing import HOUR, MINUTE, TOPIC, dispatch_as_function
from tests.simulation.small_world import SmallWorld
from tests.stored import stored
from tests.stored_ports import TABLE_CALLS
from tidewheel.errors import TopicDeleting, TopicReplaced, UnknownTopic
from tidewheel.flows.administration.delete_topic import delete_topic, finish_deletion
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.administration.update_topic import update_topic
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.maintenance.sweep import sweep

_AFTER_DELETION_MS = 10 * MINUTE


# ---- worlds: topics that come and go


def _deleted(world: SmallWorld) -> None:
    """Checks at the end that no item of the topic is left."""

    def check() -> None:
        items = stored(world.service).of(TOPIC)
        kinds = ("state", "subscriptions", "keys", "recurring", "imports")
        left = [kind for kind in kinds if getattr(items, kind)]
        require(not left, f"of a topic that was deleted are left: {', '.join(left)}")
        require(not world.service.wheel.schedules, "schedules of a topic that was deleted are left")

    world.at_end.append(check)


def _ingest_if_there(ports: Any, *batch: Any) -> None:
    with suppress(UnknownTopic, TopicReplaced):  # what is sent to a topic that is no more, is dropped
        ingest(ports, TOPIC, batch)


@scenario("delete against ingest", "billing", points=(*TABLE_CALLS, "objects.", "wheel."))
def DELETE_INGEST(world: SmallWorld) -> None:
    """A topic is deleted while a batch is ingested. The sweep deletes the rest."""
    world.send(a=9)
    batch = world.pack(b=(5000, {"key": "k"}))

    def deletes(ports: Any) -> None:
        delete_topic(ports, ports.clock, TOPIC)
        sweep(ports)

    world.act("delete, and sweep", deletes)
    world.act("ingest", lambda ports: _ingest_if_there(ports, batch))
    _deleted(world)

    def look() -> None:
        world.lasts(2 * HOUR)
        require(world.service.deletions.read(TOPIC) is None, "a topic is being deleted for hours")

    world.looks.append(look)


def create_again(world: SmallWorld, ports: Any) -> bool:
    """Creates the topic again, with a subscription. Returns False if the old topic is still there."""
    try:
        create_topic(ports, ports.clock, TOPIC, world.settings)
    except TopicDeleting:
        return False
    create_subscription(ports, ports.clock, TOPIC, "billing", "queue-billing", "earliest")
    dispatch_as_function(ports)
    return True


@scenario("a topic is created again", "billing")
def TOPIC_AGAIN(world: SmallWorld) -> None:
    """A batch of a deleted topic comes, or is being ingested, while the topic is created again."""
    batch = world.pack(a=60)
    world.unwanted.add(("billing", "a"))

    def again(ports: Any) -> None:
        delete_topic(ports, ports.clock, TOPIC)
        for _ in range(4):
            step(ports.actor, "time.passes", lambda: world.clock.advance_ms(_AFTER_DELETION_MS))
            finish_deletion(ports, TOPIC)
        require(create_again(world, ports), "the deletion does not come to an end")

    def ingests(ports: Any) -> None:
        before = world.state.generation if world.service.topic_states.read(TOPIC) else None
        _ingest_if_there(ports, batch)
        if before == batch.generation == getattr(world.service.topic_states.read(TOPIC), "generation", None):
            world.unwanted.clear()

    world.act("delete, and create again", again)
    world.act("ingest", ingests)


@scenario("two updates", "billing")
def UPDATED_TWICE(world: SmallWorld) -> None:
    """Two clients change settings of a topic at once."""
    world.act("update", lambda ports: update_topic(ports, ports.clock, TOPIC, {"part_rows": 7}))
    world.act("another update", lambda ports: update_topic(ports, ports.clock, TOPIC, {"inline_rows": 8}))
    world.looks.append(
        lambda: require(
            (world.state.settings.part_rows, world.state.settings.inline_rows) == (7, 8),
            "an update was undone by another",
        )
    )
