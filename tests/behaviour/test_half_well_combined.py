"""Two faults at once. A queue accepts half of the messages or none, and a later call fails for hours. No copies."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from tests.behaviour.test_half_well_sending import TOPIC, Sending, once
from tidewheel import Message
from tidewheel.flows.ports import Refusal
from tidewheel.model.subscription_state import State


@pytest.fixture
def world() -> Any:
    made = Sending("billing", "audit")
    yield made
    made.stack.close()


def refuse_for_their_own_sake(world: Sending, bad: set[str], code: str = "InternalError") -> None:
    """Makes the queue of billing refuse some messages, and take all others."""
    url = world.urls["billing"]

    def answer(_: str, batch: Sequence[Any]) -> list[Refusal]:
        good = [entry for entry in batch if entry[0].text not in bad]
        if good:
            world.stack.service.queues.send(url, good)
        return [Refusal(i, False, code, "no") for i, (each, _) in enumerate(batch) if each.text in bad]

    world.faults.refuse("queues.send", applies=lambda queue_url, _: queue_url == url, instead=answer)


def let_the_clock_jump(world: Sending, body: str) -> None:
    """Sets the clock a minute ahead on the machine that sends a given message to billing, just before the batch."""
    jumps = iter([60_000])

    def is_that(url: str, batch: Sequence[Any]) -> bool:
        if url == world.urls["billing"] and any(each.text == body for each, _ in batch):
            world.faults.skew_ms = next(jumps, world.faults.skew_ms)
        return False

    world.faults.refuse("queues.send", applies=is_that)


@pytest.mark.parametrize("answers", [False, True])
def test_a_queue_that_heals_while_its_subscription_cannot_be_made_active_gets_no_copies(
    world: Sending, answers: bool
) -> None:
    world.throttle("billing")
    bodies = world.send("m", 100, delay="1m")
    world.advance(minutes=10)
    assert world.state("billing") is State.BROKEN
    world.faults.heal()
    world.faults.refuse("subscriptions.resume", instead=(lambda *_: False) if answers else None)
    world.advance(hours=3)
    assert world.copies("billing") == once(bodies) and not world.parks()
    world.faults.heal()
    bodies += world.send("n", 5, delay="1m")
    world.advance(minutes=10)
    assert world.copies("billing") == once(bodies) and world.state("billing") is State.ACTIVE


@pytest.mark.parametrize("fate", ["paused", "throttled"])
def test_many_messages_are_parked_in_items_while_s3_and_the_work_queue_refuse(world: Sending, fate: str) -> None:
    if fate == "paused":
        world.client.pause(TOPIC, "billing")
    else:
        world.throttle("billing")
    refused = world.faults.refuse("objects.put")
    world.faults.refuse("queues.enqueue_*")
    noise = Random(1)
    bodies = [f"m{number:04d}{noise.randbytes(4000).hex()}" for number in range(200)]
    world.client.send_many(TOPIC, [Message(body=body, delay="1m") for body in bodies])
    world.advance(minutes=30)
    assert refused.hits
    assert world.copies("audit") == once(bodies) and world.latest_s("audit") < 2
    world.faults.heal()
    if fate == "paused":
        world.client.resume(TOPIC, "billing")
    world.advance(minutes=20)
    assert world.copies("billing") == world.copies("audit") == once(bodies)


@pytest.mark.parametrize("delay", ["1m", "2h"])
def test_messages_that_a_queue_refuses_for_their_own_sake_stay_parked_and_stop_no_other(
    world: Sending, delay: str
) -> None:
    bodies = world.send("m", 200, delay=delay)
    bad = set(bodies[10:19])
    refuse_for_their_own_sake(world, bad)
    world.advance(hours=28)
    bodies += world.send("n", 1, delay="1m")
    world.advance(hours=1)
    assert world.copies("audit") == once(bodies)
    assert world.copies("billing") == once([body for body in bodies if body not in bad])
    assert world.state("billing") is State.ACTIVE and not world.deliveries()
    world.heal()
    assert world.copies("billing") == once(bodies) and not world.parks() and not world.stack.service.queues.refused


@pytest.mark.parametrize("number", [1, 9])
@pytest.mark.parametrize("delay", ["1m", "2h"])
def test_few_messages_of_a_queue_that_refuses_all_of_them_come_when_it_heals(
    world: Sending, number: int, delay: str
) -> None:
    world.throttle("billing", code="InternalError")
    bodies = world.send("m", number, delay=delay)
    world.advance(hours=50)
    world.heal()
    assert world.copies("billing") == once(bodies) and not world.stack.service.queues.refused


def test_a_queue_that_refuses_everything_is_down_whatever_it_says(world: Sending) -> None:
    bodies = world.send("m", 100, delay="1m")
    refuse_for_their_own_sake(world, set(bodies))
    world.advance(hours=4)
    assert world.state("billing") is State.BROKEN and not world.stack.service.queues.refused
    world.heal(minutes=10)
    assert world.copies("billing") == once(bodies) and world.state("billing") is State.ACTIVE


@pytest.mark.parametrize("delay", ["1m", "2h"])
def test_a_clock_that_jumps_while_messages_are_sent_costs_nobody_a_copy(world: Sending, delay: str) -> None:
    let_the_clock_jump(world, "m35")
    bodies = world.send("m", 100, delay=delay)
    world.advance(hours=3)
    assert world.copies("billing") == world.copies("audit") == once(bodies)
    assert world.state("billing") is State.ACTIVE and not world.parks()
