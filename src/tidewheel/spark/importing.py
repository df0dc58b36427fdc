"""Imports Parquet, CSV or JSON files as ledgers, without SQS.

    files --read, map, check--> rows --cut by slots, sort--> ledgers --topic state--> live buckets
                 '--> rejects                       (nothing names them yet)

A message id is made from the import's id and the row, so the same input gives the same ids. The input is divided into
cuts, one ledger each. The commit of a cut also stores a mark for that cut. To continue an import that stopped, run it
again. If it stops
    after the cuts are stored: the next run uses them.
    while rejects are written, or after: the next run writes the rejects again, beside the first.
    while ledgers are written: no metadata names the complete ledgers; the orphan sweep deletes them.
    after the manifest is written: as before; the orphan sweep deletes the manifest too.
    between two commits: committed cuts are live. The next run skips these cuts and writes the others.
    after the last commit: the next run finds every cut committed and reads nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidewheel.errors import InvalidValue, UnknownTopic
from tidewheel.jobs.import_options import ImportOptions, parse_options
from tidewheel.jobs.job import Job
from tidewheel.model.object_names import cuts_name, random_attempt
from tidewheel.model.topic_state import TopicState
from tidewheel.spark import import_rows as rows_of
from tidewheel.spark.import_commits import commit_ledger
from tidewheel.spark.import_cuts import Cuts, SlotWeight, grain_slots, make_cuts, stored_cuts
from tidewheel.spark.import_input import InputFiles, explained, find_files, read_input
from tidewheel.spark.import_rows import BYTES, REJECT, SLOT, TIMING, Terms
from tidewheel.spark.ledger_sink import PART, CutLedger, Target, decode_manifest, sink_options
from tidewheel.spark.tasks import session_of

LATE = "became due while it was imported"
_BATCHES = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 1024 * 1024),
}
_MANIFEST_BYTES = 1 << 30


@dataclass(slots=True, kw_only=True)
class Imported:
    """Reports the outcome of an import.

    Attributes:
        name: the import's name; give it as `--name` to run the import again even if the files are renamed.
        read: rows of the input; the sum of imported, rejected and skipped.
        imported: rows that this run made live.
        rejected: rows that this run rejected, by reason.
        ledgers: ledgers that this run made live.
        skipped: rows that an earlier run imported or rejected.
        seconds: duration of this run.
    """

    name: str
    read: int = 0
    imported: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    ledgers: int = 0
    skipped: int = 0
    seconds: float = 0.0

    @property
    def rows_a_second(self) -> float:
        """Returns the number of rows read per second."""
        return self.read / self.seconds if self.seconds else 0.0


def import_messages(job: Job) -> Imported:
    """Imports the files in the argument `input` to the topic in the argument `topic`.

    Raises:
        InvalidValue: an argument is wrong, or the input is missing or lacks a column.
        UnknownTopic: there is no such topic.
    """
    started = perf_counter()
    options = parse_options(job.arguments)
    state = job.service.topic_states.read(options.topic)
    if state is None:
        raise UnknownTopic(options.topic)
    files = find_files(session_of(job), options)
    run = _Run(job, options, state, files)
    report = Imported(name=run.name)
    cuts = run.stored_cuts()
    done = job.service.buckets.imported(options.topic, run.target.import_id)
    if cuts is None or len(done) < len(cuts.starts):
        run.map_input()
        weights = run.weigh()
        if cuts is None:
            cuts = run.store_cuts(weights)
        run.work(cuts, done, weights, report)
    else:
        report.skipped += sum(cuts.rejected.values())
    report.read = sum(cuts.rows) + sum(cuts.rejected.values())
    report.skipped += sum(cuts.rows[cut] for cut in done)
    report.seconds = perf_counter() - started
    _say(job, options.topic, report)
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weight:
    """Counts rows of one grain with the same outcome (valid, or the same error)."""

    reject: str | None
    timing: str | None
    grain: int | None
    rows: int
    raw_bytes: int


class _Run:
    """Runs one import once."""

    def __init__(self, job: Job, options: ImportOptions, state: TopicState, files: InputFiles) -> None:
        self._job = job
        self._options = options
        self._state = state
        self._files = files
        self._fingerprint = files.fingerprint(options)
        self.name = options.name or self._fingerprint
        # A topic that is deleted and created again has no rows of an import to the first topic.
        self.target = Target(
            topic=state.topic,
            generation=state.generation,
            settings=state.settings,
            import_id=f"{self.name}.{state.generation}",
        )
        self._frame: DataFrame | None = None

    @property
    def frame(self) -> DataFrame:
        """The mapped rows."""
        assert self._frame is not None
        return self._frame

    def map_input(self) -> None:
        """Defines the mapping from input to rows. Reads JSON once to find its columns."""
        now_ms = self._job.service.clock.now_ms()
        terms = Terms(
            import_id=self.target.import_id,
            slot_ms=self._state.slot_ms,
            now_ms=now_ms,
            earliest_ms=max(now_ms + self._options.min_lead_ms, self._state.sealed * self._state.slot_ms),
            time_zone=self._options.time_zone,
        )
        input_ = read_input(session_of(self._job), self._files, self._options)
        self._frame = rows_of.mapped(input_, terms)
        if self._options.rejects is not None:
            # No row, but everything that a write needs. A write that is not permitted fails before the input is read.
            self._keep_rejected(rows_of.input_rows(self._frame.limit(0), F.lit("")))

    def stored_cuts(self) -> Cuts | None:
        """Returns the cuts of an earlier run.

        Raises:
            InvalidValue: another import has this name.
        """
        cuts = stored_cuts(self._job.objects, self._cuts_name)
        if cuts is not None and cuts.fingerprint != self._fingerprint:
            raise InvalidValue("--name", self.name, "it names an import of other files or columns; give another name")
        return cuts

    @property
    def _cuts_name(self) -> str:
        return cuts_name(self.target.topic, self.target.import_id)

    def weigh(self) -> list[_Weight]:
        """Counts rows and bytes in one pass over the input."""
        grain_slots_ = grain_slots(self._state.slot_ms)
        grain = F.when(F.col(REJECT).isNull(), F.expr(f"{SLOT} div {grain_slots_}") * grain_slots_)
        groups = self.frame.groupBy(f"{REJECT}.kind", f"{TIMING}.kind", grain)
        with explained("--input", self._options.input):
            found = groups.agg(F.count("*"), F.sum(BYTES)).collect()
        names = ("reject", "timing", "grain", "rows", "raw_bytes")
        return [_Weight(**dict(zip(names, row, strict=True))) for row in found]

    def store_cuts(self, weights: list[_Weight]) -> Cuts:
        """Divides the input into cuts, and stores the cuts."""
        good: Counter[int] = Counter()
        good_bytes: Counter[int] = Counter()
        rejected: Counter[str] = Counter()
        for each in weights:
            if each.reject is not None:
                rejected[each.reject] += each.rows
            elif each.grain is not None:
                good[each.grain] += each.rows
                good_bytes[each.grain] += each.raw_bytes
        slots = (SlotWeight(slot, rows, good_bytes[slot]) for slot, rows in good.items())
        cuts = make_cuts(slots, fingerprint=self._fingerprint, rejected=rejected)
        cuts.store(self._job.objects, self._cuts_name)
        return cuts

    def work(self, cuts: Cuts, done: frozenset[int], weights: list[_Weight], report: Imported) -> None:
        """Writes and commits the pending cuts."""
        pending = [cut for cut in range(len(cuts.starts)) if cut not in done]
        self._count_rejected(cuts, done, weights, report)
        for kind, rows in report.rejected.most_common():
            # Without an example, which may be a body: this text goes into a log. The rejects in S3 have the rows.
            self._job.say(f"rejected {rows:,}: {kind}")
        wanted = cuts.position(F.col(SLOT), pending).isNotNull()
        if report.rejected:
            bad = self.frame.where(F.col(REJECT).isNotNull() | (F.col(TIMING).isNotNull() & wanted))
            why = F.when(F.col(REJECT).isNotNull(), rows_of.reason(REJECT)).otherwise(rows_of.reason(TIMING))
            self._keep_rejected(rows_of.input_rows(bad, why))
        if pending:
            self._commit(cuts, self._write(cuts, pending), report)

    def _count_rejected(self, cuts: Cuts, done: frozenset[int], weights: list[_Weight], report: Imported) -> None:
        """Counts rejected rows in the report, by kind. Checks times in pending cuts only."""
        for each in weights:
            kind = each.reject or each.timing
            if kind is None or (each.grain is not None and cuts.cut_of(each.grain) in done):
                continue
            report.rejected[kind] += each.rows

    def _write(self, cuts: Cuts, pending: list[int]) -> list[CutLedger]:
        """Writes one ledger per cut. Returns the ledgers, none of which is live."""
        part = cuts.position(F.col(SLOT), pending)
        good = self.frame.where(F.col(REJECT).isNull() & F.col(TIMING).isNull() & part.isNotNull())
        rows = rows_of.ledger_rows(good, part.alias(PART))
        manifest = f"{self._cuts_name}-{random_attempt()}"
        options = sink_options(self.target, self._job.location, pending, manifest)
        self._job.say(f"topic {self.target.topic}: writing {len(pending)} ledgers")
        with _arrow_batches(session_of(self._job)):
            divided = rows.repartitionById(len(pending), F.col(PART)).sortWithinPartitions("message_id")
            divided.write.format("tidewheel.ledger").mode("append").options(**options).save()
        ledgers = decode_manifest(self._job.objects.get_range(manifest, 0, _MANIFEST_BYTES))
        self._job.objects.delete([manifest])
        return ledgers

    def _commit(self, cuts: Cuts, ledgers: list[CutLedger], report: Imported) -> None:
        def reject_late(cut: int, first_slot: int, end_slot: int) -> None:
            slot = F.col(SLOT)
            sealed = cuts.position(slot, [cut]).isNotNull() & (slot >= first_slot) & (slot < end_slot)
            good = F.col(REJECT).isNull() & F.col(TIMING).isNull()
            self._keep_rejected(rows_of.input_rows(self.frame.where(good & sealed), F.lit(LATE)))

        total, committed_rows = sum(each.bucket.rows for each in ledgers), 0
        for ledger in ledgers:
            committed = commit_ledger(self._job.service, self.target, ledger, reject_late)
            report.imported += committed.imported
            report.skipped += committed.skipped
            report.ledgers += committed.imported > 0
            if committed.late:
                report.rejected[LATE] += committed.late
            committed_rows += ledger.bucket.rows
            self._job.advance(committed_rows, total)

    def _keep_rejected(self, rows: DataFrame) -> None:
        folder = self._options.rejects
        if folder is not None:
            with explained("--rejects", folder, "; give a folder that this run may write to"):
                rows.write.mode("append").json(folder)


@contextmanager
def _arrow_batches(spark: SparkSession) -> Iterator[None]:
    """Limits the size of batches sent to Python, since a message may have a megabyte."""
    before = {name: spark.conf.get(name, None) for name in _BATCHES}
    for name, value in _BATCHES.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _say(job: Job, topic: str, report: Imported) -> None:
    rejected = sum(report.rejected.values())
    job.say(
        f"topic {topic}: {report.read:,} rows read, {report.imported:,} imported to {report.ledgers} ledgers, "
        f"{rejected:,} rejected, {report.skipped:,} settled by an earlier run, "
        f"{report.rows_a_second:,.0f} rows a second; import {report.name}"
    )
