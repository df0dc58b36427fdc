"""Queues accept half of the messages or none, for hours. No other subscription notices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from tests.half_well import HalfWell
from tests.recorded_queues import RecordedTidewheel
from tests.stored import stored
from tidewheel import Message, Tidewheel
from tidewheel.flows.ports import Refusal
from tidewheel.model.subscription_state import State

TOPIC = "orders"


class Sending:
    """A topic in a stack whose calls may fail."""

    def __init__(self, *subscriptions: str, **settings: Any) -> None:
        self.faults = HalfWell()
        self.stack = RecordedTidewheel(wrap=self.faults)
        self.client: Tidewheel = self.stack.client()
        self.client.create_topic(TOPIC, **settings)
        for name in subscriptions:
            self.client.create_subscription(TOPIC, name)
        self.urls = {each.name: each.queue_url for each in self.client.subscriptions(TOPIC)}

    def send(self, prefix: str, number: int, *, delay: Any, **options: Any) -> list[str]:
        bodies = [f"{prefix}{index}" for index in range(number)]
        self.client.send_many(TOPIC, [Message(body=body, delay=delay, **options) for body in bodies])
        return bodies

    def advance(self, **duration: float) -> None:
        self.stack.advance(**duration)

    def heal(self, **since: float) -> None:
        """Ends all faults, and waits until what was parked is sent."""
        self.faults.heal()
        self.advance(**since or {"seconds": 610})

    def throttle(
        self, name: str, applies: Callable[[Sequence[Any]], bool] = lambda _: True, *, code: str = "ThrottlingException"
    ) -> None:
        """Makes a subscription's queue refuse whole batches until the faults are healed."""
        url = self.urls[name]
        self.faults.refuse(
            "queues.send",
            applies=lambda queue_url, batch: queue_url == url and applies(batch),
            instead=lambda _, batch: [Refusal(index, False, code, "for now") for index in range(len(batch))],
        )

    def copies(self, name: str) -> Counter[str]:
        """Counts each message accepted by a subscription's queue."""
        return Counter(each.text for each in self.stack.service.queues.sent(self.urls[name]))

    def latest_s(self, name: str) -> float:
        """The maximum lateness of a message."""
        sent = self.stack.service.queues.sent(self.urls[name])
        return max((each.visible_at_ms - each.deliver_at_ms) / 1000 for each in sent)

    def parks(self) -> list[Any]:
        return self.stack.service.parks.all(TOPIC)

    def deliveries(self) -> list[Any]:
        return self.stack.service.deliveries.all(TOPIC)

    def state(self, name: str) -> State:
        found = self.stack.service.subscriptions.read(TOPIC, name)
        assert found is not None
        return found.state


@pytest.fixture
def sending() -> Iterator[Callable[..., Sending]]:
    made: list[Sending] = []

    def make(*subscriptions: str, **settings: Any) -> Sending:
        made.append(Sending(*subscriptions, **settings))
        return made[-1]

    yield make
    for each in made:
        each.stack.close()


def every_second() -> Callable[[Sequence[Any]], bool]:
    numbers = count()
    return lambda _: next(numbers) % 2 == 0


def half_of_the_messages(batch: Sequence[Any]) -> bool:
    """Selects batches by their first message, and so refuses the same messages each time."""
    return int(batch[0][0].text[1:]) // 10 % 2 == 0


def once(bodies: Sequence[str]) -> Counter[str]:
    return Counter(bodies)


@pytest.mark.parametrize("refused", [every_second, lambda: half_of_the_messages])
@pytest.mark.parametrize("delay", ["1m", "2h"])
def test_a_queue_that_takes_half_for_a_day_costs_no_copies_and_nobody_else_notices(
    sending: Callable[..., Sending], delay: str, refused: Callable[[], Any]
) -> None:
    world = sending("billing", "audit")
    world.throttle("billing", refused())
    bodies = world.send("m", 500, delay=delay)
    world.advance(hours=24)
    assert world.copies("audit") == once(bodies) and world.latest_s("audit") < 2
    assert max(world.copies("billing").values()) == 1
    assert not world.deliveries(), "the delivery never closes"
    world.heal()
    assert world.copies("billing") == once(bodies) and not world.parks()


