"""The findings of `health`, with their remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request

if TYPE_CHECKING:
    from tidewheel.console.app import Console


def screen(console: Console, _: Request) -> tuple[str, dict[str, Any]]:
    """Reads the findings of `health`."""
    return "trouble.html", {"findings": console.reader.read(console.client.health)}
