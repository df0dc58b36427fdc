"""Each function and the caller's program die at each of their calls, after the effect. Then AWS and the caller repeat.

One story has all kinds of requests, and work for all functions. It is told once for each death.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.flows.world import Crash
from tests.half_well import HalfWell
from tests.stored import stored
from tidewheel import Message, Tidewheel
from tidewheel.errors import PartLeased, UnknownMessage, UnknownRecurring, UnknownSubscription, UnknownTopic
from tidewheel.local import MemoryTidewheel
from tidewheel.model.received import ReceivedMessage

PROGRAM = "program"
START_S = 1_767_225_600
"""2026-01-01T00:00:00Z, when the service begins."""
LATEST_S = {PROGRAM: 450, "ingest": 120, "dispatch": 1800, "deliver": 450, "sweep": 300, "compact": 0}
"""Who dies -> how much later a message comes at most: by a queue's visibility time-out (ingest), a lease and the next
sweep (deliver, and a program that resumes or replays), `redrive_s` (dispatch), or the next sweep."""
IN_TIME_S = 1.1
EVERY = 16
"""Of how many calls `make test` tries one."""
KINDS = "buckets", "plans", "deliveries", "parks", "trash"
GONE = UnknownRecurring, UnknownSubscription, UnknownTopic
"""What a repeated deletion says."""


@dataclass(slots=True)
class Death:
    """The death of a function or the program after one of its calls. Until its next start it calls nothing.

    Attributes:
        victim: the function's name, or PROGRAM.
        at: the number of the call, over all starts of the victim. 0: nobody dies.
        only: which calls count, as `<port>.<method>` with shell wildcards.
        running: who calls now.
        calls: of the victim so far.
    """

    victim: str = PROGRAM
    at: int = 0
    only: str = "*"
    running: str = PROGRAM
    calls: int = 0
    dead: bool = False

    def comes(self, *_: object, **__: object) -> bool:
        """Counts a call. Returns whether the victim dies after the call."""
        self.calls += self.running == self.victim
        self.dead = self.running == self.victim and self.calls == self.at
        return self.dead

    def has_come(self, *_: object, **__: object) -> bool:
        """Whether the caller is dead."""
        return self.dead and self.running == self.victim

    def may_befall(self, faults: HalfWell) -> None:
        """Lets the victim die at calls through these ports."""

        def die(*_: object, **__: object) -> None:
            raise Crash

        faults.refuse("*", applies=self.has_come, instead=die)
        faults.refuse(self.only, applies=self.comes, instead=die, after=True)


@dataclass(slots=True)
class Arrivals:
    """The messages of a subscription, by their bodies.

    Attributes:
        late_s: of the first copy, after it was due and the subscription was active.
    """

    copies: Counter[str] = field(default_factory=Counter)
    late_s: dict[str, float] = field(default_factory=dict)

    def add(self, message: ReceivedMessage, active_s: float) -> None:
        assert message.visible_at is not None and message.visible_at >= message.deliver_at, f"early: {message}"
        self.copies[message.body] += 1
        from_s = max(message.deliver_at.timestamp(), active_s)
        self.late_s.setdefault(message.body, message.visible_at.timestamp() - from_s)


class World:
    """A service, a caller whose program is started again after its death, and what comes.

    Attributes:
        overtaken: whether ingest died before it settled the key of a message, and the duplicate was sent meanwhile.
    """

    def __init__(self, death: Death) -> None:
        self.death = death
        functions, person = HalfWell(), HalfWell()
        self.stack = MemoryTidewheel(wrap=functions, start="2026-01-01T00:00:00Z", max_skew_ms=100)
        storage, sqs = person(self.stack.service), person.port("sqs", self.stack.sqs)
        for each in (functions, person):
            death.may_befall(each)
        calls: Any = self.stack._functions
        self._call, calls._call = calls._call, self._invoke
        self._connected: Any = {
            "settings": self.stack._settings,
            "clock": self.stack.clock,
            "storage": storage,
            "sqs": sqs,
        }
        self.arrivals: dict[tuple[str, str], Arrivals] = {}
        self.overtaken = False

    def _client(self) -> Tidewheel:
        return Tidewheel(self.stack.stack_name, **self._connected)

    def _invoke(self, function: str, *event: Any) -> Any:
        caller, self.death.running = self.death.running, function
        try:
            return self._call(function, *event)
        finally:
            self.death.running, self.death.dead = caller, False

    def ask(self, request: Callable[[Tidewheel], Any]) -> Any:
        """Makes a request, and once more if the program dies."""
        with suppress(Crash):
            return request(self._client())
        self.death.dead = False
        with suppress(*GONE):
            return request(self._client())

    def send(self, topic: str, delays: dict[str, str], **options: Any) -> Any:
        messages = [Message(body=body, delay=delay, **options) for body, delay in delays.items()]
        return self.ask(lambda client: client.send_many(topic, messages))

    def receive(self, topic: str, *subscriptions: str, active_s: float = 0) -> None:
        for name in subscriptions:
            found = self.arrivals.setdefault((topic, name), Arrivals())
            for message in self.stack.receive(topic, name):
                found.add(message, active_s)


def moved(world: World, id: str) -> None:
    """Moves a message to 01:30. If its first try is not ingested yet, it tries again, as the error says."""

    def move(client: Tidewheel) -> Any:
        return client.reschedule("orders", id, deliver_at=START_S + 5400)

    try:
        assert world.ask(move)
    except UnknownMessage:
        world.stack.advance(minutes=6)
        assert world.ask(move)


def named_as_sent_came(world: World, topic: str, least: int) -> None:
    """Checks that the history names some messages as sent, and each came to the named subscription."""
    history = world.stack.client().history(topic)
    named = {(it.message.body, to.name) for it in history for to in it.subscriptions if to.sent}
    assert len(named) >= least
    for body, name in named:
        assert world.arrivals[topic, name].copies[body], (topic, name, body)


def told(world: World) -> World:
    """Tells the story."""
    ask, send, advance = world.ask, world.send, world.stack.advance
    ask(lambda client: client.create_topic("orders", retention_days=1))
    ask(lambda client: client.create_topic("parts", inline_rows=1, part_rows=2, max_buckets=2, retention_days=2))
    ask(lambda client: client.create_subscription("orders", "billing"))
    ask(lambda client: client.create_subscription("orders", "audit"))
    ask(lambda client: client.create_subscription("parts", "billing"))
    send("orders", {"purged": "40m", "purged, far": "3h"})
    advance(minutes=6)
    ask(lambda client: client.purge("orders"))
    ask(lambda client: client.pause("orders", "audit"))
    send("orders", {"at once": "0s", "soon": "5m", "later": "50m", "stays": "60m", "far": "2h"})
    send("parts", {"one": "60m", "two": "60m 10s", "three": "60m 20s"})
    # Not by the program: what it repeats after its death are other messages, and only the last is cancelled or moved.
    safe = world.stack.client()
    dropped, first = safe.send("orders", "cancelled", delay="60m"), safe.send("orders", "moved", delay="30m")
    send("orders", {"old": "50m"}, key="k")
    send("orders", {"only": "50m"}, key="once")
    send("orders", {"cancelled with its key": "50m"}, key="other")
    ask(lambda client: client.send_recurring("orders", "rule", "tick", every="40m", start=START_S + 1200))
    advance(minutes=1)
    send("orders", {"new": "70m"}, key="k", replace=True)
    world.overtaken = world.stack.service.keys.read("orders", "once") is None
    send("orders", {"its duplicate": "40m"}, key="once")
    assert ask(lambda client: client.cancel("orders", dropped.id))
    assert ask(lambda client: client.cancel("orders", key="other"))
    moved(world, first.id)
    for number in range(4):
        send("parts", {f"merged {number}": f"{200 + number}m"})
        advance(minutes=6)
    advance(minutes=10)
    world.receive("orders", "billing")
    ask(lambda client: client.resume("orders", "audit"))
    active_s = world.stack.now().timestamp()
    advance(minutes=30)
    world.receive("orders", "audit", active_s=active_s)
    ask(lambda client: client.cancel_recurring("orders", "rule"))
    advance(hours=2)
    world.receive("orders", "billing", "audit")
    world.receive("parts", "billing")
    named_as_sent_came(world, "orders", 6)
    ask(lambda client: client.replay("parts", "billing"))
    active_s = world.stack.now().timestamp()
    advance(minutes=40)
    world.receive("parts", "billing", active_s=active_s)
    named_as_sent_came(world, "parts", 3)
    ask(lambda client: client.delete_subscription("orders", "audit", delete_queue=True))
    ask(lambda client: client.delete_topic("parts", delete_queues=True))
    advance(days=4)
    return world


def judged(world: World) -> None:
    """Checks that all came, in time and once, or twice after a death, and that nothing is left."""
    death, more = world.death, int(world.death.at > 0)
    # Of two messages with a key, the one that ingest takes first stays: see docs/keys.md.
    once = ["at once", "soon", "later", "far", "stays", "moved", "new", "its duplicate" if world.overtaken else "only"]
    merged = [f"merged {number}" for number in range(4)]
    wanted = {("orders", name): Counter([*once, "tick", "tick"]) for name in ("billing", "audit")}
    wanted["parts", "billing"] = Counter(["one", "two", "three"] * 2 + merged)
    for reader, expected in wanted.items():
        found = world.arrivals[reader]
        assert found.copies.keys() == expected.keys(), reader
        for body, copies in found.copies.items():
            assert expected[body] <= copies <= (1 + more) * expected[body], (reader, body, copies)
        late_s = max(found.late_s.values())
        assert late_s <= IN_TIME_S + more * LATEST_S[death.victim], (reader, found.late_s)
    items = stored(world.stack.service).topics()
    left = [(kind, topic) for topic, each in items.items() for kind in KINDS if getattr(each, kind)]
    assert not left
    assert all(name.startswith("checkpoints/orders/") for name in world.stack.service.objects.names(""))
    for failure in world.stack.failures:
        assert isinstance(failure.error, Crash) or isinstance(failure.error.__cause__, PartLeased), failure


def test_where_nobody_dies_all_come_once_and_in_time() -> None:
    world = told(World(Death()))
    judged(world)
    assert world.stack.failures == []


@pytest.mark.parametrize("victim", LATEST_S)
def test_whoever_dies_at_some_call_nothing_is_lost_early_or_left(victim: str) -> None:
    tell_with_each_death(victim, EVERY)


@pytest.mark.nightly
@pytest.mark.parametrize("victim", LATEST_S)
def test_whoever_dies_at_any_call_nothing_is_lost_early_or_left(victim: str) -> None:
    tell_with_each_death(victim, 1)


def tell_with_each_death(victim: str, every: int) -> None:
    at = every
    while True:
        death = Death(victim, at)
        world = told(World(death))
        if death.calls < at:
            break
        judged(world)
        at += every
    assert at > 8, f"{victim} does not have that many calls"
