"""The text of `docs/reliability.md`: tables and words around results."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.plots import image_name
from benchmarks.report_performance import wrapped
from benchmarks.results import Result

_HEAD = """# Reliability

This page is written by `python -m benchmarks.report` from the files in `benchmarks/results/`, and a test compares them.
Nothing ran on AWS. What AWS does when it fails is imitated: each way in which a call can fail is tried, and none is
known by experience. `make aws-smoke` tries the ordinary way in your own account.
"""
_SIMULATED = ("simulation", "[simulation](#simulation)")
_CRASHED = ("crash", "[death at every call](#death-at-every-call)")
_SOAKED = ("soak", "[soak](#soak)")
_PROMISES: Sequence[tuple[str, Sequence[tuple[str | None, str]]]] = (
    ("nothing accepted is lost, whatever crashes", (_SIMULATED, _CRASHED)),
    (
        "at least once; twice only after a failure",
        (_SIMULATED, ("simulation", "its calm runs, which allow no second copy"), _CRASHED),
    ),
    ("never early", (_SIMULATED, _CRASHED, _SOAKED)),
    ("cancelled means never delivered", (_SIMULATED,)),
    ("each guard of the protocol is needed, and works", (("mutants", "[guards](#guards)"),)),
    ("a stranger's input stops nobody else's messages", (("fuzz", "[hostile input](#hostile-input)"),)),
    ("nothing grows with time, and a backlog drains", (_SOAKED,)),
    ("what is deployed is what is tested", ((None, "[the artifact](#the-artifact), run as a test"),)),
    (
        "a lost table can be rebuilt from the ledgers",
        (
            ("simulation", "[simulation](#simulation), of an index that is given up"),
            (None, "[disaster recovery](disaster-recovery.md), run as a test"),
        ),
    ),
)
"""What is promised, and what shows it: the results that this needs (None: a test alone), and words."""
_SIMULATION = """## Simulation

The real flows run on in-memory twins of the AWS adapters; a suite of contract tests holds the twins and the adapters on
an emulated AWS to the same behaviour. One seed decides everything. Several functions, clients and administrators are
under way at once, and who moves next is chosen anew at every call of a port. A call may fail before or after it took
effect, a function may die at it; triggers come late, twice or never; clocks differ by as much as the service's skew
allows. Packs come back from dead letters after weeks, the table's TTL deletes late and in any order, and in some runs a
topic is rebuilt from its ledgers while others send, cancel, merge and dispatch. In the end everything is healed, and an
oracle that knows what each client was told checks what came to whom.

Three kinds of runs: *calm* (nothing fails; every message must come exactly once), *late* (triggers misbehave, functions
are killed) and *faults* (calls fail as well).
"""
_AGAIN = """A run that breaks a promise prints the calls that led there and the command that repeats it byte for byte.
`make test` does a few hundred runs; `make simulate SEEDS=5000` does as many as you like.
"""
_MODEL = """Before the code there was a model: `tests/simulation/protocol_model.py` is the protocol alone, as a
program that explores interleavings and crashes. Each of its guards is taken away in turn, and the exploration notices
each time; both are in `make test`.
"""
_GUARDS = """## Guards

