"""Small worlds of claims: consumers against cancels, moves and newer messages of a key."""

from __future__ import annotations

from typing import Any

from tests.simulation.actors import CallFailed, Fault, require
from tests.simulation.exploring import Scenario, scenario
from tests.simulation.healing import SLOT_S, TOPIC, dispatch_as_function
from tests.simulation.small_world import SmallWorld
from tidewheel.flows.delivery.cancel import TooLate, cancel, cancel_key
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.model.message import id_at
from tidewheel.model.pack import PACK_ATTRIBUTE, Pack, decode_pack
from tidewheel.model.tombstone import Holder
from tidewheel.model.validation import Options

_REPLACE = {"key": "k", "replace": True}
_ONCE = {"key": "k"}
_FAULTS = (Fault.DIES, Fault.LOSES)
_TTL_S = 2_000_000_000


class _Consumers:
    """The consumers of a world's subscriptions, and what was promised about what they hand out.

    Attributes:
        handed: (subscription, message's name).
        never: likewise, of messages that are stopped.
        owed: likewise, of messages that a late cancel said they have.
        one_of: of these names, each subscription gets exactly one.
    """

    def __init__(self, world: SmallWorld, *subscriptions: str) -> None:
        self.world, self.subscriptions = world, subscriptions
        self.handed: set[tuple[str, str]] = set()
        self.never: set[tuple[str, str]] = set()
        self.owed: set[tuple[str, str]] = set()
        self.one_of: tuple[str, ...] = ()
        world.may_repeat = True
        world.at_end.append(self._check)

    def hand_out(self, ports: Any, subscription: str, name: str) -> None:
        """Claims a message, and hands it out if that is allowed."""
        found = self.world.service.subscriptions.read(TOPIC, subscription)
        assert found is not None
        holder = Holder(subscription=subscription, generation=found.generation)
        if ports.claims.claim(TOPIC, self.world.id_of(name), holder, _TTL_S) is None:
            return
        require(
            (subscription, name) not in self.never, f"{name} is handed out by {subscription}, although it is stopped"
        )
        self.handed.add((subscription, name))

    def consume(self, subscription: str, name: str) -> None:
        """Adds an actor that receives a copy, and comes again if it dies."""
        self.world.act(f"consume {name}", lambda ports: self.hand_out(ports, subscription, name), again=True)

    def told(self, ports: Any, names: tuple[str, ...], answer: object) -> None:
        """Notes the answer of a cancel."""
        if isinstance(answer, TooLate):
            require(bool(answer.subscriptions), "too late, and nobody has it")
            self.owed |= {(each, names[0]) for each in answer.subscriptions}
        elif answer:
            self.stop(*names)

    def stop(self, *names: str) -> None:
        """Nobody gets these messages from now on, and nobody has got them."""
        for subscription in self.subscriptions:
            for name in names:
                require((subscription, name) not in self.handed, f"{name} was handed out, and a cancel succeeded")
                self.never.add((subscription, name))

    def _check(self) -> None:
        for subscription in self.subscriptions:
            for name in self.world.received(subscription):
                self.hand_out(self.world.service, subscription, name)
            if self.one_of:
                got = [name for name in self.one_of if (subscription, name) in self.handed]
                require(len(got) == 1, f"{subscription} got {got} of {', '.join(self.one_of)}")
        for subscription, name in self.owed:
            require((subscription, name) in self.handed, f"a cancel said that {subscription} has {name}")


def _sealed(*subscriptions: str, **messages: Any) -> tuple[SmallWorld, _Consumers]:
    """Returns a world whose message is in the queues."""
    world = SmallWorld(*subscriptions, claims="all")
    world.send(**messages)
    world.at(4)
    dispatch_as_function(world.service)
    world.run()
    return world, _Consumers(world, *subscriptions)


def _cancels(world: SmallWorld, consumers: _Consumers, *names: str) -> None:
    state = world.state

    def cancels(ports: Any) -> None:
        answer = cancel(ports, state, world.id_of(names[0]), world.clock.now_ms())
        consumers.told(ports, names, answer)

    world.act("cancel", cancels, again=True)


def _moving(world: SmallWorld, name: str, **message: Any) -> Pack:
    """Returns the pack of a message that may take another's place."""
    batch = world.pack(None, Options(moves=world.id_of(name)), **message)
    [mover] = message
    world.service.tombstones.allow_move(TOPIC, world.id_of(mover), world.id_of(name), _TTL_S)
    return batch


def _ingests(world: SmallWorld, batch: Pack, name: str = "ingest") -> None:
    world.act(name, lambda ports: _ingest(ports, batch), again=True)


def _ingest(ports: Any, batch: Pack) -> None:
    """Ingests a pack, which comes again if something of it must wait."""
    if ingest(ports, TOPIC, [batch]).pending:
        raise CallFailed


