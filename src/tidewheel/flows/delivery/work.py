"""Does the jobs of the work queue."""

from __future__ import annotations

from tidewheel.errors import CorruptLedger, InvalidValue
from tidewheel.flows.administration.pause import wake_parks
from tidewheel.flows.delivery.deliver import Delivered, deliver_part
from tidewheel.flows.delivery.dispatch import Dispatched, hand_out
from tidewheel.flows.delivery.drain import drain
from tidewheel.flows.delivery.parking import held_rows, park_held
from tidewheel.flows.delivery.try_again import try_again
from tidewheel.flows.ports import Ports
from tidewheel.model.job import CatchUpJob, DrainJob, HoldJob, Job, PartJob, SetAsideJob, job_of

_MOST_STEPS = 100
"""Plans that one catch-up hands out: a few seconds' work, including the delivery of small plans."""


def job_in(body: str) -> Job:
    """Reads a message of the work queue.

    Raises:
        InvalidValue: the message is not a job, or its ledger is not readable. No retry can help.
        NewerRelease: the job is of a newer release.
    """
    job = job_of(body)
    if isinstance(job, HoldJob):
        try:
            held_rows(job)
        except CorruptLedger as error:
            raise InvalidValue("work queue message: hold", job.ledger[:40], error.reason) from None
    return job


def do_job(ports: Ports, job: Job) -> Delivered | None:
    """Does a job. Returns None if there is nothing to do.

    The flow of each job documents its errors and where it may stop.
    """
    match job:
        case PartJob(key=key, part=part):
            return deliver_part(ports, key, part)
        case DrainJob(key=park):
            return drain(ports, park)
        case SetAsideJob(key=item, tries=tries):
            return try_again(ports, item, tries)
        case HoldJob():
            error = park_held(ports, job)
            return Delivered(failures=() if error is None else (error,))
        case CatchUpJob(topic=topic, subscription=name, generation=generation):
            return _catch_up(ports, topic, name, generation)


def _catch_up(ports: Ports, topic: str, name: str, generation: str) -> Delivered | None:
    """Enqueues a subscription's parks and hands out the plans behind its cursor.

    Returns None if the subscription is paused again or gone.

    If it stops anywhere, the queue brings the job again, and finished steps are not repeated. The sweep also finds the
    rest, by the next slot and the parks.
    """
    subscription = ports.subscriptions.read(topic, name)
    if subscription is None or subscription.generation != generation or not subscription.takes_plans:
        return None
    wake_parks(ports, ports.queues, ports.clock, subscription)
    done = Dispatched()
    if not hand_out(ports, topic, name, done, most_steps=_MOST_STEPS):
        ports.queues.enqueue_catch_up(topic, name, generation)
    return Delivered(
        messages=done.messages, segments=done.segments, failures=tuple(done.failures), expired=done.expired
    )
