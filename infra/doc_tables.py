"""Writes the tables in docs/ that derive from declarations: `python -m infra.doc_tables [--check]`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from infra.kept_file import write_or_check
from tidewheel.cdk.alarms import anchor
from tidewheel.ledger.schema import COLUMNS
from tidewheel.telemetry.metrics import METRICS, Alarm

DOCS = Path(__file__).resolve().parent.parent / "docs"


def page(name: str) -> str:
    """Returns a document with its table as the declarations make it. The table is found by its first line."""
    head, *rows = TABLES[name]
    table = "".join(f"{line}\n" for line in (head, "|---" * head.count(" | ") + "|---|", *rows))
    return re.sub(rf"^{re.escape(head)}\n(?:\|.*\n)+", lambda _: table, _text(name), count=1, flags=re.MULTILINE)


def main(arguments: list[str] | None = None) -> int:
    """Writes the documents, or compares them with the declarations. Returns the exit code."""
    module = "infra.doc_tables"
    return max(
        write_or_check(DOCS / name, partial(page, name), module=module, about=__doc__, arguments=arguments)
        for name in TABLES
    )


def _text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _columns() -> Iterable[str]:
    yield _row("column", "type", "holds")
    for each in COLUMNS:
        yield _row(f"`{each.name}`", each.type.value + ", nullable" * each.nullable, each.holds)


def _metrics() -> Iterable[str]:
    yield _row("metric", "unit", "meaning", "emitted by", "alarm")
    for each in METRICS:
        yield _row(f"`{each.name}`", each.unit, each.meaning, ", ".join(each.emitters), _link(each.alarm))


def _link(alarm: Alarm | None) -> str:
    return "" if alarm is None else f"[{alarm.title}](runbook.md#{anchor(alarm.title)})"


TABLES = {"ledger-format.md": tuple(_columns()), "monitoring.md": tuple(_metrics())}
"""Document -> the lines of its table without the line below the head."""


if __name__ == "__main__":
    sys.exit(main())
