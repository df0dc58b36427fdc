"""Prints a table for people, or JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

WIDE = 200
"""The width, in characters, without a terminal. No id is broken."""


def print_json(value: object) -> None:
    """Prints JSON, with times as ISO 8601 text."""
    sys.stdout.write(json.dumps(value, ensure_ascii=not is_utf8(), default=_plain) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], nothing: str) -> None:
    """Prints rows below the names of the columns. Prints `nothing` if there are no rows."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        sys.stdout.write(nothing + "\n")
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_shown(cell)) for cell in row))  # Text: a body's [brackets] are no markup
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)


def is_utf8() -> bool:
    """Returns whether standard output shows all characters."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def print_error(message: str) -> None:
    """Prints one line to standard error."""
    sys.stderr.write("tidewheel: " + " ".join(message.split()) + "\n")


def _shown(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, datetime):
        return cell.isoformat(timespec="milliseconds" if cell.microsecond else "seconds")
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}"
    return str(cell)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")
