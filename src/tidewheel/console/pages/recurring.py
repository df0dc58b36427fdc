"""The recurring messages of a topic, with their next times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request

if TYPE_CHECKING:
    from tidewheel.console.app import Console


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the rules."""
    topic = request.path_params["topic"]
    return "recurring.html", {"topic": topic, "found": console.reader.read(console.client.recurring, topic)}