A guard is a condition of a write, or an order of reads, without which something is lost, doubled or early. Each is
taken away by itself, and small worlds (a few messages about one slot's boundary, two or three functions at once) are
explored, schedule by schedule, until a promise is broken. With all guards in force the same schedules break none.
"""
_TWIN = """\
Guards in `tidewheel.flows` are in the code that is deployed. Those in `tidewheel.memory` are in the in-memory twin of
the table, which stands in these worlds for `tidewheel.aws`, where the same guard is a condition of a write to DynamoDB.
Two things tie them. The contract suites (`tests/contract`) run over both: over the twin, and over DynamoDB on moto. And
`tests/simulation/test_mutants_and_contracts.py` takes each condition of the twin away and runs the suites: each time, a
test fails. That test passes over DynamoDB, so the condition is in force there, too. What stays unproven is that moto
judges conditions as DynamoDB does.
"""
_CRASH = """## Death at every call

On an emulated AWS, through the real template, handlers and clients: each flow is run once to count its AWS calls, then
again for each of them, and dies there, before the call took effect and after it. AWS then repeats what it would repeat,
a user repeats a call that raised, and time passes. Everything must arrive at every subscription, none early, and
nothing be left behind. A second copy is allowed only where what died had handed messages to a queue already.

*Latest* is the worst lateness of any message in any of these runs; *bound* is what the repeating side allows, such as a
queue's visibility time-out.
"""
_FUZZ = """## Hostile input

Every decoder is given arbitrary bytes and JSON, and valid values that were damaged: bits flipped, cut short, fields
dropped, of another type, doubled, huge. It must return a valid value or raise one of the project's own errors. Handlers
get batches with one hostile record: the others must arrive, and the hostile one must end in the dead-letter queue.

All that is stored is damaged too, in processes that may die: as it is, and with the checksum right again. No damage may
end a process or go unnoticed. Only the service's own functions write ledgers: nobody else can make one that lies with a
right checksum. How often Arrow ends a process then is counted apart.
"""
_ARTIFACT = """## The artifact

`tests/artifact` builds the functions' archives, unpacks them and runs each function in a process of its own: Python
3.13, the runtime client of AWS Lambda, and nothing of the source tree. Handlers, memory, time-outs, variables and
event sources are those of the synthesized template. Real messages are cancelled, replaced, filtered, paused, merged,
redriven and repeated for two days of moved time; schedules get lost; bodies are larger than SQS takes. Each copy must
come once, not early and in time, each function must stay below its memory, and no call may fail. The same runs with
two releases at work on one topic, of which the newer writes more fields. Faults that are planted in copies of the
archives must be noticed. DynamoDB, S3 and SQS are moto's server there, and other programs in `make test-independent`.
"""
_INDEPENDENT = """## Independent parts

moto was changed for these tests, so they could share its errors. `make test-independent` runs the same contract
suites and archives on DynamoDB Local, ElasticMQ and versitygw, and moto cannot be imported there. What that showed:
the adapters and the archives do on them as on moto, with no message lost, early or doubled. One test had moto's view
instead of AWS's: a transaction whose answer was lost succeeds when it is repeated with its token. Sixteen threads
race on one topic's state there while answers get lost and transactions conflict; then nothing may be lost, doubled
beyond the calls that failed, delivered after it was cancelled, or early, and no mark may have gone back. Where the
parts are not AWS is listed in `tests/independent/differences.py`.
"""
_SOAK = """## Soak

The real flows and functions' settings on in-memory adapters, in virtual time. A scenario checks some thirty figures
against what was computed beforehand or against a bound: copies, lateness, memory, backlog, jobs, batches, requests;
`python -m benchmarks.soak --verbose` prints each.
"""
_LATE = {
    "backlog": (
        "In *backlog* ingest rests for hours while packs wait in its queue. {overdue_copies:,} copies were due before "
        "ingest began again, and come at once then: those are the late ones."
    ),
    "fan_out": (
        "In *fan_out* one queue refuses everything for hours and one subscription is paused; their copies come when "
        "the queue is repaired and the subscription resumed, as promised, and those are the late ones. The latest "
        "copy of any other subscription was {others_late_most_ms:,} ms late."
    ),
    "outage": ("In *outage* nothing is dispatched for hours: what was due meanwhile comes when the sweep is back."),
}
"""By scenario: why hours of lateness are no broken promise there."""
_COUNTS = {
    "messages": "messages",
    "copies": "copies",
    "plans": "plans",
    "part_jobs": "jobs of parts",
    "part_jobs_twice": "enqueued twice",
}
_DURATIONS = {"late_p99_ms": "p99 late", "late_most_ms": "latest"}
_GROWTH = {
    "rss_bytes_growth": "the process's memory",
    "python_blocks_growth": "Python's objects",
    "objects_growth": "objects in S3",
    "buckets_growth": "buckets",
    "waiting_growth": "messages that wait",
}
"""What *steady* compares: the mean of its last quarter divided by that of its second, 1 if it does not grow."""
_FAULTY = "faulty"
_ARGUMENTS = re.compile(r"(?<=[A-Za-z])\(.*\)$", re.DOTALL)
"""Those of an exception that ends a sentence."""
_KINDS = {
    "client": "clients and administrators did, and were told",
    "refused": "refused to them",
    "unanswered": "of their calls, never answered",
    "contended": "of their calls, given up as contended",
    "trigger": "triggers",
    "fault": "faults",
}
"""Kinds of counts whose name says too little; the others are the names of flows."""


def document(results: Mapping[str, Result]) -> str:
    """Returns the whole page.

    Args:
        results: all that there are, by name; what is missing is named as such.
    """
    parts = [_HEAD, _promises(results)]
    parts += [section(results[name]) for name, section in _SECTIONS.items() if name in results]
    parts += [_ARTIFACT, _INDEPENDENT]
    missing = [name for name in _SECTIONS if name not in results]
    if missing:
        parts.append(f"Not run yet: {', '.join(missing)}.\n")
    return "\n".join(parts)


def _promises(results: Mapping[str, Result]) -> str:
    """Returns the table of promises; what was not run shows nothing, and a promise that nothing shows is left out."""
    lines = ["| promise | what shows it |", "|---|---|"]
    for promise, evidence in _PROMISES:
        there = [words for name, words in evidence if name is None or name in results]
        if there:
            lines.append(f"| {promise} | {', '.join(there)} |")
    return "\n".join(lines) + "\n"


def _origin(result: Result) -> str:
    return f"`{result.command}`, {result.date}, {result.machine['cores']} cores."


def _rows(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table; a column of numbers is aligned to the right."""
    held = [list(row) for row in rows]
    right = [all(isinstance(row[column], int | float) for row in held) for column in range(len(heads))]
    lines = [f"| {' | '.join(heads)} |", "|" + "".join("---:|" if each else "---|" for each in right)]
    lines += [f"| {' | '.join(_cell(value) for value in row)} |" for row in held]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|").replace("\n", " ")


def _simulation(result: Result) -> str:
    figures: Mapping[str, Any] = result.figures
    total = sum(figures["runs"].values())
    modes = ", ".join(f"{count:,} {mode}" for mode, count in figures["runs"].items())
    verdict = "None broke a promise." if not figures["failed"] else f"**{figures['failed']} broke a promise:**"
    said = [
        f"{total:,} runs ({modes}), {figures['calls']:,} calls of ports, {figures['calls_per_s']:,} calls a second, "
        f"{figures['runs_per_min']:,} runs a minute. {verdict}",
        *(f"- seed {each['seed']}, {each['mode']}: {each['violation']}" for each in figures["failures"]),
    ]
    happened = _rows(("in these runs", "and how often"), _happened(figures["exercised"]))
    return "\n".join([_SIMULATION, _origin(result), "", *said, "", happened, "", _AGAIN, _MODEL])


def _happened(exercised: Mapping[str, int]) -> Iterable[Sequence[str]]:
    """Returns a row for each kind of what happened, such as what triggers did, the most frequent first in each."""
    kinds: dict[str, list[tuple[str, int]]] = {}
    for what, count in exercised.items():
        kind, _, which = what.partition(": ")
        if which:
            kinds.setdefault(kind, []).append((which.replace("_", " "), count))
    calls = kinds.pop(_FAULTY, [])
    for kind, said in _KINDS.items():
        counts = sorted(kinds.pop(kind, []), key=lambda each: -each[1])
        if counts:
            yield said, ", ".join(f"{which} {count:,}" for which, count in counts)
    for kind, counts in kinds.items():
        yield kind, ", ".join(f"{which} {count:,}" for which, count in counts)
    if calls:
        yield "calls that failed", f"{len(calls)} different ones, {sum(count for _, count in calls):,} in all"


def _guards(result: Result) -> str:
    figures: Mapping[str, Any] = result.figures
    said = (
        f"Of {figures['guards']} guards, each taken away by itself, {figures['caught']} were noticed. With all of "
        f"them, {figures['schedules_with_all_guards']:,} schedules of {figures['worlds']} worlds keep every promise."
    )
    rooms = Counter(".".join(each["place"].split(".")[:2]) for each in figures["mutants"])
    split = "Where they are: " + ", ".join(f"{count} in `{room}`" for room, count in rooms.most_common()) + "."
    rows = [
        (each["guard"], f"`{each['place']}`", each["schedules"], _broken(each["violation"]))
        for each in figures["mutants"]
    ]
    heads = ("guard", "where", "schedules until it is noticed", "what is broken without it, for example")
    return "\n".join([_GUARDS, _origin(result), "", said, "", split, "", _TWIN, _rows(heads, rows), ""])


def _broken(violation: str | None) -> str:
    """Returns what broke in few words: an exception by its name alone, long lists cut."""
    if violation is None:
        return "**nothing**"
    return textwrap.shorten(_ARGUMENTS.sub("", violation), 90, placeholder=" ...")


def _crash(result: Result) -> str:
    figures: Mapping[str, Any] = result.figures
    said = f"{figures['flows']} flows, {figures['deaths']:,} deaths, {figures['repeats']:,} repeats and refusals. " + (
        "Everything arrived." if not figures["problems"] else f"**{figures['problems']} problems.**"
    )
    rows = [
        [each[name] for name in ("flow", "calls", "deaths", "repeats", "latest_s", "bound_s", "most_copies", "because")]
        for each in figures["stories"]
    ]
    heads = ("flow", "AWS calls", "deaths", "repeats", "latest, s", "bound, s", "most copies", "because")
    return "\n".join([_CRASH, _origin(result), "", said, "", _rows(heads, rows), ""])


def _fuzz(result: Result) -> str:
    figures: Mapping[str, Any] = result.figures
    rows = [(name, each["inputs"], each["refused"], each.get("deaths", 0)) for name, each in figures.items()]
    total, deaths = sum(row[1] for row in rows), sum(row[3] for row in rows)
    said = f"{total:,} inputs of {len(rows)} decoders; {deaths} ended a process, all others were decoded or refused."
    heads = ("decoder", "inputs", "refused", "deaths")
    return "\n".join([_FUZZ, _origin(result), "", said, "", _rows(heads, rows), ""])


def _soak(result: Result) -> str:
    figures: Mapping[str, Any] = result.figures
    rows = [
        (
            name,
            *(run[column] for column in _COUNTS),
            *(_duration(run[column]) for column in _DURATIONS),
            f"{run['promises_kept']} of {run['promises_kept'] + len(run['promises_broken'])}",
        )
        for name, run in figures.items()
    ]
    table = _rows(("scenario", *_COUNTS.values(), *_DURATIONS.values(), "checks passed"), rows)
    broken = [f"- **{name}: {each}**" for name, run in figures.items() for each in run["promises_broken"]]
    said = [_LATE[name].format(**figures[name]) for name in _LATE if name in figures]
    if "steady" in figures:
        grown = ", ".join(f"{what} {figures['steady'][name]:.2f}" for name, what in _GROWTH.items())
        said.append(f"Means of the last quarter of *steady* divided by those of its second: {grown}.")
    plot = f"![What a service keeps over virtual weeks](images/{image_name('soak')})"
    paragraphs = [wrapped(each) + "\n" for each in said]
    return "\n".join([_SOAK, _origin(result), "", table, "", *broken, *paragraphs, plot, ""])


def _duration(late_ms: int) -> str:
    """Returns a lateness in the unit that suits it."""
    if late_ms < 60_000:
        return f"{late_ms / 1000:.2f} s"
    return f"{late_ms / 60_000:.0f} min" if late_ms < 2 * 3_600_000 else f"{late_ms / 3_600_000:.1f} h"


_SECTIONS: Mapping[str, Callable[[Result], str]] = {
    "simulation": _simulation,
    "mutants": _guards,
    "crash": _crash,
    "fuzz": _fuzz,
    "soak": _soak,
}
"""By the name of the results, in the order of the page."""
