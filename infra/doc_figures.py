"""Writes derived figures into README.md and docs/, with `python -m infra.doc_figures [--check]`.

Each figure is found by the words around it. A page whose words changed is refused, with the words that are missing.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import shlex
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from typer.testing import CliRunner

from infra.doc_tables import DOCS
from infra.kept_file import write_or_check
from tidewheel.cli.main import app
from tidewheel.cost.bill import ENVIRONMENTS, Bill, bill
from tidewheel.cost.rivals import Rival, rivals
from tidewheel.cost.workload import Workload
from tidewheel.model.prices import ALARM_MONTH, DAYS_A_MONTH, dollars, free_dollars
from tidewheel.policies import queue_policy

README = "../README.md"
MODULE = "infra.doc_figures"
UNITS = {
    "bytes": 1,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "characters": 1,
    "s": 1,
    "hours": 3600,
    "days": 86_400,
}
"""What one of each unit of docs/limits.md is, in bytes, characters or seconds."""

KEYED = 0.3
"""Share of messages with a key, in README's figures."""
RATES = ((1_000, 1), (100_000, 1), (1_000_000, 100))
"""Messages a day, and how many are sent at a time, of README's table."""

Made = Callable[[re.Match[str]], str]


def page(name: str) -> str:
    """Returns a document with derived figures, by the path relative to docs/."""
    text = (DOCS / name).read_text(encoding="utf-8")
    for pattern, made in FIGURES[name]:
        text, found = re.subn(pattern, made, text, flags=re.MULTILINE)
        if not found:
            raise SystemExit(f"{name}: nothing is like {pattern!r}; correct the page, or the pattern in {MODULE}")
    return text


def main(arguments: list[str] | None = None) -> int:
    """Writes the documents, or compares them with the code. Returns the exit code."""
    return max(
        write_or_check((DOCS / name).resolve(), partial(page, name), module=MODULE, about=__doc__, arguments=arguments)
        for name in FIGURES
    )


def enforced(constant: str) -> float:
    """Returns the value of a constant by full name, in bytes or seconds if the constant has such a unit."""
    module, _, name = constant.rpartition(".")
    value: Any = getattr(importlib.import_module(module), name)
    if hasattr(value, "to_seconds"):
        return float(value.to_seconds())
    return value / 1000 if name.endswith("_MS") else float(value)


@cache
def _bill(per_day: float, batch: int, environment: str, keyed: float = 0) -> Bill:
    return bill(Workload(per_day=per_day, batch=batch, keyed=keyed), ENVIRONMENTS[environment])


def _month(per_day: float, batch: int, environment: str, keyed: float = 0) -> float:
    """Returns the total dollars of a month."""
    return _bill(per_day, batch, environment, keyed).total


def schedules_cheaper_below(batch: int, *, free: bool = False, keyed: float = KEYED) -> float:
    """Returns the messages a day below which a schedule a message costs less than Tidewheel.

    Args:
        batch: how many messages are sent at a time.
        free: whether free tiers pay their parts.
        keyed: share of messages with a key.
    """
    low, high = 1.0, 1e9
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        found = _bill(middle, batch, "development", keyed)
        ours, other = (each[free] for each in (_paid(found), _paid(rivals(found.workload)[0])))
        low, high = (middle, high) if other < ours else (low, middle)
    return low


def _rate(batch: int, *, free: bool = False) -> str:
    """Returns the messages a day below which a schedule a message is cheaper, to two digits."""
    return f"{int(float(f'{schedules_cheaper_below(batch, free=free):.2g}')):,}"


def _paid(found: Bill | Rival) -> tuple[float, float]:
    """Returns a month's dollars, without and with free tiers."""
    total = found.total if isinstance(found, Bill) else found.dollars
    return total, total - found.free


def _row(way: str, per_day: float, batch: int) -> tuple[float, float]:
    """Returns a month's dollars of a row of README's table, without and with free tiers."""
    if way == "SQS alone":
        sent = per_day * DAYS_A_MONTH / min(10, batch)
        return dollars("sqs.request", sent), dollars("sqs.request", sent) - free_dollars("sqs.request", sent)
    found = _bill(per_day, batch, "development", KEYED)
    return _paid(rivals(found.workload)[0] if way == "EventBridge Scheduler" else found)


def _beside(row: re.Match[str]) -> str:
    """Returns a row of README's table: without and with free tiers, at three rates."""
    cells = ""
    for per_day, batch in RATES:
        total, paid = _row(row["way"].strip("*"), per_day, batch)
        cells += f" ${total:,.2f} (${paid:,.2f}) |"
    return row["start"] + cells


def _output(block: re.Match[str]) -> str:
    """Returns a block of a page with the command's output."""
    result = CliRunner().invoke(app, shlex.split(block["command"]))
    if result.exit_code:
        raise SystemExit(f"tidewheel {block['command']}: {result.output}")
    shown = "\n".join(line.rstrip() for line in result.output.splitlines()).strip()
    return f"```text\n$ tidewheel {block['command']}\n\n{shown}\n```\n"