@pytest.mark.parametrize("delay", ["1m", "2h"])
def test_a_queue_that_is_throttled_for_14_hours_gets_everything_when_it_heals(
    sending: Callable[..., Sending], delay: str
) -> None:
    world = sending("billing", "audit")
    world.throttle("billing")
    bodies = [*world.send("a", 300, delay=delay), *world.send("b", 3, delay="1m")]
    world.advance(hours=14)
    assert world.copies("audit") == once(bodies) and not world.copies("billing")
    world.heal()
    assert world.copies("billing") == once(bodies)
    assert not world.parks() and world.state("billing") is State.ACTIVE
    assert not world.stack.service.queues.refused


@pytest.mark.parametrize("delay", ["1m", "2h"])
def test_a_message_whose_key_fails_costs_no_copies_and_keeps_no_other_waiting(
    sending: Callable[..., Sending], delay: str
) -> None:
    world = sending("billing")
    queues, bad = world.stack.service.queues, {"m3"}
    queues.refuse_if(lambda each: each.text in bad, permanent=True, code="KMS.InternalException")
    bodies = world.send("m", 60, delay=delay)
    world.advance(hours=3)
    assert world.copies("billing") == once([each for each in bodies if each not in bad])
    assert world.latest_s("billing") < 2
    bad.clear()
    world.advance(seconds=610)
    assert world.copies("billing") == once(bodies) and not world.parks() and not queues.refused


@pytest.mark.parametrize("marks", ["deliveries.*", "parks.delete"])
def test_a_table_that_refuses_every_second_mark_of_what_was_sent_makes_no_copies(
    sending: Callable[..., Sending], marks: str
) -> None:
    world = sending("billing", "audit", inline_rows=20, part_rows=20)
    numbers = count()
    for name in ("deliveries.part_done", "deliveries.finish") if marks == "deliveries.*" else (marks,):
        world.faults.refuse(name, applies=lambda *_, **__: next(numbers) % 2 == 0)
    if marks == "parks.delete":
        world.throttle("billing", half_of_the_messages)
    bodies = [*world.send("m", 200, delay="2h"), *world.send("n", 200, delay="1m")]
    world.advance(hours=5)
    world.heal()
    assert world.copies("audit") == once(bodies)
    assert world.copies("billing") == once(bodies)


@pytest.mark.parametrize(("subscriptions", "messages"), [(50, 100), (250, 20)])
@pytest.mark.parametrize("delay", ["1m", "2h"])
def test_the_work_of_many_subscriptions_is_done_in_parts(
    sending: Callable[..., Sending], subscriptions: int, messages: int, delay: str
) -> None:
    names = [f"s{number}" for number in range(subscriptions)]
    world = sending(*names)
    bodies = world.send("m", messages, delay=delay)
    world.advance(hours=3)
    assert all(world.copies(name) == once(bodies) for name in names)
    assert max(map(world.latest_s, names)) < 2
    assert world.stack.invocations["deliver"] >= subscriptions, "one call sends for all"
    assert not world.parks() and not world.deliveries()


def test_many_parks_that_have_expired_do_not_keep_a_live_one_waiting(sending: Callable[..., Sending]) -> None:
    world = sending("billing")
    world.throttle("billing")
    for number in range(60):
        world.send(f"dead{number}-", 10, delay="10s", expires_in="20m")
        world.advance(seconds=5)
    live = world.send("live", 10, delay="10s")
    world.advance(hours=2)
    world.heal()
    assert world.copies("billing") == once(live) and not world.parks()


def test_parks_that_cannot_be_read_do_not_keep_a_live_one_waiting(sending: Callable[..., Sending]) -> None:
    world = sending("billing")
    world.throttle("billing")
    for number in range(20):
        world.send(f"bad{number}-", 10, delay="10s")
        world.advance(seconds=5)
    store = stored(world.stack.service).of(TOPIC)
    for key, park in store.parks.items():
        store.parks[key] = type(park)(**{name: getattr(park, name) for name in park.__slots__} | {"ledger": b"\0" * 99})
    live = world.send("live", 10, delay="10s")
    world.advance(hours=2)
    world.heal()
    assert world.copies("billing") == once(live)
