"""Merges ledgers, with one task per output and the code of the function.

A merge needs no shuffle. Sources are sorted and their segments have time spans, so a task reads only the segments that
overlap its output's window. Rows never pass through Java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidewheel.errors import CorruptLedger, ObjectMissing
from tidewheel.flows.upkeep.merge import Engine, Merged, merge
from tidewheel.flows.upkeep.merge_planning import Merge
from tidewheel.flows.upkeep.merge_rows import MergeWork, write_output
from tidewheel.jobs.job import MAX_JOB_S, Job
from tidewheel.jobs.location import Location
from tidewheel.jobs.tasks import Tasks
from tidewheel.ledger.bucket import Bucket


def side_by_side(
    tasks: Callable[[int], Tasks],
    location: Location,
    advance: Callable[[float, float], None] = lambda _done, _total: None,
) -> Engine:
    """Returns the engine that writes outputs side by side. A failed or repeated task leaves only orphans.

    Args:
        tasks: runs the tasks of a merge, given its raw bytes.
        location: the objects.
        advance: takes the finished and the total number of outputs.
    """

    def write(work: MergeWork) -> Iterable[Bucket | None]:
        raw_bytes = sum(segment.raw_bytes for source in work.merge.sources for segment in source.segments)
        order = work.merge.largest_first()
        outcomes: dict[int, _Outcome] = {}
        for place, outcome in tasks(raw_bytes).run(_Writing(location, work), order):
            outcomes[order[place]] = outcome
            advance(len(outcomes), len(order))
        return _outputs([outcomes[i] for i in range(work.outputs)])

    return write


# Our exceptions do not survive pickling. Spark would also repeat a task whose source is damaged.
_Outcome = tuple[Bucket | None, tuple[type[Exception], tuple[object, ...]] | None]


@dataclass(frozen=True, slots=True)
class _Writing:
    """Writes one output of a merge."""

    location: Location
    work: MergeWork

    def __call__(self, i: int) -> _Outcome:
        try:
            return write_output(self.location.objects(), self.work, i), None
        except ObjectMissing as error:
            return None, (ObjectMissing, (error.object_name,))
        except CorruptLedger as error:
            return None, (CorruptLedger, (error.object_name, error.first_byte, error.last_byte, error.reason))


def _outputs(outcomes: list[_Outcome]) -> Iterator[Bucket | None]:
    """Yields the written outputs, then raises the first failure, so that the caller can delete the outputs."""
    for output, _ in outcomes:
        yield output
    for _, failure in outcomes:
        if failure is not None:
            kind, arguments = failure
            raise kind(*arguments)


def merge_buckets(job: Job) -> Merged | None:
    """Merges the topic in the argument `topic`. With `all true`, merges all its small ledgers, however few.

    Returns:
        The report; None if there is no such topic, or another run is merging it.
    """
    topic = job.required("topic")

    def progress(chosen: Merge) -> None:
        job.say(f"topic {topic}: merging {len(chosen.sources)} ledgers, about {chosen.live_bytes / 1e6:.1f} MB")

    merged = merge(
        job.service,
        topic,
        side_by_side(job.tasks, job.location, job.advance),
        lease_s=MAX_JOB_S,
        everything=job.flag("all"),
        progress=progress,
    )
    if merged is None:
        gone = job.service.topic_states.read(topic) is None
        reason = "does not exist; correct the name" if gone else "has another merge under way; try again later"
        job.say(f"topic {topic!r} {reason}")
        return None
    job.say(
        f"topic {topic}: {merged.sources} ledgers became {merged.outputs} in {merged.merges} merges, "
        f"{merged.rows:,} messages rewritten"
    )
    for error in merged.skipped:
        job.say(f"left as it is: {error}")
    return merged
