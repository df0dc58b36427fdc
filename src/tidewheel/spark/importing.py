"""Imports files on Spark's workers. Each worker reads foreign files in a child process, as this machine would."""

from __future__ import annotations

from tidewheel.errors import NotAllImported
from tidewheel.jobs.importing.driver import Imported, import_messages
from tidewheel.jobs.job import Job


def import_on_spark(job: Job) -> Imported:
    """Imports files, and fails at the end if some were not imported, so that the job's run fails.

    Raises:
        NotAllImported: some files were not imported, or not to their end.
    """
    report = import_messages(job, job.spark)
    if report.failed:
        raise NotAllImported(report)
    return report
