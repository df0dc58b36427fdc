"""The verdict on a finished story. All messages must come in time, none early, and nothing may be left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.sqs.models import sqs_backends

from tests.conftest import PROMISE_MS
from tests.crash.death import FunctionDied, Point, When
from tests.crash.world import Promise, World
from tidewheel.errors import PartLeased
from tidewheel.local.emulator import REGION
from tidewheel.local.pump import Failure, PartialFailure
from tidewheel.model.claim import CANCELLED_KEPT_S
from tidewheel.storage import layout

_KEPT_ITEMS = ("STATE", "SUB#", "RECUR#")
"""What a topic at rest has, beside what time takes away: tombstones and keys."""
_LONGEST_EXPIRING_MS = 30 * 86_400_000
"""How long after the last message is due a tombstone or key may stay: 28 days, and room for retries."""
_KEPT_PARTITIONS = ("SERVICE",)
_EXPIRING_PARTITIONS = {
    "#TOMB": _LONGEST_EXPIRING_MS,
    "#KEY#": _LONGEST_EXPIRING_MS,
    "#MOVE": _LONGEST_EXPIRING_MS,
    "#NOTE": _LONGEST_EXPIRING_MS,
    "#CLAIM#": CANCELLED_KEPT_S * 1000 + 86_400_000,
}
_KEPT_OBJECTS = ("checkpoints/",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a run.

    Attributes:
        point: what happened in it; None: nothing did.
        problems: what does not hold, as sentences; none if all is well.
        late_ms: of the message that came latest after it was due.
        copies: of the message of which most came.
    """

    point: Point | None
    problems: tuple[str, ...]
    late_ms: int = 0
    copies: int = 0


def settle(world: World, cleaned_after_days: tuple[float, ...]) -> None:
    """Lets time pass until all messages are due and gone, with a sweep on some days."""
    begin_ms = max(world.last_due_ms, world.now_ms)
    world.advance(milliseconds=begin_ms - world.now_ms, hours=3)
    world.receive()
    for days in cleaned_after_days:
        world.advance(milliseconds=max(0.0, begin_ms + days * 86_400_000 - world.now_ms))
        world.sweep()
    world.receive()


def judge(world: World, point: Point | None, late_s: float, late_anyway_s: float) -> Verdict:
    """Returns the violated promises of a settled world.

    Args:
        point: what happened in it.
        late_s: how late a message may come after a death, beyond what is promised without one.
        late_anyway_s: likewise when nothing happened.
    """
    disturbed = point is not None or world.watch.deaths > 0
    hung = point is not None and point.when is When.HANGS  # what gets no answer says so in its own words
    counts = Counter((each.subscription, each.body) for each in world.arrivals)
    late_ms = _first_late_ms(world)
    allowed_ms = PROMISE_MS + round((late_s if disturbed else late_anyway_s) * 1000)
    problems = [
        *_lost_or_odd(world, counts, spare=world.watch.unmarked),
        *(f"early by {each.early_ms} ms: {each}" for each in world.arrivals if each.early_ms > 0),
        *(f"late by {ms} ms: {key}" for key, ms in late_ms.items() if ms > allowed_ms),
        *world.watch.overran,
        *_left_behind(world),
        *(() if hung else _unexplained(world.stack.failures, world.watch.job_errors, died=disturbed)),
    ]
    return Verdict(
        point=point,
        problems=tuple(problems),
        late_ms=max(late_ms.values(), default=0),
        copies=max(counts.values(), default=0),
    )


def _first_late_ms(world: World) -> dict[tuple[str, str], int]:
    first: dict[tuple[str, str], int] = {}
    for each in world.arrivals:
        key = each.subscription, each.body
        first[key] = min(each.late_ms, first.get(key, each.late_ms))
    return first


def _lost_or_odd(world: World, counts: Counter[tuple[str, str]], spare: int) -> Iterator[str]:
    """Compares received with promised messages. Allows `spare` copies of deaths between hand-over and mark."""
    known = set()
    for body, promises in world.promises.items():
        for name, promise in promises.items():
            known.add((name, body))
            count, due = counts[name, body], world.copies[name, body]
            if promise is Promise.COMES and count < due:
                yield f"lost: {body!r} came {count} of {due} times to {name}"
            if promise is Promise.NEVER and count:
                yield f"came although it must not: {body!r} to {name}"
            if count > due + spare:
                yield f"too many copies: {body!r} came {count} times to {name}, {due} of them as asked"
    yield from (f"nobody knows of {key}" for key in counts.keys() - known)


def _left_behind(world: World) -> Iterator[str]:
    dynamodb = world.aws("dynamodb")
    [table] = dynamodb.list_tables()["TableNames"]
    for page in dynamodb.get_paginator("scan").paginate(TableName=table):
        for item in page["Items"]:
            pk, sk = item["pk"]["S"], item["sk"]["S"]
            if not _may_stay(world, pk, sk, item):
                yield f"item left behind: {pk} / {sk}"
    pages = world.aws("s3").get_paginator("list_objects_v2").paginate(Bucket=world.bucket_name())
    names = [each["Key"] for page in pages for each in page.get("Contents", [])]
    for name in names:
        if not name.startswith(_KEPT_OBJECTS) or name.split("/")[1] in world.deleted:
            yield f"object left behind: {name}"
    if world.stack._emulator.schedules.next_due() is not None:
        yield "a schedule waits although nothing does"
    theirs = {world.queue_url(name).rpartition("/")[2] for name in world.subscriptions}
    # A sweep has no retries: the record of its failed call stays for the operator, as deployed.
    failed_sweeps = sum(failure.function == "sweep" for failure in world.stack.failures)
    for name, queue in sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues.items():
        left = len(queue.memory.everything) - ("ScheduleDeadLetters" in name) * failed_sweeps
        if name not in theirs and left > 0:
            yield f"{left} messages left in {name}"


def _may_stay(world: World, pk: str, sk: str, item: Mapping[str, Any]) -> bool:
    """Whether an item may stay, either of a topic at rest or with an early enough expiry by the table's TTL."""
    if pk in _KEPT_PARTITIONS:
        return True
    if pk == layout.LISTED:
        return sk not in world.deleted
    if pk.split("#")[1] in world.deleted and not pk.endswith("#NOTE"):  # the note of when it was deleted
        return False
    for mark, longest_ms in _EXPIRING_PARTITIONS.items():
        if mark in pk:
            ttl_s = int(item.get(layout.TTL_ATTRIBUTE, {"N": "0"})["N"])
            return 0 < ttl_s <= (world.last_due_ms + longest_ms) // 1000
    if sk == layout.MERGE:
        return int(item.get("until_ms", {"N": "0"})["N"]) <= world.now_ms
    return sk.startswith(_KEPT_ITEMS)


def _unexplained(failures: list[Failure], job_errors: list[Exception], *, died: bool) -> Iterator[str]:
    """Yields the unexplained failures. A function may only die on purpose, or find the lease of a dead function."""
    odd = [error for error in job_errors if not isinstance(error, PartLeased)]
    yield from (f"a job of the work queue failed: {error!r}" for error in odd)
    for failure in failures:
        reported = isinstance(failure.error, PartialFailure) and failure.function == "deliver"
        leased = reported and bool(job_errors) and not odd
        if not (died and (leased or isinstance(failure.error, FunctionDied))):
            yield f"{failure.function} failed: {failure.error!r}"
