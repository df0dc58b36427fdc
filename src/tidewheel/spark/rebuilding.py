"""Rebuilds an index on Spark, where tasks inspect ledgers and find duplicate messages.

The comparison of ids needs a shuffle: 24 bytes a message, in blocks of bytes that Java passes on unchanged. Reading
and writing ledgers needs none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from pyspark.sql import SparkSession

from tidewheel.clock import SystemClock
from tidewheel.flows.delivery.buckets_again import inspect_object
from tidewheel.flows.ports.objects import StoredObject
from tidewheel.flows.recovery.audit import audit
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.flows.recovery.rebuild_engine import Ids, Overlaps, message_ids, sharing
from tidewheel.flows.recovery.rebuild_report import RebuildReport
from tidewheel.flows.upkeep.merge_rows import MergeWork
from tidewheel.jobs.job import MAX_JOB_S, Job
from tidewheel.jobs.location import Location
from tidewheel.jobs.merging import side_by_side
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.inspection import Inspected
from tidewheel.model.setting import settings_of
from tidewheel.model.settings import MAX_FUNCTION_S, TopicSettings, read_setting
from tidewheel.spark import tasks
from tidewheel.spark.tasks import session_of

_GROUP_BYTES = 64 * 1024 * 1024
_FEW_TASKS = 4
_COMPARED_ROWS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSpark:
    """Runs the rebuilding engine on Spark. A failed or repeated task leaves only orphans.

    Attributes:
        spark: makes or finds the session; called when it is first needed.
        location: where the workers find the objects.
    """

    spark: Callable[[], SparkSession]
    location: Location

    def inspect(self, stored: Sequence[StoredObject], slot_ms: int, /) -> list[Inspected]:
        """Inspects objects, about 64 MiB per task."""
        location = self.location

        def task(places: list[int]) -> list[tuple[int, Inspected | None]]:
            objects = location.objects()
            return [(place, inspect_object(objects, stored[place], slot_ms)) for place in places]

        groups = self._grouped([each.size_bytes for each in stored]) if stored else []
        found = dict(self._run(task, groups))
        return [each for place in range(len(stored)) if (each := found[place]) is not None]

    def overlaps(self, ledgers: Sequence[Bucket], from_ms: int, /) -> Overlaps:
        """Compares ids, about two million per task."""
        due = [place for place, each in enumerate(ledgers) if each.segments[-1].last_deliver_at_ms >= from_ms]
        if not due:
            return set()
        context = self.spark().sparkContext
        location = self.location
        rows = sum(ledgers[place].rows for place in due)
        shares = max(context.defaultParallelism, rows // _COMPARED_ROWS + 1)

        def read(places: list[int]) -> Iterator[tuple[int, bytes]]:
            objects = location.objects()
            found = [message_ids(objects, ledgers[due[i]], due[i], from_ms) for i in places]
            yield from _shared_out(np.concatenate(found), shares)

        def compare(share: tuple[int, Iterable[bytes]]) -> set[tuple[int, int]]:
            return sharing([np.frombuffer(each, np.int64).reshape(-1, 3) for each in share[1]])

        groups = self._grouped([ledgers[place].size_bytes for place in due])
        ids = context.parallelize(groups, len(groups)).flatMap(read)
        return set(ids.groupByKey(shares, _itself).flatMap(compare).collect())

    def write(self, work: MergeWork, /) -> Iterable[Bucket | None]:
        """Writes outputs side by side."""
        return side_by_side(lambda _: tasks.OnSpark(self.spark), self.location)(work)

    def _grouped(self, sizes: Sequence[int]) -> list[list[int]]:
        """Groups items into about 64 MiB, or less if processors would be idle."""
        most = min(_GROUP_BYTES, sum(sizes) // (_FEW_TASKS * self.spark().sparkContext.defaultParallelism) + 1)
        groups: list[list[int]] = []
        total = 0
        for place, size in enumerate(sizes):
            if not groups or total + size > most:
                groups.append([])
                total = 0
            groups[-1].append(place)
            total += size
        return groups

    def _run(
        self, task: Callable[[list[int]], list[tuple[int, Inspected | None]]], groups: list[list[int]]
    ) -> Iterator[tuple[int, Inspected | None]]:
        if groups:
            for results in self.spark().sparkContext.parallelize(groups, len(groups)).map(task).collect():
                yield from results


def _shared_out(ids: Ids, shares: int) -> Iterator[tuple[int, bytes]]:
    """Yields the ids of each share as bytes. The lower half of an id is random."""
    keys = ids[:, 1].view(np.uint64) % np.uint64(shares)
    order = np.argsort(keys, kind="stable")
    ids, ends = ids[order], np.searchsorted(keys[order], np.arange(1, shares + 1))
    for share, (start, end) in enumerate(pairwise((0, *ends.tolist()))):
        if start < end:
            yield share, ids[start:end].tobytes()


def _itself(share: int) -> int:
    return share


def rebuild_index(job: Job) -> RebuildReport:
    """Rebuilds the index of the topic in the argument `topic`. With `dry-run true`, only compares it.

    With `replace true`, an existing index is discarded. Where there is no checkpoint, `slot-s`, `lookahead-s` and so on
    give the topic's settings.
    """
    topic = job.required("topic")
    engine = OnSpark(spark=lambda: session_of(job), location=job.location)
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
