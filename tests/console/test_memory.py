"""The console over the service in memory: an ASGI application for tests of one's own."""

from __future__ import annotations

from datetime import timedelta

from tests.console.asgi import ask
from tidewheel import console
from tidewheel.local import MemoryTidewheel


def test_a_program_serves_the_console_of_a_service_in_memory_and_lists_messages_from_a_time_on() -> None:
    with MemoryTidewheel(start="2026-01-01T00:00:00Z") as stack:
        tw = stack.client()
        tw.create_topic("orders")
        tw.create_subscription("orders", "billing")
        midnight = stack.now() + timedelta(days=1)
        ids = [tw.send("orders", "x", deliver_at=midnight + timedelta(milliseconds=ms)).id for ms in (-1, 0, 1)]
        stack.advance(minutes=6)
        application = console.app(tw)
        page = ask(application, f"/topics/orders/messages?from={midnight:%Y-%m-%dT%H:%M:%SZ}").text
        assert [each in page for each in ids] == [False, True, True]
        assert "not counted here" in page
        topic = ("/topics/orders", f"/topics/orders/messages/{ids[0]}", "/topics/orders/dead", "/topics/orders/sent")
        for path in ("/", *topic, "/trouble", "/cost", "/dead", "/search?q=k"):
            assert ask(application, path).status == 200, path
        assert ask(application, "/nothing").status == 404
