"""Small worlds of keys, cancels and reschedules."""

from __future__ import annotations

from typing import Any

from tests.simulation.actors import require
from tests.simulation.exploring import Scenario, scenario
from tests.simulation.healing import TOPIC, dispatch_as_function
from tests.simulation.small_world import SmallWorld
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.delivery.cancel import cancel, cancel_key
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.model.message import id_text
from tidewheel.model.pack import Pack
from tidewheel.model.topic_state import new_topic_state
from tidewheel.model.validation import Options

_REPLACE = {"key": "k", "replace": True}
_ONCE = {"key": "k"}


def _exactly_one(world: SmallWorld, *names: str) -> None:
    """Checks at the end that exactly one of some messages came, and came once."""

    def check() -> None:
        came = [name for name in world.received("billing") if name in names]
        require(len(came) == 1, f"of {', '.join(names)} came {', '.join(came) or 'none'}")

    world.at_end.append(check)


def _told(world: SmallWorld, names: tuple[str, ...], done: object) -> None:
    """Notes a caller's successful cancel, after which the messages are unwanted."""
    if done:
        world.unwanted |= {("billing", name) for name in names}


def _cancel(world: SmallWorld, ports: Any, name: str, *others: str) -> None:
    """Cancels a message by its id, together with its replacement."""
    done = cancel(ports, new_topic_state(TOPIC, "g", world.settings, 0), world.id_of(name), world.clock.now_ms())
    _told(world, (name, *others), done)


# ---- worlds: keys
@scenario("two upserts of a message", "billing", most=2)
def UPSERTS(world: SmallWorld) -> None:
    """Two messages replace a waiting message at once."""
    world.send(a=(9, _REPLACE))
    older, newer = world.pack(b=(9, _REPLACE)), world.pack(c=(9, _REPLACE))
    world.unwanted |= {("billing", "a"), ("billing", "b")}
    world.want("billing", messages="c")
    world.act("ingest", lambda ports: ingest(ports, TOPIC, [older]), again=True)
    world.act("ingest of the newer", lambda ports: ingest(ports, TOPIC, [newer]), again=True)


@scenario("upsert against dispatch", "billing", most=2)
def UPSERT_DISPATCH(world: SmallWorld) -> None:
    """A message is superseded while its slot is dispatched, then its key is cancelled."""
    world.send(a=(5, _REPLACE))
    world.at(4)
    batch = world.pack(b=(9, _REPLACE))

    def ingest_and_cancel(ports: Any) -> None:
        ingest(ports, TOPIC, [batch])
        now_ms = world.clock.now_ms()
        _told(
            world,
            ("a", "b"),
            cancel_key(ports, new_topic_state(TOPIC, "g", world.settings, 0), "k", (now_ms, 99), now_ms),
        )

    world.act("ingest, and cancel by key", ingest_and_cancel)
    world.act("dispatch", dispatch_as_function)


@scenario("cancel by key against ingest", "billing")
def KEY_QUEUED(world: SmallWorld) -> None:
    """A key is cancelled while a message with the key is in the ingest queue, or is being ingested."""
    batch = world.pack(a=(9, _REPLACE))
    now_ms = world.clock.now_ms()

    def cancels(ports: Any) -> None:
        _told(
            world,
            ("a",),
            cancel_key(ports, new_topic_state(TOPIC, "g", world.settings, 0), "k", (now_ms + 1, 0), now_ms + 1),
        )

    world.act("ingest", lambda ports: ingest(ports, TOPIC, [batch]), again=True)
    world.act("cancel by key", cancels)


@scenario("two duplicates", "billing", most=2)
def DUPLICATES(world: SmallWorld) -> None:
    """Two messages with one key are ingested at once. The second must be dropped."""
    first, second = world.pack(a=(9, _ONCE)), world.pack(b=(9, _ONCE))
    world.act("ingest", lambda ports: ingest(ports, TOPIC, [first]), again=True)
    world.act("another ingest", lambda ports: ingest(ports, TOPIC, [second]), again=True)
    _exactly_one(world, "a", "b")


@scenario("a duplicate is due at once", "billing", most=0)
def DIRECT(world: SmallWorld) -> None:
    """A message that is due at once duplicates a waiting message."""
    world.send(a=(9, _ONCE))
    world.at(4)
    batch = world.pack(b=(4, _ONCE))
    world.want("billing", messages="a")
    world.unwanted.add(("billing", "b"))
    world.act("ingest", lambda ports: ingest(ports, TOPIC, [batch]), again=True)


def _no_duplicate(why: str) -> SmallWorld:
    """A message is no duplicate after the earlier message with its key was cancelled, purged or due."""
    world = SmallWorld("billing")
    world.send(a=(4 if why == "due" else 9, _ONCE))
    if why == "cancelled":
        cancel(world.service, new_topic_state(TOPIC, "g", world.settings, 0), world.id_of("a"), world.clock.now_ms())
    if why == "purged":
        purge(world.service, world.clock, TOPIC)
    if why == "due":
        world.at(3)
        world.dispatch()
        world.at(5)
    world.clock.advance_ms(5)
    batch = world.pack(b=(9, _ONCE))
    world.want("billing", messages="b")
    world.act("ingest", lambda ports: ingest(ports, TOPIC, [batch]), again=True)
    return world


# ---- worlds: messages that are moved
def _moves(slot: int = 9) -> tuple[SmallWorld, Any]:
    world = SmallWorld("billing")
    world.send(a=slot)
    world.at(4)
    return world, Options(moves=world.id_of("a"))


def _move(world: SmallWorld, moving: Options, **due: Any) -> Pack:
    """Returns the pack of a reschedule, whose client has allowed the move."""
    batch = world.pack(None, moving, **due)
    assert moving.moves is not None
    ttl_s = world.clock.now_ms() // 1000 + 10**7
    world.service.tombstones.allow_move(TOPIC, id_text(batch.ids), moving.moves, ttl_s)
    return batch


def _forged_move() -> SmallWorld:
    """A message claims the place of another message without permission."""
    world, moving = _moves()
    batch = world.pack(None, moving, m=9)
    world.want("billing", messages="am")
    world.act("ingest", lambda ports: ingest(ports, TOPIC, [batch]), again=True)
    return world


def _move_and_dispatch() -> SmallWorld:
    """A message is moved during the dispatch of its slot, and comes at the old or the new time."""
    world, moving = _moves(5)
    batch = _move(world, moving, m=9)
    world.act("ingest", lambda ports: ingest(ports, TOPIC, [batch]), again=True)
    world.act("dispatch", dispatch_as_function)
    _exactly_one(world, "a", "m")
    return world


def _move_and_cancel() -> SmallWorld:
    """A message is moved, and cancelled by its old id."""
    world, moving = _moves()
    batch = _move(world, moving, m=9)
    world.act("ingest", lambda ports: ingest(ports, TOPIC, [batch]), again=True)
    world.act("cancel", lambda ports: _cancel(world, ports, "a", "m"))
    return world


WAS_CANCELLED = Scenario(name="no duplicate: cancelled", build=lambda: _no_duplicate("cancelled"), most=0)
WAS_PURGED = Scenario(name="no duplicate: purged", build=lambda: _no_duplicate("purged"), most=0)
WAS_DUE = Scenario(name="no duplicate: due before", build=lambda: _no_duplicate("due"), most=0)
MOVE_DISPATCH = Scenario(name="reschedule against dispatch", build=_move_and_dispatch)
FORGED_MOVE = Scenario(name="a forged move", build=_forged_move, most=0)
MOVE_CANCEL = Scenario(name="reschedule against cancel", build=_move_and_cancel)
