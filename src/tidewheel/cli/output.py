"""Prints a table for people, or JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidewheel.model.untrusted import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_UNCUT = 1_000_000
"""The width, in characters, without a terminal: each row is one line, and nothing is cut."""
_NUMBER = re.compile(r"|-|\$?[\d,.]+(?: s)?")


def show(
    found: object, as_json: bool, columns: Sequence[str], rows: Sequence[Sequence[object]], nothing: str = ""
) -> None:
    """Prints a value as JSON, or rows as `print_table` does."""
    if as_json:
        print_json(found)
    else:
        print_table(columns, rows, nothing)


def print_json(value: object) -> None:
    """Prints JSON, with times as ISO 8601 text and dataclasses as objects."""
    sys.stdout.write(visible(json.dumps(value, ensure_ascii=not is_utf8(), default=_plain)) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], nothing: str = "") -> None:
    """Prints rows below the names of the columns. Prints `nothing` if there are no rows."""
    if not rows:
        sys.stdout.write(nothing + "\n")
        return
    console().print(table(columns, rows))


def console() -> Console:
    """Returns the console of standard output."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _UNCUT, highlight=False)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Returns a table. Columns of numbers are right-aligned and are never broken.

    Args:
        columns: names of the columns. Without names, the table has no header.
        rows: the cells of each row. A string is shown as is, without markup.
    """
    from rich.table import Table
    from rich.text import Text

    found = Table(box=None, pad_edge=False, show_header=any(columns), header_style="bold")
    texts = [[cell if isinstance(cell, Text) else Text(visible(_shown(cell))) for cell in row] for row in rows]
    for number, column in enumerate(columns):
        numbers = all(_NUMBER.fullmatch(row[number].plain) for row in texts)
        found.add_column(column, justify="right" if numbers else "left", overflow="fold", no_wrap=numbers)
    for row in texts:
        found.add_row(*row)
    return found


@contextmanager
def progress_bar(what: str) -> Iterator[tuple[Callable[[str], None], Callable[[float, float], None]]]:
    """Shows a bar on standard error, of a terminal only. Yields what prints a line, and what moves the bar."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def say(line: str) -> None:
            line = visible(line)
            if sys.stdout.isatty():
                progress.console.print(line, markup=False, highlight=False)
            else:
                sys.stdout.write(line + "\n")

        yield say, lambda done, total: progress.update(task, completed=done, total=total)


def is_utf8() -> bool:
    """Returns whether standard output shows all characters."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def print_error(message: str) -> None:
    """Prints one line to standard error."""
    sys.stderr.write("tidewheel: " + visible(" ".join(message.split())) + "\n")


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
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, Exception):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
