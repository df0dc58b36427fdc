"""Merges ledgers on Spark, with one task per output and the code of the function.

A merge needs no shuffle. Sources are sorted and their segments have time spans, so a task reads only the segments that
overlap its output's window. Rows never pass through Java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pyspark.sql import SparkSession

from tidewheel.errors import CorruptLedger, ObjectMissing
from tidewheel.flows.upkeep.merge import Engine, Merged, merge
from tidewheel.flows.upkeep.merge_planning import Merge
from tidewheel.flows.upkeep.merge_rows import MergeWork, write_output
from tidewheel.jobs.job import MAX_JOB_S, Job
from tidewheel.jobs.location import Location
from tidewheel.ledger.bucket import Bucket
from tidewheel.spark.progress import watched


def on_spark(
    spark: Callable[[], SparkSession],
    location: Location,
    advance: Callable[[float, float], None] = lambda _done, _total: None,
) -> Engine:
    """Returns the engine that writes outputs side by side. A failed or repeated task leaves only orphans."""

    def write(work: MergeWork) -> Iterable[Bucket | None]:
        def task(i: int) -> _Outcome:
            try:
                return write_output(location.objects(), work, i), None
            except ObjectMissing as error:
                return None, (ObjectMissing, (error.object_name,))
            except CorruptLedger as error:
                return None, (CorruptLedger, (error.object_name, error.first_byte, error.last_byte, error.reason))

        context = spark().sparkContext
        with watched(context, work.outputs, advance):
            # Spark begins tasks in this order.
            order = work.merge.largest_first()
            outcomes = dict(zip(order, context.parallelize(order, work.outputs).map(task).collect(), strict=True))
        return _outputs([outcomes[i] for i in range(work.outputs)])

    return write


# Our exceptions do not survive pickling. Spark would also repeat a task whose source is damaged.
_Outcome = tuple[Bucket | None, tuple[type[Exception], tuple[object, ...]] | None]


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
    done_bytes = 0

    def progress(chosen: Merge) -> None:
        nonlocal done_bytes
        job.say(f"topic {topic}: merging {len(chosen.sources)} ledgers, about {chosen.live_bytes / 1e6:.1f} MB")
        done_bytes += chosen.live_bytes

    merged = merge(
        job.service,
        topic,
        on_spark(job.spark, job.location, job.advance),
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
