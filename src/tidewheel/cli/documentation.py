"""Defines the command `tidewheel docs`, which prints the pages that come with the package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from tidewheel.cli.output import print_table
from tidewheel.errors import InvalidValue
from tidewheel.shipped import DOCS, shipped

_STATE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)


def docs(
    page: Annotated[
        str, typer.Argument(help="A page such as runbook, or a section such as runbook#dead-letters.")
    ] = "",
) -> None:
    """Print a page of the documentation as Markdown. Without a name, list the pages."""
    folder = shipped(DOCS)
    pages = {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.md"))}
    name, _, section = page.removeprefix("docs/").partition("#")
    name = name.removesuffix(".md")
    if not page:
        print_table(["", ""], [(name, _title(path)) for name, path in pages.items()])
        return
    if name not in pages:
        raise InvalidValue("page", name, f"give one of: {', '.join(pages)}")
    text = pages[name].read_text(encoding="utf-8")
    typer.echo((section_of(text, section) if section else text).rstrip())


def section_of(text: str, anchor: str) -> str:
    """Returns a section of a Markdown text, with the sections within it.

    Args:
        text: the page.
        anchor: the heading as a link names the heading, `dead-letters` for "Dead letters".

    Raises:
        InvalidValue: the page has no such heading.
    """
    # A block of code has no headings. Blanks of the same length keep the positions.
    prose = _STATE.sub(lambda block: " " * len(block[0]), text)
    headings = list(_HEADING.finditer(prose))
    for number, heading in enumerate(headings):
        if anchor_of(heading[2]) == anchor:
            later = (each.start() for each in headings[number + 1 :] if len(each[1]) <= len(heading[1]))
            return text[heading.start() : next(later, len(text))]
    raise InvalidValue("section", anchor, f"give one of: {', '.join(anchor_of(each[2]) for each in headings)}")


def anchor_of(heading: str) -> str:
    """Returns the anchor of a heading, as in links."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
