"""Runs an import: first its tasks write ledgers that nothing names, then the driver commits them.

If it stops
    before the record is stored: nothing is live. The next run begins again; the orphan sweep deletes the ledgers.
    between two commits: committed ledgers are live. The next run reads no file, and commits the others.
    while rejects are copied: all ledgers are live. The next run copies all rejects again, under the same names.
    after the import is marked as finished: the next run does nothing, but to delete what the import kept.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from time import perf_counter

from tidewheel.errors import InvalidValue
from tidewheel.flows.ports import Ports
from tidewheel.jobs.importing.child import apart, end_children
from tidewheel.jobs.importing.commits import commit_ledger
from tidewheel.jobs.importing.files import find_files, plain_url
from tidewheel.jobs.importing.options import ImportOptions, parse_options
from tidewheel.jobs.importing.parts import shares_of
from tidewheel.jobs.importing.record import Input, Record, Records
from tidewheel.jobs.importing.rejects import check_writable, folder_of
from tidewheel.jobs.importing.staging import Staged, stage_parts
from tidewheel.jobs.importing.work import LIMITS, Imported, InputFile, Limits, Part, Work
from tidewheel.jobs.job import Job
from tidewheel.jobs.location import S3
from tidewheel.jobs.tasks import InThreads
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.buckets import IMPORT_TTL_S

Stager = Callable[[Job, Work, Sequence[InputFile]], list[Staged]]
"""Reads files, and writes their rows as ledgers. Two tasks have the same file only if they have no other."""

_CHILD_BYTES = 1_200_000_000
_MOST_SHOWN = 20
_MOST_BYTES = 1 << 30
_MOST_STAGING_MS = 12 * 3_600_000
"""The orphan sweep takes a ledger that nothing names after a day."""
_MOST_AGE_MS = (IMPORT_TTL_S - 86_400) * 1000
"""Marks end after IMPORT_TTL_S. Without them, an unfinished import would commit its ledgers again."""


def import_messages(job: Job, stager: Stager | None = None, limits: Limits = LIMITS) -> Imported:
    """Imports the files in the argument `input` to the topic in the argument `topic`.

    Args:
        job: its arguments and ports.
        stager: reads the files; by default this machine, in child processes.
        limits: bound a task's memory.

    Raises:
        InvalidValue: an argument is wrong, no file of the input can be imported, or another import has the token.
        UnknownTopic: there is no such topic.
    """
    started = perf_counter()
    options = parse_options(job.arguments)
    state = job.service.topic_states.existing(options.topic)
    if options.input_role is not None and not plain_url(options.input).startswith(S3):
        raise InvalidValue("--input-role", options.input_role, "the input is on this machine; leave it out")
    files = find_files(replace(job.location, role=options.input_role), options)
    given = Input.of(options, files)
    token = options.token or given.token
    if options.rejects is not None:
        check_writable(job.location, options.rejects, options.input, f"{token}.json")
    work = work_of(job, options, state, token, limits)
    records, staged = Records(job.service.objects, work), None
    if records.read() is None:
        if options.token is None:
            _refuse_known(job, records, given)
        records.begin()
        staged = _stage_all(job, work, files, stager or stage_here)
    report = complete(job, work, given, staged)
    report.seconds = perf_counter() - started
    _say(job, options.topic, report)
    return report


def work_of(job: Job, options: ImportOptions, state: TopicState, token: str, limits: Limits) -> Work:
    """Returns the data that all tasks of a run share, which begins now."""
    return Work(
        options=options,
        state=state,
        token=token,
        run=f"run{secrets.token_hex(8)}",
        now_ms=job.service.clock.now_ms(),
        location=job.location,
        source=replace(job.location, role=options.input_role),
        limits=limits,
    )


def stage_here(job: Job, work: Work, files: Sequence[InputFile]) -> list[Staged]:
    """Reads files and writes their rows on this machine: a child process a core, if there is the memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else _CHILD_BYTES
    tasks = InThreads(max(1, min(job.cores, memory // _CHILD_BYTES)), end=end_children)
    shares = shares_of(files, tasks.side_by_side, work.limits)
    sizes = [sum(part.size_bytes for part in share) for share in shares]
    found, done = dict[int, Staged](), 0
    with closing(tasks.run(partial(_stage_share, work), shares)) as results:
        for place, staged in results:
            found[place] = staged
            done += sizes[place]
            job.advance(done, sum(sizes))
    return [staged for _, staged in sorted(found.items())]


def _stage_share(work: Work, parts: Sequence[Part]) -> Staged:
    """Reads and writes the parts of a task in a child."""
    staged, failed = Staged(), dict[str, str]()
    for told in apart(stage_parts, work, parts):
        failed |= told.failed
        staged = told if isinstance(told, Staged) else staged
    return replace(staged, failed=failed, files=frozenset(part.file.name for part in parts))


def _stage_all(job: Job, work: Work, files: Sequence[InputFile], stager: Stager) -> Staged:
    """Returns what was written of all files that can be read. What was written beside others is written again.

    Raises:
        InvalidValue: no file can be imported.
    """
    kept, failed, left = list[Staged](), dict[str, str](), list(files)
    while left:
        found = stager(job, work, left)
        for staged in found:
            failed |= staged.failed
        dropped = [staged for staged in found if staged.files & failed.keys()]
        kept += [staged for staged in found if not staged.files & failed.keys()]
        job.service.objects.delete(name for staged in dropped for name in staged.names)
        again = frozenset[str]().union(*(staged.files for staged in dropped)) - failed.keys()
        left = [file for file in left if file.name in again]
        if left:
            job.say(f"{len(failed):,} files cannot be read; {len(left):,} others are read again")
    if len(failed) == len(files):
        raise InvalidValue("--input", *min(failed.items()))
    return replace(Staged.of(kept), failed=failed)


def complete(job: Job, work: Work, given: Input, staged: Staged | None) -> Imported:
    """Does what is left of an import.

    Args:
        given: this run's input.
        staged: what this run's tasks have written. The first to be recorded counts.

    Raises:
        InvalidValue: another import has the token, there is no folder for the rejected rows, or it is too late.
    """
    now_ms, records, token = job.service.clock.now_ms(), Records(job.service.objects, work), work.token
    record, is_mine = records.read(), False
    if staged is not None:
        if record is None and now_ms > work.now_ms + _MOST_STAGING_MS:
            job.service.objects.delete(staged.names)
            raise InvalidValue("--input", work.options.input, "reading it took over twelve hours; import it in pieces")
        mine = Record.of(given, staged, work)
        record = record or records.store(mine)
        is_mine = record.first_mark == mine.first_mark
        if not is_mine:
            job.service.objects.delete(staged.names)
    assert record is not None  # otherwise the tasks have run
    difference = record.given.difference(given)
    if difference is not None:
        advice = "give the same as in its first run. Another --token imports every row again"
        raise InvalidValue("--token", token, f"in this import {difference}; {advice}")
    is_old = now_ms > record.stored_ms + _MOST_AGE_MS
    if is_old and not record.is_finished:
        raise InvalidValue("--token", token, "this import stopped too long ago to be finished; give another")
    report = Imported(token=token, failed=record.failed, all_rejected=bool(record.rejected) and not record.good)
    if is_mine:
        report.rejected.update(record.rejected)
    else:
        report.skipped = sum(record.rejected.values())
    records.count(record)
    if is_old:
        report.skipped += record.good
    else:
        _commit_all(job, work, record, report)
    _publish_rejects(job, work, record)
    records.finish(record)
    return report


def _commit_all(job: Job, work: Work, record: Record, report: Imported) -> None:
    service, topic = job.service, work.state.topic
    marks, state = service.buckets.imported(topic, work.import_id), service.topic_states.existing(topic)
    for mark, bucket in enumerate(record.buckets, record.first_mark):
        if mark in marks or (record.is_finished and not _is_lost(service, state, bucket)):
            report.skipped += bucket.rows
        else:
            commit_ledger(service, work, mark, bucket, report)


def _is_lost(service: Ports, state: TopicState, bucket: Bucket) -> bool:
    """Returns whether the table has lost a ledger of a finished import that S3 has and that is not due yet."""
    if bucket.last_slot < state.sealed or service.buckets.read(state.topic, bucket.id) is not None:
        return False
    return next(service.objects.list(bucket.object_name), None) is not None


def _publish_rejects(job: Job, work: Work, record: Record) -> None:
    """Copies the rejected rows to the folder for them, in the order of the record."""
    if record.is_finished and record.rejected and work.options.rejects is not None:
        there = f"are in {record.rejects_in}" if record.rejects_in else "are where that run wrote them, if anywhere"
        job.say(f"the rows that an earlier run rejected {there}")
    if not record.rejects:
        return
    if work.options.rejects is None:
        raise InvalidValue("--rejects", None, "rows are rejected, and all others are imported. Give a folder for them")
    (to, folder), objects = folder_of(job.location, work.options.rejects), job.service.objects
    for number, name in enumerate(record.rejects):
        to.put(f"{folder}{work.import_id}-{number}.json", objects.get_range(name, 0, _MOST_BYTES))


def _refuse_known(job: Job, records: Records, given: Input) -> None:
    """Refuses a file of which another import made messages live: they would come twice."""
    if (found := records.other_with(given, job.service.parallel)) is not None:
        advice = (
            f"import {found[0].partition('.')[0]} of this topic has this file. Leave the file out, or run that import"
            " again as it was. With a --token of your own, every row is imported again"
        )
        raise InvalidValue("--input", found[1], advice)


def _say(job: Job, topic: str, report: Imported) -> None:
    for kind, rows in report.rejected.most_common():
        # Without an example, which may be a body: this text goes into a log. The rejects have the rows.
        job.say(f"rejected {rows:,}: {kind}")
    for name, problem in sorted(report.failed.items())[:_MOST_SHOWN]:
        job.say(f"not imported: {name}: {problem}")
    if len(report.failed) > _MOST_SHOWN:
        job.say(f"not imported: {len(report.failed) - _MOST_SHOWN} more files")
    rate = report.read / report.seconds if report.seconds else 0.0
    sent = f", {report.sent:,} of them sent at once" if report.sent else ""
    failed = f", {len(report.failed)} FILES NOT IMPORTED" if report.failed else ""
    job.say(
        f"topic {topic}: {report.read:,} rows read, {report.imported:,} imported to {report.ledgers} ledgers{sent}, "
        f"{report.rejected.total():,} rejected, {report.skipped:,} settled by an earlier run{failed}, "
        f"{rate:,.0f} rows a second; import {report.token}"
    )
