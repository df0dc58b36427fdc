"""Rebuilds the index of a topic, or compares it with the ledgers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from tidewheel.clock import SystemClock
from tidewheel.flows.maintenance.merge_outputs import SideBySide
from tidewheel.flows.recovery.audit import audit
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.flows.recovery.rebuild_report import RebuildReport
from tidewheel.flows.recovery.scan import LedgerScan, RebuildEngine, ScanRange, scan_here
from tidewheel.jobs.job import MAX_JOB_S, Job
from tidewheel.jobs.location import key_ports
from tidewheel.model.setting import settings_of
from tidewheel.model.settings import MAX_FUNCTION_S, TopicSettings, read_setting
from tidewheel.storage.objects import StoredObject


def rebuild_index(job: Job) -> RebuildReport:
    """Rebuilds the index of the topic in the argument `topic`. With `dry-run true`, only compares it.

    With `replace true`, an existing index is discarded. Where there is no checkpoint, `slot-s`, `lookahead-s` and so on
    give the topic's settings.
    """
    topic = job.required("topic")
    engine = engine_of(job)
    settings = topic_settings(job)
    if job.flag("dry-run"):
        report = audit(job.service, topic, engine, settings=settings)
    else:
        report = rebuild(
            job.service,
            topic,
            engine,
            lease_s=MAX_JOB_S,
            settings=settings,
            replace_index=job.flag("replace"),
            settle=lambda: _settle(job),
            say=job.say,
        )
    for line in report.lines():
        job.say(line)
    return report


def engine_of(job: Job) -> RebuildEngine:
    """Returns the engine of a job, which reads ledgers of more than `spark-above-mb` on Spark, if given."""

    def scan(stored: Sequence[StoredObject], wanted: ScanRange) -> LedgerScan:
        if job.scan_on_spark is not None and job.is_for_spark(sum(each.size_bytes for each in stored)):
            return job.scan_on_spark(job, stored, wanted)
        objects, ports = job.location.objects(), partial(key_ports, job.location)
        return scan_here(objects, ports, stored, wanted, cores=job.cores, advance=job.advance)

    return RebuildEngine(scan=scan, writer=SideBySide(tasks=job.tasks, objects=job.location.objects))


def _settle(job: Job) -> None:
    """Waits until every function that may have read the topic state has ended.

    Returns at once with a virtual clock, since no functions run beside the job.
    """
    if isinstance(job.service.clock, SystemClock):
        job.say(f"waiting {MAX_FUNCTION_S} s for functions that are under way")
        time.sleep(MAX_FUNCTION_S)


def topic_settings(job: Job) -> TopicSettings | None:
    """Reads topic settings from a job's arguments, with defaults. Returns None if there are none.

    Raises:
        InvalidValue: a setting is not a number, or the settings contradict each other.
    """
    arguments = {name: name.replace("_", "-") for name in settings_of(TopicSettings)}
    given = {
        name: read_setting(settings_of(TopicSettings)[name], job.arguments[argument], f"--{argument}")
        for name, argument in arguments.items()
        if argument in job.arguments
    }
    return TopicSettings(**given) if given else None
