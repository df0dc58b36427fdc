"""`tidewheel console` as a process, over a local stack's endpoint."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tidewheel.local import LocalTidewheel

TIDEWHEEL = Path(sys.executable).with_name("tidewheel")
MOST_S = 120


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with LocalTidewheel(clock="real", slot_s=1, lookahead_s=4) as stack:
        stack.client().create_topic("orders")
        yield stack.endpoint_url


def command(endpoint: str, *options: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "AWS_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": "us-east-1"}
    arguments = [str(TIDEWHEEL), "console", "--port", "0", "--json", *options]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@contextmanager
def running(endpoint: str, *options: str) -> Iterator[dict[str, object]]:
    serves = command(endpoint, *options)
    try:
        assert serves.stdout is not None
        yield json.loads(serves.stdout.readline() or "null")
        serves.send_signal(signal.SIGINT)
        rest, errors = serves.communicate(timeout=MOST_S)
        assert rest == ""
        assert "Traceback" not in errors
        assert serves.returncode == 130
    finally:
        serves.kill()
        serves.wait()


def get(address: str) -> tuple[int, str]:
    """Opens the address as a browser does, with the cookie that it gives."""
    parts = urlsplit(address)
    cookie: dict[str, str] = {}
    for path in (f"/?{parts.query}", "/"):
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port or 0, timeout=MOST_S)
        connection.request("GET", path, headers=cookie)
        answer = connection.getresponse()
        text = answer.read().decode()
        cookie = {"Cookie": str(answer.getheader("Set-Cookie")).partition(";")[0]}
        connection.close()
    return answer.status, text


def test_it_tells_its_address_and_only_reads_until_it_is_ended(endpoint: str) -> None:
    with running(endpoint) as ready:
        assert (ready["stack"], ready["changes"]) == ("tidewheel", False)
        status, text = get(str(ready["console"]))
        assert status == 200
        assert "orders" in text
        assert "read only" in text


def test_changes_are_allowed_on_demand(endpoint: str) -> None:
    with running(endpoint, "--allow-changes", "--hide-bodies", "--stack", "tidewheel") as ready:
        status, text = get(str(ready["console"]))
        assert status == 200
        assert "read only" not in text
        assert "Send a message" in text


def test_a_port_that_is_in_use_is_told_in_one_line(endpoint: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        failed = command(endpoint, "--port", str(taken.getsockname()[1]))
        output, errors = failed.communicate(timeout=MOST_S)
    assert failed.returncode == 1
    assert output == ""
    assert len(errors.splitlines()) == 1
    assert "give another port" in errors
