"""Does the jobs of the work queue."""

from __future__ import annotations

from tidewheel.errors import CorruptLedger, InvalidValue
from tidewheel.flows.delivery.catch_up import catch_up
from tidewheel.flows.delivery.deliver import Delivered, deliver_part
from tidewheel.flows.delivery.drain import drain
from tidewheel.flows.delivery.parking import held_rows, park_held
from tidewheel.flows.delivery.try_again import try_again
from tidewheel.flows.ports import Ports
from tidewheel.model.job import CatchUpJob, DrainJob, HoldJob, Job, PartJob, SetAsideJob, job_of


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
            return _park_held(ports, job)
        case CatchUpJob(topic=topic, subscription=name, generation=generation):
            return catch_up(ports, topic, name, generation)


def _park_held(ports: Ports, job: HoldJob) -> Delivered:
    error = park_held(ports, job)
    return Delivered(failures=() if error is None else (error,))
