"""The flows of `hold_model`, which are ingest, the worker of held jobs, and drains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from tests.simulation.few_deviations import Step, Violation
from tests.simulation.hold_model import FailedCall, Job, World

UNKNOWN_WAIT, HOLD = 1, 2
"""Hours of the model that packs and jobs wait for an unknown topic, and jobs for the table."""
COPIES = 1
"""What a flow yields where a death may make a copy."""


class TopicAway(FailedCall):
    """There is no such topic now."""


@dataclass(kw_only=True)
class Try:
    """One try of the pack.

    Attributes:
        retried: whether an earlier try may have sent rows.
        known: rows that the pack's note names.
        served: rows that this try has sent, parked or held.
        whole: these rows when the last sending was complete.
        excused: whether a note that the table refuses excuses a copy.
        waits: the row that waits for its key, if it does.
    """

    retried: bool
    known: set[str]
    served: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    excused: bool
    waits: str = ""


def ingest(w: World) -> Step:
    """Tries the pack once."""
    if w.acknowledged or w.taken:
        return
    w.taken = True
    w.receives += 1
    retried = w.receives > 1
    t = Try(retried=retried, known=set(w.noted) if retried else set(), excused=not retried)
    try:
        yield None
        if "topic" not in w.down:
            yield from _ingest(w, t)
            if t.waits and w.guard("waits_alone"):
                return
        elif not w.guard("pack_waits") or w.hour >= UNKNOWN_WAIT + (w.away_hour if w.guard("away_counts") else 0):
            _check_away(w)
            w.refused |= {"dA", "dB", "lA", "lB", "wA", "wB"} - (w.noted if w.guard("refuse_rest") else set())
        else:
            return
        w.acknowledged = True
    except FailedCall:
        done = t.served if w.guard("shares_noted") else t.whole
        try:
            if done - w.noted and w.guard("note_on_failure"):
                w.call("table", lambda: w.noted.update(done))
        except FailedCall:
            w.excuses += t.excused and "table" in w.down
    finally:
        w.taken = False


def _check_away(w: World) -> None:
    if w.hour < w.away_hour + UNKNOWN_WAIT:
        raise Violation("rows are refused although their topic was away for a moment")


def _ingest(w: World, t: Try) -> Step:
    if not w.settled and w.guard("keys_first"):
        w.call("table", lambda: setattr(w, "settled", True))
        yield None
    if "wA" not in t.known:
        yield from _settle_w(w, t)
    while True:
        sealed = w.sealed
        yield COPIES if t.served and not t.retried else None
        if w.guard("sends_first"):
            yield from _send_direct(w, t, "dklw" if sealed else "dk")
        rows = "".join(row for row in "lw" if row != t.waits and row + "A" not in t.known | t.served)
        if sealed or not rows:
            break
        w.call("s3")
        yield None if t.retried else COPIES
        w.call("table", partial(_commit, w, rows))
        if rows in w.ledgers:
            yield COPIES
            break
    if not w.guard("sends_first"):
        yield from _send_direct(w, t, "dklw" if sealed else "dk")
    w.settled = True
    if t.waits and w.guard("rest_noted"):
        try:
            w.call("table", lambda: w.noted.update(row + name for name in "AB" for row in "dkl"))
        except FailedCall:
            w.excuses += t.excused and "table" in w.down
        yield None


def _settle_w(w: World, t: Try) -> Step:
    """Settles the key of row w, or lets the row wait."""
    try:
        w.call("key")
    except FailedCall:
        t.waits = "w"
    yield None
    if t.waits:
        w.call("table", lambda: setattr(t, "excused", True))
        yield None


def _commit(w: World, rows: str) -> None:
    if not w.sealed:
        w.ledgers.add(rows)


def _send_direct(w: World, t: Try, rows: str) -> Step:
    """Sends rows to each subscription, or parks or holds the rows."""
    wanted = (
        {row + name for name in "AB" for row in rows if row != t.waits and (row != "k" or not w.settled)}
        - t.known
        - t.served
    )
    if not wanted:
        return
    if t.retried and w.guard("note_before"):
        w.call("table", lambda: setattr(t, "excused", True))
        yield None
    shares = {name: "".join(sorted(pair[0] for pair in wanted if pair[1] == name)) for name in "AB"}
    failure = None
    for name, share in shares.items():
        for needs, effect in _places(w, name, share):
            try:
                w.call(needs, effect)
            except FailedCall as error:
                failure = error if needs == "work" else failure
                yield COPIES
            else:
                t.served |= {row + name for row in share}
                yield COPIES
                break
    if failure is not None:
        raise failure
    t.whole |= t.served
    if t.retried and w.guard("note_after"):
        w.call("table", lambda: w.noted.update(t.whole))
    yield None if t.retried else COPIES


def _places(w: World, name: str, share: str) -> list[tuple[str, Callable[[], object]]]:
    """Returns the places for rows in their order, each with the needs of its call and its effect."""
    job = Job(subscription=name, rows=share, since=w.hour, first=w.hour)
    return [
        (name, lambda: w.send(name, share)),
        ("s3 table", lambda: w.parks.add((name, share))),
        ("work", lambda: w.jobs.append(job)),
    ]


def work(w: World) -> Step:
    """Tries a job once."""
    job = next((each for each in w.jobs if not each.taken), None)
    if job is None:
        return
    w.overlap |= any(each.taken and each.named() == job.named() for each in w.jobs)
    job.taken = True
    try:
        yield None
        yield from _park_held(w, job)
        if job in w.jobs:
            w.jobs.remove(job)
        w.last = job
    except FailedCall:
        pass
    finally:
        job.taken = False


def _park_held(w: World, job: Job) -> Step:
    note = job.named(subscription=w.guard("job_note_named"))
    if w.guard("note_first") and note in w.job_notes:
        return
    yield None
    try:
        if "topic" in w.down:
            if not w.guard("job_waits"):
                return
            raise TopicAway
        yield None
        if note in w.job_notes and not w.guard("note_first"):
            return
        yield None
        if w.guard("note_with_park"):
            w.call("s3 table", lambda: _park(w, job, note))
            return
        w.call("s3 table", lambda: w.parks.add((job.subscription, job.rows)))
        yield COPIES
        w.call("table", lambda: w.job_notes.add(note))
    except FailedCall as error:
        away = isinstance(error, TopicAway)
        since = max(job.since, w.away_hour) if away and w.guard("away_counts") else job.since
        if w.hour >= since + (UNKNOWN_WAIT if away else HOLD):
            _refuse(w, job, away=away)
            yield COPIES
            return
        if not away and w.hour >= job.first + HOLD:
            raise Violation("a job is held after its time") from None
        if not w.guard("enqueue_first"):
            w.jobs.remove(job)
            yield None
        again = replace(job, taken=False, since=job.since if w.guard("since_kept") else w.hour)
        w.call("work", lambda: w.jobs.append(again))
        yield COPIES


def _park(w: World, job: Job, note: str) -> None:
    if note not in w.job_notes:
        w.parks.add((job.subscription, job.rows))
    if w.guard("job_note"):
        w.job_notes.add(note)


def _refuse(w: World, job: Job, *, away: bool) -> None:
    if away:
        _check_away(w)
    w.overlap |= any(each is not job and each.named() == job.named() for each in w.jobs)
    w.refused |= {row + job.subscription for row in job.rows}
    job.refused = True


def drain(w: World) -> Step:
    """Sends the parked rows to the working queues."""
    for name, rows in sorted(w.parks):
        if (name, rows) in w.parks and w.down.isdisjoint({name, "table", "topic"}):
            w.parks.remove((name, rows))
            w.send(name, rows)
        yield None
