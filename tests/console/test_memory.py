"""The console over the service in memory: an ASGI application for tests of one's own."""

from __future__ import annotations

from tests.console.asgi import ask
from tidewheel import console
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.local import MemoryTidewheel


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
            f"/topics/orders/messages/{sent.id}": "segment 1 of 1.",
            "/trouble": "Trouble",
            "/topics/orders/dead": "billing",
            "/cost": "Calculate",
        }.items():
            status, _, page = ask(application, path)
            assert status == 200, path
            assert text in page, path
        assert ask(application, "/nothing").status == 404
        assert "not counted here" in page
