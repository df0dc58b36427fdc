"""Catch up: a subscription that was resumed gets what it has missed, at once."""

from __future__ import annotations

from tidewheel.flows.administration.pause import parks_of
from tidewheel.flows.delivery.deliver import Delivered
from tidewheel.flows.delivery.dispatch import Dispatched, hand_out
from tidewheel.flows.ports import Ports

_MOST_STEPS = 100
"""Plans that one job hands out: a few seconds' work, small plans being delivered on the way."""


def catch_up(ports: Ports, topic: str, name: str, generation: str) -> Delivered | None:
    """Enqueues a subscription's parks and hands out the plans behind its cursor; None if it is paused again, or gone.

    If it stops anywhere: the job comes again, and what it did before is not done twice. Whatever is left is also
    found by the sweep: the next slot and the parks say so.
    """
    subscription = ports.topics.subscription(topic, name)
    if subscription is None or subscription.generation != generation or not subscription.takes_plans:
        return None
    ports.queues.enqueue_parks([park.key for park in parks_of(ports.topics, subscription)])
    done = Dispatched()
    if not hand_out(ports, topic, name, done, most_steps=_MOST_STEPS):
        ports.queues.enqueue_catch_up(topic, name, generation)
    return Delivered(
        messages=done.messages, segments=done.segments, failures=tuple(done.failures), expired=done.expired
    )
