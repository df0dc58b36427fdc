"""Does the jobs of the work queue."""

from __future__ import annotations

from tidewheel.flows.delivery.catch_up import catch_up
from tidewheel.flows.delivery.deliver import Delivered, deliver_part
from tidewheel.flows.delivery.drain import drain
from tidewheel.flows.ports import Ports
from tidewheel.model.job import CatchUpJob, DrainJob, Job, PartJob


def do_job(ports: Ports, job: Job) -> Delivered | None:
    """Does a job. Returns None if there is nothing to do.

    The flow of each job documents its errors and where it may stop.
    """
    match job:
        case PartJob(key=key, part=part):
            return deliver_part(ports, key, part)
        case DrainJob(key=park):
            return drain(ports, park)
        case CatchUpJob(topic=topic, subscription=name, generation=generation):
            return catch_up(ports, topic, name, generation)
