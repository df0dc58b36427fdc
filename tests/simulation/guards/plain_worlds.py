"""Small worlds of plain messages, with cancels by key and topics that are created again."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tests.simulation.actors import Fault, require, step
from tests.simulation.exploring import Scenario, scenario
from tests.simulation.guards.topic_worlds import create_again
from tests.simulation.healing import MINUTE, TOPIC
from tests.simulation.small_world import SmallWorld
from tests.simulation.triggers import BULK_URL
from tidewheel.errors import TopicReplaced, UnknownTopic
from tidewheel.flows.administration.delete_topic import delete_topic, finish_deletion
from tidewheel.flows.delivery.adopt import adopt
from tidewheel.flows.delivery.cancel import cancel
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.ingest_batch import NamedPack
from tidewheel.model.message import id_text
from tidewheel.model.pack import Arrival
from tidewheel.model.plain import PREFIX, read_plain
from tidewheel.model.received import QueuedMessage
from tidewheel.model.topic_state import new_topic_state

_ONCE = {"key": "k"}
_CANCEL = {"key": "k", "cancel": "true"}


def _plain(world: SmallWorld, name: str, sent_ms: int, *, retried: bool = False, **wishes: str) -> NamedPack:
    attributes = {PREFIX + each: {"StringValue": value} for each, value in ({"topic": TOPIC} | wishes).items()}
    message = QueuedMessage(id=name, body=name, attributes=attributes, sent_at_ms=sent_ms, receives=1, queue_arn="")
    read = read_plain(message, None)
    world.names |= {id_text(each.id): name for each in read.messages}
    return name, read.pack(Arrival(name=name, retried=retried, taken_ms=sent_ms))


def _ingest(ports: Any, *batch: NamedPack) -> None:
    """Ingests plain messages as the handler does."""

    def forward(messages: int, pack: bytes) -> None:
        ports.queues.forward(TOPIC, messages, pack)

    done = adopt(ports, TOPIC, batch, "bucket", forward)
    for each in done.pending:
        if each.error is not None and not isinstance(each.error, TopicReplaced):
            raise each.error
    if done.packs:
        ingest(ports, TOPIC, [pack for _, pack in done.packs])


@scenario("a late plain cancel", "billing")
def LATE(world: SmallWorld) -> None:
    """A plain cancel is settled late, together with a message that was sent after the cancel."""
    sent_ms = world.clock.now_ms()
    world.clock.advance_ms(100)
    newer, late = world.pack(b=(9, _ONCE)), _plain(world, "cancel", sent_ms, **_CANCEL)
    world.want("billing", messages="b")
    world.act("ingest", lambda ports: ingest(ports, TOPIC, [newer]), again=True)
    world.act("cancel", lambda ports: _ingest(ports, late), again=True)


@scenario("a plain cancel against ingest", "billing")
def QUEUED(world: SmallWorld) -> None:
    """A plain cancel is settled while an older message of its key is ingested."""
    older = world.pack(a=(9, _ONCE))
    late = _plain(world, "cancel", world.clock.now_ms() + 1, **_CANCEL)
    world.unwanted.add(("billing", "a"))
    world.act("ingest", lambda ports: ingest(ports, TOPIC, [older]), again=True)
    world.act("cancel", lambda ports: _ingest(ports, late), again=True)


def _late_cancels(*sent_ms: int) -> SmallWorld:
    """Late plain cancels find a newer message, which is cancelled by its id. Then an older message comes."""
    world = SmallWorld("billing")
    begun_ms = world.clock.now_ms()
    world.clock.advance_ms(100)
    world.send(b=(9, _ONCE))
    cancel(world.service, new_topic_state(TOPIC, "g", world.settings, 0), world.id_of("b"), world.clock.now_ms())
    older = world.pack(begun_ms + 30, a=(9, _ONCE))
    world.unwanted |= {("billing", "a"), ("billing", "b")}
    for each in sent_ms:
        late = _plain(world, f"cancel {each}", begun_ms + each, **_CANCEL)
        world.act(f"cancel {each}", lambda ports, late=late: _ingest(ports, late), again=True)  # type: ignore[misc]
    world.looks.append(lambda: ingest(world.service, TOPIC, [older]) and None)
    return world


@scenario("a plain message of a deleted topic", "billing")
def TOPIC_AGAIN(world: SmallWorld) -> None:
    """A plain message that was sent to a deleted topic comes while the topic is created again."""
    message = _plain(world, "a", world.clock.now_ms(), delay="45m")
    world.unwanted.add(("billing", "a"))

    def again(ports: Any) -> None:
        world.clock.advance_ms(1)
        delete_topic(ports, ports.clock, TOPIC)
        for _ in range(4):
            step(ports.actor, "time.passes", lambda: world.clock.advance_ms(10 * MINUTE))
            finish_deletion(ports, TOPIC)
        require(create_again(world, ports), "the deletion does not come to an end")

    def ingests(ports: Any) -> None:
        with suppress(UnknownTopic):
            _ingest(ports, message)

    world.act("delete, and create again", again)
    world.act("ingest", ingests)


@scenario("a forwarded message comes again", "billing", faults=(Fault.DIES, Fault.LOSES))
def FORWARDED(world: SmallWorld) -> None:
    """A call dies after it has forwarded a message, and the message comes again."""
    sent_ms, tries = world.clock.now_ms(), iter([False, True, True, True])
    world.want("billing", messages="n")
    world.may_repeat = True

    def ingests(ports: Any) -> None:
        retried = next(tries)
        near = _plain(world, "n", sent_ms, retried=retried, delay="5m")
        _ingest(ports, near, _plain(world, "f", sent_ms, retried=retried, delay="2h"))

    world.act("ingest", ingests, again=True)
    bulk = world.service.queues.sqs.queue(BULK_URL)
    world.before_days.append(lambda: require(len(bulk.everything) <= 1, "a message was forwarded twice"))


LATE_AND_OLDER = Scenario(name="an older message behind a late plain cancel", build=lambda: _late_cancels(50), most=0)
