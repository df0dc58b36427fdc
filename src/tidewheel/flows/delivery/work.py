"""Does the tasks of the work queue."""

from __future__ import annotations

from tidewheel.flows.administration.pause import wake_parks
from tidewheel.flows.delivery.deliver import deliver_part
from tidewheel.flows.delivery.dispatch import Dispatched, hand_out
from tidewheel.flows.delivery.drain import drain
from tidewheel.flows.ports import Ports
from tidewheel.model.subscription_state import Delivered
from tidewheel.model.task import CatchUpTask, DrainTask, PartTask, Task

_MOST_STEPS = 100
"""Plans that one catch-up hands out: a few seconds' work, including the delivery of small plans."""


def do_task(ports: Ports, task: Task) -> Delivered | None:
    """Does a task. Returns None if there is nothing to do.

    The flow of each task documents its errors and where it may stop.
    """
    match task:
        case PartTask(key=key, part=part):
            return deliver_part(ports, key, part)
        case DrainTask(key=park):
            return drain(ports, park)
        case CatchUpTask(topic=topic, subscription=name, generation=generation):
            return _catch_up(ports, topic, name, generation)


def _catch_up(ports: Ports, topic: str, name: str, generation: str) -> Delivered | None:
    """Enqueues a subscription's parks and hands out the plans behind its cursor.

    Returns None if the subscription is paused again or gone.

    If it stops anywhere, the queue brings the task again, and finished steps are not repeated. The sweep also finds the
    rest, by the next slot and the parks.
    """
    subscription = ports.subscriptions.read(topic, name)
    if subscription is None or subscription.generation != generation or not subscription.takes_plans:
        return None
    wake_parks(ports, ports.queues, ports.clock, subscription)
    done = Dispatched()
    if not hand_out(ports, topic, name, done, most_steps=_MOST_STEPS):
        ports.queues.enqueue_catch_up(topic, name, generation)
    return done.sent._replace(failures=tuple(done.failures))
