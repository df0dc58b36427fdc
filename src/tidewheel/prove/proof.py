"""Proves a stack: runs a trial, cleans up, reads what was counted, and judges."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from tidewheel import clock as clocks
from tidewheel.aws.service import watch_dates
from tidewheel.aws.tries import AWS_ERRORS
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import utc
from tidewheel.model.checked_clock import CheckedClock
from tidewheel.model.prices import dollars
from tidewheel.prove.model import own_units, starts, units_by_cloudwatch, units_by_model
from tidewheel.prove.trial import Trial

if TYPE_CHECKING:
    import boto3

BOUNDS = {"lost": 0, "early": 0, "copies_share": 0.001, "late_p99_s": 3, "healed_s": 360, "units_off": 0.15, "left": 0}
"""Result -> the most that holds. What never came breaks its bound. What is not available breaks none."""
NOT_AVAILABLE = "not available"
_MOST_LISTED = 1_000
_COUNTED_S = 90
"""How long CloudWatch needs for the units and the logs of the last minute."""


def prove(
    session: boto3.Session,
    stack: str,
    endpoint_url: str | None,
    *,
    where: str,
    units: Callable[[], Mapping[str, float]] = dict,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> dict[str, Any]:
    """Runs a trial on a stack, deletes its topics whatever happens, and returns the result as a JSON object.

    Args:
        session: boto3's session. Its later clients are watched.
        stack: the stack's name.
        endpoint_url: the URL of AWS. None: AWS's own.
        where: `aws`, `local` or `emulator`.
        units: returns the units that a local service counts.
        sleep: waits for some seconds.
        say: told what happens.
        options: of `Trial`.
    """
    clock, asked = CheckedClock(clocks.of(session)), Counter[str]()
    watch_dates(session.events, clock)
    name = "{0.service_model.service_name}.{0.name}".format
    session.events.register("before-call", lambda model, **_: asked.update([name(model)]))
    tw = Tidewheel(stack, session=session, endpoint_url=endpoint_url)
    trial, on_aws = Trial(tw=tw, clock=clock, sleep=sleep, say=say, **options), where == "aws"
    lambdas, left, alone = dict[str, Any](), list[str](), _is_alone(tw)
    not_read = [] if alone else ["units_off: other topics of the stack, also those being deleted, are counted, too"]
    try:
        trial.first()
        sleep(60 - trial.now_ms() / 1000 % 60 if on_aws else 0)  # CloudWatch counts by minutes
        asked.clear()
        before = Counter(units())
        trial.rest()
        counted, own = Counter(units()) - before, Counter(own_units(asked))
        model = units_by_model(trial)
    finally:
        left = trial.clean()
    if not trial.lost_slot:
        not_read.append("healed_s: no schedule could be deleted")
    if on_aws:
        say("waiting for CloudWatch")
        sleep(max(0, _COUNTED_S - (trial.now_ms() - trial.ended_ms) / 1000))
        try:
            counted = Counter(units_by_cloudwatch(tw.core.connection, trial))
            lambdas = starts(tw.core.connection, trial)
        except AWS_ERRORS as error:
            not_read.append(str(error))
    counted -= own  # they are no part of the model
    paid, expected = (sum(dollars(each, of[each]) for each in counted if each in model) for of in (counted, model))
    result = {"where": where, "stack": stack, "version": version("tidewheel"), **_result(trial)}
    result |= {"units": dict(counted) or NOT_AVAILABLE, "units_by_model": {each: round(n) for each, n in model.items()}}
    judged = bool(expected) and alone
    result |= {"units_off": abs(paid / expected - 1) if judged else NOT_AVAILABLE}
    result |= {"units_are": ("dearer" if paid > expected else "cheaper") if judged else NOT_AVAILABLE}
    result |= {"starts": lambdas or NOT_AVAILABLE, "not_read": not_read, "left": left}
    return result | {"broken": [each for each in BOUNDS if _breaks(each, result[each])]}


def _is_alone(tw: Tidewheel) -> bool:
    """Returns whether the stack has no topics, also none of those first listed that the sweep is still deleting."""
    storage = tw.core.connection.storage
    return not tw.topics() and not any(map(storage.deletions.read, storage.topic_list.read()[:_MOST_LISTED]))


def _result(trial: Trial) -> dict[str, Any]:
    late, sent = sorted(trial.late_ms), len(trial.due_ms)
    return {
        "began": utc(trial.created_ms).isoformat(),
        "took_s": (trial.now_ms() - trial.created_ms) / 1000,
        "first_delivery_s": trial.first_s,
        "sent": sent,
        "lost": len(trial.due_ms.keys() - trial.came.keys()),
        "early": sum(each < 0 for each in late),
        "copies_share": (sum(trial.came.values()) - len(trial.came)) / sent,
        "late_p50_s": late[len(late) // 2] / 1000 if late else None,
        "late_p99_s": late[len(late) * 99 // 100] / 1000 if late else None,
        "healed_s": trial.healed_s,
        "dates_differ_s": trial.clock.spread_ms / 1000,
    }


def _breaks(name: str, value: Any) -> bool:
    if isinstance(value, str):
        return False
    return value is None or (len(value) if isinstance(value, list) else value) > BOUNDS[name]


def page(result: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of a page of text. The first tells whether all bounds hold."""
    yield f"failed: {', '.join(result['broken'])}" if result["broken"] else "passed"
    for name, value in result.items():
        title, unit = name.removesuffix("_s").replace("_", " "), " s" if name.endswith("_s") else ""
        bound = f" (at most {BOUNDS[name]:g}{unit})" if name in BOUNDS else ""
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for number, (part, each) in enumerate(parts):
            shown = _shown(each) + unit * isinstance(each, int | float)
            yield f"{'' if number else title:18}{part:22}{shown}{bound}".rstrip()


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key.replace('_', ' ')} {_shown(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(value) or "nothing"
    return f"{value:,.4g}" if isinstance(value, float) else "none" if value is None else str(value)
