"""The endpoint tells clients of `tidewheel dev`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tidewheel import NotConfigured, Tidewheel, TidewheelError
from tidewheel.client import dev_service
from tidewheel.client.asynchronous import AsyncTidewheel
from tidewheel.client.dev_service import ABOUT, ADVANCED, DevService
from tidewheel.clock import SystemClock

DAY_MS = 86_400_000


@dataclass
class Endpoint:
    """An endpoint that tells of a service, or answers with a text."""

    service: DevService
    text: str | None = None
    asked: int = 0

    def tell(self) -> bytes:
        self.asked += 1
        return (json.dumps(asdict(self.service)) if self.text is None else self.text).encode()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == ABOUT
            self.send_response(200)
            self.end_headers()
            self.wfile.write(found.tell())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        found = Endpoint(DevService(endpoint=url, process=os.getpid(), stack="mine", region="us-east-1"))
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("TIDEWHEEL_DEV", "1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", url.replace("127.0.0.1", "localhost"))
        monkeypatch.setattr(dev_service, "_FRESH_S", 0)
        yield found
        server.shutdown()


def ahead_ms(client: Tidewheel) -> int:
    """How far a client's clock is ahead, to a minute."""
    return round((client.core.clock.now_ms() - SystemClock().now_ms()) / 60_000) * 60_000


def test_a_client_has_the_stack_the_endpoint_and_the_moved_time(endpoint: Endpoint) -> None:
    url = endpoint.service.endpoint
    endpoint.service = replace(endpoint.service, offset_ms=3 * DAY_MS)
    for client in (Tidewheel(), AsyncTidewheel().client, Tidewheel(endpoint_url=url)):
        assert (client.core.connection.stack, ahead_ms(client)) == ("mine", 3 * DAY_MS)
        assert client.core.connection.sqs.meta.endpoint_url == url
    client = Tidewheel()
    endpoint.service = replace(endpoint.service, offset_ms=5 * DAY_MS)
    assert ahead_ms(client) == 5 * DAY_MS
    endpoint.text, before = "ended", endpoint.asked
    assert [ahead_ms(client) for _ in range(3)] == [5 * DAY_MS] * 3
    assert endpoint.asked == before + 1  # and not again for seconds


def test_a_client_uses_the_endpoint_that_it_asked_whatever_that_tells(endpoint: Endpoint) -> None:
    asked = endpoint.service.endpoint
    endpoint.service = replace(endpoint.service, endpoint="http://elsewhere.example:4566")
    assert Tidewheel().core.connection.sqs.meta.endpoint_url == asked


def test_what_a_caller_gives_comes_first(endpoint: Endpoint) -> None:
    endpoint.service = replace(endpoint.service, offset_ms=DAY_MS)
    assert Tidewheel("given").core.connection.stack == "given"
    for client in (
        Tidewheel(session=replace(endpoint.service, region="eu-west-1").session(), clock=SystemClock()),
        Tidewheel(endpoint_url="http://127.0.0.1:1"),
        Tidewheel(endpoint_url="http://elsewhere.example:4566"),
    ):
        assert (client.core.connection.stack, ahead_ms(client)) == ("tidewheel", 0)


def test_without_the_variable_nobody_is_looked_for(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0"):
        monkeypatch.setenv("TIDEWHEEL_DEV", value)
        assert dev_service.service_for(None) is None
        assert Tidewheel().core.connection.stack == "tidewheel"


@pytest.mark.parametrize("text", ["<Error/>", "{}", '{"services": {}}', "[]", '{"process": "x"}'])
def test_an_endpoint_of_another_program_is_none_of_ours(endpoint: Endpoint, text: str) -> None:
    endpoint.text = text
    assert dev_service.service_for(endpoint.service.endpoint) is None
    with pytest.raises(NotConfigured, match="no `tidewheel dev` answers at http://localhost"):
        Tidewheel()


@pytest.mark.parametrize("url", ["http://[none", "http://127.0.0.1:1"])
def test_where_none_answers_it_is_told_how_to_start_one(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("TIDEWHEEL_DEV", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    with pytest.raises(NotConfigured, match="start it with `tidewheel dev`, set AWS_ENDPOINT_URL to its endpoint"):
        Tidewheel()


@pytest.mark.parametrize("ends", [True, False])
def test_moving_time_is_told_on_the_way_and_an_end_of_the_service_is_no_end_of_the_move(ends: bool) -> None:
    lines = ["2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00", f"2026-01-04T00:00:00+00:00 {ADVANCED}"]

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write("\n".join(lines if ends else lines[:2]).encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    moved: list[tuple[float, float]] = []
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        service = DevService(
            endpoint=f"http://127.0.0.1:{server.server_port}",
            process=os.getpid(),
            stack="tidewheel",
            region="us-east-1",
        )
        thread = Thread(target=server.handle_request)
        thread.start()
        if ends:
            assert service.advance("3d", lambda *each: moved.append(each)) == datetime(2026, 1, 4, tzinfo=UTC)
        else:
            with pytest.raises(TidewheelError, match="ended before time had moved by 3d"):
                service.advance("3d", lambda *each: moved.append(each))
        thread.join()
    assert moved == [(0, 3 * 86_400), (86_400, 3 * 86_400)]
