"""Writes derived tables into docs/, with `python -m infra.doc_tables [--check]`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from infra.kept_file import write_or_check
from tidewheel.cdk.alarms import anchor
from tidewheel.ledger.schema import COLUMNS
from tidewheel.telemetry.metrics import METRICS

DOCS = Path(__file__).resolve().parent.parent / "docs"


def page(name: str) -> str:
    """Returns a document with the derived table, which replaces the table with the same first line."""
    lines = TABLES[name]
    made = "".join(f"{line}\n" for line in lines)
    return re.sub(rf"^{re.escape(lines[0])}\n(?:\|.*\n)+", lambda _: made, _text(name), count=1, flags=re.MULTILINE)


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Returns the lines of a table in Markdown."""
    head, *others = (f"| {' | '.join(cells)} |" for cells in (headings, *rows))
    return [head, "|---" * len(headings) + "|", *others]


def main(arguments: list[str] | None = None) -> int:
    """Writes the documents, or compares them with the declarations. Returns the exit code."""
    module = "infra.doc_tables"
    return max(
        write_or_check(DOCS / name, partial(page, name), module=module, about=__doc__, arguments=arguments)
        for name in TABLES
    )


def _text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _columns() -> Iterable[tuple[str, ...]]:
    for each in COLUMNS:
        yield f"`{each.name}`", each.type.value + ", nullable" * each.nullable, each.holds


def _metrics() -> Iterable[tuple[str, ...]]:
    for each in METRICS:
        yield f"`{each.name}`", each.unit, each.meaning, _link(each.alarm)


def _link(title: str | None) -> str:
    return "" if title is None else f"[{title}](runbook.md#{anchor(title)})"


TABLES = {
    "ledger-format.md": table(("column", "type", "holds"), _columns()),
    "monitoring.md": table(("metric", "unit", "meaning", "alarm"), _metrics()),
}
"""Document -> the lines of its table."""


if __name__ == "__main__":
    sys.exit(main())
