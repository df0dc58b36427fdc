"""Runs an import: divides its files, writes their chunks as ledgers, and commits each chunk once.

A message id is made from the import's token and the row's place, so the same input gives the same ids. The commit of a
chunk also stores a mark for that chunk. To continue an import that stopped, run it again. If it stops
    after the input is stored: the next run compares it.
    while a part is written, or after: no metadata names the complete ledgers; the orphan sweep deletes them. The next
        run writes them again, with the part's rejects, which replace the first.
    between two commits: committed chunks are live. The next run passes over them and writes the others.
    after the last commit of a part: the next run finds every chunk committed.
    after a part is finished: the next run does not read it.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from time import perf_counter

from tidewheel.errors import InvalidValue
from tidewheel.jobs.importing.child import Apart, end_children
from tidewheel.jobs.importing.chunks import WritePart
from tidewheel.jobs.importing.commits import Rewrite, commit_chunk
from tidewheel.jobs.importing.dividing import Divide
from tidewheel.jobs.importing.files import changed_since, find_files, plain_url
from tidewheel.jobs.importing.options import ImportOptions, parse_options
from tidewheel.jobs.importing.rejects import check_writable
from tidewheel.jobs.importing.settled import Input, Settled, token_of
from tidewheel.jobs.importing.work import LIMITS, Chunk, FileProblem, InputFile, Limits, Part, Target, Terms, Work
from tidewheel.jobs.job import Job
from tidewheel.jobs.location import S3
from tidewheel.jobs.tasks import InThreads, Tasks
from tidewheel.model.topic_state import TopicState

_CHILD_BYTES = 1_200_000_000
_MOST_SHOWN = 20


@dataclass(slots=True, kw_only=True)
class Imported:
    """Reports the outcome of an import.

    Attributes:
        token: the import's name; give it as `--token` to run the import again even if the files are moved.
        read: rows that were read; the sum of imported, rejected and skipped.
        imported: rows that this run made live.
        rejected: rows that this run rejected, by reason.
        ledgers: ledgers that this run made live.
        skipped: rows that an earlier run imported or rejected.
        failed: problems of files that were not imported, or not to their end, by name.
        seconds: duration of this run.
    """

    token: str
    imported: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    ledgers: int = 0
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def read(self) -> int:
        """Returns the number of rows with an outcome."""
        return self.imported + self.rejected.total() + self.skipped


def import_messages(job: Job, tasks: Tasks | None = None, limits: Limits = LIMITS) -> Imported:
    """Imports the files in the argument `input` to the topic in the argument `topic`.

    Args:
        job: its arguments and ports.
        tasks: runs the tasks; by default this machine, each in a child process.
        limits: bound a task's memory.

    Raises:
        InvalidValue: an argument is wrong, or no file of the input can be imported.
        UnknownTopic: there is no such topic.
    """
    options = parse_options(job.arguments)
    job.service.topic_states.existing(options.topic)
    if options.input_role is not None and not plain_url(options.input).startswith(S3):
        raise InvalidValue("--input-role", options.input_role, "the input is on this machine; leave it out")
    files = find_files(replace(job.location, role=options.input_role), options)
    if options.rejects is not None:
        check_writable(job.location, options.rejects, options.input, f"{token_of(options, files)}.json")
    return import_files(job, options, files, tasks or in_children(job), limits)


def import_files(
    job: Job,
    options: ImportOptions,
    files: list[InputFile],
    tasks: Tasks,
    limits: Limits,
    given: Input | None = None,
    terms: Terms | None = None,
) -> Imported:
    """Imports files.

    Args:
        given: what the token stands for; by default the options and files.
        terms: of the checks of rows; by default those of now.

    Raises:
        InvalidValue: another import has the token, or no file can be imported.
        UnknownTopic: there is no such topic.
    """
    started = perf_counter()
    state = job.service.topic_states.existing(options.topic)
    try:
        given = given or Input.of(options, files, limits)
        terms = terms or Terms.of(state, job.service.clock.now_ms(), options)
        report = _Run(job, options, state, files, tasks, given, terms).whole()
    finally:
        end_children()
    report.seconds = perf_counter() - started
    _say(job, options.topic, report)
    return report


def in_children(job: Job) -> Tasks:
    """Returns what runs the tasks on this machine: a child process a core, if there is the memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else _CHILD_BYTES
    return InThreads(max(1, min(job.cores, memory // _CHILD_BYTES)), end=end_children)


class _Run:
    """Runs one import once."""

    def __init__(
        self,
        job: Job,
        options: ImportOptions,
        state: TopicState,
        files: list[InputFile],
        tasks: Tasks,
        given: Input,
        terms: Terms,
    ) -> None:
        self._job, self._options, self._files, self._tasks = job, options, files, tasks
        token = token_of(options, files)
        self._report = Imported(token=token)
        self._target = Target.of(state, token)
        self._settled = Settled(job.service.objects, state.topic, self._target.import_id)
        if options.token is None:
            self._refuse_known(given)
        limits = self._settled.begin(given, token).limits
        self._work = Work(
            target=self._target,
            terms=terms,
            location=job.location,
            source=replace(job.location, role=options.input_role),
            rejects=options.rejects,
            limits=limits,
        )
        self._marks = job.service.buckets.imported(state.topic, self._target.import_id)
        self._changed: set[str] = set()

    def _refuse_known(self, given: Input) -> None:
        """Refuses a file of which another import made messages live: they would come twice."""
        for import_id, file in self._settled.others_with(given):
            if self._job.service.buckets.imported(self._target.topic, import_id):
                raise InvalidValue(
                    "--input",
                    file,
                    f"import {import_id.partition('.')[0]} of this topic has this file. Leave the file out, or run that"
                    " import again as it was. With a --token of your own, every row is imported again",
                )

    def whole(self) -> Imported:
        """Imports all files. Returns the report."""
        parts = self._divide()
        done = sum(part.size_bytes for part in parts)
        total, parts = done, self._unfinished(parts)
        done -= sum(part.size_bytes for part in parts)
        results = self._tasks.run(Apart(WritePart(work=self._work, committed=self._marks)), parts)
        for number, (place, result) in enumerate(results):
            if number == 0:  # before the first commit
                for file in self._files:
                    self._check_unchanged(file)
            part = parts[place]
            try:
                self._settle(part, result)
            except FileProblem as problem:
                self._fail(part.file, f"{problem}; {part.missing}")
            done += part.size_bytes
            self._job.advance(done, total)
        return self._report

    def _divide(self) -> list[Part]:
        """Returns the parts of all files.

        Raises:
            InvalidValue: no file can be read.
        """
        divide = Divide(location=self._work.source, options=self._options, limits=self._work.limits)
        found: dict[int, list[Part]] = {}
        for place, parts in self._tasks.run(Apart(divide), self._files):
            if isinstance(parts, FileProblem):
                self._fail(self._files[place], str(parts))
            else:
                found[place] = parts
        if not found:
            name, problem = next(iter(sorted(self._report.failed.items())))
            raise InvalidValue("--input", name, problem)
        return [part for place in sorted(found) for part in found[place]]

    def _unfinished(self, parts: list[Part]) -> list[Part]:
        left = []
        for part in parts:
            rows = self._settled.rows_of(part, self._marks)
            if rows is None:
                left.append(part)
            else:
                self._report.skipped += rows
        return left

    def _check_unchanged(self, file: InputFile) -> bool:
        """Returns whether a file is unchanged. Marks a changed file as failed."""
        if file.name not in self._changed:
            problem = changed_since(self._work.source, file)
            if problem is None:
                return True
            self._changed.add(file.name)
            self._fail(file, problem)
        return False

    def _settle(self, part: Part, result: list[Chunk] | FileProblem) -> None:
        """Commits the chunks of a part."""
        if isinstance(result, FileProblem):
            raise result
        if not self._check_unchanged(part.file):
            self._job.service.objects.delete([each.bucket.object_name for each in result if each.bucket is not None])
            return
        live = part.chunks(self._marks)
        rows = made = 0
        for chunk in result:
            rows += chunk.rows
            if chunk.number in live:
                self._report.skipped += chunk.rows
                made += 1
                continue
            mark = part.mark(chunk.number)
            committed = commit_chunk(self._job.service, self._target, mark, chunk, self._rewrite(part, chunk.number))
            made += committed.imported > 0 or committed.skipped > 0
            self._report.imported += committed.imported
            self._report.skipped += committed.skipped
            self._report.ledgers += committed.imported > 0
            if not committed.skipped:
                self._report.rejected.update(committed.chunk.rejected)
        self._settled.finish(part, rows, made)

    def _rewrite(self, part: Part, number: int) -> Rewrite:
        def rewrite(open_ms: int) -> Chunk:
            work = replace(self._work, terms=replace(self._work.terms, open_ms=open_ms))
            task = Apart(WritePart(work=work, only=frozenset({number})))
            result = task(part)  # here: all other tasks may have begun
            if isinstance(result, FileProblem):
                raise result
            return result[number]

        return rewrite

    def _fail(self, file: InputFile, problem: str) -> None:
        before = self._report.failed.get(file.name)
        self._report.failed[file.name] = problem if before is None or before == problem else f"{before}; {problem}"


def _say(job: Job, topic: str, report: Imported) -> None:
    for kind, rows in report.rejected.most_common():
        # Without an example, which may be a body: this text goes into a log. The rejects have the rows.
        job.say(f"rejected {rows:,}: {kind}")
    for name, problem in sorted(report.failed.items())[:_MOST_SHOWN]:
        job.say(f"not imported, or not to its end: {name}: {problem}")
    if len(report.failed) > _MOST_SHOWN:
        job.say(f"not imported, or not to their end: {len(report.failed) - _MOST_SHOWN} more files")
    rate = report.read / report.seconds if report.seconds else 0.0
    failed = f", {len(report.failed)} FILES NOT IMPORTED OR NOT TO THEIR END" if report.failed else ""
    job.say(
        f"topic {topic}: {report.read:,} rows read, {report.imported:,} imported to {report.ledgers} ledgers, "
        f"{report.rejected.total():,} rejected, {report.skipped:,} settled by an earlier run{failed}, "
        f"{rate:,.0f} rows a second; import {report.token}"
    )