def _batch(row: re.Match[str]) -> str:
    """Returns a row of the table of batches, at a million messages a day."""
    batch = int(row["batch"].replace(",", ""))
    found = _bill(1e6, batch, "development")
    requests = found.a_million(found.requests) or 0.0
    return f"| {batch:,} | ${requests:.{2 if requests > 0.5 else 3}f} | ${_a_million('development', batch):.2f} |"


def _a_million(environment: str, batch: int = 100) -> float:
    return _month(1e6, batch, environment) / DAYS_A_MONTH


def _topics_month(topics: int) -> float:
    """Returns the dollars of a month of 100,000 messages a day, sent one by one to this many topics."""
    return bill(Workload(per_day=100_000, topics=topics, batch=1), ENVIRONMENTS["development"]).total


def _alarms_month() -> float:
    return ENVIRONMENTS["production"].alarms * ALARM_MONTH


def _alarms(_: re.Match[str]) -> str:
    return f"${_alarms_month():.2f}: {ENVIRONMENTS['production'].alarms} metrics at ${ALARM_MONTH:.2f}"


def _limit(row: re.Match[str]) -> str:
    """Returns a row of docs/limits.md with the constant's value, in the row's unit."""
    value = enforced(row["constant"]) / UNITS.get(row["unit"], 1)
    return f"{row['limit']}{value:,.{0 if value.is_integer() else 3}f}{row['rest']}"


def _queue_policy(text: re.Match[str]) -> str:
    """Returns docs/permissions.md with the policy of a queue."""
    roles = [f"arn:aws:iam::111122223333:role/tidewheel-{name}" for name in ("Deliver", "Dispatch", "Ingest")]
    policy = _json(queue_policy("arn:aws:sqs:eu-west-1:444455556666:legacy", role_arns=roles))
    return re.sub(r"(?s)(?<=^```json\n).*?(?=^```$)", lambda _: policy, text[0], flags=re.MULTILINE)


def _json(policy: object) -> str:
    """Returns a policy as JSON. A short list, or a condition of one value, is one line."""
    text = json.dumps(policy, indent=2) + "\n"
    flat = re.compile(r"[\[{][^\[\]{}]*[\]}]")
    return flat.sub(lambda part: _one_line(part[0]) if len(part[0]) < 100 else part[0], text)


def _one_line(text: str) -> str:
    return re.sub(r"(?<=[\[{]) | (?=[\]}])", "", " ".join(text.split()))


def _dollars(told: Callable[[], float]) -> Made:
    return lambda _: f"${told():.2f}"


FIGURES: dict[str, tuple[tuple[str, Made], ...]] = {
    README: (
        (
            r"^(?P<start>\| (?P<way>\*\*Tidewheel\*\*|SQS alone|EventBridge Scheduler) \|(?: [^|]+ \|){3})"
            r"(?: \$[\d,.]+ \(\$[\d,.]+\) \|){3}",
            _beside,
        ),
        (r"(?<=you send below )[\d,]+(?= messages a day in batches)", lambda _: _rate(100)),
        (r"(?<=a day in batches, or )[\d,]+", lambda _: _rate(1)),
        (r"(?<=free tiers below )[\d,]+", lambda _: _rate(100, free=True)),
        (r"(?<=free tiers below )(?P<batches>[\d,]+ and )[\d,]+", lambda row: row["batches"] + _rate(1, free=True)),
        (r"(?<=in 10,000 topics cost )\$[\d.]+\d", _dollars(lambda: _topics_month(10_000))),
        (r"(?<=in one topic )\$[\d.]+\d", _dollars(lambda: _topics_month(1))),
        (
            r"(?<=Production costs )\$[\d.]+\d",
            _dollars(lambda: _month(1e6, 100, "production") - _month(1e6, 100, "development")),
        ),
    ),
    "cost.md": (
        (r"```text\n\$ tidewheel (?P<command>cost .*)\n(?:.*\n)*?```\n", _output),
        (r"\| (?P<batch>[\d,]+) \| \$[\d.]+ \| \$[\d.]+ \|", _batch),
        (r"(?<=\(monitoring.md\) at )\$[\d.]+\d", _dollars(_alarms_month)),
        (
            r"(?<=costs )\$[\d.]+(?= a month more)",
            _dollars(lambda: _month(1e6, 100, "production") - _month(1e6, 100, "development")),
        ),
        (r"(?<=a month more, so )\$[\d.]+", _dollars(lambda: _a_million("production"))),
    ),
    "limits.md": (
        (r"^(?P<limit>\| [^|]+ \| )[\d,.]+(?P<rest>(?: (?P<unit>\w+))? \| `(?P<constant>tide[\w.]+)` \|)$", _limit),
    ),
    "monitoring.md": ((r"\$[\d.]+: \d+ metrics at \$[\d.]+(?=, in \d+ alarms)", _alarms),),
    "permissions.md": ((r"(?s)\A.*\Z", _queue_policy),),
}
"""Document, relative to docs/ -> its figures: the pattern that finds one, and what makes it."""


if __name__ == "__main__":
    sys.exit(main())
