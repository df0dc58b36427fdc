"""Merges the ledgers of one topic, of several or of all, with one task per output."""

from __future__ import annotations

from tidewheel.clock import pauses
from tidewheel.flows.maintenance.merge import Merged, merge_topics
from tidewheel.flows.maintenance.merge_outputs import SideBySide
from tidewheel.flows.maintenance.merge_planning import Merge
from tidewheel.jobs.job import Job

LEASE_S = 1_800
"""Longer than the longest task takes. The lease is renewed, and a run after a killed run waits for the end."""


def merge_buckets(job: Job) -> Merged | None:
    """Merges the topics in the argument `topic`, separated by commas; without the argument, all topics.

    With `all true`, merges all small ledgers, however few.

    Returns:
        The sums over all topics; None if one that was named could not be merged.

    Raises:
        Exception: the merges of a topic ended early. The other topics' did not.
    """
    given = list(dict.fromkeys(name for name in job.arguments.get("topic", "").split(",") if name))
    topics = given or job.service.topic_list.read()

    def progress(topic: str, chosen: Merge) -> None:
        job.say(f"topic {topic}: merging {len(chosen.sources)} ledgers, about {chosen.live_bytes / 1e6:.1f} MB")

    found = merge_topics(
        job.service,
        topics,
        SideBySide(tasks=job.tasks, objects=job.location.objects, advance=job.advance),
        lease_s=LEASE_S,
        everything=job.flag("all"),
        progress=progress,
        pause=pauses(job.service.clock),
    )
    for topic in topics:
        _tell(job, topic, found.get(topic), quietly=not given)
    for merged in found.values():
        if merged.error is not None:
            raise merged.error
    if not given and not any(merged.merges for merged in found.values()):
        job.say("no topic needs a merge")
    return _sum(found) if found.keys() >= set(given) else None


def _tell(job: Job, topic: str, merged: Merged | None, *, quietly: bool) -> None:
    """Reports a topic's merges.

    Args:
        quietly: leave out a topic without work.
    """
    if merged is None:
        gone = job.service.topic_states.read(topic) is None
        reason = "does not exist; correct the name" if gone else "has another merge under way; try again later"
        job.say(f"topic {topic!r} {reason}")
        return
    if merged.merges:
        job.say(
            f"topic {topic}: {merged.sources} ledgers became {merged.outputs} in {merged.merges} merges, "
            f"{merged.rows:,} messages rewritten"
        )
    elif not merged.skipped and not quietly:
        job.say(f"topic {topic}: it needs no merge")
    for error in merged.skipped:
        job.say(f"left as it is: {error}")
    if merged.error is not None:
        job.say(f"topic {topic}: ended early: {merged.error}")


def _sum(found: dict[str, Merged]) -> Merged:
    each = list(found.values())
    counts = ("merges", "sources", "outputs", "rows", "live_bytes", "refused")
    return Merged(
        **{name: sum(getattr(merged, name) for merged in each) for name in counts},
        written=set().union(*(merged.written for merged in each)),
        skipped=[error for merged in each for error in merged.skipped],
    )