def _cancel_key_and_consume() -> SmallWorld:
    """The same by the message's key."""
    world, consumers = _sealed("billing", a=(5, _ONCE))
    consumers.consume("billing", "a")
    state = world.state

    def cancels(ports: Any) -> None:
        now_ms = world.clock.now_ms()
        consumers.told(ports, ("a",), cancel_key(ports, state, "k", (now_ms, 99), now_ms))

    world.act("cancel by key", cancels)
    return world


def _move_and_consume() -> SmallWorld:
    """A message is moved while a consumer receives it. It comes once."""
    world, consumers = _sealed("billing", a=5)
    consumers.one_of = ("a", "m")
    _ingests(world, _moving(world, "a", m=9))
    consumers.consume("billing", "a")
    return world


def _move_and_cancel() -> SmallWorld:
    """A message whose slot is sealed is moved, and cancelled by its old id."""
    world, consumers = _sealed("billing", a=5)
    _ingests(world, _moving(world, "a", m=9))
    _cancels(world, consumers, "a", "m")
    return world


def _replace_and_consume() -> SmallWorld:
    """A newer message of a key is ingested while a consumer receives the older one."""
    world, consumers = _sealed("audit", "billing", a=(5, _REPLACE))
    newer = world.pack(b=(9, _REPLACE))
    consumers.consume("billing", "a")

    def ingests(ports: Any) -> None:
        _ingest(ports, newer)
        # Whoever has it, keeps it. Nobody else gets it.
        consumers.never |= {(each, "a") for each in consumers.subscriptions} - consumers.handed

    world.act("ingest", ingests, again=True)
    return world


def _ingests_newer(world: SmallWorld) -> None:
    """Adds an ingest of a newer message `b` of the key. The message that comes in its place is `early`."""
    newer = world.pack(b=(9, _REPLACE))
    latest = world.service.keys.read(TOPIC, "k")
    assert latest is not None
    world.names[id_at(world.id_of("b"), latest.latest_ms)] = "early"
    _ingests(world, newer)
    world.before_days.append(lambda: _ingest_what_was_sent(world))


def _ingest_what_was_sent(world: SmallWorld) -> None:
    """Ingests the packs of the urgent queue."""
    queue = world.service.queues.sqs.queue("tidewheel_urgent")
    for data in {bytes(each.message_attributes[PACK_ATTRIBUTE]["BinaryValue"]) for each in queue.everything}:
        ingest(world.service, TOPIC, [decode_pack(data, world.clock.now_ms())])


def _promised_and_late() -> SmallWorld:
    """A newer message is sent when the time has passed for which an older one was promised."""
    world, consumers = _sealed("audit", "billing", a=(5, _promised(6)))
    consumers.one_of = ("a",)
    world.at(6)
    consumers.consume("billing", "a")
    _ingests_newer(world)
    return world


@scenario("a message at its key's latest time", "billing", faults=_FAULTS)
def PUT_OFF(world: SmallWorld) -> None:
    """A newer message would come after the latest time of its key."""
    world.send(a=(5, _promised(6)))
    world.clock.advance_ms(1000)
    _ingests_newer(world)
    world.want("billing", messages=["early"])
    world.unwanted |= {("billing", "a"), ("billing", "b")}
    world.may_repeat = True


def _put_off_and_cancelled() -> SmallWorld:
    """The same while the newer message is cancelled by its id."""
    world, consumers = _sealed("billing", a=(5, _promised(6)))
    _ingests_newer(world)
    _cancels(world, consumers, "b", "early")
    return world


def _promised(slot: int) -> dict[str, Any]:
    """Returns the options of a message that comes by a slot, counted from the beginning of the world."""
    return _REPLACE | {"max_wait": slot * SLOT_S}


def _moved_and_sent_once() -> SmallWorld:
    """A message with a key is moved after the seal, and loses against nothing that came before."""
    world, consumers = _sealed("billing", a=(5, _ONCE))
    consumers.one_of = ("a", "m")
    batch = _moving(world, "a", m=(9, _ONCE))
    _ingests(world, batch)
    return world


CANCEL_KEY = Scenario(name="a late cancel by key against a consumer", build=_cancel_key_and_consume)
MOVE = Scenario(name="a late move against a consumer", build=_move_and_consume, faults=_FAULTS)
MOVE_CANCEL = Scenario(name="a late move against a cancel", build=_move_and_cancel)
REPLACE = Scenario(name="a late replacement against a consumer", build=_replace_and_consume, faults=_FAULTS)
PROMISE_OVER = Scenario(name="a promise that is over", build=_promised_and_late)
PUT_OFF_CANCELLED = Scenario(name="the same, cancelled", build=_put_off_and_cancelled)
ONCE = Scenario(name="a late move of a message with a key", build=_moved_and_sent_once, faults=_FAULTS)
