"""The console over the service in memory: an ASGI application for tests of one's own."""

from __future__ import annotations

import asyncio
from typing import Any

from tidewheel import console
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.local import MemoryTidewheel


def ask(application: Any, path: str) -> tuple[int, str]:
    """Asks an ASGI application, as a server does."""
    told: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    path, _, query = path.partition("?")
    scope = {
        **{"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": path, "root_path": ""},
        **{"raw_path": path.encode(), "query_string": query.encode(), "headers": [(b"host", b"any.example")]},
        **{"server": ("any.example", 80), "client": ("127.0.0.1", 1), "asgi": {"version": "3.0"}},
    }
    asyncio.run(application(scope, receive, send))
    body = b"".join(each.get("body", b"") for each in told if each["type"] == "http.response.body")
    return told[0]["status"], body.decode()


def test_a_program_serves_the_console_of_a_service_in_memory() -> None:
    with MemoryTidewheel(start="2026-01-01T00:00:00Z") as stack:
        tw: Tidewheel = stack.client()
        tw.create_topic("orders")
        tw.create_subscription("orders", "billing")
        sent = tw.send("orders", {"id": 17}, delay="3d")
        stack.advance(minutes=6)
        application = console.app(tw)
        for path, text in {
            "/": "orders",
            "/topics/orders": "billing",
            "/topics/orders/messages": sent.id,
            f"/topics/orders/messages/{sent.id}": "until then it can be cancelled".title()[:5],
            "/trouble": "Trouble",
            "/topics/orders/dead": "billing",
            "/cost": "Calculate",
        }.items():
            status, page = ask(application, path)
            assert status == 200, path
            assert text in page, path
        assert ask(application, "/nothing")[0] == 404
        assert "not counted here" in page
